"""Threads, forks and signals at random, on every class of environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases import long_except
from tests.support.concurrency import CASE_SECONDS, KINDS

pytestmark = [
    pytest.mark.ale,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
]

ROOT = Path(__file__).parents[2]


def run_cases(kind: str, first_seed: int, cases: int) -> None:
    command = [sys.executable, "-m", "tests.support.concurrency", kind, str(first_seed), str(cases)]
    limit = 30 + cases * CASE_SECONDS
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-4000:]


@pytest.mark.parametrize("kind", long_except(KINDS, every=2))
def test_calls_at_random(kind: str) -> None:
    run_cases(kind, 0, 3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.long
def test_many_calls_at_random(kind: str) -> None:
    run_cases(kind, 100, 100)
