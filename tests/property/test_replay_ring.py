"""Every transition of a buffer is what a plain list says, over random episodes of every kind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cule.replay import Batch, PrioritizedOptions, PrioritizedReplay, ReplayOptions, UniformReplay
from tests.support.cases import long_except
from tests.support.replay_model import ListReplay, RandomEpisodes

pytestmark = [
    pytest.mark.filterwarnings("ignore::cule.replay.ShortReplayWarning"),
    pytest.mark.usefixtures("one_thread"),
]


def as_arrays(batch: Batch) -> Any:
    """The same with numpy arrays, which Python reads faster."""
    return Batch(*(value.numpy() for value in batch))


class Pair:
    """A buffer and one list an environment, fed the same."""

    def __init__(self, rng: np.random.Generator, prioritized: bool, **fixed: Any) -> None:
        mode = fixed.pop("mode", None) or str(rng.choice(["SameStep", "NextStep"]))
        choices: dict[str, Any] = {
            "capacity": int(rng.integers(1, 60)),
            "num_envs": int(rng.integers(1, 5)),
            "stack": int(rng.integers(1, 5)),
            "n_step": int(rng.integers(1, 6)),
            "gamma": float(rng.choice([1.0, 0.9, 0.5])),
            "pad": str(rng.choice(["zero", "repeat"])),
            "terminal_on_life_loss": bool(rng.integers(2)),
            "autoreset_mode": mode,
            "max_episode_steps": 1,
            "obs_shape": (int(rng.choice([2, 8])),),  # 8 bytes are copied as a word
            **fixed,
        }
        end_chance = float(rng.choice([0.0, 0.02, 0.1, 0.4, 0.9]))
        self.replay: UniformReplay = (
            PrioritizedReplay(PrioritizedOptions(**choices))
            if prioritized
            else UniformReplay(ReplayOptions(**choices))
        )
        options = self.replay.options
        self.same_step = mode == "SameStep"
        self.models = [
            ListReplay(
                stack=options.stack,
                pad=options.pad,
                n_step=options.n_step,
                gamma=options.gamma,
                same_step=self.same_step,
            )
            for _ in range(options.num_envs)
        ]
        for model in self.models:
            model.life_loss_ends = options.terminal_on_life_loss
        self.episodes = RandomEpisodes(
            options.num_envs,
            rng,
            same_step=self.same_step,
            shape=options.obs_shape,
            end_chance=end_chance,
            max_steps=options.max_episode_steps if options.max_episode_steps > 1 else 10**9,
        )
        self.rng = rng
        self.start()

    def start(self) -> None:
        frames = self.episodes.reset()
        self.replay.start(frames)
        for model, frame in zip(self.models, frames, strict=True):
            model.start(frame)

    def model_step(self, step: dict[str, Any]) -> None:
        for env, model in enumerate(self.models):
            model.append(**{name: values[env] for name, values in step.items()})

    def append(self) -> None:
        step = self.episodes.step()
        self.model_step(step)
        fields = {name: value for name, value in step.items() if name != "action"}
        if self.rng.integers(2):
            memory = self.replay.next_frame()
            memory.copy_(torch.from_numpy(step["frame"]))
            fields["frame"] = memory
        self.replay.append(step["action"], SimpleNamespace(**fields))

    def append_block(self, length: int) -> None:
        steps = [self.episodes.step() for _ in range(length)]
        for step in steps:
            self.model_step(step)
        block = {f"{name}s": np.stack([s[name] for s in steps]) for name in steps[0]}
        if self.rng.integers(2):
            block.pop("firsts")  # the buffer can tell
        renamed = {"terminateds": "terminated", "truncateds": "truncated"}
        renamed |= {"life_losts": "life_lost", "firsts": "first"}
        self.replay.append_block(**{renamed.get(k, k): v for k, v in block.items()})

    def check(self) -> None:
        """All valid timesteps, no others, everything equal."""
        replay, n = self.replay, len(self.models)
        timesteps = self.models[0].valid_timesteps(replay.num_timesteps)
        assert replay.head == self.models[0].head
        assert replay.num_valid == len(timesteps) * n
        observed = replay.observe().numpy()
        for env, model in enumerate(self.models):
            assert np.array_equal(observed[env], model.stacked(*model.history(model.head)))
        if not timesteps:
            return
        outside = [timesteps[0] * n - 1, (timesteps[-1] + 1) * n, -1]
        ids = [timestep * n + env for timestep in timesteps for env in range(n)] + outside
        batch = as_arrays(replay.sample_at(ids))
        assert not batch.weights[-3:].any()
        count = 0
        for timestep in timesteps:
            for model in self.models:
                self.compare(batch, count, model, timestep)
                count += 1

    def compare(self, batch: Any, index: int, model: ListReplay, timestep: int) -> None:
        expected = model.expected(timestep)
        weight = float(batch.weights[index])
        if not isinstance(self.replay, PrioritizedReplay):
            assert weight == float(expected.is_real)
        elif not expected.is_real:
            assert weight == 0
        assert np.array_equal(batch.obs[index], expected.obs)
        if expected.is_real:
            assert int(batch.actions[index]) == expected.action
            assert batch.returns[index] == expected.n_step_return
            assert batch.discounts[index] == expected.discount
            if expected.next_obs is not None:
                assert np.array_equal(batch.next_obs[index], expected.next_obs)

    def check_sample(self, size: int) -> None:
        """A sampled batch is made of such timesteps, with the weights that its probabilities say."""
        replay, n = self.replay, len(self.models)
        if not replay.num_valid or (not replay.options.replacement and replay.num_valid < size):
            return
        batch = as_arrays(replay.sample(size))
        valid = set(self.models[0].valid_timesteps(replay.num_timesteps))
        if isinstance(replay, PrioritizedReplay):
            ignored = [m.timesteps[timestep].ignored for timestep in valid for m in self.models]
            assert bool(batch.weights.any()) == (not all(ignored))
            if not batch.weights.any():
                return
            assert float(batch.weights.max()) == 1
            assert (batch.weights > 0).all()
        for index, identity in enumerate(batch.ids.tolist()):
            timestep, env = divmod(identity, n)
            assert timestep in valid
            self.compare(batch, index, self.models[env], timestep)
        if not replay.options.replacement:
            assert len(set(batch.ids.tolist())) == size


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("seed", long_except(range(20), every=3))
def test_random_episodes(seed: int, prioritized: bool) -> None:
    rng = np.random.default_rng([seed, prioritized])
    pair = Pair(rng, prioritized, replacement=prioritized or seed % 2 == 0)
    for _ in range(12):
        action = rng.integers(8)
        if action == 0:
            pair.start()
        elif action < 4:
            pair.append_block(int(rng.integers(1, 40)))
        else:
            for _ in range(int(rng.integers(1, 12))):
                pair.append()
        pair.check()
        pair.check_sample(4)


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_rings_of_one_transition(mode: str, stack: int) -> None:
    rng = np.random.default_rng(stack)
    pair = Pair(rng, False, mode=mode, capacity=1, num_envs=1, stack=stack, n_step=2)
    assert pair.replay.num_timesteps == stack - 1 + 2 + 1
    for _ in range(60):
        pair.append()
        pair.check()
        pair.check_sample(1)
    assert pair.replay.num_valid == 1


@pytest.mark.parametrize("prioritized", [False, True])
def test_episodes_longer_than_the_ring(prioritized: bool) -> None:
    """Truncated at the limit, all together, with no more final frames than the limit allows."""
    rng = np.random.default_rng(5)
    pair = Pair(
        rng, prioritized, mode="SameStep", capacity=60, num_envs=3, max_episode_steps=50, n_step=3
    )
    pair.episodes.end_chance = 0.0
    assert pair.replay.num_timesteps < 50
    for _ in range(160):
        pair.append()
    for _ in range(60):
        pair.append()
        pair.check()


def test_more_truncations_than_promised_are_left_out() -> None:
    """A final frame that has been overwritten gives weight 0, never another frame."""
    rng = np.random.default_rng(6)
    pair = Pair(
        rng, False, mode="SameStep", capacity=64, num_envs=2, max_episode_steps=1000, n_step=1
    )
    pair.episodes.end_chance, lost = 0.5, 0
    for _ in range(100):
        pair.append()
    replay = pair.replay
    for timestep in pair.models[0].valid_timesteps(replay.num_timesteps):
        for env, model in enumerate(pair.models):
            batch = as_arrays(replay.sample_at([timestep * 2 + env]))
            if batch.weights[0] > 0:
                pair.compare(batch, 0, model, timestep)
            else:
                assert model.timesteps[timestep].truncated
                assert not model.timesteps[timestep].terminated
                lost += 1
    assert lost > 5


def test_float_states_of_any_shape() -> None:
    """27 floats in, 27 floats out, from blocks of host arrays; nothing is rounded."""
    rng = np.random.default_rng(0)
    replay = UniformReplay(
        ReplayOptions(
            capacity=500,
            obs_shape=(27,),
            obs_dtype=torch.float32,
            action_shape=(3,),
            action_dtype=torch.float32,
            stack=1,
        )
    )
    states = rng.normal(size=(301, 1, 27)).astype(np.float32)
    actions = rng.normal(size=(300, 1, 3)).astype(np.float32)
    rewards = rng.normal(size=(300, 1)).astype(np.float32)
    replay.start(states[0])
    replay.append_block(
        frames=states[1:], actions=actions, rewards=rewards, terminated=np.zeros((300, 1), bool)
    )
    batch = replay.sample(64)
    ids = batch.ids.numpy()
    assert np.array_equal(batch.obs, states[ids, 0])
    assert np.array_equal(batch.next_obs, states[ids + 1, 0])
    assert np.array_equal(batch.actions, actions[ids, 0])
    assert np.array_equal(batch.returns, rewards[ids, 0])
