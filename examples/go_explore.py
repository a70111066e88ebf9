"""Search in the style of Go-Explore (Ecoffet et al. 2021), phase 1, with snapshots of a batch.

Each environment returns to a snapshot from an archive, explores from there with random actions,
and adds what it finds. A cell is the screen at 11 x 8 pixels and 8 shades, which is what the
environment itself returns as observation.

python examples/go_explore.py --game montezuma_revenge --num-envs 2048 --rounds 100
"""

from __future__ import annotations

import argparse

import numpy as np

import cule


def main() -> None:
    """Explore."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", default="montezuma_revenge")
    parser.add_argument("--num-envs", type=int, default=1_024)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--steps", type=int, default=25, help="steps from a snapshot")
    parser.add_argument("--max-cells", type=int, default=4_000, help="100 KB of memory for each")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    n = args.num_envs
    env = cule.AtariVectorEnv(
        args.game,
        n,
        img_height=11,
        img_width=8,
        stack_num=1,
        reward_clipping=False,
        resets="cached",
        device=args.device,
        output="numpy",
    )
    obs, _ = env.reset(seed=0)  # uint8 [n, 1, 11, 8]

    snapshots = np.empty((args.max_cells, env.state_size), np.uint8)
    scores, visits = np.zeros(args.max_cells), np.zeros(args.max_cells)
    archive: dict[bytes, int] = {}  # cell -> row of the three arrays

    def add(obs: np.ndarray, score: np.ndarray, rows: np.ndarray) -> None:
        """Keep what is a new cell, or a known one with a higher score."""
        found: dict[int, int] = {}  # row of the archive -> environment
        for i in rows.tolist():
            cell = (obs[i] // 32).tobytes()
            row = archive.get(cell, len(archive))
            if row < args.max_cells and (cell not in archive or score[i] > scores[row]):
                archive[cell] = row
                scores[row] = score[i]
                found[row] = i
        if found:
            snapshots[list(found)] = env.get_state(np.fromiter(found.values(), int))

    add(obs, np.zeros(n), np.arange(n))
    for number in range(1, args.rounds + 1):
        weights = 1 / np.sqrt(visits[: len(archive)] + 1)
        chosen = rng.choice(len(archive), n, p=weights / weights.sum())
        np.add.at(visits, chosen, 1)
        env.set_state(snapshots[chosen])
        score, alive = scores[chosen].copy(), np.ones(n, bool)
        actions = rng.integers(len(env.action_set), size=n)
        for _ in range(args.steps):
            changed = rng.random(n) < 0.1  # an action is held for ten steps on average
            actions = np.where(changed, rng.integers(len(env.action_set), size=n), actions)
            obs, reward, terminated, truncated, _ = env.step(actions)
            score += reward
            alive &= ~(terminated | truncated)
            add(obs, score, np.flatnonzero(alive))
        best = scores[: len(archive)].max()
        print(f"round {number}: {len(archive)} cells, best score {best:g}", flush=True)
    env.close()


if __name__ == "__main__":
    main()
