"""Checks of the arguments of a batch other than actions: resets, indices, snapshots, memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.envs.checks import INT32_MAX, as_array, is_tensor, to_numpy, to_own_numpy
from cule.envs.errors import ArgumentTypeError, EnvIndexError, NativeErrors
from cule.envs.options import IMAGE_OPTIONS, EnvOptions
from cule.errors import InvalidArgumentError, InvalidStateError, StateVersionError, shown

if TYPE_CHECKING:
    from cule.envs.backend import Backend

_restore_errors = NativeErrors(value_error=InvalidStateError)

#: Largest seed of a console; one more is the time of day in ale-py.
MAX_SEED = 2**32 - 2

#: Seed of an environment whose random streams continue.
NO_SEED = -1

_RESET_OPTIONS = ("reset_mask", "states")

#: Options that snapshots depend on; `obs_type` and `resets` have other names there.
_SNAPSHOT_OPTIONS = tuple(name for name in IMAGE_OPTIONS if name != "maxpool")


@dataclass(frozen=True)
class ResetRequest:
    """Request of a reset."""

    mask: NDArray[np.bool_] | None  # [N]; None: all
    seeds: NDArray[np.int64]  # [N], NO_SEED where the random streams continue
    base_seed: int | None  # the seed, where it was one number
    states: NDArray[np.uint8] | None  # [n, state_size] for the n environments that are reset

    def indices(self, num_envs: int) -> NDArray[np.int64]:
        """The environments that are reset, int64 ``[n]``."""
        if self.mask is None:
            return np.arange(num_envs, dtype=np.int64)
        return np.flatnonzero(self.mask).astype(np.int64)

    def seeds_for(self, was_reset: bool) -> NDArray[np.int64]:
        """The seeds of a reset; those that the first reset lacks come from entropy."""
        if was_reset:
            return self.seeds
        entropy = np.random.default_rng().integers(2**31, size=len(self.seeds))
        return np.where(self.seeds == NO_SEED, entropy, self.seeds)

    def decorrelation_seed(self, random: np.random.Generator) -> int:
        """Seed of random steps: from an array of seeds, otherwise from the environment's stream."""
        if self.base_seed is None and (self.seeds != NO_SEED).any():
            random = np.random.default_rng((self.seeds + 1).tolist())
        return int(random.integers(2**31))


def parse_reset(
    seed: object, options: Mapping[str, object] | None, state_size: int, config: EnvOptions
) -> ResetRequest:
    """Check the arguments of a reset."""
    given = {} if options is None else options
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"options is {shown(options)}; it must be a dict or None")
    unknown = [key for key in given if key not in _RESET_OPTIONS]
    if unknown:
        raise InvalidArgumentError(
            f"options holds {shown(unknown[0])}; it may hold {' and '.join(_RESET_OPTIONS)}"
        )
    num_envs = config.num_envs
    mask = None
    if "reset_mask" in given:
        mask = as_array("reset_mask", given["reset_mask"], "bool", (num_envs,))
        mask = None if mask.all() else np.ascontiguousarray(mask)
    count = num_envs if mask is None else int(mask.sum())
    states = None
    if given.get("states") is not None:
        states = as_states(given["states"], count, state_size, config)
    numbers = as_seeds(seed, count)
    seeds = np.full(num_envs, NO_SEED, np.int64)
    seeds[slice(None) if mask is None else mask] = numbers
    base_seed = int(seed) if isinstance(seed, int | np.integer) and seed >= 0 else None
    return ResetRequest(mask, seeds, base_seed, states)


def as_seeds(seed: object, count: int) -> NDArray[np.int64]:
    """One seed for each of `count` environments.

    They are at most 2**31 - 1, as in ale-py, or in an array of uint32 at most `MAX_SEED`: seeds
    that Gymnasium environments derive have 32 bits.
    """
    if seed is None:
        return np.full(count, NO_SEED, np.int64)
    array, most = to_own_numpy(seed), INT32_MAX
    if isinstance(seed, int | np.integer):
        numbers = [int(seed) + index for index in range(count)]
    elif isinstance(array, np.ndarray) and array.dtype.kind in "iu":
        if array.shape != (count,):
            raise InvalidArgumentError(
                f"seed has shape {array.shape}; it must have one entry per sub-environment being "
                f"reset, shape ({count},)"
            )
        numbers = [int(number) for number in array]
        most = MAX_SEED if array.dtype == np.uint32 else INT32_MAX
    else:
        raise ArgumentTypeError(
            f"seed is {shown(seed)} ({type(seed).__name__}); it must be None, an integer or a list "
            "or array of integers"
        )
    if numbers and max(numbers) > most:
        raise InvalidArgumentError(
            f"seed gives environment {numbers.index(max(numbers))} the seed "
            f"{shown(max(numbers))}; it "
            f"must be at most {most}"
        )
    return np.array([max(number, NO_SEED) for number in numbers], np.int64)


def as_indices(
    indices: object, num_envs: int, unique: bool = False, name: str = "indices"
) -> NDArray[np.int64]:
    """Indices of environments, int64 ``[n]``; all for None."""
    if indices is None:
        return np.arange(num_envs, dtype=np.int64)
    try:
        array = np.asarray(to_numpy(indices))
    except ValueError:
        raise ArgumentTypeError(f"{name} is {shown(indices)}; it must hold integers") from None
    if array.size == 0 and array.ndim == 1:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu":
        raise ArgumentTypeError(f"{name} is {shown(indices)}; it must hold integers")
    array = np.atleast_1d(array)
    if array.ndim != 1:
        raise InvalidArgumentError(f"{name} has shape {array.shape}; it must have one dimension")
    if array.min() < 0 or array.max() >= num_envs:
        wrong = array[(array < 0) | (array >= num_envs)][0]
        raise EnvIndexError(
            f"{name} holds {wrong}, which is out of range; it must be in 0..{num_envs - 1}"
        )
    if unique and len(set(array.tolist())) != len(array):
        raise InvalidArgumentError(
            f"{name} is {shown(array.tolist())}, with a duplicate env_id; each must be there once"
        )
    return array.astype(np.int64)


def as_states(states: object, count: int, state_size: int, config: EnvOptions) -> NDArray[np.uint8]:
    """Snapshots of `AtariVectorEnv.get_state`, uint8 ``[count, state_size]``, contiguous.

    They are a copy, which no other thread can change between checking and restoring.

    One snapshot, ``[state_size]`` or ``[1, state_size]``, is for all environments.
    """
    array = to_numpy(states)
    if isinstance(array, np.ndarray) and array.dtype == np.uint8:
        rows = array[None] if array.ndim == 1 else array
        if rows.ndim == 2 and rows.shape[1] != state_size:
            check_saved_options(rows, config)
        if rows.ndim == 2 and len(rows) == 1:
            array = np.broadcast_to(rows, (count, rows.shape[1]))
    return np.array(as_array("states", array, "uint8", (count, state_size)), order="C")


def check_saved_options(states: NDArray[np.uint8], config: EnvOptions) -> None:
    """Refuse snapshots of other options of observations or resets, or of another format.

    Raises:
        InvalidStateError: There is one; the message names its options.
        StateVersionError: It is of another version of the format.
    """
    for index, row in enumerate(states):
        try:
            saved = _core.snapshot_options(row)
        except ValueError as error:
            raise StateVersionError(f"states[{index}]: {error}") from None
        if saved is None:
            continue
        has_sprites = saved.obs == _core.ObsKind.sprites
        names = [*_SNAPSHOT_OPTIONS, *(["max_sprites"] if has_sprites else [])]
        had = {name: getattr(saved, name) for name in names}
        had["obs_type"] = saved.obs.name
        had["resets"] = "cached" if saved.cached_resets else "exact"
        other = [name for name, value in had.items() if value != getattr(config, name)]
        if other:
            was, wanted = (
                " and ".join(f"{name}={shown(value)}" for name, value in pairs)
                for pairs in (
                    [(name, had[name]) for name in other],
                    [(name, getattr(config, name)) for name in other],
                )
            )
            raise InvalidStateError(
                f"states[{index}] was saved with {was}; this environment has {wanted}"
            )


def restore(
    batch: Backend, states: NDArray[np.uint8], indices: NDArray[np.int64], config: EnvOptions
) -> None:
    """Set environments of a batch to snapshots.

    Raises:
        InvalidStateError: One is damaged or does not fit; nothing has changed.
    """
    try:
        with _restore_errors:
            batch.set_state(states, indices)
    except InvalidStateError:
        check_saved_options(states, config)  # names an option where one differs
        raise


def frame_target(out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[np.generic]:
    """The memory of an array or tensor that frames are to be written to."""
    if is_tensor(out) and (out.device.type != "cpu" or out.requires_grad):
        raise ArgumentTypeError(
            f"out is a tensor on {out.device}; it must be on the CPU, without grad"
        )
    array = to_numpy(out)
    if not isinstance(array, np.ndarray) or array.dtype != dtype or not array.flags.writeable:
        raise ArgumentTypeError(
            f"out is a {type(out).__name__} of {getattr(out, 'dtype', 'no dtype')}; it must be a "
            f"writable {dtype} array or tensor"
        )
    check_rows(array.shape, tuple(stride // dtype.itemsize for stride in array.strides), shape)
    return array


def check_rows(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """Refuse memory whose rows (along the first axis) overlap or are not contiguous.

    Strides are in elements.
    """
    if shape != wanted:
        raise InvalidArgumentError(f"out has shape {shape}; it must be {wanted}")
    size = 1
    for length, stride in zip(reversed(shape[1:]), reversed(strides[1:]), strict=True):
        if length > 1 and stride != size:
            raise InvalidArgumentError(
                f"out has strides {strides}; each of its rows must be contiguous"
            )
        size *= length
    if shape[0] > 1 and abs(strides[0]) < size:
        raise InvalidArgumentError(f"out has strides {strides}; its rows overlap")
