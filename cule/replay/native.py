"""Replay on the CPU by single calls of `cule._core`.

Tensor operations run on every device without waiting for it. On the CPU, calling a small one takes
longer than running it, so there `append`, `observe`, `sample`, `sample_at` and `update_priorities`
use this module. The results are the same bit for bit: the same samples, sums and roundings. Torch
computes the powers, because another implementation would differ in their last bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cule import _core
from cule.replay.options import PrioritizedOptions, StorageOptions
from cule.replay.steps import ArrayLike, Step, Steps
from cule.replay.transitions import Batch, Transitions

if TYPE_CHECKING:
    from cule.replay.priority_sums import Priorities

#: Any: the dtype is that of a tensor, known at run time only.
AnyArray: TypeAlias = NDArray[Any]

#: Integers that stand for elements whose dtype numpy does not have.
_SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def is_used(device: torch.device) -> bool:
    """Whether this module serves a device."""
    return device.type == "cpu"


def as_array(tensor: Tensor) -> AnyArray:
    """A numpy array of the memory of a tensor."""
    try:
        array: AnyArray = tensor.detach().numpy()
    except TypeError:
        array = tensor.detach().view(_SAME_SIZE[tensor.itemsize]).numpy()
    return array


def rules_of(options: StorageOptions) -> dict[str, object]:
    """The options that say how to read cells."""
    names = ("stack", "pad", "gamma", "reward_clipping", "terminal_on_life_loss", "autoreset_mode")
    return {name: getattr(options, name) for name in names}


#: Dtypes of observations and actions.
Types: TypeAlias = tuple[torch.dtype, torch.dtype]


class NativeCells:
    """Flat memory of cells; the native form of `cule.replay.transitions.read_transitions`."""

    def __init__(self, tensors: dict[str, Tensor], options: StorageOptions) -> None:
        """View frames, actions, rewards and flags, by name, and keep them alive."""
        self._types = options.obs_dtype, options.action_dtype
        names = ("frames", "actions", "rewards", "flags")
        frames, actions, rewards, flags = (as_array(tensors[name]) for name in names)
        self._cells = _core.ReplayCells(frames, actions, rewards, flags, rules_of(options))

    def read(self, window: Tensor, n_step: int) -> Transitions:
        """The transitions of windows; int64 ``[B, S + n]``."""
        found = self._cells.gather(as_array(window.contiguous()), n_step)
        obs, actions, next_obs = _as_tensors(found, self._types)
        returns, discounts, usable, _ = torch.from_numpy(found[3]).unbind()
        return Transitions(obs, actions, returns, discounts, next_obs, usable != 0)


def _as_tensors(found: tuple[AnyArray, ...], types: Types) -> list[Tensor]:
    """Observations, actions and next observations."""
    obs, actions, next_obs = (torch.from_numpy(array) for array in found[:3])
    if (obs.dtype, actions.dtype) != types:
        return [obs.view(types[0]), actions.view(types[1]), next_obs.view(types[0])]
    return [obs, actions, next_obs]


def _as_batch(found: tuple[AnyArray, ...], types: Types) -> Batch:
    """A batch that `_core.ReplayRing` has gathered."""
    obs, actions, next_obs = _as_tensors(found, types)
    returns, discounts, weights, probabilities = torch.from_numpy(found[3]).unbind()
    ids = torch.from_numpy(found[4])
    return Batch(obs, actions, returns, discounts, next_obs, weights, ids, probabilities)


class Scratch:
    """Reused memory for float64 numbers, as a tensor and as an array."""

    def __init__(self) -> None:
        """Start empty."""
        self._tensor = torch.empty(0, dtype=torch.float64)
        self._array: NDArray[np.float64] = self._tensor.numpy()

    def __call__(self, count: int) -> tuple[Tensor, NDArray[np.float64]]:
        """Uninitialized numbers, valid until the next call."""
        if len(self._array) != count:
            with torch.inference_mode(False):  # inference tensors are read-only outside of it
                self._tensor = torch.empty(count, dtype=torch.float64)
            self._array = self._tensor.numpy()
        return self._tensor, self._array


class NativeRing:
    """The native form of `cule.replay.ring.FrameRing`."""

    def __init__(
        self, tensors: dict[str, Tensor], num_finals: int, options: StorageOptions
    ) -> None:
        """View `FrameRing.tensors`, and keep them alive; `num_finals`: final frames in memory."""
        self.types: Types = options.obs_dtype, options.action_dtype
        self._has_finals = num_finals > 0
        self._uniform = Scratch()
        arrays = {name: as_array(value) for name, value in tensors.items()}
        # If numpy does not have a dtype, the core cannot reject arrays of a wrong one.
        self._checks_types = all(
            torch.from_numpy(arrays[name]).dtype == tensors[name].dtype
            for name in ("frames", "actions")
        )
        names = ("rewards", "flags", "final_slot", "final_count", "head")
        rewards, flags, final_slot, final_count, head = (arrays[n].reshape(-1) for n in names)
        frames, actions = arrays["frames"], arrays["actions"].reshape(-1, *options.action_shape)
        sizes = options.num_envs, num_finals
        self.core = _core.ReplayRing(
            frames,
            actions,
            rewards,
            flags,
            final_slot,
            final_count,
            head,
            *sizes,
            rules_of(options),
        )

    def append(self, actions: ArrayLike, step: Step) -> bool:
        """Store a step, or return False if a part of it needs a check, a conversion or a copy."""
        if not self._checks_types:
            return False
        final = step.final_frame if self._has_finals else None
        given = (
            *(step.frame, actions, step.reward, step.terminated, step.truncated),
            *(step.life_lost, step.first, final),
        )
        try:
            return self.core.write(*(v.numpy() if isinstance(v, Tensor) else v for v in given))
        except (RuntimeError, TypeError):  # a tensor elsewhere, or of a dtype that numpy lacks
            return False

    def write(self, steps: Steps) -> None:
        """`FrameRing.write`, without counting."""
        given = (None if value is None else as_array(value.contiguous()) for value in steps)
        is_written = self.core.write(*given)
        assert is_written

    def observe(self) -> Tensor:
        """`FrameRing.observe`."""
        return torch.from_numpy(self.core.observe()).view(self.types[0])

    def sample(self, generator: torch.Generator, count: int, n_step: int) -> Batch:
        """Uniformly sampled transitions."""
        return _as_batch(self.core.sample(self.uniform(generator, count), n_step), self.types)

    def uniform(self, generator: torch.Generator, count: int) -> NDArray[np.float64]:
        """The random numbers of `torch.rand`; valid until the next call."""
        tensor, array = self._uniform(count)
        tensor.uniform_(generator=generator)
        return array

    def sample_distinct(
        self, order: tuple[Tensor, Tensor, Tensor], uniform: Tensor, count: int, n_step: int
    ) -> Tensor:
        """The next ids of a random order of a key, position and head; `uniform`: for a new key."""
        key, position, head = (as_array(word).reshape(-1) for word in order)
        ids = self.core.sample_distinct(key, position, head, float(uniform), count, n_step)
        return torch.from_numpy(ids)

    def gather(self, ids: Tensor, n_step: int) -> Batch:
        """The transitions of ids."""
        return _as_batch(self.core.gather(as_array(ids.contiguous()), n_step), self.types)


class NativePriorities:
    """The native form of what `cule.replay.prioritized` does with the priorities of a ring."""

    def __init__(
        self, ring: NativeRing, priorities: Priorities, options: PrioritizedOptions
    ) -> None:
        """View the tensors of a buffer, and keep them alive."""
        self._ring, self._core, self._types = ring, ring.core, ring.types
        self._num_envs, self._n_step, self._alpha = options.num_envs, options.n_step, options.alpha
        assert priorities.sums.native is not None
        self._sums, self._scratch = priorities.sums.native, Scratch()
        self._limit, self._max_priority = priorities.largest_priority, priorities.max_priority
        self._max_view = as_array(priorities.max_priority).reshape(-1)
        self._rejected_view = as_array(priorities.num_rejected).reshape(-1)
        self._cached_for, self._cached_powers = (0, 0.0), np.zeros(0)

    def sample(self, generator: torch.Generator, count: int, beta: float | Tensor) -> Batch:
        """`PrioritizedReplay.sample`."""
        powers, bases = self._scratch(count)
        uniform = self._ring.uniform(generator, count)
        found = self._core.sample_prioritized(self._sums, uniform, bases, self._n_step)
        return self._weighed(found, powers, bases, beta)

    def gather(self, ids: Tensor, beta: float | Tensor) -> Batch:
        """The transitions of ids."""
        wanted, (powers, bases) = as_array(ids.contiguous()), self._scratch(len(ids))
        found = self._core.gather_prioritized(self._sums, wanted, bases, self._n_step)
        return self._weighed(found, powers, bases, beta)

    def _weighed(
        self,
        found: tuple[AnyArray, ...],
        powers: Tensor,
        bases: NDArray[np.float64],
        beta: float | Tensor,
    ) -> Batch:
        powers.pow_(-(beta.detach() if isinstance(beta, Tensor) else beta))
        _core.finish_weights(found[3], bases)
        return _as_batch(found, self._types)

    def follow_head(self, num_steps: int, priorities: Tensor | None) -> None:
        """`PrioritizedReplay._follow_head`."""
        given = None
        if priorities is None:
            powers = self._largest_powers(num_steps)
        else:
            given = as_array(priorities.contiguous()).reshape(-1)
            powers = self._powers(given, fallback=float(self._max_view[0]))
        self._core.follow_head(self._sums, num_steps, given, powers, self._n_step)

    def _largest_powers(self, num_steps: int) -> NDArray[np.float64]:
        """Powers of the largest priority for T steps; cached, because it seldom changes."""
        key = num_steps, float(self._max_view[0])
        if key != self._cached_for:
            shape = num_steps, self._num_envs
            powers = self._max_priority.expand(shape).pow(self._alpha).contiguous()
            self._cached_for, self._cached_powers = key, powers.numpy().reshape(-1)
        return self._cached_powers

    def update(self, ids: ArrayLike, priorities: ArrayLike) -> bool:
        """Set priorities, or return False if they need a check or a conversion first."""
        try:
            at = ids.numpy() if isinstance(ids, Tensor) else ids
            given = priorities.numpy() if isinstance(priorities, Tensor) else priorities
        except (RuntimeError, TypeError):  # elsewhere, or of a dtype that numpy lacks
            return False
        if not _core.are_priorities(at, given):
            return False
        assert isinstance(given, np.ndarray)
        tensor, powers = self._scratch(given.size)
        powers[:] = given
        tensor.pow_(self._alpha)
        seen = self._max_view, self._rejected_view, self._limit
        self._core.update_priorities(self._sums, at, given, powers, self._n_step, *seen)
        return True

    def _powers(self, priorities: AnyArray, *, fallback: float) -> NDArray[np.float64]:
        """Powers of priorities, with `fallback` in place of invalid ones, which are counted."""
        powers, accepted = self._scratch(priorities.size)
        _core.accept_priorities(
            self._max_view, self._rejected_view, priorities, fallback, self._limit, accepted
        )
        powers.pow_(self._alpha)
        return accepted
