"""The notebooks of examples/notebooks run, cell by cell, in a short form, and are stored without results."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))

#: Numbers that make a notebook long, and those of the short form.
SHORT = {
    "UPDATES, N, T = 150, 128, 64": "UPDATES, N, T = 2, 4, 8",
    "DECISIONS, COPIES = 20, 16": "DECISIONS, COPIES = 2, 2",
}


def cells(path: Path) -> list[str]:
    """The code of a notebook, by cell."""
    found = json.loads(path.read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_is_stored_with_the_code(path: Path) -> None:
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["metadata"]["language_info"]) == (4, {"name": "python"})
    for cell in notebook["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == (
            [],
            None,
        )


def test_every_short_form_is_of_a_notebook() -> None:
    texts = [cell for path in NOTEBOOKS for cell in cells(path)]
    assert len(NOTEBOOKS) == 3
    for long in SHORT:
        assert sum(long in text for text in texts) == 1, long


@pytest.mark.ale
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_run(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="make test-integrations runs this")
    program = "\n".join(cells(path))
    for long, short in SHORT.items():
        program = program.replace(long, short)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not re.search("equal: False", done.stdout)
