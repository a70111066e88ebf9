"""What Ape-X's learners share in one process: acting with weights of their own.

The acting network is a copy that is renewed every `sync_steps` steps, and the passes of acting give
transitions their first priorities. So playing needs nothing of what learning changes in between,
and the two may overlap. A round is then cut into parts that touch nothing in common: the batches
that the steps so far pay for are drawn, and the copy is renewed where it is due; these batches are
learned from while the next steps are played into the memory; the batches get their priorities. On a
GPU the two halves in the middle run on a stream each. On a CPU they take turns, and whichever comes
first, the results are the same.
"""

from __future__ import annotations

import contextlib
import copy
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from cule import algos
from cule.agents.base import Progress, timed
from cule.agents.graphs import stream_beside
from cule.agents.off_policy import OffPolicyAgent
from cule.agents.options import AgentConfig
from cule.envs import FrameStep
from cule.nets import soft_copy


class ActorErrors:
    """n-step temporal differences from the values that acting computed anyway.

    It remembers the last n steps. Where a time limit cuts a window there is no value of the final
    observation; the largest value of the truncated row stands in.
    """

    def __init__(self, n_step: int) -> None:
        """Remember nothing yet."""
        self.n_step = n_step
        self.rows: deque[tuple[Tensor, ...]] = deque(maxlen=n_step)

    def add_step(
        self, taken: Tensor, largest: Tensor, step: FrameStep, config: AgentConfig
    ) -> None:
        """Remember a step.

        Args:
            taken: Values of the taken actions; ``[N]``.
            largest: Values of the best actions; ``[N]``.
            step: What came of it, on any device.
            config: Discount, clipping, what ends an episode.
        """
        device = taken.device
        ends = step.terminated | step.life_lost if config.episodic_life else step.terminated
        rewards = algos.clip_rewards(step.reward.to(device), config.reward_rule)
        discounts = config.gamma * (~ends).to(device, torch.float32)
        truncated = (step.truncated & ~step.terminated).to(device)
        self.rows.append((taken, largest, rewards, discounts, truncated))

    def errors(self, largest_now: Tensor) -> Tensor | None:
        """Differences of the steps that are n old; None while there are none.

        Args:
            largest_now: Largest value of the newest observation; ``[N]``.
        """
        if len(self.rows) < self.n_step:
            return None
        taken, largest, rewards, discounts, truncated = map(
            torch.stack, zip(*self.rows, strict=True)
        )
        sums, products, steps = algos.n_step_returns(rewards, discounts, self.n_step, truncated)
        last = steps - 1
        is_cut = truncated.gather(0, last)
        bootstrap = torch.where(is_cut, largest.gather(0, last), largest_now.unsqueeze(0))
        return (sums + products * bootstrap - taken[:1]).squeeze(0)

    def state(self) -> list[list[Tensor]]:
        """For checkpoints."""
        return [list(row) for row in self.rows]

    def load(self, state: list[list[Tensor]], device: torch.device) -> None:
        """Take `state` back."""
        self.rows.clear()
        self.rows.extend(tuple(value.to(device) for value in row) for row in state)


class ApexActing(OffPolicyAgent):
    """Base of the learners that act with a copy of their weights.

    Attributes:
        actor: The copy.
        actor_errors: First priorities.
        acted_steps: Batched steps so far, by which the copy is renewed.
        acting_stream: Where acting runs beside learning; None: nowhere.
    """

    actor: Any

    def build_actor(self) -> None:
        """Copy the network, once it is made."""
        overlaps_there = self.config.overlap and self.device.type == "cuda"
        self.acting_stream = stream_beside(self.device) if overlaps_there else None
        self.actor = copy.deepcopy(self.network).requires_grad_(False)
        self.actor_errors = ActorErrors(self.config.n_step)
        self.acted_steps = 0

    @abstractmethod
    def choose_actions(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Explore.

        Args:
            obs: Observations of all consoles.

        Returns:
            Actions as the environment takes them, their values, and those of the best; ``[N]``.
        """

    @timed("collect")
    @torch.no_grad()
    def collect(self, num_steps: int) -> None:
        """Play steps into the memory, with priorities from the acting network."""
        config = self.config
        for _ in range(num_steps):
            if not config.overlap:
                self.renew_actor(1)
            self.acted_steps += 1
            actions, taken, best = self.choose_actions(self.replay.observe())
            self._make_newest_live(best)
            step = self.step_env(actions, self.replay.next_frame())
            # Not drawn before the next acting pass has given it a priority.
            self.replay.append(actions, step, torch.zeros_like(best))
            self.actor_errors.add_step(taken, best, step, config)
            self.statistics.add(step)
        self.count_steps(num_steps)

    def renew_actor(self, num_steps: int) -> None:
        """Copy the weights to the actor, if that is due within so many steps."""
        if -self.acted_steps % self.config.sync_steps < num_steps:
            soft_copy(self.actor, self.network)

    def _make_newest_live(self, best: Tensor) -> None:
        errors = self.actor_errors.errors(best)
        if errors is not None:
            self.set_priorities(self.replay.newest_ids(), errors)

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """As `OffPolicyAgent.train`, or overlapped."""
        if not self.config.overlap:
            yield from super().train(steps)
            return
        stop = self.config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self._overlapped_round()
            yield Progress(self.steps, self.updates, {**self.metrics, **self.schedules()})

    def _overlapped_round(self) -> None:
        config = self.config
        batches = [self.sample() for _ in range(self.updates_due())]
        self.renew_actor(config.collect_steps)
        errors = []
        with _beside(self.acting_stream) as acting:
            for batch in batches:
                found, self.metrics = self.update_from(batch)
                errors.append(found)
            with acting:
                self.collect(config.collect_steps)
        for batch, found in zip(batches, errors, strict=True):
            self.set_priorities(batch.ids, found)
        self.add_credit(config.collect_steps * self.num_envs)

    def extra_state(self, *, replay: bool) -> dict[str, Any]:
        """As `OffPolicyAgent`, and the actor."""
        state = super().extra_state(replay=replay)
        state["actor"] = self.actor.state_dict()
        state["acted_steps"] = self.acted_steps
        state["actor_errors"] = self.actor_errors.state()
        return state

    def load_extra_state(self, state: Mapping[str, Any]) -> bool:
        """Take it back."""
        self.actor.load_state_dict(state["actor"])
        goes_on = super().load_extra_state(state)
        if goes_on:
            self.acted_steps = state["acted_steps"]
            self.actor_errors.load(state["actor_errors"], self.device)
        return goes_on


@contextlib.contextmanager
def _beside(
    stream: torch.cuda.Stream | None,
) -> Iterator[contextlib.AbstractContextManager[Any]]:
    """What is called in the context it gives runs beside what is called in the outer one.

    It begins after all that was asked for before, and all that is asked for later comes after it.
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
