"""PPO whose network remembers, with an LSTM, for games that one observation does not show whole.

`RecurrentPPO` is `PPO` but for three things. It keeps a memory of each environment while it plays,
blank where an episode begins. A minibatch consists of short sequences of steps, through which
gradients flow back in time, each from the memory with which it was played. And the value of a final
observation follows from the memory of its episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from cule import algos
from cule.agents.parts import optim
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.rollout import next_values
from cule.agents.parts.setup import Network
from cule.agents.ppo import PPO, PPOConfig, Samples
from cule.errors import InvalidArgumentError, shown
from cule.nets.recurrent import RecurrentActorCritic, Sequences
from cule.option_fields import Cells, Positive
from cule.replay import Rollout, TrajectoryBuffer, TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class RecurrentPPOConfig(PPOConfig):
    """Options of PPO with an LSTM; the defaults are those of CleanRL's ppo_atari_lstm.py.

    `forward_batch` bounds nothing here: all environments are read at once.
    """

    stack_num: Positive = 1

    memory_size: Cells = 128
    """Cells of the LSTM."""

    sequence_length: Positive | None = None
    """Steps through which gradients flow back, a divisor of `num_steps`; none: all of them."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        for name, needed in (
            ("continuous", False),
            ("compile", False),
            ("normalize_values", False),
            ("num_players", 1),
            ("target_kl", None),
        ):
            value = getattr(self, name)
            if value != needed:
                raise InvalidArgumentError(
                    f"{name} is {shown(value)}; with an LSTM it must be {needed}"
                )
        if self.sequence_length and self.num_steps % self.sequence_length:
            raise InvalidArgumentError(
                f"sequence_length is {self.sequence_length}; it must be a divisor of num_steps, "
                f"{self.num_steps}"
            )


class RecurrentPPO(PPO):
    """PPO with an LSTM; see docs/agents/ppo.md.

    Example:
        >>> from cule.agents import RecurrentPPO, RecurrentPPOConfig
        >>> config = RecurrentPPOConfig(game="pong", num_steps=16, total_steps=256)
        >>> [progress.steps for progress in RecurrentPPO(config).train()]
        [128, 256]
    """

    name: ClassVar[str] = "ppo-lstm"
    config_class: ClassVar[type[RecurrentPPOConfig]] = RecurrentPPOConfig
    network: RecurrentActorCritic
    config: RecurrentPPOConfig

    def __init__(
        self,
        config: RecurrentPPOConfig,
        env: AnyEnv | None = None,
        *,
        network: Network | None = None,
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        super().__init__(config, env, network=network)
        if not (hasattr(self.network, "blank_memory") and hasattr(self.network, "step")):
            raise InvalidArgumentError(
                f"network is {type(self.network).__name__} without blank_memory and step; it must "
                "have them, and read sequences, as cule.nets.RecurrentActorCritic"
            )
        self.sequence_length = config.sequence_length or config.num_steps
        sequences = self.num_envs * config.num_steps // self.sequence_length
        if sequences % config.num_minibatches:
            raise InvalidArgumentError(
                f"num_minibatches is {config.num_minibatches}, which does not divide the "
                f"{sequences} sequences of a rollout (num_envs x num_steps / sequence_length)"
            )
        self.memory = self.new_memory(self.num_envs)
        if self.memory.dim() != 2 or self.memory.any():
            raise InvalidArgumentError(
                f"blank_memory made a tensor of shape {tuple(self.memory.shape)}; it must make "
                f"zeros of shape ({self.num_envs}, size)"
            )
        self.starts = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)

    def make_network(self) -> RecurrentActorCritic:
        """Make a policy and a value on an LSTM, on the CPU."""
        options = self.setup.network_options(normalize_obs=self.config.normalize_obs)
        size = self.config.memory_size
        return RecurrentActorCritic(self.obs_shape, self.num_actions, memory_size=size, **options)

    # --- Act --------------------------------------------------------------------------------------

    def new_memory(self, num_envs: int) -> Tensor:
        """Memory of environments in which episodes begin."""
        return self.network.blank_memory(num_envs).to(self.device)

    def begin_buffer(self, frames: Tensor) -> None:
        """Begin the buffer, and forget."""
        super().begin_buffer(frames)
        self.memory.zero_()
        self.starts.fill_(True)

    def make_buffer(self) -> TrajectoryBuffer:
        """Make the buffer of a rollout, which also keeps memory and starts of episodes."""
        extras = {
            "log_probs": ((), torch.float32),
            "values": ((), torch.float32),
            "memory": (tuple(self.memory.shape[1:]), torch.float32),
            "starts": ((), torch.bool),
        }
        options = self.setup.storage_options(self.network)
        return TrajectoryBuffer(
            TrajectoryOptions(**options, num_steps=self.config.num_steps, extras=extras)
        )

    @torch.no_grad()
    def _play(self) -> None:
        actions, extras = self.choose(self.buffer.observe())
        # A graph cannot follow the memory of the next frame, which changes every step.
        next_frame = None if self.config.cuda_graphs else self.buffer.next_frame()
        step = self.setup.step_env(actions, next_frame)
        self.buffer.append(actions, step, **extras)
        self.statistics.add(step)
        self.starts.copy_(step.first)
        self.memory.masked_fill_(self.starts.unsqueeze(1), 0.0)

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions ``[N]``, and the extras that the buffer stores with them; remembers `obs`."""
        before = self.memory.clone()
        with self.setup.autocast():
            output, values, after = self.network.step(obs, before)
        self.memory.copy_(after)
        actions, extras = self.policy.sample(output, self.generator)
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
            memory: What `new_memory` made for these environments; afterwards it includes `obs`. Set
                it to zero where an episode begins. None: all episodes begin.
        """
        obs = self.setup.check_obs(obs)
        before = self.new_memory(len(obs)) if memory is None else memory
        with self.setup.autocast():
            output, _, after = self.network.step(obs, before)
        if memory is not None:
            memory.copy_(after)
        return self.policy.best(output) if greedy else self.policy.sample(output, generator)[0]

    # --- Learn ------------------------------------------------------------------------------------

    def learn(self) -> dict[str, Tensor]:
        """Run all epochs over the rollout in the buffer; return the mean metrics of the updates."""
        config, rollout = self.config, self.buffer.rollout(with_obs=False)
        extras, old_values = rollout.extras, rollout.extras["values"]
        after = self._next_values(rollout)
        advantages, returns = algos.gae(
            rollout.rewards, rollout.discounts, old_values, after, rollout.ended, config.gae_lambda
        )
        log_probs = extras["log_probs"]
        columns = (rollout.actions, advantages, returns, log_probs, old_values, rollout.valid)
        flat = [column.flatten(0, 1) for column in columns]
        starts, memory = extras["starts"].flatten(0, 1), extras["memory"].flatten(0, 1)
        metrics: dict[str, Tensor] = {}
        never = torch.zeros((), dtype=torch.bool, device=self.device)
        for _ in range(config.num_epochs):
            for first in self.first_steps().unbind():
                steps = torch.arange(self.sequence_length, device=self.device).unsqueeze(1)
                index = first + steps * self.num_envs
                obs = self.buffer.obs_at(index.flatten())
                obs = obs.view(*index.shape, *obs.shape[1:])
                sequences = Sequences(obs, starts[index], memory[first])
                # The network reads sequences where others read observations.
                samples = Samples(
                    cast(Tensor, sequences), *(column[index.flatten()] for column in flat)
                )
                optim.add_to(metrics, self.minimise(samples, never))
        count = config.num_epochs * config.num_minibatches
        metrics = {name: value / count for name, value in metrics.items()}
        if config.adaptive_kl is not None:
            optim.adapt_learning_rate(self.optimizer, metrics["approx_kl"], config.adaptive_kl)
        return {
            **metrics,
            "explained_variance": algos.explained_variance(old_values, returns),
            "value_mean": old_values.mean(),
        }

    def first_steps(self) -> Tensor:
        """Where the sequences of each minibatch begin, in random order.

        Returns:
            int64 ``[num_minibatches, B]``: step times N, plus environment.
        """
        config = self.config
        count = self.num_envs * config.num_steps // self.sequence_length
        order = torch.randperm(count, generator=self.buffer.generator, device=self.device)
        block, env = order // self.num_envs, order % self.num_envs
        first = block * self.sequence_length * self.num_envs + env
        return first.view(config.num_minibatches, -1)

    @torch.no_grad()
    def _next_values(self, rollout: Rollout) -> Tensor:
        """Values of the observations that follow each step, with the memory of their episodes."""

        def last(obs: Tensor) -> Tensor:
            return self.network.step(obs, self.memory)[1]

        def final(obs: Tensor, steps: Tensor) -> Tensor:
            envs = torch.arange(len(steps), device=steps.device)
            before = self.buffer.obs_at(steps * self.num_envs + envs)
            memory = self.network.step(before, rollout.extras["memory"][steps, envs])[2]
            return self.network.step(obs, memory)[1]

        with self.setup.autocast():
            return next_values(rollout, rollout.extras["values"], last, self.setup, final)

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from."""
        state = super().state_dict(replay=replay)
        state["extra"] |= {"memory": self.memory, "starts": self.starts}
        return state

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a buffer, new episodes begin."""
        super().load_state_dict(saved)
        if self.has_begun:
            self.memory.copy_(saved["extra"]["memory"])
            self.starts.copy_(saved["extra"]["starts"])
