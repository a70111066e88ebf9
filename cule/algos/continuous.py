"""Continuous actions: points of the unit disc and fire, and their polar form.

Actors give three unbounded numbers; critics take (x, y, fire) with x, y on the unit disc and fire
in [0, 1]; environments take (radius in [0, 1], angle in [-pi, pi], fire in [0, 1]).

Densities of Gaussian policies are those of the unbounded numbers, before squashing. Squashing is a
part of the environment and the same for every policy: ratios of two policies need no Jacobian,
which does not exist where points beyond the disc are moved to its edge.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def disc_from_raw(raw: Tensor) -> Tensor:
    """Squash unbounded numbers to (x, y) on the unit disc and fire in [0, 1]; ``[..., 3]``."""
    xy = raw[..., :2].tanh()
    radius = xy.square().sum(-1, keepdim=True).clamp(min=1e-12).sqrt()
    fire = 0.5 * (raw[..., 2:].tanh() + 1.0)
    return torch.cat([xy / radius.clamp(min=1.0), fire], -1)


def clip_to_disc(action: Tensor) -> Tensor:
    """Move (x, y) beyond the unit disc to its edge, and clamp fire to [0, 1]; ``[..., 3]``."""
    xy, fire = action[..., :2], action[..., 2:]
    # Clamped before the root, whose gradient is infinite at 0.
    radius = xy.square().sum(-1, keepdim=True).clamp(min=1.0).sqrt()
    return torch.cat([xy / radius, fire.clamp(0.0, 1.0)], -1)


def polar_from_disc(action: Tensor) -> Tensor:
    """Convert (x, y, fire) to (radius, angle, fire); ``[..., 3]``."""
    x, y, fire = action.unbind(-1)
    radius = (x.square() + y.square()).sqrt().clamp(max=1.0)
    return torch.stack([radius, torch.atan2(y, x), fire.clamp(0.0, 1.0)], -1)


def polar_from_raw(raw: Tensor) -> Tensor:
    """Convert unbounded numbers to (radius, angle, fire); ``[..., 3]``."""
    return polar_from_disc(disc_from_raw(raw))


def noise_log_prob(noise: Tensor, log_sigma: Tensor) -> Tensor:
    """Log-densities ``[...]`` of ``mean + sigma * noise`` for any mean and noise ``[..., A]``."""
    constant = 0.5 * noise.shape[-1] * math.log(2.0 * math.pi)
    return -0.5 * noise.square().sum(-1) - log_sigma.sum(-1) - constant


def gaussian_log_prob(means: Tensor, log_sigma: Tensor, raw: Tensor) -> Tensor:
    """Log-densities ``[...]`` of unbounded numbers ``[..., A]`` under normal policies."""
    return noise_log_prob((raw - means) * (-log_sigma).exp(), log_sigma)


def gaussian_entropy(log_sigma: Tensor) -> Tensor:
    """Entropies in nats ``[...]`` of normal policies ``[..., A]``, before squashing."""
    return (log_sigma + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1)


def disc_from_polar(action: Tensor) -> Tensor:
    """Convert (radius, angle, fire) to (x, y, fire); ``[..., 3]``."""
    radius, angle, fire = action.unbind(-1)
    return torch.stack([radius * angle.cos(), radius * angle.sin(), fire], -1)


def action_gradient_loss(actions: Tensor, gradients: Tensor, limit: float = 1.0) -> Tensor:
    """``-mean sum clip(dQ/da) a``: a loss whose gradient makes actions ascend the critic.

    `actions` of the policy ``[B, 3]`` have a gradient; `gradients` are the derivatives of the
    values by the actions, clipped elementwise to `limit`.
    """
    return -(gradients.detach().clamp(-limit, limit) * actions).sum(-1).mean()


def random_disc_actions(count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Sample (x, y) uniformly on the disc and fire in [0, 1]; float32 ``[count, 3]``."""
    uniform = torch.rand((3, count), generator=generator, device=device)
    polar = torch.stack([uniform[0].sqrt(), (2.0 * uniform[1] - 1.0) * math.pi, uniform[2]], -1)
    return disc_from_polar(polar)
