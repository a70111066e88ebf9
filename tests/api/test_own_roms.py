"""A ROM with rules of the user's own, wherever a game is taken."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import cule
from cule.cli import main
from cule.watch.command import parse
from cule.watch.policies import open_random
from tests.support.api import rom_path

pytestmark = pytest.mark.ale

RULES = '''
[mine]
minimal_actions = [0, 2, 5]
modes = [0]
difficulties = [0]
state = { score = 0, reward = 0, terminal = 0 }
lives = "7"
step = """
reward = 1
score = score + 1
terminal = score >= 60"""
'''


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A file with rules of a game named mine."""
    file = tmp_path / "mine.toml"
    file.write_text(RULES)
    return file


def test_interface(rules: Path) -> None:
    ale = cule.ALEInterface()
    ale.loadROM(rom_path("pong"), rules=rules)
    assert ale.lives() == 7
    assert len(ale.getMinimalActionSet()) == 3
    assert ale.act(0) == 1
    with pytest.raises(cule.UnknownGameError, match="'other' has no table"):
        ale.loadROM(rom_path("pong"), game="other", rules=rules)
    assert ale.act(0) == 1  # the console is still there
    ale.loadROM(rom_path("pong"))
    assert ale.lives() == 0


def test_one_environment(rules: Path) -> None:
    options = {"game": "mine", "rom_path": rom_path("pong"), "rules": rules}
    for env in (gymnasium.make("cule/Pong-v5", **options), cule.AtariEnv(**options)):
        env.reset(seed=0)
        _, reward, _, _, info = env.step(0)
        assert (reward, info["lives"]) == (4, 7)
        assert env.action_space.n == 3


@pytest.mark.parametrize("folder", [".", "~"])
def test_resets_and_pickles_in_another_folder(
    rules: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(rules.parent)
    monkeypatch.setenv("HOME", str(rules.parent))
    options = {"rom_path": rom_path("pong"), "rules": f"{folder}/{rules.name}"}
    env, batch = cule.AtariEnv("mine", **options), cule.AtariVectorEnv("mine", 2, **options)
    monkeypatch.chdir("/")
    for _ in range(2):
        env.reset(seed=0)
        assert env.step(0)[1] == 4
        batch.reset(seed=0)
        assert batch.step(np.zeros(2, np.int64))[1].tolist() == [1, 1]  # clipped
        env, batch = pickle.loads(pickle.dumps((env, batch)))


def test_a_game_without_rules_mentions_them(tmp_path: Path) -> None:
    file = tmp_path / "mine.bin"
    file.write_bytes(bytes(4096))
    for make in (
        lambda: cule.AtariVectorEnv("mine", 1, rom_path=file),
        lambda: cule.AtariEnv("mine", rom_path=file),
    ):
        with pytest.raises(cule.UnknownGameError, match="for a game of your own, pass rules"):
            make()


def test_watch(rules: Path) -> None:
    words = ["--game", "mine", "--rom-path", str(rom_path("pong")), "--rules", str(rules)]
    options = parse(words)
    env, _ = open_random(dataclasses.replace(options, num_envs=2))
    env.reset(seed=0)
    assert env.lives.tolist() == [7, 7]
    env.close()


def test_train_eval_and_watch(
    rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from cule.watch.policies import PlayOptions, open_trained

    run = tmp_path / "run"
    words = ["--game", "mine", "--rom-path", str(rom_path("pong")), "--rules", str(rules)]
    words += ["--num-envs", "2", "--num-steps", "4", "--num-minibatches", "1", "--num-epochs", "1"]
    words += ["--network", "small", "--total-steps", "16", "--eval-episodes", "0"]
    words += ["--decorrelate-steps", "0", "--out", str(run)]
    assert main(["train", "ppo", *words]) == 0
    moved = rules.with_name("moved.toml")
    rules.rename(moved)
    scores = tmp_path / "scores.json"
    words = ["eval", str(run), "--episodes", "10", "--json", str(scores)]
    assert main(words) == 2
    assert "mine.toml" in capsys.readouterr().err
    assert main([*words, "--rules", str(moved)]) == 0
    (record,) = json.loads(scores.read_text())
    assert record["game"] == "mine"
    assert all(0 < length <= 15 for length in record["lengths"])
    env, _ = open_trained(
        PlayOptions(checkpoint=run, num_envs=2, game="mine", rules=str(moved), greedy=True)
    )
    assert env.config.game == "mine"
    env.close()
