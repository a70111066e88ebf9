"""The options of `AtariVectorEnv`: each is defined here, once, with its default and its meaning.

In: the keywords a user gave. Out: `EnvOptions`, checked and complete. The preset comes first,
keywords given by name win over it, and what is left takes the defaults, which are those of ale-py
0.12.1 where it has the option.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from cule.device import resolve_device
from cule.envs.checks import INT32_MAX, as_bool, as_choice, as_decimal6, as_float, as_int
from cule.envs.compat_errors import ArgumentTypeError
from cule.envs.presets import PRESETS
from cule.errors import InvalidArgumentError

MAX_ENVS = 1 << 20
MAX_FRAMESKIP = 1024
MAX_STACK = 256
MAX_THREADS = 1024
MAX_RESET_STATES = 1 << 16

#: Largest width of an observation; the largest height is that of the game's screen.
SCREEN_WIDTH = 160


@dataclass(frozen=True)
class EnvOptions:
    """Every option of an `AtariVectorEnv`, as resolved; `AtariVectorEnv.config` is one of these."""

    game: str | tuple[tuple[str, int], ...]
    """Name of the game, or (name, number of consoles) for each of several games."""

    num_envs: int
    """Number of consoles."""

    batch_size: int = 0
    """Consoles a `recv` returns; fewer than `num_envs` steps asynchronously. 0: all."""

    num_threads: int = 0
    """CPU threads; 0: one a console, up to the number of hardware threads."""

    thread_affinity_offset: int = -1
    """First core to pin the threads to, one thread a core; -1: not pinned."""

    max_num_frames_per_episode: int = 108_000
    """Emulated frames after which an episode is truncated."""

    repeat_action_probability: float = 0.0
    """Probability, drawn each frame, that the previous action stays (sticky actions)."""

    full_action_space: bool = False
    """All legal actions instead of those the game uses."""

    continuous: bool = False
    """Actions are (radius, angle, fire), as float32, instead of indices."""

    continuous_action_threshold: float = 0.5
    """Where a continuous direction or fire counts as pressed."""

    autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    """When an ended console is reset: in the next step, in the same step, or by the caller."""

    img_height: int = 84
    """Rows of an observation."""

    img_width: int = 84
    """Columns of an observation."""

    grayscale: bool = True
    """Gray observations; otherwise RGB, with the channels last."""

    stack_num: int = 4
    """Frames in an observation, the newest last."""

    frameskip: int = 4
    """Emulated frames a step."""

    maxpool: bool = True
    """Each pixel is the larger one of the last two frames of the step."""

    noop_max: int = 30
    """A reset plays fewer than this many random no-op frames."""

    episodic_life: bool = False
    """The loss of a life ends the episode; a new game follows."""

    life_loss_info: bool = False
    """The loss of a life is reported as termination; the game goes on."""

    reward_clipping: bool = True
    """Rewards of `step` are clipped to [-1, 1]."""

    use_fire_reset: bool = True
    """A reset presses FIRE once, where the game uses it."""

    device: str = "cpu"
    """Where consoles live and results land."""

    output: str | None = None
    """Type of what `reset` and `step` return: numpy or torch. None: numpy on the CPU."""

    resets: str | None = None
    """exact: the full reset of ale-py; cached: one of the stored reset states. None: exact on the
    CPU.
    """

    num_reset_states: int = 30
    """Number of stored reset states a game, with cached resets."""

    obs_type: str = "image"
    """image, or ram: the 128 bytes of RAM."""

    mode: int | tuple[int, ...] | None = None
    """Game mode, for all consoles or for each. None: the game's default."""

    difficulty: int | tuple[int, ...] | None = None
    """Difficulty switches, for all consoles or for each. None: the game's default."""

    preset: str = "ale"
    """Named set of options that these started from."""

    decorrelate_steps: int = 0
    """After a full reset each console plays a random number of random steps, up to this."""

    rom_path: str | os.PathLike[str] | None = None
    """A ROM file of one's own."""

    rules: str | os.PathLike[str] | None = None
    """A TOML file with the reward, game-over and lives rules of a game of one's own."""

    render_mode: str | None = None
    """rgb_array: `render` returns the screens. None: it returns nothing."""


def resolve_options(game: object, num_envs: object, keywords: Mapping[str, Any]) -> EnvOptions:
    """Check what a user asked for and fill in the rest.

    Args:
        game: Name of a game, or a sequence of (name, number of consoles).
        num_envs: Number of consoles.
        keywords: The options given by name, and only those.

    Raises:
        InvalidArgumentError: An option is outside its allowed values; the message names them.
        ArgumentTypeError: An option is of the wrong type.
        DeviceError: There is no backend for the device.
    """
    preset = as_choice("preset", keywords.get("preset", "ale"), tuple(PRESETS))
    count = as_int("num_envs", num_envs, 1, MAX_ENVS)
    given = {**PRESETS[preset], **keywords}
    raw = EnvOptions(game=_game(game), num_envs=count, **given)
    checked: dict[str, Any] = {
        name: as_bool(name, getattr(raw, name))
        for name in (
            "full_action_space",
            "continuous",
            "grayscale",
            "maxpool",
            "episodic_life",
            "life_loss_info",
            "reward_clipping",
            "use_fire_reset",
        )
    }
    for name, low, high in (
        ("batch_size", 0, count),
        ("num_threads", 0, MAX_THREADS),
        ("thread_affinity_offset", -1, (os.cpu_count() or 1) - 1),
        ("max_num_frames_per_episode", 1, INT32_MAX),
        ("img_height", 1, INT32_MAX),
        ("img_width", 1, SCREEN_WIDTH),
        ("stack_num", 1, MAX_STACK),
        ("frameskip", 1, MAX_FRAMESKIP),
        ("noop_max", 0, INT32_MAX),
        ("num_reset_states", 1, MAX_RESET_STATES),
        ("decorrelate_steps", 0, INT32_MAX),
    ):
        checked[name] = as_int(name, getattr(raw, name), low, high)
    checked["repeat_action_probability"] = as_decimal6(
        as_float("repeat_action_probability", raw.repeat_action_probability, 0.0, 1.0)
    )
    checked["continuous_action_threshold"] = as_float(
        "continuous_action_threshold", raw.continuous_action_threshold, -1e6, 1e6
    )
    checked["autoreset_mode"] = _autoreset_mode(raw.autoreset_mode)
    checked["device"] = resolve_device(raw.device, count)
    on_gpu = checked["device"] != "cpu"
    output = ("torch" if on_gpu else "numpy") if raw.output is None else raw.output
    checked["output"] = as_choice("output", output, ("numpy", "torch"))
    resets = ("cached" if on_gpu else "exact") if raw.resets is None else raw.resets
    checked["resets"] = as_choice("resets", resets, ("exact", "cached"))
    checked["obs_type"] = as_choice("obs_type", raw.obs_type, ("image", "ram"))
    checked["mode"] = _per_console("mode", raw.mode, count)
    checked["difficulty"] = _per_console("difficulty", raw.difficulty, count)
    if raw.render_mode is not None:
        as_choice("render_mode", raw.render_mode, ("rgb_array",))
    options = dataclasses.replace(raw, **checked)
    _check_together(options)
    return options


def _check_together(options: EnvOptions) -> None:
    """Refuse options that contradict each other."""
    if options.obs_type == "ram":
        for name in ("img_height", "img_width", "grayscale", "stack_num", "maxpool"):
            default = getattr(EnvOptions, name)
            if getattr(options, name) != default:
                raise InvalidArgumentError(
                    f"{name} is {getattr(options, name)!r}; with obs_type='ram' it must be "
                    f"{default!r}"
                )
    if options.device != "cpu":
        _check_on_gpu(options)
    asynchronous = options.batch_size not in (0, options.num_envs)
    if asynchronous and options.decorrelate_steps:
        raise InvalidArgumentError(
            f"decorrelate_steps is {options.decorrelate_steps}; with batch_size "
            f"{options.batch_size} below num_envs {options.num_envs} it must be 0"
        )


def _check_on_gpu(options: EnvOptions) -> None:
    """Refuse what only the CPU back end does."""
    for name, allowed in (
        ("resets", ("cached",)),
        ("batch_size", (0, options.num_envs)),
        ("num_threads", (0,)),
        ("thread_affinity_offset", (-1,)),
    ):
        if getattr(options, name) not in allowed:
            raise InvalidArgumentError(
                f"{name} is {getattr(options, name)!r}; with device {options.device!r} it must be "
                + " or ".join(repr(value) for value in allowed)
            )


def _game(game: object) -> str | tuple[tuple[str, int], ...]:
    """The name of a game, or pairs of name and number of consoles."""
    if isinstance(game, str):
        return game
    if not isinstance(game, Sequence) or isinstance(game, bytes) or not game:
        raise ArgumentTypeError(
            f"game is {game!r}; it must be a name, or (name, number of consoles) for each game"
        )
    pairs = []
    for entry in game:
        if not (isinstance(entry, Sequence) and len(entry) == 2 and isinstance(entry[0], str)):
            raise ArgumentTypeError(
                f"game holds {entry!r}; each entry must be (name, number of consoles)"
            )
        pairs.append((entry[0], as_int(f"game: number of {entry[0]!r} consoles", entry[1], 1)))
    return tuple(pairs)


def _autoreset_mode(mode: object) -> AutoresetMode:
    try:
        return AutoresetMode(mode)
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in AutoresetMode)
        raise InvalidArgumentError(
            f"autoreset_mode is {mode!r}; it must be one of {allowed} or a gymnasium AutoresetMode"
        ) from None


def _per_console(name: str, value: object, num_envs: int) -> int | tuple[int, ...] | None:
    """None, one integer, or one for each console."""
    if value is None:
        return None
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
        return as_int(name, value, 0)
    if len(value) != num_envs:
        raise InvalidArgumentError(
            f"{name} holds {len(value)} values; it must be one integer, or one for each of the "
            f"{num_envs} consoles"
        )
    return tuple(as_int(f"{name}[{index}]", entry, 0) for index, entry in enumerate(value))
