"""Batched Atari 2600 emulation for reinforcement learning, exact to ale-py."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import cule.lazy  # noqa: F401  # first: it refuses to be imported in a subinterpreter
from cule import roms
from cule._core import build_config
from cule.envs import Action, AtariVectorEnv, EnvOptions, FrameStep, register_envs
from cule.envs.errors import (
    ActionRangeError,
    ActionShapeError,
    ArgumentTypeError,
    CallOrderError,
    EnvIndexError,
    GymArgumentError,
    SettingError,
)
from cule.errors import (
    CapacityError,
    CheckpointError,
    CheckpointNotFoundError,
    ClosedError,
    ClusterError,
    CuleError,
    DatasetError,
    DeviceError,
    DigestMismatchError,
    DisconnectedError,
    DivergedError,
    InvalidActionError,
    InvalidArgumentError,
    InvalidStateError,
    MissingPackageError,
    NotReadyError,
    NotResetError,
    OutOfDeviceMemoryError,
    OutOfMemoryError,
    RomNotFoundError,
    RulesError,
    ShortReplayWarning,
    StateVersionError,
    StorageError,
    ThreadStartError,
    TrainingMemoryError,
    UnknownGameError,
    UnsupportedRomError,
    VideoError,
)
from cule.lazy import lazy_names

if TYPE_CHECKING:
    from cule.envs import (
        ALEInterface,
        ALEState,
        AtariEnv,
        LoggerMode,
        MultiAgentOptions,
        MultiAgentVectorEnv,
        pack_states,
        unpack_states,
    )

__version__ = version("cule")

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "envs": (
            *("ALEInterface", "ALEState", "AtariEnv", "LoggerMode", "MultiAgentOptions"),
            *("MultiAgentVectorEnv", "pack_states", "unpack_states"),
        )
    },
)

__all__ = [
    "ALEInterface",
    "ALEState",
    "Action",
    "ActionRangeError",
    "ActionShapeError",
    "ArgumentTypeError",
    "AtariEnv",
    "AtariVectorEnv",
    "CallOrderError",
    "CapacityError",
    "CheckpointError",
    "CheckpointNotFoundError",
    "ClosedError",
    "ClusterError",
    "CuleError",
    "DatasetError",
    "DeviceError",
    "DigestMismatchError",
    "DisconnectedError",
    "DivergedError",
    "EnvIndexError",
    "EnvOptions",
    "FrameStep",
    "GymArgumentError",
    "InvalidActionError",
    "InvalidArgumentError",
    "InvalidStateError",
    "LoggerMode",
    "MissingPackageError",
    "MultiAgentOptions",
    "MultiAgentVectorEnv",
    "NotReadyError",
    "NotResetError",
    "OutOfDeviceMemoryError",
    "OutOfMemoryError",
    "RomNotFoundError",
    "RulesError",
    "SettingError",
    "ShortReplayWarning",
    "StateVersionError",
    "StorageError",
    "ThreadStartError",
    "TrainingMemoryError",
    "UnknownGameError",
    "UnsupportedRomError",
    "VideoError",
    "__version__",
    "build_config",
    "pack_states",
    "roms",
    "unpack_states",
]

register_envs()
