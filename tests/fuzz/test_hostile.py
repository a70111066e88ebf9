"""Files made to hang a reader or to take all memory are refused, quickly and in little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.ale
@pytest.mark.skipif(sys.platform != "linux", reason="limits are set as on Linux")
def test_hostile_files_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.hostile"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-3000:]
    assert done.stdout.endswith(" cases are refused\n")
