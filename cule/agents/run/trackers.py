"""Trackers of experiments that get the rows of a run, by name: wandb and mlflow.

Both are optional and imported only here. They get every row that the CSV files of a run get, with
names such as ``progress/episode_return`` and ``evaluation/mean``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from cule.agents.run.logs import Row
from cule.errors import InvalidArgumentError, MissingPackageError, shown

#: Project or experiment that runs belong to.
PROJECT = "cule"


class Tracker(Protocol):
    """Gets the rows of a run."""

    def log(self, group: str, row: Row) -> None:
        """Log a row of "progress" or "evaluation"."""

    def close(self) -> None:
        """End the run."""


def metrics_of(group: str, row: Row) -> dict[str, float]:
    """The numbers of a row, named after its group."""
    return {
        f"{group}/{name}": float(value)
        for name, value in row.items()
        if name != "steps" and isinstance(value, int | float)
    }


class _Wandb:
    def __init__(self, folder: Path, config: Mapping[str, object]) -> None:
        self._run = _module("wandb").init(
            project=PROJECT, name=folder.name, dir=str(folder), config=dict(config)
        )

    def log(self, group: str, row: Row) -> None:
        self._run.log(metrics_of(group, row), step=int(row["steps"]))

    def close(self) -> None:
        self._run.finish()


class _MLflow:
    def __init__(self, folder: Path, config: Mapping[str, object]) -> None:
        self._module = _module("mlflow")
        self._module.set_experiment(PROJECT)
        self._module.start_run(run_name=folder.name)
        self._module.log_params(dict(config))

    def log(self, group: str, row: Row) -> None:
        self._module.log_metrics(metrics_of(group, row), step=int(row["steps"]))

    def close(self) -> None:
        self._module.end_run()


TRACKERS: dict[str, type[_Wandb] | type[_MLflow]] = {"wandb": _Wandb, "mlflow": _MLflow}


def check_trackers(names: str) -> list[str]:
    """The names in a list with commas.

    Raises:
        InvalidArgumentError: An unknown name.
        MissingPackageError: A tracker is not installed.
    """
    found = [name.strip() for name in names.split(",") if name.strip()]
    for name in found:
        if name not in TRACKERS:
            raise InvalidArgumentError(
                f"track is {shown(names)}; it must be names of {', '.join(TRACKERS)}, with commas"
            )
        _module(name)
    return found


def make_trackers(names: str, folder: Path, config: Mapping[str, object]) -> list[Tracker]:
    """Start a run in each tracker of a list with commas."""
    return [TRACKERS[name](folder, config) for name in check_trackers(names)]


def _module(name: str) -> Any:  # it has no types here
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPackageError(
            f"track is {shown(name)}, which is not installed; pip install {name}"
        ) from None
