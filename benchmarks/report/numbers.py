"""The numbers and tables of the report, from the records of ``benchmarks/results``."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"

#: The run of the GPU suite that the text speaks of, and the one before it.
GPU, GPU_BEFORE = "gpu-h200-2", "gpu-h200"

#: Environments of the measurements on a GPU.
GPU_SIZES = (1_200, 4_096, 32_768)

#: The score of Pong that the literature takes for solved.
SOLVED = 18

FRAMESKIP = 4

#: Learner, game, and the pattern of the folders of its runs.
RUNS = (
    ("PPO, 2 cores", "Pong", "pong-ppo-cpu-2-cores-seed-*"),
    ("PPO, 1 thread", "Pong", "pong-ppo-cpu-seed-*"),
    ("PPO on objects, 2 cores", "Pong", "pong-ppo-objects-seed-*"),
    ("V-trace", "Pong", "pong-vtrace-cpu-seed-*"),
    ("PQN, small", "Pong", "pong-pqn-cpu-seed-*"),
    ("PQN", "Pong", "pong-pqn-[12]"),
    ("DQN", "Pong", "pong-dqn-cpu"),
    ("Ape-X DPG", "Pong", "pong-apex-dpg"),
    ("A2C", "Breakout", "breakout-a2c-eps"),
    ("PPO", "Breakout", "breakout-ppo-sb3"),
    ("PPO", "Ms. Pac-Man", "ms_pacman-ppo"),
    ("Rainbow, small network", "Freeway", "freeway-rainbow"),
    ("Ape-X DQN, small network", r"Q\*bert", "qbert-apex-dqn"),
)

Rows = list[dict[str, str]]


def numbers(results: Path = RESULTS) -> dict[str, str]:
    """Every value that the text names.

    Args:
        results: Folder of the records.
    """
    project = (ROOT / "pyproject.toml").read_text()
    found = {"version": project.split('\nversion = "')[1].split('"')[0]}
    for part in (_exactness, _cpu, _memory, _jax, _gpu, _jaxtari, _learning, _gpu_learning):
        found |= part(results)
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; columns after the first one are aligned to the right."""
    lines = [head, [":--"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def _rows(path: Path) -> Rows:
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def _millions(value: float) -> str:
    return f"{value / 1e6:.2g}" if value < 1e6 else f"{value / 1e6:.1f}"


def _listed(words: Sequence[str]) -> str:
    if not words:
        return "none"
    return ", ".join(words[:-1]) + (" and " if words[:-1] else "") + words[-1]


def _exactness(results: Path) -> dict[str, str]:
    long, modes = _rows(results / "long_parity.csv"), _rows(results / "modes_parity.csv")

    def total(rows: Rows, name: str) -> str:
        return f"{sum(int(row[name]) for row in rows):,}"

    def games(rows: Rows) -> int:
        return len({row["game"] for row in rows})

    interpreter = _json(results / GPU_BEFORE / "equal-all-interpreter.json")["batches"]
    compiled = [
        batch
        for batch in _json(results / GPU_BEFORE / "equal-all-compiled.json")["batches"]
        if batch["steps"]
    ]
    differences = [b for b in interpreter + compiled if b["differences"]]
    if differences:
        raise ValueError(f"the records have differences: {differences}")
    steps = sorted(batch["steps"] for batch in compiled)
    minutes = int(modes[0]["frames"]) // 3_600
    head = ("comparison", "games", "frames or steps", "episodes")
    rows = [
        (
            "ale-py, an hour of emulated time a game",
            games(long),
            f"{total(long, 'frames')} frames",
            total(long, "episodes"),
        ),
        (
            f"ale-py, {minutes} minutes of each of {len(modes)} modes",
            games(modes),
            f"{total(modes, 'frames')} frames",
            total(modes, "episodes"),
        ),
        (
            "GPU and CPU, interpreter",
            len(interpreter[0]["games"]),
            f"{interpreter[0]['steps']} steps",
            "",
        ),
        ("GPU and CPU, compiled kernels", len(compiled), f"{steps[0]} to {steps[-1]} steps", ""),
    ]
    return {
        "long_frames": total(long, "frames"),
        "long_games": str(games(long)),
        "modes_frames": total(modes, "frames"),
        "modes": str(len(modes)),
        "table_exactness": table(head, rows),
    }


def _cpu(results: Path) -> dict[str, str]:
    two, one = _json(results / "bench-57-games.json"), _json(results / "fps-1-thread.json")
    records = two["records"]

    def ratios(other: str, kind: Callable[[Any], float]) -> list[float]:
        return [kind(record["ratios"][f"cule-cpu / {other}"]) for record in records]

    def clock(ratio: Any) -> float:
        return float(ratio["median"])

    def processor(ratio: Any) -> float:
        return float(ratio["by_cpu_time"]["median"])

    rows = [
        [
            f"{name}, {len(records)} games, {two['settings']['options']['threads']} threads",
            f"{statistics.median(ratios(other, clock)):.1f}",
            f"{min(ratios(other, clock)):.1f}",
            f"{max(ratios(other, clock)):.1f}",
            f"{statistics.median(ratios(other, processor)):.1f}",
        ]
        for name, other in (
            ("ale-py", "ale"),
            ("ale-py, asynchronous", "ale-async"),
            ("EnvPool", "envpool"),
        )
    ]
    for name in ("ale-py", "envpool"):
        of_game = [game["engines"][name]["cule_times_as_fast_median"] for game in one["games"]]
        title = {"ale-py": "ale-py", "envpool": "EnvPool"}[name]
        by_cpu = [game["engines"][name]["cule_times_per_cpu_s_median"] for game in one["games"]]
        rows.append(
            [
                f"{title}, {len(of_game)} games, {one['threads']} thread",
                f"{statistics.median(of_game):.1f}",
                f"{min(of_game):.1f}",
                f"{max(of_game):.1f}",
                f"{statistics.median(by_cpu):.1f}",
            ]
        )
    by_game = {
        record["cell"]["game"]: (
            record["lanes"]["cule-cpu"]["frames_per_s"]["median"],
            record["ratios"]["cule-cpu / ale"]["median"],
            record["ratios"]["cule-cpu / envpool"]["median"],
        )
        for record in records
    }
    best, worst = (f(by_game, key=lambda game: by_game[game][1]) for f in (max, min))
    machine = two["settings"]["machine"]
    head = ("cule over", "median", "worst game", "best game", "median by processor time")
    cells = [
        (game, f"{fps:,.0f}", f"{ale:.1f}", f"{pool:.1f}")
        for game, (fps, ale, pool) in sorted(by_game.items())
    ]
    # Two games side by side.
    half = (len(cells) + 1) // 2
    right = cells[half:] + [("", "", "", "")] * (2 * half - len(cells))
    games_head = ("game", "frames/s", "ale-py", "EnvPool")
    return {
        "games57": str(len(records)),
        "median_ale": f"{statistics.median(ratios('ale', clock)):.1f}",
        "median_envpool": f"{statistics.median(ratios('envpool', clock)):.1f}",
        "compared_steps": f"{sum(record['check']['steps_equal_to_ale'] for record in records):,}",
        "cpus": str(machine["cpus"]),
        "processor": machine["processor"],
        "num_envs": str(records[0]["cell"]["num_envs"]),
        "best_game": best,
        "best_ratio": f"{by_game[best][1]:.1f}",
        "worst_game": worst,
        "worst_ratio": f"{by_game[worst][1]:.1f}",
        "table_cpu": table(head, rows),
        "table_games": table(
            games_head + games_head, (a + b for a, b in zip(cells[:half], right, strict=True))
        ),
    }


def _memory(results: Path) -> dict[str, str]:
    resident = _json(results / "fps-1-thread.json")["resident_bytes_per_console"]
    engines = _json(results / "replay.json")["cases"][0]["engines"]
    logs = _json(results / "datasets.json")["games"]
    return {
        "cule_kb": f"{resident['cule'] / 1e3:,.0f}",
        "ale_kb": f"{resident['ale-py'] / 1e3:,.0f}",
        "envpool_kb": f"{resident['envpool'] / 1e3:,.0f}",
        "replay_bytes": f"{engines['cule']['bytes_per_transition']:,.0f}",
        "torchrl_bytes": f"{engines['TorchRL']['bytes_per_transition']:,.0f}",
        "log_bytes": f"{logs['pong']['log_bytes_per_step']:.2f}",
    }


def _jax(results: Path) -> dict[str, str]:
    games = _json(results / "jax.json")["frames_per_second"]
    ratios = [
        statistics.median(
            ours / theirs for ours, theirs in zip(runs["cule xla"], runs["ale-py xla"], strict=True)
        )
        for runs in games.values()
    ]
    return {
        "jax_games": str(len(games)),
        "jax_low": f"{min(ratios):.1f}",
        "jax_high": f"{max(ratios):.1f}",
    }


def _gpu(results: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    rows: list[tuple[object, ...]] = []
    for folder in (GPU_BEFORE, GPU):
        record = _json(results / folder / "fps-57.json")
        for size in GPU_SIZES:
            rates = {
                cell["game"]: cell["frames_per_s"]
                for cell in record["cells"]
                if cell["num_envs"] == size and "frames_per_s" in cell
            }
            if not rates:
                continue
            median = statistics.median(rates.values())
            worst, best = (f(rates, key=lambda game: rates[game]) for f in (min, max))
            rows.append(
                (
                    f"{size:,}, {record['when'][:10]}",
                    len(rates),
                    _millions(median),
                    f"{_millions(rates[worst])} {worst}",
                    f"{_millions(rates[best])} {best}",
                )
            )
            if folder == GPU:
                found[f"fps_{size}"] = _millions(median)
        found["multiprocessors"] = str(record["machine"]["gpu"]["multiprocessors"])
    model = _json(results / "step_model.json")["rows"]
    for size in GPU_SIZES[1:]:
        predicted = [
            row["frames_per_s"]
            for row in model
            if (row["kernel"], row["num_envs"]) == ("compiled", size)
        ]
        found[f"model_{size}"] = _millions(statistics.median(predicted))
    head = ("environments, day", "games", "median", "worst", "best")
    return found | {"table_gpu": table(head, rows)}


def _jaxtari(results: Path) -> dict[str, str]:
    published = {row["game"]: row for row in _rows(results / "jaxtari_throughput.csv")}
    ratios: dict[int, dict[str, float]] = {}
    for cell in _json(results / GPU / "jaxtari-constant.json")["cells"]:
        size, game = cell["num_envs"], cell["game"]
        theirs = 1e3 * float(published[game][f"pixels_{size}"])
        ratios.setdefault(size, {})[game] = cell["frames_per_s"] / theirs
    found = {}
    for size, of_game in ratios.items():
        found[f"jt_{size}"] = str(sum(ratio > 1 for ratio in of_game.values()))
        found[f"jr_{size}"] = f"{statistics.median(of_game.values()):.1f}"
    behind = [
        f"{game} ({min(r[game] for r in ratios.values()):.2f})"
        for game in published
        if any(of_game[game] < 1 for of_game in ratios.values())
    ]
    return found | {"jt_behind": _listed(behind)}


def _solved_at(rows: Rows) -> dict[str, str] | None:
    """The first evaluation of Pong at which it is solved."""
    return next((row for row in rows if float(row["mean"]) >= SOLVED), None)


def _learning(results: Path) -> dict[str, str]:
    lines = []
    for learner, game, pattern in RUNS:
        runs = [
            _rows(folder / "evaluations.csv")
            for folder in sorted(results.glob(pattern))
            if (folder / "evaluations.csv").is_file()
        ]
        last = [run[-1] for run in runs]
        scores = [float(row["mean"]) for row in last]
        reached: list[float] = []
        if game == "Pong":
            solved = [row for row in map(_solved_at, runs) if row is not None]
            reached = [FRAMESKIP * int(row["steps"]) / 1e6 for row in solved]
        lines.append(
            (
                learner,
                game,
                len(runs),
                f"{statistics.median(FRAMESKIP * int(row['steps']) / 1e6 for row in last):.1f}",
                f"{statistics.median(float(row['train_s']) / 60 for row in last):.1f}",
                f"{statistics.median(scores):.1f}",
                f"{len(reached)}: {statistics.median(reached):.1f}" if reached else "",
            )
        )
    objects = [
        _solved_at(_rows(folder / "evaluations.csv"))
        for folder in results.glob("pong-ppo-objects-seed-*")
    ]
    first = min(float(row["train_s"]) for row in objects if row is not None)
    columns = ("learner", "game", "runs", "million frames", "minutes", "score")
    return {
        "table_learning": table((*columns, f"runs at {SOLVED}: million frames"), lines),
        "objects_best": f"a score of {SOLVED}",
        "objects_runs": str(len(objects)),
        "objects_seconds": f"{first:.0f}",
    }


def _gpu_learning(results: Path) -> dict[str, str]:
    runs, rates = [], []
    for name in ("pong", "pong-1"):
        rows = _rows(results / GPU / f"{name}-evaluations.csv")
        runs.append(rows)
        rates.append(float(_rows(results / GPU / f"{name}-progress.csv")[-1]["frames_per_s"]))
    texts = [
        f"a score of {float(row['mean']):.1f} after {float(row['train_s']):.1f} seconds"
        for rows in runs
        for row in (rows[0], rows[-1])
    ]
    slowest = min(float(rows[-1]["mean"]) for rows in runs)
    return {
        "gpu_runs": f"{texts[0]} and {texts[1]}; {texts[2]} and {texts[3]}",
        "gpu_rate": f"{statistics.mean(rates) / 1e6:.2f}",
        "gpu_score": f"{slowest:.1f}",
        "gpu_seconds": f"{max(float(rows[-1]['train_s']) for rows in runs):.0f}",
    }
