"""Logs of a training run: CSV, JSON lines, and TensorBoard if it is installed.

The folder holds `config.json`, `progress.csv` and `progress.jsonl` (one row per interval) and
`evaluations.csv`. A resumed run first drops the rows after its checkpoint, so that every step
occurs once.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib.util
import io
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from cule.agents.run.folders import CONFIG_FILE
from cule.files import replace_bytes, replace_text, writing

Value = float | int | str
Row = Mapping[str, Value]


class Table:
    """A CSV file that grows by rows; a new column rewrites the file."""

    def __init__(self, path: Path, *, until_step: int | None) -> None:
        """Open or create the file, and keep the rows up to a step; None: keep no rows."""
        self.path = path
        self.rows: list[dict[str, Value]] = []
        self.columns: list[str] = []
        if until_step is not None and path.exists():
            with path.open(newline="") as file:
                # A process killed while writing leaves an incomplete last line.
                reader = csv.DictReader((line for line in file if line.endswith("\n")), restval="")
                self.columns = list(reader.fieldnames or [])
                rows = [row for row in reader if _step_of(row) <= until_step]
                self.rows = [{k: _parse(v) for k, v in row.items()} for row in rows]
        self._rewrite()

    def add(self, row: Row) -> None:
        """Append a row and pass it to the operating system."""
        new = [name for name in row if name not in self.columns]
        self.rows.append(dict(row))
        if new:
            self.columns += new
            self._rewrite()
            return
        with writing(self.path), self.path.open("a", newline="") as file:
            csv.DictWriter(file, self.columns, restval="").writerow(dict(row))

    def _rewrite(self) -> None:
        text = io.StringIO(newline="")
        if self.columns:
            writer = csv.DictWriter(text, self.columns, restval="")
            writer.writeheader()
            writer.writerows(self.rows)
        replace_bytes(self.path, text.getvalue().encode())


def _step_of(row: Mapping[str, str]) -> float:
    try:
        return float(row["steps"])
    except (KeyError, TypeError, ValueError):
        return float("inf")


def _parse(text: str) -> Value:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _json_line(row: Row) -> str:
    """A row as a line of JSON, with null for infinities and NaN, which JSON does not have."""
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
        if value != ""  # a column that this row does not have
    }
    return json.dumps(finite) + "\n"


class Board(Protocol):
    """The part of TensorBoard's ``SummaryWriter`` that a run uses."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Write a number."""

    def close(self) -> None:
        """Flush and close."""


class RunLog:
    """The files of a run; rank 0 has one."""

    def __init__(
        self, folder: Path, config: Mapping[str, object], *, until_step: int | None = None
    ) -> None:
        """Open the files; continue after `until_step`, or start new files if it is None."""
        folder.mkdir(parents=True, exist_ok=True)
        self.progress = Table(folder / "progress.csv", until_step=until_step)
        self.evaluations = Table(folder / "evaluations.csv", until_step=until_step)
        replace_text(folder / CONFIG_FILE, json.dumps(config, indent=2) + "\n")
        self._lines = folder / "progress.jsonl"
        with writing(self._lines), self._lines.open("w") as file:
            file.write(json.dumps({"config": dict(config)}) + "\n")
            for row in self.progress.rows:
                file.write(_json_line(row))
        self._board_folder = folder / "tensorboard"
        with writing(self._board_folder):
            self._board = _open_board(self._board_folder, until_step)

    def add_progress(self, row: Row) -> None:
        """Write a row of progress to all files."""
        self.progress.add(row)
        with writing(self._lines), self._lines.open("a") as file:
            file.write(_json_line(row))
        self._write_to_board("progress", row)

    def add_evaluation(self, row: Row) -> None:
        """Write a row of evaluation."""
        self.evaluations.add(row)
        self._write_to_board("evaluation", row)

    def close(self) -> None:
        """Flush TensorBoard."""
        if self._board is not None:
            with writing(self._board_folder):
                self._board.close()

    def _write_to_board(self, group: str, row: Row) -> None:
        if self._board is None:
            return
        with writing(self._board_folder):
            for name, value in row.items():
                if name != "steps" and isinstance(value, int | float):
                    self._board.add_scalar(f"{group}/{name}", value, int(row["steps"]))


@functools.cache
def _note_missing_board() -> None:
    """Say once per process that TensorBoard is not installed."""
    print("TensorBoard is not installed; logging to CSV and JSON lines only", file=sys.stderr)


def _open_board(folder: Path, until_step: int | None) -> Board | None:
    if importlib.util.find_spec("tensorboard") is None:
        _note_missing_board()
        return None
    from torch.utils.tensorboard import SummaryWriter

    purge = None if until_step is None else until_step + 1
    board: Board = SummaryWriter(str(folder), purge_step=purge)
    return board
