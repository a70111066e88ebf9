"""Steps that a warp takes for an instruction of a lane, by schedule and lanes a warp; needs no GPU.

Runs the state-update kernel on the CPU under the lockstep shim and counts (tests/shim): between two
meetings of a warp each lane executes a list of opcodes, and the warp needs a step for every
different opcode among the k-th ones; in a branch-free step the common opcodes count as one. 1 is
perfect, the number of lanes the worst. Iterations of idle loops that are skipped count for nothing.
Beside the schedules of the interpreter: "translated", the game's own kernel, which takes about half
a minute a game to compile. Writes `benchmarks/results/schedules.json`.

    python benchmarks/schedules.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cule.bench.games import games_named  # noqa: E402
from cule.envs.launch import SCHEDULES  # noqa: E402
from tests.support.kernels import Pair, pop_step_counts  # noqa: E402

RECORD = ROOT / "benchmarks" / "results" / "schedules.json"
TRANSLATED = "translated"
VARIANTS = (*SCHEDULES, TRANSLATED)
LANES = (2, 4, 8, 16, 32)
NUM_ENVS = 32
FIRST_STEPS = 300  # at most; before counting, drawn for each console
COUNTED_STEPS = 2


def make_pair(game: str, schedule: str, lanes: int) -> Pair:
    """Consoles without observations."""
    how: dict[str, Any] = {"translated": True} if schedule == TRANSLATED else {"schedule": schedule}
    return Pair(game, NUM_ENVS, lanes=lanes, warps=4, obs_type="ram", **how)


def drift_apart(game: str) -> NDArray[np.uint8]:
    """Saved consoles, each after a random number of random steps."""
    pair = make_pair(game, SCHEDULES[0], LANES[-1])
    pair.cpu.reset(None, pair.consoles, pair.expected.out)
    pair.cpu.decorrelate(FIRST_STEPS, 1, pair.expected.out)
    rows: NDArray[np.uint8] = pair.cpu.get_state(pair.consoles)
    pair.close()
    return rows


def measure(game: str, schedule: str, lanes: int, rows: NDArray[np.uint8]) -> dict[str, Any]:
    """Counts of a few steps."""
    pair = make_pair(game, schedule, lanes)
    pair.kernels.set_state(rows, pair.consoles)
    pop_step_counts(pair.program)
    rng = np.random.default_rng(1)
    for _ in range(COUNTED_STEPS):
        actions = torch.from_numpy(pair.random_actions(rng))
        pair.kernels.step(actions, *pair.tensors[:3], stacked=True)
    counts = pop_step_counts(pair.program)
    pair.close()
    return {
        "game": game,
        "schedule": schedule,
        "lanes": lanes,
        "steps_per_instruction": round(counts.warp_steps * lanes / counts.instructions, 4),
        "meetings_per_instruction": round(counts.meetings * lanes / counts.instructions, 4),
        "slow_per_instruction": round(counts.slow / counts.instructions, 5),
        "instructions_per_frame": counts.instructions // (NUM_ENVS * COUNTED_STEPS * 4),
    }


def print_table(records: list[dict[str, Any]]) -> None:
    """Median, least and most over games."""
    print("| schedule | lanes | steps an instruction | least to most | meetings an instruction |")
    print("|---|---|---|---|---|")
    for schedule in VARIANTS:
        for lanes in LANES:
            cell = [r for r in records if (r["schedule"], r["lanes"]) == (schedule, lanes)]
            if not cell:
                continue
            steps = [r["steps_per_instruction"] for r in cell]
            meetings = statistics.median(r["meetings_per_instruction"] for r in cell)
            print(
                f"| {schedule} | {lanes} | {statistics.median(steps):.2f} | {min(steps):.2f} to "
                f"{max(steps):.2f} | {meetings:.2f} |"
            )


def main() -> None:
    """Count what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--games", nargs="+", default=["57"], help="names, or default, 57, all")
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    records = []
    for game in games_named(options.games):
        rows = drift_apart(game)
        for schedule in VARIANTS:
            records += [measure(game, schedule, lanes, rows) for lanes in LANES]
        print(game, file=sys.stderr, flush=True)
    settings = {"consoles": NUM_ENVS, "first_steps": FIRST_STEPS, "counted_steps": COUNTED_STEPS}
    lines = ",\n".join(json.dumps(record) for record in records)
    options.out.write_text(f'{{"settings": {json.dumps(settings)}, "records": [\n{lines}\n]}}\n')
    print_table(records)


if __name__ == "__main__":
    main()
