"""Logs of a training run: CSV, JSON lines, TensorBoard if it is installed, and trackers by name.

The folder holds `config.json`, `progress.csv` and `progress.jsonl` (one row per interval) and
`evaluations.csv`. A resumed run first drops the rows after its checkpoint, so that every step
occurs once. The trackers wandb and mlflow are optional and imported only here; they get every row
of the CSV files, with names such as ``progress/episode_return`` and ``evaluation/mean``.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib
import importlib.util
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cule.agents.run.folders import CONFIG_FILE, read_rows
from cule.errors import (
    CuleError,
    InvalidArgumentError,
    MissingPackageError,
    StorageError,
    shown,
)
from cule.files import replace_bytes, replace_text, writing

Value = float | int | str
Row = Mapping[str, Value]
#: How a run has ended, in MLflow's words; "KILLED" by a signal. wandb knows it as an exit status.
Status: TypeAlias = Literal["FINISHED", "FAILED", "KILLED"]

#: Project or experiment that runs belong to.
PROJECT = "cule"


def metrics_of(group: str, row: Row) -> dict[str, float]:
    """The numbers of a row, named after its group."""
    return {
        f"{group}/{name}": float(value)
        for name, value in row.items()
        if name != "steps" and isinstance(value, int | float)
    }


class TensorBoard:
    """Files of TensorBoard in a folder; those of a resumed run continue after a step."""

    def __init__(self, folder: Path, until_step: int | None) -> None:
        """Open the files."""
        from torch.utils.tensorboard import SummaryWriter

        # What an earlier run of the folder logged later is hidden.
        self._folder, purge = folder, 0 if until_step is None else until_step + 1
        with writing(folder):
            self._board: Any = SummaryWriter(str(folder), purge_step=purge)

    def log(self, group: str, row: Row) -> None:
        """Write the numbers of a row."""
        with writing(self._folder):
            for name, value in metrics_of(group, row).items():
                self._board.add_scalar(name, value, int(row["steps"]))

    def close(self, status: Status) -> None:
        """Flush and close."""
        with writing(self._folder):
            self._board.close()


@contextlib.contextmanager
def _tracking(name: str) -> Iterator[None]:
    """Name the tracker in its errors.

    Raises:
        StorageError: The block raised an error of another package.
    """
    try:
        yield
    except CuleError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise StorageError(f"track is {shown(name)}, which has failed: {reason}") from error


class _Wandb:
    @_tracking("wandb")
    def __init__(self, folder: Path, config: Mapping[str, object]) -> None:
        self._run = _module("wandb").init(
            project=PROJECT, name=folder.name, dir=str(folder), config=dict(config)
        )

    @_tracking("wandb")
    def log(self, group: str, row: Row) -> None:
        self._run.log(metrics_of(group, row), step=int(row["steps"]))

    @_tracking("wandb")
    def close(self, status: Status) -> None:
        self._run.finish(exit_code=0 if status == "FINISHED" else 1)


class _MLflow:
    @_tracking("mlflow")
    def __init__(self, folder: Path, config: Mapping[str, object]) -> None:
        self._module = _module("mlflow")
        self._module.set_experiment(PROJECT)
        self._module.start_run(run_name=folder.name)
        try:
            self._module.log_params(dict(config))
        except BaseException:
            self._module.end_run("FAILED")
            raise

    @_tracking("mlflow")
    def log(self, group: str, row: Row) -> None:
        self._module.log_metrics(metrics_of(group, row), step=int(row["steps"]))

    @_tracking("mlflow")
    def close(self, status: Status) -> None:
        self._module.end_run(status)


#: Gets the rows of a run by `log`, until `close`.
Tracker: TypeAlias = TensorBoard | _Wandb | _MLflow

TRACKERS: dict[str, type[_Wandb] | type[_MLflow]] = {"wandb": _Wandb, "mlflow": _MLflow}


def check_trackers(names: str) -> list[str]:
    """The names in a list with commas, each once.

    Raises:
        InvalidArgumentError: An unknown name.
        MissingPackageError: A tracker is not installed.
    """
    found = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in found:
        if name not in TRACKERS:
            raise InvalidArgumentError(
                f"track is {shown(names)}; it must be names of {', '.join(TRACKERS)}, with commas"
            )
        _module(name)
    return found


def make_trackers(
    names: str, folder: Path, config: Mapping[str, object]
) -> Iterator[_Wandb | _MLflow]:
    """Start a run in each tracker of a list with commas, one after the other."""
    return (TRACKERS[name](folder, config) for name in check_trackers(names))


def _module(name: str) -> Any:  # it has no types here
    with contextlib.suppress(ImportError):
        module = importlib.import_module(name)
        if getattr(module, "__file__", None) is not None:  # a folder of this name has none
            return module
    raise MissingPackageError(f"track is {shown(name)}, which is not installed; pip install {name}")


# --- Files ----------------------------------------------------------------------------------------


class Table:
    """A CSV file that grows by rows; a new column rewrites the file."""

    def __init__(self, path: Path, *, until_step: int | None) -> None:
        """Open or create the file, and keep the rows up to a step; None: keep no rows."""
        self.path = path
        self.rows: list[dict[str, Value]] = []
        self.columns: list[str] = []
        if until_step is not None:
            rows = [row for row in read_rows(path) if _step_of(row) <= until_step]
            self.rows = [{k: _parse(v) for k, v in row.items()} for row in rows]
            self.columns = list(self.rows[0]) if self.rows else []
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
    """A row as a line of JSON, without columns that it does not have."""
    return json.dumps(finite({k: v for k, v in row.items() if v != ""})) + "\n"


def finite(row: Mapping[str, object]) -> dict[str, object]:
    """A row with None in place of infinities and NaN, which JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


class RunLog:
    """The files of a run; rank 0 has one."""

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, object],
        *,
        until_step: int | None = None,
        trackers: Sequence[Tracker] = (),
    ) -> None:
        """Open the files; continue after `until_step`, or start new files if it is None.

        `trackers` get all rows as well.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.progress = Table(folder / "progress.csv", until_step=until_step)
        self.evaluations = Table(folder / "evaluations.csv", until_step=until_step)
        replace_text(folder / CONFIG_FILE, json.dumps(config, indent=2) + "\n")
        self._lines = folder / "progress.jsonl"
        first = json.dumps({"config": dict(config)}) + "\n"
        replace_text(self._lines, first + "".join(map(_json_line, self.progress.rows)))
        self._trackers = [*trackers, *_boards(folder / "tensorboard", until_step)]

    def add(self, group: str, row: Row) -> None:
        """Write a row of "progress" or "evaluation"."""
        if group == "progress":
            self.progress.add(row)
            with writing(self._lines), self._lines.open("a") as file:
                file.write(_json_line(row))
        else:
            self.evaluations.add(row)
        for tracker in self._trackers:
            tracker.log(group, row)

    def close(self, status: Status = "FINISHED") -> None:
        """Flush TensorBoard, and end the runs of trackers."""
        with contextlib.ExitStack() as stack:  # one that fails keeps no other open
            for tracker in self._trackers:
                stack.callback(tracker.close, status)


@functools.cache
def _note_missing_board() -> None:
    """Say once per process that TensorBoard is not installed."""
    bar = "\n" if sys.stderr.isatty() else ""  # ends its line
    print(f"{bar}TensorBoard is not installed; logging to CSV and JSON lines only", file=sys.stderr)


def _boards(folder: Path, until_step: int | None) -> list[Tracker]:
    """TensorBoard, if it is installed."""
    spec = importlib.util.find_spec("tensorboard")
    if spec is not None and spec.origin is not None:  # a folder of this name has none
        return [TensorBoard(folder, until_step)]
    _note_missing_board()
    return []
