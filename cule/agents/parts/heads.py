"""Heads of Q-networks: outputs are values, distributions over atoms (C51), or quantiles (IQN).

A head makes action values of outputs, and the losses of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cule import algos
from cule.agents.parts.setup import Setup
from cule.nets import gather_actions
from cule.replay import Batch

Network = Callable[..., Tensor]


class Losses(NamedTuple):
    """Losses of a batch; ``[B]`` each."""

    errors: Tensor
    """Errors, for priorities."""

    losses: Tensor
    """Losses, with gradients."""

    q_taken: Tensor
    """Values of the taken actions."""


class ValueHead:
    """Outputs are action values."""

    # Any: DQNConfig, or that of an algorithm with its options.
    def __init__(self, config: Any, setup: Setup) -> None:
        """Use the options of an algorithm."""
        self.config, self.setup = config, setup

    def values(self, network: Network, obs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Action values ``[B, A]``; without a generator they are not random."""
        with self.setup.autocast():
            return network(obs)

    def losses(self, online: Network, target: Network, batch: Batch) -> Losses:
        """Temporal differences and their losses, Huber or squared."""
        generator = self.setup.generator
        with torch.no_grad():
            next_q = self.values(target, batch.next_obs, generator)
            chooser = next_q
            if self.config.double:
                chooser = self.values(online, batch.next_obs, generator)
            targets = algos.q_targets(batch.returns, batch.discounts, next_q, chooser)
        taken = gather_actions(self.values(online, batch.obs, generator), batch.actions)
        errors = targets - taken
        losses = algos.huber(errors) if self.config.loss == "huber" else 0.5 * errors.square()
        return Losses(errors.detach(), losses, taken.detach())


class AtomHead(ValueHead):
    """Outputs are logits of distributions over K atoms, ``[B, A, K]`` (Bellemare et al. 2017)."""

    def __init__(self, config: Any, setup: Setup) -> None:
        """Make the atoms."""
        super().__init__(config, setup)
        self.support = algos.atoms(config.v_min, config.v_max, config.num_atoms, setup.device)

    def values(self, network: Network, obs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Action values ``[B, A]``: the means."""
        return algos.expected_values(super().values(network, obs, generator), self.support)

    def losses(self, online: Network, target: Network, batch: Batch) -> Losses:
        """Cross-entropies, which are also the errors."""
        autocast = self.setup.autocast
        with torch.no_grad(), autocast():
            next_logits = target(batch.next_obs)
            chooser = online(batch.next_obs) if self.config.double else next_logits
            best = algos.expected_values(chooser, self.support).argmax(-1)
            targets = algos.project_distribution(
                gather_actions(next_logits, best).float().softmax(-1),
                batch.returns,
                batch.discounts,
                self.support,
            )
        with autocast():
            logits = gather_actions(online(batch.obs), batch.actions).float()
        taken = (logits.detach().softmax(-1) * self.support).sum(-1)
        losses = algos.categorical_loss(logits, targets)
        return Losses(losses.detach(), losses, taken)


class QuantileHead(ValueHead):
    """Outputs are quantiles at sampled fractions, ``[B, M, A]`` (Dabney et al. 2018)."""

    def values(self, network: Network, obs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Action values ``[B, A]``: means of quantiles at sampled or evenly spaced fractions."""
        if generator is None:
            return super().values(network, obs, generator)
        fractions = self._fractions(len(obs), self.config.num_acting_quantiles, generator)
        with self.setup.autocast():
            return network(obs, fractions).mean(1)

    def losses(self, online: Network, target: Network, batch: Batch) -> Losses:
        """Quantile Huber losses, which are also the errors."""
        config, size, generator = self.config, len(batch.actions), self.setup.generator
        with torch.no_grad():
            if config.munchausen:
                targets = self._soft_targets(target, batch)
            else:
                chooser = online if config.double else target
                best = self.values(chooser, batch.next_obs, generator).argmax(-1)
                sampled = self._fractions(size, config.num_target_quantiles, generator)
                after = self._quantiles(target, batch.next_obs, sampled, best)
                targets = batch.returns.unsqueeze(1) + batch.discounts.unsqueeze(1) * after
        fractions = self._fractions(size, config.num_quantiles, generator)
        taken = self._quantiles(online, batch.obs, fractions, batch.actions)
        losses = algos.quantile_huber_loss(taken, fractions, targets, config.kappa)
        return Losses(losses.detach(), losses, taken.detach().mean(1))

    def _soft_targets(self, target: Network, batch: Batch) -> Tensor:
        """Targets ``[B, K]`` of Munchausen IQN, from the target network alone."""
        config = self.config
        size, count = len(batch.actions), config.num_target_quantiles
        fractions = self._fractions(size, count, self.setup.generator)
        with self.setup.autocast():
            values = target(batch.obs, fractions).mean(1)
            after = target(batch.next_obs, fractions)
        return algos.munchausen_targets(
            batch.returns,
            batch.discounts,
            values,
            batch.actions,
            after,
            alpha=config.munchausen,
            temperature=config.munchausen_temperature,
            lowest=config.munchausen_min,
        )

    def _quantiles(
        self, network: Network, obs: Tensor, fractions: Tensor, actions: Tensor
    ) -> Tensor:
        """Quantiles ``[B, M]`` of the returns of actions ``[B]``."""
        with self.setup.autocast():
            return gather_actions(network(obs, fractions).transpose(1, 2), actions)

    def _fractions(self, size: int, count: int, generator: torch.Generator) -> Tensor:
        return torch.rand((size, count), generator=generator, device=self.setup.device)
