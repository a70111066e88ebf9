"""The progress of commands on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TextIO

#: Seconds between two updates of a bar.
INTERVAL_S = 0.5


class ProgressBar:
    """Shows steps, frames per second, the last mean return, and the remaining time."""

    def __init__(self, label: str, total_steps: int, stream: TextIO | None = None) -> None:
        """Write to a stream, by default to standard error; nothing before the first `update`."""
        self.label = label
        self.total_steps = total_steps
        self.stream = sys.stderr if stream is None else stream
        self.is_terminal = self.stream.isatty()
        self._width = 0

    def update(
        self,
        steps: int,
        frames_per_s: float,
        episode_return: float | None,
        seconds_left: float,
    ) -> None:
        """Show the state; NaN: no episode has ended yet; None: no return is shown."""
        share = min(steps / max(self.total_steps, 1), 1.0)
        filled = round(20 * share)
        if episode_return is None:
            shown = ""
        elif episode_return != episode_return:
            shown = " | return no episode yet"
        else:
            shown = f" | return {episode_return:.2f}"
        line = (
            f"{self.label} [{'#' * filled}{'.' * (20 - filled)}] {share:6.1%} "
            f"{short_number(steps)}/{short_number(self.total_steps)} steps | "
            f"{short_number(frames_per_s)} FPS{shown} | ETA {short_time(seconds_left)}"
        )
        if self.is_terminal:
            self.stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def rounds(self, steps_per_round: int, frameskip: int) -> Iterator[int]:
        """Count the rounds that all steps need, and show on a terminal how far they are."""
        begun = shown = time.monotonic()
        for number in range(-(-self.total_steps // steps_per_round)):
            yield number
            now = time.monotonic()
            if self.is_terminal and now - shown >= INTERVAL_S:
                shown, steps = now, (number + 1) * steps_per_round
                speed = steps / (now - begun)
                left = max(self.total_steps - steps, 0) / speed
                self.update(steps, speed * frameskip, None, left)
        self.close()

    def close(self) -> None:
        """End the line."""
        if self.is_terminal and self._width:
            self.stream.write("\n")
            self.stream.flush()


def show_episodes(ended: int, total: int) -> None:
    """Show on a terminal how many episodes have ended; nothing once all have."""
    if sys.stderr.isatty():
        line = f"{ended} of {total} episodes"
        sys.stderr.write(f"\r{line if ended < total else ' ' * len(line) + chr(13)}")
        sys.stderr.flush()


def short_number(value: float) -> str:
    """Format 1234567 as 1.23M, and NaN as ?."""
    if value != value:
        return "?"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.0f}"


def short_time(seconds: float) -> str:
    """Format 3725 as 1:02:05."""
    if seconds != seconds or seconds == float("inf"):
        return "?"
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
