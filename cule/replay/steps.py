"""Steps that callers store: their types, and the checks before they are stored."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import ArrayLike as NumpyArrayLike
from numpy.typing import NDArray
from torch import Tensor

from cule.errors import InvalidArgumentError, shown
from cule.replay.options import StorageOptions

#: A tensor on any device, an array, or a nested sequence.
ArrayLike: TypeAlias = NumpyArrayLike | Tensor


class Step(Protocol):
    """Result of one step of N environments, such as `cule.FrameStep`; fields are ``[N, ...]``."""

    @property
    def frame(self) -> ArrayLike:
        """Newest frames; ``[N, *obs_shape]``."""

    @property
    def reward(self) -> ArrayLike:
        """Rewards, not clipped; ``[N]``."""

    @property
    def terminated(self) -> ArrayLike:
        """Whether the episode terminated; bool ``[N]``."""

    @property
    def truncated(self) -> ArrayLike:
        """Whether the episode was truncated; bool ``[N]``."""

    @property
    def life_lost(self) -> ArrayLike:
        """Whether a life was lost without ending the game; bool ``[N]``."""

    @property
    def first(self) -> ArrayLike:
        """Whether `frame` is the first of an episode; bool ``[N]``."""

    @property
    def final_frame(self) -> ArrayLike | None:
        """Final frames of episodes that ended; as `frame`, and not read in NextStep mode."""


class Steps(NamedTuple):
    """T checked steps of all environments, on the device of the buffer; ``[T, N, ...]``."""

    frames: Tensor | None  # None: the frames are in place already
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    life_lost: Tensor
    first: Tensor
    final_frames: Tensor | None


#: What every step has.
_NEEDED = ("frame", "reward", "terminated", "truncated", "life_lost", "first")


def checked_tensor(
    name: str,
    value: ArrayLike | None,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    *,
    exact: bool = False,
) -> Tensor:
    """Convert the argument `name` to a tensor, or raise InvalidArgumentError.

    `exact` accepts `dtype` only. Otherwise other types of the same kind are converted: integers to
    integers of any size, everything to floats.
    """
    if isinstance(value, Tensor):
        if value.is_neg():
            value = value.resolve_neg()  # numpy has no negated views
        is_plain = value.layout == torch.strided and not value.is_nested
        if is_plain and value.dtype == dtype and value.shape == shape and value.device == device:
            return value
    elif isinstance(value, np.ndarray):
        value = _readable(value)
    try:
        tensor: Tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(f"{name} must be an array or tensor: {error}") from None
    if tensor.layout != torch.strided or tensor.is_nested or tensor.device.type == "meta":
        raise InvalidArgumentError(f"{name} is {shown(value)}; it must be a dense tensor with data")
    if tuple(tensor.shape) != shape:
        raise InvalidArgumentError(f"{name} has shape {tuple(tensor.shape)}; it must be {shape}")
    is_flag = dtype == torch.bool and tensor.dtype == torch.uint8
    fits = torch.can_cast(tensor.dtype, dtype) or is_flag
    if tensor.dtype != dtype and (exact or not fits):
        raise InvalidArgumentError(f"{name} has dtype {tensor.dtype}; it must be {dtype}")
    return tensor.to(device=device, dtype=dtype, non_blocking=device.type == "cuda")


def _readable(array: NDArray[Any]) -> NDArray[Any]:
    """An array as torch reads it: not read-only, no negative strides, bytes in native order."""
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        array = array.copy()
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def check_mode(step: Step, options: StorageOptions) -> None:
    """Raise InvalidArgumentError for a step of environments that reset themselves in another way.

    On any device, where the step says so, as that of `AtariVectorEnv` does: reads no tensor.
    """
    mode = getattr(step, "autoreset_mode", None)
    if mode is None and not all(hasattr(step, name) for name in _NEEDED):
        raise InvalidArgumentError(
            f"step is a {type(step).__name__}; it must be what env.step_frames(actions) returns, "
            "or a cule.replay.Step"
        )
    if mode is not None and mode != options.autoreset_mode:
        raise InvalidArgumentError(
            f"step is of environments with autoreset_mode {shown(mode)}; autoreset_mode of the "
            f"replay is {shown(options.autoreset_mode)}, and must be the same "
            "(ReplayOptions.for_env)"
        )


def check_first(first: Tensor, allowed: Tensor, options: StorageOptions) -> None:
    """Raise InvalidArgumentError where first frames are not `allowed`; ``[..., N]``, on the CPU."""
    if bool((first & ~allowed).any()):
        env = int((first & ~allowed).nonzero()[0, -1])
        mode = options.autoreset_mode
        when = "this step" if mode == "SameStep" else "the step before"
        raise InvalidArgumentError(
            f"first is True in environment {env}, where no episode ended in {when}; autoreset_mode "
            f"of the replay is {shown(mode)}, and must be that of the environment "
            "(ReplayOptions.for_env)"
        )


def checked_length(name: str, value: ArrayLike) -> int:
    """Length of the first axis, or InvalidArgumentError."""
    try:
        return len(cast(Sized, value))
    except TypeError:
        raise InvalidArgumentError(f"{name} is {shown(value)}; it must have a first axis") from None


def checked_ids(ids: ArrayLike, device: torch.device) -> Tensor:
    """Convert ids of transitions to int64 ``[B]``."""
    count = checked_length("ids", ids)
    if not count:
        return torch.zeros(0, dtype=torch.int64, device=device)
    return checked_tensor("ids", ids, (count,), torch.int64, device)


def checked_frames(
    name: str,
    value: ArrayLike | None,
    lead: tuple[int, ...],
    options: StorageOptions,
    device: torch.device,
) -> Tensor:
    """`checked_tensor` for frames ``[*lead, *obs_shape]``, whose dtype must be `obs_dtype`."""
    return checked_tensor(
        name, value, (*lead, *options.obs_shape), options.obs_dtype, device, exact=True
    )


def checked_step(
    actions: ArrayLike, step: Step, options: StorageOptions, device: torch.device, *, finals: bool
) -> Steps:
    """Check one step of all environments, as in `UniformReplay.append`; `finals`: read finals."""
    lead = (options.num_envs,)

    def values(name: str, dtype: torch.dtype) -> Tensor:
        return checked_tensor(f"step.{name}", getattr(step, name), lead, dtype, device)[None]

    frames = checked_frames("step.frame", step.frame, lead, options, device)[None]
    final_frames = None
    if finals:
        final_frames = checked_frames("step.final_frame", step.final_frame, lead, options, device)
    shape = lead + options.action_shape
    checked_actions = checked_tensor("actions", actions, shape, options.action_dtype, device)
    return Steps(
        frames=frames,
        actions=checked_actions[None],
        rewards=values("reward", torch.float32),
        terminated=values("terminated", torch.bool),
        truncated=values("truncated", torch.bool),
        life_lost=values("life_lost", torch.bool),
        first=values("first", torch.bool),
        final_frames=None if final_frames is None else final_frames[None],
    )
