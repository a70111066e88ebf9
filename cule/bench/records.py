"""One JSON file for each cell of a benchmark, which ``--resume`` finds again.

A record says what was measured, where, with what, and how it was checked. Names of numbers have
their units; frames are emulated frames.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypedDict, cast

from cule.bench.divergence import DivergenceRun
from cule.bench.engines import FRAMESKIP
from cule.bench.interleaved import SHADOW_ENVS, Comparison, divide, quartiles
from cule.bench.options import BenchOptions, Cell
from cule.errors import CuleError, InvalidArgumentError, shown
from cule.files import replace_text
from cule.reading import read_json

#: Version of the format of the files.
SCHEMA = 2

FOLDER = "records"
MEMORY = "memory.json"

#: A game with more episode ends per step of an environment is marked: it times resets.
ENDS_AT_ONCE = 0.05

#: Options that do not change the measurement of a cell.
_FREE_OPTIONS = ("games", "load", "num_envs", "out", "resume", "minutes", "memory")


#: Everything that a measurement depends on.
Settings: TypeAlias = dict[str, object]


class OtherRunError(CuleError, FileExistsError):
    """The folder holds records of another run."""


class CellKey(TypedDict):
    """Fields of `Cell`."""

    load: str
    game: str
    num_envs: int


class Spread(TypedDict):
    """Median and quartiles of one number per round."""

    median: float
    quartiles: list[float]


class Rates(Spread):
    """Frames per second, with every round."""

    rounds: list[int]


class Ratio(Spread):
    """Speed of one engine over that of another, by wall time and by processor time."""

    by_cpu_time: Spread


class SpeedRun(TypedDict):
    """Measurements of an engine, or of an agent on an engine."""

    frames_per_s: Rates
    frames_per_s_per_env: float
    ms_per_step: float
    frames_per_cpu_s: Spread
    cpu_cores_busy: float
    device_utilization_percent: float | None
    kernel: dict[str, object] | None
    digest_of_ram: str | None
    digest_of_observations: str | None
    episode_ends_per_env_step: float | None


class Check(TypedDict):
    """How many steps were compared between engines."""

    steps_equal_to_ale: int
    gpu_steps_equal_to_cpu: int
    gpu_envs_compared: int


class Content(TypedDict, total=False):
    """Measurements of a cell; `runs` or `divergence_runs` by name."""

    date: str
    load_average_at_start: list[float]
    seconds: float
    runs: dict[str, SpeedRun]
    divergence_runs: dict[str, DivergenceRun]
    ratios: dict[str, Ratio]
    rounds: int
    digest_after_steps: int
    check: Check
    ends_at_once: bool
    absent: dict[str, str]
    agents: dict[str, dict[str, object]]


class Record(Content):
    """A cell and its measurements; the file has `SCHEMA` and settings as well."""

    cell: CellKey


class MemoryRecord(TypedDict):
    """Memory per environment by engine; None if unknown."""

    game: str
    bytes_per_env: dict[str, int | None]


def spread(values: Sequence[float], digits: int) -> Spread:
    """Median and quartiles, rounded."""
    low, high = quartiles(values)
    return {
        "median": round(statistics.median(values), digits),
        "quartiles": [round(low, digits), round(high, digits)],
    }


def settings_of(
    options: BenchOptions, engines: Sequence[str], threads: int, where: Settings, source: Settings
) -> Settings:
    """Everything that the measurement of a cell depends on."""
    given = dataclasses.asdict(options) | {"engines": list(engines), "threads": threads}
    measured = {name: value for name, value in given.items() if name not in _FREE_OPTIONS}
    return {"options": measured, "machine": where, "source": source}


def describe_comparison(result: Comparison, pairs: Iterable[tuple[str, str]]) -> Content:
    """The measurements of a comparison, with ratios of the pairs of runs that were measured."""
    runs: dict[str, SpeedRun] = {}
    for name, rates in result.rates.items():
        utilization = result.utilization.get(name)
        cores = divide(rates, result.cpu_rates[name])
        runs[name] = {
            "frames_per_s": {**spread(rates, 0), "rounds": [round(rate) for rate in rates]},
            "frames_per_s_per_env": round(result.rate(name) / result.num_envs, 2),
            "ms_per_step": round(1e3 * result.num_envs * FRAMESKIP / result.rate(name), 4),
            "frames_per_cpu_s": spread(result.cpu_rates[name], 0),
            "cpu_cores_busy": round(statistics.median(cores), 2),
            "device_utilization_percent": None if utilization is None else round(utilization, 1),
            "kernel": result.kernels.get(name),
            "digest_of_ram": result.ram_digests.get(name),
            "digest_of_observations": result.obs_digests.get(name),
            "episode_ends_per_env_step": result.episode_ends.get(name),
        }
    ratios: dict[str, Ratio] = {
        f"{name} / {other}": {
            **spread(result.ratios(name, other), 3),
            "by_cpu_time": spread(divide(result.cpu_rates[name], result.cpu_rates[other]), 3),
        }
        for name, other in pairs
        if name in runs and other in runs
    }
    return {
        "runs": runs,
        "ratios": ratios,
        "rounds": len(next(iter(result.rates.values()))),
        "digest_after_steps": result.digest_steps,
        "check": {
            "steps_equal_to_ale": result.compared_steps,
            "gpu_steps_equal_to_cpu": result.shadowed_steps,
            "gpu_envs_compared": SHADOW_ENVS if result.shadowed_steps else 0,
        },
        "ends_at_once": max(result.episode_ends.values(), default=0.0) > ENDS_AT_ONCE,
        "absent": result.absent,
    }


class Records:
    """The records in a folder."""

    def __init__(self, folder: Path, settings: Settings, *, resume: bool) -> None:
        """Open a folder, which is made if it does not exist; `resume` keeps its records.

        Raises:
            OtherRunError: There are records, and resume is False.
            InvalidArgumentError: The folder cannot be made.
        """
        self.folder = folder
        # As read from a file: tuples are lists.
        self.settings: Settings = json.loads(json.dumps(settings))
        found = sorted((folder / FOLDER).glob("*.json"))
        if found and not resume:
            raise OtherRunError(
                f"out is {shown(str(folder))}, which holds {len(found)} records of another run; it "
                "must be a new or empty folder, or be resumed with --resume"
            )
        try:
            (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgumentError(
                f"out is {shown(str(folder))}; it must be a writable folder: {error}"
            ) from None

    def path_of(self, cell: Cell) -> Path:
        """The file of a cell."""
        return self.folder / FOLDER / f"{cell.key}.json"

    def find(self, cell: Cell) -> Record | None:
        """The record of a cell that was measured with the settings of this benchmark."""
        return cast("Record | None", self._read(self.path_of(cell)))

    def is_other(self, cell: Cell) -> bool:
        """Whether this cell has a record with other settings."""
        return self.path_of(cell).is_file() and self.find(cell) is None

    def write(self, cell: Cell, content: Content) -> Record:
        """Write the record of a cell atomically."""
        record = {"cell": dataclasses.asdict(cell), **content}
        return cast(Record, self._write(self.path_of(cell), record))

    def memory(self, game: str, engines: Sequence[str]) -> MemoryRecord | None:
        """The memory that an earlier part of this benchmark measured."""
        record = cast("MemoryRecord | None", self._read(self.folder / MEMORY))
        if record is None or record["game"] != game:
            return None
        return record if set(engines) <= set(record["bytes_per_env"]) else None

    def write_memory(self, game: str, sizes: Mapping[str, int | None]) -> MemoryRecord:
        """Write the memory of an environment."""
        record = {"game": game, "bytes_per_env": dict(sizes)}
        return cast(MemoryRecord, self._write(self.folder / MEMORY, record))

    def _read(self, path: Path) -> object:
        """Content of a file of this format with the settings of this benchmark, or None."""
        try:
            content = read_json(path)
        except (OSError, ValueError):
            return None
        is_record = isinstance(content, dict) and content.get("cule_bench") == SCHEMA
        return content if is_record and content.get("settings") == self.settings else None

    def _write(self, path: Path, content: Mapping[str, object]) -> object:
        record = {"cule_bench": SCHEMA, "settings": self.settings, **content}
        replace_text(path, json.dumps(record, indent=1) + "\n")
        return record
