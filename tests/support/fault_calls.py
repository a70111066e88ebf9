"""What writes files, interrupted at each of its system calls.

The process is killed there, or in the middle of a write; or the call fails, as on a full disk, in a
read-only folder, or with an input/output error.

    LD_PRELOAD=fault_calls.so python -m tests.support.fault_calls OPERATION FOLDER STRIDE

runs an operation of `OPERATIONS` for each fault at every STRIDE-th call, in forks of one process,
and looks at what is left after each.
"""

from __future__ import annotations

import ctypes
import dataclasses
import errno
import io
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

#: Before a call; in the middle of a write; or a failure that the call reports.
FAULTS = (-1, -2, errno.ENOSPC, errno.EIO, errno.EROFS)

KILLED = -9  # exit status


@dataclasses.dataclass(frozen=True)
class Operation:
    """Something that writes files."""

    prepare: Callable[[Path], None]
    run: Callable[[Path], None]
    #: Asserts that what is there is whole; returns whether it is the old state, the new one, or
    #: one between them.
    look: Callable[[Path], str]


def _checkpoint() -> Operation:
    from cule.agents.run.checkpoint import read_checkpoint, write_checkpoint

    def write(folder: Path, steps: int) -> None:
        content: Any = {"algorithm": "ppo", "version": "0", "config": {}, "obs_shape": [4]}
        content |= {"num_actions": 6, "updates": 1, "steps": steps}
        content |= {"network": {"w": torch.full((5_000,), steps)}}
        write_checkpoint(folder / "checkpoints" / "latest.pt", content)

    def look(folder: Path) -> str:
        content: Any = read_checkpoint(folder / "checkpoints" / "latest.pt")
        assert bool((content["network"]["w"] == content["steps"]).all())
        return {1: "old", 2: "new"}[content["steps"]]

    return Operation(lambda folder: write(folder, 1), lambda folder: write(folder, 2), look)


def _run() -> Operation:
    """A checkpoint of a run, with what it removes and renames, and its tables."""
    from cule.agents import RunOptions, start_run
    from cule.agents.run.checkpoint import read_newest
    from tests.support.catch import Catch
    from tests.support.learners import small_learner

    def start(folder: Path, steps: int) -> Any:
        learner = small_learner("a2c", total_steps=steps)
        options = RunOptions(out=str(folder), eval_episodes=0, progress_bar=False, resume=True)
        return start_run(type(learner), learner.config, options, env=Catch(16))

    def look(folder: Path) -> str:
        content = read_newest(folder)
        assert content is not None
        steps = content["steps"]
        run = start(folder, 1920)  # from whatever is there, to the same end
        assert run.agent.steps == steps
        assert run.run()
        assert {path.name for path in (folder / "checkpoints").iterdir()} == {"latest.pt"}
        rows = (folder / "progress.csv").read_text().splitlines()
        assert all(row.count(",") == rows[0].count(",") for row in rows)
        return {640: "old", 1280: "new"}[steps]

    return Operation(
        lambda folder: start(folder, 640).run(), lambda folder: start(folder, 1280).run(), look
    )


def _replay() -> Operation:
    from cule.replay import ReplayOptions, UniformReplay

    def replay(value: int) -> Any:
        options = ReplayOptions(capacity=600, num_envs=2, obs_shape=(8,), stack=1, n_step=1)
        made = UniformReplay(options)
        for tensor in made._tensors().values():
            tensor.fill_(value)
        return made

    def look(folder: Path) -> str:
        target = replay(9)
        target.load(folder / "replay.pt")
        values = {int(v) for tensor in target._tensors().values() for v in torch.unique(tensor)}
        return {(0,): "old", (1,): "new"}[tuple(values)]

    return Operation(
        lambda folder: replay(0).save(folder / "replay.pt"),
        lambda folder: replay(1).save(folder / "replay.pt"),
        look,
    )


def _weights() -> Operation:
    from cule.agents.run.weights import read_weights
    from tests.support.learners import small_learner

    agent = small_learner("a2c")

    def write(folder: Path, steps: int) -> None:
        agent.steps = steps
        agent.save_weights(folder / "a.safetensors")

    def look(folder: Path) -> str:
        return {1: "old", 2: "new"}[read_weights(folder / "a.safetensors")["steps"]]

    return Operation(lambda folder: write(folder, 1), lambda folder: write(folder, 2), look)


def _bench_record() -> Operation:
    from cule.bench.records import Cell, Records

    cell = Cell("emulation", 4, "pong")

    def records(folder: Path) -> Any:
        return Records(folder, {"seconds": 1}, resume=True)

    def write(folder: Path, speed: float) -> None:
        records(folder).write(cell, {"frames_per_s": [speed] * 2_000})

    def look(folder: Path) -> str:
        record = records(folder).find(cell)
        assert record is not None
        (speed,) = set(record["frames_per_s"])
        return {1.0: "old", 2.0: "new"}[speed]

    return Operation(lambda folder: write(folder, 1.0), lambda folder: write(folder, 2.0), look)


def _rom_import() -> Operation:
    from cule.games.roms import find_rom, import_roms, md5_of
    from cule.games.schema import load_roms

    games = ("pong", "breakout")
    digests = {name: load_roms()[name].md5 for name in games}
    roms = {name: find_rom(name, {digests[name]}).data for name in games}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in roms.items():
            file.writestr(f"{name}.bin", data)

    def prepare(folder: Path) -> None:
        (folder / "roms.zip").write_bytes(archive.getvalue())

    def look(folder: Path) -> str:
        there = {path.stem: path for path in (folder / "roms").glob("*.bin")}
        for name, path in there.items():
            assert md5_of(path.read_bytes()) == digests[name]
        import_roms(folder / "roms.zip", folder / "roms")  # completes what is missing
        assert {path.stem for path in (folder / "roms").glob("*.bin")} == set(games)
        return {0: "old", 1: "between", 2: "new"}[len(there)]

    return Operation(
        prepare, lambda folder: void(import_roms(folder / "roms.zip", folder / "roms")), look
    )


def void(_: object) -> None:
    """Drop a result."""


def _kernel_cache() -> Operation:
    from cule.envs import kernel_cache

    made_for = {"game": "pong"}

    def within(folder: Path, write: bytes | None) -> bytes | None:
        os.environ["CULE_CACHE"] = str(folder)
        if write is not None:
            kernel_cache.store("pong", made_for, write)
        return kernel_cache.load("pong", made_for)

    def look(folder: Path) -> str:
        return {b"a" * 9_000: "old", b"b" * 9_000: "new"}[within(folder, None) or b""]

    return Operation(
        lambda folder: void(within(folder, b"a" * 9_000)),
        lambda folder: void(within(folder, b"b" * 9_000)),
        look,
    )


def _dataset() -> Operation:
    from cule.datasets.format import Log, read_log, write_log

    def write(folder: Path, steps: int) -> None:
        write_log(folder / "a.cule", Log("0", "pong", "", {}, ("NOOP",) * 500, steps, ()))

    def look(folder: Path) -> str:
        return {1: "old", 2: "new"}[read_log(folder / "a.cule").digest_every]

    return Operation(lambda folder: write(folder, 1), lambda folder: write(folder, 2), look)


def _archive() -> Operation:
    import cule
    from cule.search import Archive

    env = cule.AtariVectorEnv("pong", 1, obs_type="ram", num_threads=1, noop_max=0)
    env.reset(seed=0)

    def write(folder: Path, value: int) -> None:
        archive = Archive(env)
        archive.add(np.full((1, 2_000), value, np.uint8), scores=0, steps=0)
        archive.save(folder / "a.npz")

    def look(folder: Path) -> str:
        (value,) = set(Archive.load(folder / "a.npz", env).cells[0])
        return {1: "old", 2: "new"}[value]

    return Operation(lambda folder: write(folder, 1), lambda folder: write(folder, 2), look)


OPERATIONS = {
    "checkpoint": _checkpoint,
    "run": _run,
    "replay": _replay,
    "weights": _weights,
    "bench-record": _bench_record,
    "rom-import": _rom_import,
    "kernel-cache": _kernel_cache,
    "dataset": _dataset,
    "archive": _archive,
}


def forked(action: Callable[[], None]) -> int:
    """The exit status of a copy of this process that does something; -9: it was killed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            action()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Interrupted:
    """An operation in a folder, whose calls that change files can be made to fail."""

    def __init__(self, name: str, folder: Path) -> None:
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._operation = OPERATIONS[name]()
        self._folder, self._prepared = folder, folder.with_suffix(".prepared")
        self._prepared.mkdir()
        assert forked(lambda: self._operation.prepare(self._prepared)) == 0

    def num_calls(self) -> int:
        """How many there are, without a fault."""
        note = self._folder.with_suffix(".calls")

        def count() -> None:
            self._library.cule_fault_at(ctypes.c_long(0), 0)
            self._operation.run(self._folder)
            note.write_text(str(self._library.cule_fault_calls()))

        self._prepare()
        assert forked(count) == 0
        self._look(lambda left: left == "new")
        return int(note.read_text()) - 1  # without opening the note

    def interrupt(self, call: int, fault: int) -> None:
        """Run with a fault at one call, and look at what is left."""

        def run() -> None:
            self._library.cule_fault_at(ctypes.c_long(call), fault)
            try:
                self._operation.run(self._folder)
            except OSError:  # StorageError, or that of the kernel cache
                os._exit(2)

        self._prepare()
        status = forked(run)
        assert status == KILLED if fault < 0 else status in (0, 2), (call, fault, status)
        # An operation that says nothing has done everything.
        self._look(lambda left: status != 0 or left == "new")

    def _prepare(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._prepared, self._folder)

    def _look(self, is_right: Callable[[str], bool]) -> None:
        def look() -> None:
            parts = list(self._folder.rglob("*.part"))
            for part in parts:
                os.utime(part, (0, 0))  # not one that another process is about to lock
            left = self._operation.look(self._folder)
            assert is_right(left), left
            print(left)
            if parts:
                self._operation.run(self._folder)
                assert not list(self._folder.rglob("*.part"))

        assert forked(look) == 0


def main() -> None:
    """Interrupt an operation at some of its calls, or all."""
    torch.set_num_threads(1)
    name, folder, stride = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    interrupted = Interrupted(name, folder)
    num_calls = interrupted.num_calls()
    for call in range(1, num_calls + 1, stride):
        for fault in FAULTS:
            interrupted.interrupt(call, fault)
    print(f"calls {num_calls}")


if __name__ == "__main__":
    main()
