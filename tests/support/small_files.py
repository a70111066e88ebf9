"""The command `cule` where no file can grow beyond a number of bytes, as on a full disk."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

WITH_A_LIMIT = """
import resource, signal, sys
from cule.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.exit(main(sys.argv[2:]))
"""


def cule_with_small_files(limit: int, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command line in a process of its own."""
    command = [sys.executable, "-c", WITH_A_LIMIT, str(limit), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)
