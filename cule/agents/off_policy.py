"""What DQN, Rainbow and Ape-X share: a replay memory, and the updates that steps pay for.

Every `collect_steps` steps of all consoles there are as many updates as keep the number of samples
learned from at `samples_per_insert` times the number of steps taken; fractions are carried over.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from cule import algos
from cule.agents.base import Agent, Progress
from cule.agents.distributed import world_size
from cule.nets import soft_copy
from cule.replay import Batch


def replay_gauges(replay: Any, num_envs: int) -> dict[str, float]:
    """Transitions of a memory, steps of a console that they span, and the largest priority."""
    size = int(replay.num_valid)
    gauges = {"replay_size": float(size), "replay_span": size / num_envs}
    if hasattr(replay, "max_priority"):
        gauges["max_priority"] = float(replay.max_priority)
    return gauges


class OffPolicyAgent(Agent):
    """Base of the learners with a replay memory.

    Attributes:
        target: The network that targets are computed with.
        replay: The memory; it comes with the first frames.
        pending_samples: Samples still to learn from.
    """

    target: nn.Module
    replay: Any
    learn_from: Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]

    pending_samples = 0.0

    # --- What each algorithm fills in -------------------------------------------------------------

    @abstractmethod
    def make_replay(self) -> Any:
        """The memory that the options ask for."""

    @abstractmethod
    def collect(self, num_steps: int) -> None:
        """Play steps into the memory."""

    @abstractmethod
    def sample(self) -> Batch:
        """Draw what an update learns from."""

    # --- The loop ---------------------------------------------------------------------------------

    def begin_buffer(self, frames: Tensor) -> None:
        """Make the memory and give it the first frames."""
        self.replay = self.make_replay()
        self.replay.start(frames)

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """As `Agent.train`; a round is `collect_steps` steps and the updates that they pay for."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.collect(config.collect_steps)
            self.add_credit(config.collect_steps * self.num_envs)
            for _ in range(self.updates_due()):
                self.metrics = self.update()
            yield Progress(self.steps, self.updates, {**self.metrics, **self.schedules()})

    def schedules(self) -> dict[str, Tensor | float]:
        """Scheduled numbers of this round, to be logged."""
        return {}

    def add_credit(self, new_steps: int) -> None:
        """Owe what steps of this process pay for, once there is enough to learn from."""
        if self._has_enough():
            self.pending_samples += self.config.samples_per_insert * new_steps

    def updates_due(self) -> int:
        """Updates to make now; what was owed when the memory was lost waits for a new one."""
        if not self._has_enough():
            return 0
        due = int(self.pending_samples // self.config.batch_size)
        self.pending_samples -= due * self.config.batch_size
        return due

    def _has_enough(self) -> bool:
        return bool(self.replay.num_valid * world_size() >= self.config.learning_starts)

    def update(self) -> dict[str, Tensor]:
        """One update from one batch."""
        batch = self.sample()
        errors, metrics = self.update_from(batch)
        self.set_priorities(batch.ids, errors)
        return metrics

    def update_from(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The update itself: errors ``[B]``, and what is to be logged."""
        config = self.config
        errors, metrics = self.learn_from(batch)
        self.updates += 1
        if self.updates % config.target_interval == 0:
            soft_copy(self.target, self.network, getattr(config, "target_tau", 1.0))
        return errors, metrics

    def set_priorities(self, ids: Tensor, errors: Tensor) -> None:
        """Give transitions the priorities of their errors, where the memory has any."""
        if hasattr(self.replay, "update_priorities"):
            self.replay.update_priorities(ids, algos.priorities_from_errors(errors))

    def gauges(self) -> dict[str, float]:
        """How full the memory is, how far back it goes, and the largest priority."""
        return replay_gauges(self.replay, self.num_envs) if self._has_begun else {}

    # --- Checkpoints ------------------------------------------------------------------------------

    def extra_state(self, *, replay: bool) -> dict[str, Any]:
        """Target network, samples owed, and if asked for the memory."""
        state: dict[str, Any] = {
            "target": self.target.state_dict(),
            "pending_samples": self.pending_samples,
        }
        if replay and self._has_begun:
            state["replay"] = self.replay.state_dict()
        return state

    def load_extra_state(self, state: Mapping[str, Any]) -> bool:
        """Take it back; without the memory new episodes begin, and fill a new one."""
        self.target.load_state_dict(state["target"])
        self.pending_samples = state["pending_samples"]
        if "replay" not in state:
            return False
        self.replay = self.make_replay()
        self.replay.load_state_dict(state["replay"])
        return True
