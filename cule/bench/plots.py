"""Records to plots, each with what was measured, the units and the hardware.

matplotlib is optional; it is imported only here, and only to draw.
"""

from __future__ import annotations

import importlib.util
import io
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from cule.bench.engines import ENGINES, FRAMESKIP
from cule.bench.options import LOADS
from cule.bench.records import Record
from cule.bench.report import (
    game_label,
    is_of_cpus,
    median_rate,
    median_utilization,
    of_load,
    run_names,
    runs_named,
    sizes_of,
    uneven_cores,
    unmarked,
)
from cule.files import replace_bytes

MISSING_MATPLOTLIB = "plots are skipped: matplotlib is not installed; pip install 'cule[bench]'"

#: A colour for each engine, the same in all plots; they differ in lightness as well.
COLOURS = {
    "cule-cpu": "#0b5fa5",
    "cule-cuda": "#5aa02c",
    "ale": "#d1495b",
    "ale-async": "#e8a598",
    "envpool": "#e09f3e",
}
#: A marker for each engine; other engines get the one of their place.
MARKERS = dict(zip(COLOURS, "osv^D", strict=True))

#: Colours of agents, in order.
AGENT_COLOURS = ("#0b5fa5", "#5aa02c", "#e09f3e", "#d1495b", "#7d5ba6", "#777777")

TITLES = {
    "emulation": "Emulation with random actions",
    "inference": "Emulation and a Nature CNN that chooses the actions",
}

#: Games from which on speeds are drawn as boxes.
MIN_BOXED_GAMES = 4

#: Numbers from which on digits after the point are left out.
MIN_WHOLE = 10

#: Marks up to which each has its number in the plot of ratios.
MAX_NUMBERS = 40

#: Steps of the moving average of the speed after a reset.
SMOOTHED_STEPS = 10

#: Games in the plot of speed after a reset.
MAX_GAMES = 8

DPI = 130

#: Of the number next to a mark: its `xytext` is the distance in points.
IN_POINTS: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8}

#: Figures and axes of matplotlib, which is optional; its types are not checked.
Figure: TypeAlias = Any
Axes: TypeAlias = Any


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_all(
    records: Sequence[Record],
    hardware: str,
    folder: Path,
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> list[Path]:
    """Draw all plots that there are records for.

    The lines under each are its note, the hardware, and by load what the time limit left out.
    """
    paths = []
    below = {
        load: f"{hardware}\n{left_out[load]}" if load in left_out else hardware for load in LOADS
    }
    for load in TITLES:
        chosen = of_load(records, load)
        if chosen:
            path = folder / f"{load}-by-environments.png"
            paths.append(plot_speed(chosen, load, below[load], path))
            if any(record["ratios"] for record in chosen):
                paths.append(plot_ratios(chosen, load, below[load], folder / f"{load}-ratios.png"))
    trained = of_load(records, "training")
    if trained:
        paths.append(plot_training(trained, below["training"], folder / "training.png"))
    diverged = of_load(records, "divergence")
    for engine in dict.fromkeys(name for r in diverged for name in r["divergence_runs"]):
        path = folder / f"after-reset-{engine}.png"
        paths.append(plot_divergence(diverged, engine, below["divergence"], path))
    return paths


def plot_speed(records: Sequence[Record], load: str, hardware: str, path: Path) -> Path:
    """Frames per second, in total and per environment, by size: lines, or boxes over games.

    At a single size there are bars.
    """
    counted = unmarked(records)
    sizes, names = sizes_of(counted), run_names(counted)
    if len(sizes) == 1:
        return _plot_bars(counted, names, sizes[0], load, hardware, path)
    has_boxes = len({record["cell"]["game"] for record in counted}) >= MIN_BOXED_GAMES
    figure, axes = _figure(1, 2, (11.0, 4.8))
    for axis, is_per_env in zip(axes[0], (False, True), strict=True):
        ends = []
        for place, name in enumerate(names):
            positions, rates = [], []
            for index, size in enumerate(sizes):
                runs = runs_named(of_load(counted, load, size), name)
                if runs:
                    divisor = size if is_per_env else 1
                    rates.append([run["frames_per_s"]["median"] / divisor for run in runs])
                    positions.append(index + _offset(place, len(names), 0.8 if has_boxes else 0.2))
            colour, marker = _style_of(name, place)
            if has_boxes:
                _draw_boxes(axis, rates, positions, 0.7 / len(names), colour)
            for position, own in zip(positions, [] if has_boxes else rates, strict=False):
                axis.plot([position] * len(own), own, marker, color=colour, alpha=0.4, zorder=2)
            medians = [statistics.median(own) for own in rates]
            line = "none" if has_boxes else "-"
            axis.plot(positions, medians, linestyle=line, marker=marker, color=colour, zorder=3)
            ends.append((positions[-1], medians[-1], _title_of(name), colour))
        _label_sizes(axis, counted, sizes)
        axis.set_xlim(-0.7, len(sizes) - 0.3)
        axis.set_yscale("log")
        axis.margins(y=0.12)
        unit = "emulated frames per second"
        axis.set_ylabel(f"{unit} and environment" if is_per_env else unit)
        axis.grid(axis="y", which="both", alpha=0.25)
        _plain_numbers(axis)
        _label_ends(axis, ends)
    shape = (
        "Boxes: quartiles over games; marks: medians; whiskers: 1.5 interquartile ranges."
        if has_boxes
        else "Marks: games; lines: their medians."
    )
    note = (
        f"84x84 gray, 4 frames stacked, frame skip {FRAMESKIP}. {shape} Right of each panel: "
        "medians at the largest size."
    )
    title = f"{TITLES[load]}: frames per second by number of environments"
    return _save(figure, title, note, hardware, path)


def _plot_bars(
    records: Sequence[Record], names: Sequence[str], size: int, load: str, hardware: str, path: Path
) -> Path:
    """Medians over games of the frames per second of each engine, and the games as marks."""
    figure, axes = _figure(1, 1, (8.5, 1.9 + 0.45 * len(names)))
    axis = axes[0][0]
    for place, name in enumerate(names):
        rates = [run["frames_per_s"]["median"] for run in runs_named(records, name)]
        middle = statistics.median(rates)
        colour, marker = _style_of(name, place)
        axis.barh(place, middle, 0.6, color=colour, alpha=0.6)
        if len(rates) > 1:
            axis.plot(rates, [place] * len(rates), marker, color=colour, markersize=4, zorder=3)
        axis.annotate(
            f"{middle:,.0f}", (max(rates), place), xytext=(6, 0), va="center", **IN_POINTS
        )
    axis.set_yticks(range(len(names)), [_title_of(name) for name in names])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.15 * axis.get_xlim()[1])
    axis.set_xlabel("emulated frames per second")
    axis.grid(axis="x", alpha=0.25)
    marks = "; marks: games" if len({record["cell"]["game"] for record in records}) > 1 else ""
    note = f"84x84 gray, 4 frames stacked, frame skip {FRAMESKIP}. Bars: medians over games{marks}."
    title = f"{TITLES[load]}: frames per second of {size:,} environments"
    return _save(figure, title, note, hardware, path)


def _draw_boxes(
    axis: Axes, rates: list[list[float]], positions: list[float], width: float, colour: str
) -> None:
    drawn = axis.boxplot(
        rates,
        positions=positions,
        widths=width,
        patch_artist=True,
        manage_ticks=False,
        medianprops={"color": "black"},
        flierprops={"marker": ".", "markersize": 4},
    )
    for box in drawn["boxes"]:
        box.set_facecolor(colour)
        box.set_alpha(0.6)


def _label_ends(axis: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write names and numbers of series to the right of their last marks, without overlaps."""
    low, high = (math.log10(limit) for limit in axis.get_ylim())
    lowest = 0.0
    for x, y, name, colour in sorted(ends, key=lambda end: end[1]):
        height = max((math.log10(y) - low) / max(high - low, 1e-9), lowest)
        lowest = height + 0.07
        axis.annotate(
            f"{name}  {y:,.0f}" if y >= MIN_WHOLE else f"{name}  {y:.2g}",
            xy=(x, y),
            xytext=(1.02, height),
            textcoords="axes fraction",
            fontsize=8,
            va="center",
            arrowprops={"arrowstyle": "-", "color": colour},
            annotation_clip=False,
        )


def plot_ratios(records: Sequence[Record], load: str, hardware: str, path: Path) -> Path:
    """Speed of cule over that of other engines by game, at the largest size with most games."""
    counts = Counter(record["cell"]["num_envs"] for record in records)
    size = max(counts, key=lambda size: (counts[size], size))
    chosen = of_load(records, load, size)
    names = list(dict.fromkeys(name for record in chosen for name in record["ratios"]))
    figure, axes = _figure(1, 1, (8.5, 2.2 + max(0.36, 0.2 * len(names)) * len(chosen)))
    axis = axes[0][0]
    has_numbers = len(chosen) * len(names) <= MAX_NUMBERS
    for place, name in enumerate(names):
        ours, other = name.split(" / ")
        colour, marker = _style_of(other, place)
        label = f"{_title_of(ours)} / {_title_of(other)}"
        for index, record in enumerate(chosen):
            ratio = record["ratios"].get(name)
            if ratio is None:
                continue
            height = index + _offset(place, len(names), 0.7)
            axis.plot(ratio["quartiles"], [height, height], color=colour, linewidth=2)
            axis.plot(
                ratio["median"],
                height,
                linestyle="none",
                marker=marker,
                markerfacecolor=colour if ours == "cule-cpu" else "white",
                color=colour,
                label=label,
            )
            label = "_nolegend_"
            if is_of_cpus(name):
                by_cpu_time = ratio["by_cpu_time"]["median"]
                axis.plot(by_cpu_time, height, marker="|", markersize=9, color="black")
            if has_numbers:
                text, end = f"{ratio['median']:.2f}", (max(ratio["quartiles"]), height)
                axis.annotate(text, end, xytext=(5, 0), va="center", **IN_POINTS)
    axis.set_yticks(range(len(chosen)), [game_label(record) for record in chosen])
    axis.set_ylim(len(chosen) - 0.4, -0.6)
    axis.axvline(1.0, color="black", linewidth=1)
    axis.margins(x=0.12)
    axis.set_xlim(left=0)
    axis.set_xlabel("speed ratio (1: equal)")
    axis.grid(axis="x", alpha=0.25)
    axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    note = "Dots: medians of the ratios of single rounds; lines: their quartiles."
    if any(map(is_of_cpus, names)):
        note += " Black: by processor time."
    note += "".join(f"\n{line}" for line in uneven_cores(chosen))
    if any(record["ends_at_once"] for record in chosen):
        note += "\n* episodes end at once: mostly resets are timed."
    title = f"{load.capitalize()}: speed of cule over other engines, {size:,} environments"
    return _save(figure, title, note, hardware, path)


def plot_training(records: Sequence[Record], hardware: str, path: Path) -> Path:
    """Frames per second of agents, with the utilization of the device."""
    sizes, names = sizes_of(records), run_names(records)
    figure, axes = _figure(1, 1, (8.5, 4.8))
    axis = axes[0][0]
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        for index, size in enumerate(sizes):
            runs = runs_named(of_load(records, "training", size), name)
            height = median_rate(runs)
            if height is None:
                continue
            rates = [run["frames_per_s"]["median"] for run in runs]
            position = index + _offset(place, len(names), 0.8)
            axis.bar(
                position,
                height,
                width * 0.92,
                color=AGENT_COLOURS[place % len(AGENT_COLOURS)],
                label=name if not index else None,
            )
            axis.vlines(position, min(rates), max(rates), color="black", linewidth=1)
            busy = median_utilization(runs)
            text = f"{height:,.0f}" + ("" if busy is None else f"\nGPU {busy:.0f} %")
            top = (position, max(rates))
            axis.annotate(text, top, xytext=(0, 3), ha="center", **IN_POINTS)
    _label_sizes(axis, records, sizes)
    axis.set_ylabel("emulated frames per second")
    axis.margins(y=0.2)
    axis.grid(axis="y", alpha=0.25)
    axis.legend(fontsize=8)
    _plain_numbers(axis)
    configs = dict.fromkeys(
        f"{name}: {config['network']} network, {length_of(config)}"
        for record in records
        for name, config in record["agents"].items()
    )
    note = "\n".join(["Rollouts and updates. Bars: medians over games; lines: range.", *configs])
    return _save(figure, "Training: frames per second by agent", note, hardware, path)


def length_of(config: dict[str, object]) -> str:
    """Amount of data that an agent learns from at a time."""
    if "num_steps" in config:
        return f"rollouts of {config['num_steps']} steps"
    return f"{config['samples_per_insert']:g} samples per step, batches of {config['batch_size']}"


def plot_divergence(records: Sequence[Record], engine: str, hardware: str, path: Path) -> Path:
    """Speed over time after a common reset, and the environments that each step resets."""
    chosen = [record for record in records if engine in record["divergence_runs"]][:MAX_GAMES]
    figure, axes = _figure(2, 1, (9.0, 6.2))
    speeds, resets = axes[0][0], axes[1][0]
    num_envs = chosen[0]["cell"]["num_envs"]
    for record in chosen:
        run = record["divergence_runs"][engine]
        seconds = run["step_s"]
        rates = []
        for end in range(1, len(seconds) + 1):
            part = seconds[max(0, end - SMOOTHED_STEPS) : end]
            rates.append(num_envs * FRAMESKIP * len(part) / sum(part))
        frames = [FRAMESKIP * (step + 1) for step in range(len(seconds))]
        speeds.plot(frames, rates, linewidth=1.2, label=record["cell"]["game"])
        resets.plot(frames, run["resetting_envs"], linewidth=1.0)
    speeds.set_ylabel("emulated frames per second")
    speeds.set_ylim(bottom=0)
    speeds.legend(fontsize=8, ncols=2)
    _plain_numbers(speeds)
    resets.set_ylabel(f"environments reset (of {num_envs:,})")
    resets.set_xlabel("emulated frames of each environment since the common reset")
    most = max(max(record["divergence_runs"][engine]["resetting_envs"]) for record in chosen)
    resets.set_ylim(0, max(1, most) * 1.05)
    resets.yaxis.get_major_locator().set_params(integer=True)
    for axis in (speeds, resets):
        axis.grid(alpha=0.25)
    title = f"{_title_of(engine)}: speed after a common reset of {num_envs:,} environments"
    note = f"Random actions, frame skip {FRAMESKIP}; speed averaged over {SMOOTHED_STEPS} steps."
    return _save(figure, title, note, hardware, path)


def _label_sizes(axis: Axes, records: Sequence[Record], sizes: Sequence[int]) -> None:
    """Label the horizontal axis with sizes and their number of games."""
    counts = [sum(record["cell"]["num_envs"] == size for record in records) for size in sizes]
    labels = [
        f"{size:,}\n({count} game{'s' * (count > 1)})"
        for size, count in zip(sizes, counts, strict=True)
    ]
    axis.set_xticks(range(len(sizes)), labels)
    axis.set_xlabel("environments")


def _offset(place: int, count: int, width: float) -> float:
    """Horizontal place of one of several marks around a tick."""
    return (place - (count - 1) / 2) * width / count


def _style_of(name: str, place: int) -> tuple[str, str]:
    """Colour and marker of an engine; of one with a geometry or kernel by its place."""
    colour = COLOURS.get(name) or AGENT_COLOURS[place % len(AGENT_COLOURS)]
    return colour, MARKERS.get(name) or "osv^DPX*"[place % 8]


def _title_of(name: str) -> str:
    return ENGINES[name].title if name in ENGINES else name


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Axes]:
    # Without pyplot: it would ask for a window system and change global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex="col")


def _plain_numbers(axis: Axes) -> None:
    """Write the numbers of the vertical axis in full; on a logarithmic one 1, 2, 5 of a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if axis.get_yscale() == "log":
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _save(figure: Figure, title: str, note: str, hardware: str, path: Path) -> Path:
    figure.suptitle(title, fontsize=12)
    figure.supxlabel(f"{note}\n{hardware}", fontsize=8, color="#444444")
    picture = io.BytesIO()
    figure.savefig(picture, dpi=DPI)
    replace_bytes(path, picture.getvalue())
    return path
