"""First priorities of Ape-X from the values that acting computes, and acting beside learning."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor

from cule import algos
from cule.agents.parts.config import AgentConfig
from cule.envs import FrameStep


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
