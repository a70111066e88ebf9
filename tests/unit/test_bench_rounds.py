"""The timing loop of the FPS suite, with engines and a clock that are made here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.bench import engines, interleaved, meter, records, suite
from cule.bench.engines import CuleEngine, Engine, EngineConfig, EngineKind, EngineMissingError
from cule.bench.interleaved import DifferentResultsError
from cule.bench.options import BenchOptions
from cule.envs import RunningKernel
from cule.errors import DeviceError, InvalidArgumentError

Obs = np.ndarray[Any, np.dtype[np.uint8]]


class FakeClock:
    """Time that passes in steps of engines alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    process_time = perf_counter


class CountingEnv:
    """Observations are sums of the actions so far; every fourth step ends all episodes."""

    clock: FakeClock | None = None
    step_s = 1.0

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
        if self.clock is not None:
            self.clock.now += self.step_s
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
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock of rounds; a step of a `CountingEnv` takes a second."""
    made = FakeClock()
    monkeypatch.setattr(meter, "time", made)
    monkeypatch.setattr(CountingEnv, "clock", made)
    return made


@pytest.fixture
def make_kind(
    monkeypatch: pytest.MonkeyPatch, clock: FakeClock
) -> Callable[..., list[CountingEnv]]:
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
    given = {"round_steps": 2, "rounds": 3, "seconds": 0.0, **keywords}
    num_envs = given.pop("num_envs", 4)
    return interleaved.compare_engines("pong", names, num_envs, 1, BenchOptions(**given))


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


def test_engines_that_agree(make_kind: Any) -> None:
    made = [make_kind(name) for name in ("cule-cpu", "ale", "envpool")]
    result = small_comparison(["cule-cpu", "ale", "envpool"])
    assert result.compared_steps == interleaved.WARM_UP_STEPS + 6
    assert result.steps == {"cule-cpu": 6, "ale": 6, "envpool": 6}
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


class SlowEnv(CountingEnv):
    step_s = 5.2


class SlowWrongEnv(WrongEnv):
    step_s = 5.2


def test_rounds_are_as_long_for_each_engine_in_time(make_kind: Any) -> None:
    made = {
        name: make_kind(name, kind)
        for name, kind in (("cule-cpu", CountingEnv), ("ale", SlowEnv), ("envpool", CountingEnv))
    }
    result = small_comparison(list(made))
    assert result.steps == {"cule-cpu": 30, "ale": 6, "envpool": 30}
    assert result.ratios("cule-cpu", "ale") == pytest.approx([5.2] * 3)
    # What the slower of both has taken is compared; digests are of the same step.
    assert result.compared_steps == interleaved.WARM_UP_STEPS + 6
    assert result.digest_steps == interleaved.WARM_UP_STEPS + 6
    assert len(set(result.obs_digests.values())) == 1
    assert result.episode_ends["cule-cpu"] == pytest.approx(7 / 30)  # steps 12 to 36 of 9 to 38
    make_kind("ale", SlowWrongEnv)
    with pytest.raises(DifferentResultsError, match=r"environments \[1\].* at step 11"):
        small_comparison(["cule-cpu", "ale"])


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
    engine = engines.Engine("ale-async", CountingEnv(4), 4, batch_size=2)
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


def test_an_engine_that_lacks_the_first_game_plays_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make(config: EngineConfig) -> Engine:
        if config.game == "pong":
            raise EngineMissingError("there is no pong")
        return engines.make_engine(dataclasses.replace(config, name="cule-cpu"))

    kind = EngineKind("EnvPool", "numpy", "numpy", make)
    monkeypatch.setitem(engines.ENGINES, "envpool", kind)
    both = BenchOptions(games=("pong", "breakout"), engines=("envpool",))
    assert suite.available_engines(both, [].append) == (["envpool"], {})
    one = dataclasses.replace(both, games=("pong",))
    with pytest.raises(EngineMissingError, match="there is no pong"):
        suite.available_engines(one, [].append)


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
    monkeypatch.setattr(interleaved, "MAX_BLOCKS", 1)
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
