"""``cule check`` on a GPU: equal to the CPU, and the fastest geometry is kept and used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from cule.check import command
from cule.check.speed import Speed
from cule.cli import main
from cule.envs.launch import choose_geometry, geometry_for

pytestmark = [pytest.mark.gpu, pytest.mark.ale, pytest.mark.long]


@pytest.fixture(autouse=True)
def few_envs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ENVS_PER_GAME", 4)


@pytest.mark.parametrize("tunes", [True, False])
def test_check(
    tunes: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CULE_CACHE", str(tmp_path / "cache"))
    measured = []

    def measure(game: str, device: str, num_envs: int, kernel: str, *rest: object) -> Speed:
        found = real_measure(game, device, num_envs, kernel, *rest)
        measured.append((num_envs, kernel, found.lanes_per_warp))
        # Two lanes are faster than one.
        return Speed(num_envs, kernel, found.lanes_per_warp, 1e6 * found.lanes_per_warp, 1.0)

    real_measure = command.measure
    monkeypatch.setattr(command, "measure", measure)
    out = tmp_path / "check.json"
    words = ["check", "--device", "cuda", "--games", "pong", "--steps", "4", "--seconds", "0"]
    words += ["--num-envs", "6", "--out", str(out), "--tune" if tunes else "--no-tune"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "compiled = interpreter of the CPU: 4 steps of 4 environments" in text
    defaults = [(6, "interpreter", 1), (6, "compiled", 1)]
    assert measured == ([*defaults, (6, "compiled", 2)] if tunes else defaults)
    report = json.loads(out.read_text())
    assert report["machine"]["gpu"] is not None
    assert len(report["speed"]) == len(measured)
    assert all(step["is_right"] for step in report["steps"])
    device = torch.device("cuda:0")
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    assert choose_geometry(6, device).lanes_per_warp == (2 if tunes else 1)
    assert choose_geometry(8, device).lanes_per_warp == (2 if tunes else 1)
    assert choose_geometry(4096, device) == geometry_for(4096, processors)


def test_a_step_that_differs_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cule.check import equality

    real_play = equality.play

    def play(env: object, actions: object) -> list[equality.Results]:
        results = real_play(env, actions)
        if str(results[0]["obs"].device) != "cpu":
            results[1]["reward"][3] += 1
        return results

    monkeypatch.setattr(equality, "play", play)
    out = tmp_path / "check.json"
    words = ["check", "--device", "cuda", "--games", "pong", "--steps", "3", "--seconds", "0"]
    assert main([*words, "--num-envs", "2", "--no-tune", "--out", str(out)]) == 1
    difference = "{'pong': {'step': 2, 'env': 3, 'result': 'reward'}}"
    assert difference in capsys.readouterr().out
