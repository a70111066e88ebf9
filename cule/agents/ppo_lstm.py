"""PPO whose network remembers, with an LSTM, for games that one observation does not show whole.

`RecurrentPPO` is `PPO` with the memory of `parts.remembering`. A minibatch consists of short
sequences of steps, through which gradients flow back in time, each from the memory with which it
was played.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from cule import algos
from cule.agents.parts import optim
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.remembering import Remembering, check_options
from cule.agents.parts.setup import Network
from cule.agents.ppo import PPO, PPOConfig, Samples
from cule.errors import InvalidArgumentError
from cule.nets.recurrent import RecurrentActorCritic, Sequences
from cule.option_fields import Cells, Positive


@dataclass(frozen=True, kw_only=True)
class RecurrentPPOConfig(PPOConfig):
    """Options of PPO with an LSTM; the defaults are those of CleanRL's ppo_atari_lstm.py.

    `forward_batch` bounds nothing here: all environments are read at once.
    """

    stack_num: int = 1

    memory_size: Cells = 128
    """Cells of the LSTM."""

    sequence_length: Positive | None = None
    """Steps through which gradients flow back, a divisor of `num_steps`; none: all of them."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        check_options(self)
        if self.sequence_length and self.num_steps % self.sequence_length:
            raise InvalidArgumentError(
                f"sequence_length is {self.sequence_length}; it must be a divisor of num_steps, "
                f"{self.num_steps}"
            )


class RecurrentPPO(Remembering, PPO):
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
        self.sequence_length = config.sequence_length or config.num_steps
        sequences = self.num_envs * config.num_steps // self.sequence_length
        if sequences % config.num_minibatches:
            raise InvalidArgumentError(
                f"num_minibatches is {config.num_minibatches}, which does not divide the "
                f"{sequences} sequences of a rollout (num_envs x num_steps / sequence_length)"
            )

    # --- Learn ------------------------------------------------------------------------------------

    def learn(self) -> dict[str, Tensor]:
        """Run all epochs over the rollout in the buffer; return the mean metrics of the updates."""
        config, rollout = self.config, self.buffer.rollout(with_obs=False)
        extras, old_values = rollout.extras, rollout.extras["values"]
        after = self.values_after(
            rollout, old_values, lambda obs: self.network.step(obs, self.memory)[1]
        )
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
