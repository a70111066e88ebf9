"""The fuzz targets in C++ on their corpus, with sanitizers, and translation in threads and forks.

Not optimised, and with the sanitizers that find reads and writes out of bounds and undefined
arithmetic only, because compiling takes most of the time. ``make fuzz`` has all of them.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import parsers
from tests.fuzz.build import COMMON, FOLDER, INCLUDE, ROOT, TARGETS, Builder
from tests.fuzz.seeds import FINDINGS, finding_bytes, write_corpus
from tests.mutation.run import BUILDS

HAS_TRANSLATION = sys.platform == "linux" and platform.machine() == "x86_64"
SANITIZERS = "-fsanitize=address,bounds,shift,signed-integer-overflow"
LIMIT_S = 120
#: Of mutants, which replaces headers of the core.
PLAYS = ROOT / "tests" / "mutation" / "plays.cpp"
PROGRAMS = (*sorted(FOLDER.glob("*.cpp")), PLAYS)

pytestmark = pytest.mark.skipif(not HAS_TRANSLATION, reason="built for Linux on x86-64")


@pytest.fixture(scope="module")
def compiler() -> str:
    path = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if path is None:
        pytest.skip("no C++ compiler")
    return path


@pytest.fixture(scope="module")
def builder(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("fuzz"), [compiler], ["-O0", SANITIZERS])


def run(program: Path, *arguments: str) -> str:
    """What the program prints; it must end without a finding."""
    words = [str(program), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stderr


# Most of them are built by long tests only.
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_programs_compile(compiler: str, source: Path) -> None:
    for build in BUILDS if source == PLAYS else [()]:
        words = [compiler, *COMMON, "-w", "-fsyntax-only", *build, *INCLUDE, str(source)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_corpus(builder: Builder, target: str, tmp_path: Path) -> None:
    files = write_corpus(target, tmp_path / target, size=1)
    program = builder.build(target, "run_files")
    printed = run(program, *map(str, files))
    (totals,) = re.findall(r"totals: (\d+) inputs, (\d+) instructions", printed)
    assert int(totals[0]) == len(files)
    assert (int(totals[1]) > 100_000) == (target in ("rom", "translation"))
    # An input that cannot be read is no success.
    done = subprocess.run([str(program), str(tmp_path / "none")], check=False, capture_output=True)
    assert done.returncode != 0


@pytest.mark.long
def test_corpus_for_arm64(compiler: str, tmp_path: Path) -> None:
    """Random programs in code for AArch64, which a simulator executes."""
    flags = ["-O0", "-DCULE_ARM64", "-include", str(FOLDER / "arm64_cpu.hpp")]
    program = Builder(tmp_path / "program", [compiler], flags).build("translation", "run_files")
    run(program, *map(str, write_corpus("translation", tmp_path / "corpus", size=3)))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("6",), marks=pytest.mark.long),
        pytest.param(("200", "1000"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_threads_and_forks(builder: Builder, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Without sanitizers, whose own allocator may be locked while a process forks."""
    plain = Builder(tmp_path, builder.command[:1], ["-O0"])
    run(plain.build("threads"), *words)


@pytest.mark.parametrize(
    "path", sorted(FINDINGS.rglob("*.txt")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_finding_says_what_it_is(path: Path) -> None:
    assert path.parent.name in (*TARGETS, *parsers.TARGETS)
    assert path.read_text().startswith("# ")
    assert finding_bytes(path.read_text())
