"""Learners run on one thread here, so that their numbers do not depend on the machine's load."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def always_one_thread(one_thread: None) -> None:
    """`one_thread`, for every test of this folder."""


@pytest.fixture
def short_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate in episodes of at most 400 frames."""
    monkeypatch.setattr("cule.agents.run.evaluation.FRAME_CAP", 400)
