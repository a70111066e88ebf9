"""Old names stay out of the tree, and colloquial English stays out of the documentation."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Regular expressions of names that the project no longer uses.
OLD_NAMES = (
    r"\b(class|struct) Unit\b|\bUnit::|\bUnit&",
    r"\bFrameLog\b",
    r"\bLineUse\b",
    r"\bPictureLoans\b",
    r"\bArena\b",
    r"\bNotingEngine\b",
    r"\b_Heat\b",
    r"\bstand_in_(gpu|streams)\b",
    r"\bmay_look\b",
    r"\btake_due\b",
    r"\bExplorer\b",
    r"\bfind_obstacle\b",
    r"\brefusals\b",
    r"\beffective\.hpp\b",
    r"\breached\.hpp\b",
    r"\bline_use\b",
    r"\brace\.py\b",
    r"\bUnitState\b",
    r"\bRowHeader\b",
    r"\brare_(bytes|memory|pooled)\b",
    r"\bkCapture\w+",
    r"\bkSchedules?\b",
    r"\bturns\.py\b",
    r"\bstand-in\b",
    r"\bexplorers?\b",
    r"\bnext_row\b",
    r"\bCULE_(SCHEDULE|TRANSLATION)\b",
)

#: Words of the house style's list, searched in the documentation.
COLLOQUIAL = r"\b(whoever|nobody|somebody|by turns|goes on|what it takes|lies in)\b"

#: Records of measurements keep the names of their time.
RECORDS = "benchmarks/results/"

TEXT = {".cpp", ".cu", ".cuh", ".hpp", ".in", ".md", ".py", ".pyi", ".sh", ".toml", ".txt"}


def tracked_files() -> list[Path]:
    """Text files of the repository, except the change log and this list."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    names = [name for name in done.stdout.split("\0") if name and not name.startswith(RECORDS)]
    paths = [ROOT / name for name in names if name != "CHANGELOG.md"]
    return [p for p in paths if p.suffix in TEXT and p.is_file() and p != Path(__file__)]


def lines_with(pattern: str, paths: list[Path]) -> list[str]:
    """Lines that match, as ``path:number: line``."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE if pattern == COLLOQUIAL else 0)
    ]


@pytest.mark.parametrize("pattern", OLD_NAMES)
def test_old_names(pattern: str) -> None:
    assert lines_with(pattern, tracked_files()) == []


def test_plain_english() -> None:
    pages = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert lines_with(COLLOQUIAL, pages) == []
