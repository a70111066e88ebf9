"""The modules of the package import one another without circles, inside functions as well."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "cule"

#: Files of algorithms in `cule.agents`.
ALGORITHMS = {
    *("a2c", "apex", "apex_dpg", "dqn", "ppo", "ppo_lstm", "ppo_rnd", "pqn", "vtrace"),
    "vtrace_lstm",
}

#: Modules of `cule.agents.run` that use the algorithms; learners use checkpoints and evaluations.
USES_ALGORITHMS, OF_LEARNERS = {"presets"}, {"checkpoint", "evaluation", "weights"}


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
    assert graph["cule.agents.run.presets"] >= {"cule.agents.ppo"}
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
    files = {f"cule.agents.{name}" for name in ALGORITHMS}
    assert files <= names
    for name, path in MODULES.items():
        imported = imports_of(ast.parse(path.read_text()), names)
        runs = {other.rpartition(".")[2] for other in imported if ".agents.run." in other}
        if name in files:
            assert not runs, name
        elif name.startswith("cule.agents.parts."):
            assert runs <= OF_LEARNERS, name
            assert not imported & files, name
        elif name.startswith("cule.agents.run."):
            assert name.rpartition(".")[2] in USES_ALGORITHMS or not imported & files, name
