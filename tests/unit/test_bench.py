"""The FPS suite without a clock: comparisons, counts, records, resume and errors."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cule
from cule.bench import (
    engines,
    interleaved,
    machine,
    meter,
    options,
    plots,
    records,
    report,
    training,
)
from cule.bench.games import ATARI_57, DEFAULT_GAMES, games_named
from cule.bench.options import PRESETS, BenchOptions, Cell, cells_of
from cule.bench.records import OtherRunError
from cule.bench.suite import run_suite
from cule.envs import RunningKernel
from cule.errors import InvalidArgumentError, UnknownGameError
from tests.support.bench_records import fake_record

Obs = np.ndarray[Any, np.dtype[np.uint8]]


# --- Games and options ----------------------------------------------------------------------------


def test_sets_of_games() -> None:
    assert len(set(ATARI_57)) == 57
    assert set(ATARI_57) < set(games_named(["all"]))
    assert len(games_named(["all"])) == 104
    assert games_named(["default"]) == DEFAULT_GAMES
    assert games_named(["pong", "default", "pong"])[:2] == ("pong", "breakout")
    with pytest.raises(UnknownGameError, match=r"pang.*default, 57, all"):
        games_named(["pong", "pang"])


@pytest.mark.parametrize("device", ["meta", "nope", "cuda:99"])
def test_a_device_that_torch_cannot_use_is_refused(device: str) -> None:
    pytest.importorskip("torch")
    options = BenchOptions(load=("inference",), engines=("cule-cpu",), network_device=device)
    with pytest.raises(InvalidArgumentError, match=f"network_device is '{device}'"):
        run_suite(options, lambda _: None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"engines": ("cule",)}, "engines has 'cule'.*cule-cpu"),
        ({"engines": ("cule-cuda@3x4",)}, "engines has 'cule-cuda@3x4'.*such as cule-cuda@8x4"),
        ({"engines": ("ale@8x4",)}, "engines has 'ale@8x4'"),
        (
            {"engines": ("ale@compiled",)},
            "engines has 'ale@compiled'.*such as cule-cpu@interpreter",
        ),
        ({"engines": ("cule-cpu@8x4",)}, "engines has 'cule-cpu@8x4'"),
        ({"engines": ("cule-cpu@0threads",)}, "engines has 'cule-cpu@0threads'.*cule-cpu@2threads"),
        ({"engines": ("ale@low_memory",)}, "engines has 'ale@low_memory'.*cule-cpu@low_memory"),
        ({"engines": ("cule-cuda@compiled@8x4",)}, "engines has 'cule-cuda@compiled@8x4'"),
        ({"load": ("sleeping",)}, "load has 'sleeping'.*emulation"),
        ({"games": ()}, "games is empty"),
        ({"algorithms": ()}, "algorithms is empty"),
        ({"num_envs": (4, 0)}, "num_envs has 0"),
        ({"rounds": 1}, "rounds is 1.*at least 2"),
        ({"num_envs": (8, 2**20 + 1)}, "num_envs has 1048577.*from 1 to 1048576"),
        ({"seed": 2**30}, "seed is 1073741824.*from 0 to 1073741823"),
        ({"seconds": -1.0}, "seconds is -1.0.*at least 0"),
        ({"threads": -1}, "threads is -1"),
        ({"threads": 99_999}, "threads is 99999; it must be from 0 to 1024"),
        ({"engines": ("cule-cpu@1025threads",)}, "engines has 'cule-cpu@1025threads'"),
        ({"seed": -1}, "seed is -1"),
        ({"resume": True}, "resume needs out"),
    ],
)
def test_invalid_options(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        BenchOptions(**given)


def test_agents_with_continuous_actions_are_invalid() -> None:
    pytest.importorskip("torch")
    with pytest.raises(InvalidArgumentError, match=r"algorithms has 'apex-dpg'.*a2c"):
        training.check_algorithms(["a2c", "apex-dpg"])


@pytest.mark.parametrize(
    ("num_envs", "rollout_steps", "batches", "steps"),
    [(256, 0, 16, 16), (1200, 0, 20, 20), (4096, 0, 16, 16), (7, 0, 7, 7), (23, 8, 1, 8)],
)
def test_batches_of_vtrace_divide_the_environments(
    num_envs: int, rollout_steps: int, batches: int, steps: int
) -> None:
    pytest.importorskip("torch")
    options = BenchOptions(rollout_steps=rollout_steps)
    config = training.config_of("vtrace", "cule-cpu", "pong", num_envs, 1, options)
    assert (config.num_batches, config.num_steps) == (batches, steps)


def test_cells() -> None:
    given = BenchOptions(games=("pong", "qbert"), num_envs=(8, 2, 8), load=("emulation",))
    assert [cell.key for cell in cells_of(given, False)] == [
        "emulation-2-pong",
        "emulation-2-qbert",
        "emulation-8-pong",
        "emulation-8-qbert",
    ]
    given = dataclasses.replace(given, load=("divergence", "inference"), games=("pong",))
    keys = [cell.key for cell in cells_of(given, False)]
    assert keys == ["inference-2-pong", "divergence-8-pong", "inference-8-pong"]
    whole = cells_of(BenchOptions(), False)
    first = whole[: len(DEFAULT_GAMES) * len(options.LOADS)]  # all games before a second size
    assert {(cell.load, cell.game) for cell in first} == {(c.load, c.game) for c in whole}
    assert len({(cell.load, cell.game) for cell in first}) == len(first) < len(whole)
    for has_gpu in (False, True):
        sizes = {cell.num_envs for cell in cells_of(BenchOptions(games=("pong",)), has_gpu)}
        assert (max(sizes) > 1000) is has_gpu


def test_presets() -> None:
    assert PRESETS["default"] == BenchOptions()
    assert PRESETS["one-thread"].threads == 1
    assert len(PRESETS["57-games"].games) == 57
    geometries = [engines.variant_of(name).geometry for name in PRESETS["gpu-geometry"].engines]
    assert {lanes for lanes, _ in geometries} == {1, 2, 4, 8, 16, 32}
    assert {warps for _, warps in geometries} == {1, 2, 4}


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("cule-cpu", {}),
        ("cule-cpu@compiled", {"kernel": "compiled"}),
        ("cule-cpu@low_memory", {"low_memory": True}),
        ("cule-cpu@low_memory@compiled", {"low_memory": True, "kernel": "compiled"}),
        ("cule-cpu@async", {"is_async": True}),
        (
            "cule-cpu@async@16threads@compiled",
            {"is_async": True, "threads": 16, "kernel": "compiled"},
        ),
        ("cule-cuda@interpreter", {"kernel": "interpreter"}),
        ("cule-cuda@16x2", {"geometry": (16, 2)}),
        ("cule-cuda@16x2@compiled", {"geometry": (16, 2), "kernel": "compiled"}),
        ("ale", {}),
    ],
)
def test_variant_of_an_engine(name: str, variant: dict[str, Any]) -> None:
    assert engines.variant_of(name) == engines.Variant(**variant)
    assert engines.kind_of(name) is engines.ENGINES[name.partition("@")[0]]


# --- Records --------------------------------------------------------------------------------------


def test_numbers_of_a_record() -> None:
    record = fake_record("emulation", 8, "pong")
    run = record["runs"]["ale"]
    assert run["frames_per_s"] == {
        "median": 2000,
        "quartiles": [2000, 2000],
        "rounds": [2000, 2000, 2000],
    }
    assert run["frames_per_s_per_env"] == 250
    assert run["ms_per_step"] == 16  # 8 environments x 4 frames
    assert record["runs"]["cule-cpu"]["cpu_cores_busy"] == 2
    assert record["ratios"]["cule-cpu / ale"]["median"] == 2
    assert record["ratios"]["cule-cpu / ale"]["by_cpu_time"]["median"] == 1
    assert not record["ends_at_once"]
    assert interleaved.quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 4.0)
    assert interleaved.quartiles([3.0]) == (3.0, 3.0)


def test_records_are_found_again(tmp_path: Path) -> None:
    given = BenchOptions(out=tmp_path)
    settings = records.settings_of(given, ["cule-cpu"], 2, {"cpus": 2}, {"commit": "a"})
    cell = Cell("emulation", "pong", 8)
    folder = records.Records(tmp_path, settings, resume=False)
    assert folder.find(cell) is None
    written = folder.write(cell, {"runs": {}})
    assert folder.find(cell) == written
    assert written["cell"] == {"load": "emulation", "game": "pong", "num_envs": 8}
    with pytest.raises(OtherRunError, match="--resume"):
        records.Records(tmp_path, settings, resume=False)

    # The set of cells does not matter, how they are measured does.
    for changes, is_same in (({"minutes": 9.0, "games": ("qbert",)}, True), ({"rounds": 7}, False)):
        other = dataclasses.replace(given, **changes)
        settings = records.settings_of(other, ["cule-cpu"], 2, {"cpus": 2}, {"commit": "a"})
        again = records.Records(tmp_path, settings, resume=True)
        assert (again.find(cell) is not None) is is_same
        assert again.is_other(cell) is not is_same
    settings = records.settings_of(given, ["cule-cpu"], 2, {"cpus": 2}, {"commit": "b"})
    assert records.Records(tmp_path, settings, resume=True).find(cell) is None

    folder.path_of(cell).write_text("{")
    assert folder.find(cell) is None
    assert folder.is_other(cell)


def test_memory_is_found_again(tmp_path: Path) -> None:
    folder = records.Records(tmp_path, {"a": (1, 2)}, resume=False)
    assert folder.memory("pong", ["ale"]) is None
    folder.write_memory("pong", {"ale": 10, "cule-cpu": None})
    found = folder.memory("pong", ["ale"])
    assert found is not None
    assert found["bytes_per_env"] == {"ale": 10, "cule-cpu": None}
    assert folder.memory("qbert", ["ale"]) is None
    assert folder.memory("pong", ["envpool"]) is None
    assert "unknown" in report.memory_table(found)


def test_every_change_of_the_sources_is_another_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(machine, "ROOT", tmp_path)
    (tmp_path / "cule").mkdir()
    code = tmp_path / "cule" / "a.py"
    code.write_text("1\n")
    git("init")
    git("add", "-A")
    git("commit", "-m", "first")
    clean = machine.source()
    assert (clean["dirty"], set(clean)) == (False, {"commit", "dirty"})
    (tmp_path / "README.md").write_text("no source\n")
    assert machine.source() == clean
    found = []
    for text in ("2\n", "3\n"):
        code.write_text(text)
        found.append(machine.source())
    assert machine.source() == found[-1]
    git("add", "cule")
    assert machine.source() == found[-1]
    (tmp_path / "cule" / "new.py").write_text("4\n")
    found.append(machine.source())
    code.unlink()
    found.append(machine.source())
    assert all(each["dirty"] and each["commit"] == clean["commit"] for each in found)
    assert len({each["changes"] for each in found}) == 4


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match=r"out is .*file"):
        records.Records(tmp_path / "file", {}, resume=False)


def test_colours_and_loads_are_complete() -> None:
    assert set(plots.COLOURS) == set(engines.ENGINES)
    assert set(options.DEFAULT_NUM_ENVS) == set(options.LOADS)
    assert set(report.BASELINES) <= set(engines.ENGINES)


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, cule, cule.bench.command; "
        "print([n for n in ('torch', 'matplotlib', 'ale_py', 'envpool') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_driver_that_does_not_know_the_utilization(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-ml-py has exceptions of its own for that."""
    torch = pytest.importorskip("torch")

    class NVMLError(Exception):
        pass

    def fail(device: str) -> int:
        raise NVMLError("Not Supported")

    monkeypatch.setattr(torch.cuda, "utilization", fail)
    assert meter.utilization_of("cuda") is None
    with meter.DeviceMeter("cuda") as clock:
        pass
    assert clock.mean() is None
    assert clock.wall_s > 0


def use_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the kernel that was asked for could not be made."""
    other = property(lambda env: RunningKernel("interpreter"))
    monkeypatch.setattr(cule.AtariVectorEnv, "running_kernel", other)


@pytest.mark.ale
def test_figures_of_another_kernel_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use_another_kernel(monkeypatch)
    sizes = (1, 1, BenchOptions(round_steps=1, rounds=2, seconds=0.0))
    with pytest.raises(engines.KernelMissingError, match="'compiled', but 'interpreter' runs"):
        interleaved.compare_engines("pong", ["cule-cpu@compiled"], *sizes)
    interleaved.compare_engines("pong", ["cule-cpu"], *sizes)


@pytest.mark.ale
def test_steps_of_another_kernel_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from benchmarks import steps
    from tests.support.fake_cuda import fake_cuda

    use_another_kernel(monkeypatch)
    words = ["steps", "--num-envs", "1", "--steps", "1", "--kernel", "compiled"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(steps, "load_kernel", lambda env, actions: None)
    with fake_cuda(), pytest.raises(engines.KernelMissingError, match="'interpreter' runs 'pong'"):
        steps.main()


@pytest.mark.ale
def test_records_name_the_kernel() -> None:
    names = ["cule-cpu@interpreter", "cule-cpu@compiled"]
    options = BenchOptions(round_steps=1, rounds=2, seconds=0.0)
    result = interleaved.compare_engines("pong", names, 2, 1, options)
    content = records.describe_comparison(result, [])
    for name in names:
        assert content["runs"][name]["kernel"] == {
            "name": name.partition("@")[2],
            "lanes_per_warp": 0,
            "warps_per_block": 0,
        }
