"""Steps on their way in: what callers may hand over, and how it is checked before it is stored."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from cule.errors import InvalidArgumentError
from cule.replay.errors import NotReadyError
from cule.replay.options import StorageOptions
from cule.replay.transitions import TERMINATED, TRUNCATED


class Step(Protocol):
    """Result of one step of all environments, such as `cule.FrameStep`: arrays or tensors [N]."""

    @property
    def frame(self) -> Any:
        """Newest frames ``[N, *obs_shape]``."""

    @property
    def reward(self) -> Any:
        """Rewards, not clipped."""

    @property
    def terminated(self) -> Any:
        """Whether the episode ended by itself."""

    @property
    def truncated(self) -> Any:
        """Whether it was cut off."""

    @property
    def life_lost(self) -> Any:
        """Whether a life was lost, and the game goes on."""

    @property
    def first(self) -> Any:
        """Whether `frame` is the first of an episode."""

    @property
    def final_frame(self) -> Any:
        """Frames that ended episodes ended on."""


class Steps(NamedTuple):
    """T steps of all environments, checked, on the device of the ring; ``[T, N, ...]``."""

    frames: Tensor | None  # None: the frames are in place already
    actions: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    life_lost: Tensor
    first: Tensor
    final_frames: Tensor | None


class Target(Protocol):
    """What is known of the ring that steps are for."""

    options: StorageOptions
    host_head: int
    num_slots: int
    num_finals: int
    flags: Tensor
    frames: Tensor

    def next_row(self) -> Tensor:
        """Memory of the next row's frames."""


def checked_tensor(
    name: str,
    value: Any,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    *,
    exact: bool = False,
) -> Tensor:
    """An argument as a tensor of a shape and type on a device.

    Args:
        name: What the argument is called.
        value: An array, tensor or nested list.
        shape: Shape it must have.
        dtype: Type of the result.
        device: Device of the result. The copy from pinned memory to a CUDA device is asynchronous.
        exact: Whether the type must be this one; otherwise another of the same kind is converted
            (integers to integers, whatever their size, and everything to floats).

    Raises:
        InvalidArgumentError: It has another shape, or a type that does not fit.
    """
    if isinstance(value, Tensor):
        if value.dtype == dtype and value.shape == shape and value.device == device:
            return value
    elif isinstance(value, np.ndarray) and not value.flags.writeable:
        value = value.copy()  # torch has no notion of memory that is not to be written to
    try:
        tensor: Tensor = value if isinstance(value, Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(f"{name} is no array or tensor: {error}") from None
    if tuple(tensor.shape) != shape:
        raise InvalidArgumentError(f"{name} has shape {tuple(tensor.shape)}; it must be {shape}")
    is_flag = dtype == torch.bool and tensor.dtype == torch.uint8
    fits = torch.can_cast(tensor.dtype, dtype) or is_flag
    if tensor.dtype != dtype and (exact or not fits):
        raise InvalidArgumentError(f"{name} is of {tensor.dtype}; it must be of {dtype}")
    return tensor.to(device=device, dtype=dtype, non_blocking=device.type == "cuda")


def checked_ids(ids: Any, device: torch.device) -> Tensor:
    """Ids of transitions; int64 ``[B]``."""
    try:
        count = len(ids)
    except TypeError:
        raise InvalidArgumentError(f"ids is {ids!r}; it must be one-dimensional") from None
    if not count:
        return torch.zeros(0, dtype=torch.int64, device=device)
    return checked_tensor("ids", ids, (count,), torch.int64, device)


def checked_frames(
    name: str, value: Any, shape: tuple[int, ...], options: StorageOptions
) -> Tensor:
    """`checked_tensor` for frames, which must be of the very type that is stored."""
    shape = (*shape, *options.obs_shape)
    return checked_tensor(name, value, shape, options.obs_dtype, options.device, exact=True)


def check_started(ring: Target) -> None:
    """Refuse to go on before the first frames."""
    if ring.host_head < 0:
        raise NotReadyError("append before the first frames; call start() with them")


def _outside(ring: Target, frames: Tensor) -> Tensor:
    """Frames that do not lie in the memory they are going to be written to."""
    inside = frames.untyped_storage().data_ptr() == ring.frames.untyped_storage().data_ptr()
    return frames.clone() if inside else frames


def checked_step(ring: Target, actions: Any, step: Step) -> Steps:
    """One step of all environments; see `UniformReplay.append`."""
    options = ring.options
    shape, device = (options.num_envs,), options.device
    frame: Tensor | None = checked_frames("step.frame", step.frame, shape, options)
    if frame is not None and frame.data_ptr() == ring.next_row().data_ptr():
        frame = None
    elif frame is not None:
        frame = _outside(ring, frame)

    def flags(name: str) -> Tensor:
        value = getattr(step, name)
        return checked_tensor(f"step.{name}", value, shape, torch.bool, device)[None]

    final = None
    if ring.num_finals:
        final = checked_frames("step.final_frame", step.final_frame, shape, options)
        final = _outside(ring, final)[None]
    action_shape = shape + options.action_shape
    return Steps(
        frames=None if frame is None else frame[None],
        actions=checked_tensor("actions", actions, action_shape, options.action_dtype, device)[
            None
        ],
        rewards=checked_tensor("step.reward", step.reward, shape, torch.float32, device)[None],
        terminated=flags("terminated"),
        truncated=flags("truncated"),
        life_lost=flags("life_lost"),
        first=flags("first"),
        final_frames=final,
    )


def checked_block(
    ring: Target,
    *,
    frames: Any,
    actions: Any,
    rewards: Any,
    terminated: Any,
    truncated: Any,
    life_lost: Any,
    first: Any,
    final_frames: Any,
) -> Steps:
    """T steps of all environments; see `UniformReplay.append_block`."""
    check_started(ring)
    options, device = ring.options, ring.options.device
    if len(frames) < 1:
        raise InvalidArgumentError("frames has no steps; it must have at least one")
    shape = (len(frames), options.num_envs)

    def flags(name: str, value: Any) -> Tensor:
        if value is None:
            return torch.zeros(shape, dtype=torch.bool, device=device)
        return checked_tensor(name, value, shape, torch.bool, device)

    final = None
    if ring.num_finals and truncated is not None:
        if final_frames is None:
            raise InvalidArgumentError(
                "final_frames is None; in SameStep mode it must be given with truncated"
            )
        final = _outside(ring, checked_frames("final_frames", final_frames, shape, options))
    is_terminated, is_truncated = flags("terminated", terminated), flags("truncated", truncated)
    action_shape = shape + options.action_shape
    return Steps(
        frames=_outside(ring, checked_frames("frames", frames, shape, options)),
        actions=checked_tensor("actions", actions, action_shape, options.action_dtype, device),
        rewards=checked_tensor("rewards", rewards, shape, torch.float32, device),
        terminated=is_terminated,
        truncated=is_truncated,
        life_lost=flags("life_lost", life_lost),
        first=_first_of(ring, is_terminated | is_truncated)
        if first is None
        else flags("first", first),
        final_frames=final,
    )


def _first_of(ring: Target, ended: Tensor) -> Tensor:
    """Which frames are the first of an episode, from which steps ended one; bool ``[T, N]``."""
    if ring.options.autoreset_mode == "SameStep":
        return ended
    before = ring.flags[(ring.host_head - 1) % ring.num_slots]
    before_ended = (before & (TERMINATED | TRUNCATED)) != 0
    return torch.cat((before_ended[None], ended[:-1]))
