"""Options of a benchmark, presets of them, and the cells that it consists of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from cule.bench.engines import ENGINES, kind_of
from cule.bench.games import DEFAULT_GAMES, games_named
from cule.envs.options import MAX_ENVS
from cule.errors import InvalidArgumentError, shown
from cule.option_fields import Bounds, NonNegative, Positive, Seed, Threads, validate

#: Loads in the order of a benchmark.
LOADS = {
    "emulation": "random actions: emulation and observations only",
    "inference": "a Nature CNN chooses every action",
    "training": "rollouts and updates of agents of cule.agents",
    "divergence": "every step after a common reset, timed separately",
}

#: Environments of a load without --num-envs: on a CPU, and with a CUDA device. On a CPU, as few as
#: two cores can make and reset for every engine, game and load in a few minutes.
DEFAULT_NUM_ENVS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "emulation": ((2, 8), (64, 256, 1024, 4096)),
    "inference": ((8,), (256, 1024)),
    "training": ((8,), (256, 1024)),
    "divergence": ((8,), (1024,)),
}

#: Steps of a PPO rollout without --rollout-steps and without a GPU.
CPU_PPO_STEPS = 16


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of ``cule bench``."""

    games: tuple[str, ...] = DEFAULT_GAMES
    """Games, or sets of games: default (8), 57, all (104)."""

    engines: tuple[str, ...] = tuple(ENGINES)
    """Engines; unavailable ones are skipped with the reason. cule-cuda@8x4 sets its geometry,
    cule-cpu@interpreter or cule-cuda@compiled its kernel; cule-cpu@low_memory takes less memory,
    cule-cpu@async steps asynchronously, cule-cpu@2threads has its own number of threads."""

    num_envs: tuple[Annotated[int, Bounds(1, MAX_ENVS)], ...] = ()
    """Numbers of environments, a sweep; empty: chosen by load and machine."""

    load: tuple[str, ...] = tuple(LOADS)
    """Loads."""

    out: Path | None = None
    """Folder of records, table and plots; default: cule-bench-<time>."""

    resume: bool = False
    """Keep the finished cells of the folder and measure the others."""

    threads: Threads = 0
    """CPU threads of every engine and of torch; 0: the number of processors."""

    seconds: Annotated[float, Bounds(0)] = 1.0
    """Minimum duration of a cell, all engines together."""

    rounds: Annotated[int, Bounds(2)] = 5
    """Minimum number of rounds of each engine (in training, of each agent) in a cell."""

    round_steps: Positive = 5
    """Steps of all environments that the slowest engine takes in a round; the others take as many
    times that number as fill the same time. In training a round is a rollout and its update.
    """

    minutes: Annotated[float, Bounds(0)] = 4.0
    """No cell starts after this time; 0: no limit."""

    algorithms: tuple[str, ...] = ("a2c", "ppo")
    """Algorithms of the load training."""

    rollout_steps: NonNegative = 0
    """Steps of a rollout; 0: the algorithm's default (PPO without a GPU: 16)."""

    cuda_graphs: bool = False
    """Agents on a GPU run acting and learning as CUDA graphs."""

    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    """Precision of agents on a GPU: fp32, tf32 or bf16."""

    network_device: str = ""
    """Device of the network of the load inference; empty: the device of an engine's results."""

    async_batch: NonNegative = 0
    """Environments per call of an asynchronous engine; 0: half of them."""

    divergence_steps: Positive = 250
    """Steps of the load divergence."""

    memory: bool = True
    """Measure the memory of an environment, in separate processes."""

    seed: Seed = 0
    """Seed of environments, actions and networks."""

    def __post_init__(self) -> None:
        """Check everything that does not need an engine."""
        object.__setattr__(self, "games", games_named(self.games))
        for name in self.engines:
            kind_of(name)
        validate(self)
        for name in self.load:
            if name not in LOADS:
                raise InvalidArgumentError(
                    f"load has {shown(name)}; it must be one of {', '.join(LOADS)}"
                )
        for option in ("games", "engines", "load", "algorithms"):
            values = getattr(self, option)
            if not values:
                raise InvalidArgumentError(f"{option} is empty; it must name at least one")
            object.__setattr__(self, option, tuple(dict.fromkeys(values)))
        object.__setattr__(self, "num_envs", tuple(sorted(set(self.num_envs))))
        if self.resume and self.out is None:
            raise InvalidArgumentError("resume needs out: the folder whose cells are kept")


_EMULATION = BenchOptions(load=("emulation",), num_envs=(16,), minutes=0.0)
_GEOMETRIES = ("1x4", "2x4", "4x4", "8x1", "8x2", "8x4", "16x4", "32x4")
_GPU = replace(_EMULATION, engines=("cule-cuda",), round_steps=16)

#: Named sets of options; options given as well override them.
PRESETS = {
    "default": BenchOptions(),
    "one-thread": replace(
        _EMULATION, engines=("cule-cpu", "ale", "envpool"), threads=1, seconds=6.0, rounds=10
    ),
    "57-games": replace(
        _EMULATION, games=("57",), engines=("cule-cpu", "ale", "ale-async", "envpool"), seconds=2.0
    ),
    "gpu": replace(_GPU, num_envs=(256, 1200, 4096, 8192, 16384, 32768, 65536)),
    "gpu-geometry": replace(
        _GPU,
        games=("pong", "seaquest"),
        engines=tuple(f"cule-cuda@{n}" for n in _GEOMETRIES),
        num_envs=(1200, 4096, 32768),
        memory=False,
    ),
}


@dataclass(frozen=True)
class Cell:
    """One measurement of all engines: a load, a game and a number of environments."""

    load: str  # one of `LOADS`
    game: str
    num_envs: int

    @property
    def key(self) -> str:
        """Name of the record."""
        return f"{self.load}-{self.num_envs}-{self.game}"


def cells_of(options: BenchOptions, has_gpu: bool) -> list[Cell]:
    """All cells in order: every load of every game at its first size, then at its second one.

    So an interrupted benchmark has every game. Divergence is measured at the largest size only.
    """
    sizes_of = {}
    for load in (load for load in LOADS if load in options.load):
        sizes = options.num_envs or DEFAULT_NUM_ENVS[load][has_gpu]
        sizes_of[load] = sizes[-1:] if load == "divergence" else sizes
    rounds = range(max(map(len, sizes_of.values())))
    return [
        Cell(load, game, sizes[turn])
        for turn in rounds
        for game in options.games
        for load, sizes in sizes_of.items()
        if turn < len(sizes)
    ]
