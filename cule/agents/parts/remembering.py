"""`Remembering`: what learners with an LSTM share.

They keep a memory of each environment while they play, blank where an episode begins, and store it
with each step, so that updates can begin with the memory with which a step was played.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from cule.agents.parts.acting import Policy
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.learner import Learner
from cule.agents.parts.rollout import next_values
from cule.agents.parts.setup import Network
from cule.envs.checks import as_int
from cule.errors import InvalidArgumentError
from cule.nets.recurrent import RecurrentActorCritic
from cule.option_fields import require
from cule.replay import Rollout, TrajectoryBuffer, TrajectoryOptions

#: Values that options must have, where an algorithm has these options.
_NEEDED: Mapping[str, object] = {
    "continuous": False,
    "compile": False,
    "normalize_values": False,
    "num_players": 1,
    "target_kl": None,
}


def check_options(config: AgentConfig) -> None:
    """Refuse options that do not work with an LSTM."""
    require(config, "with an LSTM", **_NEEDED)


class Remembering(Learner):
    """Adds a memory to the learner with rollouts that follows it among the bases of a class.

    Attributes:
        memory: Memory of each environment before its newest observation; float32 ``[N, size]``.
        starts: Whether an episode begins with that observation; bool ``[N]``.
    """

    network: RecurrentActorCritic
    buffer: TrajectoryBuffer
    policy: Policy
    choose: Callable[[Tensor], tuple[Tensor, dict[str, Tensor]]]

    def __init__(
        self, config: AgentConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        learner: Any = super()
        learner.__init__(config, env, network=network)
        if not (hasattr(self.network, "blank_memory") and hasattr(self.network, "step")):
            raise InvalidArgumentError(
                f"network is {type(self.network).__name__} without blank_memory and step; it must "
                "have them, and read sequences, as cule.nets.RecurrentActorCritic"
            )
        num_envs = self.setup.num_envs
        self.memory = self.new_memory(num_envs)
        if self.memory.dim() != 2 or self.memory.any():
            raise InvalidArgumentError(
                f"blank_memory made a tensor of shape {tuple(self.memory.shape)}; it must make "
                f"zeros of shape ({num_envs}, size)"
            )
        self.starts = torch.ones(num_envs, dtype=torch.bool, device=self.device)

    def make_network(self) -> RecurrentActorCritic:
        """Make a policy and a value on an LSTM, on the CPU."""
        setup, size = self.setup, self.config.memory_size
        options = setup.network_options(normalize_obs=self.config.normalize_obs)
        return RecurrentActorCritic(setup.obs_shape, setup.num_actions, memory_size=size, **options)

    def new_memory(self, num_envs: int) -> Tensor:
        """Memory of environments in which episodes begin; float32 ``[num_envs, size]``, zeros.

        Raises:
            InvalidArgumentError, ArgumentTypeError: `num_envs` is not an integer of 0 or more.
        """
        num_envs = as_int("num_envs", num_envs, 0)
        return self.network.blank_memory(num_envs).to(self.device)

    def begin_buffer(self, frames: Tensor) -> None:
        """Begin the buffer, and forget."""
        learner: Any = super()
        learner.begin_buffer(frames)
        self.memory.zero_()
        self.starts.fill_(True)

    def make_buffer(self) -> TrajectoryBuffer:
        """Make the buffer of the last T steps, which also keeps memory and starts of episodes."""
        extras = {
            "log_probs": ((), torch.float32),
            "values": ((), torch.float32),
            "memory": (tuple(self.memory.shape[1:]), torch.float32),
            "starts": ((), torch.bool),
        }
        options = self.setup.storage_options(self.network)
        for name in ("num_steps", "num_batches", "steps_per_update"):  # PPO has the first
            if hasattr(self.config, name):
                options[name] = getattr(self.config, name)
        return TrajectoryBuffer(TrajectoryOptions(**options, extras=extras))

    @torch.no_grad()
    def _play(self) -> None:
        actions, extras = self.choose(self.buffer.observe())
        # A graph cannot follow the memory of the next frame, which changes every step.
        next_frame = None if self.config.cuda_graphs else self.buffer.next_frame()
        step = self.setup.step_env(actions, next_frame)
        self.buffer.append(actions, step, **extras)
        self.setup.statistics.add(step)
        self.starts.copy_(step.first)
        self.memory.masked_fill_(self.starts.unsqueeze(1), 0.0)

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions ``[N]``, and the extras that the buffer stores with them; remembers `obs`."""
        before = self.memory.clone()
        with self.setup.autocast():
            output, values, after = self.network.step(obs, before)
        self.memory.copy_(after)
        actions, extras = self.policy.sample(output, self.setup.generator)
        return actions, {**extras, "values": values, "memory": before, "starts": self.starts}

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        generator: torch.Generator,
        *,
        greedy: bool = False,
        memory: Tensor | None = None,
    ) -> Tensor:
        """Sample actions from the policy, or choose the most probable ones.

        Args:
            obs: As in `Learner.act`.
            generator: As in `Learner.act`.
            greedy: As in `Learner.act`.
            memory: What `new_memory` made for these environments, float32 ``[n, size]``; afterwards
                it includes `obs`. Set it to zero where an episode begins. None: all episodes begin.

        Returns:
            int64 ``[n]``.
        """
        obs = self.setup.check_obs(obs)
        before = self.new_memory(len(obs)) if memory is None else memory
        with self.setup.autocast():
            output, _, after = self.network.step(obs, before)
        if memory is not None:
            memory.copy_(after)
        return self.policy.best(output) if greedy else self.policy.sample(output, generator)[0]

    @torch.no_grad()
    def values_after(
        self, rollout: Rollout, values: Tensor, last: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Values of the observations that follow each step, with the memory of their episodes.

        Args:
            rollout: T steps of n environments; of all of them, if it has no observations.
            values: Values of these steps; float32 ``[T, n]``.
            last: Makes values ``[n]`` of the observations after the last step.

        Returns:
            float32 ``[T, n]``.
        """

        def final(obs: Tensor, steps: Tensor) -> Tensor:
            envs, seen = torch.arange(len(steps), device=steps.device), rollout.obs
            index = steps * len(steps) + envs
            before = self.buffer.obs_at(index) if seen is None else seen[steps, envs]
            memory = self.network.step(before, rollout.extras["memory"][steps, envs])[2]
            return self.network.step(obs, memory)[1]

        with self.setup.autocast():
            return next_values(rollout, values, last, self.setup, final)

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from."""
        learner: Any = super()
        state: dict[str, Any] = learner.state_dict(replay=replay)
        state["extra"] |= {"memory": self.memory, "starts": self.starts}
        return state

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a buffer, new episodes begin."""
        learner: Any = super()
        learner.load_state_dict(saved)
        if self.has_begun:
            self.memory.copy_(saved["extra"]["memory"])
            self.starts.copy_(saved["extra"]["starts"])
