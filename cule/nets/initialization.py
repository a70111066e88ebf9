"""Initialization of weights, as three families of algorithms do it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from cule.errors import InvalidArgumentError, shown

#: orthogonal: policy gradients; he: PQN and CuLE; torch: the DQN family (the framework's default).
INITIALIZATIONS = ("orthogonal", "he", "torch")

#: Power iterations for the norm of new weights with spectral normalization; torch makes as many
#: when it registers the normalization. Each reading of a weight is one.
_NORM_STEPS = 15


def initialize(module: nn.Module, rule: str, gain: float = math.sqrt(2.0)) -> None:
    """Initialize the weights of all convolutions and linear layers.

    Args:
        module: Changed in place.
        rule: "orthogonal" (times `gain`), "he" (normal, fan-in, for ReLU; ignores `gain`), or
            "torch" (unchanged). The first two set biases to 0.
        gain: sqrt(2) for layers before a ReLU, 0.01 for a policy head, 1 for a value head.

    Raises:
        InvalidArgumentError: Another rule.
    """
    if rule not in INITIALIZATIONS:
        allowed = ", ".join(INITIALIZATIONS)
        raise InvalidArgumentError(f"initialization is {shown(rule)}; it must be one of {allowed}")
    if rule == "torch":
        return
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            # Into a new tensor: a channels-last weight has no view as a matrix.
            sampled = torch.empty(layer.weight.shape)
            if rule == "orthogonal":
                nn.init.orthogonal_(sampled, gain)
            else:
                nn.init.kaiming_normal_(sampled, nonlinearity="relu")
            with torch.no_grad():
                source_of(layer).copy_(sampled)
                if is_parametrized(layer, "weight"):
                    for _ in range(_NORM_STEPS):
                        _ = layer.weight
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def source_of(layer: nn.Conv2d | nn.Linear) -> Tensor:
    """The weight of a layer, or what a normalization makes it of."""
    if is_parametrized(layer, "weight"):
        return layer.parametrizations.weight.original  # type: ignore[union-attr, return-value]
    return layer.weight
