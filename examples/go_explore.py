"""The exploration phase of Go-Explore (Ecoffet et al. 2021) on a batch of environments.

Each environment returns to a snapshot from the archive and explores from there with random actions,
which it holds for a while; what it finds goes into the archive. A cell is the screen at 11 x 8
pixels and 8 shades, or, with --ram, bytes of the console's RAM. For Montezuma's Revenge `--ram
3,42/16,43/16,65,66 --room 3` is the room, the position of the player, the objects it carries, and
what is left in the room.

python examples/go_explore.py --game montezuma_revenge --num-envs 1024 --rounds 100
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np

import cule
from cule.search import Archive, RandomActions, frame_cells, ram_cells

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--game", default="montezuma_revenge")
parser.add_argument("--num-envs", type=int, default=1_024)
parser.add_argument("--num-threads", type=int, default=0)
parser.add_argument("--rounds", type=int, default=50)
parser.add_argument("--steps", type=int, default=100, help="steps from a snapshot")
parser.add_argument("--mean-repeat", type=float, default=20, help="steps with one action")
parser.add_argument("--ram", help="addresses of cells, each with /DIVISOR if not 1")
parser.add_argument("--room", type=int, help="address of the room, to count rooms")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--out", type=Path, help="folder for progress.csv and archive.npz")
args = parser.parse_args()

env = cule.AtariVectorEnv(
    args.game,
    args.num_envs,
    num_threads=args.num_threads,
    img_height=11,
    img_width=8,
    stack_num=1,
    reward_clipping=False,
    noop_max=0,
    episodic_life=True,
    resets="cached",
    device=args.device,
    output="numpy",
)
words = [word.partition("/") for word in (args.ram or "").split(",") if word]
addresses = [int(address) for address, _, _ in words]
divisors = [int(divisor or 1) for _, _, divisor in words]


def cells_of(obs: np.ndarray) -> np.ndarray:
    """The cell of each environment."""
    return ram_cells(env.ram, addresses, divisors) if words else frame_cells(obs)


rng = np.random.default_rng(args.seed)
policy = RandomActions(env, mean_repeat=args.mean_repeat, seed=args.seed)
archive, rows = Archive(env), []
rooms: set[int] = set()
obs, _ = env.reset(seed=0)
archive.add(cells_of(obs), scores=0, steps=0)
actions = np.empty((args.steps, env.num_envs), np.int64)
for number in range(1, args.rounds + 1):
    starts = archive.choose(env.num_envs, rng)
    env.set_state(starts.states)
    scores = starts.scores.copy()
    alive = np.ones(env.num_envs, bool)
    for t in range(args.steps):
        actions[t] = policy()
        obs, rewards, terminated, truncated, _ = env.step(actions[t])
        scores += rewards
        alive &= ~(terminated | truncated)
        if args.room is not None:
            rooms.update(env.ram[alive, args.room].tolist())
        archive.add(
            cells_of(obs),
            scores,
            starts.steps + t + 1,
            mask=alive,
            since=starts,
            actions=actions[: t + 1],
        )
    row = {
        "round": number,
        "frames": number * args.steps * env.num_envs * 4,
        "cells": len(archive),
        "best_score": archive.scores.max(),
        "rooms": len(rooms),
        "processor_s": time.process_time(),
    }
    rows.append(row)
    print(", ".join(f"{name} {value:g}" for name, value in row.items()), flush=True)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        with (args.out / "progress.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerows(rows)
if args.out is not None:
    archive.save(args.out / "archive.npz")
best = archive.best()
print(f"best: score {archive.scores[best]:g} after {archive.steps[best]} steps")
env.close()
