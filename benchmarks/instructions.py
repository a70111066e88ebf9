"""Instructions per emulated frame of the 84x84x4 pipeline, counted by callgrind.

Unlike frames per second, the count is nearly the same on a busy machine: two runs differ by 3 %.
Different builds and engines can differ by 16 % without a cause in the code, since Python is counted
and the steps are few; smaller differences need longer runs.

An engine plays the same game twice in processes of their own, with few and with many steps; the
difference of the counts, divided by the frames between, excludes start, imports and reset. It
includes all of `step`, also Python. The engines `cule-ram`, `cule-objects` and `cule-sprites` are
cule with these observations, for which nothing is drawn. They play the same frames.

    python benchmarks/instructions.py pong riverraid --engines cule-cpu cule-ram

Needs valgrind, under which AVX2 is available and AVX-512 is not.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import cule
from cule.bench.engines import FRAMESKIP, Engine, EngineConfig, make_engine

ROW_ENGINES = {f"cule-{kind}": kind for kind in ("ram", "objects", "sprites")}
NUM_ENVS = 8
#: Valgrind counts an instruction for each byte that ``rep movsb`` copies.
NO_STRING_COPIES = {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1000000000"}
FEW_STEPS = 5
MANY_STEPS = 25


def play(name: str, game: str, steps: int) -> None:
    """Run under callgrind: one thread, a reset, some steps."""
    if name in ROW_ENGINES:
        env = cule.AtariVectorEnv(game, NUM_ENVS, num_threads=1, obs_type=ROW_ENGINES[name])
        engine = Engine(name, env, NUM_ENVS)
    else:
        engine = make_engine(EngineConfig(name, game, NUM_ENVS, 1))
    engine.reset(0)
    random = np.random.default_rng(0)
    for row in random.integers(engine.num_actions, size=(steps, NUM_ENVS), dtype=np.int32):
        engine.step(row)
    engine.close()


def instructions(name: str, game: str, steps: int) -> int:
    """Instructions of a process that plays."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        child = [sys.executable, __file__, game, "--engines", name, "--play", str(steps)]
        environment = os.environ | NO_STRING_COPIES
        subprocess.run([*command, *child], check=True, capture_output=True, env=environment)
        totals = re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE)
    assert totals is not None, "callgrind writes the total"
    return int(totals[1])


def main() -> int:
    """Count and print; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("games", nargs="*", default=["pong", "riverraid"], metavar="GAME")
    engines = ["cule-cpu", "ale", "envpool", *ROW_ENGINES]
    parser.add_argument("--engines", nargs="+", default=["cule-cpu"], choices=engines)
    parser.add_argument("--play", type=int, metavar="STEPS", help="only play, without callgrind")
    options = parser.parse_args()
    if options.play is not None:
        play(options.engines[0], options.games[0], options.play)
        return 0
    frames = (MANY_STEPS - FEW_STEPS) * NUM_ENVS * FRAMESKIP
    for game in options.games:
        for name in options.engines:
            counts = [instructions(name, game, steps) for steps in (FEW_STEPS, MANY_STEPS)]
            per_frame = (counts[1] - counts[0]) / frames
            print(f"{game:<18}{name:<10}{per_frame:>12,.0f} instructions per frame", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
