"""Several games in one batch, each with its share of the environments.

python examples/several_games.py --games pong breakout seaquest --each 16
"""

from __future__ import annotations

import argparse

import numpy as np

import cule

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--games", nargs="+", default=["pong", "breakout", "seaquest"])
parser.add_argument("--each", type=int, default=8, help="environments of each game")
parser.add_argument("--steps", type=int, default=1_000)
args = parser.parse_args()

env = cule.AtariVectorEnv(
    [(game, args.each) for game in args.games],
    len(args.games) * args.each,
    preset="v5",  # info has the return of each episode
    autoreset_mode="SameStep",
    reward_clipping=False,
)
# One action set for all games: the 18 actions of the console.
print(env, [action.name for action in env.action_set], sep="\n")
game_of_env = np.repeat(args.games, args.each)
returns: dict[str, list[int]] = {game: [] for game in args.games}
rng = np.random.default_rng(0)
env.reset(seed=0)
for _ in range(args.steps):
    actions = rng.integers(len(env.action_set), size=env.num_envs)
    _, _, terminated, truncated, info = env.step(actions)
    for i in np.flatnonzero(terminated | truncated):
        returns[game_of_env[i]].append(int(info["final_info"]["episode_return"][i]))
for game, values in returns.items():
    mean = f"mean return {np.mean(values):.1f}" if values else "none has ended yet"
    print(f"{game:<12} {len(values):>4} episodes, {mean}")
env.close()
