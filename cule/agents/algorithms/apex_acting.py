"""Parts that the Ape-X algorithms share in one process: acting with a copy of the weights.

The copy is renewed every `sync_steps` steps, and the forward passes of acting also give transitions
their first priorities. Acting therefore does not depend on the updates in between, and the two may
overlap. An overlapped round samples the batches that are due and renews the copy if necessary,
learns from the batches while the next steps are played into the memory, and then sets the
priorities of the batches. On a GPU acting and learning run on two streams. On a CPU they run one
after the other, in either order with the same results.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.algorithms.config import AgentConfig
from cule.agents.algorithms.off_policy import OffPolicyAgent, ReplayConfig, ReplayState
from cule.agents.training.graphs import separate_stream
from cule.agents.training.options import Positive
from cule.envs import FrameStep
from cule.errors import InvalidArgumentError
from cule.nets import soft_copy
from cule.replay import PrioritizedReplay


@dataclass(frozen=True, kw_only=True)
class ApexActingConfig(ReplayConfig):
    """Options that Ape-X adds to those of algorithms with replay."""

    max_num_frames_per_episode: int = 50_000

    sync_steps: Positive = 100
    """Steps of an environment between copies of the weights to the actors."""

    overlap: bool = False
    """Learn from batches of earlier steps while the next steps are played; in one process."""


class ApexState(ReplayState, total=False):
    """Checkpoint of an Ape-X algorithm."""

    actor: dict[str, Tensor]
    acted_steps: int
    actor_errors: list[list[Tensor]]


class ActorErrors:
    """n-step temporal differences from the values that acting computes anyway.

    Remembers the last n steps. Where a time limit truncates an episode the value of the final
    observation is unknown, and the largest value of the truncated step takes its place.
    """

    def __init__(self, n_step: int) -> None:
        """Start without steps."""
        self.n_step = n_step
        self.rows: deque[tuple[Tensor, ...]] = deque(maxlen=n_step)

    def add_step(
        self, taken: Tensor, largest: Tensor, step: FrameStep, config: AgentConfig
    ) -> None:
        """Add a step with the values of the taken and the best actions, ``[N]`` each."""
        device = taken.device
        ends = step.terminated | step.life_lost if config.episodic_life else step.terminated
        rewards = algos.clip_rewards(step.reward.to(device), config.reward_rule)
        discounts = config.gamma * (~ends).to(device, torch.float32)
        truncated = (step.truncated & ~step.terminated).to(device)
        self.rows.append((taken, largest, rewards, discounts, truncated))

    def errors(self, largest_now: Tensor) -> Tensor | None:
        """Errors ``[N]`` of the steps that are n steps old; None before the first n steps.

        `largest_now` holds the largest values of the newest observations, ``[N]``.
        """
        if len(self.rows) < self.n_step:
            return None
        taken, largest, rewards, discounts, truncated = map(
            torch.stack, zip(*self.rows, strict=True)
        )
        sums, products, steps = algos.n_step_returns(rewards, discounts, self.n_step, truncated)
        last = steps - 1
        is_truncated = truncated.gather(0, last)
        bootstrap = torch.where(is_truncated, largest.gather(0, last), largest_now.unsqueeze(0))
        return (sums + products * bootstrap - taken[:1]).squeeze(0)

    def state(self) -> list[list[Tensor]]:
        """The steps, for a checkpoint."""
        return [list(row) for row in self.rows]

    def load(self, state: list[list[Tensor]], device: torch.device) -> None:
        """Restore `state`."""
        self.rows.clear()
        self.rows.extend(tuple(value.to(device) for value in row) for row in state)


class ApexAgent(OffPolicyAgent):
    """Base of the Ape-X algorithms.

    Attributes:
        actor: The copy of the network that acts.
        actor_errors: Errors that become first priorities.
        acted_steps: Steps of all environments so far, by which the copy is renewed.
        acting_stream: Stream of acting where it overlaps with learning, otherwise None.
    """

    config: ApexActingConfig
    actor: nn.Module

    def build_actor(self) -> None:
        """Copy the network."""
        if self.autoreset_mode != "SameStep":
            raise InvalidArgumentError(
                f"autoreset_mode of the environment is {self.autoreset_mode!r}; for Ape-X it must "
                "be 'SameStep'"
            )
        has_two_streams = self.config.overlap and self.device.type == "cuda"
        self.acting_stream = separate_stream(self.device) if has_two_streams else None
        self.actor = self.copy_network()
        self.actor_errors = ActorErrors(self.config.n_step)
        self.acted_steps = 0

    @property
    def local_replay(self) -> PrioritizedReplay:
        """The memory, where this process fills it."""
        assert isinstance(self.replay, PrioritizedReplay)
        return self.replay

    @abstractmethod
    def choose_actions(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Exploring actions ``[N]`` or ``[N, 3]``, their values, and those of the best actions."""

    def play_step(self) -> None:
        """Play one step into the memory, with priorities from the acting network."""
        config, replay = self.config, self.local_replay
        if not config.overlap:
            self.renew_actor(1)
        self.acted_steps += 1
        actions, taken, best = self.choose_actions(replay.observe())
        errors = self.actor_errors.errors(best)
        if errors is not None:
            self.set_priorities(replay.newest_ids(), errors)
        step = self.step_env(actions, replay.next_frame())
        # Priority 0: not sampled before a later acting pass gives its error.
        replay.append(actions, step, torch.zeros_like(best))
        self.actor_errors.add_step(taken, best, step, config)
        self.statistics.add(step)

    @property
    def draws_in_update(self) -> bool:
        """Not with `overlap`, where batches are drawn before playing and learning begin."""
        return not self.config.overlap

    def renew_actor(self, num_steps: int) -> None:
        """Copy the weights to the actor if that is due within a number of steps."""
        if -self.acted_steps % self.config.sync_steps < num_steps:
            soft_copy(self.actor, self.network)

    def round(self) -> None:
        """As `OffPolicyAgent.round`; with `overlap`, learn from batches of earlier steps."""
        config = self.config
        if not config.overlap:
            super().round()
            return
        self.anneal()
        batches = [self.sample() for _ in range(self.updates_due())]
        self.renew_actor(config.collect_steps)
        errors = []
        with concurrently(self.acting_stream) as acting:
            for batch in batches:
                batch_errors, self.metrics = self.learn_from(batch)
                self.count_update()
                errors.append(batch_errors)
            with acting:
                self.collect(config.collect_steps)
        for batch, batch_errors in zip(batches, errors, strict=True):
            self.set_priorities(batch.ids, batch_errors)
        self.add_credit(config.collect_steps * self.num_envs)

    def extra_state(self, *, replay: bool) -> ApexState:
        """As `OffPolicyAgent.extra_state`, with the actor."""
        return {
            **super().extra_state(replay=replay),
            "actor": self.actor.state_dict(),
            "acted_steps": self.acted_steps,
            "actor_errors": self.actor_errors.state(),
        }

    def load_extra_state(self, state: Mapping[str, object]) -> bool:
        """Restore the state."""
        saved = cast(ApexState, state)
        self.actor.load_state_dict(saved["actor"])
        is_complete = super().load_extra_state(state)
        if is_complete:
            self.acted_steps = saved["acted_steps"]
            self.actor_errors.load(saved["actor_errors"], self.device)
        return is_complete


@contextlib.contextmanager
def concurrently(
    stream: torch.cuda.Stream | None,
) -> Iterator[contextlib.AbstractContextManager[object]]:
    """Yield a context whose work runs concurrently with the work of the enclosing one.

    Its work starts after all work launched before, and all work launched later waits for it. With
    None for the stream of the inner context, the work runs in order.
    """
    if stream is None:
        yield contextlib.nullcontext()
        return
    current = torch.cuda.current_stream(stream.device)
    stream.wait_stream(current)
    try:
        yield torch.cuda.stream(stream)
    finally:
        current.wait_stream(stream)
