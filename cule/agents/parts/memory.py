"""Parts of algorithms with a replay memory: updates in proportion to steps, and copies."""

from __future__ import annotations

import copy
from typing import Any, Protocol, SupportsFloat, TypeGuard

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.parts.distributed import max_over_ranks, num_launched, world_size
from cule.agents.parts.rollout import pixel_statistics
from cule.errors import InvalidArgumentError
from cule.replay import Batch, PrioritizedReplay, UniformReplay


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


class Credit:
    """Counts the samples that are due: `samples_per_insert` for each step of an environment.

    Fractions carry over, so that the numbers of samples and steps keep their proportion.

    Attributes:
        pending: Samples that are due but not yet learned from.
    """

    # Any: the options of an algorithm with a memory.
    def __init__(self, config: Any) -> None:
        """Start without samples."""
        self._config, self.pending = config, 0.0

    def has_enough(self, replay: UniformReplay | FilledReplay) -> bool:
        """Whether learning may start: `learning_starts` transitions are in all memories."""
        return bool(replay.num_valid * world_size() >= self._config.learning_starts)

    def add(self, replay: UniformReplay | FilledReplay, num_steps: int) -> None:
        """Add the samples of steps of this process, once learning has started."""
        if self.has_enough(replay):
            self.pending += self._config.samples_per_insert * num_steps

    def updates_due(self, replay: UniformReplay | FilledReplay) -> int:
        """Updates to make now; none while a new memory fills after the old one was lost."""
        if not self.has_enough(replay):
            return 0
        due = int(self.pending // self._config.batch_size)
        self.pending -= due * self._config.batch_size
        return due


def check_learning_starts(config: Any) -> None:
    """Require that learning can start: that the memories hold so many transitions."""
    if config.learning_starts > config.memory * num_launched():
        raise InvalidArgumentError(
            f"learning_starts is {config.learning_starts}; it must be at most the memory of all "
            f"processes ({num_launched()} x {config.memory})"
        )


def copy_network(network: nn.Module) -> nn.Module:
    """Copy a network, without gradients; copies share its statistics of pixels."""
    copied = copy.deepcopy(network).requires_grad_(False)
    statistics = pixel_statistics(network)
    if statistics is not None:
        copied.statistics = statistics
    return copied


def weigh_over_ranks(batch: Batch, replay: PrioritizedReplay, beta: float | Tensor) -> Batch:
    """Normalize importance weights by the largest of all processes.

    All shards have the same size, so that the number of valid transitions times the probability of
    one is the same for the shard and for the whole.
    """
    if world_size() == 1:
        return batch
    raw = (batch.probabilities * replay.count_valid()).clamp(min=1e-30).pow(-beta)
    raw = torch.where(batch.weights > 0, raw, 0.0)
    return batch._replace(weights=raw / max_over_ranks(raw.amax().clone()))


def set_priorities(replay: UniformReplay | FilledReplay, ids: Tensor, errors: Tensor) -> None:
    """Set the priorities of transitions from their errors, if the memory has priorities."""
    if is_prioritized(replay):
        replay.update_priorities(ids, algos.priorities_from_errors(errors))


def metrics_of(batch: Batch, errors: Tensor) -> dict[str, Tensor]:
    """Metrics of a batch: its mean error, and its importance weights."""
    return {
        "error_mean": errors.abs().mean(),
        "weight_min": batch.weights.amin(),
        "weight_zero_share": (batch.weights == 0).float().mean(),
    }


def memory_gauges(learner: Any) -> dict[str, float]:
    """Size of the memory, steps of an environment that it spans, and the largest priority.

    Those of its actors as well, if it trains with a cluster. Waits for the device; empty for a
    learner without a memory.
    """
    replay = getattr(learner, "replay", None)
    if replay is None:
        return {}
    size = int(replay.num_valid)
    envs = learner.setup.total_envs // world_size()
    gauges = {"replay_size": float(size), "replay_span": size / envs}
    if is_prioritized(replay):
        gauges["max_priority"] = float(replay.max_priority)
    group = getattr(learner, "actor_group", None)
    return {**gauges, **(group.gauges() if group is not None else {})}


def ladder_of(config: Any, total_envs: int) -> Tensor:
    """The epsilons of the ladder of all environments; float32 ``[N of all processes]``."""
    return algos.epsilon_ladder(total_envs, config.ladder_base, config.ladder_exponent)


def beta_on(config: Any, device: torch.device) -> float | Tensor:
    """The exponent of importance weights; on the device where graphs read it."""
    if config.cuda_graphs:
        return torch.tensor(config.beta_start, dtype=torch.float64, device=device)
    return float(config.beta_start)
