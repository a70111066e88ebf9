"""What a run of the suite is told."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from cule.bench.engines import ENGINES
from cule.bench.games import DEFAULT_GAMES, games_named
from cule.errors import InvalidArgumentError

#: Loads in the order of a run, and what each is.
LOADS = {
    "emulation": "random actions: emulation and observations alone",
    "inference": "a Nature CNN chooses every action",
    "training": "rollouts and updates of learners of cule.agents",
    "divergence": "every step after a common reset, timed by itself, and the consoles it resets",
}

#: Consoles of a load where --num-envs does not say: without, and with a CUDA device. Without, as
#: few as two cores can make and reset for every engine, game and load in a few minutes.
DEFAULT_NUM_ENVS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "emulation": ((2, 8), (64, 256, 1024, 4096)),
    "inference": ((8,), (256, 1024)),
    "training": ((8,), (256, 1024)),
    "divergence": ((8,), (1024,)),
}

#: Steps of a PPO rollout where --rollout-steps does not say and there is no GPU.
CPU_PPO_STEPS = 16


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """Options of ``cule bench``."""

    games: tuple[str, ...] = DEFAULT_GAMES
    """Games, or sets of them: default (8), 57, all (104)."""

    engines: tuple[str, ...] = tuple(ENGINES)
    """Engines; one that is not available here is left out, with the reason."""

    num_envs: tuple[int, ...] = ()
    """Consoles, a sweep; empty: what suits the load and the machine."""

    load: tuple[str, ...] = tuple(LOADS)
    """Loads."""

    out: Path | None = None
    """Folder of records, table and plots; none: cule-bench-<time>."""

    resume: bool = False
    """Keep the finished cells of the folder and measure the others."""

    threads: int = 0
    """CPU threads of every engine and of torch; 0: as many as there are processors."""

    seconds: float = 1.0
    """Least time that the turns of a cell take, all engines together."""

    turns: int = 5
    """Least number of turns of each engine in a cell; of training, of each learner."""

    turn_steps: int = 5
    """Steps of all consoles in a turn; in training a turn is a rollout and its update."""

    minutes: float = 4.0
    """No cell begins after this long; 0: no limit."""

    algorithms: tuple[str, ...] = ("a2c", "ppo")
    """Learners of the load training."""

    rollout_steps: int = 0
    """Steps of a rollout; 0: the learner's own (PPO without a GPU: 16)."""

    cuda_graphs: bool = False
    """Learners on a GPU replay acting and learning from CUDA graphs."""

    network_device: str = ""
    """Device of the network of the load inference; empty: where an engine's results land."""

    async_batch: int = 0
    """Consoles of a call of an asynchronous engine; 0: half of them."""

    divergence_steps: int = 250
    """Steps of the load divergence."""

    memory: bool = True
    """Measure the memory of a console, in processes of their own."""

    seed: int = 0
    """Of consoles, actions and networks."""

    def __post_init__(self) -> None:
        """Check what can be checked without an engine."""
        object.__setattr__(self, "games", games_named(self.games))
        for name, allowed in (("engines", ENGINES), ("load", LOADS)):
            given = getattr(self, name)
            for value in given:
                if value not in allowed:
                    raise InvalidArgumentError(
                        f"{name} has {value!r}; it must be one of {', '.join(allowed)}"
                    )
            object.__setattr__(self, name, tuple(dict.fromkeys(given)))
        object.__setattr__(self, "num_envs", tuple(sorted(set(self.num_envs))))
        for name in ("games", "engines", "load", "algorithms"):
            if not getattr(self, name):
                raise InvalidArgumentError(f"{name} is empty; it must name at least one")
        lowest = {"turns": 2, "turn_steps": 1, "divergence_steps": 1}
        for item in fields(self):
            value = getattr(self, item.name)
            if type(value) in (int, float) and value < lowest.get(item.name, 0):
                raise InvalidArgumentError(
                    f"{item.name} is {value!r}; it must be at least {lowest.get(item.name, 0)}"
                )
        for count in self.num_envs:
            if count < 1:
                raise InvalidArgumentError(f"num_envs has {count!r}; it must be at least 1")
        if self.resume and self.out is None:
            raise InvalidArgumentError("resume needs out: the folder whose cells are kept")

    def sizes(self, load: str, has_gpu: bool) -> tuple[int, ...]:
        """Numbers of consoles of a load."""
        return self.num_envs or DEFAULT_NUM_ENVS[load][has_gpu]


@dataclass(frozen=True)
class Cell:
    """One measurement: a load, a game, a number of consoles; all engines by interleaved."""

    load: str
    """One of `LOADS`."""

    game: str
    """Which game."""

    num_envs: int
    """Consoles."""

    @property
    def key(self) -> str:
        """The name of its record."""
        return f"{self.load}-{self.num_envs}-{self.game}"


def cells_of(options: BenchOptions, has_gpu: bool) -> list[Cell]:
    """All cells of a run, in its order, so that a run cut short has every load of fewer games.

    Divergence is measured at the largest size only.
    """
    found = []
    for game in options.games:
        for load in (load for load in LOADS if load in options.load):
            sizes = options.sizes(load, has_gpu)
            sizes = sizes[-1:] if load == "divergence" else sizes
            found += [Cell(load, game, num_envs) for num_envs in sizes]
    return found
