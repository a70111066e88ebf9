"""What the tests of the adapters share; `make test-integrations` runs them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

# Ray starts its processes with a low priority: on a busy machine they would hardly run.
os.environ.setdefault("RAY_worker_niceness", "0")
# Seconds that Ray gives its own processes to start and to answer, which a busy machine takes longer for.
for _name in (
    "py_gcs_connect_timeout_s",
    "gcs_server_request_timeout_seconds",
    "gcs_server_port_wait_time_s",
    "gcs_rpc_server_reconnect_timeout_s",
):
    os.environ.setdefault(f"RAY_{_name}", "200")


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
