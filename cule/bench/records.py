"""One JSON file for each cell of a run, and how a later run finds it again.

A record says what was measured, where, with what, and how it was checked. Every name of a number
carries its unit; frames are emulated frames.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cule.bench.divergence import Divergence
from cule.bench.engines import FRAMESKIP
from cule.bench.errors import OtherRunError
from cule.bench.interleaved import SHADOW_ENVS, Comparison, divide, quartiles
from cule.bench.options import BenchOptions, Cell
from cule.errors import InvalidArgumentError

#: Of the form of the files.
SCHEMA = 1

FOLDER = "records"
MEMORY = "memory.json"

#: A game where more steps of consoles than this end an episode is marked: it times resets.
ENDS_AT_ONCE = 0.05

#: Options that do not change what a cell measures.
_FREE_OPTIONS = ("games", "load", "num_envs", "out", "resume", "minutes", "memory")

Record = dict[str, Any]


def spread(values: Sequence[float], digits: int) -> Record:
    """Median and quartiles of one number a turn."""
    low, high = quartiles(values)
    return {
        "median": round(statistics.median(values), digits),
        "quartiles": [round(low, digits), round(high, digits)],
    }


def settings_of(
    options: BenchOptions, engines: Sequence[str], where: Mapping[str, Any], source: Record
) -> Record:
    """All that a cell's figures depend on; a record with other settings is measured again."""
    given = {
        item.name: getattr(options, item.name)
        for item in dataclasses.fields(options)
        if item.name not in _FREE_OPTIONS
    }
    given["engines"] = list(engines)
    given["algorithms"] = list(options.algorithms)
    return {"options": given, "machine": dict(where), "source": source}


def describe_comparison(result: Comparison, pairs: Sequence[tuple[str, str]]) -> Record:
    """The part of a record that a race fills.

    Args:
        result: Of a race.
        pairs: Lanes to divide, the first by the second, where both are there.
    """
    lanes = {}
    for name, rates in result.rates.items():
        utilisation = result.utilisation.get(name)
        cores = divide(rates, result.cpu_rates[name])
        lanes[name] = {
            "frames_per_s": {
                **spread(rates, 0),
                "turns": [round(rate) for rate in rates],
            },
            "frames_per_s_per_console": round(result.rate(name) / result.num_envs, 2),
            "ms_per_step": round(1e3 * result.num_envs * FRAMESKIP / result.rate(name), 4),
            "frames_per_cpu_s": spread(result.cpu_rates[name], 0),
            "cpu_cores_busy": round(statistics.median(cores), 2),
            "device_utilisation_percent": None if utilisation is None else round(utilisation, 1),
            "digest_of_ram": result.ram_digests.get(name),
            "digest_of_observations": result.obs_digests.get(name),
            "episode_ends_per_console_step": result.episode_ends.get(name),
        }
    ratios = {
        f"{name} / {other}": {
            **spread(result.ratios(name, other), 3),
            "by_cpu_time": spread(result.cpu_ratios(name, other), 3),
        }
        for name, other in pairs
        if name in lanes and other in lanes
    }
    ends = max(result.episode_ends.values(), default=0.0)
    return {
        "lanes": lanes,
        "ratios": ratios,
        "turns": len(next(iter(result.rates.values()))),
        "digest_after_steps": result.digest_steps,
        "check": {
            "steps_equal_to_ale": result.compared_steps,
            "steps_of_gpu_equal_to_cpu": result.shadowed_steps,
            "consoles_of_gpu_compared": SHADOW_ENVS if result.shadowed_steps else 0,
        },
        "ends_at_once": ends > ENDS_AT_ONCE,
        "absent": result.absent,
    }


def describe_divergence(result: Divergence) -> Record:
    """The part of a record that the load divergence fills."""
    return {
        "lanes": {
            name: {
                "step_s": [round(value, 7) for value in seconds],
                "resetting_consoles": result.resetting[name],
                "digest_of_ram": result.ram_digests[name],
            }
            for name, seconds in result.step_s.items()
        },
        "absent": result.absent,
    }


class Records:
    """The records of a folder."""

    def __init__(self, folder: Path, settings: Record, *, resume: bool) -> None:
        """Open a folder.

        Args:
            folder: Made where it is not there.
            settings: Of this run; see `settings_of`.
            resume: Keep what is there.

        Raises:
            OtherRunError: There are records, and resume is False.
            InvalidArgumentError: The folder cannot be made.
        """
        self.folder = folder
        # As it comes back from a file: tuples are lists, paths are text.
        self.settings: Record = json.loads(json.dumps(settings, default=str))
        found = sorted((folder / FOLDER).glob("*.json"))
        if found and not resume:
            raise OtherRunError(
                f"out is {str(folder)!r}, which holds {len(found)} records of another run; it must "
                "be a new or empty folder, or be resumed with --resume"
            )
        try:
            (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgumentError(
                f"out is {str(folder)!r}; it must be a folder that can be written: {error}"
            ) from None

    def path_of(self, cell: Cell) -> Path:
        """The file of a cell."""
        return self.folder / FOLDER / f"{cell.key}.json"

    def find(self, cell: Cell) -> Record | None:
        """The record of a cell that was measured with the settings of this run."""
        record = read(self.path_of(cell))
        if record is None or record.get("settings") != self.settings:
            return None
        return record

    def is_other(self, cell: Cell) -> bool:
        """Whether there is a file of this cell that this run cannot keep."""
        return self.path_of(cell).is_file() and self.find(cell) is None

    def write(self, cell: Cell, content: Record) -> Record:
        """Write the record of a cell, whole or not at all."""
        record = {
            "cule_bench": SCHEMA,
            "cell": dataclasses.asdict(cell),
            "settings": self.settings,
            **content,
        }
        write(self.path_of(cell), record)
        return record

    def memory(self, game: str, engines: Sequence[str]) -> Record | None:
        """The memory that an earlier part of this run measured."""
        record = read(self.folder / MEMORY)
        if record is None or record.get("settings") != self.settings or record["game"] != game:
            return None
        return record if set(engines) <= set(record["bytes_per_console"]) else None

    def write_memory(self, game: str, sizes: Mapping[str, int | None]) -> Record:
        """Keep the memory of a console."""
        record = {
            "cule_bench": SCHEMA,
            "settings": self.settings,
            "game": game,
            "bytes_per_console": dict(sizes),
        }
        write(self.folder / MEMORY, record)
        return record


def read(path: Path) -> Record | None:
    """A record; None where there is none, or a file that is none."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    is_record = isinstance(content, dict) and content.get("cule_bench") == SCHEMA
    return content if is_record else None


def write(path: Path, record: Record) -> None:
    """Write a record, whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(partial, path)
