"""The FPS suite without a clock: comparisons, counts, records, resume and errors."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.bench import (
    DifferentResultsError,
    EngineMissingError,
    OtherRunError,
    engines,
    interleaved,
    meter,
    options,
    plots,
    records,
    report,
    suite,
    training,
)
from cule.bench.engines import CuleEngine, Engine, EngineConfig, EngineKind
from cule.bench.games import ATARI_57, DEFAULT_GAMES, games_named
from cule.bench.options import PRESETS, BenchOptions, Cell, cells_of
from cule.envs import RunningKernel
from cule.errors import DeviceError, InvalidArgumentError, UnknownGameError
from tests.support.bench_records import fake_record

Obs = np.ndarray[Any, np.dtype[np.uint8]]


class CountingEnv:
    """Observations are sums of the actions so far; every fourth step ends all episodes."""

    def __init__(self, num_envs: int, *, batch_size: int = 0, num_actions: int = 4) -> None:
        self.rows = batch_size or num_envs
        self.single_action_space = gymnasium.spaces.Discrete(num_actions)
        self.sums = np.zeros((self.rows, 1, 2, 2), np.uint8)
        self.steps = 0
        self.is_closed = False
        self.sizes: set[int] = set()

    def reset(self, *, seed: int) -> tuple[Obs, dict[str, Any]]:
        self.sums[:] = seed
        self.steps = 0
        return self.sums.copy(), {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        self.sizes.add(len(actions))
        self.steps += 1
        self.sums += np.asarray(actions, np.uint8)[:, None, None, None]
        ended = np.full(self.rows, self.steps % 4 == 0)
        reward = np.zeros(self.rows, np.int32)
        return self.sums.copy(), reward, ended, np.zeros(self.rows, bool), {}

    def close(self) -> None:
        self.is_closed = True


class WrongEnv(CountingEnv):
    """Environment 1 has other observations from step 11 on."""

    def step(self, actions: Any) -> tuple[Any, ...]:
        result = super().step(actions)
        if self.steps >= 11:
            result[0][1] += 1
        return result


@pytest.fixture
def make_kind(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[CountingEnv]]:
    """Replaces an engine by counting environments, which are collected in a list."""

    def put(name: str, env_class: type[CountingEnv] = CountingEnv, **keywords: Any) -> Any:
        made: list[CountingEnv] = []

        def make(config: EngineConfig) -> Engine:
            size = (config.batch_size or config.num_envs // 2) if name == "ale-async" else 0
            made.append(env_class(config.num_envs, batch_size=size, **keywords))
            return Engine(name, made[-1], config.num_envs, batch_size=size)

        monkeypatch.setitem(engines.ENGINES, name, EngineKind(name, "numpy", "numpy", make))
        return made

    return put


def small_comparison(names: list[str], **keywords: Any) -> interleaved.Comparison:
    given = {"num_envs": 4, "threads": 1, "round_steps": 2, "rounds": 3, **keywords}
    return interleaved.compare_engines("pong", names, **given)


# --- Games and options ----------------------------------------------------------------------------


def test_sets_of_games() -> None:
    assert len(set(ATARI_57)) == 57
    assert set(ATARI_57) < set(games_named(["all"]))
    assert len(games_named(["all"])) == 104
    assert games_named(["default"]) == DEFAULT_GAMES
    assert games_named(["pong", "default", "pong"])[:2] == ("pong", "breakout")
    with pytest.raises(UnknownGameError, match=r"pang.*default, 57, all"):
        games_named(["pong", "pang"])


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
        ({"engines": ("cule-cuda@compiled@8x4",)}, "engines has 'cule-cuda@compiled@8x4'"),
        ({"load": ("sleeping",)}, "load has 'sleeping'.*emulation"),
        ({"games": ()}, "games is empty"),
        ({"algorithms": ()}, "algorithms is empty"),
        ({"num_envs": (4, 0)}, "num_envs has 0"),
        ({"rounds": 1}, "rounds is 1.*at least 2"),
        ({"seconds": -1.0}, "seconds is -1.0.*at least 0"),
        ({"threads": -1}, "threads is -1"),
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
    geometries = [engines.geometry_of(name) for name in PRESETS["gpu-geometry"].engines]
    assert {lanes for lanes, _ in geometries} == {1, 2, 4, 8, 16, 32}
    assert {warps for _, warps in geometries} == {1, 2, 4}


@pytest.mark.parametrize(
    ("name", "geometry", "kernel"),
    [
        ("cule-cpu", None, "auto"),
        ("cule-cpu@compiled", None, "compiled"),
        ("cule-cuda@interpreter", None, "interpreter"),
        ("cule-cuda@16x2", (16, 2), "auto"),
        ("cule-cuda@16x2@compiled", (16, 2), "compiled"),
        ("ale", None, "auto"),
    ],
)
def test_geometry_and_kernel_of_an_engine(
    name: str, geometry: tuple[int, int] | None, kernel: str
) -> None:
    assert engines.geometry_of(name) == geometry
    assert engines.kernel_of(name) == kernel
    assert engines.kind_of(name) is engines.ENGINES[name.partition("@")[0]]


class CompilingEnv(CountingEnv):
    """Loads its kernel with the third step."""

    @property
    def is_compiling(self) -> bool:
        return not self.is_loaded

    is_loaded = False
    num_resets = 0

    @property
    def running_kernel(self) -> RunningKernel:
        return RunningKernel("compiled" if self.is_loaded else "interpreter", 4, 4)

    def reset(self, *, seed: int) -> tuple[Obs, dict[str, Any]]:
        self.num_resets += 1
        return super().reset(seed=seed)

    def step(self, actions: Any) -> tuple[Any, ...]:
        result = super().step(actions)
        self.is_loaded |= self.steps == 3
        return result


def test_a_reset_waits_for_the_compiled_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(engines.time, "sleep", lambda seconds: None)
    env = CompilingEnv(2)
    engine = engines.CudaEngine("cule-cuda@compiled", env, 2, device="cpu")
    for num_resets in (2, 3):
        assert (engine.reset(5) == 5).all()
        assert env.is_loaded
        assert (env.num_resets, env.steps) == (num_resets, 0)


def test_a_launch_geometry_holds_in_its_context() -> None:
    torch = pytest.importorskip("torch")
    from cule.envs.launch import choose_geometry, use_geometry

    device = torch.device("cpu")
    chosen = choose_geometry(100, device)
    with use_geometry(2, 3):
        geometry = choose_geometry(100, device)
    assert (geometry.lanes_per_warp, geometry.warps_per_block) == (2, 3)
    assert choose_geometry(100, device) == chosen


# --- Interleaved rounds ---------------------------------------------------------------------------


def test_engines_that_agree(make_kind: Any) -> None:
    made = [make_kind(name) for name in ("cule-cpu", "ale", "envpool")]
    result = small_comparison(["cule-cpu", "ale", "envpool"])
    assert result.compared_steps == interleaved.WARM_UP_STEPS + 6
    assert result.steps == 6
    assert result.digest_steps == interleaved.WARM_UP_STEPS + 6
    assert {name: len(rates) for name, rates in result.rates.items()} == {
        "cule-cpu": 3,
        "ale": 3,
        "envpool": 3,
    }
    assert len(set(result.obs_digests.values())) == 1
    assert not result.ram_digests
    assert result.episode_ends["ale"] == pytest.approx(
        1 / 6
    )  # step 12 of 9 to 14, all environments
    assert result.ratios("ale", "envpool") == interleaved.divide(
        result.rates["ale"], result.rates["envpool"]
    )
    assert all(env.is_closed for envs in made for env in envs)


@pytest.mark.parametrize("kept_bytes", [interleaved.KEPT_BYTES, 0])
def test_engines_that_differ(
    make_kind: Any, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    monkeypatch.setattr(interleaved, "KEPT_BYTES", kept_bytes)
    made = make_kind("cule-cpu")
    make_kind("ale", WrongEnv)
    # Without memory for all observations, only the last of a round of two steps is compared.
    step = 11 if kept_bytes else 12
    message = rf"pong: observations of environments \[1\].*cule-cpu and ale at step {step}"
    with pytest.raises(DifferentResultsError, match=message):
        small_comparison(["cule-cpu", "ale"])
    assert made[0].is_closed


def test_a_wrong_engine_that_is_not_compared_has_another_digest(make_kind: Any) -> None:
    make_kind("cule-cpu")
    make_kind("envpool", WrongEnv)
    result = small_comparison(["cule-cpu", "envpool"])
    assert result.compared_steps == 0
    assert result.obs_digests["cule-cpu"] != result.obs_digests["envpool"]


def test_an_asynchronous_engine(make_kind: Any) -> None:
    make_kind("cule-cpu")
    made = make_kind("ale-async")
    result = small_comparison(["cule-cpu", "ale-async"], async_batch=2)
    assert made[0].sizes == {2}
    assert made[0].steps == 2 * (interleaved.WARM_UP_STEPS + 6)  # half of the environments per call
    assert list(result.obs_digests) == ["cule-cpu"]
    assert set(result.episode_ends) == {"cule-cpu", "ale-async"}


def test_an_asynchronous_engine_is_idle_when_its_round_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = {"cpu": 0.0, "left": 7e-4}  # work still to be done by its threads

    def sleep(seconds: float) -> None:
        done = min(seconds, clock["left"])
        clock["cpu"] += done
        clock["left"] -= done

    monkeypatch.setattr(engines.time, "sleep", sleep)
    monkeypatch.setattr(engines.time, "process_time", lambda: clock["cpu"])
    engine = engines.AsyncEngine("ale-async", CountingEnv(4), 4, batch_size=2)
    engine.synchronize()
    assert clock["left"] == 0.0


def test_engines_with_other_actions_are_absent(make_kind: Any) -> None:
    make_kind("cule-cpu")
    make_kind("envpool", num_actions=9)
    result = small_comparison(["cule-cpu", "envpool"])
    assert list(result.rates) == ["cule-cpu"]
    assert "9 actions" in result.absent["envpool"]


def test_engine_that_is_not_installed(make_kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_kind("cule-cpu")
    kind = EngineKind("EnvPool", "no_such_package", "no-such-package", make_kind)
    monkeypatch.setitem(engines.ENGINES, "envpool", kind)
    assert engines.unavailable_reason("envpool") == "no-such-package is not installed"
    assert engines.unavailable_reason("cule-cpu") is None
    assert list(small_comparison(["envpool", "cule-cpu"]).absent) == ["envpool"]
    with pytest.raises(EngineMissingError, match="no engine"):
        small_comparison(["envpool"])
    with pytest.raises(EngineMissingError, match="no engine"):
        suite.available_engines(BenchOptions(engines=("envpool",)), [].append)


def test_a_missing_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(config: EngineConfig) -> Engine:
        raise DeviceError("device is 'cuda', but there is none")

    kind = dataclasses.replace(engines.ENGINES["cule-cuda"], make=refuse)
    monkeypatch.setitem(engines.ENGINES, "cule-cuda", kind)
    assert engines.unavailable_reason("cule-cuda") == "device is 'cuda', but there is none"


def test_invalid_comparisons() -> None:
    with pytest.raises(InvalidArgumentError, match=r"engines has 'cule'.*cule-cpu"):
        small_comparison(["cule"])
    with pytest.raises(InvalidArgumentError, match="num_envs is 0"):
        small_comparison(["cule-cpu"], num_envs=0)


class HostAsDevice(CuleEngine):
    """Cached states on the CPU instead of a GPU."""


class WrongDevice(HostAsDevice):
    """Its RAM differs from that of the CPU."""

    def ram(self) -> Any:
        found = np.array(super().ram())
        found[2, 100] ^= 1
        return found


@pytest.mark.ale
@pytest.mark.parametrize("engine_class", [HostAsDevice, WrongDevice])
def test_a_device_is_compared_with_the_cpu(
    engine_class: type[CuleEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(config: EngineConfig) -> Engine:
        env = cule.AtariVectorEnv(config.game, config.num_envs, num_threads=1, resets="cached")
        return engine_class("cule-cuda", env, config.num_envs, device="cuda")

    monkeypatch.setitem(engines.ENGINES, "cule-cuda", EngineKind("x", "cule", "cule", make))
    monkeypatch.setattr(meter, "utilization_of", lambda device: None)
    if engine_class is WrongDevice:
        with pytest.raises(DifferentResultsError, match="RAM differs between cule-cuda"):
            small_comparison(["cule-cuda"])
        return
    monkeypatch.setattr(interleaved, "SHADOW_ENVS", 2)
    monkeypatch.setattr(records, "SHADOW_ENVS", 2)
    result = small_comparison(["cule-cuda", "cule-cpu", "ale"], num_envs=3)
    assert result.shadowed_steps == interleaved.WARM_UP_STEPS
    assert result.compared_steps == interleaved.WARM_UP_STEPS + 6
    assert set(result.ram_digests) == {"cule-cuda", "cule-cpu"}
    described = records.describe_comparison(
        result, suite.pairs_of(["cule-cpu", "cule-cuda", "ale"])
    )
    assert set(described["ratios"]) == {
        "cule-cpu / ale",
        "cule-cuda / ale",
        "cule-cuda / cule-cpu",
    }
    assert described["check"]["gpu_envs_compared"] == interleaved.SHADOW_ENVS


def test_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "SAMPLE_S", 1e-4)
    readings = iter([0.0, *range(100)])
    seen: list[float] = []

    def read(device: str) -> float | None:
        seen.append(float(next(readings, 0.0)))
        return seen[-1]

    monkeypatch.setattr(meter, "utilization_of", read)
    one = meter.DeviceMeter("cuda")
    assert one.mean() is None
    with one:
        while len(seen) < 4:
            pass
    assert one.mean() == pytest.approx(np.mean(seen[1:]))
    one.forget()
    assert one.mean() is None
    monkeypatch.undo()
    assert meter.utilization_of("cpu") is None


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
    sizes = {"num_envs": 1, "threads": 1, "round_steps": 1, "rounds": 1}
    with pytest.raises(engines.KernelMissingError, match="'compiled', but 'interpreter' runs"):
        interleaved.compare_engines("pong", ["cule-cpu@compiled"], **sizes)
    interleaved.compare_engines("pong", ["cule-cpu"], **sizes)


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
    sizes = {"num_envs": 2, "threads": 1, "round_steps": 1, "rounds": 1}
    result = interleaved.compare_engines("pong", names, **sizes)
    content = records.describe_comparison(result, [])
    for name in names:
        assert content["runs"][name]["kernel"] == {
            "name": name.partition("@")[2],
            "lanes_per_warp": 0,
            "warps_per_block": 0,
        }
