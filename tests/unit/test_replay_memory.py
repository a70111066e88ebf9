"""Capacities, memory, invalid arguments, checkpoints, and operations that a call may use."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cule.device import free_device_bytes
from cule.errors import CuleError, InvalidArgumentError
from cule.replay import (
    CapacityError,
    CheckpointError,
    NotReadyError,
    PrioritizedOptions,
    PrioritizedReplay,
    ReplayOptions,
    ShortReplayWarning,
    UniformReplay,
    native,
)
from cule.replay.memory import capacity_bytes
from cule.replay.transitions import n_step_returns
from cule.tensor_files import save_tensors
from tests.support.replay_model import RandomEpisodes

pytestmark = [
    pytest.mark.filterwarnings("ignore::cule.replay.ShortReplayWarning"),
    pytest.mark.usefixtures("one_thread"),
]

SMALL: dict[str, Any] = {"capacity": 40, "num_envs": 2, "obs_shape": (3,), "n_step": 2}


def fill(replay: UniformReplay, steps: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    episodes = RandomEpisodes(2, rng, same_step=True, shape=(3,))
    if replay.head < 0:
        replay.start(episodes.frames())
    for _ in range(steps):
        step = episodes.step()
        replay.append(step.pop("action"), SimpleNamespace(**step))


def contents(replay: UniformReplay) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in replay.state_dict()["tensors"].items()}


def test_n_step_numbers_of_the_specification() -> None:
    flags = torch.tensor([[0, 0, 2, 0, 0]], dtype=torch.uint8)  # the third step terminates
    rewards = torch.tensor([[1.0, 0, -1, 2]])
    options = ReplayOptions(gamma=0.9, n_step=3)
    result = n_step_returns(flags[:, :4], rewards[:, :3], options)
    assert result.returns.item() == pytest.approx(0.19)
    assert result.discounts.item() == 0
    result = n_step_returns(flags[:, 1:], rewards[:, 1:], options)
    assert result.returns.item() == pytest.approx(-0.9)
    assert result.discounts.item() == 0


@pytest.mark.parametrize("kind", [UniformReplay, PrioritizedReplay])
def test_batches_that_do_not_fit_are_refused(
    kind: type[UniformReplay], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = PrioritizedOptions if kind is PrioritizedReplay else ReplayOptions
    replay = kind(options(**SMALL))  # type: ignore[arg-type]
    fill(replay, 9)
    monkeypatch.setattr("cule.replay.memory.free_device_bytes", lambda device: 5_000_000)
    state = replay.generator.get_state()
    with pytest.raises(
        CapacityError, match=r"batch_size is 2,147,483,647, which needs .* 5 MB free"
    ):
        replay.sample(2**31 - 1)
    with pytest.raises(InvalidArgumentError, match="batch_size is 2147483648"):
        replay.sample(2**31)
    assert torch.equal(replay.generator.get_state(), state)
    assert replay.sample(50_000).ids.shape == (50_000,)


@pytest.mark.parametrize(("clipping", "wanted"), [("none", 5.0), ("clip", 1.0), ("sign", 1.0)])
def test_reward_clipping(clipping: str, wanted: float) -> None:
    replay = UniformReplay(
        ReplayOptions(capacity=10, obs_shape=(1,), stack=1, reward_clipping=clipping)
    )
    replay.start(np.zeros((1, 1), np.uint8))
    frames, none = np.zeros((4, 1, 1), np.uint8), np.zeros((4, 1), bool)
    replay.append_block(
        frames=frames, actions=np.zeros((4, 1), int), rewards=np.full((4, 1), 5.0), terminated=none
    )
    assert (replay.sample(8).returns == wanted).all()


def test_capacities() -> None:
    assert capacity_bytes("40GB", 0) == 40 * 10**9
    assert capacity_bytes("1.5 GiB", 0) == 3 * 2**29
    assert capacity_bytes("512MB", 0) == 512 * 10**6
    assert capacity_bytes(0.5, 1000) == 500
    assert capacity_bytes(1.0, 1000) == 1000
    assert capacity_bytes(7, 1000) is None
    for huge in ("9" * 400 + "GB", 10**400):
        with pytest.raises(CapacityError, match=r"capacity is .* which needs 1e.288 TB"):
            UniformReplay(ReplayOptions(capacity=huge))
    for bad in ("40", "GB", "-1GB", "40 apples", 0, -3, 0.0, 1.5, -0.5, True, None, float("nan")):
        with pytest.raises(InvalidArgumentError, match="capacity"):
            UniformReplay(ReplayOptions(capacity=bad))


@pytest.mark.parametrize("capacity", [1, 7, 1000])
def test_the_promised_number_can_be_sampled(capacity: int) -> None:
    replay = UniformReplay(ReplayOptions(**{**SMALL, "capacity": capacity}))
    fill(replay, replay.num_timesteps + 5)
    assert capacity <= replay.num_valid < capacity + 2
    assert replay.num_valid == (replay.num_timesteps - 3 - 2) * 2


@pytest.mark.parametrize("kind", [UniformReplay, PrioritizedReplay])
def test_bytes_are_kept_to_and_reported(kind: Any) -> None:
    options = (ReplayOptions if kind is UniformReplay else PrioritizedOptions)(
        capacity="3MB", num_envs=4, n_step=3
    )
    replay = kind(options)
    held = sum(t.nbytes for t in replay._tensors().values()) - 24 - 16
    parts = replay.memory_bytes()
    assert abs(sum(parts.values()) - held) <= 24
    assert held <= 3_000_000 < held + 2 * held / replay.num_timesteps
    report = replay.memory_report()
    assert f"{sum(parts.values()) / 1e6:.3g} MB" in report
    assert "bytes per transition" in report


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")  # said by torch 2.11
@pytest.mark.parametrize("kind", [UniformReplay, PrioritizedReplay])
def test_a_million_transitions_take_what_is_printed(kind: Any) -> None:
    """The most that torch and numpy hold while such a buffer is made, at any moment, within 1 %."""
    options = (ReplayOptions if kind is UniformReplay else PrioritizedOptions)(
        capacity=1_000_000, num_envs=64, obs_shape=(32,), n_step=3
    )
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as profile:
        tracemalloc.start()  # it sees the allocations of numpy, not those of torch
        replay = kind(options)
        of_numpy = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    events = profile.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    held = np.cumsum([change for _, change in changes])
    total = sum(replay.memory_bytes().values())
    assert total > 1_000_000 * (32 + 8 + 4 + 4 + 1)
    assert max(held) + of_numpy == pytest.approx(total, rel=0.01)
    assert f"{total / 1e6:.3g} MB" in replay.memory_report()


def test_what_would_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """And then it does fit."""
    monkeypatch.setattr("cule.replay.memory.free_device_bytes", lambda device: 5_000_000)
    with pytest.raises(CapacityError, match=r"has 5 MB free, which would hold [\d,]+ tr") as caught:
        UniformReplay(ReplayOptions(capacity=1_000_000, num_envs=3))
    assert isinstance(caught.value, CuleError)
    assert isinstance(caught.value, MemoryError)
    fits = int(str(caught.value).split("would hold ")[1].split(" ")[0].replace(",", ""))
    assert UniformReplay(ReplayOptions(capacity=fits, num_envs=3)).num_timesteps > 0
    with pytest.raises(CapacityError, match="would hold"):
        UniformReplay(ReplayOptions(capacity=fits + 3, num_envs=3))
    with pytest.raises(CapacityError, match="at least"):
        UniformReplay(ReplayOptions(capacity="20KB"))
    half = UniformReplay(ReplayOptions(capacity=0.5, num_envs=3))
    assert 2_400_000 < sum(half.memory_bytes().values()) <= 2_500_000


def test_free_memory_keeps_to_the_limit_of_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device = torch.device("cpu")
    limit, usage, statistics = (tmp_path / name for name in ("limit", "usage", "statistics"))
    files = ((str(limit), str(usage), str(statistics)),)
    monkeypatch.setattr("cule.device.CGROUP_FILES", files)
    unlimited = free_device_bytes(device)
    assert unlimited > 10**8
    limit.write_text("max")
    usage.write_text("1000")
    assert free_device_bytes(device) > 10**8
    limit.write_text("51000")
    assert free_device_bytes(device) == 50_000
    statistics.write_text("anon 7\ninactive_file 300\nactive_file 40\nworkingset_nodes 1\n")
    assert free_device_bytes(device) == 50_340


def test_short_rings_are_told_of() -> None:
    with pytest.warns(ShortReplayWarning, match="spans 10 steps"):
        UniformReplay(ReplayOptions(capacity=1000, num_envs=100, obs_shape=(1,)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_envs", 0), ("num_envs", 2.0), ("stack", 0), ("n_step", 0), ("gamma", 1.5),
        ("gamma", float("nan")), ("pad", "mirror"), ("autoreset_mode", "Disabled"),
        ("autoreset_mode", None), ("reward_clipping", True), ("obs_shape", [84, 84]),
        ("obs_shape", (0,)), ("obs_dtype", np.uint8), ("device", "tpu9"), ("device", "cuda:99"),
        ("device", 1.5), ("max_episode_steps", 0), ("seed", -1), ("seed", 2**31),
        ("device", "meta"), ("device", "xpu"), ("obs_dtype", torch.quint8),
        ("num_envs", 2**62), ("terminal_on_life_loss", "x"), ("replacement", []),
        ("obs_shape", (10**400,)), ("pad", np.array(["zero", "repeat"])),
        ("autoreset_mode", np.array(["SameStep"])),
    ],
)  # fmt: skip
def test_bad_options_are_named(name: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        ReplayOptions(**{name: value})


def test_gymnasiums_modes_are_understood() -> None:
    from gymnasium.vector import AutoresetMode

    assert ReplayOptions(autoreset_mode=AutoresetMode.NEXT_STEP).autoreset_mode == "NextStep"
    with pytest.raises(InvalidArgumentError, match="Disabled"):
        ReplayOptions(autoreset_mode=AutoresetMode.DISABLED)


def test_invalid_calls_change_nothing() -> None:
    replay = UniformReplay(ReplayOptions(**SMALL))
    for call in (replay.observe, lambda: replay.sample(1), lambda: fill_without_start(replay)):
        with pytest.raises(NotReadyError):
            call()
    fill(replay, 9)
    before = contents(replay)
    good = {
        "frame": np.zeros((2, 3), np.uint8), "reward": [0.0, 0.0], "terminated": [False] * 2,
        "truncated": [False] * 2, "life_lost": [False] * 2, "first": [False] * 2,
        "final_frame": np.zeros((2, 3), np.uint8),
    }  # fmt: skip
    for name, bad in (
        ("frame", np.zeros((2, 4), np.uint8)), ("frame", np.zeros((2, 3), np.int64)),
        ("reward", [0.0]), ("reward", ["a", "b"]), ("terminated", [0.5, 0.5]),
        ("truncated", [[False]]), ("first", None), ("final_frame", np.zeros((1, 3), np.uint8)),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=f"step.{name}"):
            replay.append([0, 0], SimpleNamespace(**{**good, name: bad}))
    frame = torch.ones(2, 3)
    for bad in (frame.to("meta"), frame.to_sparse()):
        for name in ("frame", "reward", "final_frame"):
            with pytest.raises(InvalidArgumentError, match=f"step.{name} is .* a dense tensor"):
                replay.append([0, 0], SimpleNamespace(**{**good, name: bad}))
        with pytest.raises(InvalidArgumentError, match=r"frame is .* a dense tensor"):
            replay.start(bad)
    for actions in ([0], [0.5, 0.5], [[0, 0]]):
        with pytest.raises(InvalidArgumentError, match="actions"):
            replay.append(actions, SimpleNamespace(**good))
    with pytest.raises(InvalidArgumentError, match="final_frames"):
        replay.append_block(
            frames=np.zeros((1, 2, 3), np.uint8), actions=[[0, 0]], rewards=[[0, 0]],
            terminated=[[False] * 2], truncated=[[False] * 2],
        )  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="at least one"):
        replay.append_block(frames=[], actions=[], rewards=[], terminated=[])
    with pytest.raises(InvalidArgumentError, match="frame"):
        replay.start(np.zeros((2, 2), np.uint8))
    for size in (0, -1, True, 1.0):
        with pytest.raises(InvalidArgumentError, match="batch_size"):
            replay.sample(size)
    with pytest.raises(InvalidArgumentError, match="ids"):
        replay.sample_at([[1]])
    for name, value in contents(replay).items():
        assert torch.equal(value, before[name]), name


def test_arrays_of_any_layout() -> None:
    frames = np.arange(12, dtype=np.uint8).reshape(2, 6)
    replay = UniformReplay(ReplayOptions(**{**SMALL, "stack": 1, "n_step": 1}))
    replay.start(frames[::-1, ::-2])
    assert replay.observe().tolist() == [[11, 9, 7], [5, 3, 1]]
    step = SimpleNamespace(
        frame=np.zeros((2, 3), np.uint8), reward=np.array([1, 2], ">f4"), terminated=[False] * 2,
        truncated=[False] * 2, life_lost=[False] * 2, first=[False] * 2, final_frame=frames[:, :3],
    )  # fmt: skip
    replay.append(np.array([3, 4])[::-1], step)
    batch = replay.sample_at(np.array([0, 1])[::-1])
    assert (batch.actions.tolist(), batch.returns.tolist()) == ([3, 4], [2, 1])


def fill_without_start(replay: UniformReplay) -> None:
    replay.append([0, 0], SimpleNamespace())


def test_frames_may_lie_in_the_ring_itself() -> None:
    """`next_frame` is not copied, and may be the final frame as well."""
    replay = UniformReplay(ReplayOptions(**{**SMALL, "stack": 1, "n_step": 1}))
    replay.start(np.zeros((2, 3), np.uint8))
    no, yes = np.zeros(2, bool), np.ones(2, bool)
    memory = replay.next_frame()
    memory.fill_(7)
    replay.append(
        [1, 2],
        SimpleNamespace(
            frame=memory, reward=[0, 0], terminated=no, truncated=yes, life_lost=no, first=yes,
            final_frame=memory,
        ),
    )  # fmt: skip
    assert (replay.observe() == 7).all()
    assert (replay.sample_at([0, 1]).next_obs == 7).all()


@pytest.mark.parametrize("replacement", [True, False])
def test_uniform_samples_are_uniform(replacement: bool) -> None:
    replay = UniformReplay(ReplayOptions(**SMALL, replacement=replacement))
    fill(replay, 100)
    valid = replay.num_valid
    counts = np.zeros(valid)
    oldest = (replay.head - replay.num_timesteps + 4) * 2
    for _ in range(400):
        counts += np.bincount(replay.sample(10).ids - oldest, minlength=valid)
    expected = counts.sum() / valid
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic < valid + 5 * np.sqrt(2 * valid)
    if not replacement:
        assert statistic == 0  # 40 transitions in batches of 10: each as often as any other


def test_without_replacement_batches_are_disjoint() -> None:
    replay = UniformReplay(ReplayOptions(**SMALL, replacement=False))
    fill(replay, 100)
    for _ in range(3):
        sampled = torch.cat([replay.sample(13).ids for _ in range(3)])
        assert len(set(sampled.tolist())) == 39
    first = replay.sample(40).ids
    second = replay.sample(40).ids
    assert set(first.tolist()) == set(second.tolist())
    assert first.tolist() != second.tolist()
    with pytest.raises(InvalidArgumentError, match="batch_size is 41"):
        replay.sample(41)


class NothingReadBack(TorchDispatchMode):
    """Refuses what would make the host wait for a device, or break a CUDA graph."""

    FORBIDDEN = ("_local_scalar_dense", "nonzero", "unique", "masked_select", "is_nonzero")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert not any(word in str(func) for word in self.FORBIDDEN), func
        if str(func).startswith(("aten.index.Tensor", "aten.index_put")):
            indices = [i for i in args[1] if i is not None]
            assert not any(i.dtype == torch.bool for i in indices), func
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["uniform", "without replacement", "prioritized"])
def test_nothing_is_read_back(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "is_used", lambda device: False)  # as on other devices
    replay = (
        PrioritizedReplay(PrioritizedOptions(**SMALL))
        if kind == "prioritized"
        else UniformReplay(ReplayOptions(**SMALL, replacement=kind == "uniform"))
    )
    fill(replay, 50)
    with NothingReadBack():
        fill(replay, 3)
        batch = replay.sample(8)
        replay.sample_at(batch.ids)
        replay.observe()
        if isinstance(replay, PrioritizedReplay):
            replay.update_priorities(batch.ids, batch.returns.abs() + 1)
    with pytest.raises(AssertionError, match="_local_scalar_dense"), NothingReadBack():
        batch.returns.sum().item()


@pytest.mark.parametrize("kind", [UniformReplay, PrioritizedReplay])
def test_save_and_load(kind: Any, tmp_path: Path) -> None:
    options = (ReplayOptions if kind is UniformReplay else PrioritizedOptions)(**SMALL)
    replay, other = kind(options), kind(options)
    fill(replay, 57)
    if kind is PrioritizedReplay:
        replay.update_priorities(replay.sample(9).ids, torch.rand(9))
    path = tmp_path / "buffer.replay"
    path.write_text("what was here before")
    replay.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["buffer.replay"]
    other.load(path)
    same = [replay, other, copy.copy(replay), copy.deepcopy(replay)]
    same.append(pickle.loads(pickle.dumps(replay)))
    assert {each.head for each in same} == {57}
    for _ in range(3):
        for values in zip(*(each.sample(16) for each in same), strict=True):
            assert all(torch.equal(value, values[0]) for value in values)
        for each in same:
            fill(each, 2, seed=7)


def test_bad_files_are_rejected(tmp_path: Path) -> None:
    replay = UniformReplay(ReplayOptions(**SMALL))
    fill(replay, 20)
    before = contents(replay)
    path = tmp_path / "buffer.replay"
    replay.save(path)
    data = path.read_bytes()
    with pytest.raises(FileNotFoundError):
        replay.load(tmp_path / "none")
    for damaged in (b"", b"abc", data[: len(data) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="damaged"):
            replay.load(path)
    for name, value in (("num_envs", 1), ("n_step", 3), ("capacity", 60), ("stack", 2)):
        other = UniformReplay(ReplayOptions(**{**SMALL, name: value}))
        other.save(path)
        with pytest.raises(CheckpointError):
            replay.load(path)
    PrioritizedReplay(PrioritizedOptions(**SMALL)).save(path)
    with pytest.raises(CheckpointError, match="no saved UniformReplay"):
        replay.load(path)
    torch.save([1, 2], path)
    with pytest.raises(CheckpointError):
        replay.load(path)
    for count in (2**63 - 2, 2**62, -5):
        state = replay.state_dict()
        tensors = {**state["tensors"], "head": torch.tensor(count)}  # type: ignore[dict-item]
        save_tensors(path, {**state, "tensors": tensors})
        with pytest.raises(CheckpointError, match=f"the saved 'head' is {count}"):
            replay.load(path)
    frames = before["frames"]
    for bad in (frames.to("meta"), frames.to_sparse()):
        state = replay.state_dict()
        # The others would be copied before these.
        tensors = {**before, "frames": frames * 0, "flags": bad}
        with pytest.raises(CheckpointError, match="no tensor 'flags'"):
            replay.load_state_dict({**state, "tensors": tensors})
    for name, value in contents(replay).items():
        assert torch.equal(value, before[name]), name


def test_ctrl_c_in_a_call_parts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        """A native ring whose `append` is followed by Ctrl-C."""

        def __init__(self, ring: Any) -> None:
            self.ring = ring

        def __getattr__(self, name: str) -> Any:
            return getattr(self.ring, name)

        def append(self, *given: Any) -> bool:
            assert self.ring.append(*given)
            raise KeyboardInterrupt

    plain, replay = (PrioritizedReplay(PrioritizedOptions(**SMALL)) for _ in range(2))
    fill(plain, 30)
    episodes = RandomEpisodes(2, np.random.default_rng(0), same_step=True, shape=(3,))
    replay.start(episodes.frames())
    for number in range(30):
        step = episodes.step()
        with monkeypatch.context() as patch:
            if number in (12, 13, 20):
                patch.setattr(replay._ring, "native", Interrupted(replay._ring.native))
            with contextlib.suppress(KeyboardInterrupt):
                replay.append(step.pop("action"), SimpleNamespace(**step))
    assert replay.head == plain.head
    assert replay.next_frame().data_ptr() - replay._ring.frames.data_ptr() == (
        plain.next_frame().data_ptr() - plain._ring.frames.data_ptr()
    )
    for name, value in contents(replay).items():
        assert torch.equal(value, contents(plain)[name]), name


def test_a_crash_while_saving_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = UniformReplay(ReplayOptions(**SMALL))
    fill(replay, 5)
    path = tmp_path / "buffer.replay"
    replay.save(path)
    old = path.read_bytes()
    fill(replay, 5)

    def full_disk(fd: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="space"):
        replay.save(path)
    assert path.read_bytes() == old
    assert len(list(tmp_path.iterdir())) == 1


def test_a_damaged_generator_is_refused_before_anything_is_copied() -> None:
    saved = UniformReplay(ReplayOptions(**SMALL))
    fill(saved, 9)
    state = saved.state_dict()
    state["tensors"] = {**state["tensors"], "generator": torch.full((5056,), 255).to(torch.uint8)}
    replay = UniformReplay(ReplayOptions(**SMALL))
    before, generator = contents(replay), replay.generator.get_state()
    assert state["tensors"]["generator"].shape == generator.shape
    with pytest.raises(CheckpointError, match="generator"):
        replay.load_state_dict(state)
    assert all(torch.equal(value, before[name]) for name, value in contents(replay).items())
    assert torch.equal(replay.generator.get_state(), generator)
