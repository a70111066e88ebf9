"""Results of the parts of the GPU suite, read from the files that their steps have written so far.

Each function takes the folder of all parts. Files that are missing, or being written, are left out.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]

#: Numbers of a training's last row of progress.
_PROGRESS = ("steps", "train_s", "wall_s", "frames_per_s", "updates_per_s", "gpu_bytes")


def of_build(out: Path) -> Json:
    """Registers and memory of the kernels, and the last lines of each kind of the log."""
    lines = _lines(out / "build.log")
    return {
        "cule": [line for line in lines if line.startswith(("build: ", "CUDA backend", "cuda:"))],
        "kernels": _read_json(out / "build" / "resources.json"),
        "tests": [line for line in lines if line.startswith("=====") and " in " in line],
    }


def of_equality(out: Path) -> Json:
    """Records that ``benchmarks/equality.py`` has written."""
    return _read_json(out / "equality" / "equality.json")


def of_fps(out: Path) -> Json:
    """Frames per second by cell and engine, of the interpreter alone and of both kernels."""
    return {name: _rates(out / "fps" / name) for name in ("interpreter", "kernels")}


def of_fps_57(out: Path) -> Json:
    """Frames per second by cell and engine."""
    return _rates(out / "fps-57")


def of_fps_train(out: Path) -> Json:
    """Frames per second of training by cell, algorithm and engine."""
    return _rates(out / "fps-train")


def of_ncu(out: Path) -> Json:
    """Metrics with units of each profiled kernel, in the order of launches, by step."""
    return {path.stem: _profile(path) for path in sorted((out / "ncu").glob("*.csv"))}


def of_sanitizer(out: Path) -> Json:
    """The summary lines of the tools, in their order."""
    lines = _lines(out / "sanitizer.log")
    return {"summaries": [line for line in lines if line.startswith("=========") and "SUM" in line]}


def of_train(out: Path) -> Json:
    """Evaluations, the time to the score, and speed of each training."""
    return {path.name: _training(path) for path in sorted((out / "train").glob("*"))}


def _rates(folder: Path) -> Json:
    found: Json = {}
    for path in sorted((folder / "records").glob("*.json")):
        record = _read_json(path)
        if "runs" not in record:
            continue
        rates = {name: run["frames_per_s"] for name, run in record["runs"].items()}
        found[path.stem] = {
            "frames_per_s": {name: rate["median"] for name, rate in rates.items()},
            "quartiles": {name: rate["quartiles"] for name, rate in rates.items()},
            "gpu_steps_equal_to_cpu": record["check"]["gpu_steps_equal_to_cpu"],
            "digests_of_ram": {name: run["digest_of_ram"] for name, run in record["runs"].items()},
            "absent": record["absent"],
        }
    return found


def _profile(path: Path) -> list[Json]:
    """Kernels of a log of ``ncu --csv``, which also has lines of the profiler itself."""
    kernels: dict[str, Json] = {}
    lines = [line for line in _lines(path) if line.startswith('"')]
    for row in csv.DictReader(lines):
        name, value, unit = (row.get(f"Metric {part}") for part in ("Name", "Value", "Unit"))
        if name:
            first: Json = {"kernel": row["Kernel Name"], "grid": row["Grid Size"], "metrics": {}}
            kernel = kernels.setdefault(row["ID"], first)
            kernel["metrics"][name] = f"{value} {unit}".strip()
    return list(kernels.values())


def _training(folder: Path) -> Json:
    progress = _lines(folder / "progress.jsonl")
    rows = [row for row in map(_parse_json, progress) if "steps" in row]
    last = rows[-1] if rows else {}
    return {
        "progress": {name: last[name] for name in _PROGRESS if name in last},
        "evaluations": list(csv.DictReader(_lines(folder / "evaluations.csv"))),
        "time_to_score": _read_json(folder / "time_to_score.json"),
    }


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines() if path.is_file() else []


def _read_json(path: Path) -> Json:
    return _parse_json(path.read_text()) if path.is_file() else {}


def _parse_json(text: str) -> Json:
    """An object; empty for a text that has not been written completely."""
    try:
        value: Json = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return value
