"""PQN: parallelised Q-learning without replay or target network (Gallici et al. 2024).

Many consoles take the place of a replay memory, layer normalisation that of a target network; the
targets are lambda-returns of the acting pass's own greedy values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.base import Progress, timed
from cule.agents.distributed import rank, world_size
from cule.agents.on_policy import OnPolicyAgent, RolloutConfig, check_minibatches
from cule.agents.options import check_choice, check_least, check_range
from cule.nets import NormalisedQNetwork, gather_actions
from cule.replay import Rollout


@dataclass(frozen=True, kw_only=True)
class PQNConfig(RolloutConfig):
    """Options of PQN; the defaults are those of its paper."""

    num_envs: int = 128
    """Consoles N of each process."""

    network: str = "nature"
    """With layer normalisation: nature, nature32, nips, small (for CPUs); mlp, also for RAM."""

    initialisation: str = "he"
    """How weights start: orthogonal, he or torch."""

    num_steps: int = 32
    """Steps T of a rollout."""

    num_epochs: int = 2
    """Passes over each rollout."""

    num_minibatches: int = 32
    """Parts that a pass is cut into; an update of the optimiser each."""

    learning_rate: float = 2.5e-4
    """Of RAdam, at the start."""

    anneal_learning_rate: bool = False
    """The learning rate falls linearly to 0 at the end."""

    q_lambda: float = 0.65
    """Lambda of the returns."""

    exploration: str = "schedule"
    """schedule: one epsilon that falls; ladder: one for each console, constant."""

    epsilon_start: float = 1.0
    """First epsilon of the schedule."""

    epsilon_end: float = 0.001
    """Last epsilon of the schedule."""

    exploration_fraction: float = 0.1
    """Share of training over which epsilon falls."""

    max_grad_norm: float = 10.0
    """Global norm that gradients are clipped to; 0: not clipped."""

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        super().__post_init__()
        check_least(self, 1, "num_steps", "num_epochs", "num_minibatches")
        check_least(self, 0.0, "learning_rate", "max_grad_norm")
        check_range(self, 0.0, 1.0, "q_lambda", "epsilon_start", "epsilon_end")
        check_range(self, 0.0, 1.0, "exploration_fraction")
        check_choice(self, "exploration", ("schedule", "ladder"))


class PQN(OnPolicyAgent):
    """The learner; see docs/agents/pqn.md.

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
    learn_from: Callable[..., dict[str, Tensor]]
    eval_epsilon: ClassVar[float] = 0.001

    def capture(self) -> None:
        """Acting, and an update from a minibatch."""
        self.q_values = self.captured(self._q_values)
        self.learn_from = self.captured(self._learn_from)

    def make_network(self) -> NormalisedQNetwork:
        """Action values with layer normalisation."""
        return NormalisedQNetwork(
            self.obs_shape,
            self.num_actions,
            torso=self.config.network,
            initialisation=self.config.initialisation,
        )

    def make_optimizer(self) -> torch.optim.Optimizer:
        """RAdam."""
        config = self.config
        check_minibatches(config.num_minibatches, config.num_steps * self.num_envs)
        return torch.optim.RAdam(self.network.parameters(), lr=self.learning_rate)

    def buffer_options(self) -> dict[str, Any]:
        """As for all, with the largest action value beside each step."""
        return {**super().buffer_options(), "extras": {"max_q": ((), torch.float32)}}

    def values_from(self, output: Any) -> Tensor:
        """The largest action value."""
        values: Tensor = output.amax(-1)
        return values

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """The best actions, or any with probability 0.001."""
        with self.autocast():
            q_values = self.forward(obs)
        epsilon = 0.0 if greedy else self.eval_epsilon
        return algos.epsilon_greedy(q_values, epsilon, generator)

    def epsilon(self) -> Tensor | float:
        """Exploration now: a number, or one for each console ``[N]``."""
        config = self.config
        if config.exploration == "ladder":
            first, total = rank() * self.num_envs, world_size() * self.num_envs
            ladder = algos.epsilon_ladder(total, first=first, count=self.num_envs)
            return ladder.to(self.device)
        span = max(config.exploration_fraction * config.total_steps, 1.0)
        return algos.linear_schedule(config.epsilon_start, config.epsilon_end, self.steps / span)

    @timed("collect")
    @torch.no_grad()
    def collect(self, num_steps: int) -> None:
        """Play steps epsilon-greedily into the buffer."""
        epsilon = self.epsilon()
        for _ in range(num_steps):
            q_values = self.q_values(self.buffer.observe())
            actions = algos.epsilon_greedy(q_values, epsilon, self.generator)
            step = self.step_env(actions, self.buffer.next_frame())
            self.buffer.append(actions, step, max_q=q_values.amax(-1))
            self.statistics.add(step)
        self.count_steps(num_steps)

    @torch.no_grad()
    def _q_values(self, obs: Tensor) -> Tensor:
        with self.autocast():
            values: Tensor = self.forward(obs)
        return values

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """As `Agent.train`; a round is a rollout and its epochs."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.anneal()
            self.collect(config.num_steps)
            self.metrics = self.update()
            yield Progress(self.steps, self.updates, self.metrics)

    def update(self) -> dict[str, Tensor | float]:
        """All epochs over the rollout that the buffer holds; the mean metrics of its updates."""
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
                for name, value in self._minibatch(rollout, returns, index).items():
                    sums[name] = sums[name] + value if name in sums else value
        count = config.num_epochs * config.num_minibatches
        epsilon = self.epsilon()
        return {
            **{name: value / count for name, value in sums.items()},
            "q_max_mean": max_q.mean(),
            "epsilon": epsilon.mean() if isinstance(epsilon, Tensor) else epsilon,
        }

    def _minibatch(self, rollout: Rollout, returns: Tensor, index: Tensor) -> dict[str, Tensor]:
        """One update from samples of a rollout: step times N plus console, int64 ``[B]``."""
        samples = [column.flatten()[index] for column in (rollout.actions, returns)]
        metrics = self.learn_from(self.buffer.obs_at(index), *samples)
        self.updates += 1
        return metrics

    def _learn_from(self, obs: Tensor, actions: Tensor, returns: Tensor) -> dict[str, Tensor]:
        """One update from samples ``[B]``."""
        with self.autocast():
            q_values = self.forward(obs)
        taken = gather_actions(q_values, actions)
        loss = 0.5 * (taken - returns).square().mean()
        norm = self.learn(loss, self.config.max_grad_norm)
        return {"q_loss": loss.detach(), "q_mean": taken.detach().mean(), "grad_norm": norm}
