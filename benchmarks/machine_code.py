"""Machine instructions that a warp takes for a 6507 instruction, by executing a kernel in software.

The state-update kernel that nvcc has made for compute capability 9.0 is disassembled and
executed in software (benchmarks/sass) where the lockstep shim would run its source, on the same
consoles; after each frame RAM and numbers are compared with the CPU back end, and in the end whole
consoles. With `--schedule translated`, that is a kernel of the game's own, made by NVRTC. Needs
nvcc or NVRTC, and nvdisasm of a toolkit or of the Python package nvidia-cuda-nvdisasm. Takes a
minute or two a game and number of lanes. Puts its records in place of those of the same game,
number of lanes and schedule in `benchmarks/results/machine_code.json`.

    python benchmarks/machine_code.py pong seaquest ms_pacman riverraid --schedule block
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import sass

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cule.envs.launch import SCHEDULES  # noqa: E402
from cule.envs.options import resolve_options  # noqa: E402
from cule.envs.plan import plan_batch  # noqa: E402
from cule.envs.translation import translate  # noqa: E402
from tests.support import kernels  # noqa: E402

RECORD = ROOT / "benchmarks" / "results" / "machine_code.json"
ARCHITECTURE = "sm_90"
TRANSLATED = "translated"
#: What can be counted, in the order of the record.
ORDER = (*SCHEDULES, TRANSLATED)
#: A module that the shim takes for a game's own kernel: hands each launch to `on_launch`.
HANDOVER = """
#include <cstring>
#include "cuda/step_kernel.hpp"
extern "C" {
__attribute__((visibility("default"))) void (*on_launch)(const void*, size_t, unsigned, unsigned);
}
namespace {
struct Parameters {
  cule::DeviceBatch batch;
  const cule::Tile* tiles;
  cule::u32 num_tiles;
  cule::StepActions actions;
};
cudaError_t launch(dim3 grid, dim3 block, std::size_t, void** arguments) {
  Parameters p{*static_cast<cule::DeviceBatch*>(arguments[0]),
               *static_cast<const cule::Tile**>(arguments[1]),
               *static_cast<cule::u32*>(arguments[2]),
               *static_cast<cule::StepActions*>(arguments[3])};
  on_launch(&p, sizeof p, grid.x, block.x);
  return cudaSuccess;
}
}  // namespace
extern "C" __attribute__((visibility("default")))
const CuleLoadedKernel cule_step_loaded{launch};
"""
FIRST_FRAMES = 1200  # at most; before counting, drawn for each console
COUNTED_FRAMES = 2
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint)


def build_handover(folder: Path) -> Path:
    """The module above, compiled."""
    source = folder / "handover.cpp"
    source.write_text(HANDOVER)
    module = folder / "handover.so"
    command = [*kernels.compile_command(), "-x", "c++", str(source), "-shared", "-o", str(module)]
    subprocess.run(command, check=True)
    return module


def compile_kernels(folder: Path) -> Path:
    """The kernels of plain and bank-switched cartridges, by nvcc."""
    cubin = folder / "step_bank.cubin"
    command = ["nvcc", f"-arch={ARCHITECTURE}", "-fmad=false", "-std=c++17", "-Icsrc", "-cubin"]
    subprocess.run([*command, "-o", cubin, "csrc/cuda/step_bank.cu"], check=True, cwd=ROOT)
    return cubin


def load_translated(game: str, lanes: int, nvdisasm: str) -> sass.Code:
    """The kernel of a game's own."""
    options = resolve_options(game, lanes, {"num_reset_states": 1, "num_threads": 1})
    module = translate(plan_batch(options).games[0], lanes, ARCHITECTURE)
    return sass.load(module, "cule_step", nvdisasm)


#: What a function of the kernel is for, by a part of its name; the first that fits.
PURPOSES = {
    "replay": ("replay_into", "CollisionSink", "Shapes"),
    "devices": ("write_", "read_"),
    "program": ("run_step_in_lanes", "Program", "Staged", "Execution", "step_staged"),
    "rest": ("",),
}


def purpose_of(function: str) -> str:
    """A key of `PURPOSES`."""
    return next(p for p, parts in PURPOSES.items() if any(part in function for part in parts))


def play(game: str, lanes: int, schedule: str, program: Path | None) -> int:
    """Frames of one warp, each compared with the CPU back end; 6507 instructions executed.

    The consoles have played before, each for a time of its own. With `program` it runs them, and
    nothing is counted.
    """
    words = schedule if schedule in SCHEDULES else SCHEDULES[0]  # in the form that it reads
    options = {"obs_type": "ram", "frameskip": 1}
    pair = kernels.Pair(game, lanes, lanes=lanes, warps=1, schedule=words, **options)
    pair.cpu.reset(None, pair.consoles, pair.expected.out)
    pair.cpu.decorrelate(FIRST_FRAMES, 1, pair.expected.out)
    pair.kernels.set_state(pair.cpu.get_state(pair.consoles), pair.consoles)
    if program is not None:
        pair.kernels.load_program(program)
    kernels.pop_step_counts()
    rng = np.random.default_rng(1)
    for _ in range(COUNTED_FRAMES):
        pair.step(pair.random_actions(rng))
    pair.compare_rows()
    pair.close()
    return kernels.pop_step_counts().instructions


def measure(
    code: sass.Code, handover: Path, game: str, lanes: int, schedule: str
) -> dict[str, Any]:
    """Machine instructions of a warp for an instruction of a lane."""
    executed: Counter[str] = Counter()

    def launch(parameters: int, size: int, blocks: int, _threads: int) -> None:
        data = ctypes.string_at(parameters, size)
        for block in range(blocks):
            warp = sass.Warp(code, data, block)
            warp.run()
            executed.update(warp.executed)

    callback = _CALLBACK(launch)
    library = ctypes.CDLL(str(handover))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    ctypes.c_void_p.in_dll(library, "on_launch").value = address
    instructions = play(game, lanes, schedule, None)
    play(game, lanes, schedule, handover)
    purposes: Counter[str] = Counter()
    for function, count in executed.items():
        purposes[purpose_of(function)] += count
    per_instruction = {p: round(purposes[p] / instructions, 2) for p in PURPOSES}
    of = {"game": game, "lanes": lanes, "schedule": schedule}
    return {**of, "instructions": instructions, **per_instruction}


def write_record(path: Path, new: list[dict[str, Any]]) -> None:
    """Put records into a file, in place of those of the same consoles."""

    def key(record: dict[str, Any]) -> tuple[Any, ...]:
        return ORDER.index(record["schedule"]), record["game"], record["lanes"]

    old = json.loads(path.read_text())["records"] if path.exists() else []
    merged = {key(record): record for record in (*old, *new)}
    lines = ",\n".join(json.dumps(merged[place]) for place in sorted(merged))
    path.write_text(f'{{"architecture": "{ARCHITECTURE}", "records": [\n{lines}\n]}}\n')


def print_table(records: list[dict[str, Any]]) -> None:
    """A row a game and number of lanes."""
    print("| game | lanes | " + " | ".join(PURPOSES) + " |\n" + "|---" * (2 + len(PURPOSES)) + "|")
    for r in records:
        cells = " | ".join(str(r[purpose]) for purpose in PURPOSES)
        print(f"| {r['game']} | {r['lanes']} | {cells} |")


def main() -> None:
    """Count what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("games", nargs="+")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--schedule", choices=ORDER, default=ORDER[0])
    parser.add_argument("--nvdisasm", default="nvdisasm", help="where it is")
    parser.add_argument("--cubin", type=Path, help="step_bank.cu compiled elsewhere")
    parser.add_argument("--out", type=Path, default=RECORD)
    args = parser.parse_args()
    records = []
    with tempfile.TemporaryDirectory() as scratch:
        handover = build_handover(Path(scratch))
        code = None
        if args.schedule != TRANSLATED:
            cubin = args.cubin or compile_kernels(Path(scratch))
            kernel = f"BankFetchELNS_8ScheduleE{SCHEDULES.index(args.schedule)}"
            code = sass.load(cubin, kernel, args.nvdisasm)
        for game in args.games:
            for lanes in args.lanes:
                own = code or load_translated(game, lanes, args.nvdisasm)
                records.append(measure(own, handover, game, lanes, args.schedule))
                print(json.dumps(records[-1]), flush=True)
                write_record(args.out, records)
    print_table(records)


if __name__ == "__main__":
    main()
