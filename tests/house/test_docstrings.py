"""The examples in public docstrings run, and print what they say."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Modules whose examples run in a process of their own: their libraries warn when they are used.
ALONE = {"cule.wrappers.rllib", "cule.wrappers.sb3"}

#: Module: a library that it or its examples need.
NEEDED = {
    "cule.envs.xla": "jax",
    "cule.pettingzoo.parallel": "pettingzoo",
    "cule.wrappers.dm_env": "dm_env",
    "cule.wrappers.openenv": "openenv",
    "cule.wrappers.rllib": "ray",
    "cule.wrappers.sb3": "stable_baselines3",
    "cule.wrappers.torchrl": "torchrl",
}

RUN = """
import doctest, importlib, sys
options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
results = doctest.testmod(importlib.import_module(sys.argv[1]), optionflags=options)
sys.exit(results.failed or not results.attempted)
"""


def modules_with_examples() -> list[str]:
    """Dotted names of the modules of the package with an example in a docstring."""
    names = []
    for path in sorted((ROOT / "cule").rglob("*.py")):
        text = path.read_text()
        if ">>>" not in text:
            continue
        nodes = ast.walk(ast.parse(text))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        docs = [ast.get_docstring(node) for node in nodes if isinstance(node, kinds)]
        if any(doc is not None and ">>>" in doc for doc in docs):
            names.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.ale
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    if name in NEEDED and importlib.util.find_spec(NEEDED[name]) is None:
        pytest.skip(f"{NEEDED[name]} is not installed; make test-integrations runs this")
    monkeypatch.chdir(tmp_path)
    if name in ALONE:
        command = [sys.executable, "-c", RUN, name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    module = importlib.import_module(name)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testmod(module, optionflags=options, verbose=False)
    assert results.attempted > 0
    assert results.failed == 0
