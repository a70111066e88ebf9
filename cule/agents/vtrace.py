"""A2C with V-trace and CuLE's multi-batch strategy (Dalton et al. 2020, Espeholt et al. 2018).

N consoles are cut into B fixed batches. All advance together; every `steps_per_update` steps one
update takes the last T steps of the next batch. Updates are frequent and small, each step is used
``T / (steps_per_update B)`` times, and is up to ``T / steps_per_update`` updates old when it is:
V-trace corrects for that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.base import Progress
from cule.agents.on_policy import OnPolicyAgent, PolicyConfig
from cule.agents.options import check_choice, check_least, check_range
from cule.replay import MultiBatchSchedule, Rollout


@dataclass(frozen=True, kw_only=True)
class VTraceConfig(PolicyConfig):
    """Options of A2C with V-trace; the defaults are CuLE's "multi-batch long" configuration."""

    num_envs: int = 1200
    """Consoles N of each process."""

    network: str = "nature32"
    """Torso: nature, nature32, nips, small (for CPUs), impala, impala2, mlp; vector for RAM."""

    initialisation: str = "he"
    """How weights start: orthogonal, he or torch."""

    normalize_obs: bool = True
    """The network sees pixels less their running mean, over their running deviation."""

    num_steps: int = 20
    """Steps T of the window."""

    num_batches: int = 20
    """Batches B of consoles that updates take in turn; it divides num_envs."""

    steps_per_update: float = 1.0
    """Steps of all consoles between two updates; 0.5 makes two updates after every step."""

    learning_rate: float = 6.5e-4
    """Of RMSProp, at the start."""

    anneal_learning_rate: bool = False
    """The learning rate falls linearly to 0 at the end."""

    rmsprop_alpha: float = 0.99
    """Decay of the squared gradients."""

    rmsprop_eps: float = 1e-5
    """Epsilon of RMSProp."""

    rho_bar: float = 1.0
    """Clip of the ratios in the temporal differences."""

    c_bar: float = 1.0
    """Clip of the ratios in the traces."""

    trace_lambda: float = 1.0
    """Factor of the traces."""

    value_coef: float = 0.5
    """Factor of the squared error of the values."""

    entropy_coef: float = 0.01
    """Factor of the entropy."""

    max_grad_norm: float = 0.5
    """Global norm that gradients are clipped to; 0: not clipped."""

    reduction: str = "mean"
    """The loss is the mean or the sum over a window's samples."""

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        super().__post_init__()
        check_least(self, 1, "num_steps", "num_batches")
        check_least(self, 0.0, "learning_rate", "rmsprop_eps", "max_grad_norm", "rho_bar", "c_bar")
        check_range(self, 0.0, 1.0, "trace_lambda", "rmsprop_alpha")
        check_choice(self, "reduction", ("mean", "sum"))


class VTrace(OnPolicyAgent):
    """The learner; see docs/agents/vtrace.md.

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
    learn_from: Callable[[Rollout], dict[str, Tensor]]

    def build(self) -> None:
        """As for all, if consoles, batches and steps go together.

        Raises:
            InvalidArgumentError: They do not.
        """
        config = self.config
        MultiBatchSchedule(
            self.num_envs,
            num_batches=config.num_batches,
            num_steps=config.num_steps,
            steps_per_update=config.steps_per_update,
        )
        super().build()

    def capture(self) -> None:
        """Acting, and an update from a window."""
        super().capture()
        self.learn_from = self.captured(self._learn_from)

    def buffer_options(self) -> dict[str, Any]:
        """As for all, and the batches."""
        config = self.config
        return {
            **super().buffer_options(),
            "num_batches": config.num_batches,
            "steps_per_update": config.steps_per_update,
        }

    def begin_buffer(self, frames: Tensor) -> None:
        """As for all; warns of options that throw data away."""
        super().begin_buffer(frames)
        uses = self.buffer.schedule.uses_per_transition
        if uses < 1.0:
            warnings.warn(
                f"each step is learned from {uses:.2f} times: num_steps / (steps_per_update x "
                "num_batches) is below 1, and data is thrown away",
                stacklevel=2,
            )

    def make_optimizer(self) -> torch.optim.Optimizer:
        """RMSProp."""
        config = self.config
        return torch.optim.RMSprop(
            self.network.parameters(),
            lr=self.learning_rate,
            alpha=config.rmsprop_alpha,
            eps=config.rmsprop_eps,
        )

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """As `Agent.train`; a round is a step of all consoles after which updates are due."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.collect(1)
            batches = self.buffer.due()
            self.anneal()
            for envs in batches:
                self.metrics = self.update(envs)
            if batches:
                yield Progress(self.steps, self.updates, self.metrics)

    def update(self, envs: slice) -> dict[str, Tensor]:
        """One update from the window of some consoles."""
        metrics = self.learn_from(self.buffer.rollout(envs))
        self.updates += 1
        return metrics

    def _learn_from(self, window: Rollout) -> dict[str, Tensor]:
        config = self.config
        assert window.obs is not None
        with self.autocast():
            logits, values = self.forward(window.obs.flatten(0, 1))
        shape = window.rewards.shape
        values = values.view(shape)
        constants = values.detach()
        log_probs = algos.log_prob(logits, window.actions.flatten()).view(shape)
        log_ratios = log_probs.detach() - window.extras["log_probs"]
        targets, advantages = algos.vtrace(
            log_ratios,
            window.rewards,
            window.discounts,
            constants,
            self.next_values(window, constants),
            window.ended,
            rho_bar=config.rho_bar,
            c_bar=config.c_bar,
            trace_lambda=config.trace_lambda,
        )
        policy_loss = -(advantages * log_probs).mean()
        value_loss = algos.value_loss(values, targets)
        entropy = algos.entropy(logits).mean()
        loss = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy
        if config.reduction == "sum":
            loss = loss * values.numel()
        norm = self.learn(loss, config.max_grad_norm)
        return {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "value_mean": constants.mean(),
            "explained_variance": algos.explained_variance(constants, targets),
            "ratio_mean": log_ratios.exp().mean(),
            "grad_norm": norm,
        }
