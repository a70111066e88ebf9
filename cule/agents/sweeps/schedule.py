"""Starts the runs of a sweep, restarts lost ones from their checkpoints, and shows a live table."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from pathlib import Path
from typing import TextIO, TypeAlias

from cule.agents.sweeps.runs import Outcome, Plan, RunState, SweepRun
from cule.progress import short_number, short_time

#: Seconds between two looks at the runs, and between two lines where there is no terminal.
LOOK_S, LINE_S = 1.0, 60.0

#: Exit statuses with which a run says itself what is wrong; another try would end so as well.
REFUSED = (1, 2)

#: Runs a process with an output file to its end, or until the event is set.
Execute: TypeAlias = Callable[[Sequence[str], Path, threading.Event], Outcome]


class Schedule:
    """The runs of a sweep, from waiting to complete or failed.

    Attributes:
        failed: Messages of the runs that have failed, by run.
        num_restarts: Restarts so far.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        execute: Execute,
        *,
        num_slots: Callable[[], int],
        max_restarts: int,
        stream: TextIO | None = None,
    ) -> None:
        """Find the runs that are not complete; at most `num_slots` are executed at a time."""
        self.plan, self.execute, self.num_slots = plan, execute, num_slots
        self.max_restarts = max_restarts
        self.runs = plan.runs(folder)
        self.waiting = deque(run for run in self.runs if not run.is_complete(plan))
        self.running: dict[SweepRun, Future[Outcome]] = {}
        self.failed: dict[SweepRun, str] = {}
        self.num_restarts = 0
        self._tries: dict[SweepRun, tuple[int, int]] = {}  # restarts without progress, steps
        self._table = LiveTable(sys.stderr if stream is None else stream)

    def run(self) -> bool:
        """Execute all runs, each in a thread; return whether all are complete."""
        stop = threading.Event()
        with ThreadPoolExecutor(max(len(self.waiting), 1)) as pool:
            try:
                while self.waiting or self.running:
                    while self.waiting and len(self.running) < self.num_slots():
                        run = self.waiting.popleft()
                        words = run.command(self.plan)
                        self.running[run] = pool.submit(self.execute, words, run.log, stop)
                    if self.running:
                        wait(self.running.values(), LOOK_S, FIRST_COMPLETED)
                    else:  # no node has room
                        stop.wait(LOOK_S)
                    for run, future in list(self.running.items()):
                        if future.done():
                            del self.running[run]
                            self._end(run, future.result())
                    self._table.show(self.lines())
            finally:
                stop.set()
                self._table.note(self.lines()[0])
        return not self.failed

    def _end(self, run: SweepRun, outcome: Outcome) -> None:
        """Note that a run is complete or has failed, or let it continue."""
        if run.is_complete(self.plan):
            return
        steps = run.state().steps
        tries, steps_before = self._tries.get(run, (0, -1))
        tries = 1 if steps > steps_before else tries + 1
        self._tries[run] = tries, steps
        how = "was lost" if outcome.status is None else f"ended with status {outcome.status}"
        if outcome.status in REFUSED or tries > self.max_restarts:
            self.failed[run] = f"{how} at {steps} steps: {outcome.message}"
            self._table.note(f"{run.name} failed; it {self.failed[run]}; see {run.log}")
            return
        self.num_restarts += 1
        self._table.note(
            f"{run.name} {how} at {steps} steps: {outcome.message}; it continues from its last "
            "checkpoint"
        )
        self.waiting.appendleft(run)

    def lines(self) -> list[str]:
        """The table: a summary, and a row for each running run."""
        states = {run: run.state() for run in self.running}
        done = len(self.runs) - len(self.running) - len(self.waiting) - len(self.failed)
        head = (
            f"{done} of {len(self.runs)} runs complete, {len(self.running)} running, "
            f"{len(self.waiting)} waiting, {len(self.failed)} failed, {self.num_restarts} "
            f"restarts; {expected_end(self._seconds_left(states))}"
        )
        return [head, *(row(run, state, self.plan) for run, state in states.items())]

    def _seconds_left(self, states: dict[SweepRun, RunState]) -> float:
        """Remaining steps of all runs over the present speed of those that run."""
        left = sum(max(self.plan.total_steps - state.steps, 0) for state in states.values())
        left += sum(self.plan.total_steps - run.state().steps for run in self.waiting)
        speeds = [s.steps_per_s for s in states.values() if math.isfinite(s.steps_per_s)]
        if not speeds:
            return math.nan if left else 0.0
        return left / (sum(speeds) / len(speeds) * len(states))


def row(run: SweepRun, state: RunState, plan: Plan) -> str:
    """Progress of a running run."""
    total = plan.total_steps
    left = (total - state.steps) / state.steps_per_s if state.steps_per_s > 0 else math.nan
    shown = "-" if math.isnan(state.episode_return) else f"{state.episode_return:.1f}"
    speed = state.steps_per_s * plan.frameskip
    frames_per_s = "-" if math.isnan(speed) else short_number(speed)
    return (
        f"  {run.name:<28} {min(state.steps / max(total, 1), 1):6.1%} "
        f"{short_number(state.steps):>6} steps {frames_per_s:>6} FPS  return {shown:>9}  "
        f"ETA {short_time(left)}"
    )


def expected_end(seconds: float) -> str:
    """When the sweep ends, in words."""
    if math.isnan(seconds):
        return "expected end unknown yet"
    moment = datetime.now() + timedelta(seconds=seconds)
    return f"expected end {moment:%Y-%m-%d %H:%M}, in {short_time(seconds)}"


class LiveTable:
    """Lines that replace each other on a terminal; elsewhere the first one, at intervals."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream."""
        self._stream, self._is_terminal = stream, stream.isatty()
        self._height, self._last = 0, -math.inf

    def show(self, lines: Sequence[str]) -> None:
        """Replace the lines shown last."""
        if self._is_terminal:
            self.note(*(line[:120] for line in lines))
            self._height = len(lines)
        elif time.monotonic() - self._last >= LINE_S:
            self._last = time.monotonic()
            self.note(lines[0])

    def note(self, *lines: str) -> None:
        """Replace the lines shown last by lines that stay."""
        cleared = f"\x1b[{self._height}F\x1b[J" if self._height else ""
        self._height = 0
        self._stream.write(cleared + "".join(line + "\n" for line in lines))
        self._stream.flush()
