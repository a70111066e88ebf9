"""docs/machines.md shows every record of a machine, and refuses what is none."""

from __future__ import annotations

import importlib.util
import json
import shutil
import statistics
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("machine_page", ROOT / "docs/machine_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path, page: ModuleType) -> Path:
    """Folders with the project's records, to which a test adds."""
    for name in page.OURS:
        (tmp_path / "results" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "benchmarks" / "results" / name, tmp_path / "results" / name)
    (tmp_path / "machines").mkdir()
    return tmp_path


def check_report(lanes: int | None = None, **changes: Any) -> dict[str, Any]:
    """What ``cule check`` writes, on a GPU with `lanes`."""
    machine = {"processor": "Z80", "cpus": 3, "gpu": {"name": "G1"}, "build": {"version": "9.9"}}
    speed = [
        {
            "num_envs": 16,
            "kernel": "compiled",
            "lanes_per_warp": None,
            "frames_per_s": 1234567.0,
            "step_ms": 1.0,
        },
        {
            "num_envs": 16,
            "kernel": "compiled",
            "lanes_per_warp": lanes,
            "frames_per_s": 7654.0,
            "step_ms": 1.0,
        },
    ]
    steps = [{"name": "pong = ale-py", "is_right": True, "text": ""}]
    report = {"date": "2030-01-02T03:04", "options": {"device": "cpu"}, "machine": machine}
    return {**report, "steps": steps, "speed": speed, **changes}


def test_every_record_of_the_project_is_shown(page: ModuleType) -> None:
    text = page.markdown((ROOT / "docs/machines.md").read_text())
    record = json.loads((ROOT / "benchmarks/results/gpu-h200-2/fps-57.json").read_text())
    rates = [cell["frames_per_s"] for cell in record["cells"] if cell["num_envs"] == 32768]
    shown = f"| 32,768 | {len(rates)} | {min(rates):,.0f} | {statistics.median(rates):,.0f} |"
    assert f"| NVIDIA H200 | 0.2.0, {record['when'][:10]} | compiled {shown}" in text
    assert "| AMD EPYC, 2 threads | 0.2.0, 2026-11-30 | auto | 16 | 57 |" in text
    assert text.count("<rect") == len(page.rows())


def test_a_report_of_cule_check_adds_a_row(page: ModuleType, root: Path) -> None:
    before = len(page.rows(root))
    (root / "machines" / "z80.json").write_text(json.dumps(check_report()))
    text = page.markdown(page.MARK, root)
    assert "| Z80, 3 threads | 9.9, 2030-01-02 | compiled | 16 | 1 | 1,234,567 |" in text
    assert len(page.rows(root)) == before + 1
    (root / "machines" / "z80.json").write_text(json.dumps(check_report(lanes=2)))
    assert "| G1 | 9.9, 2030-01-02 | compiled | 16 | 1 |" in page.markdown(page.MARK, root)


def test_what_is_no_record_is_refused(page: ModuleType, root: Path) -> None:
    wrong = [{"name": "pong = ale-py", "is_right": False, "text": ""}]
    (root / "machines" / "a.json").write_text(json.dumps(check_report(steps=wrong)))
    with pytest.raises(ValueError, match="pong = ale-py failed"):
        page.rows(root)
    (root / "machines" / "a.json").write_text("{}")
    with pytest.raises(ValueError, match="no record of cule check"):
        page.rows(root)
