"""The modules of the package import one another without circles, inside functions as well."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "cule"

#: Modules of `cule.agents.training` that use the algorithms; the algorithms use the others.
USES_ALGORITHMS = {"command", "presets"}


def module_name(path: Path) -> str:
    """The dotted name of a file."""
    relative = path.relative_to(PACKAGE.parent).with_suffix("")
    return ".".join(relative.parts).removesuffix(".__init__")


#: Files by module; the native module by its stub.
MODULES = {
    module_name(path): path
    for path in sorted(PACKAGE.rglob("*.py*"))
    if path.suffix in (".py", ".pyi")
}


def imports_of(tree: ast.AST, modules: set[str]) -> set[str]:
    """The modules that code imports at run time: all but those under ``if TYPE_CHECKING:``."""
    found: set[str] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules
            if names - modules:
                found.add(str(node.module))
        waiting += ast.iter_child_nodes(node)
    return found & modules


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """A circle of a graph; empty without one."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_modules_import_one_another_without_circles() -> None:
    names = set(MODULES)
    graph = {name: imports_of(ast.parse(path.read_text()), names) for name, path in MODULES.items()}
    assert graph["cule.agents.training.presets"] >= {"cule.agents.agent"}
    assert not find_circle(graph)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b", {"a.b"}),
        ("from a import b, c", {"a.b", "a"}),
        ("def f():\n    if g():\n        from a.b import x", {"a.b"}),
        ("if TYPE_CHECKING:\n    from a.b import x\nelse:\n    import a", {"a"}),
        ("import os", set()),
    ],
)
def test_imports_are_found(text: str, expected: set[str]) -> None:
    assert imports_of(ast.parse(text), {"a", "a.b"}) == expected


def test_circles_are_found() -> None:
    assert not find_circle({"a": {"b"}, "b": {"c"}})
    assert set(find_circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_algorithms_do_not_depend_on_runs() -> None:
    names = set(MODULES)
    for name, path in MODULES.items():
        imported = imports_of(ast.parse(path.read_text()), names)
        if name.startswith("cule.agents.algorithms"):
            assert not imported & {
                f"cule.agents.training.{late}" for late in (*USES_ALGORITHMS, "runner")
            }, name
        elif name.startswith("cule.agents.training"):
            algorithms = {other for other in imported if ".agents.algorithms." in other}
            is_allowed = name.rpartition(".")[2] in USES_ALGORITHMS
            assert is_allowed or algorithms <= {"cule.agents.algorithms.config"}, name
