"""The environments of a learner: how they are made, what is asked of them, and their numbers.

A learner asks an environment for `FrameEnv` and no more, so that a test can bring its own.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from cule.agents.options import AgentConfig
from cule.envs import AtariVectorEnv, FrameStep
from cule.errors import InvalidArgumentError


class FrameEnv(Protocol):
    """What a learner needs of a batch of environments; `AtariVectorEnv` has it."""

    num_envs: int
    """Environments N."""

    metadata: dict[str, Any]
    """``autoreset_mode`` must be SameStep."""

    single_observation_space: Any
    """``shape``: ``[S, H, W]``, or ``[D]``."""

    single_action_space: Any
    """``n``: number of actions; or ``shape`` of a continuous action."""

    def reset(self, *, seed: Any = None) -> tuple[Any, Any]:
        """Begin; observations ``[N, S, H, W]`` or ``[N, D]``."""

    def step_frames(self, actions: Any, out: Any = None) -> FrameStep:
        """As `AtariVectorEnv.step_frames`, with tensors."""

    def get_state(self) -> Any:
        """All that the environments' future depends on, uint8 ``[N, bytes]``."""

    def set_state(self, states: Any) -> None:
        """Continue from `get_state`."""

    def close(self) -> None:
        """Free what is held."""


def make_env(
    config: AgentConfig, *, num_envs: int | None = None, **overrides: Any
) -> AtariVectorEnv:
    """Make the consoles that a config asks for.

    Args:
        config: Game, number, observation, stickiness, devices.
        num_envs: Consoles, where it is not the config's number.
        overrides: Keywords of `AtariVectorEnv` that win.
    """
    keywords: dict[str, Any] = {
        "num_threads": config.env_threads,
        "max_num_frames_per_episode": config.max_num_frames_per_episode,
        "repeat_action_probability": config.repeat_action_probability,
        "full_action_space": config.full_action_space,
        "continuous": config.continuous,
        "autoreset_mode": "SameStep",
        "frameskip": config.frameskip,
        "noop_max": config.noop_max,
        "reward_clipping": False,
        "device": config.env_device or config.device,
        "kernel": config.kernel,
        "output": "torch",
        "obs_type": config.obs_type,
        "decorrelate_steps": config.decorrelate_steps,
    }
    if config.obs_type == "image":
        keywords |= {
            "img_height": config.img_size,
            "img_width": config.img_size,
            "stack_num": config.stack_num,
        }
    count = config.num_envs if num_envs is None else num_envs
    return AtariVectorEnv(config.game, count, **(keywords | overrides))


def check_env(env: FrameEnv) -> None:
    """Refuse environments whose ended episodes do not start anew in the same step.

    Raises:
        InvalidArgumentError: The autoreset mode is another one.
    """
    mode = env.metadata.get("autoreset_mode")
    name = getattr(mode, "value", mode)
    if name != "SameStep":
        raise InvalidArgumentError(
            f"autoreset_mode of the environment is {name!r}; the learners need 'SameStep'"
        )


def obs_shape(env: FrameEnv) -> tuple[int, ...]:
    """Shape of one observation: ``[S, H, W]`` or ``[D]``."""
    return tuple(env.single_observation_space.shape)


def split_obs_shape(shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Stacked frames S, and the shape of one frame: one stored vector if there is no stack."""
    return (shape[0], shape[1:]) if len(shape) == 3 else (1, shape)


def storage_options(
    config: AgentConfig, num_envs: int, shape: tuple[int, ...], device: torch.device, seed: int
) -> dict[str, Any]:
    """What every buffer of a learner is told, as keywords of `cule.replay.StorageOptions`."""
    stack, frame_shape = split_obs_shape(shape)
    return {
        "num_envs": num_envs,
        "obs_shape": frame_shape,
        "stack": stack,
        "gamma": config.gamma,
        "reward_clipping": config.reward_rule,
        "terminal_on_life_loss": config.episodic_life,
        "max_episode_steps": -(-config.max_num_frames_per_episode // config.frameskip),
        "device": device,
        "seed": seed,
    }


def newest_frames(obs: Any, shape: tuple[int, ...]) -> Tensor:
    """The newest frames of reset observations."""
    tensor = torch.as_tensor(obs)
    return tensor[:, -1] if len(shape) == 3 else tensor


class EpisodeStatistics:
    """Sums over ended episodes, on the device; read at intervals."""

    def __init__(self, device: torch.device) -> None:
        """Start with no episode."""
        # episodes, sum of returns, sum of lengths in steps, truncations; float64 for exact counts
        self.sums = torch.zeros(4, dtype=torch.float64, device=device)

    @torch.no_grad()
    def add(self, step: FrameStep) -> None:
        """Count the episodes that ended with a step."""
        ended = step.terminated | step.truncated
        zero = torch.zeros((), device=ended.device)
        sums = torch.stack(
            [
                ended.sum().double(),
                torch.where(ended, step.episode_return, zero).sum().double(),
                torch.where(ended, step.episode_length, zero).sum().double(),
                step.truncated.sum().double(),
            ]
        )
        self.sums += sums.to(self.sums.device)

    def read(self) -> dict[str, float]:
        """Numbers of the episodes since the last call; waits for the device, and starts anew."""
        episodes, returns, lengths, truncations = self.sums.tolist()
        self.sums.zero_()
        result = {"episodes": episodes, "truncations": truncations}
        nothing = float("nan")
        result["episode_return"] = returns / episodes if episodes else nothing
        result["episode_length"] = lengths / episodes if episodes else nothing
        return result
