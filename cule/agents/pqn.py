"""PQN: parallelised Q-learning without replay or target network (Gallici et al. 2024).

Many environments replace the replay memory, and layer normalization the target network. Targets are
lambda-returns of the greedy values of the acting pass. `PQN.train` is the loop, `learn` runs epochs
over shuffled minibatches, and `minimise` is the loss of one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.parts import optim, state
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.learner import Learner, Metrics, Progress, progress_of
from cule.agents.parts.rollout import count_frames, count_rollout, in_parts, next_values
from cule.agents.parts.setup import Network, Setup
from cule.nets import NormalizedQNetwork, gather_actions
from cule.nets.torsos import CONVOLUTIONS
from cule.option_fields import Epochs, Fraction, GradNorm, NonNegativeFloat, Positive
from cule.replay import TrajectoryBuffer, TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class PQNConfig(AgentConfig):
    """Options of PQN; the defaults are those of its paper."""

    num_envs: Positive = 128
    episodic_life: bool = True
    fire_after_life_loss: bool = True

    network: str = "nature"
    """Torso with layer normalization: nature, nature32, nips, small (for CPUs); mlp, also
    for RAM."""

    initialization: str = "he"
    learning_rate: NonNegativeFloat = 2.5e-4
    max_grad_norm: GradNorm = 10.0

    num_steps: Positive = 32
    """Steps T of a rollout."""

    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """constant, or linear: to 0 at `total_steps`."""

    num_epochs: Epochs = 2
    """Passes over each rollout."""

    num_minibatches: Positive = 32
    """Minibatches of each epoch, with one update of the optimizer each."""

    q_lambda: Fraction = 0.65
    """Lambda of the returns."""

    exploration: Literal["schedule", "ladder"] = "schedule"
    """schedule: one epsilon that decreases; ladder: a constant epsilon per environment, of which
    there must be at least 2."""

    epsilon_start: Fraction = 1.0
    """First epsilon of the schedule."""

    epsilon_end: Fraction = 0.001
    """Last epsilon of the schedule."""

    exploration_fraction: Fraction = 0.1
    """Fraction of training over which epsilon decreases."""

    normalize_obs: bool = False
    """Normalize pixels by their running mean and standard deviation, updated after each rollout."""

    forward_batch: Positive = 4096
    """Maximum number of observations in one forward pass without gradients; bounds memory."""


class PQN(Learner):
    """Parallelised Q-learning; see docs/agents/pqn.md.

    Example:
        >>> from cule.agents import PQN, PQNConfig
        >>> agent = PQN(PQNConfig(game="pong", num_envs=8, num_steps=4, num_minibatches=2))
        >>> [progress.updates for progress in agent.train(steps=64)]
        [4, 8]
    """

    name: ClassVar[str] = "pqn"
    config_class: ClassVar[type[PQNConfig]] = PQNConfig
    eval_epsilon: ClassVar[float] = 0.001

    def __init__(
        self, config: PQNConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        self.config = config
        self.setup = setup = Setup(config, env, type(self))
        self.env, self.device, self.num_envs = setup.env, setup.device, setup.num_envs
        self.obs_shape, self.num_actions = setup.obs_shape, setup.num_actions
        self.generator, self.statistics = setup.generator, setup.statistics
        self.steps, self.updates, self.has_begun = 0, 0, False
        self.metrics: Metrics = {}

        outputs = {"action values": (self.num_actions,)}
        self.network = setup.make_network(network, self.make_network, outputs)
        self.forward = setup.compiled(self.network)
        optim.check_minibatches(config.num_minibatches, config.num_steps * self.num_envs)
        self.optimizer: torch.optim.Optimizer = torch.optim.RAdam(
            self.network.parameters(), lr=setup.learning_rate
        )
        if config.cuda_graphs:
            optim.make_capturable(self.optimizer, self.device)

        # With cuda_graphs these calls are replayed.
        self.q_values = setup.graphs.capture(self._q_values)
        self.learn_once = setup.graphs.capture(
            self.learn, draws=lambda: self.buffer.generator, copies_results=False
        )

    def make_network(self) -> nn.Module:
        """Make action values with layer normalization, on the CPU."""
        options = self.setup.network_options(
            normalize_obs=self.config.normalize_obs, torsos=(*CONVOLUTIONS, "mlp")
        )
        return NormalizedQNetwork(self.obs_shape, self.num_actions, **options)

    # --- The loop ---------------------------------------------------------------------------------

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train to `steps`, by default `total_steps`; yield after every rollout."""
        config, setup = self.config, self.setup
        self.begin()
        while self.steps < setup.stop_at(steps):
            self.anneal()
            with setup.timer.phase("collect"):
                for _ in range(config.num_steps):
                    self.play_step()
            self.steps += config.num_steps * setup.total_envs
            self.metrics = self.learn_once()
            self.updates += config.num_epochs * config.num_minibatches
            count_rollout(self.network, self.buffer, config.forward_batch)
            epsilon, rate = self.epsilon(), optim.learning_rate_of(self.optimizer)
            mean = epsilon.mean() if isinstance(epsilon, Tensor) else epsilon
            yield progress_of(self, {**self.metrics, "learning_rate": rate, "epsilon": mean})

    def begin(self) -> None:
        """Reset the environments, unless the run has begun or was resumed."""
        if not self.has_begun:
            self.begin_buffer(self.setup.reset(self.steps))

    def begin_buffer(self, frames: Tensor) -> None:
        """Make the buffer, store the first frames, and begin the statistics of pixels."""
        self.buffer = self.make_buffer()
        self.buffer.start(frames)
        count_frames(self.network, frames)
        self.has_begun = True

    def make_buffer(self) -> TrajectoryBuffer:
        """Make the buffer of a rollout, which stores the largest action value of each step."""
        options = self.setup.storage_options(self.network)
        extras: dict[str, Any] = {"max_q": ((), torch.float32)}
        return TrajectoryBuffer(
            TrajectoryOptions(**options, num_steps=self.config.num_steps, extras=extras)
        )

    def anneal(self) -> None:
        """Set the learning rate of the next rollout."""
        if self.config.learning_rate_schedule == "linear":
            position = self.steps / max(self.config.total_steps, 1)
            rate = algos.linear_schedule(self.setup.learning_rate, 0.0, position)
            optim.set_learning_rate(self.optimizer, rate)

    # --- Act --------------------------------------------------------------------------------------

    @functools.cached_property
    def ladder(self) -> Tensor:
        """Epsilons of the ladder; float32 ``[N]`` on the device, made when they are first used."""
        return self.setup.of_own_envs(algos.epsilon_ladder(self.setup.total_envs))

    def epsilon(self) -> Tensor | float:
        """Current epsilon: a number, or one per environment ``[N]``."""
        config = self.config
        if config.exploration == "ladder":
            return self.ladder
        span = max(config.exploration_fraction * config.total_steps, 1.0)
        return algos.linear_schedule(config.epsilon_start, config.epsilon_end, self.steps / span)

    @torch.no_grad()
    def play_step(self) -> None:
        """Play one step of all environments epsilon-greedily into the buffer."""
        q_values = self.q_values(self.buffer.observe())
        actions = algos.epsilon_greedy(q_values, self.epsilon(), self.generator)
        step = self.setup.step_env(actions, self.buffer.next_frame())
        self.buffer.append(actions, step, max_q=q_values.amax(-1))
        self.statistics.add(step)

    @torch.no_grad()
    def _q_values(self, obs: Tensor) -> Tensor:
        with self.setup.autocast():
            values: Tensor = self.forward(obs)
        return values

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Choose the best actions, or with probability `eval_epsilon` random ones."""
        epsilon = 0.0 if greedy else self.eval_epsilon
        values = self._q_values(self.setup.check_obs(obs))
        return algos.epsilon_greedy(values, epsilon, generator)

    @torch.no_grad()
    def values_of(self, obs: Tensor) -> Tensor:
        """Largest action values ``[B]`` of observations, `forward_batch` at a time."""
        with self.setup.autocast():
            return in_parts(lambda x: self.forward(x).amax(-1), obs, self.config.forward_batch)

    # --- Learn ------------------------------------------------------------------------------------

    def learn(self) -> dict[str, Tensor]:
        """Run all epochs over the rollout in the buffer; return the mean metrics of the updates."""
        config, rollout = self.config, self.buffer.rollout(with_obs=False)
        max_q = rollout.extras["max_q"]
        after = next_values(rollout, max_q, self.values_of, self.setup)
        returns = algos.q_lambda_returns(
            rollout.rewards, rollout.discounts, after, rollout.ended, config.q_lambda
        )
        flat = [column.flatten() for column in (rollout.actions, returns, rollout.valid)]
        sums: dict[str, Tensor] = {}
        for _ in range(config.num_epochs):
            for index in self.buffer.minibatches(config.num_minibatches):
                samples = [column[index] for column in flat]
                optim.add_to(sums, self.minimise(self.buffer.obs_at(index), *samples))
        count = config.num_epochs * config.num_minibatches
        means = {name: value / count for name, value in sums.items()}
        return {**means, "q_max_mean": max_q.mean()}

    def minimise(
        self, obs: Tensor, actions: Tensor, returns: Tensor, valid: Tensor
    ) -> dict[str, Tensor]:
        """Update from samples ``[B]``; return the metrics."""
        with self.setup.autocast():
            q_values = self.forward(obs)
        taken = gather_actions(q_values, actions)
        loss = 0.5 * algos.value_loss(taken, returns, valid=self.setup.only_valid(valid))
        norm = self.setup.descend(loss, self.optimizer)
        return {"q_loss": loss.detach(), "q_mean": taken.detach().mean(), "grad_norm": norm}

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from."""
        return state.with_rollout(self)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a buffer, new episodes begin."""
        state.load_with_rollout(self, saved)
