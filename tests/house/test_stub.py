"""The type stub of the native module says what is in the module, and nothing else."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import cule
from cule import _core

STUB = Path(cule.__file__).with_name("_core.pyi")
TREE = ast.parse(STUB.read_text())


def stub_names(body: list[ast.stmt]) -> set[str]:
    """Names that a module or class body of the stub declares."""
    names = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names - {"__init__"}


def public_names(thing: object) -> set[str]:
    """Names without an underscore that a module or class has of its own."""
    return {name for name in vars(thing) if not name.startswith("_")}


def classes() -> list[ast.ClassDef]:
    """Classes of the stub that have members."""
    return [node for node in TREE.body if isinstance(node, ast.ClassDef)]


def test_module_names() -> None:
    assert stub_names(TREE.body) == public_names(_core)


@pytest.mark.parametrize("node", classes(), ids=lambda node: node.name)
def test_class_members(node: ast.ClassDef) -> None:
    assert stub_names(node.body) == public_names(getattr(_core, node.name))


def functions() -> list[tuple[str, ast.FunctionDef]]:
    """Every function of the stub that is called, with its qualified name."""
    found = [(node.name, node) for node in TREE.body if isinstance(node, ast.FunctionDef)]
    for owner in classes():
        for node in owner.body:
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                found.append((f"{owner.name}.{node.name}", node))
    return found


@pytest.mark.parametrize(("name", "node"), functions(), ids=lambda value: str(value))
def test_argument_names(name: str, node: ast.FunctionDef) -> None:
    thing: object = _core
    for part in name.split("."):
        thing = getattr(thing, part)
    # pybind11 writes the signature into the first line of the docstring.
    line = (inspect.getdoc(thing) or "").splitlines()[0]
    if "**kwargs" in line:
        pytest.skip("takes its arguments as a dict, and checks their names itself")
    arguments = [*node.args.args, *node.args.kwonlyargs]
    for argument in arguments:
        if argument.arg != "self" and "arg0" not in line:
            assert f"{argument.arg}:" in line, line
    assert line.count(":") - line.count("::") >= len([a for a in arguments if a.arg != "self"])


def test_rows_are_distinct() -> None:
    for prefix in ("INT_", "FLAG_"):
        rows = [
            getattr(_core, name)
            for name in stub_names(TREE.body)
            if name.startswith(prefix) and name != f"{prefix}ROWS"
        ]
        assert sorted(rows) == list(range(getattr(_core, f"{prefix}ROWS")))
