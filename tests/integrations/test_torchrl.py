"""TorchRL: the environment, its collectors and its replay buffers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from tensordict import TensorDict

with warnings.catch_warnings():  # TorchRL's of its own classes
    warnings.simplefilter("ignore", DeprecationWarning)
    from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import SerialEnv
from torchrl.envs.utils import check_env_specs

import cule
from cule.wrappers.torchrl import TorchRLEnv

#: Episodes of 25 steps.
SHORT = {"max_num_frames_per_episode": 100, "noop_max": 1, "num_threads": 1}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"continuous": True},
        {"grayscale": False, "img_height": 210, "img_width": 160},
        {"stack_num": 1, "frameskip": 2},
        {"preset": "baselines", "device": "auto"},
    ],
)
def test_specs(closing, options) -> None:
    check_env_specs(closing(TorchRLEnv("pong", 3, **SHORT, **options)), seed=5)


def test_steps_are_those_of_the_environment(closing) -> None:
    ours = closing(TorchRLEnv([("breakout", 2), ("pong", 1)], 3, **SHORT))
    theirs = closing(
        cule.AtariVectorEnv(
            [("breakout", 2), ("pong", 1)], 3, **SHORT, autoreset_mode="Disabled", output="torch"
        )
    )
    ours.set_seed(7)
    state = ours.reset()
    wanted, _ = theirs.reset(seed=7)
    torch.testing.assert_close(state["observation"], wanted, rtol=0, atol=0)
    torch.manual_seed(0)
    ends = 0
    for _ in range(80):
        state["action"] = ours.action_spec.rand()
        result, state = ours.step_and_maybe_reset(state)
        wanted, reward, terminated, truncated, _ = theirs.step(result["action"])
        after = result["next"]
        torch.testing.assert_close(after["observation"], wanted, rtol=0, atol=0)
        torch.testing.assert_close(after["reward"][:, 0], reward.float(), rtol=0, atol=0)
        assert torch.equal(after["terminated"][:, 0], terminated)
        assert torch.equal(after["truncated"][:, 0], truncated)
        done = terminated | truncated
        assert torch.equal(after["done"][:, 0], done)
        if done.any():
            ends += int(done.sum())
            wanted, _ = theirs.reset(options={"reset_mask": done.numpy()})
        torch.testing.assert_close(state["observation"], wanted, rtol=0, atol=0)
    assert ends >= 9


def test_observations_are_not_copied(closing, monkeypatch) -> None:
    env = closing(TorchRLEnv("pong", 2, **SHORT))
    state = env.reset()
    step, made = env.env.step, []

    def note(actions):
        made.append(step(actions))
        return made[-1]

    monkeypatch.setattr(env.env, "step", note)
    state["action"] = env.action_spec.zero()
    after = env.step(state)["next"]
    assert after["observation"].data_ptr() == made[0][0].data_ptr()


def test_the_same_seed_gives_the_same_steps(closing) -> None:
    found = []
    for _ in range(2):
        env = closing(TorchRLEnv("seaquest", 2, num_threads=1))
        env.set_seed(3)
        torch.manual_seed(1)
        found.append(env.rollout(40, break_when_any_done=False)["next", "observation"])
    assert torch.equal(*found)
    assert not torch.equal(found[0][0], found[0][1])


def test_a_collector_fills_a_replay_buffer(closing) -> None:
    env = TorchRLEnv("breakout", 4, **SHORT)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(400), batch_size=32)
    collector = Collector(env, frames_per_batch=200, total_frames=400)
    ends = 0
    for batch in collector:
        assert batch.batch_size == torch.Size([4, 50])
        ends += int(batch["next", "done"].sum())
        # A step begins with the observation that the one before ended with, unless it was reset.
        continues = ~batch["next", "done"][:, :-1, 0]
        before, after = batch["next", "observation"][:, :-1], batch["observation"][:, 1:]
        assert torch.equal(before[continues], after[continues])
        buffer.extend(batch.reshape(-1))
    collector.shutdown()
    assert ends >= 12
    sample = buffer.sample()
    assert sample["observation"].shape == (32, 4, 84, 84)
    assert sample["observation"].dtype == torch.uint8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoreset_mode": "SameStep"}, "autoreset_mode is 'SameStep'; for TorchRL"),
        ({"output": "numpy"}, "output is 'numpy'; for TorchRL it must be 'torch'"),
        ({"life_loss_info": True}, "life_loss_info is True; for TorchRL it must be False"),
        (
            {"preset": "baselines", "fire_after_life_loss": True},
            "episodic_life and fire_after_life_loss are True; for TorchRL",
        ),
        ({"batch_size": 2}, "batch_size is 2; for TorchRL it must be num_envs, 4"),
    ],
)
def test_options_that_torchrl_fixes(options, message) -> None:
    with pytest.raises(cule.InvalidArgumentError, match=message):
        TorchRLEnv("pong", 4, **options)


def test_a_seed_that_is_refused_is_not_kept(closing) -> None:
    env = closing(TorchRLEnv("pong", 2, autoreset_mode="Disabled"))
    for seed in (2**40, 1.5, "x"):
        with pytest.raises(cule.InvalidArgumentError, match="seed"):
            env.set_seed(seed)
    env.reset()


def test_seeds_that_torchrl_derives_have_32_bits(closing) -> None:
    env = closing(SerialEnv(3, lambda: TorchRLEnv("pong", 2, **SHORT)))
    env.set_seed(5)
    env.rollout(2)
    one, seed = closing(TorchRLEnv("pong", 2, **SHORT)), 5
    seeds = [seed := one.set_seed(seed) for _ in range(20)]
    assert max(seeds) >= 2**31
    one.set_seed(2**32 - 1)
    one.rollout(2)


def test_wrong_actions_are_refused_and_nothing_moves(closing) -> None:
    env = closing(TorchRLEnv("pong", 2, **SHORT))
    env.reset()
    before = env.env.get_state([0, 1])
    with pytest.raises(cule.ActionRangeError):
        env.step(TensorDict({"action": torch.tensor([0, 99])}, batch_size=[2]))
    np.testing.assert_array_equal(np.asarray(env.env.get_state([0, 1])), np.asarray(before))
