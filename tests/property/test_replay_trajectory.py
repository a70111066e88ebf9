"""Rollouts of a `TrajectoryBuffer` are what a plain list says, and updates come when they should."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cule.errors import InvalidArgumentError
from cule.replay import (
    CapacityError,
    CheckpointError,
    MultiBatchSchedule,
    NotReadyError,
    TrajectoryBuffer,
    TrajectoryOptions,
)
from tests.support.cases import long_except
from tests.support.replay_model import ListReplay, RandomEpisodes

pytestmark = pytest.mark.usefixtures("one_thread")

NUM_ENVS = 6


class Pair:
    """A buffer and one list an environment."""

    def __init__(self, rng: np.random.Generator, mode: str, **fixed: Any) -> None:
        options: dict[str, Any] = {
            "num_envs": NUM_ENVS,
            "obs_shape": (2,),
            "num_steps": int(rng.integers(1, 9)),
            "stack": int(rng.integers(1, 5)),
            "pad": str(rng.choice(["zero", "repeat"])),
            "gamma": 0.9,
            "max_episode_steps": 1,
            "autoreset_mode": mode,
            "terminal_on_life_loss": bool(rng.integers(2)),
            "extras": {"log_probs": ((), torch.float32), "noise": ((3,), torch.float64)},
            **fixed,
        }
        self.options = TrajectoryOptions(**options)
        self.buffer = TrajectoryBuffer(self.options)
        self.same_step, self.rng = mode == "SameStep", rng
        self.episodes = RandomEpisodes(NUM_ENVS, rng, same_step=self.same_step, end_chance=0.25)
        self.models = [
            ListReplay(
                stack=options["stack"],
                pad=options["pad"],
                n_step=1,
                gamma=0.9,
                same_step=self.same_step,
            )
            for _ in range(NUM_ENVS)
        ]
        self.extras: list[dict[str, Any]] = []

    def start(self) -> None:
        frames = self.episodes.reset()
        self.buffer.start(frames)
        for model, frame in zip(self.models, frames, strict=True):
            model.start(frame)
        while len(self.extras) < self.models[0].head:
            self.extras.append({})

    def append(self) -> None:
        step = self.episodes.step()
        extras = {
            "log_probs": self.rng.normal(size=NUM_ENVS).astype(np.float32),
            "noise": self.rng.normal(size=(NUM_ENVS, 3)),
        }
        fields = {name: value for name, value in step.items() if name != "action"}
        with contextlib.suppress(KeyboardInterrupt):
            self.buffer.append(step["action"], SimpleNamespace(**fields), **extras)
        self.extras.append(extras)
        for env, model in enumerate(self.models):
            model.append(**{name: values[env] for name, values in step.items()})

    def check(self, envs: slice) -> None:
        rollout = self.buffer.rollout(envs)
        assert rollout.obs is not None
        shape = (self.options.num_steps, len(range(NUM_ENVS)[envs]))
        assert rollout.rewards.shape == rollout.ended.shape == shape
        begin = self.models[0].head - self.options.num_steps
        for column, env in enumerate(range(NUM_ENVS)[envs]):
            model, finals = self.models[env], 0
            for t in range(shape[0]):
                timestep = model.timesteps[begin + t]
                expected = model.stacked(*model.history(begin + t))
                assert np.array_equal(rollout.obs[t, column], expected)
                index = t * NUM_ENVS + env
                assert np.array_equal(self.buffer.obs_at([index])[0], expected)
                assert bool(rollout.valid[t, column]) == (not timestep.ignored)
                if timestep.ignored:
                    continue
                assert int(rollout.actions[t, column]) == timestep.action
                assert rollout.rewards[t, column].numpy() == np.float32(timestep.reward)
                over = timestep.terminated or (
                    self.options.terminal_on_life_loss and timestep.life_lost
                )
                assert rollout.discounts[t, column].item() == (0 if over else np.float32(0.9))
                ended = (
                    timestep.terminated
                    or timestep.truncated
                    or model.timesteps[begin + t + 1].ignored
                )
                assert bool(rollout.ended[t, column]) == ended
                for name, values in rollout.extras.items():
                    assert np.array_equal(values[t, column], self.extras[begin + t][name][env])
                if timestep.truncated and not timestep.terminated and self.same_step:
                    assert int(rollout.final_steps[finals, column]) == t
                    frames, starts = model.history(begin + t)
                    final = model.stacked([*frames, timestep.final_frame], [*starts, False])
                    assert np.array_equal(rollout.final_obs[finals, column], final)
                    finals += 1
            assert (rollout.final_steps[finals:, column] == -1).all()
            last = model.stacked(*model.history(model.head))
            assert np.array_equal(rollout.bootstrap_obs[column], last)


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
@pytest.mark.parametrize("seed", long_except(range(6), 1))
def test_rollouts(seed: int, mode: str) -> None:
    rng = np.random.default_rng([seed, mode == "SameStep"])
    pair = Pair(rng, mode)
    pair.start()
    for step in range(40):
        pair.append()
        if step == 20:
            pair.start()
        if not pair.buffer.is_full:
            with pytest.raises(NotReadyError, match="rollout"):
                pair.buffer.rollout()
        else:
            pair.check([slice(None), slice(2, 4), slice(5, 6)][step % 3])
    for envs in (slice(3, 3), slice(0, 6, 2), slice(9, 12)):
        with pytest.raises(InvalidArgumentError, match="envs"):
            pair.buffer.rollout(envs)
    scalars = pair.buffer.rollout(with_obs=False)
    assert scalars.obs is None
    assert torch.equal(scalars.rewards, pair.buffer.rollout().rewards)


def test_a_lost_final_observation_is_not_learnt_from() -> None:
    """More truncations than the limit allows: the later ones are marked."""
    pair = Pair(np.random.default_rng(0), "SameStep", num_steps=8, max_episode_steps=100)
    pair.start()
    lost = 0
    for _ in range(60):
        pair.append()
        if not pair.buffer.is_full:
            continue
        rollout = pair.buffer.rollout()
        begin = pair.models[0].head - 8
        for env, model in enumerate(pair.models):
            timesteps = model.timesteps[begin : begin + 8]
            truncated = [
                t
                for t, timestep in enumerate(timesteps)
                if timestep.truncated and not timestep.terminated
            ]
            shown = [int(k) for k in rollout.final_steps[:, env] if k >= 0]
            for t in range(8):
                assert bool(rollout.valid[t, env]) == (t not in truncated or t in shown)
            lost += len(set(truncated) - set(shown))
    assert lost > 5


def test_minibatches_hold_every_step_once() -> None:
    pair = Pair(np.random.default_rng(0), "SameStep", num_steps=4)
    pair.start()
    for _ in range(4):
        pair.append()
    batches = pair.buffer.minibatches(3)
    assert batches.shape == (3, 8)
    assert batches.flatten().sort().values.tolist() == list(range(24))
    assert not torch.equal(batches, pair.buffer.minibatches(3))
    obs = pair.buffer.rollout().obs
    assert obs is not None
    assert torch.equal(pair.buffer.obs_at(batches[1]), obs.flatten(0, 1)[batches[1]])
    newest = obs[:, :, -1] if pair.buffer.options.stack > 1 else obs
    for size in (1, 13, 24, 100):
        parts = list(pair.buffer.frames(size))
        assert torch.equal(torch.cat(parts), newest.flatten(0, 1))
        assert max(map(len, parts)) <= max(size, 6)
    for count in (0, 5):
        with pytest.raises(InvalidArgumentError, match="count"):
            pair.buffer.minibatches(count)


@pytest.mark.parametrize(
    ("num_envs", "num_batches", "num_steps", "spacing", "uses"),
    [(120, 1, 5, 5, 1), (120, 5, 5, 1, 1), (1200, 20, 20, 1, 1), (24, 2, 6, 1, 3), (24, 4, 6, 3, 0.5),
     (24, 4, 2, 0.5, 1), (24, 4, 8, 0.25, 8)],
)  # fmt: skip
def test_uses_of_a_transition(
    num_envs: int, num_batches: int, num_steps: int, spacing: float, uses: float
) -> None:
    """Exactly T / (SPU B) on average, in the fixed order of batches, none before T steps."""
    schedule = MultiBatchSchedule(
        num_envs, num_batches=num_batches, num_steps=num_steps, steps_per_update=spacing
    )
    assert schedule.uses_per_transition == uses
    total = 40 * num_steps * num_batches
    counts = np.zeros((total, num_envs))
    order = []
    for step in range(1, total + 1):
        for envs in schedule.due(step):
            assert step >= num_steps
            counts[step - num_steps : step, envs] += 1
            order.append(envs.start // (num_envs // num_batches))
    assert order == [k % num_batches for k in range(len(order))]
    settled = counts[4 * num_steps * num_batches : -4 * num_steps * num_batches]
    assert settled.mean() == uses
    if uses == int(uses):
        assert (settled == uses).all()


def test_invalid_arguments() -> None:
    for keywords in (
        {"num_batches": 5}, {"num_batches": 0}, {"steps_per_update": 0},
        {"steps_per_update": 1.5}, {"steps_per_update": 0.4},
        {"steps_per_update": float("inf")}, {"steps_per_update": float("nan")}, {"steps_per_update": "x"},
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=next(iter(keywords))):
            TrajectoryBuffer(TrajectoryOptions(num_envs=NUM_ENVS, obs_shape=(2,), **keywords))
    number = ((), torch.float32)
    for extras in ({"a": 1}, {"a": ((),)}, {1: number}, {"step": number}, {"actions": number}):
        with pytest.raises(InvalidArgumentError, match="extras"):
            TrajectoryOptions(extras=extras)  # type: ignore[arg-type]
    with pytest.raises(CapacityError, match="free"):
        TrajectoryBuffer(TrajectoryOptions(num_envs=10**7, num_steps=1000))
    pair = Pair(np.random.default_rng(0), "SameStep", num_steps=2)
    with pytest.raises(NotReadyError, match="start"):
        pair.append()
    pair.start()
    before = {name: value.clone() for name, value in pair.buffer.state_dict()["tensors"].items()}
    step = SimpleNamespace(**{k: v for k, v in pair.episodes.step().items() if k != "action"})
    none = np.zeros(NUM_ENVS)
    for extras in ({}, {"log_probs": none}, {"log_probs": none, "noise": none}):
        with pytest.raises(InvalidArgumentError, match=r"extras|noise"):
            pair.buffer.append(np.zeros(NUM_ENVS, int), step, **extras)
    for name, value in pair.buffer.state_dict()["tensors"].items():
        assert torch.equal(value, before[name]), name
    pair.append()
    pair.append()
    buffer: Any = pair.buffer
    for call, bad in (
        (buffer.rollout, (0, [0], "a", slice("a"), np.array([0]))),
        (buffer.obs_at, (None, "a", 3, [0.5], [[0, 1]])),
        (buffer.minibatches, (2.0, None, "2", 0)),
        (lambda size: next(buffer.frames(size)), (2.0, None, "2", 0, 2**70)),
    ):
        for value in bad:
            with pytest.raises(InvalidArgumentError, match=r"envs|index|count|size"):
                call(value)


def test_ctrl_c_in_a_call_parts_no_step_from_its_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(np.random.default_rng(0), "SameStep", num_steps=4)
    pair.start()
    append = pair.buffer._ring.append

    def interrupted(*given: Any) -> None:
        append(*given)
        raise KeyboardInterrupt

    for number in range(9):
        with monkeypatch.context() as patch:
            if number == 6:
                patch.setattr(pair.buffer._ring, "append", interrupted)
            pair.append()
    pair.check(slice(None))
    assert pair.buffer.num_steps_done == 9


def test_save_and_load(tmp_path: Path) -> None:
    pair = Pair(np.random.default_rng(3), "NextStep", num_steps=4, num_batches=2)
    pair.start()
    for _ in range(7):
        pair.append()
    path = tmp_path / "rollout"
    pair.buffer.save(path)
    other = TrajectoryBuffer(pair.options)
    other.load(path)
    assert other.num_steps_done == 7
    assert other.due() == pair.buffer.due()
    assert torch.equal(other.minibatches(2), pair.buffer.minibatches(2))
    mine, theirs = other.rollout(), pair.buffer.rollout()
    assert mine.obs is not None
    assert theirs.obs is not None
    assert torch.equal(mine.obs, theirs.obs)
    assert torch.equal(mine.extras["noise"], theirs.extras["noise"])
    with pytest.raises(CheckpointError, match="num_steps"):
        Pair(np.random.default_rng(3), "NextStep", num_steps=5).buffer.load(path)
    report = pair.buffer.memory_report()
    assert "noise" in report
    assert "total" in report
