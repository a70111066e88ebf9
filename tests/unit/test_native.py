"""Checks in C++ (tests/cpp): forms of one rule against each other on random input, and a policy.

Each program prints the first difference and then fails.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'tests' / 'shim'}"]
FLAGS = ["-std=c++17", "-pthread", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]


def run_program(name: str, folder: Path, *flags: str) -> str:
    """Compile a program and run it; what it prints."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = folder / name
    source = ROOT / "tests" / "cpp" / f"{name}.cpp"
    words = [compiler, *FLAGS, *flags, *INCLUDE, str(source), "-o", str(program)]
    subprocess.run(words, check=True)
    run = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    return run.stdout


@pytest.mark.parametrize(
    "name",
    [
        "arm64_code",  # code for AArch64, executed by a simulator, and the same in C++
        "cache_switching",  # which frame the line cache compares with, and when it rests
        "cache_trial",  # whether the line cache is used where nothing is drawn
        "thread_pool",  # what a task throws ends the loop
        # runs of scanlines of players, missiles and ball, and pictures of each alone
        pytest.param("sprites", marks=pytest.mark.long),
        # the area resize by warps, and the plain one
        pytest.param("dot_resize", marks=pytest.mark.long),
        # scanlines painted 32 at a time, and the picture in one go
        pytest.param("line_painter", marks=pytest.mark.long),
        # logs rendered by teams of lanes, and by one
        pytest.param("line_collisions", marks=pytest.mark.long),
        # latches known without rendering, and by rendering
        pytest.param("pending_latches", marks=pytest.mark.long),
        # what writes read and change, and what scanlines depend on
        pytest.param("register_effects", marks=pytest.mark.long),
        # the area resize: plain, in whole numbers, and with vectors
        pytest.param("resize_versions", marks=pytest.mark.long),
    ],
)
def test_programs(name: str, tmp_path: Path) -> None:
    run_program(name, tmp_path)


@pytest.mark.long
def test_machines_without_vectors(tmp_path: Path) -> None:
    run_program("line_painter", tmp_path, "-DCULE_PLAIN")
    digests = run_program("vector_digests", tmp_path)
    assert len(digests.splitlines()) == 7
    assert run_program("vector_digests", tmp_path, "-DCULE_PLAIN") == digests
