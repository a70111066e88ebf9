"""Batched Atari 2600 emulation for reinforcement learning, exact to ale-py."""

from __future__ import annotations

from importlib.metadata import version

from cule import roms
from cule._core import build_config
from cule.envs import (
    Action,
    ALEInterface,
    ALEState,
    AtariEnv,
    AtariVectorEnv,
    EnvOptions,
    FrameStep,
    LoggerMode,
    MultiAgentOptions,
    MultiAgentVectorEnv,
    register_envs,
)
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
    DeviceError,
    DisconnectedError,
    DivergedError,
    InvalidActionError,
    InvalidArgumentError,
    InvalidStateError,
    MissingPackageError,
    NotReadyError,
    NotResetError,
    OutOfDeviceMemoryError,
    RomNotFoundError,
    RulesError,
    ShortReplayWarning,
    StorageError,
    TrainingMemoryError,
    UnknownGameError,
    UnsupportedRomError,
    VideoError,
)

__version__ = version("cule")

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
    "DeviceError",
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
    "RomNotFoundError",
    "RulesError",
    "SettingError",
    "ShortReplayWarning",
    "StorageError",
    "TrainingMemoryError",
    "UnknownGameError",
    "UnsupportedRomError",
    "VideoError",
    "__version__",
    "build_config",
    "roms",
]

register_envs()
