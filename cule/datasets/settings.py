"""Options of a recorded environment, and those that a playback may change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from cule.envs import EnvOptions, MultiAgentOptions
from cule.envs.options import IMAGE_OPTIONS, modification_names, resolve_options
from cule.errors import CuleError, DatasetError, InvalidArgumentError, shown
from cule.familiar_names import check_keywords
from cule.games import resolve
from cule.option_fields import init_fields
from cule.reading import MAX_CACHED_NOOPS

#: What an observation or reward is made of; the games are the same with any.
VIEW = frozenset((*IMAGE_OPTIONS, "obs_type", "max_sprites", "reward_clipping"))

#: How environments run. The files of a game are compared by MD5 and by digests.
MACHINE = frozenset(
    (
        *("device", "output", "kernel", "num_threads", "thread_affinity_offset"),
        *("low_memory", "rom_path", "rules"),
    )
)

#: What playback sets itself, or a recording does not need.
_OURS = frozenset(
    (
        *("game", "num_envs", "batch_size", "preset", "render_mode", "episode_info", "final_info"),
        *("decorrelate_steps", "continuous", "continuous_action_threshold"),
    )
)

#: What a dataset stores.
RECORDED = tuple(name for name in init_fields(EnvOptions) if name not in MACHINE | _OURS)

#: Options that datasets of 0.2.0 do not have yet, with their effect there.
LATER_OPTIONS: dict[str, Any] = {"modifications": None, "action_delay": 0}


def recorded_options(config: EnvOptions) -> dict[str, Any]:
    """The options of an environment that a dataset stores, as values of JSON.

    Raises:
        InvalidArgumentError: An option does not fit a recording.
    """
    if isinstance(config, MultiAgentOptions):
        raise InvalidArgumentError(
            f"num_players is {config.num_players}; for a recording it must be a game of one player"
        )
    needed: dict[str, tuple[object, ...]] = {
        "continuous": (False,),
        "decorrelate_steps": (0,),
        "batch_size": (0, config.num_envs),
    }
    if config.reward_clipping or config.autoreset_mode is AutoresetMode.NEXT_STEP:
        needed["episode_info"] = (True,)  # otherwise step returns what a recording needs
    for name, allowed in needed.items():
        value = getattr(config, name)
        if value not in allowed:
            words = " or ".join(map(repr, allowed))
            raise InvalidArgumentError(
                f"{name} is {shown(value)}; for a recording it must be {words}"
            )
    if not isinstance(config.game, str) and len(config.game) > 1:
        raise InvalidArgumentError(
            f"game is {shown(config.game)}; for a recording it must be a single game"
        )
    _check_playable(config)
    values = {name: getattr(config, name) for name in RECORDED}
    values["autoreset_mode"] = AutoresetMode(config.autoreset_mode).value
    return values


def check_recorded(options: Mapping[str, Any], num_envs: Collection[int]) -> None:
    """Refuse options of a file that no recording stores, or no environment takes.

    Args:
        options: The options.
        num_envs: Numbers of trajectories that were recorded together.

    Raises:
        DatasetError: There is one, or one is missing.
    """
    if set(options) != set(RECORDED):
        other = ", ".join(sorted(set(options) ^ set(RECORDED)))
        raise DatasetError(f"its options differ from those of a recording: {shown(other)}")
    try:
        for count in set(num_envs):
            _check_playable(resolve_options("", count, options))
    except CuleError as error:
        raise DatasetError(f"its options are not those of an environment: {error}") from None


def lists_by_environment(options: Mapping[str, Any]) -> list[str]:
    """Names of options that are lists with an entry for each environment."""
    names = [
        name for name in ("mode", "difficulty", "action_delay") if isinstance(options[name], list)
    ]
    modifications = options["modifications"]
    if modifications and not all(isinstance(entry, str) for entry in modifications):
        names.append("modifications")
    return names


def _check_playable(config: EnvOptions) -> None:
    """Refuse modifications in files, which a dataset does not hold, and resets without end."""
    if config.resets == "cached" and config.num_reset_states * config.noop_max > MAX_CACHED_NOOPS:
        raise InvalidArgumentError(
            f"num_reset_states is {config.num_reset_states} and noop_max {config.noop_max}; for a "
            f"recording their product must be at most {MAX_CACHED_NOOPS}"
        )
    for entry in config.modifications or ():
        for text in modification_names(entry):
            if ":" in text:
                raise InvalidArgumentError(
                    f"modifications is {shown(text)}; for a recording it must be of those that "
                    "'cule mods list' prints"
                )


def playback_options(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of the environments that play a dataset.

    Raises:
        TypeError: There is no option of this name.
        InvalidArgumentError: An option would change the games.
    """
    check_keywords("replay", given, (*RECORDED, *MACHINE))
    for name, value in given.items():
        if name in VIEW | MACHINE:
            continue
        if _plain(value) != recorded[name]:
            allowed = ", ".join(sorted(VIEW | MACHINE))
            raise InvalidArgumentError(
                f"{name} is {shown(value)}; the dataset was recorded with {shown(recorded[name])}, "
                f"and a replay can change only {allowed}"
            )
    kept = {name for name in RECORDED if name not in given or name not in VIEW}
    if given.get("obs_type", recorded["obs_type"]) != recorded["obs_type"]:
        kept -= VIEW - {"reward_clipping"}  # the sizes of images mean nothing for RAM
    options = {name: recorded[name] for name in kept}
    options |= {name: value for name, value in given.items() if name in VIEW | MACHINE}
    return options | {"episode_info": True, "final_info": True}


def _plain(value: object) -> object:
    """The value of an option as JSON has it."""
    if isinstance(value, AutoresetMode):
        return value.value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def check_rom(game: str, rom_md5: str, options: Mapping[str, Any]) -> None:
    """Refuse a ROM other than the recorded one.

    Raises:
        DatasetError: The MD5 differs.
        UnknownGameError, RomNotFoundError, UnsupportedRomError, RulesError: As for an environment.
    """
    found = resolve(game, options.get("rom_path"), options.get("rules"))
    if found.md5 != rom_md5:
        raise DatasetError(
            f"the ROM {found.rom_path} has MD5 {found.md5}; the dataset was recorded with {rom_md5}"
        )
