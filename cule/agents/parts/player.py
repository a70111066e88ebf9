"""`Player`: a learner that plays environments, outside of training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cule.replay.steps import ArrayLike

if TYPE_CHECKING:
    from cule.agents.parts.learner import Learner


class Player:
    """Plays environments with a learner, and keeps the memory of a recurrent network."""

    def __init__(self, agent: Learner, num_envs: int) -> None:
        """Play environments in which episodes begin."""
        self._agent, self._memory = agent, agent.new_memory(num_envs)

    def act(
        self,
        obs: Tensor,
        generator: torch.Generator,
        *,
        greedy: bool = False,
        envs: Tensor | None = None,
    ) -> Tensor:
        """Choose actions as `Learner.act`, for observations of some environments or all."""
        if self._memory is None:
            return self._agent.act(obs, generator, greedy=greedy)
        memory = self._memory if envs is None else self._memory[envs]
        options: dict[str, Any] = {"greedy": greedy, "memory": memory}
        actions = self._agent.act(obs, generator, **options)
        if envs is not None:
            self._memory[envs] = memory
        return actions

    def begin(self, starts: ArrayLike) -> None:
        """Forget where episodes begin; bool ``[num_envs]``."""
        if self._memory is not None:
            blank = torch.as_tensor(starts, device=self._memory.device)
            self._memory.masked_fill_(blank.unsqueeze(1), 0.0)
