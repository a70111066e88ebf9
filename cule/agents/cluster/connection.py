"""The connection to a Ray cluster, and the checks of its nodes before a run starts."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import platform
import socket
import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from cule import __version__
from cule.errors import ClusterError, InvalidArgumentError, MissingPackageError, shown
from cule.files import format_bytes

#: Seconds to wait for a connection, and for the answer of a node.
CONNECT_S, ANSWER_S = 5.0, 60.0


class NodeReport(NamedTuple):
    """Answer of a node: its versions, and what it lacks."""

    name: str
    python: str
    cule: str
    problems: Sequence[str]
    """Games and files that it lacks, in words."""


def import_ray() -> ModuleType:
    """Import Ray.

    Raises:
        MissingPackageError: It is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        with warnings.catch_warnings():  # Ray's, of its own modules
            warnings.simplefilter("ignore")
            import ray
            import ray.exceptions
            import ray.util.metrics
            import ray.util.scheduling_strategies
    except ImportError as error:
        raise MissingPackageError(
            f"cluster needs Ray, which cannot be imported: {error}; pip install 'cule[ray]'"
        ) from None
    module: ModuleType = ray
    return module


def connect(address: str) -> bool:
    """Connect this process to a cluster, unless it is connected.

    Args:
        address: "auto" for the cluster of this machine, "local" for a new one on it, or HOST:PORT.

    Returns:
        Whether `disconnect` must be called.

    Raises:
        InvalidArgumentError: The address has another form.
        ClusterError: There is no such cluster, or it has another version of Ray or Python.
    """
    ray = import_ray()
    if ray.is_initialized():
        return False
    if address not in ("auto", "local"):
        _check_reachable(address)
    try:
        with _on_this_machine_alone() if address == "local" else contextlib.nullcontext():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ClusterError(
            f"cluster is {shown(address)}, which cannot be used: {reason}; start a cluster with "
            "`ray start --head`, and join it with `ray start --address HOST:PORT` on other machines"
        ) from None
    return True


@contextlib.contextmanager
def _on_this_machine_alone() -> Iterator[None]:
    """Let all services of a new cluster listen on 127.0.0.1 alone.

    Ray listens on every interface of Linux, and on the loopback alone where it has no clusters of
    several machines (macOS, Windows). A variable decides, which it reads when it is imported.
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    variable, before = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", constants.ENABLE_RAY_CLUSTER
    value = os.environ.get(variable)
    os.environ[variable] = "0"  # of the processes that it starts
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
        os.environ.pop(variable)
        if value is not None:
            os.environ[variable] = value


def disconnect() -> None:
    """Disconnect this process; its Ray actors end."""
    import_ray().shutdown()


def _check_reachable(address: str) -> None:
    """Raise a `CuleError` unless something listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise InvalidArgumentError(
            f"cluster is {shown(address)}; it must be 'auto', 'local' or HOST:PORT of a Ray cluster"
        )
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except (OSError, UnicodeError) as error:  # no name of a host is "a..b"
        raise ClusterError(
            f"cluster is {shown(address)}, which cannot be reached: {error}; the address is the "
            "one that `ray start --head` prints"
        ) from None


def check_nodes(games: Sequence[str], files: Sequence[str]) -> None:
    """Require that every node with CPUs can play: versions, ROMs and files.

    Raises:
        ClusterError: A node cannot; the message names the node and what it lacks.
    """
    ray = import_ray()

    def examine(games: Sequence[str], files: Sequence[str]) -> tuple[str, str, list[str]]:
        # Pickled by value, and with nothing of cule, so that it also runs where that is missing.
        import platform
        from pathlib import Path

        python = platform.python_version()
        problems = [f"no file {path}" for path in files if not Path(path).is_file()]
        try:
            import cule

            version = cule.__version__
        except ImportError as error:
            return python, f"not installed ({error})", problems
        for game in games:
            try:
                cule.roms.get_rom_path(game)
            except Exception as error:
                problems.append(f"game {game!r}: {error}")
        return python, version, problems

    pin = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    task = ray.remote(num_cpus=0, max_retries=0)(examine)
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in _playing_nodes()}
    answers = {
        node_id: task.options(scheduling_strategy=pin(node_id, soft=False)).remote(games, files)
        for node_id in nodes
    }
    reports = []
    for node_id, answer in answers.items():
        name = f"{nodes[node_id]} ({node_id[:8]})"
        try:
            python, version, problems = ray.get(answer, timeout=ANSWER_S)
        except ray.exceptions.RayError as error:
            if node_id not in {node["NodeID"] for node in _playing_nodes()}:
                continue  # it has left the cluster since it was listed
            reason = str(error).strip().partition("\n")[0]
            raise ClusterError(f"node {name} does not answer: {reason}") from None
        reports.append(NodeReport(name, python, version, problems))
    check_reports(reports)


def _playing_nodes() -> list[dict[str, Any]]:
    """Nodes of the cluster that are alive and have CPUs."""
    return [n for n in import_ray().nodes() if n["Alive"] and n["Resources"].get("CPU")]


def check_reports(reports: Sequence[NodeReport]) -> None:
    """Raise a `ClusterError` with everything that nodes lack."""
    python = platform.python_version()
    wrong = []
    for node in reports:
        if node.python.split(".")[:2] != python.split(".")[:2]:
            wrong.append(f"node {node.name} has Python {node.python}; it must be {python}")
        if node.cule != __version__:
            wrong.append(f"node {node.name}: cule is {node.cule}; it must be {__version__}")
        wrong += [f"node {node.name}: {problem}" for problem in node.problems]
    if wrong:
        raise ClusterError("; ".join(wrong))


def check_resources(needed: Sequence[Mapping[str, float]], what: str) -> None:
    """Require that the free resources of the cluster suffice.

    Args:
        needed: Resources of each part, such as ``{"CPU": 1, "memory": 1e9}``; each part runs on
            one node.
        what: The parts in words, for the message.

    Raises:
        ClusterError: They do not.
    """
    ray = import_ray()
    nodes = [dict(free) for free in ray._private.state.available_resources_per_node().values()]
    total = {name: sum(node.get(name, 0.0) for node in nodes) for name in _names(needed)}
    for part in sorted(needed, key=lambda part: sorted(part.items()), reverse=True):
        fits = [n for n in nodes if all(n.get(k, 0.0) >= v - 1e-6 for k, v in part.items())]
        if not fits:
            sums = {name: sum(p.get(name, 0.0) for p in needed) for name in _names(needed)}
            raise ClusterError(
                f"{what} need {_words(sums)}, and each part fits on one node; the {len(nodes)} "
                f"nodes have {_words(total)} free: use fewer or smaller parts, or add nodes"
            )
        node = max(fits, key=lambda n: n["CPU"])
        for name, amount in part.items():
            node[name] -= amount


def _names(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({name for part in parts for name in part})


def _words(resources: Mapping[str, float]) -> str:
    return ", ".join(
        format_bytes(int(amount)) + " of memory" if name == "memory" else f"{amount:g} {name}"
        for name, amount in resources.items()
    )
