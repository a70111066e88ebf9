"""PQN: parallelised Q-learning without replay or target network (Gallici et al. 2024).

Many environments replace the replay memory, and layer normalisation the target network. Targets are
lambda-returns of the greedy values of the acting pass.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.algorithms.early_stopping import add_to
from cule.agents.algorithms.on_policy import RolloutAgent, RolloutConfig, check_minibatches
from cule.agents.training.checkpoint import Metrics
from cule.agents.training.options import Epochs, Fraction, GradNorm, NonNegativeFloat, Positive
from cule.nets import NormalisedQNetwork, gather_actions
from cule.replay import TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class PQNConfig(RolloutConfig):
    """Options of PQN; the defaults are those of its paper."""

    num_envs: Positive = 128
    episodic_life: bool = True
    fire_after_life_loss: bool = True

    network: str = "nature"
    """Torso with layer normalisation: nature, nature32, nips, small (for CPUs), hadamax; mlp, also
    for RAM."""

    initialisation: str = "he"
    num_steps: Positive = 32
    learning_rate: NonNegativeFloat = 2.5e-4
    max_grad_norm: GradNorm = 10.0

    num_epochs: Epochs = 2
    """Passes over each rollout."""

    num_minibatches: Positive = 32
    """Minibatches of each epoch, with one update of the optimizer each."""

    q_lambda: Fraction = 0.65
    """Lambda of the returns."""

    exploration: Literal["schedule", "ladder"] = "schedule"
    """schedule: one epsilon that decreases; ladder: a constant epsilon per environment."""

    epsilon_start: Fraction = 1.0
    """First epsilon of the schedule."""

    epsilon_end: Fraction = 0.001
    """Last epsilon of the schedule."""

    exploration_fraction: Fraction = 0.1
    """Fraction of training over which epsilon decreases."""


class PQN(RolloutAgent):
    """Parallelised Q-learning; see docs/agents/pqn.md.

    Example:
        >>> from cule.agents import PQN, PQNConfig
        >>> agent = PQN(PQNConfig(game="pong", num_envs=8, num_steps=4, num_minibatches=2))
        >>> [progress.updates for progress in agent.train(steps=64)]
        [4, 8]
    """

    name: ClassVar[str] = "pqn"
    config_class = PQNConfig
    config: PQNConfig
    q_values: Callable[[Tensor], Tensor]
    eval_epsilon: ClassVar[float] = 0.001

    # --- Set up -----------------------------------------------------------------------------------

    def network_outputs(self) -> Mapping[str, tuple[int, ...]]:
        """Action values."""
        return {"action values": (self.num_actions,)}

    def make_network(self) -> nn.Module:
        """Make action values with layer normalisation; see `network_outputs`."""
        return NormalisedQNetwork(
            self.obs_shape,
            self.num_actions,
            torso=self.config.network,
            initialisation=self.config.initialisation,
            normalize_obs=self.config.normalize_obs,
        )

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Make RAdam."""
        config = self.config
        check_minibatches(config.num_minibatches, config.num_steps * self.num_envs)
        return torch.optim.RAdam(self.network.parameters(), lr=self.learning_rate)

    def buffer_options(self) -> TrajectoryOptions:
        """Options of the buffer, which stores the largest action value of each step."""
        options = super().buffer_options()
        return dataclasses.replace(options, extras={"max_q": ((), torch.float32)})

    def capture(self) -> None:
        """Capture the forward pass of acting and the update."""
        super().capture()
        self.q_values = self.captured(self._q_values)

    # --- Act --------------------------------------------------------------------------------------

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Choose the best actions, or with probability 0.001 random ones."""
        epsilon = 0.0 if greedy else self.eval_epsilon
        return algos.epsilon_greedy(self._q_values(obs), epsilon, generator)

    def epsilon(self) -> Tensor | float:
        """Current epsilon: a number, or one per environment ``[N]``."""
        config = self.config
        if config.exploration == "ladder":
            return self._ladder
        span = max(config.exploration_fraction * config.total_steps, 1.0)
        return algos.linear_schedule(config.epsilon_start, config.epsilon_end, self.steps / span)

    @functools.cached_property
    def _ladder(self) -> Tensor:
        return self.of_own_envs(algos.epsilon_ladder(self.total_envs))

    def play_step(self) -> None:
        """Play one step epsilon-greedily."""
        q_values = self.q_values(self.buffer.observe())
        actions = algos.epsilon_greedy(q_values, self.epsilon(), self.generator)
        step = self.step_env(actions, self.buffer.next_frame())
        self.buffer.append(actions, step, max_q=q_values.amax(-1))
        self.statistics.add(step)

    @torch.no_grad()
    def _q_values(self, obs: Tensor) -> Tensor:
        with self.autocast():
            values: Tensor = self.forward(obs)
        return values

    # --- Learn ------------------------------------------------------------------------------------

    def updates_of(self, metrics: Metrics) -> int:
        """One for each minibatch of each epoch."""
        return self.config.num_epochs * self.config.num_minibatches

    def schedules(self) -> Metrics:
        """The current learning rate and epsilon, averaged over the environments."""
        epsilon = self.epsilon()
        mean = epsilon.mean() if isinstance(epsilon, Tensor) else epsilon
        return {**super().schedules(), "epsilon": mean}

    def _learn_once(self) -> dict[str, Tensor]:
        """Run all epochs over the rollout in the buffer; return the mean metrics of the updates."""
        config = self.config
        rollout = self.buffer.rollout(with_obs=False)
        max_q = rollout.extras["max_q"]
        returns = algos.q_lambda_returns(
            rollout.rewards,
            rollout.discounts,
            self.next_values(rollout, max_q),
            rollout.ended,
            config.q_lambda,
        )
        sums: dict[str, Tensor] = {}
        for _ in range(config.num_epochs):
            for index in self.buffer.minibatches(config.num_minibatches):
                columns = (rollout.actions, returns, rollout.valid)
                samples = [column.flatten()[index] for column in columns]
                add_to(sums, self._learn_from(self.buffer.obs_at(index), *samples))
        count = config.num_epochs * config.num_minibatches
        return {
            **{name: value / count for name, value in sums.items()},
            "q_max_mean": max_q.mean(),
        }

    def state_values(self, obs: Tensor) -> Tensor:
        """As `RolloutAgent.state_values`: the largest action values."""
        q_values: Tensor = self.forward(obs)
        return q_values.amax(-1)

    def _learn_from(
        self, obs: Tensor, actions: Tensor, returns: Tensor, valid: Tensor
    ) -> dict[str, Tensor]:
        """Update from samples ``[B]``; return the metrics."""
        with self.autocast():
            q_values = self.forward(obs)
        taken = gather_actions(q_values, actions)
        loss = 0.5 * algos.value_loss(taken, returns, valid=self.only_valid(valid))
        norm = self.learn(loss)
        return {"q_loss": loss.detach(), "q_mean": taken.detach().mean(), "grad_norm": norm}
