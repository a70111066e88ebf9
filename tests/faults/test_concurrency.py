"""Threads, forks and signals at random, on every class of environment."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.conftest import missing
from tests.support.cases import long_except
from tests.support.concurrency import KINDS, run_cases

pytestmark = [
    pytest.mark.ale,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
]

QUICK = ("one thread", "asynchronous", "decorrelated", "gymnasium", "cuda")
#: That of PettingZoo is in tests/integrations/test_pettingzoo.py.
HERE = [kind for kind in KINDS if kind != "parallel"]


def with_marks(cases: list[Any]) -> list[Any]:
    """The cases, of which that of a GPU needs one."""
    return [pytest.param("cuda", marks=pytest.mark.gpu) if c == "cuda" else c for c in cases]


def run_here(kind: str, first_seed: int, cases: int) -> None:
    """Run some cases; of a GPU on the mock, where there is none."""
    run_cases(kind, first_seed, cases, on_mock=kind == "cuda" and missing("gpu") is not None)


@pytest.mark.parametrize("kind", with_marks(long_except(HERE, *QUICK)))
def test_calls_at_random(kind: str) -> None:
    run_here(kind, 0, 3)


@pytest.mark.parametrize("kind", with_marks(HERE))
@pytest.mark.long
def test_many_calls_at_random(kind: str) -> None:
    run_here(kind, 100, 100)
