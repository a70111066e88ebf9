"""Workers, which execute the runs: processes of this machine, or tasks of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from cule.agents.cluster.connection import check_nodes, connect, disconnect, import_ray
from cule.errors import ClusterError

#: Seconds that a run may take to save and end, when it is asked to stop.
STOP_S = 60.0

#: Last bytes of the output of a run, for messages.
TAIL_BYTES = 4000


#: Runs a command that gets SIGKILL when its parent dies (PR_SET_PDEATHSIG of prctl(2)), so that no
#: run continues without its sweep. Its first argument is the parent, which may be dead already.
_END_WITH_PARENT = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); "
    "os.getppid() == int(sys.argv[1]) and os.execv(sys.argv[2], sys.argv[2:])"
)


class Outcome(NamedTuple):
    """How the process of a run ended."""

    status: int | None
    """Exit status, negative for a signal; None: the machine or worker was lost."""

    message: str
    """The last line of its output, or why it was lost."""


class Workers(Protocol):
    """Executes runs."""

    @property
    def num_slots(self) -> int:
        """Runs at a time."""

    def start(self, words: Sequence[str], log: Path) -> Any:
        """Start the process of a run; return a handle."""

    def poll(self, handle: Any) -> Outcome | None:
        """How it ended; None while it runs."""

    def stop(self, handles: Sequence[Any]) -> None:
        """Ask processes to save and end, and wait for them."""

    def close(self) -> None:
        """Release everything."""


class LocalWorkers:
    """Processes of this machine."""

    def __init__(self, num_slots: int, num_cpus: int) -> None:
        """Use `num_cpus` threads of each library a run."""
        self.num_slots, self._num_cpus = num_slots, num_cpus

    def start(self, words: Sequence[str], log: Path) -> Any:
        """Start a run, see `Workers.start`."""
        return launch(words, log, self._num_cpus), log

    def poll(self, handle: Any) -> Outcome | None:
        """Return how a run ended, see `Workers.poll`."""
        process, log = handle
        status = process.poll()
        return None if status is None else Outcome(status, last_line(log))

    def stop(self, handles: Sequence[Any]) -> None:
        """Stop the runs, see `Workers.stop`."""
        for process, _ in handles:
            end(process, wait=False)
        for process, _ in handles:
            end(process)

    def close(self) -> None:
        """Nothing is held."""


class RayWorkers:
    """Tasks of a Ray cluster, on nodes that share the folder of the sweep."""

    def __init__(
        self,
        address: str,
        folder: Path | None,
        games: Sequence[str],
        *,
        max_slots: int,
        num_cpus: int,
        num_gpus: float,
    ) -> None:
        """Connect and check the nodes.

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
        self._ray = import_ray()
        self._must_disconnect = connect(address)
        self._resources = {"CPU": num_cpus} | ({"GPU": num_gpus} if num_gpus else {})
        self._max_slots, self._num_cpus = max_slots, num_cpus
        try:
            with _token(folder) as tokens:
                check_nodes(games, tokens)
                if not self.num_slots:
                    raise ClusterError(
                        f"cluster is {address!r}, and no node has {num_cpus} CPUs and "
                        f"{num_gpus:g} GPUs"
                    )
        except BaseException:
            self.close()
            raise
        self._task = self._ray.remote(run_in_task).options(
            num_cpus=num_cpus, num_gpus=num_gpus, max_retries=0, scheduling_strategy="SPREAD"
        )

    @property
    def num_slots(self) -> int:
        """Runs that the nodes of now have room for."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        room = sum(
            int(min(node.get(name, 0.0) / each for name, each in self._resources.items()))
            for node in nodes
        )
        return min(room, self._max_slots or room)

    def start(self, words: Sequence[str], log: Path) -> Any:
        """Start a run, see `Workers.start`."""
        return self._task.remote(list(words[1:]), str(log.absolute()), self._num_cpus)

    def poll(self, handle: Any) -> Outcome | None:
        """Return how a run ended, see `Workers.poll`."""
        ready, _ = self._ray.wait([handle], timeout=0)
        if not ready:
            return None
        try:
            return Outcome(*self._ray.get(handle))
        except self._ray.exceptions.RayError as error:
            return Outcome(None, str(error).strip().partition("\n")[0])

    def stop(self, handles: Sequence[Any]) -> None:
        """Stop the runs, see `Workers.stop`."""
        for handle in handles:
            self._ray.cancel(handle)
        if handles:
            self._ray.wait(list(handles), num_returns=len(handles), timeout=STOP_S)

    def close(self) -> None:
        """Disconnect, if this connected."""
        if self._must_disconnect:
            disconnect()


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
    except BaseException:
        token.unlink()
        if is_new:
            folder.rmdir()
        raise
    token.unlink()


def run_in_task(words: Sequence[str], log: str, num_cpus: int) -> tuple[int, str]:
    """Run a process with the Python of a node; return its exit status and last line."""
    process = launch([sys.executable, *words], Path(log), num_cpus)
    try:
        # Short waits, so that a cancelled task is interrupted.
        while process.poll() is None:
            time.sleep(0.5)
    finally:
        end(process)
    return process.returncode, last_line(Path(log))


def launch(words: Sequence[str], log: Path, num_cpus: int) -> subprocess.Popen[bytes]:
    """Start a process that ends with this one; its output is appended to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    threads = {name: str(num_cpus) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    env: Mapping[str, str] = {**os.environ, **threads}
    first: list[str] = []
    if sys.platform.startswith("linux"):
        first = [sys.executable, "-c", _END_WITH_PARENT, str(os.getpid())]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*first, *words],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes], *, wait: bool = True) -> None:
    """Ask a process to save and end; with `wait` until it has, at most `STOP_S`."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    if wait:
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def last_line(log: Path) -> str:
    """The last line of a file."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - TAIL_BYTES, 0))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
