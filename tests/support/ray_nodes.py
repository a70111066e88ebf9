"""A Ray cluster of several nodes on this machine, each with its own processes."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: Where nodes find the tests, whose environments they play.
ROOT = Path(__file__).parents[2]

#: Object store of a node.
STORE_BYTES = 120 << 20

#: A node that is gone refuses connections and is noticed within seconds; one on a busy machine is
#: only slow.
SYSTEM = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 20_000,
    "health_check_failure_threshold": 5,
}


@contextlib.contextmanager
def nodes(*num_cpus: int) -> Iterator[Any]:
    """A ``ray.cluster_utils.Cluster`` with nodes of so many CPUs; the first is the head."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        from ray.cluster_utils import Cluster
    head = {**node_options(num_cpus[0]), "_system_config": SYSTEM}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for count in num_cpus[1:]:
            cluster.add_node(**node_options(count))
        cluster.wait_for_nodes()
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def node_options(num_cpus: int, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Options of a node without a dashboard."""
    options: dict[str, Any] = {
        "num_cpus": num_cpus,
        "include_dashboard": False,
        "object_store_memory": STORE_BYTES,
    }
    return {**options, "env_vars": dict(env)} if env else options
