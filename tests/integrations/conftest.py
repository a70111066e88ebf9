"""What the tests of the adapters share; `make test-integrations` runs them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import pytest

# Seconds that Ray gives its own processes to start, which a busy machine takes longer for.
for _name in ("py_gcs_connect_timeout_s", "gcs_server_request_timeout_seconds"):
    os.environ.setdefault(f"RAY_{_name}", "200")
os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "200")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file in one process, and those that start Ray out of each other's way."""
    for item in items:
        starts_ray = re.search("_ray|rllib", item.nodeid, re.IGNORECASE)
        item.add_marker(pytest.mark.xdist_group("ray" if starts_ray else item.path.name))


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
