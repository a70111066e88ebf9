"""Packages import what is used: names of `cule.lazy`, and what one PPO needs."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "cule"

#: Most modules of the package that ``import cule.agents.ppo`` may import.
MOST_MODULES = 71


def lazy_packages() -> list[str]:
    """Packages whose names are imported when they are used."""
    files = [path for path in PACKAGE.rglob("__init__.py") if "lazy_names(" in path.read_text()]
    return sorted(".".join(path.parent.relative_to(PACKAGE.parent).parts) for path in files)


def typed_and_lazy(package: str) -> tuple[set[str], set[str]]:
    """Names that type checkers see, and those that are imported at first use."""
    tree = ast.parse((PACKAGE.parent / package.replace(".", "/") / "__init__.py").read_text())
    typed: set[str] = set()
    lazy: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.If):
            imports = [item for item in node.body if isinstance(item, ast.ImportFrom)]
            typed |= {f"{item.module}.{alias.name}" for item in imports for alias in item.names}
        elif isinstance(node, ast.Assign) and "lazy_names(" in ast.unparse(node):
            assert isinstance(node.value, ast.Call)
            modules = eval(ast.unparse(node.value.args[1]))
            lazy |= {f"{package}.{m}.{name}" for m, names in modules.items() for name in names}
    return typed, lazy


@pytest.mark.parametrize("package", lazy_packages())
def test_type_checkers_see_the_names_that_there_are(package: str) -> None:
    typed, lazy = typed_and_lazy(package)
    assert typed == lazy != set()
    pytest.importorskip("torch")
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert {name.rpartition(".")[2] for name in lazy} <= set(module.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018


def test_ppo_imports_few_modules() -> None:
    pytest.importorskip("torch")
    code = "import sys, cule.agents.ppo; print(*(m for m in sys.modules if m[:5] == 'cule.'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "cule.agents.ppo" in modules
    assert "cule.replay.prioritized" not in modules
    assert len(modules) < MOST_MODULES
