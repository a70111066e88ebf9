"""Environments are made, and files saved, while threads, memory, file descriptors or the disk run out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases import long_except

pytestmark = [
    pytest.mark.ale,
    pytest.mark.skipif(sys.platform != "linux", reason="limits are set as on Linux"),
]

#: What is limited, and how much is left: from nothing to plenty.
AMOUNTS = [("memory", mib << 20) for mib in (0, 2, 8, 16, 40, 100, 400)] + [
    ("files", count) for count in (0, 1, 3)
]

RUN = """
import gc, resource, signal, sys
import numpy as np
import gymnasium
import cule
from cule.errors import CuleError
from tests.support.concurrency import KINDS
from tests.support.starvation import feed, starve
what, left = sys.argv[1], int(sys.argv[2])
for name in ("cuda", "parallel"):  # which need a mock GPU, and PettingZoo
    del KINDS[name]
for make in KINDS.values():
    env = make()
    hasattr(env, "reset") and env.reset(seed=1)
    del env
signal.alarm(50)
for name, make in KINDS.items():
    gc.collect()
    starve(what, left)
    try:
        env = make()
        for seed in (1, None):
            env.reset_game() if name == "ale" else env.reset(seed=seed)
        outcome = "made"
    except (CuleError, MemoryError, OSError) as error:
        outcome = type(error).__name__
    feed(what)
    print(name, outcome, sep=": ")
"""

SAVE = """
import sys
from pathlib import Path
import numpy as np
import cule
from cule.datasets import Recorder
from cule.files import replace_bytes
from tests.support.starvation import feed, starve
what, left, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
old, new = b"old" * 1000, b"new" * 100_000
for number in range(3):
    file = folder / f"{number}.bin"
    file.write_bytes(old)
    starve(what, left)
    try:
        replace_bytes(file, new)
        outcome, expected = "saved", new
    except (OSError, MemoryError) as error:
        outcome, expected = type(error).__name__, old
    feed(what)
    assert file.read_bytes() == expected
    print(outcome)
assert len(list(folder.iterdir())) == 3, list(folder.iterdir())
"""


def run_script(script: str, *words: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("what", "left"), long_except(AMOUNTS, every=8))
def test_environments(what: str, left: int) -> None:
    outcomes = run_script(RUN, what, left)
    assert len(outcomes) == 10
    if what == "files" or left >= 400 << 20:
        assert all(line.endswith("made") for line in outcomes), outcomes


@pytest.mark.parametrize(
    ("what", "left", "expected"),
    long_except(
        [
            ("disk", 0, "StorageError"),
            ("disk", 100_000, "StorageError"),
            ("disk", 300_000, "saved"),
            ("files", 0, None),
            ("memory", 1 << 20, "saved"),
        ],
        ("disk", 100_000, "StorageError"),
        ("files", 0, None),
        ("memory", 1 << 20, "saved"),
    ),
)
def test_saving(what: str, left: int, expected: str | None, tmp_path: Path) -> None:
    outcomes = run_script(SAVE, what, left, tmp_path)
    assert len(outcomes) == 3
    if expected is not None:
        assert outcomes == [expected] * 3
