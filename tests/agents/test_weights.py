"""Files of weights: what is in them, that they play as their checkpoints do, and bad ones."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors")
pytest.importorskip("safetensors.torch")

from cule.agents import AGENTS, CheckpointError, RunOptions, start_run  # noqa: E402
from cule.agents.run.checkpoint import read_checkpoint  # noqa: E402
from cule.agents.run.presets import checkpoint_config, load_to_play  # noqa: E402
from cule.agents.run.weights import (  # noqa: E402
    read_to_play,
    read_weights,
    write_weights,
)
from cule.cli import main  # noqa: E402
from cule.errors import InvalidArgumentError, MissingPackageError  # noqa: E402
from tests.support.catch import Catch, Interrupting  # noqa: E402
from tests.support.learners import small_learner  # noqa: E402

#: A run of Pong that costs nothing.
SMALL = ("--num-envs", "4", "--num-steps", "8", "--num-minibatches", "2", "--env-threads", "1")


def run_a2c(folder: Path, env: Catch, total_steps: int, **options: Any) -> bool:
    """Whether a small run is complete."""
    learner = small_learner("a2c", total_steps=total_steps)
    wanted = RunOptions(out=str(folder), eval_episodes=0, progress_bar=False, **options)
    return start_run(type(learner), learner.config, wanted, env=env).run()


def assert_same_network(weights: Mapping[str, Any], checkpoint: Mapping[str, Any]) -> None:
    """The same tensors, bit for bit, and the same counters and options."""
    assert weights["network"].keys() == checkpoint["network"].keys()
    for name, value in checkpoint["network"].items():
        assert weights["network"][name].dtype == value.dtype
        assert torch.equal(weights["network"][name], value), name
    for name in ("algorithm", "config", "obs_shape", "num_actions", "steps", "updates"):
        assert weights[name] == checkpoint[name], name


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_every_learner_comes_back(name: str, tmp_path: Path) -> None:
    agent = small_learner(name)
    agent.save(tmp_path / "a.pt", replay=False)
    agent.save_weights(tmp_path / "a.safetensors")
    weights = read_to_play(tmp_path / "a.safetensors")
    assert_same_network(weights, read_to_play(tmp_path / "a.pt"))
    again = load_to_play(weights, agent.env)
    assert (again.name, again.steps) == (agent.name, agent.steps)


def test_a_run_that_ends_leaves_weights(tmp_path: Path) -> None:
    assert run_a2c(tmp_path, Catch(16), 1280, keep_every=640)
    for stem, checkpoint in (("weights", "latest"), ("checkpoints/640", "640")):
        weights = read_weights(tmp_path / f"{stem}.safetensors")
        assert_same_network(weights, read_checkpoint(tmp_path / "checkpoints" / f"{checkpoint}.pt"))
    with safetensors.safe_open(tmp_path / "weights.safetensors", framework="pt") as file:
        texts = file.metadata()
    assert (texts["algorithm"], texts["steps"]) == ("a2c", "1280")
    assert texts["game"] == json.loads(texts["config"])["game"]


def test_an_interrupted_run_leaves_weights(tmp_path: Path) -> None:
    assert not run_a2c(tmp_path, Interrupting(16), 1_000_000)
    assert read_weights(tmp_path / "weights.safetensors")["steps"] == 640


def test_weights_of_a_former_end_are_not_beside_a_newer_checkpoint(tmp_path: Path) -> None:
    class Killed(Catch):
        """Catch that ends without notice before its 60th step."""

        calls = 0

        def step_frames(self, actions: Any, out: Any = None) -> Any:
            self.calls += 1
            if self.calls == 60:
                raise RuntimeError("killed")
            return super().step_frames(actions, out)

    def go_on(checkpoint_every: int) -> set[str]:
        with pytest.raises(RuntimeError, match="killed"):
            run_a2c(tmp_path, Killed(16), 6400, resume=True, checkpoint_every=checkpoint_every)
        return {path.name for path in tmp_path.glob("weights*")}

    assert run_a2c(tmp_path, Catch(16), 640)
    assert go_on(checkpoint_every=10**9) == {"weights.safetensors"}  # still of the last one
    assert go_on(checkpoint_every=640) == set()
    assert read_checkpoint(tmp_path / "checkpoints" / "latest.pt")["steps"] == 1280
    assert run_a2c(tmp_path, Catch(16), 1920, resume=True)
    assert read_weights(tmp_path / "weights.safetensors")["steps"] == 1920


def test_without_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_learner("a2c").save_weights(tmp_path / "a.safetensors")
    monkeypatch.setattr("cule.agents.run.run.can_write_weights", lambda: False)
    assert run_a2c(tmp_path / "run", Catch(16), 1280, keep_every=640)
    assert not list((tmp_path / "run").rglob("*.safetensors"))
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'cule\[train\]'"):
        read_weights(tmp_path / "a.safetensors")


def test_weights_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = small_learner("a2c")
    path = tmp_path / "new" / "a.safetensors"
    agent.save_weights(path)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        agent.save_weights(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["a.safetensors"]


def damaged(data: bytes) -> dict[str, bytes]:
    """Files that are none, by what is wrong."""
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])

    def with_header(changed: dict[str, Any]) -> bytes:
        text = json.dumps(changed).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + size :]

    def with_texts(**texts: str) -> bytes:
        return with_header({**header, "__metadata__": {**header["__metadata__"], **texts}})

    return {
        "empty": b"",
        "nonsense": b"nonsense" * 20,
        "cut": data[: len(data) // 2],
        "cut header": data[: size // 2],
        "no metadata": with_header({k: v for k, v in header.items() if k != "__metadata__"}),
        "no number": with_texts(steps='"many"'),
        "no JSON": with_texts(config="{"),
        "no options": with_texts(config="[]"),
    }


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    small_learner("a2c").save_weights(path)
    for what, data in damaged(path.read_bytes()).items():
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"a\.safetensors holds no weights of cule"):
            pytest.fail(f"{what}: {read_weights(path)}")
    with pytest.raises(FileNotFoundError):
        read_weights(tmp_path / "missing.safetensors")


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    small_learner("a2c").save_weights(path)
    whole = path.read_bytes()
    (header_bytes,) = struct.unpack("<Q", whole[:8])
    random = np.random.default_rng(1)
    places = {*range(8 + header_bytes), *random.integers(len(whole), size=200).tolist()}
    for place in sorted(places):
        data = bytearray(whole)
        data[place] ^= 1 << random.integers(8)
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match="damaged"):
            pytest.fail(f"byte {place}: {read_weights(path)}")


def test_weights_without_a_checksum_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    small_learner("a2c").save_weights(path)
    with safetensors.safe_open(path, framework="pt") as file:
        texts = {name: text for name, text in file.metadata().items() if name != "crc32"}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    older = tmp_path / "older.safetensors"
    safetensors.torch.save_file(tensors, older, texts)
    assert_same_network(read_weights(older), read_weights(path))


def test_weights_of_something_else(tmp_path: Path) -> None:
    agent = small_learner("a2c")
    agent.save_weights(tmp_path / "a.safetensors")
    good = read_weights(tmp_path / "a.safetensors")
    network = dict(good["network"])
    network.popitem()
    for wrong, sentence in (
        ({"network": network}, "do not fit the network of A2C"),
        ({"algorithm": "sarsa"}, "'sarsa'; known algorithms"),
        ({"obs_shape": [3]}, "obs_shape of the checkpoint"),
        ({"config": {"seed": "one"}}, "options of the checkpoint are not those of a2c"),
        ({"config": {}}, "options of the checkpoint are not those of a2c"),
    ):
        with pytest.raises(CheckpointError, match=sentence):
            load_to_play({**good, **wrong}, agent.env)
    with pytest.raises(InvalidArgumentError, match="gamma is 'one'"):
        load_to_play({**good, "config": {**good["config"], "gamma": "one"}}, agent.env)


@pytest.mark.ale
@pytest.mark.usefixtures("short_episodes")
def test_from_train_to_eval_and_watch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    words = ["train", "ppo", "--game", "pong", *SMALL, "--out", str(run), "--total-steps", "64"]
    assert main([*words, "--eval-episodes", "0"]) == 0
    path = run / "weights.safetensors"
    assert main(["eval", str(path), "--episodes", "10"]) == 0
    assert "ppo after 64 steps" in capsys.readouterr().out

    from cule.watch.policies import PlayOptions, open_trained

    env, policy = open_trained(PlayOptions(checkpoint=path, num_envs=2))
    obs, _ = env.reset(seed=0)
    assert policy.act(obs).shape == (2,)
    assert policy.title == "ppo after 64 steps"
    env.close()
    write_weights(
        tmp_path / "other.safetensors", {**read_weights(path), "algorithm": "x", "version": ""}
    )
    assert main(["eval", str(tmp_path / "other.safetensors")]) == 2
    assert "known algorithms" in capsys.readouterr().err


def test_options_that_would_take_the_machine() -> None:
    """Thousands of games are refused, and the threads of the file are not started."""
    options: dict[str, Any] = {
        "game": "pong",
        "num_envs": 2,
        "env_threads": 700,
        "torch_threads": 900,
    }
    content: Any = {"algorithm": "ppo", "config": {"seed": 0, **options}}
    config = checkpoint_config(content)
    assert (config.env_threads, config.torch_threads) == (0, 0)
    content["config"]["game"] = "pong," * 40_000
    with pytest.raises(InvalidArgumentError, match="game has 40001 names; there are at most 256"):
        checkpoint_config(content)
