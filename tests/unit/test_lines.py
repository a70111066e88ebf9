"""Lines of a picture drawn one by one (csrc/tia/lines.hpp) make the picture drawn in one go."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_lines_alone_make_the_picture(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path / "lines_alone"
    source = ROOT / "tests" / "cpp" / "lines_alone.cpp"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'csrc'}"]
    subprocess.run([compiler, *flags, str(source), "-o", str(program)], check=True)
    run = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
