"""Cost of a step of the CUDA back end, counted from its machine code, and a prediction of speed.

Every kernel of one step is executed in software (README.md), for the launch geometry of each batch
size, on consoles that have played before. Observations, numbers and snapshots are compared with the
CPU back end; a difference is an error. Prints and records, for each game and batch size, warp
instructions and cycles of each phase, and the time of each kernel predicted for `device.Device`.
Rows replace those of the same game, kernel, batch size and kind of observations in
`benchmarks/results/step_model.json`. Needs nvcc, g++ and nvdisasm (of a toolkit, or of the Python
package nvidia-cuda-nvdisasm); `--kernel compiled` also NVRTC and nvJitLink (nvidia-cuda-nvrtc,
nvidia-nvjitlink).

    python -m benchmarks.sass.step_model pong seaquest --num-envs 1200 4096 32768
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sass.device import Device
from benchmarks.sass.disassembly import disassemble
from benchmarks.sass.kernel import BARRIER, Executed, Kernel, Totals
from benchmarks.sass.kernel_resources import ARCHITECTURE, FLAGS, KERNEL, ROOT, readable
from benchmarks.sass.module import kernels_of
from cule.bench.machine import git
from cule.envs.launch import Geometry, geometry_for
from cule.envs.options import resolve_options
from cule.envs.plan import plan_batch
from cule.envs.translation import translate
from tests.support import kernels

RECORD = ROOT / "benchmarks" / "results" / "step_model.json"
FIRST_STEPS = 150  # at most; before counting, sampled for each console
WARM_STEPS = 20  # of the kernels, which predict from what a program has read
LEAST_CONSOLES, LEAST_WARPS = 32, 4  # executed, whatever the batch size; a block has four warps
FRAMES = 4  # of a step

#: What an instruction is for, by parts of the names of its kernel, function and file. Parts are
#: separated by |; the first match counts.
PHASES = (
    (
        "collisions",
        "step_consoles",
        "CollisionSink|Shapes|Renderer|read_latches|serve|LineScan|LineCollisions|render_together|go_over",
        "",
    ),
    ("drawing", "step_consoles", "paint_|PaintSink|make_pixels|dim_picture|hold", ""),
    ("TIA state", "step_consoles", "write_|read_|spill|free_log", ""),
    ("program", "step_consoles", "", ""),
    ("waiting", "finish_step", "", BARRIER),
    ("resize", "finish_step", "", "resize.hpp|resize_rows.hpp"),
    ("line starts", "finish_step", "LineScan", ""),
    ("line starts", "finish_step", "", "line_scan.hpp|line_motion.hpp"),
    ("drawing", "finish_step", "draw_|paint_|PaintSink|Shapes|max_", ""),
    ("drawing", "finish_step", "", "tia/|line_painter.hpp|line_twins.hpp|register_rules.hpp"),
    ("drawing", "finish_step", "", "draw.hpp|maxpool.hpp"),
    ("output", "finish_step", "", ""),
    ("objects", "push_objects", "", ""),
    ("sprites", "push_sprites", "", ""),
)
#: Kernels with a block for each console, at most as many as are resident; these go from console to
#: console. The grids of all others grow with the batch.
LOOPS_OVER_CONSOLES = ("finish_step_kernel",)


def phase_of(kernel: str, function: str, file: str) -> str:
    """A name of `PHASES`."""
    names = (kernel, function, file)
    for phase, *parts in PHASES:
        if all(
            any(p in name for p in part.split("|")) for name, part in zip(names, parts, strict=True)
        ):
            return phase
    raise KeyError(f"{kernel}, {function}, {file}")


@dataclass
class Launch:
    """A kernel of the step, executed."""

    kernel: Kernel
    threads: int
    shared_bytes: int  # dynamic
    blocks: list[Executed] = field(default_factory=list)


class Modules:
    """The kernels of csrc/cuda, compiled and disassembled when they are first launched."""

    def __init__(self, folder: Path) -> None:
        """Compile into `folder`."""
        self._folder = folder
        self._kernels: dict[str, Kernel] = {}
        self._sources = {
            name: source
            for source in sorted((ROOT / "csrc" / "cuda").glob("*.cu"))
            for name in KERNEL.findall(source.read_text())
        }

    def kernel(self, name: str) -> Kernel:
        """By the name that `readable` gives."""
        if name not in self._kernels:
            source = self._sources[name.partition("<")[0]]
            cubin = self._folder / f"{source.stem}.cubin"
            if not cubin.exists():
                command = ["nvcc", *FLAGS, "-lineinfo", "-cubin", "-o", str(cubin), str(source)]
                subprocess.run(command, check=True)
            (symbol,) = (k for k in kernels_of(cubin.read_bytes()) if readable(k) == name)
            self._kernels[name] = Kernel(disassemble(cubin, symbol))
        return self._kernels[name]

    def compiled(self, game: str, lanes: int) -> Kernel:
        """A game's own state-update kernel, as environments compile and link it. Kept on disk."""
        options = resolve_options(game, lanes, {"num_reset_states": 1, "num_threads": 1})
        architecture = int(ARCHITECTURE.removeprefix("sm_"))
        code = translate(plan_batch(options).games[0], lanes, architecture)
        cubin = self._folder / f"{game}.cubin"
        cubin.write_bytes(code)
        return Kernel(disassemble(cubin, "cule_step"))


@contextlib.contextmanager
def executed(modules: Modules, own: Kernel | None = None) -> Iterator[dict[str, Launch]]:
    """Execute the kernels that are launched, a game's own in place of the interpreter."""
    launches: dict[str, Launch] = {}

    def run(symbol: str, launch: kernels.HookedLaunch) -> bool:
        name = readable(symbol)
        kernel = own if own and name.startswith("step_consoles") else modules.kernel(name)
        data = ctypes.string_at(launch.parameters, launch.parameter_bytes)
        threads, grid = tuple(launch.block), tuple(launch.grid)
        assert name not in launches, name
        done = launches[name] = Launch(kernel, threads[0], launch.shared_bytes)
        for block in range(grid[0]):
            done.blocks.append(kernel.run(data, (block, 0, 0), threads, grid))
        return True

    with kernels.hooked_launches(run):
        yield launches


def execute_step(
    modules: Modules,
    game: str,
    consoles: int,
    geometry: Geometry,
    is_compiled: bool,
    obs_type: str,
) -> dict[str, Launch]:
    """One step of consoles that have played before, equal to the CPU back end's; its launches."""
    lanes = geometry.lanes_per_warp
    own = modules.compiled(game, lanes) if is_compiled else None
    warps = geometry.warps_per_block
    pair = kernels.Pair(
        game, consoles, lanes=lanes, warps=warps, frameskip=FRAMES, obs_type=obs_type
    )
    rng = np.random.default_rng(1)
    pair.cpu.reset(None, pair.consoles, pair.expected.out)
    pair.cpu.decorrelate(FIRST_STEPS, 1, pair.expected.out)
    pair.kernels.set_state(pair.cpu.get_state(pair.consoles), pair.consoles)
    for _ in range(WARM_STEPS):
        pair.step(pair.random_actions(rng))
    with executed(modules, own) as launches:
        pair.step(pair.random_actions(rng))
    pair.compare_snapshots()
    pair.close()
    return launches


def rounded(value: float) -> float:
    """Four digits."""
    return float(f"{value:.4g}")


class Row:
    """The record of one game, kernel and batch size, under construction."""

    def __init__(self, device: Device, num_envs: int, consoles: int) -> None:
        """`consoles` were executed for a batch of `num_envs`."""
        self.device = device
        self.num_envs = num_envs
        self.consoles = consoles
        self.seconds = 0.0
        self.kernels: dict[str, dict[str, Any]] = {}
        self.phases: defaultdict[str, Totals] = defaultdict(Totals)
        self.phase_cycles: defaultdict[str, float] = defaultdict(float)

    def add(self, name: str, launch: Launch) -> None:
        """A kernel: its phases, and its time for the whole batch."""
        loops = name in LOOPS_OVER_CONSOLES
        turns = self.consoles / len(launch.blocks) if loops else 1
        total = Totals()
        phases: defaultdict[str, Totals] = defaultdict(Totals)
        for executed in launch.blocks:
            for (function, file), totals in executed.places.items():
                phases[phase_of(name, function, file)] += totals
                total += totals
        module = launch.kernel.code.module
        resident = self.device.resident_blocks(
            module.registers, launch.threads, module.shared_bytes + launch.shared_bytes
        )
        # The slowest of the blocks that were executed.
        cycles = max(executed.cycles for executed in launch.blocks) / turns
        for phase, totals in phases.items():
            self.phases[phase] += totals
            self.phase_cycles[phase] += cycles * totals.cycles / total.cycles
        blocks = self.num_envs if loops else -(-len(launch.blocks) * self.num_envs // self.consoles)
        latency = self.device.latency_s(cycles, blocks, resident)
        issue = self.device.issue_s(total.instructions * self.num_envs / self.consoles)
        self.seconds += max(latency, issue)
        self.kernels[name] = {
            "instructions": rounded(total.instructions / self.consoles / FRAMES),
            "cycles": rounded(cycles / FRAMES),
            "lanes": rounded(total.lanes / total.instructions),
            "registers": module.registers,
            "resident_blocks": resident,
            "blocks": blocks,
            "latency_ms": rounded(latency * 1e3),
            "issue_ms": rounded(issue * 1e3),
        }

    def record(self) -> dict[str, Any]:
        """Values a frame, of a console; a kernel's cycles are divided by what its warps took."""
        phases = {
            phase: {
                "instructions": rounded(totals.instructions / self.consoles / FRAMES),
                "cycles": rounded(self.phase_cycles[phase] / FRAMES),
                "lanes": rounded(totals.lanes / totals.instructions),
            }
            for phase, totals in self.phases.items()
        }
        return {
            "step_ms": rounded(self.seconds * 1e3),
            "frames_per_s": rounded(self.num_envs * FRAMES / self.seconds),
            "phases": phases,
            "kernels": self.kernels,
        }


def print_row(row: dict[str, Any]) -> None:
    """Format the counts as a table."""
    print(
        f"{row['game']}, {row['kernel']}, {row['obs_type']}, {row['num_envs']} environments, "
        f"{row['lanes']} lanes a warp: {row['step_ms']} ms a step, "
        f"{row['frames_per_s'] / 1e6:.3g} M frames/s predicted"
    )
    print(f"  {'of a frame and console':36}{'instructions':>13}{'cycles':>10}{'lanes':>7}")
    for phase, p in row["phases"].items():
        print(f"  {phase:36}{p['instructions']:13.0f}{p['cycles']:10.0f}{p['lanes']:7.1f}")
    for name, k in row["kernels"].items():
        times = f"latency {k['latency_ms']} ms, issue {k['issue_ms']} ms"
        print(f"  {name:36}{k['instructions']:13.0f}{k['cycles']:10.0f}{k['lanes']:7.1f}  {times}")
    sys.stdout.flush()


def write_record(path: Path, new: list[dict[str, Any]], device: Device) -> None:
    """Add rows to a file; they replace those of the same settings."""

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["kernel"], row["game"], row["num_envs"], row.get("obs_type", "image")

    old = json.loads(path.read_text())["rows"] if path.exists() else []
    merged = {key(row): row for row in (*old, *new)}
    lines = ",\n".join(json.dumps(merged[place]) for place in sorted(merged))
    settings = {"architecture": ARCHITECTURE, **vars(device)}
    path.write_text(f'{{"settings": {json.dumps(settings)}, "rows": [\n{lines}\n]}}\n')


def commit() -> str:
    """The last that changed csrc; with + if it has changed since."""
    last = git("log", "-1", "--format=%h", "--abbrev=7", "--", "csrc") or ""
    return last + ("+" if git("diff", "HEAD", "--", "csrc") else "")


def main() -> None:
    """Model what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("games", nargs="+")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[1200, 4096, 32768])
    parser.add_argument("--kernel", choices=("interpreter", "compiled"), default="interpreter")
    kinds = ("image", "ram", "objects", "sprites")
    parser.add_argument("--obs-type", choices=kinds, default="image")
    parser.add_argument("--out", type=Path, default=RECORD)
    args = parser.parse_args()
    device = Device()
    with tempfile.TemporaryDirectory() as folder:
        modules = Modules(Path(folder))
        for game in args.games:
            for num_envs in args.num_envs:
                begin = time.process_time()
                geometry = geometry_for(num_envs, device.multiprocessors)
                lanes = geometry.lanes_per_warp
                consoles = max(LEAST_CONSOLES, LEAST_WARPS * lanes)
                of = {"game": game, "kernel": args.kernel, "num_envs": num_envs, "lanes": lanes}
                of["obs_type"] = args.obs_type
                row = Row(device, num_envs, consoles)
                is_compiled = args.kernel == "compiled"
                launches = execute_step(
                    modules, game, consoles, geometry, is_compiled, args.obs_type
                )
                for name, launch in launches.items():
                    row.add(name, launch)
                result = {**of, "commit": commit(), **row.record()}
                print_row(result)
                print(f"  {time.process_time() - begin:.0f} s of the processor", flush=True)
                write_record(args.out, [result], device)


if __name__ == "__main__":
    main()
