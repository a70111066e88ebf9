"""Actions of the continuous interface: points of the unit disc and fire, and their polar form.

An actor emits three unbounded numbers; a critic sees (x, y, fire) with x, y on the unit disc and
fire in [0, 1]; the environment takes (radius in [0, 1], angle in [-pi, pi], fire in [0, 1]).

Densities of Gaussian policies are those of the unbounded numbers, before they are squashed. What
squashes them belongs to the environment: it is the same for every policy, so ratios of two policies
need no Jacobian, and it has none where it moves all points beyond the disc to its edge.
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
    """(x, y) beyond the unit disc moved to its edge, fire clamped to [0, 1]; ``[..., 3]``."""
    xy, fire = action[..., :2], action[..., 2:]
    radius = xy.square().sum(-1, keepdim=True).sqrt()
    return torch.cat([xy / radius.clamp(min=1.0), fire.clamp(0.0, 1.0)], -1)


def polar_from_disc(action: Tensor) -> Tensor:
    """(x, y, fire) to (radius, angle, fire); ``[..., 3]``."""
    x, y, fire = action.unbind(-1)
    radius = (x.square() + y.square()).sqrt().clamp(max=1.0)
    return torch.stack([radius, torch.atan2(y, x), fire.clamp(0.0, 1.0)], -1)


def polar_from_raw(raw: Tensor) -> Tensor:
    """Unbounded numbers to what the environment takes, (radius, angle, fire); ``[..., 3]``."""
    return polar_from_disc(disc_from_raw(raw))


def noise_log_prob(noise: Tensor, log_sigma: Tensor) -> Tensor:
    """Log-densities of ``mean + sigma * noise``, whatever the mean was.

    Args:
        noise: Standard normal draws; ``[..., A]``.
        log_sigma: Logarithms of the deviations; ``[A]``.

    Returns:
        ``[...]``.
    """
    constant = 0.5 * noise.shape[-1] * math.log(2.0 * math.pi)
    return -0.5 * noise.square().sum(-1) - log_sigma.sum(-1) - constant


def gaussian_log_prob(means: Tensor, log_sigma: Tensor, raw: Tensor) -> Tensor:
    """Log-densities of unbounded numbers ``[..., A]`` under normal policies; ``[...]``."""
    return noise_log_prob((raw - means) * (-log_sigma).exp(), log_sigma)


def gaussian_entropy(log_sigma: Tensor) -> Tensor:
    """Entropy in nats of a normal policy, before squashing: ``[..., A]`` to ``[...]``."""
    return (log_sigma + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1)


def disc_from_polar(action: Tensor) -> Tensor:
    """(radius, angle, fire) to (x, y, fire); ``[..., 3]``."""
    radius, angle, fire = action.unbind(-1)
    return torch.stack([radius * angle.cos(), radius * angle.sin(), fire], -1)


def action_gradient_loss(actions: Tensor, gradients: Tensor, limit: float = 1.0) -> Tensor:
    """A loss whose gradient ascends the critic: its derivative by each action is clipped.

    Args:
        actions: Of the policy, with its graph; ``[B, 3]``.
        gradients: Derivative of each sample's value by its own action; ``[B, 3]``.
        limit: Elementwise clip of `gradients`.

    Returns:
        Scalar, ``-mean sum clip(dQ/da) a``; only its gradient means something.
    """
    return -(gradients.detach().clamp(-limit, limit) * actions).sum(-1).mean()


def random_disc_actions(count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """(x, y, fire) uniform on the disc and in [0, 1]; float32 ``[count, 3]``."""
    draws = torch.rand((3, count), generator=generator, device=device)
    polar = torch.stack([draws[0].sqrt(), (2.0 * draws[1] - 1.0) * math.pi, draws[2]], -1)
    return disc_from_polar(polar)
