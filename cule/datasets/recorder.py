"""Recording: an environment is stepped through the recorder, which notes seeds and actions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from cule import __version__
from cule.datasets.digests import Totals
from cule.datasets.format import (
    MAX_STEPS,
    RESET_FLAG,
    TERMINATED,
    TRUNCATED,
    UNFINISHED,
    Log,
    Segment,
    write_log,
)
from cule.datasets.settings import recorded_options
from cule.envs.checks import Array, as_int, to_numpy
from cule.envs.errors import ArgumentTypeError
from cule.envs.options import EnvOptions
from cule.envs.requests import as_seeds
from cule.envs.results import Info, StepResult
from cule.envs.vector_env import BatchEnv
from cule.errors import CuleError, DatasetError, InvalidArgumentError, NotResetError, shown
from cule.games import resolve
from cule.reading import MAX_DATASET_EPISODES, MAX_DATASET_STEPS, MAX_JSON_BYTES
from cule.signals import signals_wait

#: What a seed takes of a header at most, and what a segment takes without its seeds, or the header
#: without segments and options.
_SEED_BYTES, _SEGMENT_BYTES = 12, 1000


class Recorder:
    """Steps an environment, and records a dataset.

    Call `reset` and `step` of the recorder instead of those of the environment; nothing else may
    move the environment meanwhile. Each `reset` with a seed starts a new trajectory in every
    environment. The log stays in memory, one byte for each step of an environment, until `save`.

    Args:
        env: The environment, of one game, with ``episode_info=True``, without continuous actions,
            `decorrelate_steps` or a smaller `batch_size`. With ``reward_clipping=False`` and
            SameStep or Disabled autoreset, `episode_info` can be False.
        digest_every: Steps between two digests, with which playback is compared.

    Raises:
        InvalidArgumentError: The environment has other options, or `digest_every` is below 1.

    Example:
        >>> import cule
        >>> from cule.datasets import Recorder, open_dataset
        >>> env = cule.AtariVectorEnv("pong", num_envs=2, episode_info=True)
        >>> recorder = Recorder(env)
        >>> obs, info = recorder.reset(seed=1)
        >>> for _ in range(10):
        ...     obs, reward, terminated, truncated, info = recorder.step(env.action_space.sample())
        >>> recorder.save("pong.cule")
        >>> len(open_dataset("pong.cule"))
        20
    """

    def __init__(self, env: BatchEnv, *, digest_every: int = 1000) -> None:
        """Check the environment; the first `reset` starts the recording."""
        if not isinstance(getattr(env, "config", None), EnvOptions):
            raise ArgumentTypeError(f"env is {shown(env)}; it must be an AtariVectorEnv")
        self.env = env
        self._options = recorded_options(env.config)
        self._digest_every = as_int("digest_every", digest_every, 1, MAX_STEPS)
        game, config = env.config.game, env.config
        name = game if isinstance(game, str) else game[0][0]
        spec = resolve(name, config.rom_path, config.rules)
        self._game, self._rom_md5 = spec.game_id, spec.md5
        self._resets_late = config.autoreset_mode is AutoresetMode.NEXT_STEP
        self._segments: list[Segment] = []
        self._seeds: tuple[int, ...] = ()  # of the trajectories being recorded
        self._num_steps = 0  # of each of them
        self._header_bytes = len(json.dumps(self._options)) + _SEGMENT_BYTES  # of the file
        self._last = np.empty(0, np.uint32)  # digests after the last step, if a reset followed

    def __len__(self) -> int:
        """Steps recorded so far, of all environments together."""
        steps = sum(segment.num_steps * len(segment.seeds) for segment in self._segments)
        return steps + (self._num_steps * len(self._seeds))

    def reset(
        self, *, seed: object = None, options: Mapping[str, object] | None = None
    ) -> tuple[Array, Info]:
        """Start new trajectories in all environments, or new episodes in some.

        Args:
            seed: An integer s: environment i gets s + i. An integer array ``[N]``: one for each.
                None with ``reset_mask``: the episodes belong to the same trajectories.
            options: ``reset_mask``, bool ``[N]``, as in `AtariVectorEnv.reset`.

        Returns:
            As `AtariVectorEnv.reset`.

        Raises:
            InvalidArgumentError: There is no seed, or a seed with ``reset_mask``, or ``states``.
            NotResetError: ``reset_mask`` before the first reset.
            DatasetError: There are so many trajectories that the file could not be read again.
                Nothing is reset, and what was recorded can be saved.
        """
        if options:
            return self._reset_some(seed, options)
        seeds = as_seeds(seed, self.env.num_envs)
        if seeds.min() < 0:
            raise InvalidArgumentError(
                f"seed is {shown(seed)}; a recording needs seeds of 0 or more, or reset_mask"
            )
        header_bytes = self._header_bytes + _SEGMENT_BYTES + _SEED_BYTES * len(seeds)
        if header_bytes > MAX_JSON_BYTES:
            raise DatasetError(
                f"the header of the dataset would have up to {header_bytes} bytes, and at most "
                f"{MAX_JSON_BYTES} can be read; save the recording and begin another"
            )
        ended = self._pack() if self._seeds else []
        result = self._reset_env(lambda: ended, seed=seeds.astype(np.uint32))
        self._end_segment(ended)
        self._header_bytes = header_bytes
        self._seeds = tuple(seeds.tolist())
        num_envs = self.env.num_envs
        self._rows, self._num_steps = bytearray(), 0  # uint8 [T, N]
        self._was_reset = np.zeros(num_envs, bool)  # since the last step
        self._totals = Totals(num_envs)
        self._digests = [self._totals.digests(self.env)]
        self._episodes: list[tuple[int, ...]] = []
        self._starts = np.zeros(num_envs, np.int64)  # of episodes, in steps
        self._returns = np.zeros(num_envs, np.int64)
        return result

    def step(self, actions: object) -> StepResult:
        """Advance every environment by one step, and record it.

        Args:
            actions: As for `AtariVectorEnv.step`.

        Returns:
            As `AtariVectorEnv.step`.

        Raises:
            NotResetError: Before the first `reset` of the recorder.
            ActionShapeError, ActionRangeError: As `AtariVectorEnv.step`; nothing is recorded.
            DatasetError: After 2^28 steps since the last reset with a seed, or 2^21 episodes, all
                environments together. No environment moves, and what was recorded can be saved.
        """
        self._check_started()
        self._check_room()
        with signals_wait():  # a step that is done but not recorded would spoil all later ones
            return self._step(actions)

    def _step(self, actions: object) -> StepResult:
        result = self.env.step(actions)
        row = np.array(to_numpy(actions), np.uint8)
        self._rows += (row | np.where(self._was_reset, RESET_FLAG, 0).astype(np.uint8)).tobytes()
        self._num_steps += 1
        self._was_reset[:] = False
        terminated, truncated = to_numpy(result[2]), to_numpy(result[3])
        raw_reward = to_numpy(result[4].get("reward", result[1]))
        self._totals.add(raw_reward, terminated, truncated)
        self._returns += raw_reward
        if self._resets_late:  # episode_length is 0 where this step was a reset
            self._starts[to_numpy(result[4]["episode_length"]) == 0] = self._num_steps
        for index in np.flatnonzero(terminated | truncated):
            self._end(int(index), TERMINATED if terminated[index] else TRUNCATED)
        if self._num_steps % self._digest_every == 0:
            self._digests.append(self._totals.digests(self.env))
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything recorded so far; the recording can continue.

        Raises:
            NotResetError: Before the first `reset` of the recorder.
            ClosedError: The environment has been closed; save before that.
            StorageError: The file cannot be written; an existing one is unchanged.
        """
        if not self._segments:
            self._check_started()
        names = tuple(action.name for action in self.env.action_set)
        facts = (__version__, self._game, self._rom_md5, self._options, names)
        segments = (*self._segments, *(self._pack() if self._seeds else ()))
        write_log(path, Log(*facts, self._digest_every, segments))

    def _reset_some(self, seed: object, options: Mapping[str, object]) -> tuple[Array, Info]:
        self._check_started()
        if seed is not None or set(options) != {"reset_mask"}:
            raise InvalidArgumentError(
                f"seed is {shown(seed)} and options holds {', '.join(map(repr, options))}; a "
                "recording can have a seed, or reset_mask without one"
            )
        mask = to_numpy(options["reset_mask"])
        is_mask = isinstance(mask, np.ndarray) and mask.dtype == bool  # others are refused below
        if is_mask and mask.shape == self._was_reset.shape and (self._was_reset & mask).any():
            raise InvalidArgumentError(
                "options: reset_mask holds environments that were reset since the last step"
            )
        last = self._last if self._was_reset.any() else self._totals.digests(self.env)

        def pack() -> list[Segment]:
            self._last, self._was_reset[:] = last, True
            return self._pack()

        result = self._reset_env(pack, options=options)
        self._last = last
        for index in np.flatnonzero(mask):
            if self._starts[index] < self._num_steps:
                self._end(int(index), UNFINISHED)
        self._was_reset |= mask
        return result

    def _reset_env(self, pack: Callable[[], list[Segment]], **request: Any) -> tuple[Array, Info]:
        """Reset environments; where it is interrupted, the trajectories end before it.

        Args:
            pack: Gives the segment of these trajectories.
            **request: Arguments of the reset.
        """
        try:
            return self.env.reset(**request)
        except CuleError:  # nothing has moved
            raise
        except BaseException:  # such as Ctrl-C
            self._end_segment(pack())
            raise

    def _end_segment(self, segment: list[Segment]) -> None:
        self._segments += segment
        self._num_packed = sum(each.num_episodes for each in self._segments)
        self._seeds = ()

    def _check_started(self) -> None:
        if not self._seeds:
            raise NotResetError("no trajectory has begun; call reset(seed=...) of the recorder")

    def _check_room(self) -> None:
        """Refuse a step after which the file could not be read again."""
        num_envs = len(self._seeds)
        num_episodes = self._num_packed + len(self._episodes)
        if (self._num_steps + 1) * num_envs > MAX_DATASET_STEPS:
            what = f"{self._num_steps * num_envs} steps since the last reset with a seed"
            most = MAX_DATASET_STEPS
        elif num_episodes + num_envs > MAX_DATASET_EPISODES:
            what = f"{num_episodes} complete episodes and {num_envs} in play"
            most = MAX_DATASET_EPISODES
        else:
            return
        raise DatasetError(
            f"the recording has {what}, and at most {most} can be read; save it and begin another"
        )

    def _end(self, index: int, end: int) -> None:
        """Note an episode of an environment that ends with the last step."""
        start, stop = int(self._starts[index]), self._num_steps
        self._episodes.append((index, start, stop, int(self._returns[index]), end))
        self._starts[index], self._returns[index] = stop, 0

    def _pack(self) -> list[Segment]:
        """The segment being recorded; none before its first step."""
        total = self._num_steps
        if not total:
            return []
        digests = list(self._digests)
        if total % self._digest_every:
            is_noted = self._was_reset.any()
            digests.append(self._last if is_noted else self._totals.digests(self.env))
        open_episodes = [
            (index, int(start), total, int(self._returns[index]), UNFINISHED)
            for index, start in enumerate(self._starts)
            if start < total
        ]
        episodes = np.array([*self._episodes, *open_episodes], np.int64).reshape(-1, 5)
        episodes = episodes[np.lexsort((episodes[:, 1], episodes[:, 0]))]
        rows = np.frombuffer(bytes(self._rows), np.uint8).reshape(total, -1)
        return [
            Segment.pack(self._seeds, np.ascontiguousarray(rows.T), np.stack(digests), episodes)
        ]
