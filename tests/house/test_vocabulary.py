"""Documentation in plain English, and docstrings that begin with a verb or a plain noun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Words of the house style's list, searched in the documentation.
COLLOQUIAL = r"\b(whoever|nobody|somebody|by turns|goes on|what it takes|lies in)\b"


def lines_with(pattern: str, paths: list[Path]) -> list[str]:
    """Lines that match, as ``path:number: line``."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]


def test_plain_english() -> None:
    pages = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert lines_with(COLLOQUIAL, pages) == []


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and docstrings of a file."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text.splitlines()[0]


@pytest.mark.parametrize("folder", ["cule", "roms_tools", "benchmarks"])
def test_docstrings_begin_with_a_verb_or_a_noun(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(path)
        if re.match(r"(Of|What|As|Be)\b", text)
    ]
    assert found == []
