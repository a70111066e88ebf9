"""Records commands in a terminal as a moving picture: ``python -m benchmarks.terminal_picture``.

``docs/images/terminal.svg`` has the text that the commands print when they print it, and between
them the prompt. It plays once; viewers that do not animate show the end.
"""

from __future__ import annotations

import argparse
import os
import pty
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from benchmarks.readme_pictures import IMAGES

COMMANDS = (
    "cule zoo show zoo:pong-objects",
    "cule eval zoo:pong-objects --episodes 20",
    "cule train ppo-objects --game pong --total-steps 3e5 --out pong",
)
PROMPT = "$ "

#: Seconds in which a command is typed, and from one command to the next.
TYPING_S, PAUSE_S = 1.0, 1.5

#: Characters of a line, size of the font and height of a line in pixels; lines are cut.
COLUMNS, FONT, LINE = 118, 13, 18
MARGIN = 12


class Row(NamedTuple):
    """A text that a line of the terminal shows for some time."""

    line: int
    text: str
    begin: float
    end: float | None  # seconds; none: to the end


def run(command: str, folder: Path) -> list[tuple[float, str]]:
    """Run a command in a terminal: what it printed, with seconds from its start."""
    ours, theirs = pty.openpty()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    begun = time.monotonic()
    with subprocess.Popen(
        shlex.split(command),
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        events = []
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # the command has closed the terminal
                break
            events.append((time.monotonic() - begun, data.decode()))
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"{command}: {''.join(text for _, text in events)}")
    return events


def record(commands: Iterable[str]) -> list[tuple[float, str]]:
    """Type and run commands one after the other."""
    events, now = [(0.0, PROMPT)], PAUSE_S
    with tempfile.TemporaryDirectory() as folder:
        for command in commands:
            events += [
                (now + TYPING_S * i / len(command), letter) for i, letter in enumerate(command)
            ]
            now += TYPING_S
            printed = run(command, Path(folder))
            events += [(now, "\r\n"), *((now + after, text) for after, text in printed)]
            now += printed[-1][0] if printed else 0.0
            events.append((now, PROMPT))
            now += PAUSE_S
    return events


def rows_of(events: Iterable[tuple[float, str]]) -> list[Row]:
    """Find what each line shows and when; line feeds and carriage returns move the cursor."""
    rows: list[Row] = []
    lines, begins, column = [""], [0.0], 0
    for now, text in events:
        before = list(lines)
        for letter in text:
            if letter == "\n":
                lines.append("")
            elif letter == "\r":
                column = 0
            else:
                lines[-1] = lines[-1][:column].ljust(column) + letter + lines[-1][column + 1 :]
                column += 1
        for n, line in enumerate(before):
            if line != lines[n]:
                rows.append(Row(n, line.rstrip(), begins[n], now))
                begins[n] = now
        begins += [now] * (len(lines) - len(begins))
    rows += [Row(n, line.rstrip(), begins[n], None) for n, line in enumerate(lines)]
    return [row for row in rows if row.text and row.begin != row.end]


def svg_of(rows: list[Row]) -> str:
    """Draw rows as an animated SVG."""
    width = round(0.6 * FONT * COLUMNS) + 2 * MARGIN
    height = LINE * (max(row.line for row in rows) + 1) + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="monospace" font-size="{FONT}" fill="#d8dee9">',
        f'<rect width="{width}" height="{height}" rx="6" fill="#20242c"/>',
    ]
    for line, text, begin, end in rows:
        if end is None:
            shown, when = (
                "",
                f'<set attributeName="display" to="none" begin="0s" end="{begin:.2f}s"/>',
            )
        else:
            shown = ' display="none"'
            when = (
                f'<set attributeName="display" to="inline" begin="{begin:.2f}s" end="{end:.2f}s"/>'
            )
        y = MARGIN + LINE * line + FONT
        cut = escape(text[:COLUMNS]).replace(" ", "\u00a0")  # others are drawn as one
        parts.append(f'<text x="{MARGIN}" y="{y}"{shown}>{cut}{when}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=IMAGES / "terminal.svg")
    parser.parse_args().out.write_text(svg_of(rows_of(record(COMMANDS))))


if __name__ == "__main__":
    main()
