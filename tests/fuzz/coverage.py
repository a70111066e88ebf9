"""Lines of the core that the corpus of the fuzz targets in C++ executes.

    python -m tests.fuzz.coverage

Builds the targets once more, with clang's source-based coverage instead of sanitizers, runs them on
the corpus that ``tests.fuzz.run`` has collected in ``build/fuzz`` (on the generated one, if there is
none), and prints a row for each file of ``csrc``, its lines that never ran, and a sum for each
folder. Lines of functions that only the compiler evaluates do not count. A line is covered when it
ran in any instantiation of a template; with several regions, the last one counts. ``CLANGXX`` names
the compiler; ``llvm-profdata`` and ``llvm-cov`` of its version are taken from ``LLVM_BIN``, by
default from the path. Exit status 1: fewer than 95 % of all lines ran.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.fuzz.build import ROOT, TARGETS, Builder
from tests.fuzz.run import FOLDER
from tests.fuzz.seeds import write_corpus

FLAGS = ("-O1", "-fprofile-instr-generate", "-fcoverage-mapping")
FILES_A_PROCESS = 2000
LEAST_SHARE = 0.95
CODE_REGION = 0  # kind, in the output of llvm-cov


def tool(name: str) -> str:
    """A program of LLVM."""
    return str(Path(os.environ.get("LLVM_BIN", ""), name))


def run_corpus(program: Path, target: str, profiles: Path) -> list[Path]:
    """Run a target on its corpus; the raw profiles that it wrote."""
    write_corpus(target, FOLDER / "corpus" / target)
    files = sorted((FOLDER / "corpus" / target).iterdir())
    raw = []
    for start in range(0, len(files), FILES_A_PROCESS):
        raw.append(profiles / f"{target}-{start}.profraw")
        words = [program, *files[start : start + FILES_A_PROCESS]]
        env = {**os.environ, "LLVM_PROFILE_FILE": str(raw[-1])}
        subprocess.run(words, check=True, env=env, stderr=subprocess.DEVNULL)
    print(f"{target}: {len(files):,} inputs", flush=True)
    return raw


def compiled_functions(profile: Path) -> set[str]:
    """Functions that are in a program: not those that only the compiler evaluates."""
    words = [tool("llvm-profdata"), "show", "--all-functions", str(profile)]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^  (\S+):$", text, re.MULTILINE))


def covered_lines(programs: list[Path], profile: Path) -> dict[str, dict[int, bool]]:
    """Whether each line of compiled functions ran, for each file of ``csrc``."""
    first, *others = programs
    objects = [word for program in others for word in ("-object", str(program))]
    words = [tool("llvm-cov"), "export", f"-instr-profile={profile}", str(first), *objects]
    text = subprocess.run(words, check=True, capture_output=True).stdout
    compiled = compiled_functions(profile)
    found: dict[str, dict[int, bool]] = defaultdict(dict)
    for function in json.loads(text)["data"][0]["functions"]:
        if function["name"] not in compiled:
            continue
        lines: dict[tuple[str, int], bool] = {}
        for begin, _, end, _, count, file, _, kind in function["regions"]:
            if kind == CODE_REGION:  # the inner ones follow the one that they are in
                for line in range(begin, end + 1):
                    lines[function["filenames"][file], line] = count > 0
        for (file, line), has_run in lines.items():
            found[file][line] = has_run or found[file].get(line, False)
    folder = ROOT / "csrc"
    return {
        Path(file).relative_to(ROOT).as_posix(): lines
        for file, lines in found.items()
        if Path(file).is_relative_to(folder)
    }


def main() -> int:
    """Print the table; the exit status."""
    compiler = shlex.split(os.environ.get("CLANGXX", "clang++"))
    folder = FOLDER / "coverage"
    builder = Builder(folder, compiler, FLAGS)
    programs, raw = [], []
    for target in TARGETS:
        programs.append(builder.build(target, "run_files"))
        raw += run_corpus(programs[-1], target, folder)
    merged = folder / "all.profdata"
    subprocess.run([tool("llvm-profdata"), "merge", "-o", merged, *raw], check=True)
    lines = covered_lines(programs, merged)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, ran in sorted(lines.items()):
        counts = sum(ran.values()), len(ran)
        print(f"| `{name}` | {counts[0]:,} | {counts[1]:,} | {counts[0] / counts[1]:.1%} |")
        if counts[0] < counts[1]:
            print("  never:", *(line for line, has_run in sorted(ran.items()) if not has_run))
        for part in (str(Path(name).parent), "all"):
            sums[part] = [a + b for a, b in zip(sums[part], counts, strict=True)]
    for part, (covered, count) in sorted(sums.items()):
        print(f"| {part} | {covered:,} | {count:,} | {covered / count:.1%} |")
    built = {ROOT / name for name in lines}
    rest = [path for path in (ROOT / "csrc").rglob("*.?pp") if path not in built]
    print("not in the targets:", *sorted(path.relative_to(ROOT).as_posix() for path in rest))
    return int(sums["all"][0] < LEAST_SHARE * sums["all"][1])


if __name__ == "__main__":
    sys.exit(main())
