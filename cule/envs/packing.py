"""Snapshots in few bytes, for files and archives."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from cule.envs.checks import Array, as_int, to_numpy
from cule.envs.errors import ArgumentTypeError
from cule.errors import InvalidArgumentError, InvalidStateError, MissingPackageError, shown
from cule.reading import MAX_SNAPSHOT_BYTES, MAX_SNAPSHOTS_BYTES, unxz

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Preset of xz. Its window spans the pictures of a snapshot, which resemble each other, unlike that
#: of zlib. Higher presets take several times as long for a tenth of the size.
_PRESET = 1


def pack_states(states: Array) -> list[bytes]:
    """Compress snapshots, with xz: to 1 to 11 KB with ``resets="cached"``, else 8 more.

    Args:
        states: uint8 ``[n, state_size]`` of `AtariVectorEnv.get_state`, numpy or torch.

    Returns:
        One entry for each snapshot.

    Raises:
        InvalidArgumentError: Another dtype or shape.
        MissingPackageError: This Python was built without lzma.
    """
    rows = to_numpy(states)
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8:
        raise ArgumentTypeError(
            f"states is {type(states).__name__} of {getattr(rows, 'dtype', 'no dtype')}; it must "
            "be uint8 [n, state_size]"
        )
    if rows.ndim != 2:
        raise InvalidArgumentError(f"states has shape {rows.shape}; it must be [n, state_size]")
    lzma = _lzma()
    return [lzma.compress(row, preset=_PRESET) for row in np.ascontiguousarray(rows)]


def unpack_states(packed: Sequence[bytes], state_size: int | None = None) -> NDArray[np.uint8]:
    """The snapshots that `pack_states` compressed.

    Args:
        packed: At least one, of environments with the same options.
        state_size: Bytes of each, `AtariVectorEnv.state_size`; None: as the first one. Without it
            at most 512 MB are unpacked in a call.

    Returns:
        uint8 ``[n, state_size]``.

    Raises:
        InvalidStateError: An entry is damaged or has another size, or they exceed 512 MB.
        InvalidArgumentError: There is none, or `state_size` is below 1.
        ArgumentTypeError: `packed` is no list, or `state_size` no integer.
        MissingPackageError: This Python was built without lzma.
    """
    is_scalar = getattr(packed, "shape", None) == ()  # has a __len__ that raises
    if isinstance(packed, bytes) or is_scalar or not hasattr(packed, "__len__"):
        raise ArgumentTypeError(f"packed is {shown(packed)}; it must be a list of bytes")
    size = None if state_size is None else as_int("state_size", state_size, 1)
    if len(packed) == 0:
        raise InvalidArgumentError("packed is empty; there must be at least one snapshot")
    _lzma()
    states = bytearray()
    try:
        for entry in packed:
            state = unxz(entry, MAX_SNAPSHOT_BYTES if size is None else size)
            size = len(state) if size is None else size
            if len(state) != size:
                raise ValueError(f"a snapshot of {len(state)} bytes; it must have {size}")
            if state_size is None and len(packed) * size > MAX_SNAPSHOTS_BYTES:
                raise ValueError(
                    f"{len(packed)} snapshots of {size} bytes; without state_size they must have "
                    f"at most {MAX_SNAPSHOTS_BYTES} together"
                )
            states += state
    except ValueError as error:
        raise InvalidStateError(f"packed is not from pack_states(): {error}") from None
    return np.frombuffer(states, np.uint8).reshape(len(packed), -1)


def _lzma() -> ModuleType:
    """The module of the standard library, which some builds of Python lack."""
    try:
        import lzma
    except ImportError:
        raise MissingPackageError("this Python was built without lzma, which this needs") from None
    return lzma
