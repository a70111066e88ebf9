"""Machine instructions that a warp takes for a 6507 instruction, counted without a GPU.

The state-update kernel that nvcc compiles for compute capability 9.0 is disassembled and executed
in software where the lockstep shim would run its source, on the same consoles. After each frame
RAM and numbers are compared with the CPU back end, and at the end whole snapshots. With
`--compiled` the kernel is the game's own, made by NVRTC. Needs nvcc or NVRTC, and nvdisasm of a
toolkit or of the Python package nvidia-cuda-nvdisasm. Takes a minute or two for each game and
number of lanes. Replaces the records of the same game, lanes and kernel in
`benchmarks/results/machine_code.json`.

    python -m benchmarks.sass.machine_code pong seaquest ms_pacman riverraid
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sass.disassembly import disassemble
from benchmarks.sass.operations import Kernel
from cule.envs.options import resolve_options
from cule.envs.plan import plan_batch
from cule.envs.translation import translate
from tests.support import kernels

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "benchmarks" / "results" / "machine_code.json"
ARCHITECTURE = "sm_90"
#: Values of "kernel" in a record: what can be counted today, after what was counted once.
INTERPRETER, COMPILED = "interpreter", "compiled"
#: A module that the shim loads as a game's own kernel: passes each launch to `on_launch`.
HANDOVER = """
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
FIRST_FRAMES = 1200  # at most; before counting, sampled for each console
COUNTED_FRAMES = 2
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint)

#: What a function of the kernel is for, by a part of its name; the first match counts.
PURPOSES = {
    "rendering": ("render_into", "LogRenderer", "CollisionSink", "Shapes"),
    "devices": ("write_", "read_"),
    "program": ("run_step_in_lanes", "Program", "Execution", "step_slowly"),
    "rest": ("",),
}


def build_handover(folder: Path) -> Path:
    """The module above, compiled."""
    source, module = folder / "handover.cpp", folder / "handover.so"
    source.write_text(HANDOVER)
    command = [*kernels.compile_command(), "-x", "c++", str(source), "-shared", "-o", str(module)]
    subprocess.run(command, check=True)
    return module


def compile_interpreter(folder: Path) -> Path:
    """The interpreter's kernels, compiled by nvcc."""
    cubin = folder / "step.cubin"
    include = ("-Icsrc", "-Icsrc/cuda/device")
    command = ["nvcc", f"-arch={ARCHITECTURE}", "-fmad=false", "-std=c++17", *include, "-cubin"]
    subprocess.run([*command, "-o", cubin, "csrc/cuda/step.cu"], check=True, cwd=ROOT)
    return cubin


def load_compiled(game: str, lanes: int, nvdisasm: str) -> Kernel:
    """A game's own kernel."""
    options = resolve_options(game, lanes, {"num_reset_states": 1, "num_threads": 1})
    module = translate(plan_batch(options).games[0], lanes, ARCHITECTURE)
    return Kernel(disassemble(module, "cule_step", nvdisasm))


def purpose_of(function: str) -> str:
    """A key of `PURPOSES`."""
    return next(p for p, parts in PURPOSES.items() if any(part in function for part in parts))


def play(game: str, lanes: int, program: Path | None) -> int:
    """Frames of one warp, each compared with the CPU back end; 6507 instructions executed.

    The consoles have played before, each for a time of its own. `program`, if given, runs them
    instead of the shim, and nothing is counted.
    """
    pair = kernels.Pair(game, lanes, lanes=lanes, warps=1, obs_type="ram", frameskip=1)
    pair.cpu.reset(None, pair.consoles, pair.expected.out)
    pair.cpu.decorrelate(FIRST_FRAMES, 1, pair.expected.out)
    pair.kernels.set_state(pair.cpu.get_state(pair.consoles), pair.consoles)
    if program is not None:
        pair.kernels.load_program(program)
    kernels.pop_instruction_counts()
    rng = np.random.default_rng(1)
    for _ in range(COUNTED_FRAMES):
        pair.step(pair.random_actions(rng))
    pair.compare_snapshots()
    pair.close()
    return kernels.pop_instruction_counts().instructions


def measure(kernel: Kernel, handover: Path, game: str, lanes: int) -> dict[str, Any]:
    """Machine instructions of a warp for an instruction of a lane, by purpose."""
    executed: Counter[str] = Counter()

    def launch(parameters: int, size: int, blocks: int, _threads: int) -> None:
        data = ctypes.string_at(parameters, size)
        for block in range(blocks):
            executed.update(kernel.run(data, block))

    callback = _CALLBACK(launch)
    library = ctypes.CDLL(str(handover))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    ctypes.c_void_p.in_dll(library, "on_launch").value = address
    instructions = play(game, lanes, None)
    play(game, lanes, handover)
    purposes: Counter[str] = Counter()
    for function, count in executed.items():
        purposes[purpose_of(function)] += count
    per_instruction = {p: round(purposes[p] / instructions, 2) for p in PURPOSES}
    return {"instructions": instructions, **per_instruction}


def write_record(path: Path, new: list[dict[str, Any]]) -> None:
    """Add records to a file; they replace those of the same game, lanes and kernel."""

    def key(record: dict[str, Any]) -> tuple[Any, ...]:
        return record["kernel"], record["game"], record["lanes"]

    old = json.loads(path.read_text())["records"] if path.exists() else []
    merged = {key(record): record for record in (*old, *new)}
    lines = ",\n".join(json.dumps(merged[place]) for place in sorted(merged))
    path.write_text(f'{{"architecture": "{ARCHITECTURE}", "records": [\n{lines}\n]}}\n')


def main() -> None:
    """Count what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("games", nargs="+")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--compiled", action="store_true", help="the games' own kernels")
    parser.add_argument("--nvdisasm", default="nvdisasm", help="path of the program")
    parser.add_argument("--out", type=Path, default=RECORD)
    args = parser.parse_args()
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        handover = build_handover(Path(scratch))
        interpreter = None
        if not args.compiled:
            cubin = compile_interpreter(Path(scratch))
            interpreter = Kernel(disassemble(cubin, "BankFetch", args.nvdisasm))
        for game in args.games:
            for lanes in args.lanes:
                kernel = interpreter or load_compiled(game, lanes, args.nvdisasm)
                name = COMPILED if args.compiled else INTERPRETER
                of = {"game": game, "lanes": lanes, "kernel": name}
                records.append({**of, **measure(kernel, handover, game, lanes)})
                print(json.dumps(records[-1]), flush=True)
                write_record(args.out, records)


if __name__ == "__main__":
    main()
