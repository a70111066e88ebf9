"""Settings of the ALE interface: names, types and defaults, as in ale-py 0.12.1.

Settings are read when a ROM is loaded. Those with no counterpart here can be read, and set to what
they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, cast

from cule import _core
from cule.envs.checks import (
    INT32_MAX,
    INT32_MIN,
    as_bool,
    as_choice,
    as_decimal6,
    as_float,
    as_int,
)
from cule.envs.errors import ArgumentTypeError, SettingError
from cule.errors import shown

Value = int | float | bool | str

#: Seed -1, the clock, as the console holds it.
CLOCK_SEED = 2**32 - 1

_V = TypeVar("_V", int, float, bool, str)


@dataclass(frozen=True)
class _Setting:
    kind: type[Value]
    default: Value
    fixed: bool = False  # there is nothing here that another value could change
    instead: str = ""  # of another value of a fixed setting
    allowed: tuple[str, ...] = ()  # of a text; empty: any


_SETTINGS: dict[str, _Setting] = {
    # Seed of the environment's random stream; -1: the clock, in seconds.
    "random_seed": _Setting(int, -1),
    # Seed of the console's random stream, which fills RAM at power-on.
    "system_random_seed": _Setting(int, 4753849),
    # Probability, each frame, that the previous action stays.
    "repeat_action_probability": _Setting(float, 0.25),
    # Frames an act; less than 1 is 1.
    "frame_skip": _Setting(int, 1),
    # Frames after which an episode is truncated; 0: never.
    "max_num_frames_per_episode": _Setting(int, 0),
    # Whether an episode is truncated when a life is lost.
    "truncate_on_loss_of_life": _Setting(bool, False),
    # Bounds of the reward of each act.
    "reward_min": _Setting(int, INT32_MIN),
    "reward_max": _Setting(int, INT32_MAX),
    # Whether the screen is the mean of two frames.
    "color_averaging": _Setting(bool, False),
    # Range of the paddles; -1: as the game has it.
    "paddle_min": _Setting(int, -1),
    "paddle_max": _Setting(int, -1),
    # Whether getAudio has sound.
    "sound_obs": _Setting(bool, False),
    # The file that was loaded.
    "rom_file": _Setting(str, ""),
    # What executes programs, as in `cule.EnvOptions`; ALE has no such setting.
    "kernel": _Setting(str, "auto", allowed=("auto", "interpreter", "compiled")),
    # Modifications of the game, with commas between them, as in `cule.EnvOptions`; likewise.
    "modifications": _Setting(str, ""),
    # Frames between an action and its effect, likewise.
    "action_delay": _Setting(int, 0),
    # Without effect on emulation, in ALE too.
    "max_num_frames": _Setting(int, 0),
    "restricted_action_set": _Setting(bool, False),
    "send_rgb": _Setting(bool, False),
    "run_length_encoding": _Setting(bool, True),
    "fragsize": _Setting(int, 64),
    # Folder of a picture of every frame; whether there is sound to record; WAV file of the sound.
    "record_screen_dir": _Setting(str, ""),
    "sound": _Setting(bool, False),
    "record_sound_filename": _Setting(str, ""),
    # No window, one way of timing.
    "display_screen": _Setting(
        bool,
        False,
        fixed=True,
        instead="to watch, use `cule watch` or gymnasium.make(..., render_mode='human')",
    ),
    "cpu": _Setting(str, "low", fixed=True),
}


class Settings:
    """The settings of one interface."""

    def __init__(self) -> None:
        """Start with the defaults."""
        self._values = {name: setting.default for name, setting in _SETTINGS.items()}

    def get(self, name: str, kind: type[_V]) -> _V:
        """The value of a setting."""
        self._setting(name, kind)
        return cast(_V, self._values[name])

    def native(self) -> _core.ConsoleOptions:
        """The settings of a console."""
        options = _core.ConsoleOptions()
        for name in vars(_core.ConsoleOptions).keys() & self._values.keys():
            setattr(options, name, self._values[name])
        return options

    def set(self, name: str, kind: type[Value], value: object) -> None:
        """Change a setting."""
        setting = self._setting(name, kind)
        checked: Value
        if kind is bool:
            checked = as_bool(name, value)
        elif kind is float:
            checked = as_decimal6(as_float(name, value, 0.0, 1.0))
        elif kind is int:
            checked = as_int(name, value, -(2**63), 2**63)
            if not INT32_MIN <= checked <= INT32_MAX:  # of the wrong type, in ale-py
                allowed = f"{INT32_MIN}..{INT32_MAX}"
                raise ArgumentTypeError(f"{name} is {checked}; it must be in {allowed}")
        elif setting.allowed:
            checked = as_choice(name, value, setting.allowed)
        elif isinstance(value, str):
            checked = value
        else:
            raise ArgumentTypeError(f"{name} is {shown(value)}; it must be a str")
        if setting.fixed and checked != setting.default:
            hint = f"; {setting.instead}" if setting.instead else ""
            raise SettingError(
                f"setting {shown(name)} is {shown(checked)}; here it can only be "
                f"{shown(setting.default)}{hint}"
            )
        self._values[name] = checked

    def _setting(self, name: str, kind: type[Value]) -> _Setting:
        if not isinstance(name, str):
            raise ArgumentTypeError(f"key is {shown(name)}; it must be the name of a setting")
        setting = _SETTINGS.get(name)
        if setting is None or setting.kind is not kind:
            names = ", ".join(key for key, entry in _SETTINGS.items() if entry.kind is kind)
            raise SettingError(
                f"key is {shown(name)}, which is no setting of type {kind.__name__}; these are "
                f"{names}"
            )
        return setting
