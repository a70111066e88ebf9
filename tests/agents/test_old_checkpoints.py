"""Checkpoints of cule 0.2.0 load, or are refused with what to do.

`tests/golden/checkpoints.json` has files that the learners of release 0.2.0 wrote after 20 steps of
Pong, compressed. Tensors of more than 64 floats are zeros, so that they are small.
"""

from __future__ import annotations

import base64
import contextlib
import json
import lzma
import re
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import cule  # noqa: E402
from cule.agents import PPO, ApexDQN, PPOConfig  # noqa: E402
from cule.agents.run.checkpoint import read_checkpoint, write_checkpoint  # noqa: E402
from cule.agents.run.presets import checkpoint_config  # noqa: E402
from cule.errors import CheckpointError  # noqa: E402

FILES = Path(__file__).parents[1] / "golden" / "checkpoints.json"


def unpack(name: str, folder: Path) -> Path:
    path = folder / f"{name}.pt"
    data = base64.b64decode(json.loads(FILES.read_text())[name])
    path.write_bytes(lzma.decompress(data))
    return path


@pytest.mark.ale
@pytest.mark.filterwarnings("ignore::cule.ShortReplayWarning")
@pytest.mark.parametrize(
    ("learner", "updates", "has_states"), [(PPO, 10, True), (ApexDQN, 1, False)]
)
def test_a_checkpoint_of_0_2_0_continues(
    learner: Any, updates: int, has_states: bool, tmp_path: Path
) -> None:
    """It continues on new episodes, because snapshots have another format now."""
    path = unpack(learner.name, tmp_path)
    saved = torch.load(path, weights_only=True)
    assert saved["version"] == "0.2.0"
    message = "new episodes begin, .*another version of the snapshot format"
    with pytest.warns(match=message) if has_states else contextlib.nullcontext():
        agent = learner.load(path)
    assert (agent.steps, agent.updates) == (20, updates)
    assert not agent.has_begun
    weights = agent.network.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in saved["network"].items())
    assert [progress.steps for progress in agent.train()][-1] == 64
    assert agent.updates > updates
    config = checkpoint_config(read_checkpoint(path))
    assert (config.game, config.num_envs) == ("pong", saved["config"]["num_envs"])


def test_damaged_environments_are_no_older_version(tmp_path: Path) -> None:
    config = {"game": "pong", "num_envs": 1, "num_steps": 4, "num_minibatches": 1, "device": "cpu"}
    agent = PPO(PPOConfig(network="small", img_size=42, total_steps=8, **config))
    list(agent.train())
    path = tmp_path / "x.pt"
    agent.save(path)
    saved = torch.load(path, weights_only=True)
    assert PPO.load(path).has_begun
    states = torch.as_tensor(saved["env"]).clone()
    states[0, 500] ^= 1
    write_checkpoint(path, {**saved, "env": states})
    with pytest.raises(cule.InvalidStateError, match="corrupted"):
        PPO.load(path)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("ppo", "prio", True),
        ("ppo", "vtrace", True),
        ("apex-dqn", "laber", True),
        ("apex-dqn", "uniform_mixture", 0.25),
    ],
)
def test_a_run_with_an_option_that_is_gone_is_refused(
    name: str, option: str, value: object, tmp_path: Path
) -> None:
    path = unpack(name, tmp_path)
    saved = torch.load(path, weights_only=True)
    assert option in saved["config"]
    write_checkpoint(path, {**saved, "config": {**saved["config"], option: value}})
    with pytest.raises(CheckpointError, match=f"{option} = {value}.*use it with that version"):
        read_checkpoint(path)


def test_options_keep_their_values_under_another_spelling(tmp_path: Path) -> None:
    path = unpack("ppo", tmp_path)
    saved = torch.load(path, weights_only=True)
    old = {"initialisation": "he", "normalise_advantages": False, "normalise_values": True}
    write_checkpoint(path, {**saved, "config": {**saved["config"], **old}})
    config = checkpoint_config(read_checkpoint(path))
    assert config.initialization == "he"
    assert (config.normalize_advantages, config.normalize_values) == (False, True)


def test_words_have_one_spelling() -> None:
    folder = Path(cule.__file__).parent
    pages = [*folder.rglob("*.py"), *(folder.parent / "docs").rglob("*.md")]
    allowed = folder / "agents" / "run" / "folders.py"
    for page in pages:
        if page != allowed:
            assert re.search("normalis|initialis", page.read_text(), re.I) is None, page
