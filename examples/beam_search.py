"""Beam search on a batch of environments, with random play as the value of a state.

Before each decision there are some snapshots, the beam. Every action is tried from each of them in
some environments and held for a few steps; random play from there on estimates what the states are
worth. The best ones with different RAM are the next beam. The result is a list of actions, which
leads to the same score in ale-py.

python examples/beam_search.py --game ms_pacman --beam 16 --copies 4 --decisions 200
"""

from __future__ import annotations

import argparse

import numpy as np

import cule
from cule.search import RandomActions, branch, rollout

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--game", default="ms_pacman")
parser.add_argument("--beam", type=int, default=16, help="snapshots that are kept")
parser.add_argument("--copies", type=int, default=4, help="random plays from each state")
parser.add_argument("--decisions", type=int, default=100)
parser.add_argument("--hold", type=int, default=4, help="steps with one action")
parser.add_argument("--lookahead", type=int, default=40, help="steps of random play")
parser.add_argument("--num-threads", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
args = parser.parse_args()

num_actions = len(cule.AtariVectorEnv(args.game, 1).action_set)
env = cule.AtariVectorEnv(
    args.game,
    args.beam * num_actions * args.copies,
    num_threads=args.num_threads,
    obs_type="ram",
    reward_clipping=False,
    noop_max=0,
    episodic_life=True,
    resets="cached",
    device=args.device,
    output="numpy",
)
env.reset(seed=0)
policy = RandomActions(env, mean_repeat=args.hold, seed=args.seed)
# By state after a decision: [beam, actions] in a row, each with its copies.
tried = np.tile(np.arange(num_actions), args.beam)
actions = np.repeat(tried, args.copies)
first = np.arange(len(tried)) * args.copies  # an environment of each state
states = env.get_state([0] * args.beam)
scores = np.zeros(args.beam)
ways: list[list[int]] = [[] for _ in range(args.beam)]
for number in range(1, args.decisions + 1):
    came_from = branch(env, states)[first]
    held = rollout(env, args.hold, lambda obs: actions)
    score = scores[came_from] + held.returns[first]
    alive = ~(held.terminated | held.truncated)[first]
    if not alive.any():
        print("every action ends the episode")
        break
    reached, ram = env.get_state(first), env.ram[first]
    later = rollout(env, args.lookahead, policy)
    value = score + later.returns.reshape(-1, args.copies).mean(axis=1)
    value -= 1e9 * ~alive
    # Of states with the same RAM, the best; then the best of those.
    order = np.argsort(-value, kind="stable")
    _, unique = np.unique(ram[order], axis=0, return_index=True)
    best = order[np.sort(unique)][: args.beam]
    best = np.resize(best[alive[best]], args.beam)
    states, scores = reached[best], score[best]
    ways = [[*ways[came_from[i]], *[int(tried[i])] * args.hold] for i in best]
    if number % 10 == 0 or number == args.decisions:
        print(f"decision {number}: best score {scores.max():g}", flush=True)
print(f"score {scores.max():g} after {len(ways[int(scores.argmax())])} steps")
env.close()
