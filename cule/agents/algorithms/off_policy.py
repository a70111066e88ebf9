"""Parts that DQN, Rainbow and Ape-X share: a replay memory, and updates in proportion to steps.

Every `collect_steps` steps of all environments there are as many updates as keep the number of
learned samples at `samples_per_insert` times the number of steps; fractions carry over.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol, SupportsFloat, TypedDict, TypeGuard, cast

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.agent import Agent
from cule.agents.algorithms.config import AgentConfig
from cule.agents.training.checkpoint import Metrics
from cule.agents.training.distributed import (
    num_launched,
    update_statistics,
    weigh_over_ranks,
    world_size,
)
from cule.agents.training.environment import StorageKeywords
from cule.agents.training.options import Bounds, Fraction, Positive
from cule.envs import FrameStep
from cule.errors import InvalidArgumentError
from cule.nets import soft_copy
from cule.replay import Batch, PrioritizedReplay, UniformReplay


@dataclass(frozen=True, kw_only=True)
class ReplayConfig(AgentConfig):
    """Options of the algorithms with a replay memory."""

    num_envs: Positive = 32
    initialisation: str = "torch"

    n_step: Annotated[int, Bounds(1, 10_000)] = 1
    """Steps n of a return."""

    memory: Positive = 1_000_000
    """Capacity of the replay memory of each process in transitions."""

    learning_starts: Positive = 20_000
    """Transitions in the memories of all processes before the first update."""

    collect_steps: Annotated[int, Bounds(1, 100_000)] = 1
    """Steps of all environments between updates."""

    batch_size: Annotated[int, Bounds(1, 100_000)] = 32
    """Samples B per update of each process."""

    samples_per_insert: Annotated[float, Bounds(0, 100_000)] = 8.0
    """Samples to learn from per step of an environment."""

    target_interval: Positive = 2000
    """Updates between copies of the weights to the target network."""

    alpha: Fraction = 0.5
    """Exponent of the priorities."""

    normalize_obs: bool = False
    """Normalise pixels by mean and standard deviation of the frames before the first update."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        if self.learning_starts > self.memory * num_launched():
            raise InvalidArgumentError(
                f"learning_starts is {self.learning_starts}; it must be at most the memory of all "
                f"processes ({num_launched()} x {self.memory})"
            )


class ReplayKeywords(StorageKeywords):
    """Keywords of `cule.replay.ReplayOptions`."""

    capacity: int
    n_step: int


class PrioritizedKeywords(ReplayKeywords):
    """Keywords of `cule.replay.PrioritizedOptions`."""

    alpha: float


class ReplayState(TypedDict, total=False):
    """Checkpoint of an algorithm with a replay memory."""

    target: dict[str, Tensor]
    pending_samples: float
    replay: dict[str, object]


class FilledReplay(Protocol):
    """A prioritised memory that other processes fill; it gives batches on the device."""

    @property
    def num_valid(self) -> int:
        """Transitions that can be sampled."""

    @property
    def max_priority(self) -> SupportsFloat:
        """Largest priority so far."""

    def sample(self, batch_size: int, beta: float) -> Batch:
        """Sample as `PrioritizedReplay.sample`."""

    def update_priorities(self, ids: Tensor, priorities: Tensor) -> None:
        """Set priorities as `PrioritizedReplay.update_priorities`."""


def is_prioritized(
    replay: UniformReplay | FilledReplay,
) -> TypeGuard[PrioritizedReplay | FilledReplay]:
    """Whether a memory has priorities; those that other processes fill have."""
    return isinstance(replay, PrioritizedReplay) or not isinstance(replay, UniformReplay)


class OffPolicyAgent(Agent):
    """Base of the algorithms with a replay memory.

    Attributes:
        target: The target network.
        target_tau: Fraction by which the target network moves to the network; 1: a copy.
        replay: The memory, made with the first frames.
        pending_samples: Samples that are due but not yet learned from.
    """

    config: ReplayConfig
    target: nn.Module
    target_tau = 1.0
    replay: UniformReplay | FilledReplay
    learn_from: Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]
    pending_samples = 0.0

    def capture(self) -> None:
        """Capture the update: with its samples where they are drawn on the device, when it is."""
        if self.draws_in_update:
            self.learn_from = self._learn_from
            super().capture()
        else:
            self.learn_from = self.captured(self._learn_from, uses_generator=False)
            self.learn_once = self._learn_once

    @property
    def draws_in_update(self) -> bool:
        """Whether an update draws its samples itself, on the device."""
        return True

    @property
    def sampling_generator(self) -> torch.Generator:
        """That of the memory."""
        return self.local_replay.generator

    @abstractmethod
    def _learn_from(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Learn from a batch; return errors ``[B]`` and metrics."""

    @abstractmethod
    def make_replay(self) -> UniformReplay:
        """Make the memory."""

    def replay_options(self) -> ReplayKeywords:
        """Options of a memory."""
        config = self.config
        return {**self.storage_options(), "capacity": config.memory, "n_step": config.n_step}

    def prioritized_options(self) -> PrioritizedKeywords:
        """Options of a memory with priorities."""
        return {**self.replay_options(), "alpha": self.config.alpha}

    @property
    def local_replay(self) -> UniformReplay:
        """The memory, where this process fills it."""
        assert isinstance(self.replay, UniformReplay)
        return self.replay

    def copy_network(self) -> nn.Module:
        """Copy the network, without gradients; copies share its statistics of pixels."""
        copied = copy.deepcopy(self.network).requires_grad_(False)
        if self.pixel_statistics is not None:
            copied.statistics = self.pixel_statistics
        return copied

    def step_env(self, actions: Tensor, next_frame: Tensor | None) -> FrameStep:
        """As `Agent.step_env`; frames before the first update add to the statistics of pixels."""
        step = super().step_env(actions, next_frame)
        if self.pixel_statistics is not None and self.updates == 0:
            update_statistics(self.pixel_statistics, step.frame.to(self.device))
        return step

    def begin_buffer(self, frames: Tensor) -> None:
        """Make the memory and store the first frames."""
        self.replay = self.make_replay()
        self.replay.start(frames)

    def round(self) -> None:
        """Play `collect_steps` steps and make the updates due."""
        self.collect(self.config.collect_steps)
        self.add_credit(self.config.collect_steps * self.num_envs)
        self.anneal()
        for _ in range(self.updates_due()):
            self.metrics = self.update()

    def anneal(self) -> None:
        """Set the scheduled numbers of the next updates."""

    def add_credit(self, num_steps: int) -> None:
        """Add the samples that are due for steps of this process, once learning has started."""
        if self._has_enough():
            self.pending_samples += self.config.samples_per_insert * num_steps

    def updates_due(self) -> int:
        """Updates to make now; none while a new memory fills after the old one was lost."""
        if not self._has_enough():
            return 0
        due = int(self.pending_samples // self.config.batch_size)
        self.pending_samples -= due * self.config.batch_size
        return due

    def _has_enough(self) -> bool:
        return bool(self.replay.num_valid * world_size() >= self.config.learning_starts)

    @abstractmethod
    def sample(self) -> Batch:
        """Sample the batch of an update."""

    def weigh(self, batch: Batch, beta: float | Tensor) -> Batch:
        """Normalise the weights of a batch over all processes."""
        if world_size() == 1:
            return batch
        return weigh_over_ranks(batch, self.local_replay.count_valid(), beta)

    def update(self) -> Metrics:
        """Update once from one batch; return its metrics."""
        metrics = self.learn_once()
        self.count_update()
        return metrics

    def _learn_once(self) -> dict[str, Tensor]:
        """Draw a batch, learn from it, and set its priorities; return metrics."""
        batch = self.sample()
        errors, metrics = self.learn_from(batch)
        self.set_priorities(batch.ids, errors)
        return metrics

    def count_update(self) -> None:
        """Count an update, and renew the target network where that is due."""
        self.updates += 1
        if self.updates % self.config.target_interval == 0:
            soft_copy(self.target, self.network, self.target_tau)

    def set_priorities(self, ids: Tensor, errors: Tensor) -> None:
        """Set the priorities of transitions from their errors, if the memory has priorities."""
        if is_prioritized(self.replay):
            self.replay.update_priorities(ids, algos.priorities_from_errors(errors))

    def gauges(self) -> dict[str, float]:
        """Size of the memory, steps of an environment that it spans, and the largest priority."""
        if not hasattr(self, "replay"):
            return {}
        size = int(self.replay.num_valid)
        gauges = {
            "replay_size": float(size),
            "replay_span": size / (self.total_envs // world_size()),
        }
        if is_prioritized(self.replay):
            gauges["max_priority"] = float(self.replay.max_priority)
        return gauges

    def extra_state(self, *, replay: bool) -> ReplayState:
        """The target network, the samples due and, if asked for, the memory."""
        state: ReplayState = {
            "target": self.target.state_dict(),
            "pending_samples": self.pending_samples,
        }
        if replay and self._has_begun:
            state["replay"] = self.local_replay.state_dict()
        return state

    def load_extra_state(self, state: Mapping[str, object]) -> bool:
        """Restore the state; without a memory, new episodes fill a new one."""
        saved = cast(ReplayState, state)
        self.target.load_state_dict(saved["target"])
        self.pending_samples = saved["pending_samples"]
        if "replay" not in saved:
            return False
        self.replay = self.make_replay()
        self.replay.load_state_dict(saved["replay"])
        return True
