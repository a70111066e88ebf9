"""The examples of docs/frameworks.md run, section by section."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"


def sections() -> dict[str, str]:
    """The snippets of each section, in order."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        title: "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.mark.parametrize("title", sections())
def test_the_examples_run(title: str) -> None:
    snippet = sections()[title]
    assert snippet, "a section without an example"
    command = [sys.executable, "-c", snippet]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
