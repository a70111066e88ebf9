"""The network of recurrent PPO: a policy and a value that remember earlier observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cule.nets.heads import ActorCritic, HeadLinear


class Sequences(NamedTuple):
    """T consecutive observations of n environments, time first."""

    obs: Tensor
    """Observations, ``[T, n, ...]``."""

    starts: Tensor
    """Whether an episode begins with the observation; bool ``[T, n]``. Memory is blank there."""

    memory: Tensor
    """Memory before the first observation; float32 ``[n, 2 memory_size]``."""


class RecurrentActorCritic(ActorCritic):
    """A policy and a value on an LSTM (Hochreiter and Schmidhuber 1997) on a torso.

    Memory is the output of the LSTM and its cells, ``[n, 2 memory_size]``, zeros where an episode
    begins.
    """

    def __init__(
        self, obs_shape: Sequence[int], num_actions: int, *, memory_size: int = 128, **options: Any
    ) -> None:
        """Make and initialize the network.

        Args:
            obs_shape: Shape of one observation: ``[S, H, W]`` or ``[D]``.
            num_actions: A.
            memory_size: Cells of the LSTM.
            options: Those of `ActorCritic`.
        """
        super().__init__(obs_shape, num_actions, **options)
        self.memory_size = memory_size
        self.cell = nn.LSTMCell(self.torso.num_features, memory_size)
        for weight in (self.cell.weight_ih, self.cell.weight_hh):
            nn.init.orthogonal_(weight)
        for bias in (self.cell.bias_ih, self.cell.bias_hh):
            nn.init.zeros_(bias)
        self.policy = HeadLinear(memory_size, num_actions)
        self.value = HeadLinear(memory_size, 1)
        self.initialize_heads(options.get("initialization", "orthogonal"))

    def blank_memory(self, count: int) -> Tensor:
        """Memory of environments in which episodes begin, ``[count, 2 memory_size]``."""
        return self.cell.weight_hh.new_zeros((count, 2 * self.memory_size))

    def forward(self, obs: Tensor | Sequences) -> tuple[Tensor, Tensor]:
        """Turn sequences into float32 logits ``[T * n, A]`` and values ``[T * n]``, time first.

        Observations ``[B, ...]`` without sequences each begin an episode.
        """
        if isinstance(obs, Tensor):
            logits, values, _ = self.step(obs, self.blank_memory(len(obs)))
            return logits, values
        features = self.features(obs.obs.flatten(0, 1)).view(*obs.starts.shape, -1)
        memory, outputs = obs.memory, []
        for now, kept in zip(features, ~obs.starts.unsqueeze(-1), strict=True):
            memory = self.remember(now, memory * kept)
            outputs.append(memory[:, : self.memory_size])
        return self._heads(torch.cat(outputs))

    def step(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Turn the next observations ``[n, ...]`` and memory into logits, values and memory."""
        memory = self.remember(self.features(obs), memory)
        return *self._heads(memory[:, : self.memory_size]), memory

    def remember(self, features: Tensor, memory: Tensor) -> Tensor:
        """Memory after features ``[n, F]``; in float32 also under autocast."""
        with torch.autocast(features.device.type, enabled=False):
            output, cells = memory.chunk(2, -1)
            return torch.cat(self.cell(features.to(memory.dtype), (output, cells)), -1)

    def _heads(self, output: Tensor) -> tuple[Tensor, Tensor]:
        return self.policy(output), self.value(output).squeeze(-1)
