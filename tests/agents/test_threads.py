"""How many threads of torch a learner takes by default."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from cule.agents.parts import setup  # noqa: E402
from tests.support.learners import small_learner  # noqa: E402


@pytest.mark.parametrize(
    ("cores", "load", "threads"), [(8, 0.0, 4), (8, 5.4, 3), (2, 1.2, 1), (2, 9.0, 1), (1, 0.0, 1)]
)
def test_busy_cores_are_left_alone(
    cores: int, load: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of torch that share a core wait for each other."""
    chosen: list[int] = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    monkeypatch.setattr(setup.torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(setup.torch, "set_num_threads", chosen.append)
    small_learner("a2c")
    small_learner("a2c", torch_threads=7)
    assert chosen == [threads, 7]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    small_learner("a2c")
    assert len(chosen) == 2


def test_without_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(os, "getloadavg", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert setup.idle_cores() == 6
