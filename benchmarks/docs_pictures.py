"""Makes pictures of the documentation: ``python -m benchmarks.docs_pictures`` (needs matplotlib).

* ``players.png``: games of two players under random play, three environments of each;
* ``modifications.png``: games as they are, and below modified, after the same actions;
* ``branches.png``: a snapshot, and what comes after it with each of some actions held;
* ``self_play.svg``: PPO against itself in Pong, from ``benchmarks/results/pong-self-play``;
* ``search.svg``: rooms and score of Go-Explore in Montezuma's Revenge by processor time, from
  ``benchmarks/results/go_explore_*.csv``;
* ``datasets.svg``: bytes of a step, from ``benchmarks/results/datasets.json``.
"""

from __future__ import annotations

import json
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import cule
from benchmarks.readme_pictures import IMAGES, RESULTS, mosaic
from benchmarks.report.numbers import read_rows
from cule.search import branch

#: Games of the mosaic; all have 210 scanlines.
GAMES = ("pong", "boxing", "tennis", "ice_hockey", "joust", "entombed", "surround", "warlords")

#: Modifications of the picture, by game.
MODIFIED = {
    "pong": "player_x(x=100)",
    "breakout": "brick_rows(first=1, last=3)",
    "space_invaders": "no_shields",
    "freeway": "cars_in_column",
    "ms_pacman": "pill_rows(first=0, last=3)",
    "montezuma_revenge": "level(number=2)",
    "riverraid": "red_river",
    "seaquest": "divers_on_board(divers=5)",
}

#: The snapshot's game, its random steps, the actions that are held, and for how many steps.
GAME, BEFORE, HELD = "seaquest", 100, 20
ACTIONS = ("NOOP", "UP", "RIGHT", "LEFT", "DOWN")

#: Cells of the runs of Go-Explore by the names of their files.
SEARCHES = {"go_explore_ram": "cells of RAM", "go_explore_frames": "cells of 11 x 8 pixels"}


def screens_of_players() -> NDArray[np.uint8]:
    """Screens of three environments of each game, uint8 ``[games, 3, H, 160, 3]``."""
    columns = []
    for game in GAMES:
        env = cule.MultiAgentVectorEnv(game, 3)
        env.reset(seed=0)
        rng = np.random.default_rng(0)
        for _ in range(250):
            env.step(rng.integers(len(env.action_set), size=(3, 2)))
        columns.append(np.asarray(env.screens("rgb")))
        env.close()
    return np.stack(columns)


def screens_of_modifications() -> NDArray[np.uint8]:
    """Screens of each game, as it is and modified, uint8 ``[games, 2, H, 160, 3]``."""
    modifications = [entry for name in MODIFIED.values() for entry in (None, name)]
    games = [(game, 2) for game in MODIFIED]
    env = cule.AtariVectorEnv(games, 2 * len(games), modifications=modifications)
    env.reset(seed=np.repeat(np.arange(len(games)), 2))
    rng = np.random.default_rng(3)
    for _ in range(60):
        env.step(np.repeat(rng.integers(len(env.action_set), size=len(games)), 2))
    screens = np.asarray(env.screens("rgb"))
    env.close()
    return screens.reshape(len(games), 2, *screens.shape[1:])


def screens_of_branches() -> NDArray[np.uint8]:
    """Screens of the snapshot and of its branches, uint8 ``[1 + actions, 1, H, 160, 3]``."""
    env = cule.AtariVectorEnv(GAME, len(ACTIONS), resets="cached")
    env.reset(seed=0)
    rng = np.random.default_rng(1)
    for _ in range(BEFORE):
        env.step(rng.integers(len(env.action_set), size=len(ACTIONS)))
    branch(env, env.get_state([0]))
    first = np.asarray(env.screens("rgb", [0]))
    names = [action.name for action in env.action_set]
    for _ in range(HELD):
        env.step(np.array([names.index(name) for name in ACTIONS]))
    screens = np.concatenate([first, np.asarray(env.screens("rgb"))])
    env.close()
    return screens[:, None]


def draw_self_play() -> None:
    """Scores against random actions, and win rates of the last policy against earlier ones."""
    folder = RESULTS.parent / "pong-self-play"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    rows = read_rows(folder / "evaluations.csv")
    steps = [float(row["steps"]) / 1e6 for row in rows]
    axes[0].plot(steps, [float(row["mean"]) for row in rows], marker=".")
    axes[0].set_ylabel("score against random actions")
    axes[0].set_ylim(0, 21)
    rows = [row for row in read_rows(folder / "matches.csv") if row["opponent_steps"] != "random"]
    steps = [float(row["opponent_steps"]) / 1e6 for row in rows]
    rates, low, high = (
        np.array([float(row[name]) for row in rows])
        for name in ("win_rate", "win_rate_low", "win_rate_high")
    )
    axes[1].errorbar(steps, rates, (rates - low, high - rates), marker=".", capsize=3)
    axes[1].axhline(0.5, color="grey", linewidth=0.8, linestyle="--")
    axes[1].set_ylabel("win rate of the last policy")
    axes[1].set_ylim(0.4, 1.03)
    axes[0].set_xlabel("steps of all seats, millions")
    axes[1].set_xlabel("steps of the opponent, millions")
    figure.suptitle("PPO against itself, Pong with two players")
    save(figure, "self_play.svg")


def draw_search() -> None:
    """Rooms and best score by processor minutes."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, label in SEARCHES.items():
        rows = read_rows(RESULTS.parent / f"{name}.csv")
        minutes = [float(row["processor_s"]) / 60 for row in rows]
        for axis, column in zip(axes, ("rooms", "best_score"), strict=True):
            axis.plot(minutes, [float(row[column]) for row in rows], label=label)
    for axis, text in zip(axes, ("rooms", "best score"), strict=True):
        axis.set_xlabel("processor minutes, one thread")
        axis.set_ylabel(text)
        axis.set_ylim(bottom=0)
        axis.set_xscale("log")
        axis.set_xticks((0.2, 0.5, 1, 2, 5, 10), ("0.2", "0.5", "1", "2", "5", "10"))
        axis.minorticks_off()
        axis.margins(x=0.01)
    axes[0].legend(loc="upper left")
    figure.suptitle("Go-Explore in Montezuma's Revenge, without learning")
    save(figure, "search.svg")


def draw_datasets() -> None:
    """Bytes of a step as frames and as actions."""
    games: dict[str, dict[str, float]] = json.loads((RESULTS.parent / "datasets.json").read_text())[
        "games"
    ]
    kinds = {
        "frame_bytes_per_step": "a frame of 84 x 84",
        "compressed_frame_bytes_per_step": "the frame, compressed",
        "log_bytes_per_step": "the action log",
    }
    figure, axis = plt.subplots(figsize=(9, 3.2), layout="constrained")
    places = np.arange(len(games))
    for number, (key, label) in enumerate(kinds.items()):
        values = [row[key] for row in games.values()]
        bars = axis.bar(places + 0.27 * (number - 1), values, 0.25, label=label)
        axis.bar_label(
            bars,
            [f"{value:,.0f}" if value > 10 else f"{value:.2f}" for value in values],
            fontsize=8,
        )
    axis.set_xticks(places, list(games))
    axis.set_yscale("log")
    axis.set_ylim(0.1, 1e5)
    axis.set_ylabel("bytes of a step")
    axis.legend(ncols=3, loc="upper right", fontsize=8)
    save(figure, "datasets.svg")


def save(figure: Any, name: str) -> None:
    """Write a figure the same way each time."""
    figure.savefig(IMAGES / name, metadata={"Date": None})


def main() -> None:
    """Write all."""
    mpl.rcParams["svg.hashsalt"] = "cule"
    mpl.rcParams["svg.fonttype"] = "none"
    (IMAGES / "players.png").write_bytes(mosaic(screens_of_players()))
    (IMAGES / "modifications.png").write_bytes(mosaic(screens_of_modifications()))
    (IMAGES / "branches.png").write_bytes(mosaic(screens_of_branches()))
    draw_self_play()
    draw_search()
    draw_datasets()


if __name__ == "__main__":
    main()
