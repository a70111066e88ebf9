"""Replay on a processor: what the other files do with tensors, by single calls of `cule._core`.

Tensor operations are the way of every device, made to be launched without waiting for it. On a
processor a small one takes longer to call than to do, so there each of `append`, `observe`,
`sample`, `sample_at` and `update_priorities` goes through here instead, with the same results bit
for bit: the same draws, the same sums, the same roundings. Powers are left to torch, whose last
bits are its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cule import _core
from cule.replay.options import PrioritizedOptions, StorageOptions
from cule.replay.steps import Step, Steps
from cule.replay.transitions import Batch, Transitions

#: Integers to see the values of a tensor as where numpy does not know their type.
_SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def is_used(device: torch.device) -> bool:
    """Whether the tensors of a device are for this file."""
    return device.type == "cpu"


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A tensor as a numpy array of the same memory."""
    try:
        array: NDArray[Any] = tensor.numpy()
    except RuntimeError:  # it is part of a graph of gradients
        return as_array(tensor.detach())
    except TypeError:
        array = tensor.view(_SAME_SIZE[tensor.itemsize]).numpy()
    return array


def as_tensor(array: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """A numpy array as a tensor of the same memory, of the type it was made from."""
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)


def reading_rules(options: StorageOptions) -> dict[str, Any]:
    """How rows are to be read."""
    names = ("stack", "pad", "gamma", "reward_clipping", "terminal_on_life_loss", "autoreset_mode")
    return {name: getattr(options, name) for name in names}


class NativeRows:
    """Flat memory of rows; what `cule.replay.transitions.read_transitions` does."""

    def __init__(self, tensors: dict[str, Tensor], options: StorageOptions) -> None:
        """Look at frames, actions, rewards and flags, by name; they are kept alive."""
        self._types = options.obs_dtype, options.action_dtype
        self._rows = _core.ReplayRows(
            as_array(tensors["frames"]),
            as_array(tensors["actions"]),
            as_array(tensors["rewards"]),
            as_array(tensors["flags"]),
            reading_rules(options),
        )

    def read(self, window: Tensor, n_step: int) -> Transitions:
        """Transitions of some windows."""
        found = self._rows.read(as_array(window.contiguous()), n_step)
        obs, actions, next_obs = _as_tensors(found, self._types)
        returns, discounts, usable, _ = torch.from_numpy(found[3]).unbind()
        return Transitions(obs, actions, returns, discounts, next_obs, usable != 0)


Types = tuple[torch.dtype, torch.dtype]


def _as_tensors(found: tuple[NDArray[Any], ...], types: Types) -> list[Tensor]:
    """Observations, actions and next observations."""
    tensors = [torch.from_numpy(array) for array in found[:3]]
    if (tensors[0].dtype, tensors[1].dtype) != types:
        obs, actions, next_obs = tensors
        return [obs.view(types[0]), actions.view(types[1]), next_obs.view(types[0])]
    return tensors


def _as_batch(found: tuple[NDArray[Any], ...], types: Types) -> Batch:
    """What `_core.ReplayRing` has read, as tensors."""
    obs, actions, next_obs = _as_tensors(found, types)
    returns, discounts, weights, probabilities = torch.from_numpy(found[3]).unbind()
    ids = torch.from_numpy(found[4])
    return Batch(obs, actions, returns, discounts, next_obs, weights, ids, probabilities)


class Scratch:
    """Memory for float64 numbers, seen by torch and by numpy; kept as long as as many are asked."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._tensor = torch.empty(0, dtype=torch.float64)
        self._array: NDArray[np.float64] = self._tensor.numpy()

    def __call__(self, count: int) -> tuple[Tensor, NDArray[np.float64]]:
        """As many numbers; what they were does not matter."""
        if len(self._array) != count:
            with torch.inference_mode(False):  # or it could not be written to outside of it
                self._tensor = torch.empty(count, dtype=torch.float64)
            self._array = self._tensor.numpy()
        return self._tensor, self._array


class NativeRing:
    """A ring of time rows; what `cule.replay.ring.FrameRing` does.

    Attributes:
        core: The ring of `cule._core`.
        types: Of observations and actions.
    """

    def __init__(
        self, tensors: dict[str, Tensor], num_finals: int, options: StorageOptions
    ) -> None:
        """Look at the tensors of a ring; they are kept alive.

        Args:
            tensors: `FrameRing.tensors`.
            num_finals: Final frames that there is room for.
            options: Sizes, types, how rows are read.
        """
        self.types = options.obs_dtype, options.action_dtype
        self._has_finals = num_finals > 0
        self._uniform = Scratch()
        arrays = {name: as_array(value) for name, value in tensors.items()}
        # Where numpy does not know a type, it cannot tell wrong ones either.
        self._tells_types = all(
            torch.from_numpy(arrays[name]).dtype == tensors[name].dtype
            for name in ("frames", "actions")
        )
        self.core = _core.ReplayRing(
            arrays["frames"],
            arrays["actions"].reshape(-1, *options.action_shape),
            arrays["rewards"].reshape(-1),
            arrays["flags"].reshape(-1),
            arrays["final_slot"].reshape(-1),
            arrays["final_count"].reshape(-1),
            arrays["head"].reshape(-1),
            options.num_envs,
            num_finals,
            reading_rules(options),
        )

    def append(self, actions: Any, step: Step) -> bool:
        """Store a step if all of it is exactly what rows are made of, and tell whether it was.

        What must be checked, converted or copied first is not.
        """
        final = step.final_frame if self._has_finals else None
        given = (
            *(step.frame, actions, step.reward, step.terminated, step.truncated),
            *(step.life_lost, step.first, final),
        )
        if not self._tells_types:
            return False
        try:
            return self.core.write(*(v.numpy() if isinstance(v, Tensor) else v for v in given))
        except (RuntimeError, TypeError):  # a tensor elsewhere, or of a type that numpy lacks
            return False

    def write(self, steps: Steps) -> None:
        """`FrameRing.write`, without counting."""
        given = (None if value is None else as_array(value.contiguous()) for value in steps)
        was_written = self.core.write(*given)
        assert was_written

    def newest(self) -> Tensor:
        """`FrameRing.newest`."""
        return as_tensor(self.core.newest(), self.types[0])

    def sample(self, generator: torch.Generator, count: int, n_step: int) -> Batch:
        """Transitions at random."""
        return _as_batch(self.core.sample(self.uniform(generator, count), n_step), self.types)

    def uniform(self, generator: torch.Generator, count: int) -> NDArray[np.float64]:
        """Random numbers, those of `torch.rand`; valid until the next call."""
        tensor, array = self._uniform(count)
        tensor.uniform_(generator=generator)
        return array

    def deal(
        self, order: tuple[Tensor, Tensor, Tensor], uniform: Tensor, count: int, n_step: int
    ) -> Tensor:
        """The next ids of a random order.

        Args:
            order: Its key, how far it has been read, and for which head; int64 scalars, set here.
            uniform: What the key of a new order is made from; float64 ``[1]``.
            count: How many; at most as many as there are.
            n_step: Steps of a return.
        """
        key, position, head = (as_array(word).reshape(-1) for word in order)
        ids = self.core.deal(key, position, head, float(uniform), count, n_step)
        return torch.from_numpy(ids)

    def batch(self, ids: Tensor, n_step: int) -> Batch:
        """The transitions of some ids."""
        return _as_batch(self.core.batch(as_array(ids.contiguous()), n_step), self.types)


class NativePriorities:
    """Priorities of the transitions of a ring; what `cule.replay.prioritized` does with them."""

    def __init__(
        self,
        ring: NativeRing,
        sums: _core.PrioritySums,
        options: PrioritizedOptions,
        largest_priority: float,
        max_priority: Tensor,
        num_refused: Tensor,
    ) -> None:
        """Look at the tensors of a buffer; they are kept alive.

        Args:
            ring: The ring.
            sums: What its transitions weigh.
            options: Those of the buffer.
            largest_priority: What priorities above it count as.
            max_priority: As in `PrioritizedReplay`.
            num_refused: Likewise.
        """
        self._of, self._ring, self._types = ring, ring.core, ring.types
        self._sums, self._scratch = sums, Scratch()
        self._num_envs, self._n_step = options.num_envs, options.n_step
        self._alpha, self._most = options.alpha, largest_priority
        self._uniform_mixture = options.uniform_mixture
        self._max_priority, self._max_view = max_priority, as_array(max_priority).reshape(-1)
        self._refused_view = as_array(num_refused).reshape(-1)
        self._known_of, self._known_powers = (0, 0.0), np.zeros(0)

    def sample(self, generator: torch.Generator, count: int, beta: float | Tensor) -> Batch:
        """Transitions in proportion to their priorities, one from each B-th of the total."""
        powers, bases = self._scratch(count)
        uniform = self._of.uniform(generator, 3 * count if self._uniform_mixture else count)
        found = self._ring.sample_prioritized(
            self._sums, uniform, bases, self._n_step, self._uniform_mixture
        )
        return self._weighed(found, powers, bases, beta)

    def batch(self, ids: Tensor, beta: float | Tensor) -> Batch:
        """The transitions of some ids."""
        wanted, (powers, bases) = as_array(ids.contiguous()), self._scratch(len(ids))
        found = self._ring.batch_prioritized(
            self._sums, wanted, bases, self._n_step, self._uniform_mixture
        )
        return self._weighed(found, powers, bases, beta)

    def _weighed(
        self,
        found: tuple[NDArray[Any], ...],
        powers: Tensor,
        bases: NDArray[np.float64],
        beta: float | Tensor,
    ) -> Batch:
        powers.pow_(-(beta.detach() if isinstance(beta, Tensor) else beta))
        _core.finish_weights(found[3], bases)
        return _as_batch(found, self._types)

    def follow_head(self, num_steps: int, priorities: Tensor | None) -> None:
        """Let new rows in and old rows out after the head has moved; priorities ``[T, N]``."""
        if priorities is None:
            powers = self._largest_powers(num_steps)
            self._ring.follow(self._sums, num_steps, None, powers, self._n_step)
        else:
            given = as_array(priorities.contiguous()).reshape(-1)
            powers = self._powers(given, float(self._max_view[0]))
            self._ring.follow(self._sums, num_steps, given, powers, self._n_step)

    def _largest_powers(self, num_steps: int) -> NDArray[Any]:
        """Powers of the largest priority for so many steps; they are the same for long."""
        of = num_steps, float(self._max_view[0])
        if of != self._known_of:
            shape = num_steps, self._num_envs
            powers = self._max_priority.expand(shape).pow(self._alpha).contiguous()
            self._known_of, self._known_powers = of, powers.numpy().reshape(-1)
        return self._known_powers

    def update(self, ids: Any, priorities: Any) -> bool:
        """Set the priorities of some transitions, if these are what they can be read from.

        Returns:
            Whether they were. What must be checked or converted first is not.
        """
        try:
            at = ids.numpy() if isinstance(ids, Tensor) else ids
            given = priorities.numpy() if isinstance(priorities, Tensor) else priorities
        except (RuntimeError, TypeError):  # elsewhere, or of a type that numpy lacks
            return False
        if not _core.are_priorities(at, given):
            return False
        self._ring.update(self._sums, at, given, self._powers(given, -1.0), self._n_step)
        return True

    def _powers(self, priorities: NDArray[Any], instead: float) -> NDArray[Any]:
        """Powers of priorities, with something else in place of refused ones, which are counted."""
        powers, kept = self._scratch(priorities.size)
        _core.accept_priorities(
            self._max_view, self._refused_view, priorities, instead, self._most, kept
        )
        powers.pow_(self._alpha)
        return kept
