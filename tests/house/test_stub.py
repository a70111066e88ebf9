"""The type stubs of the native modules say what is in the modules, and nothing else."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import cule
from cule import _core
from cule.device import cuda_module
from cule.games import resolve

#: Signatures that pybind11 writes as `arg0`, because they are those of its own enumerations.
OF_PYBIND11 = {"_core.Autoreset.__init__"}


def find_modules() -> dict[str, ModuleType]:
    """The native modules that are built."""
    cuda = cuda_module()
    return {"_core": _core} | ({} if cuda is None else {"_cuda": cuda})


MODULES = find_modules()
TREES = {
    name: ast.parse(Path(cule.__file__).with_name(f"{name}.pyi").read_text()) for name in MODULES
}


def stub_names(body: list[ast.stmt]) -> set[str]:
    """Public names that a module or class body of a stub declares."""
    names = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")}


def public_names(thing: object) -> set[str]:
    """Names without an underscore that a module or class has of its own."""
    return {name for name in vars(thing) if not name.startswith("_")}


def classes() -> dict[str, ast.ClassDef]:
    """Public classes of the stubs, by their qualified names."""
    return {
        f"{module}.{node.name}": node
        for module, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def functions() -> dict[str, ast.FunctionDef]:
    """Every function of the stubs that is called, by its qualified name."""
    owners = {**TREES, **classes()}
    return {
        f"{owner}.{node.name}": node
        for owner, tree in owners.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)
    }


def native(name: str) -> object:
    """What a qualified name means."""
    module, *parts = name.split(".")
    thing: object = MODULES[module]
    for part in parts:
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("module", sorted(MODULES))
def test_module_names(module: str) -> None:
    assert stub_names(TREES[module].body) == public_names(MODULES[module])


@pytest.mark.parametrize("name", sorted(classes()))
def test_class_members(name: str) -> None:
    members = public_names(native(name))
    if name == "_core.BatchOptions":  # those of options are named in `cule.EnvOptions`
        options = {entry.name for entry in dataclasses.fields(cule.EnvOptions)}
        members -= options - {"full_action_space"}
    assert stub_names(classes()[name].body) == members


@pytest.mark.parametrize("name", sorted(functions().keys() - OF_PYBIND11))
def test_argument_names(name: str) -> None:
    # pybind11 writes the signature into the first line of the docstring.
    line = (inspect.getdoc(native(name)) or "").splitlines()[0]
    node = functions()[name].args
    arguments = [a.arg for a in (*node.args, *node.kwonlyargs) if a.arg != "self"]
    for argument in arguments:
        if "arg0" not in line:
            assert f"{argument}:" in line, line
    assert line.count(":") - line.count("::") >= len(arguments)


@pytest.mark.ale
def test_fields_of_a_game() -> None:
    assert set(resolve("pong").to_core_kwargs()) == public_names(_core.GameSpec) - {
        "modifications",
        "objects",
        "translates",
    }


def test_options_of_a_batch() -> None:
    """Every native option is one of an environment, or is made of one."""
    ours = {entry.name for entry in dataclasses.fields(cule.MultiAgentOptions)}
    derived = {
        "autoreset": "autoreset_mode",
        "cached_resets": "resets",
        "obs": "obs_type",
        "max_action_delay": "action_delay",
    }
    derived["object_rows"] = "obs_type"
    assert set(derived.values()) <= ours
    assert public_names(_core.BatchOptions) - ours == set(derived)


def test_rows_are_distinct() -> None:
    for prefix, count in (("INT_", _core.int_rows(1)), ("FLAG_", _core.flag_rows(1))):
        rows = [
            getattr(_core, name)
            for name in stub_names(TREES["_core"].body)
            if name.startswith(prefix) and name != f"{prefix}OF_PLAYERS"
        ]
        assert sorted(rows) == list(range(count))
