"""Runs one part of the GPU suite: its steps within the limit, a record, a log and the archive.

The record ``DIR/<part>.json`` is written when the part begins, every few seconds while it runs, and
after each step, so that nothing is lost whenever the process ends. ``DIR/results.tar.gz`` is packed
at the same times.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import tarfile
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from benchmarks.gpu_suite.device import ROOT, commit, torch_version
from benchmarks.gpu_suite.parts import Part, Setting, Step

ARCHIVE = "results.tar.gz"

#: Files that the archive leaves out: checkpoints and weights of networks.
LARGE = (".pt", ".safetensors")

#: Seconds between SIGTERM and SIGKILL for a step at its limit. They are part of the limit.
GRACE_S = 10.0

#: Seconds between two writes of the record while a step runs.
SAVE_EVERY_S = 15.0


class StopSignal(BaseException):
    """A signal to end the suite."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        self.number = number

    @classmethod
    def raise_it(cls, number: int, _: FrameType | None) -> NoReturn:
        """Raise it as the handler of a signal, the first time."""
        for other in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(other, signal.SIG_IGN)
        raise cls(number)


def run_part(part: Part, setting: Setting, limit_s: float) -> str:
    """Run a part.

    Returns:
        "ok"; "failed": a step failed; "stopped": a step was stopped at its limit.

    Raises:
        StopSignal: A signal arrived; the record says "stopped".
    """
    return _Run(part, setting, limit_s).run()


class _Run:
    def __init__(self, part: Part, setting: Setting, limit_s: float) -> None:
        self.part, self.setting, self.limit_s = part, setting, limit_s
        self.began = time.monotonic()
        self.commands: list[dict[str, Any]] = []
        self.record: dict[str, Any] = {
            "part": part.name,
            "status": "running",
            "seconds": 0.0,
            "limit_s": limit_s,
            "dry_run": setting.is_dry,
            "commit": commit(),
            "device": asdict(setting.device),
            "torch": torch_version(),
            "commands": self.commands,
            "measured": {},
        }

    def run(self) -> str:
        self.save()
        status = "failed"
        try:
            with (self.setting.out / f"{self.part.name}.log").open("w") as log:
                status = self.run_steps(log)
        except StopSignal:
            status = "stopped"
            raise
        finally:
            self.record["status"] = status
            self.save()
            print(f"{self.part.name}: {status}, {self.record['seconds']:.0f} s", flush=True)
        return status

    def run_steps(self, log: IO[str]) -> str:
        steps = self.part.steps(self.setting)
        while steps:
            share = steps[0].share / sum(step.share for step in steps)
            step = steps.pop(0)
            limit_s = share * (self.began + self.limit_s - GRACE_S - time.monotonic())
            if limit_s <= 0:
                self.commands.append({"name": step.name, "status": "stopped", "seconds": 0.0})
            elif self.run_step(step, limit_s, log) != "ok" and step.is_required:
                break
        states = {command["status"] for command in self.commands}
        return next(state for state in ("failed", "stopped", "ok") if state in states)

    def run_step(self, step: Step, limit_s: float, log: IO[str]) -> str:
        """Run a command, and record how it ends."""
        minutes = f"{0.8 * limit_s / 60:.3f}"
        words = [word.replace("{minutes}", minutes) for word in step.words]
        began = time.monotonic()
        entry: dict[str, Any] = {
            "name": step.name,
            "command": shlex.join(words),
            "status": "running",
            "limit_s": round(limit_s, 1),
        }
        self.commands.append(entry)
        self.save()
        print(f"\n$ {shlex.join(words)}", file=log, flush=True)
        environment = {**os.environ, **self.setting.environment(), **step.environment}
        status = "failed"
        try:
            exit_status, is_late = self.execute(words, environment, began + limit_s, log)
            entry["exit_status"] = exit_status
            # What ends well when it is asked to, at its limit, is ok: a training does.
            status = "ok" if exit_status == 0 else "stopped" if is_late else "failed"
        except OSError as error:  # no such program
            print(error, file=log, flush=True)
        except StopSignal:
            status = "stopped"
            raise
        finally:
            entry["status"] = status
            entry["seconds"] = round(time.monotonic() - began, 1)
            self.save()
            text = f"{self.part.name}: {step.name}: {status}, {entry['seconds']:.0f} s"
            print(text, flush=True)
        return status

    def execute(
        self, words: list[str], environment: dict[str, str], until: float, log: IO[str]
    ) -> tuple[int, bool]:
        """Exit status of a command, and whether it was stopped; nothing of it is left running."""
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            is_late = not self.wait(process, until)
            if is_late:
                _signal_group(process, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE_S)
        finally:
            _signal_group(process, signal.SIGKILL)
            exit_status = process.wait()
        return exit_status, is_late

    def wait(self, process: subprocess.Popen[bytes], until: float) -> bool:
        """Wait for a process until a time, and save at intervals; whether it has ended."""
        while (left := until - time.monotonic()) > 0:
            try:
                process.wait(min(left, SAVE_EVERY_S))
                return True
            except subprocess.TimeoutExpired:
                self.save()
        return False

    def save(self) -> None:
        """Write the record, and pack the archive."""
        out = self.setting.out
        self.record["seconds"] = round(time.monotonic() - self.began, 1)
        self.record["measured"] = self.part.measure(out)
        target = out / f"{self.part.name}.json"
        scratch = target.with_suffix(".tmp")
        scratch.write_text(json.dumps(self.record, indent=2) + "\n")
        os.replace(scratch, target)
        pack(out)


def pack(out: Path) -> None:
    """Pack the results of all parts so far into one archive, except `LARGE` files."""
    scratch = out / f"{ARCHIVE}.tmp"
    with tarfile.open(scratch, "w:gz") as archive:
        for path in sorted(out.rglob("*")):
            if not path.is_file() or path.suffix in (*LARGE, ".tmp") or path.name == ARCHIVE:
                continue
            # A step may change or remove the file meanwhile.
            with contextlib.suppress(FileNotFoundError):
                info, content = archive.gettarinfo(path), path.read_bytes()
                info.name, info.size = f"{out.name}/{path.relative_to(out)}", len(content)
                archive.addfile(info, io.BytesIO(content))
    os.replace(scratch, out / ARCHIVE)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
