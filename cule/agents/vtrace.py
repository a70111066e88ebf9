"""A2C with V-trace and CuLE's multi-batch strategy (Dalton et al. 2020, Espeholt et al. 2018).

N environments are split into B fixed batches. All step together; every `steps_per_update` steps one
update uses the last T steps of the next batch. Updates are frequent and small. Each step is used
``T / (steps_per_update B)`` times, up to ``T / steps_per_update`` updates after it was played;
V-trace corrects for the policy having changed meanwhile. `VTrace.train` is the loop, and `learn` an
update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor

from cule import algos
from cule.agents.a2c import A2C
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.learner import Progress, progress_of
from cule.agents.parts.rollout import count_rollout, next_values
from cule.agents.parts.setup import Network
from cule.errors import warn
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

    value_coef: float = 0.5
    """Factor of the mean squared error of the values."""

    entropy_coef: float = 0.01
    """Factor of the entropy."""

    entropy_coef_end: float | None = None
    """Factor of the entropy at `total_steps`, towards which it changes linearly; none: it is
    constant."""

    rmsprop_alpha: Fraction = 0.99
    """Decay of the squared gradients."""

    rmsprop_eps: NonNegativeFloat = 1e-5
    """Epsilon of RMSProp, which is added under the root, as in TensorFlow and publications."""

    forward_batch: Positive = 4096
    """Maximum number of observations in one forward pass without gradients; bounds memory."""


class VTrace(A2C):
    """A2C with V-trace, in batches of environments; see docs/agents/vtrace.md.

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
    config_class: ClassVar[type[AgentConfig]] = VTraceConfig

    def __init__(
        self, config: VTraceConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        options: Any = config  # with the names of A2CConfig that are read
        super().__init__(options, env, network=network)
        MultiBatchSchedule(  # refuses batches and steps that do not match
            self.num_envs,
            num_batches=config.num_batches,
            num_steps=config.num_steps,
            steps_per_update=config.steps_per_update,
        )
        self.next_batch = torch.zeros((), dtype=torch.int64, device=self.device)
        samples = config.num_steps * self.num_envs // config.num_batches
        self.loss_scale = float(samples) if config.reduction == "sum" else 1.0

    # --- The loop ---------------------------------------------------------------------------------

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train to `steps`, by default `total_steps`; yield after every step with updates."""
        config, setup = self.config, self.setup
        self.begin()
        while self.steps < (config.total_steps if steps is None else steps):
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
                rate = self.optimizer.param_groups[0]["lr"]
                yield progress_of(self, {**self.metrics, "learning_rate": rate})

    def begin(self, frames: Tensor | None = None) -> None:
        """Reset the environments and start the buffer, unless the run has begun or was resumed."""
        if self.has_begun:
            return
        super().begin(frames)
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

    def minimise(self, rollout: Rollout) -> dict[str, Tensor]:
        """Update from a rollout; return the metrics."""
        config, setup = self.config, self.setup
        assert rollout.obs is not None
        with setup.autocast():
            logits, values = self.forward(rollout.obs.flatten(0, 1))
        shape = rollout.rewards.shape
        values = values.view(shape)
        log_probs = algos.log_prob(logits, rollout.actions.flatten()).view(shape)
        log_ratios = log_probs.detach() - rollout.extras["log_probs"]
        now = values.detach()
        targets, advantages = algos.vtrace(
            log_ratios,
            rollout.rewards,
            rollout.discounts,
            now,
            next_values(rollout, now, self.values_of, setup),
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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a buffer, new episodes begin."""
        super().load_state_dict(state)
        if self.has_begun:
            num_due = self.buffer.schedule.num_due(self.buffer.num_steps_done)
            self.next_batch.fill_(num_due % self.config.num_batches)
