"""Test the tests: change a token of the processor, timer or TIA, and see whether a test would fail.

    python -m tests.mutation.run --count 400 --out benchmarks/results/mutants.csv

Compiles ``plays.cpp`` with a random sample of the mutants (the same for a seed), of each chip in
turn, and plays the programs of the unit tests of the RIOT and the TIA, and what the parity tests
compare with ale-py live: random programs of every cartridge type, and all games. A mutant is killed
when RAM, picture, sprites or sound of a program differ from those of the unchanged code, when it
crashes or leaves the bounds of memory, as ``make asan`` would report, or when an image takes longer
than a minute. Mutants that do not compile are left out. Writes a row for each; those in the file
are not run again. Exit status 1: fewer than 95 % were killed.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, cast
from unittest import mock

import pytest

from cule.games import rom_status
from tests.mutation.mutants import FOLDERS, ROOT, Mutant, all_mutants, sample
from tests.support import programs
from tests.support.random_programs import (
    CARTRIDGES,
    random_bytes_image,
    random_image,
    random_start_image,
)

FOLDER = ROOT / "tests" / "mutation"
UNIT_TESTS = ("test_riot.py", "test_tia.py", "test_tia_frames.py", "test_tia_motion.py")
FRAMES = 60
FRAMES_OF_UNIT_TESTS = 4
#: Random programs of each cartridge type, and of the plainest one, as in test_random_programs.py.
PROGRAMS_PER_KIND, PLAIN_PROGRAMS = 8, 100
LEAST_SHARE = 0.95
LIMIT_S = 60  # of an image
COLUMNS = ("file", "line", "column", "old", "new", "verdict", "image", "seconds")
#: The plain interpreter without vectors, with checked addresses; and translated code with
#: incremental rendering.
BUILDS: tuple[tuple[str, ...], ...] = (
    ("-DCULE_PLAIN", "-fsanitize=address"),
    ("-DCULE_HOST", "-pthread"),
)
# Not optimised, and nothing inlined by force, because compiling takes most of the time.
COMPILE = (
    *("-std=c++17", "-ffp-contract=off", "-O0", "-w", "-D__SANITIZE_ADDRESS__"),
    *("-fsanitize=bounds", "-fsanitize-undefined-trap-on-error"),
)


def unit_test_programs(folder: Path) -> list[Path]:
    """Run the unit tests, and write the ROM images that they play."""
    images: dict[bytes, None] = {}
    core_game = programs.core_game

    def recording(rom: bytes, **properties: Any) -> Any:
        images.setdefault(bytes(rom))
        return core_game(rom, **properties)

    words = [str(ROOT / "tests" / "unit" / name) for name in UNIT_TESTS]
    with mock.patch.object(programs, "core_game", recording):
        status = pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *words])
    if status != pytest.ExitCode.OK:
        raise SystemExit("the unit tests fail without a mutant")
    paths = [folder / f"unit-{number}.bin" for number in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        path.write_bytes(image)
    return paths


def parity_programs(
    folder: Path, per_kind: int = PROGRAMS_PER_KIND, plain: int = PLAIN_PROGRAMS
) -> list[Path]:
    """Random programs, and the games that are here."""
    paths = []
    for kind in CARTRIDGES:
        for seed in range(plain if kind == "4K" else per_kind):
            for writer in (random_image, random_bytes_image, random_start_image):
                path = folder / f"{kind}-{seed}-{writer.__name__}.bin"
                path.write_bytes(writer(seed, kind))
                paths.append(path)
    return paths + [status.path for status in rom_status() if status.path is not None]


class Runner:
    """Compiles and plays mutants in a folder."""

    def __init__(self, folder: Path, compiler: str, images: list[Path]) -> None:
        self.folder, self.compiler, self.images = folder, compiler, images
        self.program = folder / "plays"
        self.expected: list[list[str]] = []
        for build in BUILDS:
            if not self.compile(build):
                raise SystemExit("plays.cpp does not compile")
            done = subprocess.run(self.command(), check=True, capture_output=True, text=True)
            self.expected.append(done.stdout.split())

    def command(self) -> list[str]:
        """Play all images, each for its number of frames."""
        words = [str(self.program)]
        for path in self.images:
            frames = FRAMES_OF_UNIT_TESTS if path.name.startswith("unit-") else FRAMES
            words += [str(frames), str(path)]
        return words

    def compile(self, build: tuple[str, ...]) -> bool:
        """Whether the sources compile, with what is in the folder ``csrc`` before them."""
        include = [
            f"-I{path}" for path in (self.folder / "csrc", ROOT / "csrc", ROOT / "tests/fuzz")
        ]
        words = [self.compiler, *COMPILE, *build, *include, str(FOLDER / "plays.cpp")]
        done = subprocess.run([*words, "-o", str(self.program)], check=False, capture_output=True)
        return done.returncode == 0

    def first_difference(self, expected: list[str]) -> str | None:
        """The first image that the compiled program plays in another way."""
        with subprocess.Popen(self.command(), stdout=subprocess.PIPE, text=True) as program:
            try:
                for path, digest in zip(self.images, expected, strict=True):
                    timer = threading.Timer(LIMIT_S, program.kill)
                    timer.start()
                    line = cast("IO[str]", program.stdout).readline()
                    timer.cancel()
                    if line.strip() != digest:
                        return path.name
            finally:
                program.kill()
        return None

    def verdict_of(self, mutant: Mutant) -> tuple[str, str]:
        """Killed, survived or invalid; and the image that differed first."""
        changed = self.folder / "csrc" / mutant.file
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(mutant.apply((ROOT / "csrc" / mutant.file).read_text()))
        try:
            for build, expected in zip(BUILDS, self.expected, strict=True):
                if not self.compile(build):
                    return "invalid", ""
                image = self.first_difference(expected)
                if image is not None:
                    return "killed", image
            return "survived", ""
        finally:
            changed.unlink()


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=400, help="mutants in the sample")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folders", nargs="+", default=FOLDERS, choices=FOLDERS)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    mutants = sample(all_mutants(), args.folders, args.count, args.seed)
    rows: list[dict[str, str]] = []
    if args.out.exists():
        with args.out.open(newline="") as file:
            rows = list(csv.DictReader(file))
    done = {tuple(row[name] for name in COLUMNS[:5]) for row in rows}
    compiler = shutil.which("c++") or "g++"
    with tempfile.TemporaryDirectory() as folder, args.out.open("a", newline="") as file:
        images = unit_test_programs(Path(folder)) + parity_programs(Path(folder))
        runner = Runner(Path(folder), compiler, images)
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        for mutant in mutants:
            fields = {name: str(value) for name, value in asdict(mutant).items()}
            if tuple(fields.values()) in done:
                continue
            began = time.monotonic()
            verdict, image = runner.verdict_of(mutant)
            seconds = f"{time.monotonic() - began:.1f}"
            rows.append({**fields, "verdict": verdict, "image": image, "seconds": seconds})
            writer.writerow(rows[-1])
            file.flush()
    counts = Counter(row["verdict"] for row in rows)
    share = counts["killed"] / (counts["killed"] + counts["survived"])
    print(f"{dict(counts)}: {share:.1%} killed")
    for row in rows:
        if row["verdict"] == "survived":
            print("csrc/{file}:{line}:{column}: {old} -> {new}".format_map(row))
    return int(share < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
