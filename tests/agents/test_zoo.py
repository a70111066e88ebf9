"""Agents of the zoo: cards, checksums, and play."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import cule
from cule import cli, zoo
from cule.agents import evaluate, load
from cule.watch.policies import PlayOptions, open_trained

ROOT = Path(__file__).parents[2]
WEIGHTS = ROOT / "zoo" / "cule_zoo"
NAMES = sorted(zoo.cards())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the package, whether it is installed or not."""
    monkeypatch.syspath_prepend(str(ROOT / "zoo"))
    monkeypatch.delitem(sys.modules, "cule_zoo", raising=False)


def test_every_agent_has_weights_and_every_file_a_card() -> None:
    assert len(NAMES) >= 12
    assert [path.stem for path in sorted(WEIGHTS.glob("*.safetensors"))] == NAMES
    for name, card in zoo.cards().items():
        data = (WEIGHTS / f"{name}.safetensors").read_bytes()
        assert hashlib.sha256(data).hexdigest() == card.sha256
        assert card.noop.low <= card.noop.mean <= card.noop.high
        assert f"--game {card.game} --seed" in card.command
        assert len(card.curve) >= 10
        assert card.curve[-1][0] >= 0.9 * card.steps


def check_score(name: str, protocol: str, episodes: int) -> None:
    """Play other episodes than those of the card: their mean is within four standard errors."""
    card: zoo.Score = getattr(zoo.find_card(name), protocol)
    found = evaluate(load(f"zoo:{name}"), episodes=episodes, protocol=protocol, seed=1)
    of_card = (card.high - card.low) / 2 / 1.96
    spread = max(found.std, of_card * card.episodes**0.5)
    error = (spread**2 / len(found.returns) + of_card**2) ** 0.5
    assert abs(found.mean - card.mean) <= 4 * error + 1e-9


def test_an_agent_has_the_score_of_its_card(installed: None) -> None:
    check_score("boxing-pixels", "noop", 16)


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["noop", "sticky"])
@pytest.mark.parametrize("name", NAMES)
def test_all_agents_have_the_scores_of_their_cards(
    installed: None, name: str, protocol: str
) -> None:
    check_score(name, protocol, 64)


def test_commands_take_an_agent(
    installed: None, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "record.json"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    words = ["eval", "zoo:pong-objects", "--episodes", "10", "--json", str(record)]
    assert cli.main(words) == 0
    assert json.loads(record.read_text())[0]["mean"] > 10
    shown = capsys.readouterr().err.split("\r")
    assert shown[1] == "0 of 10 episodes"
    assert shown[-3].endswith(" of 10 episodes")
    assert shown[-2:] == [" " * len("10 of 10 episodes"), ""]
    assert cli.main(["zoo", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-len(NAMES) :]] == [
        f"zoo:{name}" for name in NAMES
    ]
    assert cli.main(["zoo", "show", "zoo:pong-objects"]) == 0
    assert zoo.find_card("pong-objects").sha256 in capsys.readouterr().out


def test_an_agent_plays_in_environments_of_its_own(installed: None) -> None:
    agent = load("zoo:pong-objects", num_envs=3)
    env = agent.setup.env
    obs, _ = env.reset(seed=0)
    assert agent.predict(obs).shape == (3,)
    env.close()
    played, policy = open_trained(PlayOptions(checkpoint=Path("zoo:pong-objects"), num_envs=2))
    assert policy.title == f"zoo:pong-objects after {agent.steps:,} steps"
    played.close()


def test_a_wrong_name_and_a_file_of_another_version(
    installed: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(cule.InvalidArgumentError, match="did you mean pong-objects"):
        load("zoo:pong-object")
    with pytest.raises(cule.InvalidArgumentError, match="must be 'cpu', 'cuda' or 'cuda:<number>'"):
        load("zoo:pong-objects", device="gpu")
    spec = ModuleSpec("cule_zoo", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: spec)
    with pytest.raises(cule.CheckpointError, match="has the SHA-256 none"):
        load("zoo:pong-objects")
    path = tmp_path / "pong-objects.safetensors"
    path.write_bytes(b"something else")
    with pytest.raises(cule.CheckpointError, match="that of the card is"):
        load("zoo:pong-objects")
    os.truncate(path, 2**34)
    with pytest.raises(cule.CheckpointError, match="cannot be read: it is larger than"):
        load("zoo:pong-objects")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(cule.CheckpointError, match=r"cannot be read: .*no regular file"):
        load("zoo:pong-objects")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(cule.MissingPackageError, match=r"pip install --no-deps \./zoo"):
        zoo.find_weights("pong-objects")


@pytest.mark.long
def test_the_wheel_holds_the_weights(tmp_path: Path) -> None:
    words = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", *words, str(ROOT / "zoo")], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert {f"cule_zoo/{name}.safetensors" for name in NAMES} <= set(
        zipfile.ZipFile(wheel).namelist()
    )
