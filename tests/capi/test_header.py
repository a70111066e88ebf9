"""cule.h is valid in the oldest C and in C++, and the example compiles with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.c_library import EXAMPLE, ROOT, STRICT, run, tool

INCLUDE = f"-I{ROOT / 'csrc' / 'capi'}"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c89(compiler: str, tmp_path: Path) -> None:
    run(tool(compiler), *STRICT, INCLUDE, "-c", EXAMPLE, "-o", tmp_path / "out.o")


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_cpp(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "program.cpp"
    source.write_text("#include <cule.h>\nconst char* version() { return cule_version(); }\n")
    words = ["-Wall", "-Wextra", "-Werror", INCLUDE]
    run(tool(compiler), *words, "-c", source, "-o", tmp_path / "out.o")
