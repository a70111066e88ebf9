"""The type stub of the native module says what is in the module, and nothing else."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest

import cule
from cule import _core
from cule.envs.options import resolve_options
from cule.envs.plan import make_batch, plan_batch
from cule.games import resolve

STUB = Path(cule.__file__).with_name("_core.pyi")
TREE = ast.parse(STUB.read_text())

#: These take their keywords as a dict, so that their signature does not name them.
KEYWORD_CONSTRUCTORS = {"Game.__init__", "Batch.__init__"}


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


def functions() -> dict[str, ast.FunctionDef]:
    """Every function of the stub that is called, by its qualified name."""
    found = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}
    for owner in classes():
        for node in owner.body:
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                found[f"{owner.name}.{node.name}"] = node
    return found


@pytest.mark.parametrize("name", sorted(functions().keys() - KEYWORD_CONSTRUCTORS))
def test_argument_names(name: str) -> None:
    node = functions()[name]
    thing: object = _core
    for part in name.split("."):
        thing = getattr(thing, part)
    # pybind11 writes the signature into the first line of the docstring.
    line = (inspect.getdoc(thing) or "").splitlines()[0]
    arguments = [*node.args.args, *node.args.kwonlyargs]
    for argument in arguments:
        if argument.arg != "self" and "arg0" not in line:
            assert f"{argument.arg}:" in line, line
    assert line.count(":") - line.count("::") >= len([a for a in arguments if a.arg != "self"])


def keywords_of(name: str) -> set[str]:
    """Keyword-only arguments of a function of the stub."""
    return {argument.arg for argument in functions()[name].args.kwonlyargs}


@pytest.mark.ale
def test_keywords_of_game() -> None:
    keywords = resolve("pong").to_core_kwargs()
    assert set(keywords) == keywords_of("Game.__init__")
    for name in keywords:
        with pytest.raises(TypeError, match=name):
            _core.Game(**{key: value for key, value in keywords.items() if key != name})


@pytest.mark.ale
def test_keywords_of_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    batch = _core.Batch
    monkeypatch.setattr(_core, "Batch", lambda *args, **kwargs: calls.append((args, kwargs)))
    options = resolve_options("pong", 1, {})
    make_batch(plan_batch(options), options)
    ((positional, keywords),) = calls
    assert set(keywords) == keywords_of("Batch.__init__")
    for name in keywords:
        with pytest.raises(TypeError, match=name):
            batch(*positional, **{key: value for key, value in keywords.items() if key != name})


def test_rows_are_distinct() -> None:
    for prefix in ("INT_", "FLAG_"):
        rows = [
            getattr(_core, name)
            for name in stub_names(TREE.body)
            if name.startswith(prefix) and name != f"{prefix}ROWS"
        ]
        assert sorted(rows) == list(range(getattr(_core, f"{prefix}ROWS")))
