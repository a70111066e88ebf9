"""Use everything for a long time: memory stays flat, and no thread or file is left.

    python -m tests.faults.soak --minutes 10

A lap plays all games once, each in a batch of random size, threads, autoreset mode and colours:
steps, resets, snapshots moved to another batch, copies, pickles, `send` and `recv`. In each lap
some games are also served by `cule watch` to viewers that come and go, and the recorded digests of
ale-py (`tests/golden/traces.json`) are compared. After each lap the resident memory is read. The
first laps, in which caches fill, do not count; the slope of the others is that of a straight line,
with its 99 % confidence interval.

Exit status 1: a digest differs, a thread or file is left, or memory grows: the interval lies above
zero, and the growth is more than `MOST_GROWTH` of the memory per hour.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import http.client
import json
import os
import pickle
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import cule
from cule.games import list_games
from cule.watch.environments import Environments
from cule.watch.policies import PlayOptions, open_random
from cule.watch.server import WatchServer
from cule.watch.session import Session
from roms_tools import record_golden

WARM_LAPS = 2
STEPS = 40
WATCH_EVERY = 13  # games
DIGEST_EVERY = 4
MOST_GROWTH = 0.02


def play(game: str, rng: random.Random) -> None:
    """One use of a game."""
    num_envs = rng.choice((1, 3, 8))
    options: dict[str, Any] = {
        "num_threads": rng.choice((1, 2)),
        "autoreset_mode": rng.choice(("NextStep", "SameStep")),
        "repeat_action_probability": rng.choice((0.0, 0.25)),
        "max_num_frames_per_episode": rng.choice((60, 108_000)),
        "grayscale": rng.choice((True, False)),
    }
    env, other = (cule.AtariVectorEnv(game, num_envs, **options) for _ in range(2))
    with contextlib.closing(env), contextlib.closing(other):
        for each in (env, other):
            each.reset(seed=rng.randrange(1000))
        for _ in range(STEPS):
            env.step(env.action_space.sample())
        other.set_state(env.get_state())
        copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(other))]
        for each in (env, other, *copies):
            each.send(np.zeros(num_envs, np.int64))
            each.recv()
        for each in copies:
            each.close()


def watch(game: str, rng: random.Random) -> None:
    """Serve a game to viewers that come and go."""
    env, policy = open_random(PlayOptions(game=game, num_envs=4, seed=rng.randrange(1000)))
    with contextlib.closing(env):
        session = Session(Environments(env, policy, seed=0), speed=0.0, fps=1e6)
        server = WatchServer("127.0.0.1", 0, session)
        loop = threading.Thread(target=session.run)
        with server.serving():
            loop.start()
            for viewer in ("a", "b", "c"):
                connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
                for path in ("/", f"/frame?viewer={viewer}", f"/state?viewer={viewer}"):
                    connection.request("GET", path)
                    connection.getresponse().read()
                connection.close()
            session.stop()
            loop.join()


def is_exact(game: str, traces: dict[str, Any]) -> bool:
    """Whether a game still takes the steps that ale-py took."""
    options = {"resets": "cached", "num_reset_states": 1, **record_golden.STEP_OPTIONS}
    env = cule.AtariVectorEnv(game, record_golden.NUM_ENVS, num_threads=1, **options)
    return bool(record_golden.play_env(game, env) == traces[game]["steps"])


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def num_files() -> int:
    """Open files, sockets and the like."""
    return len(os.listdir("/proc/self/fd"))


def slope_with_interval(hours: np.ndarray, values: np.ndarray) -> tuple[float, float, float]:
    """Slope of a straight line through points, and its 99 % confidence interval (normal errors)."""
    centred = hours - hours.mean()
    spread = float((centred**2).sum())
    slope = float((centred * values).sum()) / spread
    rest = values - values.mean() - slope * centred
    error = float(np.sqrt((rest**2).sum() / max(len(hours) - 2, 1) / spread))
    return slope, slope - 2.58 * error, slope + 2.58 * error


def main() -> int:
    """Run laps until the time is over; print a report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file of the report")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    traces = json.loads(record_golden.TARGET.read_text())["traces"]
    begin = time.monotonic()
    laps: list[tuple[float, int]] = []
    wrong: list[str] = []
    threads = files = 0
    while time.monotonic() < begin + 60 * args.minutes or len(laps) < WARM_LAPS + 3:
        for number, game in enumerate(list_games()):
            play(game, rng)
            if number % WATCH_EVERY == len(laps) % WATCH_EVERY:
                watch(game, rng)
            if number % DIGEST_EVERY == len(laps) % DIGEST_EVERY and not is_exact(game, traces):
                wrong.append(game)
        gc.collect()
        laps.append((time.monotonic() - begin, resident_bytes()))
        if len(laps) == WARM_LAPS:
            threads, files = threading.active_count(), num_files()
        print(f"lap {len(laps)}: {laps[-1][0]:.0f} s, {laps[-1][1] / 1e6:.1f} MB", file=sys.stderr)
    hours, sizes = np.array(laps[WARM_LAPS:]).T / [[3600], [1]]
    slope, low, high = slope_with_interval(hours, sizes)
    report = {
        "minutes": round(laps[-1][0] / 60, 1),
        "laps": len(laps),
        "resident_mb": round(float(sizes.mean()) / 1e6, 1),
        "mb_per_hour": round(slope / 1e6, 2),
        "interval_99": [round(low / 1e6, 2), round(high / 1e6, 2)],
        "threads_left": threading.active_count() - threads,
        "files_left": num_files() - files,
        "games_that_differ": sorted(set(wrong)),
    }
    text = json.dumps(report, indent=1)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")
    grows = low > 0 and slope > MOST_GROWTH * float(sizes.mean())
    return int(bool(wrong or report["threads_left"] or report["files_left"] or grows))


if __name__ == "__main__":
    sys.exit(main())
