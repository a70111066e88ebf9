"""The options of `AtariVectorEnv`: name, default, allowed values and meaning, each written once.

In: the keywords a user gave. Out: `EnvOptions`, checked and complete. The preset comes first,
keywords given by name win over it, and options not given have ale-py 0.12.1's defaults where it has
the option.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeGuard, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode

from cule import _core
from cule.device import resolve_device
from cule.envs.checks import INT32_MAX, as_bool, as_choice, as_decimal6, as_float, as_int
from cule.envs.errors import ArgumentTypeError, GymArgumentError
from cule.errors import InvalidArgumentError, shown
from cule.familiar_names import check_keywords
from cule.files import anchored
from cule.option_fields import documents, init_fields, one_of, within
from cule.reading import as_path

if TYPE_CHECKING:
    import torch

MAX_ENVS = 1 << 20

#: No-op frames of a reset: 100,000 take seconds.
MAX_NOOPS = 100_000

#: Frames between an action and its effect: those of four seconds.
MAX_ACTION_DELAY = 255

#: Columns of a screen, which an observation has at most.
MAX_IMG_WIDTH: int = _core.SCREEN_WIDTH

#: Emulated frames of a step on a GPU. A step is one kernel, which nothing can interrupt, and which
#: drivers of a GPU with a display end after seconds. A frame is at most 25,000 instructions.
MAX_GPU_FRAMESKIP = 256

#: Named sets of options, as papers and libraries define them; an option given by name wins. All but
#: ``ale`` also set ``episode_info``.
#:
#: * ``ale``: the defaults of ``ale_py.vector_env.AtariVectorEnv`` 0.12.1.
#: * ``v5``: what ``gymnasium.make_vec("ALE/<Title>-v5")`` passes to it: sticky actions, as
#:   recommended by Machado et al. 2018, section 5.
#: * ``dqn``: training of Mnih et al. 2015 ("Human-level control through deep reinforcement
#:   learning"), Methods and Extended Data Table 1: frame skip 4, maximum of two frames, 84x84 gray,
#:   4 frames, fewer than 30 no-ops as in ale-py (the paper: up to 30), rewards clipped, no sticky
#:   actions; the loss of a life is reported as termination while the game continues.
#: * ``baselines``: ``wrap_deepmind(make_atari(...NoFrameskip-v4))`` of OpenAI Baselines (2017): as
#:   ``dqn``, but FIRE starts the game and the loss of a life ends the episode.
#: * ``machado``: Machado et al. 2018 ("Revisiting the Arcade Learning Environment"), section 5 and
#:   the tables of its DQN runs: sticky actions 0.25, all 18 actions, frame skip 5, episodes of at
#:   most 18,000 frames (5 minutes), only game over ends an episode, no random start.
#: * ``envpool``: the defaults of EnvPool 1.2.5: rewards are not clipped, everything else as
#:   ``ale``. Its first stack repeats the reset frame; here, as in ale-py, zeros come before it.
PRESETS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "ale": {},
        "v5": {"episode_info": True, "repeat_action_probability": 0.25},
        "dqn": {"episode_info": True, "life_loss_info": True, "use_fire_reset": False},
        "baselines": {"episode_info": True, "episodic_life": True},
        "machado": {
            "episode_info": True,
            "frameskip": 5,
            "repeat_action_probability": 0.25,
            "full_action_space": True,
            "max_num_frames_per_episode": 18_000,
            "noop_max": 0,
            "use_fire_reset": False,
        },
        "envpool": {"episode_info": True, "reward_clipping": False},
    }
)


#: Marks options of images, which have no effect on RAM.
OF_IMAGES: Mapping[str, bool] = MappingProxyType({"of_images": True})


@dataclass(frozen=True, kw_only=True)
class GameOptions:
    """Options of environments that a learner's config has, too, with defaults of its own."""

    game: str | Sequence[tuple[str, int]] = field(kw_only=False)
    """Name of the game, or (name, number of environments) for each of several games."""

    num_envs: int = field(kw_only=False)
    """Number of environments; may be left out where `game` has the numbers."""

    max_num_frames_per_episode: int = within(108_000, 1, INT32_MAX)
    """Emulated frames after which an episode is truncated."""

    repeat_action_probability: float = within(0.0, 0.0, 1.0)
    """Probability, for each frame, that the previous action is repeated (sticky actions)."""

    action_delay: int | Sequence[int] = within(0, 0, MAX_ACTION_DELAY)
    """Emulated frames between an action and its effect, for all environments or for each. The
    actions of a reset are not delayed, and no-ops come before the first action of an episode.
    """

    full_action_space: bool = False
    """All legal actions instead of those the game uses; without effect on continuous actions."""

    stack_num: int = within(4, 1, 256, **OF_IMAGES)
    """Frames in an observation, the newest last."""

    frameskip: int = within(4, 1, 1024)
    """Emulated frames of a step; at most 256 on a GPU, where a step is one kernel."""

    maxpool: bool = field(default=True, metadata=OF_IMAGES)
    """Each pixel is the larger one of the last two frames of the step."""

    noop_max: int = within(30, 0, MAX_NOOPS)
    """A reset plays fewer than this many random no-op frames."""

    fire_after_life_loss: bool = False
    """After the loss of a life the game continues, also with `episodic_life`. Where FIRE is an
    action of the game, the step ends with a no-op, FIRE and the third action, `frameskip` frames
    each: those of EpisodicLifeEnv and FireResetEnv in OpenAI Baselines, with which most published
    scores were made. Without it an agent may never learn to serve again.
    """

    use_fire_reset: bool = True
    """A reset presses FIRE once, where the game uses it."""

    kernel: str = one_of("auto", "auto", "interpreter", "compiled")
    """What executes the programs of games; results never differ. On a CPU: the interpreter, or
    machine code made at run time. On a GPU: the interpreter kernel, or one that is compiled for the
    game in the background and then takes over between two steps. auto: compiled where that is
    possible, otherwise interpreter.
    """

    obs_type: str = one_of("image", "image", "ram", "objects", "sprites")
    """image; ram: the 128 bytes of RAM; objects: rows of x, y, w, h, visible and value of the
    objects on the screen, int16 ``[stack_num, K, 6]``, which `AtariVectorEnv.objects_layout` names;
    or sprites: what the hardware drew of players, missiles and ball in the newest frame, int16
    ``[stack_num, max_sprites, 11]``, for any program (docs/objects.md).
    """

    modifications: str | Sequence[str | Sequence[str] | None] | None = None
    """Modifications of the game: a name of ``cule mods list``, also with parameters, as in
    "frozen_enemy(y=90)", or with a file of your own, "FILE.toml:NAME"; alternatives, of which each
    episode draws one, as in "lazy_enemy | original"; several as a list, or with commas between
    them; or a list of such lists for each environment.
    """

    mode: int | Sequence[int] | None = None
    """Game mode, for all environments or for each. None: the game's default."""

    difficulty: int | Sequence[int] | None = None
    """Difficulty switches, for all environments or for each. None: the game's default."""

    decorrelate_steps: int = within(0, 0, 1_000_000)
    """After a full reset each environment plays a random number of random steps, up to this."""


@documents()
@dataclass(frozen=True, kw_only=True)
class EnvOptions(GameOptions):
    """Every option of an `AtariVectorEnv`; `AtariVectorEnv.config` holds them as resolved."""

    batch_size: int = within(0, 0, MAX_ENVS)
    """Environments that a `recv` returns; fewer than `num_envs` steps asynchronously. 0: all."""

    num_threads: int = within(0, 0, 1024)
    """CPU threads; 0: one for each environment, up to the number of hardware threads."""

    thread_affinity_offset: int = within(-1, -1, (os.cpu_count() or 1) - 1)
    """First core to pin the threads to, one thread to each core, on Linux; -1: not pinned."""

    low_memory: bool = False
    """Whether environments on a CPU keep no scanlines of earlier frames. They take about a third of
    the memory, and step more slowly in most games (docs/environments.md); results never differ.
    """

    continuous: bool = False
    """Actions are (radius, angle, fire), as float32, instead of indices."""

    continuous_action_threshold: float = within(0.5, -1e6, 1e6)
    """Where a continuous direction or fire counts as pressed."""

    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
    """When an ended environment is reset: in the next step, in the same step, or by the caller."""

    img_height: int = within(84, 1, INT32_MAX, **OF_IMAGES)
    """Rows of an observation; at most those of the game's screen."""

    img_width: int = within(84, 1, MAX_IMG_WIDTH, **OF_IMAGES)
    """Columns of an observation."""

    grayscale: bool = field(default=True, metadata=OF_IMAGES)
    """Gray observations; otherwise RGB, with the channels last."""

    max_sprites: int = within(64, 1, _core.MAX_SPRITES)
    """Rows of an observation of sprites; if there are more runs, the last row summarizes the rest.
    Ignored for other observations.
    """

    episodic_life: bool = False
    """The loss of a life ends the episode; a new game follows."""

    life_loss_info: bool = False
    """The loss of a life is reported as termination; the game continues."""

    reward_clipping: bool = True
    """Rewards of `step` are clipped to [-1, 1]."""

    episode_info: bool = False
    """``info`` of `reset` and `step` also has, for every environment, ``reward`` (of the step, not
    clipped), and ``episode_return`` (not clipped) and ``episode_length`` (in steps) of the episode
    so far, or where it ended in this step, of the whole one.
    """

    objects_info: bool = False
    """``info`` of `reset` and `step` also has ``objects``, int16 ``[N, K, 6]``: what the newest
    frame of ``obs_type="objects"`` would be.
    """

    final_info: bool = True
    """With SameStep autoreset ``info`` also has ``final_info``, the numbers of episodes that ended,
    and ``_final_info``, where they did; without effect in other modes. ale-py has neither, so for
    environments of `gymnasium.make_vec` the default is False.
    """

    device: str | torch.device = "cpu"
    """Device that runs the environments and holds the results: cpu, cuda, cuda:<number> or auto."""

    output: str | None = one_of(None, "numpy", "torch")
    """Type of what `reset` and `step` return. None: numpy on the CPU, torch on a GPU."""

    resets: str | None = one_of(None, "exact", "cached")
    """exact: the full reset of ale-py; cached: one of the stored reset states. None: exact on the
    CPU, cached on a GPU.
    """

    num_reset_states: int = within(30, 1, 4096)
    """Number of stored reset states of a game; without effect on exact resets."""

    preset: str = one_of("ale", *PRESETS)
    """Named set of options that these started from."""

    rom_path: str | os.PathLike[str] | None = None
    """A ROM file of your own."""

    rules: str | os.PathLike[str] | None = None
    """A TOML file with the reward, game-over and lives rules of a game of your own."""

    render_mode: str | None = one_of(None, "rgb_array")
    """rgb_array: `render` returns the screens. None: it returns nothing."""

    render_boxes: bool = False
    """`render` draws the boxes of objects on the screens, in games that have a table of objects."""


#: Options of images.
IMAGE_OPTIONS = sorted(
    name for name, entry in init_fields(EnvOptions).items() if "of_images" in entry.metadata
)


def full_screens(height: int, *, grayscale: bool) -> dict[str, Any]:
    """Options for observations that are whole screens: as large, one at a time, without pooling."""
    return {
        "img_height": height,
        "img_width": _core.SCREEN_WIDTH,
        "grayscale": grayscale,
        "stack_num": 1,
        "maxpool": False,
    }


_Env = TypeVar("_Env")
_Options = TypeVar("_Options", bound=EnvOptions)
_P = ParamSpec("_P")


def takes_options(
    spec: Callable[_P, object],
) -> Callable[[Callable[Concatenate[_Env, ...], None]], Callable[Concatenate[_Env, _P], None]]:
    """Give a constructor the signature of the options `spec`, at run time and for types."""

    def decorate(
        init: Callable[Concatenate[_Env, ...], None],
    ) -> Callable[Concatenate[_Env, _P], None]:
        this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = inspect.signature(spec).parameters.values()
        vars(init)["__signature__"] = inspect.Signature([this, *parameters])
        return init

    return decorate


def resolve_options(game: object, num_envs: object, keywords: Mapping[str, object]) -> EnvOptions:
    """Check what a user of `AtariVectorEnv` asked for and fill in the rest."""
    return resolve_fields(EnvOptions, "AtariVectorEnv", game, num_envs, keywords)


def resolve_fields(
    kind: type[_Options],
    function: str,
    game: object,
    num_envs: object,
    keywords: Mapping[str, object],
) -> _Options:
    """Check what a user of `function` asked for and fill in the rest.

    Raises:
        TypeError: There is no option of this name.
        InvalidArgumentError, DeviceError: An option is outside its allowed values.
        GymArgumentError: `frameskip` is.
    """
    fields = init_fields(kind)
    check_keywords(function, keywords, fields)
    preset = as_choice("preset", keywords.get("preset", "ale"), tuple(PRESETS))
    games = _game(game)
    if num_envs is None:
        if isinstance(games, str):
            raise ArgumentTypeError(f"{function}() needs num_envs; only a list of games has it")
        num_envs = sum(number for _, number in games)
    count = as_int("num_envs", num_envs, 1, MAX_ENVS)
    values: dict[str, object] = {"game": games, "num_envs": count}
    for name, entry in fields.items():
        if name not in values:
            value = keywords.get(name, PRESETS[preset].get(name, entry.default))
            try:
                values[name] = _checked(entry, value, count)
            except InvalidArgumentError as error:
                if name == "frameskip":
                    raise GymArgumentError(str(error)) from None  # as in ale-py
                raise
    on_gpu = values["device"] != "cpu"
    values["output"] = values["output"] or ("torch" if on_gpu else "numpy")
    values["resets"] = values["resets"] or ("cached" if on_gpu else "exact")
    options = kind(**values)  # type: ignore[arg-type]  # each by the type of its field
    _check_together(options)
    return options


def _checked(entry: dataclasses.Field[object], value: object, num_envs: int) -> object:
    """The value of one option, as its field describes it."""
    name = entry.name
    if "allowed" in entry.metadata:
        is_default = value is None and entry.default is None
        return value if is_default else as_choice(name, value, entry.metadata["allowed"])
    if name in ("mode", "difficulty", "action_delay"):
        return _per_env(entry, value, num_envs)
    if "range" in entry.metadata:
        low, high = entry.metadata["range"]
        if value is None and entry.default is None:
            return None
        if str(entry.type).startswith("int"):
            return as_int(name, value, low, min(high, num_envs) if name == "batch_size" else high)
        number = as_float(name, value, low, high)
        return as_decimal6(number) if name == "repeat_action_probability" else number
    if entry.type == "bool":
        return as_bool(name, value)
    if name == "autoreset_mode":
        if isinstance(value, AutoresetMode):
            return value
        return AutoresetMode(as_choice(name, value, [mode.value for mode in AutoresetMode]))
    if name == "device":
        return resolve_device(value, num_envs)
    if name == "modifications":
        return _modifications(value, num_envs)
    return value  # rom_path and rules: cule.games.resolve checks them


def _check_together(options: EnvOptions) -> None:
    """Refuse options that contradict each other."""
    fields = init_fields(type(options))
    if options.obs_type != "image":
        for name in IMAGE_OPTIONS:
            if name != "stack_num" or options.obs_type == "ram":
                _require(options, name, (fields[name].default,), f"obs_type={options.obs_type!r}")
    if options.device != "cpu":
        condition = f"device {shown(options.device)}"
        _require(options, "resets", ("cached",), condition)
        _require(options, "batch_size", (0, options.num_envs), condition)
        _require(options, "num_threads", (0,), condition)
        _require(options, "thread_affinity_offset", (-1,), condition)
        _require(options, "low_memory", (False,), condition)
        if options.frameskip > MAX_GPU_FRAMESKIP:
            raise InvalidArgumentError(
                f"frameskip is {options.frameskip}; with {condition} it must be at most "
                f"{MAX_GPU_FRAMESKIP}"
            )
    if options.batch_size not in (0, options.num_envs):
        condition = f"batch_size {options.batch_size} below num_envs {options.num_envs}"
        _require(options, "decorrelate_steps", (0,), condition)
    if isinstance(options.game, tuple) and len(options.game) > 1:
        _require(options, "rom_path", (None,), "several games")
        _require(options, "rules", (None,), "several games")
        if options.kernel == "compiled" and options.device != "cpu":
            _require(options, "kernel", ("auto", "interpreter"), "several games on a GPU")


def _split_names(text: str) -> Iterator[str]:
    """Names with commas between them, which may also be in parentheses."""
    start, depth = 0, 0
    for found in re.finditer("[(),]", text):
        depth += {"(": 1, ")": -1, ",": 0}[found[0]]
        if found[0] == "," and depth <= 0:
            yield text[start : found.start()].strip()
            start = found.end()
    yield text[start:].strip()


def _anchored(text: str) -> str:
    """The text with its files from the root, the same ones in any working folder."""

    def place(part: str) -> str:
        file, _, name = part.strip().rpartition(".toml:")
        if not file:
            return part
        path = str(anchored(as_path("modifications", f"{file}.toml")))
        return part if re.search("[(),|]", path) else f"{path}:{name}"  # these separate names

    return "|".join(map(place, text.split("|")))


def modification_names(value: object) -> tuple[str, ...]:
    """The modifications of an environment, each by itself."""
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(map(_anchored, _split_names(value)))
    if _is_list(value) and all(isinstance(entry, str) for entry in value):
        return tuple(itertools.chain.from_iterable(map(modification_names, value)))
    raise ArgumentTypeError(
        f"modifications has {shown(value)}; it must be None, a name, a list of names, or a list "
        "of such lists for each environment"
    )


def _require(options: EnvOptions, name: str, allowed: tuple[object, ...], condition: str) -> None:
    value = getattr(options, name)
    if value not in allowed:
        words = " or ".join(repr(entry) for entry in allowed)
        raise InvalidArgumentError(f"{name} is {shown(value)}; with {condition} it must be {words}")


def _game(game: object) -> str | tuple[tuple[str, int], ...]:
    """The name of a game, or pairs of name and number of environments."""
    if isinstance(game, str):
        return game
    if not isinstance(game, Sequence) or isinstance(game, bytes) or not game:
        raise ArgumentTypeError(
            f"game is {shown(game)}; it must be a name, or (name, number of environments) for each "
            "game"
        )
    pairs = []
    for entry in game:
        if not (isinstance(entry, Sequence) and len(entry) == 2 and isinstance(entry[0], str)):
            raise ArgumentTypeError(
                f"game holds {shown(entry)}; each entry must be (name, number of environments)"
            )
        count = as_int(f"game: number of {shown(entry[0])} environments", entry[1], 1, MAX_ENVS)
        pairs.append((entry[0], count))
    return tuple(pairs)


def _modifications(
    value: object, num_envs: int
) -> tuple[str, ...] | tuple[tuple[str, ...], ...] | None:
    """The names for all environments, or those of each; None if there are none."""
    if not _is_list(value) or all(isinstance(entry, str) for entry in value):
        return modification_names(value) or None
    entries = tuple(map(modification_names, value))
    if len(entries) != num_envs:
        raise InvalidArgumentError(
            f"modifications holds {len(entries)} lists; there must be one for each of the "
            f"{num_envs} environments"
        )
    return entries


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _per_env(
    entry: dataclasses.Field[object], value: object, num_envs: int
) -> int | tuple[int, ...] | None:
    """One integer, or one for each environment; None where that is the default."""
    if value is None and entry.default is None:
        return None
    name = entry.name
    low, high = entry.metadata.get("range", (0, INT32_MAX))
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
        return as_int(name, value, low, high)
    if len(value) != num_envs:
        raise InvalidArgumentError(
            f"{name} holds {len(value)} values; it must be one integer, or one for each of the "
            f"{num_envs} environments"
        )
    return tuple(as_int(f"{name}[{k}]", number, low, high) for k, number in enumerate(value))
