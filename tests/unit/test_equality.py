"""``cule.check.equality`` and ``benchmarks/equality.py`` find what differs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from benchmarks import equality as script  # noqa: E402
from cule.check import equality  # noqa: E402


def test_the_first_difference_of_each_game_is_kept() -> None:
    comparison = equality.Comparison(["pong", "breakout", "freeway"], 2)
    ours, expected = torch.zeros(6, 4, 2), torch.zeros(6, 4, 2)
    comparison.compare(1, "obs", ours, expected)
    assert not comparison.differences
    ours[3, 2, 1] = 1
    comparison.compare(2, "obs", ours, expected)
    ours[2:] = 1
    comparison.compare(3, "ram", ours, expected)
    assert comparison.differences == {
        "breakout": {"step": 2, "env": 3, "result": "obs"},
        "freeway": {"step": 3, "env": 4, "result": "ram"},
    }


@pytest.mark.ale
@pytest.mark.parametrize("is_wrong", [False, True])
def test_the_exit_status_and_the_record(
    is_wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, calls = equality.play, []

    def play_wrongly(*arguments: object) -> list[equality.Results]:
        results = play(*arguments)
        calls.append(True)
        if is_wrong and len(calls) == 3:  # the first back end's second chunk
            results[0]["ram"][1, 5] ^= 1
        return results

    monkeypatch.setattr(equality, "play", play_wrongly)
    out = tmp_path / "out" / "record.json"
    words = ["--games", "pong", "freeway", "--envs-per-game", "1", "--device", "cpu"]
    monkeypatch.setattr(
        sys, "argv", ["equality", *words, "--steps", "5", "--chunk", "3", "--out", str(out)]
    )
    assert script.main() == is_wrong
    record = json.loads(out.read_text())
    assert record["steps_wanted"] == 5
    (batch,) = record["batches"]
    assert (batch["games"], batch["steps"]) == (["pong", "freeway"], 5)
    difference = {"freeway": {"step": 4, "env": 1, "result": "ram"}}
    assert batch["differences"] == (difference if is_wrong else {})


@pytest.mark.ale
def test_compiled_kernels_play_a_game_at_a_time_until_the_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "record.json"
    words = ["--games", "pong", "freeway", "--kernel", "compiled", "--device", "cpu"]
    words += ["--envs-per-game", "1", "--steps", "50", "--chunk", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["equality", *words, "--seconds", "0"])
    # Nothing but the observations of the reset was compared, which is not enough.
    assert script.main() == 1
    record = json.loads(out.read_text())
    assert [(batch["games"], batch["steps"]) for batch in record["batches"]] == [
        (["pong"], 0),
        (["freeway"], 0),
    ]
