"""Runs of a sweep as tasks of a Ray cluster, on nodes that share its folder."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cule.agents.cluster.connection import check_nodes, connect, disconnect, import_ray
from cule.agents.sweeps.runs import STOP_S, Outcome, run_process
from cule.agents.sweeps.schedule import Execute
from cule.errors import ClusterError, shown


@contextlib.contextmanager
def ray_tasks(
    address: str,
    folder: Path | None,
    games: Sequence[str],
    *,
    max_slots: int,
    num_cpus: int,
    num_gpus: float,
) -> Iterator[tuple[Execute, Callable[[], int]]]:
    """Connect and check the nodes; yield what executes a run, and how many there is room for.

    Args:
        address: As for `cule.agents.cluster.connection.connect`.
        folder: A folder that the nodes must share; None: nothing is run.
        games: Games whose ROMs they must have.
        max_slots: Runs at a time; 0: as many as the cluster has room for.
        num_cpus: CPUs of a run.
        num_gpus: GPUs of a run.

    Raises:
        ClusterError: The cluster cannot run them.
    """
    ray, must_disconnect = import_ray(), connect(address)
    task = ray.remote(_run_on_node).options(
        num_cpus=num_cpus, num_gpus=num_gpus, max_retries=0, scheduling_strategy="SPREAD"
    )
    resources = {"CPU": num_cpus} | ({"GPU": num_gpus} if num_gpus else {})

    def num_slots() -> int:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        room = sum(
            int(min(node.get(name, 0.0) / each for name, each in resources.items()))
            for node in nodes
        )
        return min(room, max_slots or room)

    def execute(words: Sequence[str], log: Path, stop: threading.Event) -> Outcome:
        running = task.remote(list(words[1:]), str(log.absolute()), num_cpus)
        while not ray.wait([running], timeout=0.5)[0]:
            if stop.is_set():
                ray.cancel(running)
                ray.wait([running], timeout=STOP_S)
                return Outcome(None, "it was stopped")
        try:
            return Outcome(*ray.get(running))
        except ray.exceptions.RayError as error:
            return Outcome(None, str(error).strip().partition("\n")[0])

    try:
        with _token(folder) as tokens:
            check_nodes(games, tokens)
            if not num_slots():
                raise ClusterError(
                    f"cluster is {shown(address)}, and no node has {num_cpus} CPUs and "
                    f"{num_gpus:g} GPUs"
                )
        yield execute, num_slots
    finally:
        if must_disconnect:
            disconnect()


def _run_on_node(words: Sequence[str], log: str, num_cpus: int) -> Outcome:
    """Run a process with the Python of a node."""
    return run_process([sys.executable, *words], Path(log), num_cpus)


@contextlib.contextmanager
def _token(folder: Path | None) -> Iterator[list[str]]:
    """A file that only nodes that share the folder see; none without a folder.

    Leaves no new folder behind if the nodes do not pass their checks.
    """
    if folder is None:
        yield []
        return
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    token = folder / ".shared"
    token.touch()
    try:
        yield [str(token.absolute())]
        is_new = False
    finally:
        token.unlink()
        if is_new:
            folder.rmdir()
