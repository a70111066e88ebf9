"""What the tests of the adapters share; `make test-integrations` runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def closing() -> Iterator[Callable]:
    """Takes environments, gives them back, and closes them after the test."""
    made = []

    def take(env):
        made.append(env)
        return env

    yield take
    for env in made:
        env.close()
