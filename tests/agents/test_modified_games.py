"""Training and evaluation in modified games."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from cule.agents import PPOConfig  # noqa: E402
from cule.agents.run.evaluation import modifications_to_play  # noqa: E402
from cule.cli import main  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402

SMALL = [
    *("--num-envs", "2", "--num-steps", "4", "--num-minibatches", "1", "--num-epochs", "1"),
    *("--network", "small", "--img-size", "42", "--stack-num", "1", "--decorrelate-steps", "0"),
    *("--eval-episodes", "0", "--no-progress-bar"),
]


@pytest.mark.ale
def test_modified_games(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, scores = tmp_path / "run", tmp_path / "scores.json"
    train = [
        "train",
        "ppo",
        *SMALL,
        "--total-steps",
        "8",
        "--modifications",
        "lazy_enemy | original",
    ]
    assert main([*train, "--out", str(run)]) == 0
    words = ["eval", str(run), "--episodes", "10", "--json", str(scores), "--modifications"]
    capsys.readouterr()
    assert main([*words, "start_score(theirs=20, mine=0)"]) == 0
    printed = capsys.readouterr().out
    before, after = json.loads(scores.read_text())
    assert before["modifications"] is None
    assert after["modifications"] == "start_score(theirs=20, mine=0)"
    # The game ends at 21 points: what was not played gave no reward.
    change = after["mean"] - before["mean"]
    assert change > 10
    row = re.search(r"^start_score\(theirs=20, mine=0\) +(\S+) +\+(\S+)  \[\+(\S+), \+(\S+)\]  \+\d+%$",
                    printed, re.MULTILINE)  # fmt: skip
    assert row is not None, printed
    mean, shift, low, high = map(float, row.groups())
    assert (mean, shift) == (round(after["mean"], 2), round(change, 2))
    assert low <= shift <= high
    capsys.readouterr()
    assert main([*words, "lazy"]) == 2
    assert not capsys.readouterr().out  # before anything is played
    assert main([*words, "lazy_enemy", "--versus", "random"]) == 2
    assert "with --versus it must be left out" in capsys.readouterr().err


def test_all_modifications_are_played() -> None:
    names = list(modifications_to_play(PPOConfig(game="pong"), "all").values())
    assert names[:3] == [None, "lazy_enemy", "frozen_enemy"]
    assert "mirrored_controls" in names
    assert "no_reward" not in names
    with pytest.raises(InvalidArgumentError, match="it must be one game"):
        modifications_to_play(PPOConfig(game="pong,breakout"), "all")
