"""Replay fed by the environments: what is sampled is what the policy saw, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cule
from cule.replay import ReplayOptions, UniformReplay

pytestmark = [
    pytest.mark.ale,
    pytest.mark.filterwarnings("ignore::cule.replay.ShortReplayWarning"),
]


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_replayed_stacks_are_what_step_returned(mode: str, output: str) -> None:
    keywords = {"autoreset_mode": mode, "max_num_frames_per_episode": 60}
    env = cule.AtariVectorEnv("breakout", 2, **keywords)
    source = cule.AtariVectorEnv("breakout", 2, **keywords, output=output)
    seen = [env.reset(seed=3)[0].copy()]
    replay = UniformReplay(
        ReplayOptions(capacity=200, num_envs=2, autoreset_mode=mode, max_episode_steps=15)
    )
    first, _ = source.reset(seed=3)
    replay.start(first[:, -1])
    rng = np.random.default_rng(0)
    finals: dict[tuple[int, int], np.ndarray] = {}
    for step in range(60):
        assert np.array_equal(replay.observe(), seen[-1])
        actions = rng.integers(0, 4, 2)
        obs, _, _, truncated, info = env.step(actions)
        result = source.step_frames(actions, out=replay.next_frame())
        replay.append(actions, result)
        for env_index in np.flatnonzero(truncated):
            shown = info["final_obs"] if mode == "SameStep" else obs
            finals[step, int(env_index)] = shown[env_index].copy()
        seen.append(obs.copy())
    assert finals
    batch = replay.sample_at(torch.arange(60 * 2))
    for index in range(60 * 2):
        timestep, env_index = divmod(index, 2)
        if batch.weights[index] == 0:
            assert (timestep - 1, env_index) in finals  # the step that only reset
            assert mode == "NextStep"
            continue
        assert np.array_equal(batch.obs[index], seen[timestep][env_index])
        if batch.discounts[index] > 0:
            following = finals.get((timestep, env_index), seen[timestep + 1][env_index])
            assert np.array_equal(batch.next_obs[index], following)
