"""Records to pictures: each says what was measured, in which unit, and on which hardware.

matplotlib is optional; it is imported here alone, and only when something is drawn.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cule.bench.engines import ENGINES, FRAMESKIP
from cule.bench.records import Record
from cule.bench.report import lanes_of, median_rate

MISSING_MATPLOTLIB = "plots are skipped: matplotlib is not installed; pip install 'cule[bench]'"

#: A colour for each engine, the same in all pictures; they differ in lightness as well.
COLOURS = {
    "cule-cpu": "#0b5fa5",
    "cule-cuda": "#5aa02c",
    "ale": "#d1495b",
    "ale-async": "#e8a598",
    "envpool": "#e09f3e",
}

#: Steps over which the speed after a reset is averaged.
SMOOTHED_STEPS = 10

#: Games in the picture of speed after a reset.
MAX_GAMES = 8

DPI = 130


def can_plot() -> bool:
    """Whether matplotlib is there."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_all(records: Sequence[Record], hardware: str, folder: Path) -> list[Path]:
    """Draw everything that there are records for.

    Args:
        records: Of all cells.
        hardware: The line under every picture.
        folder: Where to.

    Returns:
        The files.
    """
    paths = []
    for load in ("emulation", "inference"):
        chosen = of_load(records, load)
        if chosen:
            paths.append(plot_speed(chosen, load, hardware, folder / f"{load}-by-consoles.png"))
            if any(record["ratios"] for record in chosen):
                paths.append(plot_ratios(chosen, load, hardware, folder / f"{load}-ratios.png"))
    trained = of_load(records, "training")
    if trained:
        paths.append(plot_training(trained, hardware, folder / "training.png"))
    diverged = of_load(records, "divergence")
    for engine in lanes_of(diverged):
        path = folder / f"after-reset-{engine}.png"
        paths.append(plot_divergence(diverged, engine, hardware, path))
    return paths


def of_load(records: Sequence[Record], load: str) -> list[Record]:
    """Records of one load."""
    return [record for record in records if record["cell"]["load"] == load]


def plot_speed(records: Sequence[Record], load: str, hardware: str, path: Path) -> Path:
    """Frames a second, and a console's, against the number of consoles: boxes over games."""
    counted = [record for record in records if not record["ends_at_once"]] or list(records)
    sizes = sorted({record["cell"]["num_envs"] for record in counted})
    lanes = lanes_of(counted)
    figure, axes = _figure(1, 2, (11.0, 4.8))
    for axis, per_console in zip(axes[0], (False, True), strict=True):
        for place, lane in enumerate(lanes):
            boxes, positions = [], []
            for index, size in enumerate(sizes):
                values = [
                    rate / (size if per_console else 1)
                    for record in counted
                    if record["cell"]["num_envs"] == size
                    and (rate := median_rate(record, lane)) is not None
                ]
                if values:
                    boxes.append(values)
                    positions.append(index + (place - (len(lanes) - 1) / 2) * 0.8 / len(lanes))
            drawn = axis.boxplot(
                boxes,
                positions=positions,
                widths=0.7 / len(lanes),
                patch_artist=True,
                manage_ticks=False,
                medianprops={"color": "black"},
                flierprops={"marker": ".", "markersize": 4},
            )
            for box in drawn["boxes"]:
                box.set_facecolor(colour_of(lane))
            axis.plot([], [], color=colour_of(lane), linewidth=8, label=title_of(lane))
        axis.set_xticks(range(len(sizes)), size_labels(counted, sizes))
        axis.set_xlim(-0.7, len(sizes) - 0.3)
        axis.set_xlabel("consoles")
        axis.set_yscale("log")
        unit = "emulated frames a second"
        axis.set_ylabel(f"{unit} and console" if per_console else unit)
        axis.grid(axis="y", which="both", alpha=0.25)
        _plain_numbers(axis)
    axes[0][0].legend(fontsize=8)
    what = {
        "emulation": "Emulation with random actions",
        "inference": "Emulation and a Nature CNN that chooses the actions",
    }[load]
    note = (
        f"84x84 gray, 4 frames stacked, frame skip {FRAMESKIP}. Boxes: quartiles over games; "
        "line: median; whiskers: 1.5 interquartile ranges."
    )
    return _save(figure, f"{what}: frames a second by number of consoles", note, hardware, path)


def plot_ratios(records: Sequence[Record], load: str, hardware: str, path: Path) -> Path:
    """How many times as fast, game by game, at the largest number of consoles."""
    size = max(record["cell"]["num_envs"] for record in records)
    chosen = [record for record in records if record["cell"]["num_envs"] == size]
    names = list(dict.fromkeys(name for record in chosen for name in record["ratios"]))
    figure, axes = _figure(1, 1, (8.5, 2.2 + 0.36 * len(chosen)))
    axis = axes[0][0]
    for place, name in enumerate(names):
        ours, other = name.split(" / ")
        for index, record in enumerate(chosen):
            ratio = record["ratios"].get(name)
            if ratio is None:
                continue
            height = index + (place - (len(names) - 1) / 2) * 0.7 / len(names)
            low, high = ratio["quartiles"]
            axis.plot([low, high], [height, height], color=colour_of(other), linewidth=2)
            axis.plot(
                ratio["median"],
                height,
                marker="o" if ours == "cule-cpu" else "s",
                color=colour_of(other),
                label=f"{title_of(ours)} / {title_of(other)}" if not index else None,
            )
    marks = [r["cell"]["game"] + (" *" if r["ends_at_once"] else "") for r in chosen]
    axis.set_yticks(range(len(chosen)), marks)
    axis.set_ylim(len(chosen) - 0.4, -0.6)
    axis.axvline(1.0, color="black", linewidth=1)
    axis.set_xlim(left=0)
    axis.set_xlabel("times as fast (1: equal)")
    axis.grid(axis="x", alpha=0.25)
    axis.legend(fontsize=8)
    note = "Dots: medians of the ratios within a turn of all engines; lines: their quartiles."
    if any(record["ends_at_once"] for record in chosen):
        note += "\n* episodes end at once: mostly resets are timed."
    title = f"{load.capitalize()}: speed of cule over other engines, {size:,} consoles"
    return _save(figure, title, note, hardware, path)


def _length_of(config: dict[str, Any]) -> str:
    if "num_steps" in config:
        return f"rollouts of {config['num_steps']} steps"
    return f"{config['samples_per_insert']:g} samples a step, {config['batch_size']} a batch"


def plot_training(records: Sequence[Record], hardware: str, path: Path) -> Path:
    """Frames a second of learners, with how busy the device was."""
    sizes = sorted({record["cell"]["num_envs"] for record in records})
    lanes = lanes_of(records)
    figure, axes = _figure(1, 1, (8.5, 4.8))
    axis = axes[0][0]
    shades = ("#0b5fa5", "#5aa02c", "#e09f3e", "#d1495b", "#7d5ba6", "#777777")
    width = 0.8 / len(lanes)
    for place, lane in enumerate(lanes):
        for index, size in enumerate(sizes):
            found = [
                record["lanes"][lane]
                for record in records
                if record["cell"]["num_envs"] == size and lane in record["lanes"]
            ]
            if not found:
                continue
            rates = [one["frames_per_s"]["median"] for one in found]
            busy = [
                one["device_utilisation_percent"]
                for one in found
                if one["device_utilisation_percent"] is not None
            ]
            position = index + (place - (len(lanes) - 1) / 2) * width
            height = statistics.median(rates)
            axis.bar(
                position,
                height,
                width * 0.92,
                color=shades[place % len(shades)],
                label=lane if not index else None,
            )
            axis.vlines(position, min(rates), max(rates), color="black", linewidth=1)
            text = f"{height:,.0f}" + (f"\nGPU {statistics.median(busy):.0f} %" if busy else "")
            axis.annotate(
                text,
                (position, max(rates)),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
    axis.set_xticks(range(len(sizes)), size_labels(records, sizes))
    axis.set_xlabel("consoles")
    axis.set_ylabel("emulated frames a second")
    axis.margins(y=0.2)
    axis.grid(axis="y", alpha=0.25)
    axis.legend(fontsize=8)
    _plain_numbers(axis)
    rollouts = dict.fromkeys(
        f"{lane}: {config['network']} network, {_length_of(config)}"
        for record in records
        for lane, config in record["learners"].items()
    )
    note = "Rollouts and updates. Bars: medians over games; lines: least to most."
    note += "".join(f"\n{text}" for text in rollouts)
    return _save(figure, "Training: frames a second by learner", note, hardware, path)


def plot_divergence(records: Sequence[Record], engine: str, hardware: str, path: Path) -> Path:
    """Speed over time after a common reset, and the consoles that each step resets."""
    chosen = [record for record in records if engine in record["lanes"]][:MAX_GAMES]
    figure, axes = _figure(2, 1, (9.0, 6.2), sharex=True)
    speeds, resets = axes[0][0], axes[1][0]
    num_envs = chosen[0]["cell"]["num_envs"]
    for record in chosen:
        lane = record["lanes"][engine]
        seconds = lane["step_s"]
        rates = []
        for end in range(1, len(seconds) + 1):
            part = seconds[max(0, end - SMOOTHED_STEPS) : end]
            rates.append(num_envs * FRAMESKIP * len(part) / sum(part))
        frames = [FRAMESKIP * (step + 1) for step in range(len(seconds))]
        speeds.plot(frames, rates, linewidth=1.2, label=record["cell"]["game"])
        resets.plot(frames, lane["resetting_consoles"], linewidth=1.0)
    speeds.set_ylabel("emulated frames a second")
    speeds.set_ylim(bottom=0)
    speeds.legend(fontsize=8, ncols=2)
    _plain_numbers(speeds)
    resets.set_ylabel(f"consoles reset (of {num_envs:,})")
    resets.set_xlabel("emulated frames of each console since the common reset")
    most = max(max(record["lanes"][engine]["resetting_consoles"]) for record in chosen)
    resets.set_ylim(0, max(1, most) * 1.05)
    resets.yaxis.get_major_locator().set_params(integer=True)
    for axis in (speeds, resets):
        axis.grid(alpha=0.25)
    title = f"{title_of(engine)}: speed after a common reset of {num_envs:,} consoles"
    note = f"Random actions, frame skip {FRAMESKIP}; speed averaged over {SMOOTHED_STEPS} steps."
    return _save(figure, title, note, hardware, path)


def size_labels(records: Sequence[Record], sizes: Sequence[int]) -> list[str]:
    """Numbers of consoles, and of how many games there are records."""
    counts = [sum(record["cell"]["num_envs"] == size for record in records) for size in sizes]
    return [
        f"{size:,}\n({count} game{'s' * (count > 1)})"
        for size, count in zip(sizes, counts, strict=True)
    ]


def colour_of(lane: str) -> str:
    """The colour of an engine."""
    return COLOURS.get(lane, "#777777")


def title_of(lane: str) -> str:
    """The name of an engine that a reader knows."""
    return ENGINES[lane].title if lane in ENGINES else lane


def _figure(rows: int, columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    # Without pyplot: no window system is asked for, and no global state is changed.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def _plain_numbers(axis: Any) -> None:
    """Write the numbers of the vertical axis out; on a logarithmic one 1, 2, 5 of a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if axis.get_yscale() == "log":
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _save(figure: Any, title: str, note: str, hardware: str, path: Path) -> Path:
    figure.suptitle(title, fontsize=12)
    figure.supxlabel(f"{note}\n{hardware}", fontsize=8, color="#444444")
    figure.savefig(path, dpi=DPI)
    return path
