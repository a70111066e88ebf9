"""``cule bench`` on a GPU: launch geometries give the same results as each other and as the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cule.bench import suite
from cule.cli import main

pytestmark = [pytest.mark.gpu, pytest.mark.ale]


@pytest.mark.long
@pytest.mark.parametrize("load", ["emulation", "divergence"])
def test_launch_geometries(load: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "can_plot", lambda: False)
    names = ["cule-cuda", "cule-cuda@2x1", "cule-cuda@8x2@interpreter"]
    words = ["bench", "--games", "pong", "--num-envs", "20", "--load", load, "--threads", "1"]
    words += ["--seconds", "0", "--rounds", "2", "--round-steps", "1", "--divergence-steps", "2"]
    words += ["--no-memory", "--engines", *names, "--out", str(tmp_path)]
    assert main(words) == 0
    record = json.loads((tmp_path / "records" / f"{load}-20-pong.json").read_text())
    runs: dict[str, Any] = record["divergence_runs" if load == "divergence" else "runs"]
    assert list(runs) == names
    assert len({run["digest_of_ram"] for run in runs.values()}) == 1
    if load == "emulation":
        assert record["check"] == {
            "steps_equal_to_ale": 0,
            "gpu_steps_equal_to_cpu": 8,
            "gpu_envs_compared": 16,
        }
