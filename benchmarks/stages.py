"""Host instructions of an emulated frame, stage by stage, counted by callgrind inside libcule.

One environment plays random actions with the default options, 84x84x4. Two processes play, one of
them only the warm-up; the difference of the counts inside `cule_step` is divided by the frames
between. Instructions belong to the stage of the function that they were compiled into. Copies are
not counted byte by byte, as `instructions.py` says.

    cmake -S . -B build/stages -DCMAKE_BUILD_TYPE=Release -DCULE_C_LIBRARY=ON -DCULE_LTO=OFF
    cmake --build build/stages
    python -m benchmarks.stages build/stages/libcule.so pong beam_rider

Needs valgrind, under which AVX2 is available and AVX-512 is not.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.instructions import NO_STRING_COPIES
from cule.envs.plan import make_game
from cule.games import resolve

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples" / "c"))
from ctypes_play import Batch, Library  # type: ignore[import-not-found] # noqa: E402

FRAMESKIP = 4

#: Stages, and what the names of their functions contain; the first that matches.
STAGES = (
    ("translated code, log append", r"^0x"),
    ("interpreted, entering and leaving code", r"jit::run_fast|run_host_step|run_ram_code"),
    ("devices", r"Machine<.*>::(read|write)_|jit::(read|write)_device|count_polls"),
    ("log filter", r"copy_effective"),
    ("latches known without rendering", r"objects_shown|PendingLatches"),
    ("not drawn: starts of scanlines, reuse", r"CollisionSink.*::(begin_line|walk|common_size)"),
    ("not drawn: writes, latches", r"CollisionSink"),
    ("drawn: starts of scanlines, reuse", r"ObservingSink.*::(begin_line|walk|common_size)"),
    ("drawn: segments, painting", r"ObservingSink.*::draw|paint_"),
    ("drawn: writes", r"ObservingSink"),
    ("both: masks of objects", r"Shapes::"),
    ("both: dependencies of scanlines, equal accesses", r"find_use|equal_entries"),
    ("maximum, resize", r"FramePooling|resize_detail|Resize|max_rows"),
    ("copies, comparisons", r"^__mem"),
    ("rules, loops, rest", r""),
)


def play(library: str, game: str, steps: int) -> None:
    """Play under callgrind."""
    spec = resolve(game)
    rules = make_game(spec.to_core_kwargs()).rules_file
    lib = Library(library)
    rom = Path(spec.rom_path).read_bytes()
    batch = Batch(lib, lib.make_game(rom, rules), 1, lib.default_options())
    batch.reset(0)
    random = 12345
    for _ in range(steps):
        random = (random * 1664525 + 1013904223) % 2**32
        batch.step([(random >> 16) % batch.info.num_actions])
    batch.close()


def self_costs(lines: Iterable[str]) -> Counter[str]:
    """Instructions by functions of a file of callgrind, each without the functions it calls."""
    names: dict[str, str] = {}

    def name_of(text: str) -> str:
        number, _, name = text.partition(" ")
        if name:
            names[number] = name
        return names[number]

    costs: Counter[str] = Counter()
    function, is_call = "", False
    for line in lines:
        if line.startswith(("fn=", "cfn=")):
            key, _, text = line.rstrip().partition("=")
            name = name_of(text)
            function = name if key == "fn" else function
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"[\d+*-]", line):
            if not is_call:
                costs[function] += int(line.split()[1])
            is_call = False
    return costs


def costs_of(library: str, game: str, steps: int) -> Counter[str]:
    """Instructions by functions of a process that plays."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        command += ["--toggle-collect=cule_step::*"]  # what cule_step calls to report errors
        command += [sys.executable, "-m", "benchmarks.stages"]
        command += [str(Path(library).resolve()), game, "--play", str(steps)]
        environment = os.environ | NO_STRING_COPIES
        subprocess.run(command, check=True, capture_output=True, env=environment, cwd=ROOT)
        return self_costs(out.read_text().splitlines())


def stage_of(function: str) -> str:
    """The stage of a function."""
    return next(name for name, pattern in STAGES if re.search(pattern, function))


def stages_of(library: str, game: str, warm_up: int, steps: int) -> dict[str, float]:
    """Instructions of a frame by stages."""
    costs = costs_of(library, game, warm_up + steps)
    costs.subtract(costs_of(library, game, warm_up))
    found = dict.fromkeys((name for name, _ in STAGES), 0.0)
    for function, cost in costs.items():
        found[stage_of(function)] += cost / (steps * FRAMESKIP)
    return found


def main() -> int:
    """Count and print a table in Markdown, thousands; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", metavar="LIBCULE")
    parser.add_argument("games", nargs="+", metavar="GAME")
    parser.add_argument("--warm-up", type=int, default=500, metavar="STEPS")
    parser.add_argument("--steps", type=int, default=500, metavar="STEPS")
    parser.add_argument("--play", type=int, metavar="STEPS", help="only play, without callgrind")
    given = parser.parse_args()
    if given.play is not None:
        play(given.library, given.games[0], given.play)
        return 0
    columns = [stages_of(given.library, game, given.warm_up, given.steps) for game in given.games]
    print(f"| stage | {' | '.join(given.games)} |\n|{'---|' * (len(columns) + 1)}")
    for stage, _ in STAGES:
        print(f"| {stage} | {' | '.join(f'{column[stage] / 1e3:.1f}' for column in columns)} |")
    print(f"| all | {' | '.join(f'{sum(column.values()) / 1e3:.1f}' for column in columns)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
