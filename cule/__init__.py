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
    register_envs,
)
from cule.errors import (
    ClosedError,
    CuleError,
    DeviceError,
    InvalidActionError,
    InvalidArgumentError,
    InvalidStateError,
    NotResetError,
    OutOfDeviceMemoryError,
    RomNotFoundError,
    RulesError,
    UnknownGameError,
    UnsupportedRomError,
)

__version__ = version("cule")

__all__ = [
    "ALEInterface",
    "ALEState",
    "Action",
    "AtariEnv",
    "AtariVectorEnv",
    "ClosedError",
    "CuleError",
    "DeviceError",
    "EnvOptions",
    "FrameStep",
    "InvalidActionError",
    "InvalidArgumentError",
    "InvalidStateError",
    "LoggerMode",
    "NotResetError",
    "OutOfDeviceMemoryError",
    "RomNotFoundError",
    "RulesError",
    "UnknownGameError",
    "UnsupportedRomError",
    "__version__",
    "build_config",
    "roms",
]

register_envs()
