"""cule.h is valid in the oldest C and in C++, and the example compiles with it."""

from __future__ import annotations

import pytest

from tests.support.c_library import EXAMPLE, ROOT, STRICT, run, tool

INCLUDE = f"-I{ROOT / 'csrc' / 'capi'}"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c89(compiler: str) -> None:
    run(tool(compiler), *STRICT, "-fsyntax-only", INCLUDE, EXAMPLE)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_cpp(compiler: str) -> None:
    header = ROOT / "csrc" / "capi" / "cule.h"
    run(tool(compiler), "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", header)
