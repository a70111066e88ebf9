"""Runs the lines of the GPU suite within a number of seconds; a line that fails ends no other.

The results folder gets three files, and nothing else: ``summary.json``, the output of all commands,
and an archive of both and of what the commands wrote. They are written when a line begins, every
few seconds, and after each stage, so that nothing is lost whenever the process ends.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from benchmarks.gpu_suite.device import ROOT, torch_version
from benchmarks.gpu_suite.lines import Line, Setting, Stage, Step

ARCHIVE, SUMMARY, LOG = "results.tar.gz", "summary.json", "suite.log"

#: The archive leaves out networks, what is installed, caches, and files above this size.
LARGE = (".pt", ".safetensors", ".tmp")
LEFT_OUT = ("site", "cache")
LARGEST_BYTES = 4 * 2**20

#: Seconds between SIGTERM and SIGKILL for a command at its limit. They are part of the limit.
GRACE_S = 3.0

#: Seconds in which a command imports torch and starts to use the device.
START_S = 8.0

#: Seconds kept for the last archive.
END_S = 3.0

#: Seconds between two writes of the results while commands run.
SAVE_EVERY_S = 15.0

#: Characters of its output that the summary keeps of a command that fails.
LAST_WORDS = 600


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


class Command:
    """A step while it runs, and its entry in the summary."""

    def __init__(self, step: Step, setting: Setting, limit_s: float) -> None:
        """Start it."""
        self.began = time.monotonic()
        self.until = self.began + limit_s
        measure_s = max(0.5 * limit_s, 0.95 * limit_s - START_S)
        texts = {"{seconds}": f"{measure_s:.1f}", "{minutes}": f"{measure_s / 60:.3f}"}
        words = [texts.get(word, word) for word in step.words]
        self.output = setting.work / f"{step.name}.log"
        self.entry: dict[str, Any] = {
            "name": step.name,
            "command": shlex.join(words).replace(f"{ROOT}/", "").replace(sys.executable, "python"),
            "status": "running",
            "limit_s": round(limit_s, 1),
        }
        self._is_late = False
        with self.output.open("wb") as log:
            environment = {**os.environ, **setting.environment(), **step.environment}
            try:
                self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                    words,
                    cwd=setting.work,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:  # no such program
                log.write(f"{error}\n".encode())
                self._process = None
                self._end("failed")

    def poll(self) -> bool:
        """Whether it has ended; it is stopped at its limit."""
        if self._process is None:
            return True
        now = time.monotonic()
        if self._process.poll() is None and now < self.until:
            return False
        if self._process.poll() is None and not self._is_late:
            self._is_late = True
            self.until = now + GRACE_S
            self._signal(signal.SIGTERM)
            return False
        self._signal(signal.SIGKILL)
        status = self._process.wait()
        self.entry["exit_status"] = status
        # What ends well when it is asked to, at its limit, is ok: a training does.
        self._end("ok" if status == 0 else "stopped" if self._is_late else "failed")
        self._process = None
        return True

    def stop(self) -> None:
        """End it at once; nothing of it is left running."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self.entry["exit_status"] = self._process.wait()
            self._process = None
            self._end("stopped")

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process and all that it has started."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _end(self, status: str) -> None:
        self.entry["status"] = status
        self.entry["seconds"] = round(time.monotonic() - self.began, 1)
        if status != "ok":
            text = self.output.read_text(errors="replace").strip()
            self.entry["last_words"] = text[-LAST_WORDS:]


class Suite:
    """A run of lines."""

    def __init__(
        self, out: Path, setting: Setting, lines: list[Line], seconds: float, facts: dict[str, Any]
    ) -> None:
        """Begin the summary; `facts` are the first fields."""
        self.out, self.setting, self.lines, self.budget_s = out, setting, lines, seconds
        self.began = self._saved = time.monotonic()
        self.entries: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {
            **facts,
            "status": "running",
            "seconds": 0.0,
            "budget_s": seconds,
            "dry_run": setting.is_dry,
            "device": asdict(setting.device),
            "torch": torch_version(),
            "lines": self.entries,
        }

    def run(self) -> str:
        """Run all lines.

        Returns:
            "ok"; "failed": a command failed or was stopped at its limit.

        Raises:
            StopSignal: A signal arrived; the summary says "stopped".
        """
        left = list(self.lines)
        self.summary["status"] = status = "stopped"
        try:
            self.summary["status"] = "running"
            while left:
                share = left[0].seconds / sum(line.seconds for line in left)
                self._run_line(left.pop(0), share * (self._time_left() - END_S))
            states = {entry["status"] for entry in self.entries}
            status = "ok" if states == {"ok"} else "failed"
        finally:
            self.summary["status"] = status
            self._save()
        return status

    def _time_left(self) -> float:
        return self.began + self.budget_s - time.monotonic()

    def _run_line(self, line: Line, limit_s: float) -> None:
        """Run the stages of a line, and record how each command ends."""
        began = time.monotonic()
        commands: list[dict[str, Any]] = []
        entry = {"name": line.name, "what": line.summary, "status": "running", "seconds": 0.0,
                 "limit_s": round(limit_s, 1), "commands": commands}  # fmt: skip
        self.entries.append(entry)
        stages = line.stages(self.setting)
        try:
            while stages:
                share = stages[0].share / sum(stage.share for stage in stages)
                left_s = began + limit_s - time.monotonic()
                stage = stages.pop(0)
                self._run_stage(stage, max(share * left_s, stage.limit_s), commands)
        finally:
            states = {command["status"] for command in commands}
            order = ("running", "failed", "stopped", "ok")
            entry["status"] = next((state for state in order if state in states), "stopped")
            entry["seconds"] = round(time.monotonic() - began, 1)
            self._save()
            print(f"{line.name}: {entry['status']}, {entry['seconds']:.0f} s", flush=True)

    def _run_stage(self, stage: Stage, limit_s: float, entries: list[dict[str, Any]]) -> None:
        """Run commands side by side until the last has ended."""
        if limit_s <= 2 * GRACE_S:
            late = {"status": "stopped", "seconds": 0.0, "last_words": "no time was left"}
            entries += [{"name": step.name, **late} for step in stage.steps]
            return
        running: list[Command] = []
        try:
            for step in stage.steps:
                # The grace is part of the limit.
                limit = min(limit_s, step.limit_s) - GRACE_S
                command = Command(step, self.setting, limit)
                running.append(command)
                entries.append(command.entry)
            self._save()
            waiting = list(running)
            while waiting:
                waiting = [command for command in waiting if not command.poll()]
                if time.monotonic() > self._saved + SAVE_EVERY_S:
                    self._save()
                time.sleep(0.05)
        finally:
            for command in running:
                command.stop()
                self._log(command)

    def _log(self, command: Command) -> None:
        """Add the output of a command to the log."""
        text = command.output.read_text(errors="replace")
        command.output.unlink()
        with (self.out / LOG).open("a") as log:
            log.write(f"\n$ {command.entry['command']}\n{text}")

    def _save(self) -> None:
        """Write the summary, and pack the archive."""
        self.summary["seconds"] = round(time.monotonic() - self.began, 1)
        scratch = self.out / f"{SUMMARY}.tmp"
        scratch.write_text(json.dumps(self.summary, indent=1) + "\n")
        os.replace(scratch, self.out / SUMMARY)
        pack(self.out, self.setting.work)
        self._saved = time.monotonic()


def pack(out: Path, work: Path) -> None:
    """Pack the summary, the log and what commands wrote, but for what is large, see `LARGE`."""
    scratch = out / f"{ARCHIVE}.tmp"
    found = [(out / name, name) for name in (SUMMARY, LOG)]
    for folder, names, files in os.walk(work):
        names[:] = sorted(set(names) - set(LEFT_OUT))
        paths = [Path(folder) / name for name in sorted(files)]
        found += [(path, str(path.relative_to(work))) for path in paths]
    with tarfile.open(scratch, "w:gz", compresslevel=3) as archive:
        for path, name in found:
            # A command may change or remove the file meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if path.suffix in LARGE or path.stat().st_size > LARGEST_BYTES:
                    continue
                info, content = archive.gettarinfo(path), path.read_bytes()
                info.name, info.size = f"results/{name}", len(content)
                archive.addfile(info, io.BytesIO(content))
    os.replace(scratch, out / ARCHIVE)
