"""Acting of Ape-X in one process, with a copy of the weights, and beside learning.

The functions take a learner with a memory and, as its `actor`, the network that acts.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cule import algos
from cule.agents.parts import memory
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.graphs import separate_stream
from cule.agents.parts.rollout import count_frames
from cule.agents.parts.setup import Setup
from cule.envs import FrameStep
from cule.errors import InvalidArgumentError, shown
from cule.nets import soft_copy


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


def check_setup(setup: Setup) -> None:
    """Require environments that reset themselves in the step that ends an episode."""
    if setup.autoreset_mode != "SameStep":
        raise InvalidArgumentError(
            f"autoreset_mode of the environment is {shown(setup.autoreset_mode)}; for Ape-X it "
            "must be 'SameStep'"
        )


def acting_stream(setup: Setup, *, overlap: bool) -> torch.cuda.Stream | None:
    """Stream of acting where it overlaps with learning on a GPU, otherwise None."""
    return separate_stream(setup.device) if overlap and setup.device.type == "cuda" else None


def renew_actor(learner: Any, num_steps: int) -> None:
    """Copy the weights to the actor if that is due within a number of steps."""
    if -learner.acted_steps % learner.config.sync_steps < num_steps:
        soft_copy(learner.actor, learner.network)


def learn_while_acting(learner: Any) -> None:
    """Learn from batches of earlier steps while the next steps are played."""
    batches = [learner.sample() for _ in range(learner.credit.updates_due(learner.replay))]
    renew_actor(learner, learner.config.collect_steps)
    errors = []
    with concurrently(learner.acting_stream) as acting:
        for batch in batches:
            batch_errors, learner.metrics = learner.learn_from(batch)
            learner.count_update()
            errors.append(batch_errors)
        with acting:
            memory.collect(learner)
    for batch, batch_errors in zip(batches, errors, strict=True):
        memory.set_priorities(learner.replay, batch.ids, batch_errors)
    learner.credit.add(learner.replay, learner.config.collect_steps * learner.num_envs)


def observe(learner: Any) -> Tensor:
    """Newest observations for the actor, whose weights are renewed where that is due."""
    if not learner.config.overlap:
        renew_actor(learner, 1)
    learner.acted_steps += 1
    obs: Tensor = learner.replay.observe()
    return obs


def store_step(learner: Any, actions: Tensor, taken: Tensor, best: Tensor) -> None:
    """Play one step into the memory, and set the first priorities of an earlier one.

    `taken` and `best` are the actor's values of the taken and the best actions, ``[N]`` each.
    """
    replay = learner.replay
    errors = learner.actor_errors.errors(best)
    if errors is not None:
        memory.set_priorities(replay, replay.newest_ids(), errors)
    step = learner.setup.step_env(actions, replay.next_frame())
    if learner.updates == 0:
        count_frames(learner.network, step.frame)
    # Priority 0: not sampled before a later acting pass gives its error.
    replay.append(actions, step, torch.zeros_like(best))
    learner.actor_errors.add_step(taken, best, step, learner.config)
    learner.statistics.add(step)
