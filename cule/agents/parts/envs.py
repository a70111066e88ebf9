"""Environments of an agent: the interface it needs, how they are made, and episode statistics.

An agent uses an environment through `FrameEnv` only, so that tests can supply their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, SupportsInt, TypeAlias, runtime_checkable

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from cule.agents.parts.config import AgentConfig
from cule.envs import AtariVectorEnv, EnvOptions, FrameStep
from cule.envs.options import IMAGE_OPTIONS, GameOptions
from cule.errors import InvalidArgumentError, shown
from cule.option_fields import init_fields, require
from cule.replay import TrajectoryBuffer, TrajectoryOptions

if TYPE_CHECKING:
    from cule.agents.self_play import SelfPlayEnv
    from cule.envs import MultiAgentVectorEnv


class ObsSpace(Protocol):
    """Space of one observation."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """``[S, H, W]`` or ``[D]``."""


@runtime_checkable
class DiscreteSpace(Protocol):
    """Space of actions that are indices."""

    n: SupportsInt


class FrameEnv(Protocol):
    """A batch of environments as a learner uses it; `AtariVectorEnv` provides it."""

    @property
    def num_envs(self) -> int:
        """Environments N."""

    @property
    def metadata(self) -> Mapping[str, object]:
        """``autoreset_mode``, SameStep or NextStep."""

    @property
    def single_observation_space(self) -> ObsSpace:
        """Space of one observation."""

    @property
    def single_action_space(self) -> object:
        """A `DiscreteSpace`, or a space of continuous actions."""

    def reset(self, *, seed: int | None = None) -> tuple[object, object]:
        """Start new episodes; return observations ``[N, S, H, W]`` or ``[N, D]`` and infos."""

    def step_frames(self, actions: Tensor, out: Tensor | None = None) -> FrameStep:
        """Step as `AtariVectorEnv.step_frames` does, with tensors."""

    def get_state(self) -> object:
        """Return everything that future steps depend on, uint8 ``[N, bytes]``."""

    def set_state(self, states: object) -> None:
        """Restore what `get_state` returned."""

    def close(self) -> None:
        """Release all resources."""


def make_env(config: AgentConfig) -> AtariVectorEnv | SelfPlayEnv:
    """Make the environments of a config; with several players one policy plays all seats."""
    if config.num_players > 1:
        from cule.agents.self_play import SelfPlayEnv

        return SelfPlayEnv(make_games(config, config.num_players))
    return AtariVectorEnv(
        _games(config),
        config.num_envs,
        continuous=config.continuous,
        reward_clipping=False,
        rules=config.rules or None,
        **_options(config, EnvOptions),
    )


def make_games(config: AgentConfig, seats: int) -> MultiAgentVectorEnv:
    """Make games for several players, with the options of a config.

    Args:
        config: The options; `num_envs` counts seats of the policy.
        seats: How many it has in each game.

    Raises:
        InvalidArgumentError: An option is for a single player.
    """
    if config.num_envs % seats:
        raise InvalidArgumentError(
            f"num_envs is {config.num_envs}; with num_players {config.num_players} it counts seats "
            f"and must be a multiple of {seats}"
        )
    where = f"with num_players {config.num_players}"
    require(config, where, continuous=False, rules="", obs_type="image")
    if "," in config.game:
        raise InvalidArgumentError(
            f"game is {shown(config.game)}; with num_players {config.num_players} it must be one "
            "game"
        )
    from cule.envs import MultiAgentOptions, MultiAgentVectorEnv

    return MultiAgentVectorEnv(
        config.game,
        config.num_envs // seats,
        num_players=config.num_players,
        **_options(config, MultiAgentOptions),
    )


def _options(config: AgentConfig, kind: type[EnvOptions]) -> dict[str, Any]:
    """The options of environments of a kind, without games and numbers of environments."""
    names = init_fields(GameOptions).keys() & init_fields(kind).keys() - {"game", "num_envs"}
    if config.obs_type != "image":
        names -= set(IMAGE_OPTIONS) - ({"stack_num"} if config.obs_type == "objects" else set())
    sides = dict.fromkeys(("img_height", "img_width"), config.img_size)
    return {
        **{name: getattr(config, name) for name in names},
        **(sides if config.obs_type == "image" else {}),
        "num_threads": config.env_threads,
        "autoreset_mode": "SameStep",
        "resets": config.resets or None,
        "device": config.env_device or config.device,
        "output": "torch",
        "rom_path": config.rom_path or None,
    }


def _games(config: AgentConfig) -> str | list[tuple[str, int]]:
    """The game, or several with the number of environments of each."""
    names = [name.strip() for name in config.game.split(",")]
    if len(names) == 1:
        return config.game
    if config.num_envs % len(names):
        raise InvalidArgumentError(
            f"game is {shown(config.game)} and num_envs {config.num_envs}; it must be a multiple "
            f"of the {len(names)} games"
        )
    return [(name, config.num_envs // len(names)) for name in names]


def obs_shape(env: FrameEnv) -> tuple[int, ...]:
    """Shape of one observation: ``[S, H, W]``, ``[S, H, W, 3]`` or ``[D]``."""
    shape = env.single_observation_space.shape
    assert shape is not None
    return tuple(shape)


def obs_dtype(env: FrameEnv) -> torch.dtype:
    """Type of observations: uint8, int16 of objects, or float32 where the space has floats."""
    dtype = getattr(env.single_observation_space, "dtype", None)
    if dtype is not None and np.dtype(dtype) == np.int16:
        return torch.int16
    return torch.float32 if dtype is not None and np.dtype(dtype).kind == "f" else torch.uint8


def mode_of(env: FrameEnv) -> str:
    """The autoreset mode: SameStep or NextStep."""
    mode = env.metadata["autoreset_mode"]
    return str(getattr(mode, "value", mode))


def split_obs_shape(env: FrameEnv) -> tuple[int, tuple[int, ...]]:
    """Number of stacked frames S and shape of one frame; S is 1 for vectors.

    Environments with a `frame_stack` of 1 have images whose first axis is of channels.
    """
    shape = obs_shape(env)
    is_stack = len(shape) >= 3 and getattr(env, "frame_stack", 0) != 1
    return (shape[0], shape[1:]) if is_stack else (1, shape)


def newest_frames(env: FrameEnv, obs: object) -> Tensor:
    """Newest frames ``[N, H, W]`` or ``[N, D]`` of the observations of a reset."""
    tensor = check_tensor("obs", obs)
    stack, frame_shape = split_obs_shape(env)
    has_stack_axis = stack > 1 or tensor.dim() > 1 + len(frame_shape)
    return tensor[:, -1] if has_stack_axis else tensor


def make_stacks(
    env: FrameEnv,
    obs: object,
    *,
    continuous: bool = False,
    device: torch.device | str = "cpu",
) -> TrajectoryBuffer:
    """A buffer that only stacks frames for acting, started with the observations of a reset."""
    stack, frame_shape = split_obs_shape(env)
    stacks = TrajectoryBuffer(
        TrajectoryOptions(
            num_envs=env.num_envs,
            obs_shape=frame_shape,
            obs_dtype=obs_dtype(env),
            stack=stack,
            autoreset_mode=mode_of(env),
            num_steps=1,
            action_shape=(3,) if continuous else (),
            action_dtype=torch.float32 if continuous else torch.int64,
            extras={},
            device=device,
        )
    )
    stacks.start(newest_frames(env, obs))
    return stacks


class EpisodeStatistics:
    """Sums over ended episodes and over steps, accumulated on the device and read at intervals.

    Attributes:
        sums: Episodes, sum of returns, sum of lengths in steps, truncations, sum of the rewards of
            all steps, steps; float64 ``[NUM_SUMS]``.
    """

    NUM_SUMS = 6

    def __init__(self, device: torch.device) -> None:
        """Start at zero."""
        self.sums = torch.zeros(self.NUM_SUMS, dtype=torch.float64, device=device)
        self._reported = torch.zeros_like(self.sums)

    def __repr__(self) -> str:
        """Episodes since the last `read`. Waits for the device."""
        found = self._means(*self.sums.tolist())
        return (
            f"EpisodeStatistics({found['episodes']:.0f} episodes, mean return "
            f"{found['episode_return']:.2f}, mean length {found['episode_length']:.1f} steps, "
            f"{found['truncations']:.0f} truncated)"
        )

    @torch.no_grad()
    def add(self, step: FrameStep) -> None:
        """Add a step, and the episodes that ended with it."""
        ended = check_tensor("terminated", step.terminated) | step.truncated
        reward = check_tensor("reward", step.reward)
        zero = torch.zeros((), device=ended.device)
        sums = torch.stack(
            [
                ended.sum().double(),
                torch.where(ended, step.episode_return, zero).sum().double(),
                torch.where(ended, step.episode_length, zero).sum().double(),
                step.truncated.sum().double(),
                reward.sum().double(),
                torch.full((), ended.numel(), dtype=torch.float64, device=ended.device),
            ]
        )
        self.sums += sums.to(self.sums.device)

    def read(self) -> dict[str, float]:
        """Return the statistics since the last call and reset them. Waits for the device."""
        found = self._means(*self.sums.tolist())
        self.sums.zero_()
        self._reported.zero_()
        return found

    def load(self, sums: Tensor) -> None:
        """Continue with the `sums` of a checkpoint; those of earlier versions have no steps."""
        self.sums.zero_()[: len(sums)] = sums.to(self.sums.device)
        self._reported.copy_(self.sums)

    def new_episodes(self) -> tuple[Tensor, Tensor, Tensor]:
        """Episodes since the last call, their mean return and length; NaN without an episode.

        Scalars on the device, which this does not wait for.
        """
        episodes, returns, lengths = (self.sums - self._reported)[:3].unbind()
        self._reported.copy_(self.sums)
        return episodes, returns / episodes, lengths / episodes

    @staticmethod
    def _means(
        episodes: float,
        returns: float,
        lengths: float,
        truncations: float,
        rewards: float,
        steps: float,
    ) -> dict[str, float]:
        return {
            "episodes": episodes,
            "truncations": truncations,
            "episode_return": returns / episodes if episodes else float("nan"),
            "episode_length": lengths / episodes if episodes else float("nan"),
            "reward_per_step": rewards / steps if steps else float("nan"),
        }


@torch.no_grad()
def check_network(
    network: nn.Module,
    obs_shape: tuple[int, ...],
    obs_dtype: torch.dtype,
    outputs: Mapping[str, tuple[int, ...]],
    device: torch.device,
) -> None:
    """Require that a network turns observations into what an algorithm reads.

    Args:
        network: A module; called once with two observations, in evaluation mode.
        obs_shape: Shape of an observation.
        obs_dtype: Its type.
        outputs: Shape of each output for one observation; float32. Several are a tuple.
        device: Device of the network.

    Raises:
        InvalidArgumentError: It does not.
    """
    obs = torch.zeros((2, *obs_shape), dtype=obs_dtype, device=device)
    was_training = network.training
    network.eval()
    try:
        result = network(obs)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        raise InvalidArgumentError(
            f"the network cannot read observations, {str(obs_dtype).removeprefix('torch.')} "
            f"{_batch(obs_shape)}: {error}"
        ) from error
    finally:
        network.train(was_training)
    given = result if isinstance(result, tuple) else (result,)
    wanted = [(2, *shape) for shape in outputs.values()]
    is_right = len(given) == len(wanted) and all(
        isinstance(value, Tensor) and value.dtype == torch.float32 and value.shape == shape
        for value, shape in zip(given, wanted, strict=True)
    )
    if not is_right:
        shapes = (f"{name} {_batch(shape)}" for name, shape in outputs.items())
        raise InvalidArgumentError(
            f"the network returns {' and '.join(map(_words, given))} for 2 observations; it must "
            f"return {' and '.join(shapes)}, float32"
        )


def check_env(env: object) -> None:
    """Require that environments have what an agent uses, give tensors, and reset themselves.

    Raises:
        InvalidArgumentError: They do not.
    """
    wanted = [name for name in vars(FrameEnv) if not name.startswith("_")]
    missing = [name for name in wanted if not hasattr(env, name)]
    if missing:
        raise InvalidArgumentError(
            f"the environment, a {type(env).__name__}, has no {', '.join(missing)}; agents need "
            "what cule.AtariVectorEnv has under these names"
        )
    config = getattr(env, "config", None)
    output = getattr(config, "output", "torch")
    if output != "torch":
        raise InvalidArgumentError(
            f"output of the environment is {shown(output)}; an agent needs output='torch'"
        )
    num_envs = env.num_envs  # type: ignore[attr-defined]  # as above
    batch_size = getattr(config, "batch_size", 0) or num_envs
    if batch_size != num_envs:
        raise InvalidArgumentError(
            f"batch_size of the environment is {batch_size}; it must be num_envs, {num_envs}"
        )
    mode = env.metadata.get("autoreset_mode")  # type: ignore[attr-defined]  # it has one
    name = getattr(mode, "value", mode)
    if name not in ("SameStep", "NextStep"):
        raise InvalidArgumentError(
            f"autoreset_mode of the environment is {shown(name)}; it must be 'SameStep' or "
            "'NextStep'"
        )


def check_tensor(name: str, value: object) -> Tensor:
    """A result of the environments, which must be a tensor.

    Raises:
        InvalidArgumentError: It is something else, such as an array.
    """
    if not isinstance(value, Tensor):
        raise InvalidArgumentError(
            f"{name} of the environment is a {type(value).__name__}; an agent needs tensors "
            "(output='torch' of cule.AtariVectorEnv)"
        )
    return value


def _batch(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, ('B', *shape)))}]"


def _words(value: object) -> str:
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} {list(value.shape)}"
    return f"a {type(value).__name__}"


#: Environments of an agent.
AnyEnv: TypeAlias = FrameEnv | gymnasium.vector.VectorEnv[Any, Any, Any]


def as_frame_env(env: AnyEnv) -> FrameEnv:
    """The environments as agents read them.

    Raises:
        InvalidArgumentError: They do not fit.
    """
    if isinstance(env, gymnasium.vector.VectorEnv) and not hasattr(env, "step_frames"):
        from cule.agents.parts.gym_env import GymFrameEnv

        return GymFrameEnv(env)
    check_env(env)
    return env  # type: ignore[return-value]  # checked just now
