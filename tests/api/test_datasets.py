"""Datasets: what is recorded is played again, and what is damaged or different is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import signal
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cule
from cule.cli import main
from cule.datasets import Recorder, open_dataset
from cule.datasets.format import Segment, read_log, write_log
from tests.fuzz.hostile import dataset_file
from tests.support.api import MakeEnv, actions_for, rom_path
from tests.support.cases import long_except

pytestmark = pytest.mark.ale

#: Short episodes, so that a few steps have several.
SHORT = {"episode_info": True, "max_num_frames_per_episode": 120}


def record(
    env: cule.AtariVectorEnv, path: Path, steps: int = 70, seeds: tuple[int, ...] = (3,)
) -> list[list[tuple[Any, ...]]]:
    """Record trajectories; for each seed obs, reward, terminated, truncated, next obs of steps."""
    recorder = Recorder(env, digest_every=20)
    seen = []
    for seed in seeds:
        obs, _ = recorder.reset(seed=seed)
        rows = []
        for actions in actions_for(env, seed, steps):
            before = obs
            obs, reward, terminated, truncated, info = recorder.step(actions)
            after = obs.copy()
            if "final_obs" in info:
                after[info["_final_info"]] = info["final_obs"][info["_final_info"]]
            rows.append((before, actions, reward, terminated, truncated, after))
            ended = terminated | truncated
            if env.config.autoreset_mode.value == "Disabled" and ended.any():
                obs, _ = recorder.reset(options={"reset_mask": ended})
        seen.append(rows)
    recorder.save(path)
    return seen


def assert_same(step: Any, row: tuple[Any, ...], part: slice) -> None:
    found = (step.obs, step.action, step.reward, step.terminated, step.truncated, step.next_obs)
    for value, expected in zip(found, row, strict=True):
        np.testing.assert_array_equal(value, expected[part])


@pytest.mark.parametrize("mode", long_except(["NextStep", "SameStep", "Disabled"], "SameStep"))
@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("pong", {}),
        ("breakout", {"life_loss_info": True}),
        ("seaquest", {"repeat_action_probability": 0.25}),
        ("space_invaders", {"resets": "cached", "num_reset_states": 2}),
        ("freeway", {"mode": [0, 1, 0], "episodic_life": True}),
        ("pong", {"modifications": "shaking_enemy, player_x(x=100)"}),
        ("breakout", {"action_delay": [0, 3, 9], "repeat_action_probability": 0.25}),
        ("breakout", {"modifications": [[], "drift_left(n=2)", ["random_brick_colors"]]}),
        ("freeway", {"modifications": ["people", None, ["car_shape", "same_speed"]]}),
    ],
)
def test_a_replay_equals_the_recording(
    make_env: MakeEnv, tmp_path: Path, game: str, options: dict[str, Any], mode: str
) -> None:
    small = {"img_height": 20, "img_width": 30, "stack_num": 2}
    env = make_env(game, 3, autoreset_mode=mode, **SHORT, **small, **options)
    seen = record(env, tmp_path / "x.cule", seeds=(3, 50))
    dataset = open_dataset(tmp_path / "x.cule")
    assert (dataset.game, len(dataset), dataset.seeds) == (game, 420, (3, 4, 5, 50, 51, 52))
    steps = list(dataset.replay(num_envs=2, num_threads=1))
    assert sum(len(step.trajectory) for step in steps) == len(dataset)
    for step in steps:
        segment, first = divmod(int(step.trajectory[0]), 3)
        part = slice(first, first + len(step.trajectory))
        assert_same(step, seen[segment][step.step], part)
    assert any(step.truncated.any() for step in steps)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize(
    "options", long_except([{}, {"life_loss_info": True}], {"life_loss_info": True})
)
def test_episodes_are_those_of_the_environment(
    make_env: MakeEnv, tmp_path: Path, mode: str, options: dict[str, Any]
) -> None:
    env = make_env("breakout", 3, autoreset_mode=mode, episode_info=True, **options)
    record(env, tmp_path / "x.cule", steps=400)
    dataset = open_dataset(tmp_path / "x.cule")
    rows = {
        (int(trajectory), step.step): index
        for step in dataset.replay(obs_type="ram", reward_clipping=False)
        for trajectory, index in zip(
            step.trajectory,
            zip(step.reward, step.terminated | step.truncated, step.valid, strict=True),
            strict=True,
        )
    }
    left = {key for key, (_, _, valid) in rows.items() if valid}
    assert any(episode.terminated for episode in dataset.episodes)
    for episode in dataset.episodes:
        keys = [(episode.trajectory, step) for step in range(episode.start, episode.stop)]
        assert sum(int(rows[key][0]) for key in keys) == episode.episode_return
        ends = [bool(rows[key][1]) for key in keys]
        assert ends == [False] * (len(keys) - 1) + [episode.terminated or episode.truncated]
        left -= set(keys)
    assert not left
    assert (mode == "NextStep") or all(valid for _, _, valid in rows.values())


def test_other_observations_of_the_same_games(make_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "x.cule"
    record(make_env(**SHORT), path)
    dataset = open_dataset(path)
    other = make_env(grayscale=False, img_height=42, stack_num=1, reward_clipping=False)
    expected, _ = other.reset(seed=3)
    view = {"grayscale": False, "img_height": 42, "stack_num": 1, "reward_clipping": False}
    np.testing.assert_array_equal(next(dataset.replay(**view)).obs, expected)
    assert next(dataset.replay(obs_type="ram")).obs.shape == (2, 128)
    tensors = next(dataset.replay(output="torch"))
    assert type(tensors.obs).__module__ == "torch"


@pytest.mark.parametrize(
    ("name", "value"),
    [("frameskip", 5), ("repeat_action_probability", 0.25), ("autoreset_mode", "SameStep")],
)
def test_options_that_change_games_are_refused(
    make_env: MakeEnv, tmp_path: Path, name: str, value: Any
) -> None:
    record(make_env(**SHORT, action_delay=[0, 1]), tmp_path / "x.cule", steps=2)
    dataset = open_dataset(tmp_path / "x.cule")
    with pytest.raises(cule.InvalidArgumentError, match=f"{name} is .*was recorded with"):
        dataset.replay(**{name: value})
    next(dataset.replay(**{name: dataset.options[name]}))
    next(dataset.replay(num_envs=1, action_delay=(0, 1)))
    next(dataset.replay(num_envs=1, action_delay=np.array([0, 1])))
    with pytest.raises(cule.InvalidArgumentError, match=r"action_delay is .*was recorded with"):
        dataset.replay(action_delay=np.array([0, 2]))
    with pytest.raises(TypeError, match="unexpected keyword argument 'num_steps'"):
        dataset.replay(num_steps=2)


def test_every_changed_byte_is_noticed(make_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "x.cule"
    record(make_env(**SHORT), path, steps=5)
    data = path.read_bytes()
    for index in range(len(data)):
        path.write_bytes(data[:index] + bytes([data[index] ^ 0x41]) + data[index + 1 :])
        with pytest.raises(cule.DatasetError):
            open_dataset(path)
    for size in (0, 4, 8, 18, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(cule.DatasetError):
            open_dataset(path)
    path.write_bytes(data + b"\0")
    with pytest.raises(cule.DatasetError, match="checksum"):
        open_dataset(path)
    path.write_bytes(b"PK\3\4 something else")
    with pytest.raises(cule.DatasetError, match="a dataset starts with b'CULEDATA'"):
        open_dataset(path)


def test_headers_that_are_not_well_formed(make_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "x.cule"
    record(make_env(**SHORT), path, steps=5)
    log = read_log(path)
    (segment,) = log.segments
    for change in (
        {"options": {}},
        {"options": {**log.options, "device": "cuda"}},
        {"digest_every": 0},
        {"rom_md5": 3},
        {"action_set": "NOOP"},
        {"action_set": (1, 2)},
        {"segments": (dataclasses.replace(segment, num_episodes=2**60),)},
        {"segments": (dataclasses.replace(segment, num_episodes=1),)},
        {"segments": (dataclasses.replace(segment, seeds=("a", "b")),)},  # type: ignore[arg-type]
    ):
        write_log(path, dataclasses.replace(log, **change))
        with pytest.raises(cule.DatasetError, match=r"x\.cule cannot be read"):
            open_dataset(path)


def test_a_block_is_not_expanded_beyond_its_size(make_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "x.cule"
    record(make_env(**SHORT), path, steps=5)
    log = read_log(path)
    bomb = Segment.pack(
        (1,),
        np.zeros((1, 1 << 20), np.uint8),
        np.zeros((1, 1), np.uint32),
        np.zeros((0, 5), np.int64),
    )
    write_log(path, dataclasses.replace(log, segments=(dataclasses.replace(bomb, num_steps=10),)))
    with pytest.raises(cule.DatasetError, match="does not hold the 10 bytes"):
        next(open_dataset(path).replay())


def test_another_rom_is_refused(make_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "x.cule"
    record(make_env(**SHORT), path, steps=5)
    with pytest.raises(cule.UnsupportedRomError):
        open_dataset(path).replay(rom_path=rom_path("breakout"))
    write_log(path, dataclasses.replace(read_log(path), rom_md5="0" * 32))
    with pytest.raises(cule.DatasetError, match=r"has MD5 [0-9a-f]{32}; .*recorded with 0{32}"):
        open_dataset(path).replay()


def test_a_replay_that_differs_is_noticed(make_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "x.cule"
    record(make_env(**SHORT), path)
    log = read_log(path)
    (segment,) = log.segments
    actions = segment.actions().copy()
    actions[1, 21:40] = 2 + (actions[1, 21:40] == 2)
    changed = Segment.pack(segment.seeds, actions, segment.digests(20), segment.episodes())
    write_log(path, dataclasses.replace(log, segments=(changed,)))
    with pytest.raises(cule.DigestMismatchError, match="trajectory 1 after step 40: the digest"):
        list(open_dataset(path).replay())


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_shuffling_is_a_permutation(make_env: MakeEnv, tmp_path: Path, mode: str) -> None:
    record(make_env(**SHORT, autoreset_mode=mode), tmp_path / "x.cule")
    dataset = open_dataset(tmp_path / "x.cule")
    expected = {
        (int(trajectory), step.step): (step.obs[row].tobytes(), step.next_obs[row].tobytes())
        for step in dataset.replay(obs_type="ram")
        for row, trajectory in enumerate(step.trajectory)
        if step.valid[row]
    }
    orders = []
    for seed in (0, 0, 1):
        batches = list(dataset.transitions(8, window=30, seed=seed, obs_type="ram"))
        assert {len(batch.action) for batch in batches[:-1]} == {8}
        order = []
        for batch in batches:
            for row, key in enumerate(zip(batch.trajectory, batch.step, strict=True)):
                order.append((int(key[0]), int(key[1])))
                pair = (batch.obs[row].tobytes(), batch.next_obs[row].tobytes())
                assert pair == expected[order[-1]]
        assert sorted(order) == sorted(expected)
        orders.append(order)
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != sorted(orders[0], key=lambda key: key[::-1])


def test_tensors_equal_arrays(make_env: MakeEnv, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    record(make_env(**SHORT), tmp_path / "x.cule", steps=20)
    dataset = open_dataset(tmp_path / "x.cule")
    arrays = dataset.transitions(8, window=16)
    tensors = dataset.transitions(8, window=16, framework="torch")
    for array_batch, tensor_batch in zip(arrays, tensors, strict=True):
        for array, tensor in zip(array_batch, tensor_batch, strict=True):
            assert isinstance(tensor, torch.Tensor)
            np.testing.assert_array_equal(array, tensor.numpy())
    with pytest.raises(cule.InvalidArgumentError, match="output is 'torch'"):
        dataset.transitions(8, output="torch")
    with pytest.raises(cule.InvalidArgumentError, match="window is 4"):
        dataset.transitions(8, window=4)


def test_a_window_is_no_larger_than_the_dataset(
    make_env: MakeEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(make_env(**SHORT), tmp_path / "x.cule", steps=20)
    dataset = open_dataset(tmp_path / "x.cule")
    whole = dataset.transitions(8, window=len(dataset), obs_type="ram")
    widest = dataset.transitions(8, window=2**28, obs_type="ram")
    for one, other in zip(whole, widest, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    monkeypatch.setattr("cule.datasets.shuffling.free_host_bytes", lambda: 10_000)
    with pytest.raises(cule.CapacityError, match=r"a window of .* needs .*; .* are free"):
        next(dataset.transitions(8, window=2**28))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "episode_info"),
        ({"episode_info": True, "continuous": True}, "continuous"),
        ({"episode_info": True, "decorrelate_steps": 3}, "decorrelate_steps"),
        ({"episode_info": True, "batch_size": 1}, "batch_size"),
        ({"game": [("pong", 1), ("breakout", 1)], "episode_info": True}, "game"),
    ],
)
def test_what_cannot_be_recorded(make_env: MakeEnv, options: dict[str, Any], name: str) -> None:
    with pytest.raises(cule.InvalidArgumentError, match=f"{name} is .*for a recording"):
        Recorder(make_env(**options))


def test_what_is_no_environment_cannot_be_recorded() -> None:
    with pytest.raises(cule.InvalidArgumentError, match="env is None; it must be an AtariVec"):
        Recorder(None)  # type: ignore[arg-type]


def test_modifications_in_files_cannot_be_recorded(make_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "mods.toml"
    path.write_text('[[modifications]]\nname = "a"\nwhen = "reset"\nprogram = "poke(3, 0)"\n')
    for modifications in (f"{path}:a", [["lazy_enemy", f"{path}:a"]]):
        env = make_env("pong", 1, modifications=modifications, **SHORT)
        with pytest.raises(cule.InvalidArgumentError, match=r"modifications is .*for a recording"):
            Recorder(env)
    record(make_env("pong", 1, **SHORT), tmp_path / "x.cule", steps=2)
    log = read_log(tmp_path / "x.cule")
    options = log.options | {"modifications": [f"{path}:a"]}
    write_log(tmp_path / "x.cule", dataclasses.replace(log, options=options))
    with pytest.raises(cule.DatasetError, match=r"modifications is .*for a recording"):
        open_dataset(tmp_path / "x.cule")


def test_a_dataset_from_before_modifications(make_env: MakeEnv, tmp_path: Path) -> None:
    path = tmp_path / "x.cule"
    record(make_env(**SHORT), path, steps=5)
    log = read_log(path)
    options = {name: value for name, value in log.options.items() if name != "modifications"}
    write_log(path, dataclasses.replace(log, options=options))
    assert len(list(open_dataset(path).replay())) == 5


def test_games_of_several_players_cannot_be_recorded() -> None:
    env = cule.MultiAgentVectorEnv("pong", 1, episode_info=True, num_threads=1)
    with pytest.raises(cule.InvalidArgumentError, match="num_players is 2; for a recording"):
        Recorder(env)
    env.close()


def test_calls_of_a_recorder(make_env: MakeEnv, tmp_path: Path) -> None:
    recorder = Recorder(make_env(**SHORT, autoreset_mode="Disabled"))
    for call in (
        lambda: recorder.step(np.zeros(2, np.int64)),
        lambda: recorder.save(tmp_path / "x.cule"),
    ):
        with pytest.raises(cule.NotResetError):
            call()
    for seed in (None, -1):
        with pytest.raises(cule.InvalidArgumentError, match="a recording needs seeds"):
            recorder.reset(seed=seed)
    recorder.reset(seed=1)
    mask = np.array([True, False])
    with pytest.raises(cule.InvalidArgumentError, match="reset_mask without one"):
        recorder.reset(seed=1, options={"reset_mask": mask})
    recorder.step(np.zeros(2, np.int64))
    recorder.reset(options={"reset_mask": mask})
    with pytest.raises(cule.InvalidArgumentError, match="reset since the last step"):
        recorder.reset(options={"reset_mask": mask})
    recorder.save(tmp_path / "x.cule")
    assert len(list(open_dataset(tmp_path / "x.cule").replay())) == 1
    recorder.step(np.zeros(2, np.int64))
    recorder.save(tmp_path / "x.cule")
    assert len(list(open_dataset(tmp_path / "x.cule").replay())) == 2


@pytest.mark.parametrize(
    ("limit", "value", "steps", "words"),
    [
        ("MAX_DATASET_STEPS", 100, 50, "100 steps since the last reset with a seed, and at most"),
        (
            "MAX_DATASET_EPISODES",
            5,
            60,
            "4 complete episodes and 2 in play, and at most 5 can be read",
        ),
    ],
)
def test_a_recording_is_never_too_large_to_be_read(
    make_env: MakeEnv,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    value: int,
    steps: int,
    words: str,
) -> None:
    for module in ("recorder", "format"):
        monkeypatch.setattr(f"cule.datasets.{module}.{limit}", value)
    env = make_env(**SHORT, autoreset_mode="SameStep")
    recorder = Recorder(env)
    recorder.reset(seed=1)
    for _ in range(steps):
        recorder.step(np.zeros(2, np.int64))
    before = env.get_state()
    for _ in range(2):
        with pytest.raises(cule.DatasetError, match=words):
            recorder.step(np.zeros(2, np.int64))
    assert (env.get_state() == before).all()
    recorder.save(tmp_path / "x.cule")
    assert len(list(open_dataset(tmp_path / "x.cule").replay())) == steps


def test_a_recording_never_has_too_many_trajectories_to_be_read(
    make_env: MakeEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cule.datasets.recorder.MAX_JSON_BYTES", 12_000)
    recorder = Recorder(make_env(**SHORT))
    recorded = []

    def record_for_ever() -> None:
        while True:
            recorder.reset(seed=2**31 - 3)
            recorded.append(recorder.step(np.zeros(2, np.int64)))

    with pytest.raises(cule.DatasetError, match="at most 12000 can be read; save the recording"):
        record_for_ever()
    recorder.save(tmp_path / "x.cule")
    dataset = open_dataset(tmp_path / "x.cule")
    assert dataset.num_trajectories == 2 * len(recorded)
    assert len(list(dataset.replay())) == len(recorded)


def test_resets_of_a_hostile_file_are_counted_first(tmp_path: Path) -> None:
    flags = zlib.compress(b"\x80" * 10)
    empty = zlib.compress(np.zeros(2, "<u4").tobytes()), zlib.compress(b"")
    (tmp_path / "x.cule").write_bytes(dataset_file(1, 10, blocks=[flags, *empty]))
    dataset = open_dataset(tmp_path / "x.cule")
    with pytest.raises(cule.DatasetError, match="10 resets; there are 0 episodes"):
        _ = dataset.resets


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "folder" / "pong.cule"
    words = ["record", "--game", "pong", "--num-envs", "2", "--steps", "41", "--seed", "1"]
    assert main([*words, "--out", str(path)]) == 0
    assert "42 steps, 0 complete episodes" in capsys.readouterr().out
    dataset = open_dataset(path)
    assert (dataset.seeds, len(list(dataset.replay()))) == ((1, 2), 21)
    assert json.loads(json.dumps(dict(dataset.options)))["autoreset_mode"] == "SameStep"
    modified = tmp_path / "modified.cule"
    words += ["--modifications", "lazy_enemy | original"]
    assert main([*words, "--out", str(modified)]) == 0
    dataset = open_dataset(modified)
    assert dataset.options["modifications"] == ["lazy_enemy | original"]
    assert len(list(dataset.replay())) == 21
    assert main([*words, "--greedy", "--out", str(path)]) == 2
    assert "greedy is True; it must be used with a CHECKPOINT" in capsys.readouterr().err
    assert main(["record", "--out", str(path)]) == 2


def test_two_recordings_to_one_file_are_both_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, step = tmp_path / "x.cule", Recorder.step

    def meanwhile(self: Recorder, actions: object) -> Any:
        path.write_text("of another process")
        return step(self, actions)

    monkeypatch.setattr(Recorder, "step", meanwhile)
    assert main(["record", "--game", "pong", "--steps", "16", "--out", str(path)]) == 0
    assert path.read_text() == "of another process"
    assert len(open_dataset(tmp_path / "x-2.cule")) == 16


@pytest.mark.usefixtures("one_thread")
def test_the_command_with_a_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run = str(tmp_path / "run")
    small = ["--num-envs", "2", "--num-steps", "8", "--num-minibatches", "2", "--img-size", "42"]
    words = ["train", "ppo", "--game", "pong", "--total-steps", "32", "--network", "small", *small]
    assert main([*words, "--eval-episodes", "0", "--out", run]) == 0
    path = tmp_path / "x.cule"
    assert main(["record", run, "--num-envs", "2", "--steps", "20", "--out", str(path)]) == 0
    steps = list(open_dataset(path).replay())
    assert [step.obs.shape for step in steps] == [(2, 4, 42, 42)] * 10


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where tests are run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_a_step_of_a_recorder(make_env: MakeEnv, tmp_path: Path) -> None:
    recorder = Recorder(make_env(**SHORT), digest_every=3)
    recorder.reset(seed=1)
    step = recorder.env.step

    def interrupted(actions: Any) -> Any:
        result = step(actions)
        signal.raise_signal(signal.SIGINT)
        return result

    for number in range(10):
        with contextlib.suppress(KeyboardInterrupt):
            recorder.env.step = interrupted if number in (4, 9) else step  # type: ignore[method-assign]
            recorder.step(np.full(2, number % 3))
            assert number not in (4, 9)
    recorder.save(tmp_path / "x.cule")
    assert len(list(open_dataset(tmp_path / "x.cule").replay())) == 10  # and the digests are equal


@pytest.mark.parametrize("masked", [False, True])
def test_ctrl_c_in_a_reset_of_a_recorder(make_env: MakeEnv, tmp_path: Path, masked: bool) -> None:
    recorder = Recorder(make_env(**SHORT), digest_every=3)
    recorder.reset(seed=1)
    reset = recorder.env.reset

    def interrupted(**given: Any) -> Any:
        reset(**given)
        raise KeyboardInterrupt

    for _ in range(7):
        recorder.step(np.zeros(2, np.int64))
    recorder.env.reset = interrupted  # type: ignore[method-assign]
    masks = {"options": {"reset_mask": np.array([True, False])}}
    with pytest.raises(KeyboardInterrupt):
        recorder.reset(**(masks if masked else {"seed": 5}))
    recorder.env.reset = reset  # type: ignore[method-assign]
    with pytest.raises(cule.NotResetError, match="call reset"):
        recorder.step(np.zeros(2, np.int64))
    recorder.save(tmp_path / "x.cule")
    assert len(list(open_dataset(tmp_path / "x.cule").replay())) == 7
    recorder.reset(seed=9)
    recorder.step(np.zeros(2, np.int64))
    recorder.save(tmp_path / "x.cule")
    assert open_dataset(tmp_path / "x.cule").seeds == (1, 2, 9, 10)
    assert len(list(open_dataset(tmp_path / "x.cule").replay())) == 8


def test_minari_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    monkeypatch.delitem(sys.modules, "cule.datasets.minari", raising=False)
    with pytest.raises(cule.MissingPackageError, match=r"pip install 'cule\[minari\]'"):
        importlib.import_module("cule.datasets.minari")


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_recording_is_saved(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: signal.Signals,
) -> None:
    path, step, calls = tmp_path / "x.cule", Recorder.step, []

    def interrupted(self: Recorder, actions: object) -> Any:
        calls.append(1)
        if len(calls) == 7:
            signal.raise_signal(kind)
        return step(self, actions)

    monkeypatch.setattr(Recorder, "step", interrupted)
    words = ["record", "--game", "pong", "--num-envs", "3", "--steps", "100000000"]
    assert main([*words, "--out", str(path)]) == (130 if kind == signal.SIGINT else 0)
    assert "what was recorded is saved" in capsys.readouterr().err
    dataset = open_dataset(path)
    assert len(dataset) == 21
    assert len(list(dataset.replay(obs_type="ram"))) == 7  # and the digests are equal


@pytest.mark.ale
def test_recording_shows_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cule.progress.INTERVAL_S", 0.0)
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    words = ["record", "--game", "pong", "--num-envs", "2", "--out", str(tmp_path / "a.cule")]
    assert main([*words, "--steps", "1e2"]) == 0
    lines = terminal.getvalue().split("\r")
    assert len(lines) == 51
    assert "100.0% 100/100 steps" in lines[-1]
    with pytest.raises(SystemExit):
        main([*words, "--steps", "1.5"])
    assert main(words) == 2  # the file exists
    assert "which exists; name another file" in terminal.getvalue()
