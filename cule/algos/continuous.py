"""Actions of the continuous interface: points of the unit disc and fire, and their polar form.

An actor emits three unbounded numbers; a critic sees (x, y, fire) with x, y on the unit disc and
fire in [0, 1]; the environment takes (radius in [0, 1], angle in [-pi, pi], fire in [0, 1]).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def disc_from_raw(raw: Tensor) -> Tensor:
    """Squash unbounded numbers to (x, y) on the unit disc and fire in [0, 1]; ``[..., 3]``."""
    xy = raw[..., :2].tanh()
    radius = xy.square().sum(-1, keepdim=True).clamp(min=1e-12).sqrt()
    fire = 0.5 * (raw[..., 2:].tanh() + 1.0)
    return torch.cat([xy / radius.clamp(min=1.0), fire], -1)


def polar_from_disc(action: Tensor) -> Tensor:
    """(x, y, fire) to (radius, angle, fire); ``[..., 3]``."""
    x, y, fire = action.unbind(-1)
    radius = (x.square() + y.square()).sqrt().clamp(max=1.0)
    return torch.stack([radius, torch.atan2(y, x), fire.clamp(0.0, 1.0)], -1)


def disc_from_polar(action: Tensor) -> Tensor:
    """(radius, angle, fire) to (x, y, fire); ``[..., 3]``."""
    radius, angle, fire = action.unbind(-1)
    return torch.stack([radius * angle.cos(), radius * angle.sin(), fire], -1)


class _ClipGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, action: Tensor, limit: float) -> Tensor:
        ctx.limit = limit
        return action.view_as(action)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return gradient.clamp(-ctx.limit, ctx.limit), None


def clip_action_gradient(action: Tensor, limit: float = 1.0) -> Tensor:
    """The action itself; the gradient that comes back through it is clipped elementwise.

    With a loss that is a sum over samples, this clips the derivative of each sample's value by its
    own action.
    """
    clipped: Tensor = _ClipGradient.apply(action, limit)  # type: ignore[no-untyped-call]
    return clipped
