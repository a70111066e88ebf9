"""A2C with V-trace and CuLE's multi-batch strategy (Dalton et al. 2020, Espeholt et al. 2018).

N environments are split into B fixed batches. All step together; every `steps_per_update` steps one
update uses the last T steps of the next batch. Updates are frequent and small. Each step is used
``T / (steps_per_update B)`` times, up to ``T / steps_per_update`` updates after it was played;
V-trace corrects for the policy having changed meanwhile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from cule import algos
from cule.agents.agent import Progress
from cule.agents.algorithms.on_policy import AdvantageAgent, RMSpropConfig
from cule.agents.training.options import Bounds, Fraction, NonNegativeFloat, Positive
from cule.errors import warn
from cule.replay import MultiBatchSchedule, Rollout, TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class VTraceConfig(RMSpropConfig):
    """Options of A2C with V-trace; the defaults are CuLE's "multi-batch long" configuration."""

    num_envs: Positive = 1200
    network: str = "nature32"
    initialisation: str = "he"
    normalize_obs: bool = True
    num_steps: Positive = 20
    learning_rate: NonNegativeFloat = 6.5e-4

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


class VTrace(AdvantageAgent):
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
    config_class = VTraceConfig
    config: VTraceConfig

    def build(self) -> None:
        """Check that environments, batches and steps match; make network and optimizer."""
        config = self.config
        MultiBatchSchedule(
            self.num_envs,
            num_batches=config.num_batches,
            num_steps=config.num_steps,
            steps_per_update=config.steps_per_update,
        )
        super().build()
        self.next_batch = torch.zeros((), dtype=torch.int64, device=self.device)
        if config.reduction == "sum":
            self.loss_scale = float(config.num_steps * self.num_envs // config.num_batches)

    def buffer_options(self) -> TrajectoryOptions:
        """Options of the buffer, with the batches."""
        return dataclasses.replace(
            super().buffer_options(),
            num_batches=self.config.num_batches,
            steps_per_update=self.config.steps_per_update,
        )

    def begin_buffer(self, frames: Tensor) -> None:
        """Make the buffer; warn if the options discard data."""
        super().begin_buffer(frames)
        self.next_batch.zero_()
        uses = self.buffer.schedule.uses_per_transition
        if uses < 1.0:
            warn(
                f"num_steps / (steps_per_update x num_batches) is {uses:.2f}; below 1, updates "
                "do not use every step",
            )

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train as `Agent.train`; a round ends with the step after which updates are due."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.collect(1)
            batches = self.buffer.due()
            self.anneal()
            for _ in batches:
                self.metrics = self.update()
            if self.buffer.num_steps_done % config.num_steps == 0:
                self.update_pixel_statistics()
            if batches:
                yield self.progress({**self.metrics, **self.schedules()})

    def next_rollout(self) -> Rollout:
        """The last steps of the next batch of environments, which the device counts."""
        size = self.buffer.schedule.batch_envs
        envs = self.next_batch * size + torch.arange(size, device=self.device)
        self.next_batch.copy_((self.next_batch + 1) % self.config.num_batches)
        return self.buffer.rollout(envs)

    def load_extra_state(self, state: Mapping[str, object]) -> bool:
        """Restore the buffer, and the batch that is next."""
        is_complete = super().load_extra_state(state)
        if is_complete:
            num_due = self.buffer.schedule.num_due(self.buffer.num_steps_done)
            self.next_batch.fill_(num_due % self.config.num_batches)
        return is_complete

    def estimate(
        self, rollout: Rollout, values: Tensor, log_probs: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Advantages and targets of V-trace."""
        config = self.config
        log_ratios = log_probs - rollout.extras["log_probs"]
        targets, advantages = algos.vtrace(
            log_ratios,
            rollout.rewards,
            rollout.discounts,
            values,
            self.next_values(rollout, values),
            rollout.ended,
            rho_bar=config.rho_bar,
            c_bar=config.c_bar,
            trace_lambda=config.trace_lambda,
        )
        return advantages, targets, {"ratio_mean": log_ratios.exp().mean()}
