"""Use everything for a long time: memory stays flat, and no thread or file is left.

    python -m tests.faults.soak --minutes 60 --record benchmarks/results/soak.csv

A lap plays all games once, each in a batch of random size, threads, autoreset mode and colours:
steps, resets, snapshots moved to another batch, copies, pickles, `send` and `recv`. In each lap
some games are also served by `cule watch` to viewers that come and go, and the recorded digests of
ale-py (`tests/golden/traces.json`) are compared. After each lap the resident memory is read, and a
row written. Runs add to the record, one piece of a long soak each. The first laps of a piece, in
which caches fill, do not count; the slope of the others is that of straight lines through the
pieces, with its 99 % confidence interval.

Exit status 1: a digest differs, a thread or file is left, or memory grows: the interval lies above
zero, and the growth is more than `MOST_GROWTH` of the memory per hour.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import csv
import gc
import http.client
import json
import os
import pickle
import random
import sys
import threading
import time
from datetime import datetime, timezone
from itertools import groupby
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
COLUMNS = ("piece", "lap", "seconds", "resident_bytes", "threads", "files", "games_that_differ")


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


def run_lap(lap: int, rng: random.Random, traces: dict[str, Any]) -> list[str]:
    """Use every game; return those that differ from ale-py."""
    wrong = []
    for number, game in enumerate(list_games()):
        play(game, rng)
        if number % WATCH_EVERY == lap % WATCH_EVERY:
            watch(game, rng)
        if number % DIGEST_EVERY == lap % DIGEST_EVERY and not is_exact(game, traces):
            wrong.append(game)
    return wrong


def report(rows: list[dict[str, str]]) -> dict[str, Any]:
    """The record in numbers: growth of memory within pieces, and what the last laps left."""
    hours, sizes, first = [], [], []
    left = {"threads": 0, "files": 0}
    pieces = [list(laps) for _, laps in groupby(rows, key=lambda row: row["piece"])]
    long_pieces = [laps[WARM_LAPS - 1 :] for laps in pieces if len(laps) > WARM_LAPS + 1]
    for warm, *laps in long_pieces:
        x = np.array([float(row["seconds"]) / 3600 for row in laps])
        y = np.array([float(row["resident_bytes"]) / 1e6 for row in laps])
        hours.append(x - x.mean())
        sizes.append(y - y.mean())
        first.append(y.mean())
        for name in left:
            left[name] = max(left[name], int(laps[-1][name]) - int(warm[name]))
    x, y = np.concatenate(hours), np.concatenate(sizes)
    spread = float((x**2).sum())
    slope = float((x * y).sum()) / spread
    error = float(np.sqrt(((y - slope * x) ** 2).sum() / max(len(x) - len(hours) - 1, 1) / spread))
    return {
        "hours": round(sum(float(laps[-1]["seconds"]) for laps in pieces) / 3600, 2),
        "pieces": len(pieces),
        "laps": len(rows),
        "resident_mb": round(float(np.mean(first)), 1),
        "mb_per_hour": round(slope, 2),
        "interval_99": [round(slope - 2.58 * error, 2), round(slope + 2.58 * error, 2)],
        "threads_left": left["threads"],
        "files_left": left["files"],
        "games_that_differ": sorted({g for r in rows for g in r["games_that_differ"].split()}),
    }


def main() -> int:
    """Run laps until the time is over; print a report of the whole record as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--record", type=Path, required=True, help="CSV file that rows are added to"
    )
    args = parser.parse_args()
    traces = json.loads(record_golden.TARGET.read_text())["traces"]
    piece = datetime.now(timezone.utc).isoformat(timespec="seconds")
    rng = random.Random(piece)
    begin = time.monotonic()
    lap = 0
    with args.record.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        while time.monotonic() < begin + 60 * args.minutes or lap < WARM_LAPS + 3:
            wrong = run_lap(lap, rng, traces)
            lap += 1
            gc.collect()
            seconds = f"{time.monotonic() - begin:.0f}"
            left = (resident_bytes(), threading.active_count(), num_files(), " ".join(wrong))
            row = dict(zip(COLUMNS, (piece, lap, seconds, *left), strict=True))
            writer.writerow(row)
            file.flush()
            print(row, file=sys.stderr)
    with args.record.open(newline="") as file:
        found = report(list(csv.DictReader(file)))
    print(json.dumps(found, indent=1))
    grows = found["interval_99"][0] > 0
    grows = grows and found["mb_per_hour"] > MOST_GROWTH * found["resident_mb"]
    is_bad = found["games_that_differ"] or found["threads_left"] or found["files_left"]
    return int(bool(is_bad or grows))


if __name__ == "__main__":
    sys.exit(main())
