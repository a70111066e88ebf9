"""The report: its numbers are those of the records, and no other number is in its text."""

from __future__ import annotations

import csv
import json
import re
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report.__main__ import TEXT, build, write_pdf
from benchmarks.report.numbers import RESULTS

#: Numbers of the text that are no measurements: the console, observations, versions, protocols.
ALLOWED = {
    *("2600", "6507", "128", "84x84", "84x84x4", "4", "86-64", "17", "0.12.1", "30"),
    *("1,024", "4,096", "8,192", "32,768", "15"),
}

#: Records that the report reads; folders of runs by one of them.
RECORDS = [
    "bench-57-games.json",
    "fps-1-thread.json",
    "long_parity.csv",
    "modes_parity.csv",
    "replay.json",
    "datasets.json",
    "jax.json",
    "step_model.json",
    "jaxtari_throughput.csv",
    "gpu-h200/equal-all-interpreter.json",
    "gpu-h200/equal-all-compiled.json",
    "gpu-h200/fps-57.json",
    "gpu-h200-2/fps-57.json",
    "gpu-h200-2/fps-interpreter.json",
    "gpu-h200-2/fps-compiled.json",
    "gpu-h200-2/played-now.json",
    "gpu-h200-2/lanes-1200.json",
    "gpu-h200-2/lanes-4096.json",
    "gpu-h200-2/lanes-32768.json",
    "gpu-h200-2/jaxtari-constant.json",
    "gpu-h200-2/pong-evaluations.csv",
    "gpu-h200-2/pong-1-evaluations.csv",
    "gpu-h200-2/pong-1-progress.csv",
    "pong-ppo-objects-seed-1/evaluations.csv",
    "breakout-a2c-eps/evaluations.csv",
    "qbert-apex-dqn/evaluations.csv",
    "objects-and-pixels/boxing-ppo-cpu/evaluations.csv",
    "objects-and-pixels/space_invaders-ppo-objects/evaluations.csv",
    "pong-self-play/matches.csv",
    "go_explore_ram.csv",
    "go_explore_frames.csv",
    "players.json",
]


def record(name: str) -> Any:
    path = RESULTS / name
    if path.suffix == ".json":
        return json.loads(path.read_text())
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def report() -> str:
    return build()


def cells(report: str, start: str) -> list[str]:
    """The cells of the one row of a table that starts so, without the first."""
    (row,) = re.findall(rf"^\| {re.escape(start)} \|(.*)\|$", report, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


def test_numbers_are_those_of_the_records(report: str) -> None:
    games = record("bench-57-games.json")["records"]
    ratios = [game["ratios"]["cule-cpu / ale"]["median"] for game in games]
    assert f"it emulates {statistics.median(ratios):.1f} times as many frames" in report.replace(
        "\n", " "
    )
    assert cells(report, "ale-py, 57 games, 2 threads")[:3] == [
        f"{statistics.median(ratios):.1f}",
        f"{min(ratios):.1f}",
        f"{max(ratios):.1f}",
    ]
    for game in games:
        name, ours = game["cell"]["game"], game["runs"]["cule-cpu"]["frames_per_s"]["median"]
        expected = [f"{ours:,.0f}", f"{game['ratios']['cule-cpu / ale']['median']:.1f}"]
        assert f"| {name} | {expected[0]} | {expected[1]} |" in report, name

    frames = sum(int(row["frames"]) for row in record("long_parity.csv"))
    assert cells(report, "ale-py, an hour of emulated time a game")[1] == f"{frames:,} frames"

    on_gpu = record("gpu-h200-2/fps-57.json")
    rates = [c["frames_per_s"] for c in on_gpu["cells"] if c["num_envs"] == 32768]
    row = cells(report, f"32,768, {on_gpu['when'][:10]}")
    assert row[:2] == [str(len(rates)), f"{statistics.median(rates) / 1e6:.1f}"]
    assert row[2].split()[0] == f"{min(rates) / 1e6:.2f}"

    for seed in ("pong", "pong-1"):
        last = record(f"gpu-h200-2/{seed}-evaluations.csv")[-1]
        text = f"a score of {float(last['mean']):.1f} after {float(last['train_s']):.1f} seconds"
        assert text in report.replace("\n", " ")

    (run,) = [record("breakout-a2c-eps/evaluations.csv")]
    assert cells(report, "A2C") == [
        "Breakout",
        "1",
        f"{4 * int(run[-1]['steps']) / 1e6:.1f}",
        f"{float(run[-1]['train_s']) / 60:.1f}",
        f"{float(run[-1]['mean']):.1f}",
        "",
    ]

    both = [
        record(f"objects-and-pixels/breakout-{kind}/evaluations.csv")[-1]
        for kind in ("ppo-objects", "ppo-cpu")
    ]
    match = re.search(r"^\| breakout \|(.* %.*)\|$", report, re.MULTILINE)
    assert match is not None
    assert [cell.strip() for cell in match[1].split("|")] == [
        cell
        for run in both
        for cell in (
            f"{4 * int(run['steps']) / 1e6:.1f}",
            f"{float(run['mean']):.1f}",
            f"{100 * float(run['human_normalized']):.0f} %",
        )
    ]

    match = re.search(r"^\| beam_rider \|  \| .*\|$", report, re.MULTILINE)
    assert match is not None
    now = record("gpu-h200-2/played-now.json")["cells"]
    beam = [c["frames_per_s"] for c in now if c["game"] == "beam_rider" and "frames_per_s" in c]
    assert match[0].split("|")[-3:-1] == [f" {beam[0] / 1e6:.2f} ", f" {beam[1] / 1e6:.1f} "]

    pong = record("datasets.json")["games"]["pong"]
    assert f"| pong | {pong['log_bytes_per_step']:.2f} | " in report


def test_the_page_on_modifications_has_the_same_counts(report: str) -> None:
    counts = re.search(r"(\d+) modifications of\n(\d+) games and (\d+) of every game", report)
    assert counts is not None
    page = (RESULTS.parents[1] / "docs" / "modifications.md").read_text()
    assert f"{counts[3]} of every game, and {counts[1]} of {counts[2]} games" in page


def test_the_page_on_rewritten_games_has_the_same_frames() -> None:
    page = (RESULTS.parents[1] / "docs" / "rewritten.md").read_text()
    for name in ("long_parity.csv", "modes_parity.csv"):
        frames = sum(int(row["frames"]) for row in record(name))
        assert f"{frames:,} " in page


def test_the_text_has_no_number_of_its_own() -> None:
    text, _, rest = TEXT.read_text().partition("## References")
    text = re.sub(
        r"!\[\].*|\{\w+\}|\[\d\]|`[^`]*`|[Tt]able \d+|[Ff]igure \d|[Ss]ections? \d( and \d)?",
        "",
        text,
    )
    text = re.sub(r"^## \d\.", "", text, flags=re.MULTILINE)
    text = text.replace("H200", "").replace("A2C", "").replace("grey line is 1.", "")
    found = set(re.findall(r"\d[\dx.,-]*\d|\d", text))
    assert found <= ALLOWED, found - ALLOWED
    assert set(re.findall(r"\[(\d)\]", text)) <= set(re.findall(r"^\[(\d)\]", rest, re.MULTILINE))


def changed(value: Any, factor: int = 2) -> Any:
    """The same record with other measurements, whose ratios differ, too."""
    if isinstance(value, dict):
        return {
            key: inner if key == "num_envs" else changed(inner, factor + i)
            for i, (key, inner) in enumerate(value.items())
        }
    if isinstance(value, list):
        return [changed(inner, factor) for inner in value]
    return value if not isinstance(value, int | float) or value is True else factor * value


@pytest.mark.parametrize("name", RECORDS)
def test_another_record_makes_another_report(name: str, report: str, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(RESULTS, results)
    path = results / name
    if path.suffix == ".json":
        path.write_text(json.dumps(changed(json.loads(path.read_text()))))
    else:
        numbers = re.compile(r"(?<=,)(\d+(?:\.\d+)?)(?=,|$)", re.MULTILINE)
        path.write_text(numbers.sub(lambda match: "3" + match[1], path.read_text()))
    assert build(results) != report


def test_it_is_a_pdf_of_about_eight_pages(report: str, tmp_path: Path) -> None:
    pytest.importorskip("fpdf", reason="make docs installs fpdf2")
    write_pdf(report, tmp_path / "report.pdf")
    pages = re.findall(rb"/Type /Page\b", (tmp_path / "report.pdf").read_bytes())
    assert 8 <= len(pages) <= 9
