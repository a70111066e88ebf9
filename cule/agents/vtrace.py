"""A2C with V-trace and CuLE's multi-batch strategy (Dalton et al. 2020, Espeholt et al. 2018).

N environments are split into B fixed batches. All step together; every `steps_per_update` steps one
update uses the last T steps of the next batch. Updates are frequent and small. Each step is used
``T / (steps_per_update B)`` times, up to ``T / steps_per_update`` updates after it was played;
V-trace corrects for the policy having changed meanwhile. `VTrace.train` is the loop, and `learn` an
update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

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
from cule.errors import warn
from cule.nets import ActorCritic
from cule.option_fields import Bounds, Fraction, NonNegativeFloat, Positive
from cule.replay import MultiBatchSchedule, Rollout, TrajectoryBuffer, TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class VTraceConfig(AgentConfig):
    """Options of A2C with V-trace; the defaults are CuLE's "multi-batch long" configuration."""

    num_envs: Positive = 1200
    network: str = "nature32"
    initialization: str = "he"
    learning_rate: NonNegativeFloat = 6.5e-4

    num_steps: Positive = 20
    """Steps T of a rollout."""

    num_batches: Positive = 20
    """Batches B of environments that updates use in turn; must divide num_envs."""

    steps_per_update: Annotated[float, Bounds(0, 100_000)] = 1.0
    """Steps of all environments between two updates; 0.5: two updates after every step."""

    rho_bar: NonNegativeFloat = 1.0
    """Upper clip of the ratios in the temporal differences."""

    c_bar: NonNegativeFloat = 1.0
    """Upper clip of the ratios in the traces."""

    trace_lambda: Fraction = 1.0
    """Factor of the traces."""

    reduction: Literal["mean", "sum"] = "mean"
    """Reduction of the loss over the samples of a rollout: mean or sum."""

    normalize_obs: bool = True
    """Normalize pixels by their running mean and standard deviation, updated after each rollout."""

    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """constant, or linear: to 0 at `total_steps`."""

    value_coef: NonNegativeFloat = 0.5
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


class VTrace(Learner):
    """A2C with V-trace; see docs/agents/vtrace.md.

    Attributes:
        next_batch: Batch of environments of the next update; int64 scalar on the device.

    Example:
        >>> from cule.agents import VTrace, VTraceConfig
        >>> config = VTraceConfig(game="pong", num_envs=8, num_batches=4, num_steps=4)
        >>> agent = VTrace(config)
        >>> [progress.updates for progress in agent.train(steps=48)]  # none before T steps
        [1, 2, 3]
    """

    name: ClassVar[str] = "vtrace"
    config_class: ClassVar[type[VTraceConfig]] = VTraceConfig

    def __init__(
        self, config: VTraceConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        self.config = config
        self.setup = setup = Setup(config, env, type(self))
        self.env, self.device, self.num_envs = setup.env, setup.device, setup.num_envs
        self.obs_shape, self.num_actions = setup.obs_shape, setup.num_actions
        self.generator, self.statistics = setup.generator, setup.statistics
        self.steps, self.updates, self.has_begun = 0, 0, False
        self.metrics: Metrics = {}
        MultiBatchSchedule(  # refuses batches and steps that do not match
            self.num_envs,
            num_batches=config.num_batches,
            num_steps=config.num_steps,
            steps_per_update=config.steps_per_update,
        )

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
        self.next_batch = torch.zeros((), dtype=torch.int64, device=self.device)
        samples = config.num_steps * self.num_envs // config.num_batches
        self.loss_scale = float(samples) if config.reduction == "sum" else 1.0

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
        """Train to `steps`, by default `total_steps`; yield after every step with updates."""
        config, setup = self.config, self.setup
        self.begin()
        while self.steps < setup.stop_at(steps):
            with setup.timer.phase("collect"):
                self.play_step()
            self.steps += setup.total_envs
            self.anneal()
            batches = self.buffer.due()
            for _ in batches:
                self.metrics = self.learn_once()
                self.updates += 1
            if self.buffer.num_steps_done % config.num_steps == 0:
                count_rollout(self.network, self.buffer, config.forward_batch)
            if batches:
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
        self.next_batch.zero_()
        uses = self.buffer.schedule.uses_per_transition
        if uses < 1.0:
            warn(
                f"num_steps / (steps_per_update x num_batches) is {uses:.2f}; below 1, updates do "
                "not use every step",
            )

    def make_buffer(self) -> TrajectoryBuffer:
        """Make the buffer of the last T steps, with the batches."""
        config = self.config
        options = TrajectoryOptions(
            **self.setup.storage_options(self.network),
            num_steps=config.num_steps,
            num_batches=config.num_batches,
            steps_per_update=config.steps_per_update,
        )
        return TrajectoryBuffer(options)

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

    def next_rollout(self) -> Rollout:
        """The last steps of the next batch of environments, which the device counts."""
        size = self.buffer.schedule.batch_envs
        envs = self.next_batch * size + torch.arange(size, device=self.device)
        self.next_batch.copy_((self.next_batch + 1) % self.config.num_batches)
        return self.buffer.rollout(envs)

    def learn(self) -> dict[str, Tensor]:
        """Update once from the last T steps of the next batch; return the metrics."""
        return self.minimise(self.next_rollout())

    def outputs_of(self, rollout: Rollout) -> tuple[Tensor, Tensor, Tensor]:
        """Logits ``[T * n, A]``, values ``[T, n]``, and values of the following observations."""
        assert rollout.obs is not None
        with self.setup.autocast():
            logits, values = self.forward(rollout.obs.flatten(0, 1))
        values = values.view(rollout.rewards.shape)
        return logits, values, next_values(rollout, values.detach(), self.values_of, self.setup)

    def minimise(self, rollout: Rollout) -> dict[str, Tensor]:
        """Update from a rollout; return the metrics."""
        config, setup = self.config, self.setup
        logits, values, after = self.outputs_of(rollout)
        shape = rollout.rewards.shape
        log_probs = algos.log_prob(logits, rollout.actions.flatten()).view(shape)
        log_ratios = log_probs.detach() - rollout.extras["log_probs"]
        targets, advantages = algos.vtrace(
            log_ratios,
            rollout.rewards,
            rollout.discounts,
            values.detach(),
            after,
            rollout.ended,
            rho_bar=config.rho_bar,
            c_bar=config.c_bar,
            trace_lambda=config.trace_lambda,
        )
        used = setup.only_valid(rollout.valid)
        policy_loss = -algos.mean_of(advantages * log_probs, used)
        value_loss = algos.value_loss(values, targets, valid=used)
        entropy = algos.mean_of(algos.entropy(logits).view(shape), used)
        loss = policy_loss + config.value_coef * value_loss - self.entropy_coef * entropy
        norm = setup.descend(loss * self.loss_scale, self.optimizer)
        return {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "value_mean": values.detach().mean(),
            "explained_variance": algos.explained_variance(values.detach(), targets),
            "grad_norm": norm,
            "ratio_mean": log_ratios.exp().mean(),
        }

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from."""
        return state.with_rollout(self)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a buffer, new episodes begin."""
        state.load_with_rollout(self, saved)
        if self.has_begun:
            num_due = self.buffer.schedule.num_due(self.buffer.num_steps_done)
            self.next_batch.fill_(num_due % self.config.num_batches)
