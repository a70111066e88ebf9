"""Random play with Gymnasium: one environment with `make`, a batch with `make_vec`.

python examples/gymnasium_loop.py --steps 500
"""

from __future__ import annotations

import argparse

import gymnasium
from gymnasium.vector import VectorEnv

import cule


def play_one(env: gymnasium.Env, steps: int) -> None:
    """Play single episodes, and print the score of each."""
    score, episodes = 0.0, 0
    obs, info = env.reset(seed=0)  # uint8 [210, 160, 3]
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        score += float(reward)
        if terminated or truncated:
            print(f"episode of {info['episode_frame_number']} frames: {score:g} points")
            score, episodes = 0.0, episodes + 1
            obs, info = env.reset()
    print(f"one environment: {steps} steps, {episodes} episodes, observations {obs.shape}")


def play_batch(envs: VectorEnv, steps: int) -> None:
    """Play a batch, which starts new episodes by itself."""
    episodes = 0
    obs, _ = envs.reset(seed=0)  # uint8 [16, 4, 84, 84]
    for _ in range(steps):
        obs, _, terminated, truncated, _ = envs.step(envs.action_space.sample())
        episodes += int((terminated | truncated).sum())
    print(f"{envs.num_envs} environments: {steps} steps, {episodes} episodes, {obs.shape}")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=2_000)
steps = parser.parse_args().steps

print(f"cule {cule.__version__}")  # importing cule registers the ids
env = gymnasium.make("cule/Breakout-v5")
play_one(env, steps)
env.close()
envs = gymnasium.make_vec("cule/Breakout-v5", num_envs=16)
play_batch(envs, steps)
envs.close()
