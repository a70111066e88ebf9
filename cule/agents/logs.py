"""What a training run writes down: CSV, JSON lines, TensorBoard where it is installed.

A folder holds `config.json`, `progress.csv` and `progress.jsonl` (one row an interval) and
`evaluations.csv`. A run that goes on from a checkpoint first drops the rows that came after it, so
that a curve has every step once.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib.util
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, float | int | str]


class Table:
    """A CSV file that grows by rows; a column that is new makes the file be written anew."""

    def __init__(self, path: Path, *, until_step: int | None) -> None:
        """Open it, and drop rows after a step.

        Args:
            path: The file; made with the first row.
            until_step: Rows whose "steps" are above this are dropped; None: all rows are.
        """
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.columns: list[str] = []
        if until_step is not None and path.exists():
            with path.open(newline="") as file:
                # A process killed while writing leaves a last line without its end.
                reader = csv.DictReader((line for line in file if line.endswith("\n")), restval="")
                self.columns = list(reader.fieldnames or [])
                rows = [row for row in reader if _step_of(row) <= until_step]
                self.rows = [{k: _value(v) for k, v in row.items()} for row in rows]
        self._rewrite()

    def add(self, row: Row) -> None:
        """Append a row and hand it to the operating system."""
        new = [name for name in row if name not in self.columns]
        self.rows.append(dict(row))
        if new:
            self.columns += new
            self._rewrite()
            return
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, self.columns, restval="").writerow(dict(row))

    def _rewrite(self) -> None:
        part = self.path.with_suffix(".part")
        with part.open("w", newline="") as file:
            if self.columns:
                writer = csv.DictWriter(file, self.columns, restval="")
                writer.writeheader()
                writer.writerows(self.rows)
        os.replace(part, self.path)


def _step_of(row: Mapping[str, Any]) -> float:
    try:
        return float(row["steps"])
    except (KeyError, TypeError, ValueError):
        return float("inf")


def _value(text: str) -> float | int | str:
    """A cell of a table as it was written."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _json_line(row: Row) -> str:
    """A row as a line of JSON, which has no infinities and no NaN: null stands for them."""
    finite = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
        if value != ""  # a column that this row has not
    }
    return json.dumps(finite) + "\n"


class RunLog:
    """The files of one run; process 0 has one."""

    def __init__(
        self, folder: Path, config: Mapping[str, Any], *, until_step: int | None = None
    ) -> None:
        """Open the files.

        Args:
            folder: Made where it is missing.
            config: All options; the first record of the JSON lines, and `config.json`.
            until_step: Continue after this step; None: start anew.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.progress = Table(folder / "progress.csv", until_step=until_step)
        self.evaluations = Table(folder / "evaluations.csv", until_step=until_step)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        self._lines = folder / "progress.jsonl"
        with self._lines.open("w") as file:
            file.write(json.dumps({"config": dict(config)}) + "\n")
            for row in self.progress.rows:
                file.write(_json_line(row))
        self._board = _open_board(folder, until_step)

    def add_progress(self, row: Row) -> None:
        """Write a row of progress everywhere."""
        self.progress.add(row)
        with self._lines.open("a") as file:
            file.write(_json_line(row))
        self._to_board("progress", row)

    def add_evaluation(self, row: Row) -> None:
        """Write a row of evaluation."""
        self.evaluations.add(row)
        self._to_board("evaluation", row)

    def close(self) -> None:
        """Flush what TensorBoard holds."""
        if self._board is not None:
            self._board.close()

    def _to_board(self, group: str, row: Row) -> None:
        if self._board is None:
            return
        for name, value in row.items():
            if name != "steps" and isinstance(value, int | float):
                self._board.add_scalar(f"{group}/{name}", value, int(row["steps"]))


@functools.cache
def _say_that_it_is_missing() -> None:
    """Say it once a process."""
    print("TensorBoard is not installed; logging to CSV and JSON lines only", file=sys.stderr)


def _open_board(folder: Path, until_step: int | None) -> Any:
    """A TensorBoard writer, or None (said once) where TensorBoard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        _say_that_it_is_missing()
        return None
    from torch.utils.tensorboard import SummaryWriter

    purge = None if until_step is None else until_step + 1
    return SummaryWriter(str(folder / "tensorboard"), purge_step=purge)
