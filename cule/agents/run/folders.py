"""Folders of runs: the options that a run was made with, and its tables. Needs no torch."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cule.errors import CheckpointError
from cule.reading import read_file, read_json

#: All options of a run: those of the algorithm, ``algorithm``, ``preset``, and ``run``.
CONFIG_FILE = "config.json"

#: Options that had another spelling in 0.2.0, and how they are written now.
RESPELT_OPTIONS = {
    "initialisation": "initialization",
    "normalise_advantages": "normalize_advantages",
    "normalise_values": "normalize_values",
}


def respelt(config: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a run of any version under their names of today."""
    return {RESPELT_OPTIONS.get(name, name): value for name, value in config.items()}


def read_config(folder: Path) -> dict[str, Any] | None:
    """The content of the `CONFIG_FILE` of a run; None without one."""
    path = folder / CONFIG_FILE
    if not path.exists():
        return None
    try:
        content = read_json(path)
        if isinstance(content, dict) and isinstance(content.get("algorithm"), str):
            return respelt(content)
    except (OSError, ValueError):
        pass
    raise CheckpointError(f"{path} does not hold the options of a run")


def read_rows(path: Path) -> list[dict[str, str]]:
    """The complete rows of a CSV file of a run, which may be written to; none without a file.

    Raises:
        CheckpointError: It cannot be read, or is no file of text.
    """
    if not path.exists():
        return []
    try:
        complete = read_file(path).decode().rpartition("\n")[0]
        return list(csv.DictReader(complete.splitlines(), restval=""))
    except (OSError, ValueError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{path} does not hold rows of a run: {reason}") from error


def free_folder(folder: Path) -> Path:
    """The first of FOLDER-2, FOLDER-3, ... that does not exist."""
    plain = folder if folder.name not in ("", "..") else folder.resolve()  # "" of "."
    names = (Path(f"{plain}-{number}") for number in itertools.count(2))
    return next(path for path in names if not path.exists())
