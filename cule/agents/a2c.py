"""A2C: advantage actor-critic, one update from each T steps of all environments.

`A2C.train` is the loop: play T steps of N environments, `learn` once from them, repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.parts import optim, state
from cule.agents.parts.acting import Policy
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.learner import Learner, Metrics, Progress, progress_of
from cule.agents.parts.rollout import count_frames, count_rollout, in_parts, next_values
from cule.agents.parts.setup import Network, Setup
from cule.nets import ActorCritic
from cule.option_fields import Fraction, NonNegativeFloat, Positive
from cule.replay import TrajectoryBuffer, TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class A2CConfig(AgentConfig):
    """Options of A2C; the defaults are those of RL Baselines3 Zoo, after OpenAI Baselines."""

    num_envs: Positive = 16
    episodic_life: bool = True
    fire_after_life_loss: bool = True
    learning_rate: NonNegativeFloat = 7e-4

    num_steps: Positive = 5
    """Steps T of a rollout."""

    gae_lambda: Fraction = 1.0
    """Lambda of the advantages; 1: T-step returns."""

    normalize_obs: bool = False
    """Normalize pixels by their running mean and standard deviation, updated after each rollout."""

    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """constant, or linear: to 0 at `total_steps`."""

    value_coef: NonNegativeFloat = 0.25
    """Factor of the mean squared error of the values."""

    entropy_coef: NonNegativeFloat = 0.01
    """Factor of the entropy."""

    entropy_coef_end: NonNegativeFloat | None = None
    """Factor of the entropy at `total_steps`, towards which it changes linearly; none: it is
    constant."""

    rmsprop_alpha: Fraction = 0.99
    """Decay of the squared gradients."""

    rmsprop_eps: NonNegativeFloat = 1e-5
    """Epsilon of RMSProp, which is added under the root, as in TensorFlow and publications."""

    forward_batch: Positive = 4096
    """Maximum number of observations in one forward pass without gradients; bounds memory."""


class A2C(Learner):
    """Advantage actor-critic; see docs/agents/a2c.md.

    Example:
        >>> from cule.agents import A2C, A2CConfig
        >>> agent = A2C(A2CConfig(game="pong", num_envs=8, total_steps=80))
        >>> [progress.steps for progress in agent.train()]
        [40, 80]
    """

    name: ClassVar[str] = "a2c"
    config_class: ClassVar[type[A2CConfig]] = A2CConfig

    def __init__(
        self, config: A2CConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        self.config = config
        self.setup = setup = Setup(config, env, type(self))
        self.env, self.device, self.num_envs = setup.env, setup.device, setup.num_envs
        self.obs_shape, self.num_actions = setup.obs_shape, setup.num_actions
        self.generator, self.statistics = setup.generator, setup.statistics
        self.steps, self.updates, self.has_begun = 0, 0, False
        self.metrics: Metrics = {}

        outputs = {"logits": (self.num_actions,), "values": ()}
        self.network = setup.make_network(network, self.make_network, outputs)
        self.policy = Policy()
        self.forward = setup.compiled(self.network)
        self.optimizer: torch.optim.Optimizer = optim.make_rmsprop(
            self.network.parameters(),
            learning_rate=setup.learning_rate,
            alpha=config.rmsprop_alpha,
            eps=config.rmsprop_eps,
        )
        if config.cuda_graphs:
            optim.make_capturable(self.optimizer, self.device)
        self.entropy_coef = torch.tensor(config.entropy_coef, device=self.device)

        # With cuda_graphs these calls are replayed. Environments elsewhere cannot be captured.
        capture, is_near = setup.graphs.capture, setup.shares_device
        self.choose = self._choose if is_near else capture(self._choose)
        self.play: Callable[[], None] = capture(self._play) if is_near else self._play
        self.learn_once = capture(
            self.learn, draws=lambda: self.buffer.generator, copies_results=False
        )

    def make_network(self) -> nn.Module:
        """Make a policy over the actions and a value, on the CPU."""
        options = self.setup.network_options(normalize_obs=self.config.normalize_obs)
        return ActorCritic(self.obs_shape, self.num_actions, **options)

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
            self.updates += 1
            count_rollout(self.network, self.buffer, config.forward_batch)
            rate = optim.learning_rate_of(self.optimizer)
            yield progress_of(self, {**self.metrics, "learning_rate": rate})

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
        """Make the buffer of a rollout."""
        options = self.setup.storage_options(self.network)
        return TrajectoryBuffer(TrajectoryOptions(**options, num_steps=self.config.num_steps))

    def anneal(self) -> None:
        """Set the scheduled numbers of the next update, in place, so that graphs read them."""
        config, position = self.config, self.steps / max(self.config.total_steps, 1)
        if config.learning_rate_schedule == "linear":
            rate = algos.linear_schedule(self.setup.learning_rate, 0.0, position)
            optim.set_learning_rate(self.optimizer, rate)
        if config.entropy_coef_end is not None:
            factor = algos.linear_schedule(config.entropy_coef, config.entropy_coef_end, position)
            self.entropy_coef.fill_(factor)

    # --- Act --------------------------------------------------------------------------------------

    @torch.no_grad()
    def play_step(self) -> None:
        """Play one step of all environments into the buffer."""
        before = self.buffer.num_steps_done
        self.play()
        if self.buffer.num_steps_done == before:  # a CUDA graph did it
            self.buffer.count_captured_step()

    @torch.no_grad()
    def _play(self) -> None:
        actions, extras = self.choose(self.buffer.observe())
        # A graph cannot follow the memory of the next frame, which changes every step.
        next_frame = None if self.config.cuda_graphs else self.buffer.next_frame()
        step = self.setup.step_env(self.policy.env_actions(actions), next_frame)
        self.buffer.append(actions, step, **extras)
        self.statistics.add(step)

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions ``[N]``, and the extras that the buffer stores with them."""
        with self.setup.autocast():
            output, values = self.forward(obs)
        actions, extras = self.policy.sample(output, self.generator)
        return actions, {**extras, "values": values}

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Sample actions from the policy, or choose the most probable ones."""
        obs = self.setup.check_obs(obs)
        with self.setup.autocast():
            output, _ = self.forward(obs)
        actions = self.policy.best(output) if greedy else self.policy.sample(output, generator)[0]
        return self.policy.env_actions(actions)

    @torch.no_grad()
    def values_of(self, obs: Tensor) -> Tensor:
        """Values ``[B]`` of observations, `forward_batch` at a time."""
        with self.setup.autocast():
            return in_parts(lambda x: self.forward(x)[1], obs, self.config.forward_batch)

    # --- Learn ------------------------------------------------------------------------------------

    def learn(self) -> dict[str, Tensor]:
        """Update once from the rollout in the buffer; return the metrics."""
        config, setup, rollout = self.config, self.setup, self.buffer.rollout()
        assert rollout.obs is not None
        with setup.autocast():
            logits, values = self.forward(rollout.obs.flatten(0, 1))
        shape = rollout.rewards.shape
        values = values.view(shape)
        log_probs = algos.log_prob(logits, rollout.actions.flatten()).view(shape)
        now = values.detach()
        after = next_values(rollout, now, self.values_of, setup)
        advantages, targets = algos.gae(
            rollout.rewards, rollout.discounts, now, after, rollout.ended, config.gae_lambda
        )
        used = setup.only_valid(rollout.valid)
        policy_loss = -algos.mean_of(advantages * log_probs, used)
        value_loss = algos.value_loss(values, targets, valid=used)
        entropy = algos.mean_of(algos.entropy(logits).view(shape), used)
        loss = policy_loss + config.value_coef * value_loss - self.entropy_coef * entropy
        norm = setup.descend(loss, self.optimizer)
        return {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "value_mean": values.detach().mean(),
            "explained_variance": algos.explained_variance(values.detach(), targets),
            "grad_norm": norm,
        }

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from."""
        return state.with_rollout(self)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a buffer, new episodes begin."""
        state.load_with_rollout(self, saved)
