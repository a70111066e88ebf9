"""``cule check``: what this machine has, whether its results are right, and how fast it is."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cule
from cule.bench.engines import EngineConfig, VectorEnv, make_engine
from cule.bench.games import games_named
from cule.bench.machine import machine, now, num_cpus, processor, source
from cule.check.equality import Comparison, compare_envs
from cule.check.speed import Speed, lanes_to_try, measure, reason_of
from cule.device import describe_devices, resolve_device, unavailable_reason
from cule.envs.translation import describe_compilers
from cule.errors import CuleError, DeviceError, InvalidArgumentError, RomNotFoundError
from cule.familiar_names import Parser
from cule.files import check_writable, replace_text
from cule.games import rom_status
from cule.option_fields import NonNegativeFloat, Positive, parse_options, validate

KERNELS = ("interpreter", "compiled")

#: Environments whose results are compared.
ENVS_PER_GAME = 8

#: Steps whose results are kept before they are compared.
CHUNK_STEPS = 10

#: Numbers of environments whose speed is measured, without --num-envs: on a CPU, and on a GPU.
DEFAULT_NUM_ENVS = ((16, 64, 256), (256, 1024, 4096, 16384, 32768))


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of ``cule check``."""

    device: str = "auto"
    """cpu, cuda, cuda:<number>; auto: a GPU where one can be used."""

    games: tuple[str, ...] = ("pong", "breakout", "ms_pacman", "montezuma_revenge")
    """Games whose results are compared; the speed is that of the first one."""

    num_envs: tuple[Positive, ...] = ()
    """Numbers of environments whose speed is measured; empty: chosen by device."""

    steps: Positive = 100
    """Steps whose results are compared."""

    seconds: NonNegativeFloat = 1.0
    """Duration of a measurement."""

    minutes: NonNegativeFloat = 2.0
    """No measurement starts after this time."""

    tune: bool = True
    """Keep the fastest launch geometries of a GPU for later environments."""

    out: Path = Path("cule-check.json")
    """The report."""

    def __post_init__(self) -> None:
        """Check what does not need a device."""
        object.__setattr__(self, "games", games_named(self.games))
        if not self.games:
            raise InvalidArgumentError("games is empty; it must name at least one")
        validate(self)


def check(words: Sequence[str]) -> int:
    """Run ``cule check`` with the words after it.

    Returns:
        0: all is right; 1: a step failed, or there was no time for it.

    Raises:
        CuleError: An option is invalid.
        StorageError: The report cannot be written.
    """
    options = parse(words)
    check_writable(options.out)
    return Check(options).run()


def parse(words: Sequence[str]) -> CheckOptions:
    """The options of a command line."""
    parser = Parser(
        prog="cule check",
        description="What this machine has, whether its results are right bit for bit, and how "
        "many frames per second it emulates. Takes two minutes.",
    )
    return parse_options(parser, CheckOptions, words)


class Check:
    """A run of ``cule check``.

    Attributes:
        report: What is written to `CheckOptions.out`.
    """

    def __init__(self, options: CheckOptions) -> None:
        """Nothing is looked at yet."""
        self._options = options
        self._start = time.monotonic()
        self._is_right = True
        self.report: dict[str, Any] = {
            "date": now(),
            "options": {key: str(value) for key, value in vars(options).items()},
            "machine": machine(),
            "source": source(),
            "steps": [],
            "speed": [],
        }

    def run(self) -> int:
        """Print and write the report; the exit status."""
        device = self._find_device()
        games = self._find_games()
        kernels = self._load(device, games[0]) if device is not None and games else []
        if device is not None and kernels:
            self._compare(device, kernels, games)
            speeds = self._measure(device, kernels, games[0])
            if device != "cpu" and self._options.tune:
                self._keep(device, speeds)
        self.report["seconds"] = round(time.monotonic() - self._start, 1)
        replace_text(self._options.out, json.dumps(self.report, indent=1) + "\n")
        print(f"{self.report['seconds']} s; the report, to attach to an issue: {self._options.out}")
        return 0 if self._is_right else 1

    def _note(self, name: str, is_right: bool, text: str) -> None:
        self._is_right = self._is_right and is_right
        self.report["steps"].append({"name": name, "is_right": is_right, "text": text})
        print(f"{'ok' if is_right else 'FAILED':6}  {name}: {text}", flush=True)

    @property
    def _is_late(self) -> bool:
        return time.monotonic() - self._start > 60 * self._options.minutes

    def _find_device(self) -> str | None:
        """Device that the options name, or the best there is; None if it cannot be used."""
        for line in describe_devices():
            name, _, text = line.partition(": ")
            self._note(name, True, text)
        wanted = self._options.device
        if wanted == "auto":
            wanted = "cpu" if unavailable_reason("cuda") else "cuda"
        try:
            device = resolve_device(wanted)
        except DeviceError as error:
            self._note("device", False, reason_of(error))
            return None
        kind = f"{processor()}, {num_cpus()} processors" if device == "cpu" else device
        self._note("device", True, kind)
        if device != "cpu":
            self._note("NVRTC", True, describe_compilers())
        return device

    def _find_games(self) -> list[str]:
        try:
            found = {status.rom_id for status in rom_status() if status.md5_ok}
        except RomNotFoundError as error:
            self._note("ROMs", False, reason_of(error))
            return []
        games = [game for game in self._options.games if game in found]
        missing = [game for game in self._options.games if game not in found]
        text = ", ".join(games) + (f"; not found: {', '.join(missing)}" if missing else "")
        self._note("ROMs", not missing, text)
        return games

    def _load(self, device: str, game: str) -> list[str]:
        """The kernels that can make a step."""
        found = []
        for kernel in KERNELS:
            begin = time.monotonic()
            try:
                with contextlib.closing(self._env([game], device, kernel=kernel)) as env:
                    env.reset(seed=0)
                    env.step(np.zeros(env.num_envs, np.int64))
                    env.get_state()
            except CuleError as error:
                self._note(f"kernel {kernel}", False, reason_of(error))
                continue
            found.append(kernel)
            self._note(f"kernel {kernel}", True, f"{time.monotonic() - begin:.1f} s")
        return found

    @staticmethod
    def _env(games: Sequence[str], device: str, **options: Any) -> cule.AtariVectorEnv:
        return cule.AtariVectorEnv(
            [(game, ENVS_PER_GAME) for game in games],
            ENVS_PER_GAME * len(games),
            device=device,
            autoreset_mode="SameStep",
            repeat_action_probability=0.25,
            **options,
        )

    def _compare(self, device: str, kernels: Sequence[str], games: Sequence[str]) -> None:
        """Every kernel with the CPU's interpreter; on a CPU, also with ale-py."""
        for kernel in kernels:
            if (device, kernel) == ("cpu", "interpreter"):
                continue
            ours = self._env(games, device, kernel=kernel, resets="cached")
            expected = self._env(games, "cpu", kernel="interpreter", resets="cached")
            self._compare_envs(f"{kernel} = interpreter of the CPU", games, ours, expected)
        if device == "cpu" and importlib.util.find_spec("ale_py") is not None:
            for game in games:
                try:
                    ours, expected = (
                        make_engine(EngineConfig(name, game, ENVS_PER_GAME, threads=0)).env
                        for name in ("cule-cpu", "ale")
                    )
                except CuleError as error:
                    self._note(f"{game} = ale-py", False, reason_of(error))
                    continue
                self._compare_envs(f"{game} = ale-py", [game], ours, expected)

    def _compare_envs(
        self, name: str, games: Sequence[str], ours: VectorEnv, expected: VectorEnv
    ) -> None:
        comparison = Comparison(games, ENVS_PER_GAME)
        with contextlib.closing(ours), contextlib.closing(expected):
            size = (self._options.steps, ours.num_envs)
            actions = np.random.default_rng(0).integers(
                ours.single_action_space.n, size=size, dtype=np.int32
            )
            done = 0
            for steps in compare_envs(comparison, ours, expected, actions, CHUNK_STEPS, seed=0):
                done = steps
                if self._is_late:
                    break
        text = f"{done} steps of {ours.num_envs} environments, every byte of every result"
        if comparison.differences:
            text = f"first differences: {comparison.differences}"
        elif not done:
            text = f"not compared: {self._options.minutes} minutes were over"
        self._note(name, done > 0 and not comparison.differences, text)

    def _measure(self, device: str, kernels: Sequence[str], game: str) -> list[Speed]:
        """Frames per second of all sizes and kernels, and on a GPU of some geometries."""
        sizes = self._options.num_envs or DEFAULT_NUM_ENVS[device != "cpu"]
        print(f"{game}, 84x84x4 observations, random actions")
        print("environments  kernel       lanes  M frames/s  ms a step")
        speeds: list[Speed] = []
        cells = list(self._cells(device, kernels, sizes))
        for num_envs, kernel, lanes in cells:
            if self._is_late:
                self._note(
                    f"speed: {len(speeds)} of {len(cells)} measured",
                    bool(speeds),
                    f"{self._options.minutes} minutes were over",
                )
                break
            try:
                found = measure(game, device, num_envs, kernel, self._options.seconds, lanes)
            except CuleError as error:
                self._note(f"{num_envs} environments", False, reason_of(error))
                continue
            speeds.append(found)
            self.report["speed"].append(dataclasses.asdict(found))
            print(
                f"{num_envs:12}  {kernel:11}  {lanes or '':>5}  {found.frames_per_s / 1e6:10.3f}  "
                f"{found.step_ms:9.2f}",
                flush=True,
            )
        return speeds

    def _cells(
        self, device: str, kernels: Sequence[str], sizes: Sequence[int]
    ) -> Iterator[tuple[int, str, int | None]]:
        """All sizes and kernels, then other geometries of the last kernel."""
        if device == "cpu":
            yield from ((size, kernel, None) for size in sizes for kernel in kernels)
            return
        lanes = {size: lanes_to_try(size, device) for size in sizes}
        yield from ((size, kernel, lanes[size][0]) for size in sizes for kernel in kernels)
        if self._options.tune:
            yield from ((size, kernels[-1], n) for size in sizes for n in lanes[size][1:])

    def _keep(self, device: str, speeds: Sequence[Speed]) -> None:
        """The fastest geometry of each size, with the kernel whose geometries were measured."""
        from cule.envs.launch import geometry_file, keep_lanes

        best: dict[int, Speed] = {}
        for speed in sorted(speeds, key=lambda speed: speed.frames_per_s):
            if speed.kernel == speeds[-1].kernel:
                best[speed.num_envs] = speed
        lanes = {size: speed.lanes_per_warp or 1 for size, speed in sorted(best.items())}
        self.report["lanes_per_warp"] = lanes
        try:
            keep_lanes(device, lanes)
        except OSError as error:
            self._note("launch geometry", False, f"cannot be kept: {error}")
            return
        shown = ", ".join(f"{count} lanes for {size}" for size, count in lanes.items())
        self._note("launch geometry", True, f"{shown}; kept in {geometry_file()}")
