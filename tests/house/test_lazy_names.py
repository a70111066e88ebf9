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


def typed_names(package: str) -> dict[str, str]:
    """Names that type checkers see, and the module that each comes from."""
    tree = ast.parse((PACKAGE.parent / package.replace(".", "/") / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    found = {}
    for item in block.body:
        assert isinstance(item, ast.ImportFrom)
        assert str(item.module).startswith(f"{package}.")
        found |= {alias.name: str(item.module) for alias in item.names if alias.asname is None}
    return found


@pytest.mark.parametrize("package", lazy_packages())
def test_type_checkers_see_the_names_that_there_are(package: str) -> None:
    typed = typed_names(package)
    assert typed
    pytest.importorskip("torch")
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
    assert all(getattr(module, name) is not None for name in module.__all__)
    for name, home in typed.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name), name
    assert typed.keys() <= set(module.__all__)
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
