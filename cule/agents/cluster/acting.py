"""`Player`: the environments of one actor, which play blocks of steps with sent weights."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cule import algos
from cule.agents.parts.actor_errors import ActorErrors
from cule.agents.parts.config import ACTING_SEED, ACTOR_SEED_STRIDE
from cule.agents.parts.envs import (
    EpisodeStatistics,
    check_tensor,
    make_env,
    make_stacks,
    newest_frames,
)
from cule.agents.parts.memory import ladder_of
from cule.nets import gather_actions

if TYPE_CHECKING:
    from cule.agents.apex import ApexConfig, EnvFactory


def actor_seed(seed: int, index: int) -> int:
    """The seed of an actor from the one that all get."""
    return (seed + ACTOR_SEED_STRIDE * (index + 1)) % 2**30


def epsilons_of(config: ApexConfig, index: int) -> Tensor:
    """The part of an actor of the ladder of all environments; float32 ``[N]``."""
    first, total = index * config.num_envs, config.num_actors * config.num_envs
    return ladder_of(config, total)[first : first + config.num_envs]


class Block(NamedTuple):
    """T consecutive steps of the N environments of an actor, each frame once; NumPy arrays."""

    start: NDArray[Any] | None
    """Frames before the first step, ``[N, *obs_shape]``, where new episodes begin; else None."""

    frames: NDArray[Any]
    """Frames after each step; ``[T, N, *obs_shape]``."""

    actions: NDArray[np.int64]
    """Actions; ``[T, N]``."""

    rewards: NDArray[np.float32]
    """Rewards, not clipped; ``[T, N]``."""

    flags: NDArray[np.bool_]
    """terminated, truncated, life_lost and first of each step; ``[4, T, N]``."""

    finals: NDArray[Any]
    """Final frames of the truncated episodes, in the order of `flags`; ``[K, *obs_shape]``."""

    priorities: NDArray[np.float32]
    """First priorities of the transitions that each step completes; ``[T, N]``."""

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self if array is not None)


class Played(NamedTuple):
    """Summary of a block, which the learner reads without fetching the block."""

    num_steps: int
    """Steps of all environments."""

    seconds: float
    """Time that playing took."""

    version: int
    """Version of the weights that played."""

    episodes: list[float]
    """`EpisodeStatistics.sums` of the block."""

    num_bytes: int
    """Bytes of the block."""


class Player:
    """The environments of an actor and a copy of the network; see `ActorErrors` for priorities."""

    def __init__(
        self, config: ApexConfig, index: int, env_factory: EnvFactory | None, network: nn.Module
    ) -> None:
        """Make the environments; the device is that of the config.

        Args:
            config: Options of this actor.
            index: Index of the actor.
            env_factory: As for `cule.agents.ApexDQN`.
            network: Its weights are replaced by those of `play`.
        """
        torch.set_num_threads(1)
        self.config, self.index = config, index
        self.device = torch.device(config.env_device or "cpu")
        self.env = make_env(config) if env_factory is None else env_factory(config, index)
        self.network = network.to(self.device).requires_grad_(False)
        self.epsilon = epsilons_of(config, index).to(self.device)
        self.generator = torch.Generator(device=self.device)
        self.statistics = EpisodeStatistics(self.device)
        self.version = -1

    def ready(self) -> None:
        """Return when the actor has been made."""

    @torch.no_grad()
    def play(
        self,
        num_steps: int,
        seed: int | None,
        weights: NDArray[np.float32] | None = None,
        version: int = -1,
    ) -> tuple[Played, Block]:
        """Play a block.

        Args:
            num_steps: Steps T of each environment.
            seed: Seed of new episodes, or None to continue those of the last block.
            weights: New weights as one vector, or None to keep the last.
            version: Version of the new weights.
        """
        started = time.perf_counter()
        if weights is not None:
            # A copy: arrays of Ray's store are read-only.
            flat = torch.from_numpy(np.array(weights)).to(self.device)
            nn.utils.vector_to_parameters(flat, self.network.parameters())
            self.version = version
        start = None if seed is None else self._start(seed)
        shape, n = self.stacks.options.obs_shape, self.env.num_envs
        dtype = self.stacks.options.obs_dtype
        frames = torch.empty((num_steps, n, *shape), dtype=dtype)
        actions_taken = torch.empty((num_steps, n), dtype=torch.int64)
        rewards, priorities = torch.empty((num_steps, n)), torch.zeros((num_steps, n))
        flags = torch.empty((4, num_steps, n), dtype=torch.bool)
        finals: list[Tensor] = []
        for t in range(num_steps):
            actions, taken, best = self.choice
            on_host = self.device.type == "cpu"
            step = self.env.step_frames(actions, out=frames[t] if on_host else None)
            if not on_host:
                frames[t] = check_tensor("frame", step.frame)
            self.errors.add_step(taken, best, step, self.config)
            self.stacks.append(actions, step)
            self.statistics.add(step)
            actions_taken[t], rewards[t] = actions, check_tensor("reward", step.reward)
            kinds = (step.terminated, step.truncated, step.life_lost, step.first)
            for row, kind in zip(flags, kinds, strict=True):
                row[t] = check_tensor("flags", kind)
            if flags[1, t].any():
                finals.append(check_tensor("final_frame", step.final_frame).cpu()[flags[1, t]])
            self._choose()
            errors = self.errors.errors(self.choice[2])
            if errors is not None:
                priorities[t] = algos.priorities_from_errors(errors)
        episodes = self.statistics.sums.tolist()
        self.statistics.sums.zero_()
        block = Block(
            None if start is None else start.numpy(),
            frames.numpy(),
            actions_taken.numpy(),
            rewards.numpy(),
            flags.numpy(),
            torch.cat(finals).numpy() if finals else np.empty((0, *shape), frames.numpy().dtype),
            priorities.numpy(),
        )
        seconds = time.perf_counter() - started
        return Played(num_steps * n, seconds, self.version, episodes, block.num_bytes), block

    def _start(self, seed: int) -> Tensor:
        """Begin new episodes; return their first frames."""
        seed = actor_seed(seed, self.index)
        self.generator.manual_seed(seed + ACTING_SEED)
        obs, _ = self.env.reset(seed=seed)
        self.stacks = make_stacks(self.env, obs, device=self.device)
        self.errors = ActorErrors(self.config.n_step)
        self._choose()
        return newest_frames(self.env, obs).cpu().clone()

    def _choose(self) -> None:
        """Choose the next actions; their values give priorities to the block that ends here."""
        q_values = self.network(self.stacks.observe())
        actions = algos.epsilon_greedy(q_values, self.epsilon, self.generator)
        self.choice = actions, gather_actions(q_values, actions), q_values.amax(-1)
