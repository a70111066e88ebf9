"""A dataset that was read: what is in it, and how it is played."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from cule.datasets.format import (
    MAX_ENVS,
    MAX_STEPS,
    TERMINATED,
    TRUNCATED,
    Log,
    read_log,
)
from cule.datasets.playback import ReplayStep, play
from cule.datasets.settings import LATER_OPTIONS, check_recorded, check_rom, playback_options
from cule.datasets.shuffling import Transitions, as_tensors, shuffled
from cule.envs.checks import as_choice, as_int
from cule.errors import DatasetError, InvalidArgumentError, shown


class Episode(NamedTuple):
    """An episode of a trajectory: its steps ``start`` to ``stop - 1``."""

    trajectory: int
    """Which trajectory of the dataset."""

    start: int
    """Its first step."""

    stop: int
    """The step after its last one."""

    episode_return: int
    """Sum of its rewards, not clipped."""

    terminated: bool
    """Whether it terminated."""

    truncated: bool
    """Whether it was truncated. With neither, the recording or a reset ended it."""


class Dataset:
    """Recorded trajectories of one game, as `open_dataset` returns them.

    Attributes:
        game: Id of the game.
        rom_md5: MD5 of its ROM, 32 hexadecimal digits.
        cule_version: Version of cule that recorded it.
        action_set: Names of the actions, as in `cule.Action`.
        seeds: Seed of each trajectory.
        num_trajectories: Number of trajectories.

    Example:
        >>> import cule
        >>> from cule.datasets import Recorder, open_dataset
        >>> env = cule.AtariVectorEnv("pong", num_envs=2, episode_info=True)
        >>> recorder = Recorder(env)
        >>> obs, info = recorder.reset(seed=1)
        >>> obs, *_ = recorder.step(env.action_space.sample())
        >>> recorder.save("pong.cule")
        >>> dataset = open_dataset("pong.cule")
        >>> [step.obs.shape for step in dataset.replay(num_envs=2)]
        [(2, 4, 84, 84)]
    """

    def __init__(self, log: Log) -> None:
        """Read the tables of episodes."""
        self._log = log
        self.game, self.rom_md5, self.cule_version = log.game, log.rom_md5, log.cule_version
        self.action_set = log.action_set
        self.seeds = tuple(seed for segment in log.segments for seed in segment.seeds)
        self.num_trajectories = len(self.seeds)
        self._tables = [segment.episodes() for segment in log.segments]

    def __len__(self) -> int:
        """Steps of all trajectories, resets of NextStep autoreset included."""
        return sum(len(segment.seeds) * segment.num_steps for segment in self._log.segments)

    def __repr__(self) -> str:
        """Game and sizes."""
        return (
            f"{type(self).__name__}({self.game!r}, steps={len(self)}, "
            f"trajectories={self.num_trajectories}, episodes={sum(map(len, self._tables))})"
        )

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the recorded environment, without those of the machine."""
        return MappingProxyType(self._log.options)

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Every episode, in the order of trajectories and steps."""
        found: list[Episode] = []
        first = 0
        for segment, table in zip(self._log.segments, self._tables, strict=True):
            for row, start, stop, total, end in table.tolist():
                ends = end == TERMINATED, end == TRUNCATED
                found.append(Episode(first + row, start, stop, total, *ends))
            first += len(segment.seeds)
        return tuple(found)

    @property
    def resets(self) -> tuple[tuple[int, int], ...]:
        """Trajectory and step of each reset by a ``reset_mask``, which came before the step.

        Raises:
            DatasetError: There are more than episodes, of which each begins one.
        """
        found: list[tuple[int, int]] = []
        first = 0
        for segment in self._log.segments:
            rows, steps = segment.resets()
            found += zip((rows + first).tolist(), steps.tolist(), strict=True)
            first += len(segment.seeds)
        return tuple(found)

    def replay(self, *, num_envs: int = 64, **options: Any) -> Generator[ReplayStep, None, None]:
        """Play the trajectories, `num_envs` at a time, and compare them with their digests.

        Args:
            num_envs: Environments of the batch; fewer where fewer trajectories are left.
            **options: Options of `cule.EnvOptions` that change observations, the clipping of
                rewards, or how environments run: by default as recorded, on the CPU.

        Returns:
            A generator of `ReplayStep`. Its arrays belong to the caller.

        Raises:
            InvalidArgumentError: An option would change the games, or has a wrong value.
            DatasetError: The ROM is another one.
            RomNotFoundError: There is none.
            DigestMismatchError: From the iterator, where a trajectory differs from its recording.
        """
        count = as_int("num_envs", num_envs, 1, MAX_ENVS)
        merged = playback_options(self._log.options, options)
        check_rom(self.game, self.rom_md5, merged)
        return play(self._log, count, merged)

    def transitions(
        self,
        batch_size: int,
        *,
        window: int = 1024,
        seed: int = 0,
        framework: str = "numpy",
        num_envs: int = 64,
        **options: Any,
    ) -> Iterator[Transitions]:
        """Every transition once, in batches, in random order within a window.

        Args:
            batch_size: Transitions of a batch; the last one has fewer.
            window: Transitions that wait to be drawn, at least `batch_size`: their observations
                are in memory, twice.
            seed: Seed of the order.
            framework: "numpy" or "torch".
            num_envs: As for `replay`.
            **options: As for `replay`.

        Returns:
            An iterator of `Transitions`, in memory of the CPU.

        Raises:
            InvalidArgumentError: A value outside its range; otherwise as `replay`.
            CapacityError: From the first batch: the window does not fit into the free memory.
        """
        size = as_int("batch_size", batch_size, 1, MAX_STEPS)
        room = as_int("window", window, size, MAX_STEPS)
        start = as_int("seed", seed, 0, MAX_STEPS)
        kind = as_choice("framework", framework, ("numpy", "torch"))
        if options.get("output") not in (None, "numpy"):
            raise InvalidArgumentError(
                f"output is {shown(options['output'])}; with transitions it must be 'numpy'; "
                "framework='torch' gives tensors"
            )
        steps = self.replay(num_envs=num_envs, **(options | {"output": "numpy"}))
        rows = min(num_envs, max(map(len, (s.seeds for s in self._log.segments)), default=1))
        batches = shuffled(steps, rows, size, min(room, len(self)), start)
        return batches if kind == "numpy" else as_tensors(batches)


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Read a dataset into memory, after comparing its checksum.

    Args:
        path: A file that `Recorder.save` or ``cule record`` wrote. No code in it is executed.

    Raises:
        OSError: There is no such file, or it cannot be read.
        DatasetError: It is no dataset, damaged, or of another version of the format.
    """
    log = read_log(path)
    log = replace(log, options=LATER_OPTIONS | log.options)
    try:
        check_recorded(log.options, {len(segment.seeds) for segment in log.segments})
        return Dataset(log)
    except DatasetError as error:
        raise DatasetError(f"{path} cannot be read: {error}") from None
