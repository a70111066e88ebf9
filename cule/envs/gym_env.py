"""One environment as Gymnasium has it.

Keywords, seeding, order of events and results are those of ``ale_py.env.AtariEnv`` 0.12.1. One step
is ``frameskip`` acts; the observation is the last frame alone, without pooling, resizing or
stacking.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import NDArray

from cule import _core
from cule.envs.actions import Action, continuous_actions, joystick_action
from cule.envs.ale_interface import ALEInterface
from cule.envs.ale_state import ALEState
from cule.envs.checks import Array, as_bool, as_float, as_int, to_numpy
from cule.envs.concurrency import calls_one_at_a_time
from cule.envs.errors import (
    ActionRangeError,
    ActionShapeError,
    ArgumentTypeError,
    GymArgumentError,
)
from cule.envs.options import MAX_ACTION_DELAY, EnvOptions, modification_names, takes_options
from cule.envs.plan import continuous_action_space
from cule.envs.registration import VECTOR_PREFIX
from cule.envs.results import Info
from cule.envs.single_agent import AtariVectorEnv
from cule.errors import ClosedError, InvalidArgumentError, NotResetError, shown
from cule.familiar_names import check_keywords
from cule.files import anchored
from cule.games import load_games, resolve
from cule.option_fields import described_by, documents, init_fields

Observation = NDArray[Any] | dict[str, NDArray[Any]]

#: What an observation is made with, by ``obs_type``.
_SCREENS: Mapping[str, Callable[[ALEInterface], NDArray[Any] | None]] = {
    "rgb": ALEInterface.getScreenRGB,
    "grayscale": ALEInterface.getScreenGrayscale,
    "ram": ALEInterface.getRAM,
    "objects": ALEInterface.getObjects,
    "sprites": ALEInterface.getSprites,
}


def __getattr__(name: str) -> Callable[..., AtariVectorEnv]:
    """Entry point of `gymnasium.make_vec` for an id: ``vector_pong`` makes environments of pong."""
    game_id = name.removeprefix(VECTOR_PREFIX)
    if game_id == name or game_id not in load_games():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functools.partial(_make_vector, game_id)


def _make_vector(game_id: str, *, game: object, **options: Any) -> AtariVectorEnv:
    if game != game_id:
        raise InvalidArgumentError(
            f"game is {shown(game)}, but the id is that of {shown(game_id)}; leave game out, or "
            "make other games with cule.AtariVectorEnv"
        )
    options.setdefault("final_info", False)  # `info` is that of ale-py
    return AtariVectorEnv(game_id, **options)


@described_by(EnvOptions)
@dataclass(frozen=True)
class GymOptions:
    """Options of an `AtariEnv`."""

    game: str
    """Name of the game, as in ``ms_pacman``."""

    mode: int | None = None
    """Game mode; None: the game's first."""

    difficulty: int | None = None
    """Difficulty switches; None: 0."""

    obs_type: str = "rgb"
    """rgb ``[H, 160, 3]``, grayscale ``[H, 160]``, or ram ``[128]``, uint8; objects, int16 ``[K,
    6]``; or sprites, int16 ``[64, 11]``.
    """

    frameskip: tuple[int, int] | int = 4
    """Frames of a step, or (low, high): a random number from low to high - 1."""

    repeat_action_probability: float = 0.25
    full_action_space: bool = False
    continuous: bool = False
    continuous_action_threshold: float = 0.5

    max_num_frames_per_episode: int | None = None
    """Frames after which an episode is truncated; None or 0: never."""

    render_mode: str | None = None
    """rgb_array, or None. ``gymnasium.make`` adds human with its own wrapper."""

    sound_obs: bool = False
    """Observations are dicts of "image" and "sound", uint8 ``[512]``."""

    action_delay: int = field(default=0, kw_only=True)
    kernel: str = field(default="auto", kw_only=True)
    modifications: str | Sequence[str] | None = field(default=None, kw_only=True)
    rom_path: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    rules: str | os.PathLike[str] | None = field(default=None, kw_only=True)


@documents(GymOptions)
@calls_one_at_a_time
class AtariEnv(gymnasium.Env[Array, Array]):
    """One Atari 2600 environment. Copies and pickles continue where it is.

    Example:
        >>> import gymnasium, cule
        >>> env = gymnasium.make("cule/Pong-v5")
        >>> obs, info = env.reset(seed=0)
        >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> obs.shape
        (210, 160, 3)
    """

    # Gymnasium declares it without ClassVar.
    metadata: Info = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    @takes_options(GymOptions)
    def __init__(self, game: str, *arguments: Any, **keywords: Any) -> None:
        """Switch the console on, seeded from entropy.

        Raises:
            GymArgumentError: A keyword is outside its allowed values.
            SettingError: The game does not have this mode or difficulty.
            UnknownGameError, RomNotFoundError, UnsupportedRomError, RulesError: The game cannot be
                had.
        """
        check_keywords("AtariEnv", keywords, init_fields(GymOptions))
        options = self._options = GymOptions(game, *arguments, **keywords)
        if not isinstance(options.obs_type, str) or options.obs_type not in _SCREENS:
            raise GymArgumentError(
                f"obs_type is {shown(options.obs_type)}; it must be one of {', '.join(_SCREENS)}"
            )
        mode = options.render_mode
        if mode is not None and not (isinstance(mode, str) and mode == "rgb_array"):
            raise GymArgumentError(
                f"render_mode is {shown(options.render_mode)}; it must be 'rgb_array' or None (to "
                "watch, wrap it in gymnasium.wrappers.HumanRendering)"
            )
        self.render_mode = options.render_mode
        self.continuous = as_bool("continuous", options.continuous)
        self.continuous_action_threshold = as_float(
            "continuous_action_threshold", options.continuous_action_threshold, -1e6, 1e6
        )
        self.sound_obs = as_bool("sound_obs", options.sound_obs)
        self._screen = _SCREENS[options.obs_type]
        self._frameskip = _checked_frameskip(options.frameskip)
        self._was_reset = False
        self._closed = False

        self.ale = ALEInterface()
        self.ale.setFloat("repeat_action_probability", options.repeat_action_probability)
        frames = options.max_num_frames_per_episode
        self.ale.setInt("max_num_frames_per_episode", 0 if frames is None else frames)
        self.ale.setInt(
            "action_delay", as_int("action_delay", options.action_delay, 0, MAX_ACTION_DELAY)
        )
        self.ale.setBool("sound_obs", self.sound_obs)
        self.ale.setString("kernel", options.kernel)
        self.ale.setString("modifications", ", ".join(modification_names(options.modifications)))
        self.seed_game()
        self.load_game()
        # Seeded resets load it again, from whatever folder they are called in.
        self._options = dataclasses.replace(
            options,
            rom_path=anchored(options.rom_path),
            rules=anchored(options.rules),
        )

        whole = as_bool("full_action_space", options.full_action_space) or self.continuous
        self._action_set = self.ale.getLegalActionSet() if whole else self.ale.getMinimalActionSet()
        self.action_space = (
            continuous_action_space() if self.continuous else spaces.Discrete(len(self._action_set))
        )
        first = self._image()
        limits = np.iinfo(first.dtype)
        image = spaces.Box(int(limits.min), int(limits.max), first.shape, first.dtype)
        self.observation_space: spaces.Space[Array] = image
        if self.sound_obs:
            sound = spaces.Box(0, 255, (_core.SOUND_SAMPLES,), np.uint8)
            self.observation_space = spaces.Dict(image=image, sound=sound)

    # --- Gymnasium ------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Observation, Info]:
        """Start a new episode.

        Args:
            seed: Switches the console off and on again, with streams seeded by this; None: the
                console stays on and its streams continue.
            options: Not used.

        Returns:
            The observation; ``lives``, ``episode_frame_number``, ``frame_number`` and, after
            seeding, ``seeds``.
        """
        self._check_open()
        super().reset(seed=seed)
        seeds: Info = {}
        if seed is not None:
            seeds["seeds"] = self.seed_game(seed)
            self.load_game()
        self.ale.reset_game()
        self._was_reset = True
        return self._observation(), self._info() | seeds

    def step(self, action: object) -> tuple[Observation, float, bool, bool, Info]:
        """Hold an action for ``frameskip`` frames.

        Args:
            action: Index into the action set; with ``continuous=True`` (radius, angle, fire),
                float32 ``[3]``.

        Returns:
            Observation, unclipped reward, terminated, truncated, and ``info``.

        Raises:
            ActionShapeError: An action of the wrong type or shape.
            ActionRangeError: An action outside the action space.
            NotResetError: Before the first reset.
        """
        self._check_open()
        if not self._was_reset:
            raise NotResetError("this environment has not been reset; call reset() first")
        pressed, strength = self._pressed(action)
        frames = self._frameskip
        if isinstance(frames, tuple):
            frames = int(self.np_random.integers(*frames))
        # As in ALE, the acts after an episode's end still use numbers of the random stream.
        reward = sum(self.ale.act(pressed, strength) for _ in range(frames))
        return (
            self._observation(),
            float(reward),
            self.ale.game_over(with_truncation=False),
            self.ale.game_truncated(),
            self._info(),
        )

    def render(self) -> NDArray[np.uint8] | None:
        """The screen, uint8 ``[H, 160, 3]``, with ``render_mode="rgb_array"``.

        Raises:
            GymArgumentError: There is no render mode.
        """
        self._check_open()
        if self.render_mode is None:
            raise GymArgumentError("render_mode is None; make the environment with 'rgb_array'")
        return self.ale.getScreenRGB()

    def __repr__(self) -> str:
        """Game, spaces and device."""
        return (
            f"AtariEnv({self._options.game!r}, obs={self.observation_space}, "
            f"actions={self.action_space}, device='cpu')"
        )

    def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    # --- Beyond Gymnasium, as in ale-py ---------------------------------------------------------

    def seed_game(self, seed: int | None = None) -> tuple[np.uint32, np.uint32]:
        """Seed both random streams; the console takes its own at the next `load_game`.

        Args:
            seed: None: from entropy.

        Returns:
            The two words made from the seed: for the environment's and for the console's stream.

        Raises:
            ArgumentTypeError: `seed` is not an integer of 0 or more.
        """
        try:
            words = np.random.SeedSequence(seed).generate_state(2)
        except (TypeError, ValueError):
            raise ArgumentTypeError(
                f"seed is {shown(seed)}; it must be None, or an integer of 0 or more"
            ) from None
        self._np_random, _ = seeding.np_random(int(words[0]))
        self.ale.setInt("random_seed", int(words[1].astype(np.int32)))
        return words[0], words[1]

    def load_game(self) -> None:
        """Switch the console off and on again."""
        options = self._options
        found = resolve(options.game, options.rom_path, options.rules).rom_path
        self.ale.loadROM(found, game=options.game, rules=options.rules)
        if options.mode is not None:
            self.ale.setMode(options.mode)
        if options.difficulty is not None:
            self.ale.setDifficulty(options.difficulty)

    def get_action_meanings(self) -> list[str]:
        """Names of the actions."""
        return [action.name for action in self._action_set]

    def get_keys_to_action(self) -> dict[tuple[str, ...], int]:
        """Keys (w, a, s, d, space, and e for nothing) to the index of the action they mean.

        Raises:
            AttributeError: Continuous actions have no keys.
        """
        if self.continuous:
            raise AttributeError(
                "`get_keys_to_action` can't be provided for this Atari environment as "
                "`continuous=True`."
            )
        return {_keys(action): index for index, action in enumerate(self._action_set)}

    @staticmethod
    def map_action_idx(left_center_right: int, down_center_up: int, fire: bool) -> Action:
        """The action of a direction and the button.

        Args:
            left_center_right: -1, 0 or 1.
            down_center_up: -1, 0 or 1.
            fire: Whether the button is pressed.

        Raises:
            InvalidArgumentError: No such direction.
        """
        directions = {"left_center_right": left_center_right, "down_center_up": down_center_up}
        for name, value in directions.items():
            if value not in (-1, 0, 1):
                raise InvalidArgumentError(f"{name} is {shown(value)}; it must be -1, 0 or 1")
        return joystick_action(left_center_right, down_center_up, bool(fire))

    def clone_state(self, include_rng: bool = False) -> ALEState:
        """A snapshot of the console."""
        self._check_open()
        return self.ale.cloneState(include_rng=include_rng)

    def restore_state(self, state: ALEState) -> None:
        """Restore a snapshot."""
        self._check_open()
        self.ale.restoreState(state)

    # --- Inside ---------------------------------------------------------------------------------

    @property
    def _lock(self) -> threading.RLock:
        return self.ale._lock

    def __getstate__(self) -> dict[str, object]:
        """Everything, between two calls."""
        return self.__dict__.copy()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this environment has been closed")

    def _pressed(self, action: object) -> tuple[Action, float]:
        """Console action and paddle strength of an action of the action space."""
        value = to_numpy(action)
        if self.continuous:
            if not isinstance(value, np.ndarray):
                raise ActionShapeError(f"action is {shown(action)}; it must be a float32 array")
            x, y, fire, strength = continuous_actions(value[None], 1)[0].tolist()
            return joystick_action(x, y, fire, self.continuous_action_threshold), strength
        try:
            index = as_int("action", value)
        except TypeError as error:
            raise ActionShapeError(str(error)) from None
        except InvalidArgumentError as error:
            raise ActionRangeError(str(error)) from None
        if not 0 <= index < len(self._action_set):
            raise ActionRangeError(
                f"action is {index}; it must be in 0..{len(self._action_set) - 1}"
            )
        return self._action_set[index], 1.0

    def _image(self) -> NDArray[Any]:
        image = self._screen(self.ale)
        assert image is not None  # without a buffer there is a result
        return image

    def _observation(self) -> Observation:
        if not self.sound_obs:
            return self._image()
        sound = self.ale.getAudio()
        assert sound is not None  # as above
        return {"image": self._image(), "sound": sound}

    def _info(self) -> Info:
        return {
            "lives": self.ale.lives(),
            "episode_frame_number": self.ale.getEpisodeFrameNumber(),
            "frame_number": self.ale.getFrameNumber(),
        }


def _checked_frameskip(frameskip: object) -> int | tuple[int, int]:
    """A positive number of frames, or a range of them."""
    try:
        if not isinstance(frameskip, tuple):
            return as_int("frameskip", frameskip, 1)
        if len(frameskip) != 2:
            raise InvalidArgumentError(
                f"frameskip is {frameskip}; a random one must be (low, high), of length 2"
            )
        low, high = as_int("frameskip[0]", frameskip[0], 1), as_int("frameskip[1]", frameskip[1])
        if low >= high:
            raise InvalidArgumentError(f"frameskip is {frameskip}; low must be less than high")
        return low, high
    except InvalidArgumentError as error:
        raise GymArgumentError(str(error)) from None


def _keys(action: Action) -> tuple[str, ...]:
    """The keys of an action, in the order of ale-py."""
    if action is Action.NOOP:
        return ("e",)
    words = (("UP", "w"), ("DOWN", "s"), ("RIGHT", "d"), ("LEFT", "a"), ("FIRE", " "))
    return tuple(key for word, key in words if word in action.name)
