"""On the CPU the native module does what tensor operations do on other devices, bit for bit.

Two buffers get the same random steps and calls: one uses the native module, one only tensor
operations. Everything is compared as bytes.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cule import _core
from cule.errors import InvalidArgumentError
from cule.replay import (
    Batch,
    PrioritizedOptions,
    PrioritizedReplay,
    ReplayOptions,
    ReplayWriter,
    SharedOptions,
    SharedPrioritizedReplay,
    UniformReplay,
    native,
)
from cule.replay.native import NativeCells, as_array
from cule.replay.transitions import Cells, read_transitions
from tests.support.cases import long_except
from tests.support.replay_model import RandomEpisodes

pytestmark = [
    pytest.mark.filterwarnings("ignore::cule.replay.ShortReplayWarning"),
    pytest.mark.usefixtures("one_thread"),
]

OBS_TYPES = (torch.uint8, torch.float32, torch.bfloat16, torch.float64, torch.bool)
ODD_PRIORITIES = (0.0, -0.0, -1.0, float("nan"), float("inf"), 1e300, 5e-324, 1e-9)
ODD_REWARDS = (0.0, -0.0, float("nan"), float("inf"), -1.0, 1.0)


def assert_same(found: torch.Tensor, wanted: torch.Tensor, name: str) -> None:
    assert found.dtype == wanted.dtype, name
    assert found.shape == wanted.shape, name
    if found.is_floating_point():
        # What is not a number has a sign that nothing defines.
        not_numbers = found.isnan(), wanted.isnan()
        assert torch.equal(*not_numbers), name
        found, wanted = (
            t.masked_fill(n, 1.0) for t, n in zip((found, wanted), not_numbers, strict=True)
        )
    assert as_array(found).tobytes() == as_array(wanted).tobytes(), name


def assert_same_batch(found: Batch, wanted: Batch) -> None:
    for name in Batch._fields:
        assert_same(getattr(found, name), getattr(wanted, name), name)


class Twins:
    """Two buffers with the same options, the second one made of tensor operations."""

    def __init__(
        self, rng: np.random.Generator, patch: pytest.MonkeyPatch, prioritized: bool, **fixed: Any
    ) -> None:
        self.rng = rng
        mode = str(fixed.get("autoreset_mode", rng.choice(["SameStep", "NextStep"])))
        shapes: list[tuple[int, ...]] = [(2,), (8,), (3, 5), ()]
        actions: list[tuple[tuple[int, ...], torch.dtype]] = [
            ((), torch.int64), ((), torch.uint8), ((3,), torch.float32), ((2,), torch.bfloat16),
        ]  # fmt: skip
        action_shape, action_dtype = actions[rng.integers(len(actions))]
        choices: dict[str, Any] = {
            "capacity": int(rng.integers(1, 200)),
            "num_envs": int(rng.choice([1, 2, 3, 7, 16])),
            "stack": int(rng.integers(1, 6)),
            "n_step": int(rng.integers(1, 6)),
            "gamma": float(rng.choice([1.0, 0.99, 0.5, 0.0])),
            "pad": str(rng.choice(["zero", "repeat"])),
            "reward_clipping": str(rng.choice(["none", "clip", "sign"])),
            "terminal_on_life_loss": bool(rng.integers(2)),
            "autoreset_mode": mode,
            # Truncations come as they will, so some final frames are lost.
            "max_episode_steps": int(rng.choice([1, 5, 1000])),
            "obs_shape": shapes[rng.integers(len(shapes))],
            "obs_dtype": OBS_TYPES[rng.integers(len(OBS_TYPES))],
            "action_shape": action_shape,
            "action_dtype": action_dtype,
            "seed": int(rng.integers(1000)),
        }
        if prioritized:
            choices |= {"alpha": float(rng.choice([0.0, 0.5, 0.6, 1.0]))}
            choices |= {"beta": float(rng.choice([0.0, 0.4, 0.5, 1.0]))}
        choices |= fixed

        def make() -> UniformReplay:
            if prioritized:
                return PrioritizedReplay(PrioritizedOptions(**choices))
            return UniformReplay(ReplayOptions(**choices))

        self.native = make()
        with patch.context() as without:
            without.setattr(native, "is_used", lambda device: False)
            self.plain = make()
        assert self.native._ring.native is not None
        assert self.plain._ring.native is None
        self.both = self.native, self.plain
        self.options = self.native.options
        self.episodes = RandomEpisodes(
            self.options.num_envs,
            rng,
            same_step=mode == "SameStep",
            shape=self.options.obs_shape,
            end_chance=float(rng.choice([0.0, 0.02, 0.1, 0.4, 0.9])),
        )
        self.start()

    def frames(self, values: Any) -> torch.Tensor:
        return torch.from_numpy(np.array(values)).to(self.options.obs_dtype)

    def start(self) -> None:
        frames = self.frames(self.episodes.reset())
        for replay in self.both:
            replay.start(frames)

    def odd(self, values: np.ndarray, odd: tuple[float, ...]) -> np.ndarray:
        """Some values replaced by unusual ones."""
        swap = self.rng.random(values.shape) < 0.2
        return np.where(swap, self.rng.choice(odd, values.shape), values).astype(values.dtype)

    def step(self) -> dict[str, Any]:
        step: dict[str, Any] = self.episodes.step()
        step["reward"] = self.odd(step["reward"], ODD_REWARDS)
        shape = (self.options.num_envs, *self.options.action_shape)
        actions = torch.from_numpy(self.rng.integers(0, 18, shape))
        step["action"] = actions.to(self.options.action_dtype)
        step["frame"], step["final_frame"] = (
            self.frames(step["frame"]),
            self.frames(step["final_frame"]),
        )
        return step

    def disguised(self, value: Any) -> Any:
        """The same values in another container, or strided."""
        tensor = torch.as_tensor(value)
        kind = self.rng.integers(4)
        if kind == 0 and tensor.dtype != torch.bfloat16:
            return tensor.numpy()
        if kind == 1:
            return torch.stack((tensor, tensor), dim=-1)[..., 0]
        if kind == 2 and tensor.dtype == torch.float32:
            return tensor.double().float()
        return tensor

    def append(self) -> None:
        step = self.step()
        given = {name: self.disguised(value) for name, value in step.items()}
        action = given.pop("action")
        in_place = self.rng.integers(3)
        priorities = None
        if isinstance(self.native, PrioritizedReplay) and self.rng.integers(2):
            priorities = self.odd(self.rng.exponential(size=self.options.num_envs), ODD_PRIORITIES)
        for replay in self.both:
            fields = dict(given)
            if in_place == 0:
                fields["frame"] = replay.next_frame()
                fields["frame"].copy_(step["frame"])
            elif in_place == 1 and replay.head > 0:
                # Frames of another slot of the ring.
                slot = replay.head % replay._ring.num_slots
                fields["frame"] = replay._ring.by_slot[slot]
            if isinstance(replay, PrioritizedReplay):
                replay.append(action, SimpleNamespace(**fields), priorities)
            else:
                replay.append(action, SimpleNamespace(**fields))

    def append_block(self) -> None:
        steps = [self.step() for _ in range(int(self.rng.integers(1, 40)))]
        block = {
            name: torch.stack([torch.as_tensor(step[name]) for step in steps]) for name in steps[0]
        }
        names = {
            "action": "actions", "frame": "frames", "reward": "rewards",
            "final_frame": "final_frames",
        }  # fmt: skip
        given = {names.get(name, name): self.disguised(value) for name, value in block.items()}
        for names_left_out in (("first",), ("life_lost",), ("truncated", "first")):
            # With NextStep, a later first frame would come without its end.
            is_possible = "truncated" not in names_left_out or self.episodes.same_step
            if self.rng.integers(3) == 0 and is_possible:
                for name in names_left_out:
                    given.pop(name, None)
        for replay in self.both:
            replay.append_block(**given)

    def update(self) -> None:
        native, plain = self.both
        if not isinstance(native, PrioritizedReplay) or not isinstance(plain, PrioritizedReplay):
            return
        size = int(self.rng.integers(0, 70))
        newest = (native.head + 2) * self.options.num_envs
        ids = self.rng.integers(-3, newest, size)
        values = self.odd(self.rng.exponential(size=size) * 3, ODD_PRIORITIES)
        if self.rng.integers(2):
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
        given_ids, given = self.disguised(ids), self.disguised(values)
        for replay in (native, plain):
            replay.update_priorities(given_ids, given)

    def check_tensors(self) -> None:
        found, wanted = (replay.state_dict()["tensors"] for replay in self.both)
        assert found.keys() == wanted.keys()
        waste = self.native._ring._waste_frame
        for name in found:
            left, right = found[name], wanted[name]
            if name == "frames":  # without the waste frame
                left, right = (t[torch.arange(len(t)) != waste] for t in (left, right))
            if name == "leaves":
                left, right = left[:-1], right[:-1]
            assert_same(left, right, name)

    def check_reads(self) -> None:
        native, plain = self.both
        assert_same(native.observe(), plain.observe(), "observe")
        if not native.num_valid:
            return
        size = int(self.rng.choice([1, 3, 8, 16, 33]))
        if not native.options.replacement:
            size = min(size, native.num_valid)
        assert_same_batch(native.sample(size), plain.sample(size))
        ids = self.rng.integers(-50, (native.head + 5) * self.options.num_envs, size)
        extremes = self.disguised(np.append(ids, [-(2**62), 2**62]))
        assert_same_batch(native.sample_at(extremes), plain.sample_at(extremes))
        if isinstance(native, PrioritizedReplay) and isinstance(plain, PrioritizedReplay):
            beta: Any = float(self.rng.random())
            if self.rng.integers(2):
                beta = torch.tensor(beta, dtype=torch.float32)
            assert_same_batch(native.sample(size, beta), plain.sample(size, beta))

    def exchange(self, folder: Path) -> None:
        """Each loads the checkpoint of the other."""
        native, plain = self.both
        native.save(folder / "native")
        plain.save(folder / "plain")
        native.load(folder / "plain")
        plain.load(folder / "native")


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("seed", long_except(range(40), every=20))
def test_random_streams(
    seed: int, prioritized: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rng = np.random.default_rng([seed, prioritized])
    replacement = prioritized or seed % 3 != 0
    twins = Twins(rng, monkeypatch, prioritized, replacement=replacement)
    for _ in range(25):
        action = rng.integers(10)
        if action == 0:
            twins.start()
        elif action < 3:
            twins.append_block()
        elif action == 3:
            twins.exchange(tmp_path)
        else:
            for _ in range(int(rng.integers(1, 12))):
                twins.append()
        twins.update()
        twins.check_reads()
        twins.check_tensors()


def test_a_large_prioritized_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough leaves for three levels of sums."""
    rng = np.random.default_rng(5)
    twins = Twins(
        rng, monkeypatch, True, capacity=40_000, num_envs=16, obs_shape=(2,), alpha=0.6, stack=2,
        action_shape=(), action_dtype=torch.int64,
    )  # fmt: skip
    for _ in range(120):
        twins.append_block()
        twins.update()
    for _ in range(20):
        twins.append()
        twins.check_reads()
    twins.check_tensors()


@pytest.mark.parametrize("zeroed", [False, True])
def test_samples_of_nothing(zeroed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All priorities 0 once they have been set so, or as they are at first."""
    twins = Twins(
        np.random.default_rng(zeroed), monkeypatch, True, num_envs=3, n_step=1, capacity=100,
        stack=2, autoreset_mode="SameStep",
    )  # fmt: skip
    for _ in range(10):
        twins.append()
    for replay in twins.both:
        assert isinstance(replay, PrioritizedReplay)
        if zeroed:
            replay.update_priorities(range(40), np.zeros(40))
            assert int(replay.total_mass()) == 0
    for _ in range(5):
        twins.check_reads()
    batch = twins.native.sample(30)
    if zeroed:  # without any mass
        assert (batch.weights == 0).all()


def test_replay_between_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared buffers with the native module and with tensor operations; finally all priorities are 0."""
    rng = np.random.default_rng(1)
    options = SharedOptions(capacity=500, num_envs=3, obs_shape=(2,), block_size=7)
    episodes = RandomEpisodes(3, rng, same_step=True, end_chance=0.1)
    with SharedPrioritizedReplay(options) as first, monkeypatch.context() as without:
        without.setattr(native, "is_used", lambda device: False)
        with SharedPrioritizedReplay(options) as second:
            assert first._priorities.sums.native is not None
            assert second._priorities.sums.native is None
            assert first._native is not None
            assert second._native is None
            writers = [ReplayWriter(replay.handle(), 0) for replay in (first, second)]
            frames = episodes.frames()
            for writer in writers:
                writer.start(frames)
            for _ in range(120):
                step = episodes.step()
                action = step.pop("action")
                for writer in writers:
                    writer.append(action, SimpleNamespace(**step))
            for _ in range(30):
                found, wanted = first.sample(16), second.sample(16)
                assert_same_batch(found, wanted)
                priorities = rng.exponential(size=16)
                for replay in (first, second):
                    replay.update_priorities(found.ids, priorities)
            for replay in (first, second):
                leaves = torch.arange(len(replay._known) * replay._block_cells)
                ids = (
                    replay._known[leaves // replay._block_cells] * replay._block_cells
                    + leaves % replay._block_cells
                )
                replay.update_priorities(ids, torch.zeros(len(ids)))
                assert int(replay._priorities.sums.total()) == 0
            assert_same_batch(first.sample(16), second.sample(16))
            for writer in writers:
                writer.close()


def test_errors_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    twins = Twins(
        np.random.default_rng(0), monkeypatch, False, num_envs=2, obs_shape=(2,),
        obs_dtype=torch.uint8, action_shape=(), action_dtype=torch.int64,
    )  # fmt: skip
    good = {name: torch.as_tensor(value).numpy() for name, value in twins.step().items()}
    bad: list[tuple[str, Any]] = [
        ("frame", np.zeros((2, 3), np.uint8)), ("frame", np.zeros((2, 2), np.int8)),
        ("reward", np.zeros(3, np.float32)), ("reward", np.zeros((1, 2), np.float32)),
        ("terminated", np.zeros(2, np.int64)), ("first", "no"), ("action", np.zeros(2)),
    ]  # fmt: skip
    for name, value in bad:
        messages = []
        for replay in twins.both:
            step = {**good, name: value}
            action = step.pop("action")
            with pytest.raises(InvalidArgumentError) as caught:
                replay.append(action, SimpleNamespace(**step))
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        twins.check_tensors()


@pytest.mark.parametrize("seed", range(20))
def test_listed_windows(seed: int) -> None:
    """What replay between processes reads with."""
    rng = np.random.default_rng(seed)
    stack, n_step, cells = int(rng.integers(1, 5)), int(rng.integers(1, 5)), 50
    options = ReplayOptions(
        stack=stack, obs_shape=(3,), obs_dtype=OBS_TYPES[seed % len(OBS_TYPES)],
        pad=str(rng.choice(["zero", "repeat"])), terminal_on_life_loss=bool(rng.integers(2)),
        reward_clipping=str(rng.choice(["none", "clip", "sign"])),
    )  # fmt: skip
    frames = torch.from_numpy(rng.integers(1, 200, (cells + 1, 3))).to(options.obs_dtype)
    frames[cells] = 0
    actions = torch.from_numpy(rng.integers(0, 9, cells))
    rewards = torch.from_numpy(rng.normal(size=cells).astype(np.float32))
    flags = torch.from_numpy(
        (rng.integers(0, 32, cells) * (rng.random(cells) < 0.3)).astype(np.uint8)
    )
    arrays = frames, actions, rewards, flags
    begins = rng.integers(0, cells - stack - n_step, 64)
    window = torch.from_numpy(begins[:, None] + np.arange(stack + n_step))
    named = dict(zip(("frames", "actions", "rewards", "flags"), arrays, strict=True))
    found = NativeCells(named, options).read(window, n_step)
    wanted = read_transitions(Cells(*arrays, cells), window, n_step, options)
    for name in wanted._fields:
        assert_same(getattr(found, name), getattr(wanted, name), name)


def test_the_native_module_refuses_what_would_leave_its_memory() -> None:
    replay = PrioritizedReplay(PrioritizedOptions(capacity=300, num_envs=2, obs_shape=(2,)))
    replay.start(np.ones((2, 2), np.uint8))
    native, sums = replay._ring.native, replay._priorities.sums.native
    assert native is not None
    assert sums is not None
    ids, powers = np.zeros(3, np.int64), np.zeros(2)
    seen = np.ones(1), np.zeros(1, np.int64), 1e9
    with pytest.raises(ValueError, match="one element an id"):
        native.core.update_priorities(sums, ids, powers, powers, 1, *seen)
    with pytest.raises(ValueError, match="powers"):
        native.core.update_priorities(sums, ids, np.zeros(3), powers, 1, *seen)
    with pytest.raises(ValueError, match="largest and num_rejected must have one"):
        native.core.update_priorities(
            sums, ids, np.zeros(3), np.zeros(3), 1, np.ones(2), np.zeros(1, np.int64), 1e9
        )
    with pytest.raises(ValueError, match="does not fit"):
        native.core.gather(ids, 10_000)
    with pytest.raises(ValueError, match="is not a leaf"):
        sums.assign(np.array([-1]), np.array([1]))
    with pytest.raises(ValueError, match="is not a leaf"):
        sums.assign(np.array([10**6]), np.array([1]))
    with pytest.raises(ValueError, match="masses"):
        sums.assign(np.array([1, 2]), np.array([1]))
    small = _core.PrioritySums(np.zeros(129, np.int64), np.zeros(1, np.int64), 100)
    with pytest.raises(ValueError, match="a leaf a cell"):
        native.core.sample_prioritized(small, np.zeros(1), np.zeros(1), 1)
    with pytest.raises(ValueError, match="uniform"):
        native.core.sample_prioritized(sums, np.zeros(1), np.zeros(2), 1)
    with pytest.raises(ValueError, match="128 a block"):
        _core.PrioritySums(np.zeros(128, np.int64), np.zeros(1, np.int64), 100)


def test_ids_at_the_ends_of_their_type() -> None:
    for num_envs in (1, 3):
        options = ReplayOptions(capacity=100, num_envs=num_envs, obs_shape=(2,), n_step=2)
        replay = UniformReplay(options)
        replay.start(np.ones((num_envs, 2), np.uint8))
        ended = np.zeros((9, num_envs), bool)
        replay.append_block(
            frames=np.ones((9, num_envs, 2), np.uint8), actions=np.ones((9, num_envs), np.int64),
            rewards=np.ones((9, num_envs)), terminated=ended,
        )  # fmt: skip
        batch = replay.sample_at([-(2**63), 2**63 - 1, 0])
        assert batch.weights.tolist() == [0, 0, 1]


def test_gradients_and_inference_change_nothing() -> None:
    """Calls inside of `inference_mode`, and exponents and priorities that carry gradients."""
    replay = PrioritizedReplay(PrioritizedOptions(capacity=100, num_envs=2, obs_shape=(2,)))
    replay.start(np.ones((2, 2), np.uint8))
    ended = np.zeros((20, 2), bool)
    replay.append_block(
        frames=np.ones((20, 2, 2), np.uint8), actions=np.ones((20, 2), np.int64),
        rewards=np.ones((20, 2)), terminated=ended,
    )  # fmt: skip
    with torch.inference_mode():
        replay.update_priorities(replay.sample(8).ids, torch.ones(8))
    beta = torch.tensor(0.5, requires_grad=True)
    batch = replay.sample(8, beta)
    replay.update_priorities(batch.ids, 2 * torch.ones(8, requires_grad=True))
    assert not any(value.requires_grad for value in (*replay.sample(8, beta), replay.max_priority))
    assert float(replay.max_priority) == 2
