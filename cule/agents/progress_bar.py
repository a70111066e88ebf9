"""One line on the terminal that says how far training is; plain lines where there is none."""

from __future__ import annotations

import sys
from typing import TextIO


class ProgressBar:
    """Shows steps, frames a second, the last mean return, and the time that is left."""

    def __init__(self, label: str, total_steps: int, stream: TextIO | None = None) -> None:
        """Nothing is shown before the first `update`.

        Args:
            label: What is trained.
            total_steps: Steps at the end.
            stream: Where to; standard error by default.
        """
        self.label = label
        self.total_steps = total_steps
        self.stream = sys.stderr if stream is None else stream
        self.is_terminal = self.stream.isatty()
        self._width = 0

    def update(
        self, steps: int, frames_per_s: float, episode_return: float, seconds_left: float
    ) -> None:
        """Show the state.

        Args:
            steps: Done so far.
            frames_per_s: Emulated frames a second.
            episode_return: Mean return of the last episodes; NaN: none has ended yet.
            seconds_left: Estimate.
        """
        share = min(steps / max(self.total_steps, 1), 1.0)
        filled = round(20 * share)
        shown = "no episode yet" if episode_return != episode_return else f"{episode_return:.2f}"
        line = (
            f"{self.label} [{'#' * filled}{'.' * (20 - filled)}] {share:6.1%} "
            f"{short_number(steps)}/{short_number(self.total_steps)} steps | "
            f"{short_number(frames_per_s)} FPS | return {shown} | ETA {short_time(seconds_left)}"
        )
        if self.is_terminal:
            self.stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def close(self) -> None:
        """End the line."""
        if self.is_terminal and self._width:
            self.stream.write("\n")
            self.stream.flush()


def short_number(value: float) -> str:
    """1234567 as 1.23M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.0f}"


def short_time(seconds: float) -> str:
    """3725 as 1:02:05."""
    if seconds != seconds or seconds == float("inf"):
        return "?"
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
