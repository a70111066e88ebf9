"""EnvPool's options, what they are in `EnvOptions`, and `EnvSpec`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from cule.envs.checks import as_bool, to_own_numpy
from cule.envs.errors import ArgumentTypeError
from cule.envs.options import EnvOptions, resolve_options
from cule.envs.plan import observation_space, plan_batch
from cule.envs.requests import as_seeds
from cule.errors import CuleError, InvalidArgumentError, shown
from cule.familiar_names import check_keywords
from cule.games import game_id_of
from cule.lazy import needs
from cule.option_fields import described_by, documents, init_fields


@documents()
@described_by(EnvOptions)
@dataclass(frozen=True, kw_only=True)
class Config:
    """Options of `make`, with the names, defaults and order of EnvPool 1.2.5."""

    num_envs: int = 1
    """Number of environments."""

    batch_size: int = 0
    num_threads: int = 0

    max_num_players: int = 1
    """Always 1."""

    thread_affinity_offset: int = -1

    seed: int = 42
    """Seed of the first environment, and those of the others count up; or a sequence of all."""

    env_seed: Sequence[int] = ()
    """The sequence, where `seed` is one."""

    gym_reset_return_info: bool = True
    """Always True."""

    max_episode_steps: int = 27_000
    """Steps after which an episode is truncated."""

    stack_num: int = 4

    frame_skip: int = 4
    """Emulated frames of a step."""

    noop_max: int = 30

    zero_discount_on_life_loss: bool = False
    """With dm_env, the discount is 0 where a life is lost."""

    episodic_life: bool = False
    """The loss of a life is reported as termination; the next step, whose action is ignored,
    continues the game.
    """

    reward_clip: bool = False
    """Rewards are -1, 0 or 1; ``info["reward"]`` has the others."""

    use_fire_reset: bool = True
    img_height: int = 84
    img_width: int = 84

    task: str = ""
    """The game; from `task_id`."""

    mode: int = -1
    """Game mode; -1: the game's default."""

    difficulty: int = -1
    """Difficulty switches; -1: the game's default."""

    full_action_space: bool = False
    repeat_action_probability: float = 0.0

    use_inter_area_resize: bool = True
    """Always True: a pixel is the mean of the area that it covers."""

    gray_scale: bool = True
    """Gray observations; otherwise RGB, three channels for each frame of the stack."""


_FIELDS = {entry.name: entry.default for entry in dataclasses.fields(Config)}

#: Options of one value.
_FIXED = {"max_num_players": 1, "gym_reset_return_info": True, "use_inter_area_resize": True}

#: Options that `EnvOptions` has under another name.
_OURS = {"frame_skip": "frameskip", "gray_scale": "grayscale", "reward_clip": "reward_clipping"}

#: Options that `EnvOptions` has under the same name, with the same meaning.
_SHARED = _FIELDS.keys() & init_fields(EnvOptions).keys() - {
    *("num_envs", "mode", "difficulty", "episodic_life"),
}


class EnvSpec:
    """Description of the environments of a `Config`; EnvPool's ``make_spec(...)``."""

    def __init__(self, config: Config) -> None:
        """Check the options and find the game."""
        try:
            resolved = resolve_options(config.task, config.num_envs, env_options(config))
            plan = plan_batch(resolved)
        except CuleError as error:
            raise type(error)(_in_their_names(str(error))) from None
        self.config = dataclasses.replace(config, batch_size=config.batch_size or config.num_envs)
        self.action_set = plan.action_set
        shape = observation_space(resolved).shape or ()
        if not config.gray_scale:  # [S, H, W, 3]
            shape = (shape[0] * shape[3], *shape[1:3])
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(plan.action_set))
        self.gymnasium_observation_space = self.observation_space
        self.gymnasium_action_space = self.action_space
        self.reward_threshold = None

    def __repr__(self) -> str:
        """The options."""
        return f"EnvSpec({self.options()})"

    def options(self) -> str:
        """The options, as keywords."""
        words = (f"{name}={value!r}" for name, value in dataclasses.asdict(self.config).items())
        return ", ".join(words)

    def observation_spec(self) -> State:
        """The `State` of one environment, as specs of dm_env.

        Raises:
            MissingPackageError: dm_env is not installed.
        """
        with needs("dm-env"):
            from dm_env import specs
        shape = self.observation_space.shape
        info = np.iinfo(np.int32)

        def number(name: str) -> Any:
            return specs.BoundedArray((), np.int32, info.min, info.max, name)

        reward = np.finfo(np.float32)
        return State(
            env_id=number("env_id"),
            players=Players(env_id=number("env_id")),
            obs=specs.BoundedArray(shape, np.uint8, 0, 255, "obs"),
            lives=number("lives"),
            reward=specs.BoundedArray((), np.float32, reward.min, reward.max, "reward"),
            terminated=specs.DiscreteArray(2, np.int32, "terminated"),
            ram=specs.BoundedArray((128,), np.uint8, 0, 255, "ram"),
        )

    def action_spec(self) -> Any:
        """Actions of one environment, as a spec of dm_env.

        Raises:
            MissingPackageError: dm_env is not installed.
        """
        with needs("dm-env"):
            from dm_env import specs
        return specs.DiscreteArray(len(self.action_set), np.int32, "action")


class Players(NamedTuple):
    """Numbers of each player; there is one in each environment."""

    env_id: NDArray[np.int32]


class State(NamedTuple):
    """The observation of a time step of dm_env."""

    env_id: NDArray[np.int32]
    players: Players
    obs: NDArray[np.uint8]
    lives: NDArray[np.int32]
    reward: NDArray[np.float32]
    terminated: NDArray[np.int32]
    ram: NDArray[np.uint8]


def make_spec(task_id: str, **options: object) -> EnvSpec:
    """Description of what `make` would make.

    Args:
        task_id: Title of a game and ``-v5``.
        **options: Of `Config`.

    Raises:
        TypeError: There is no option of this name.
        InvalidArgumentError: An option is outside its allowed values.
        UnknownGameError, RomNotFoundError: The game is not available.
    """
    check_keywords("make", options, _FIELDS.keys() - {"task"})
    found = re.fullmatch(r"(\w+)-v5", task_id) if isinstance(task_id, str) else None
    if found is None:
        raise InvalidArgumentError(
            f"task_id is {shown(task_id)}; it must be the title of a game and '-v5', such as "
            "'Pong-v5'"
        )
    for name, value in _FIXED.items():
        given = options.get(name, value)
        if not isinstance(given, int | np.integer | np.bool_) or given != value:
            raise InvalidArgumentError(
                f"{name} is {shown(options[name])}; it must be {shown(value)}"
            )
    values = {**_FIELDS, **options, "task": game_id_of(found[1])}
    given = values["env_seed"]
    if isinstance(given, Sequence) and not given:
        given = values["seed"]
    seeds = to_own_numpy(given)
    is_each = isinstance(seeds, np.ndarray) and seeds.ndim > 0
    values |= {
        "seed": 0 if is_each else given,
        "env_seed": tuple(seeds.tolist()) if is_each else (),
    }
    config = Config(**values)  # type: ignore[arg-type]  # EnvSpec checks them
    if config.env_seed and len(config.env_seed) != config.num_envs:
        raise InvalidArgumentError(
            f"seed holds {len(config.env_seed)} values; it must be one integer, or one for each of "
            f"the {config.num_envs} environments"
        )
    spec = EnvSpec(config)
    as_seeds(config.env_seed or config.seed, config.num_envs)
    return spec


def env_options(config: Config) -> dict[str, Any]:
    """The keywords of `AtariVectorEnv` that make environments of `config`."""
    for name in ("max_episode_steps", "frame_skip"):
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            kind = InvalidArgumentError if isinstance(value, int) else ArgumentTypeError
            raise kind(f"{name} is {shown(value)}; it must be an integer, at least 1")
    for name in ("zero_discount_on_life_loss", "episodic_life"):
        as_bool(name, getattr(config, name))
    options = {name: getattr(config, name) for name in _SHARED}
    options |= {ours: getattr(config, theirs) for theirs, ours in _OURS.items()}
    for name in ("mode", "difficulty"):
        value = getattr(config, name)
        options[name] = None if isinstance(value, int | np.integer) and value == -1 else value
    frames = int(config.max_episode_steps) * int(config.frame_skip)
    return {
        **options,
        "max_num_frames_per_episode": min(frames, np.iinfo(np.int32).max),
        "autoreset_mode": AutoresetMode.NEXT_STEP,
        "episode_info": True,
    }


_THEIRS: Mapping[str, str] = MappingProxyType({ours: theirs for theirs, ours in _OURS.items()})


def _in_their_names(message: str) -> str:
    """An error message of `resolve_options` with EnvPool's name of the option."""
    first, _, rest = message.partition(" ")
    return f"{_THEIRS.get(first, first)} {rest}"
