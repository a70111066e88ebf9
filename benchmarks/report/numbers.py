"""The numbers and tables of the report, from the records of ``benchmarks/results``."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cule.games.modifications import COMMON, games_with_modifications, load_modifications
from cule.games.objects import games_with_objects

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
    for part in (
        *(_exactness, _cpu, _memory, _jax, _gpu, _gpu_games, _lanes, _jaxtari),
        *(_learning, _gpu_learning, _objects_and_pixels, _self_play),
        *(_replay, _datasets, _players, _search),
    ):
        found |= part(results)
    return found | _variants()


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; columns after the first one are aligned to the right."""
    lines = [head, [":--"] + ["--:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def read_rows(path: Path) -> Rows:
    """The rows of a CSV file, without its comments."""
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def _millions(value: float) -> str:
    return f"{value / 1e6:#.2g}" if value < 1e6 else f"{value / 1e6:.1f}"


def _median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def _listed(words: Sequence[str]) -> str:
    if not words:
        return "none"
    return ", ".join(words[:-1]) + (" and " if words[:-1] else "") + words[-1]


def _exactness(results: Path) -> dict[str, str]:
    long, modes = (read_rows(results / f"{name}_parity.csv") for name in ("long", "modes"))
    interpreter, compiled = (
        [batch for batch in _json(results / GPU_BEFORE / name)["batches"] if batch["steps"]]
        for name in ("equal-all-interpreter.json", "equal-all-compiled.json")
    )
    differences = [b for b in interpreter + compiled if b["differences"]]
    if differences:
        raise ValueError(f"the records have differences: {differences}")

    def total(rows: Rows, name: str) -> str:
        return f"{sum(int(row[name]) for row in rows):,}"

    def against_ale(what: str, rows: Rows) -> tuple[object, ...]:
        games = {row["game"] for row in rows}
        return what, len(games), f"{total(rows, 'frames')} frames", total(rows, "episodes")

    steps = sorted(batch["steps"] for batch in compiled)
    minutes = int(modes[0]["frames"]) // 3_600
    (all_games,) = interpreter
    rows = [
        against_ale("ale-py, an hour of emulated time a game", long),
        against_ale(f"ale-py, {minutes} minutes of each of {len(modes)} modes", modes),
        ("GPU and CPU, interpreter", len(all_games["games"]), f"{all_games['steps']} steps", ""),
        ("GPU and CPU, compiled kernels", len(compiled), f"{steps[0]} to {steps[-1]} steps", ""),
    ]
    return {
        "long_frames": total(long, "frames"),
        "long_games": str(rows[0][1]),
        "modes_frames": total(modes, "frames"),
        "modes": str(len(modes)),
        "table_exactness": table(("comparison", "games", "frames or steps", "episodes"), rows),
    }


def _cpu(results: Path) -> dict[str, str]:
    two, one = _json(results / "bench-57-games.json"), _json(results / "fps-1-thread.json")
    records = two["records"]

    def row(what: str, ratios: list[float], by_processor_time: list[float]) -> list[str]:
        middle, by_processor = map(statistics.median, (ratios, by_processor_time))
        return [what, *(f"{x:.1f}" for x in (middle, min(ratios), max(ratios), by_processor))]

    rows = []
    for name, other in (
        ("ale-py", "ale"),
        ("ale-py, asynchronous", "ale-async"),
        ("EnvPool", "envpool"),
    ):
        what = f"{name}, {len(records)} games, {two['settings']['options']['threads']} threads"
        ratios = [record["ratios"][f"cule-cpu / {other}"] for record in records]
        by_cpu = [ratio["by_cpu_time"]["median"] for ratio in ratios]
        rows.append(row(what, [ratio["median"] for ratio in ratios], by_cpu))
    for name, key in (("ale-py", "ale-py"), ("EnvPool", "envpool")):
        games = [game["engines"][key] for game in one["games"]]
        what = f"{name}, {len(games)} games, {one['threads']} thread"
        by_cpu = [game["cule_times_per_cpu_s_median"] for game in games]
        rows.append(row(what, [game["cule_times_as_fast_median"] for game in games], by_cpu))
    by_game = {
        record["cell"]["game"]: (
            record["runs"]["cule-cpu"]["frames_per_s"]["median"],
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
    right = [("", *cell) for cell in cells[half:]] + [("",) * 5] * (2 * half - len(cells))
    games_head = ("game", "frames/s", "ale-py", "EnvPool")
    return {
        "games57": str(len(records)),
        "median_ale": rows[0][1],
        "median_envpool": rows[2][1],
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
            (*games_head, "", *games_head),
            (a + b for a, b in zip(cells[:half], right, strict=True)),
        ),
    }


def _memory(results: Path) -> dict[str, str]:
    resident = _json(results / "fps-1-thread.json")["resident_bytes_per_console"]
    names = {"cule": "cule", "ale": "ale-py", "envpool": "envpool"}
    return {f"{name}_kb": f"{resident[key] / 1e3:,.0f}" for name, key in names.items()}


def _jax(results: Path) -> dict[str, str]:
    games = _json(results / "jax.json")["frames_per_second"]
    ratios = [_median_ratio(runs["cule xla"], runs["ale-py xla"]) for runs in games.values()]
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
                for cell in _measured(record)
                if cell["num_envs"] == size
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


def _measured(record: Any) -> list[dict[str, Any]]:
    """The cells of a record of the GPU suite that had time."""
    return [cell for cell in record["cells"] if "frames_per_s" in cell]


def _by_game(cells: Iterable[tuple[str, dict[str, Any]]]) -> str:
    """Rates of cells with the name of their columns: a table with a row for each game."""
    columns: dict[str, dict[str, str]] = {}
    for name, cell in cells:
        columns.setdefault(name, {})[cell["game"]] = _millions(cell["frames_per_s"])
    games = dict.fromkeys(game for column in columns.values() for game in column)
    rows = ([game, *(column.get(game, "") for column in columns.values())] for game in games)
    return table(("game", *columns), rows)


def _gpu_games(results: Path) -> dict[str, str]:
    """Rates of single games after a reset and in play."""
    kinds = (
        ("interpreter", "fps-interpreter.json"),
        ("compiled", "fps-compiled.json"),
        ("in play", "played-now.json"),
    )
    cells = [
        (f"{kind} {cell['num_envs']:,}", cell)
        for kind, name in kinds
        for cell in sorted(_measured(_json(results / GPU / name)), key=lambda c: int(c["num_envs"]))
    ]
    return {"table_gpu_games": _by_game(cells)}


def _lanes(results: Path) -> dict[str, str]:
    """Rates by environments and lanes of a warp."""
    cells = [
        (f"{size:,} by {cell['kernel']['lanes_per_warp']}", cell)
        for size in GPU_SIZES
        for cell in _measured(_json(results / GPU / f"lanes-{size}.json"))
    ]
    return {"table_lanes": _by_game(cells)}


def _jaxtari(results: Path) -> dict[str, str]:
    published = {row["game"]: row for row in read_rows(results / "jaxtari_throughput.csv")}
    ratios: dict[int, dict[str, float]] = {}
    for cell in _json(results / GPU / "jaxtari-constant.json")["cells"]:
        size, game = cell["num_envs"], cell["game"]
        theirs = 1e3 * float(published[game][f"pixels_{size}"])
        ratios.setdefault(size, {})[game] = cell["frames_per_s"] / theirs
    found: dict[str, str] = {}
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


def _median_frames(rows: Rows) -> str:
    """Million frames before evaluations."""
    return f"{statistics.median(FRAMESKIP * int(row['steps']) / 1e6 for row in rows):.1f}"


def _learning(results: Path) -> dict[str, str]:
    lines = []
    for learner, game, pattern in RUNS:
        runs = [
            read_rows(folder / "evaluations.csv")
            for folder in sorted(results.glob(pattern))
            if (folder / "evaluations.csv").is_file()
        ]
        last = [run[-1] for run in runs]
        minutes = statistics.median(float(row["train_s"]) / 60 for row in last)
        score = statistics.median(float(row["mean"]) for row in last)
        solved = [row for row in map(_solved_at, runs) if row] if game == "Pong" else []
        reached = f"{len(solved)}: {_median_frames(solved)}" if solved else ""
        counts = (len(runs), _median_frames(last), f"{minutes:.1f}", f"{score:,.1f}", reached)
        lines.append((learner, game, *counts))
    objects = [
        _solved_at(read_rows(folder / "evaluations.csv"))
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
        rows = read_rows(results / GPU / f"{name}-evaluations.csv")
        runs.append(rows)
        rates.append(float(read_rows(results / GPU / f"{name}-progress.csv")[-1]["frames_per_s"]))
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


def _objects_and_pixels(results: Path) -> dict[str, str]:
    """Runs on objects and on pixels at the same time."""
    folder = results / "objects-and-pixels"
    games = sorted(path.name.removesuffix("-ppo-cpu") for path in folder.glob("*-ppo-cpu"))
    rows, ahead, minutes = [], [], []
    for game in games:
        runs = [
            read_rows(folder / f"{game}-{preset}" / "evaluations.csv")[-1]
            for preset in ("ppo-objects", "ppo-cpu")
        ]
        minutes += [float(run["train_s"]) / 60 for run in runs]
        if float(runs[0]["mean"]) > float(runs[1]["mean"]):
            ahead.append(game)
        row = [game]
        for run in runs:
            row.append(_millions(FRAMESKIP * float(run["steps"])))
            row.append(f"{float(run['mean']):,.1f}")
            row.append(f"{100 * float(run['human_normalized']):.0f} %")
        rows.append(row)
    columns = ("million frames", "score", "of human")
    head = ("game", *(f"{kind}: {name}" for kind in ("objects", "pixels") for name in columns))
    return {
        "both_games": str(len(games)),
        "both_ahead": str(len(ahead)),
        "both_minutes": f"{min(minutes):.0f} to {max(minutes):.0f}",
        "both_episodes": runs[0]["episodes"],
        "table_both": table(head, rows),
    }


def _self_play(results: Path) -> dict[str, str]:
    """Matches of the last policy of self-play with earlier ones."""
    matches = read_rows(results / "pong-self-play" / "matches.csv")

    def percent(row: dict[str, str]) -> str:
        low, high = (100 * float(row[f"win_rate_{end}"]) for end in ("low", "high"))
        return f"{low:.0f} to {high:.0f} %"

    names = [
        row["opponent_steps"]
        if row["opponent_steps"] == "random"
        else f"{int(row['opponent_steps']) / 1e6:.1f}"
        for row in matches
    ]
    rows = [
        ("matches won", *(row["wins"] for row in matches)),
        ("95 % interval", *map(percent, matches)),
        ("mean margin", *(f"{float(row['margin_mean']):.1f}" for row in matches)),
    ]
    return {
        "matches": matches[0]["matches"],
        "table_matches": table(("opponent", *names), rows),
    }


def _replay(results: Path) -> dict[str, str]:
    """Memory and time of replay memories of pixels."""
    pixels = _json(results / "replay.json")["cases"][0]["engines"]
    batches = ("16", "64", "512")
    rows = [
        (
            name,
            f"{engine['bytes_per_transition']:,.0f}",
            f"{engine['add_time_over_cule']:.1f}",
            *(f"{engine['sample_time_over_cule'][batch]:.1f}" for batch in batches),
        )
        for name, engine in pixels.items()
        if not name.startswith("list")
    ]
    head = ("memory", "bytes a transition", "time to add", *(f"to sample {n}" for n in batches))
    return {"table_replay": table(head, rows)}


def _datasets(results: Path) -> dict[str, str]:
    """Bytes of a step as an action log and as frames."""
    record = _json(results / "datasets.json")["games"]
    rows = [
        (
            name,
            f"{game['log_bytes_per_step']:.2f}",
            f"{game['compressed_frame_bytes_per_step']:.0f}",
            f"{game['frame_bytes_per_step']:,}",
            f"{game['steps'] / game['replay_stacks_s']:,.0f}",
        )
        for name, game in record.items()
    ]
    head = ("game", "action log", "compressed frames", "frames", "steps replayed a second")
    return {"table_datasets": table(head, rows)}


def _players(results: Path) -> dict[str, str]:
    """Speed of environments of two players."""
    rows = []
    for game, rates in _json(results / "players.json")["frames_per_second"].items():
        medians = {name: statistics.median(rates[name]) for name in rates}
        ratios = [_median_ratio(rates[ours], rates["PettingZoo"]) for ours in ("batch", "parallel")]
        shown = (medians[name] for name in ("two", "batch", "parallel", "PettingZoo"))
        rows.append((game, *(f"{rate:,.0f}" for rate in shown), *(f"{r:.1f}" for r in ratios)))
    head = ("game", "gray batch", "colour batch", "one", "PettingZoo", "batch over it", "one over")
    return {"table_players": table(head, rows)}


def _search(results: Path) -> dict[str, str]:
    """How far Go-Explore came."""
    found: dict[str, str] = {}
    for cells in ("ram", "frames"):
        last = read_rows(results / f"go_explore_{cells}.csv")[-1]
        found |= {
            f"search_{cells}_frames": f"{int(last['frames']) / 1e6:.1f}",
            f"search_{cells}_rooms": last["rooms"],
            f"search_{cells}_score": f"{float(last['best_score']):,.0f}",
            f"search_{cells}_minutes": f"{float(last['processor_s']) / 60:.1f}",
        }
    return found


def _variants() -> dict[str, str]:
    """Counts of objects and modifications, from the data of the package."""
    games = games_with_modifications()
    return {
        "object_games": str(len(games_with_objects())),
        "modified_games": str(len(games)),
        "modifications": str(sum(len(load_modifications(game)) for game in games)),
        "common_modifications": str(len(load_modifications(COMMON))),
    }
