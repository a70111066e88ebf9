"""How weights start: by the habits of three families of learners."""

from __future__ import annotations

import math

import torch
from torch import nn

from cule.errors import InvalidArgumentError

#: orthogonal: policy gradients; he: PQN and CuLE; torch: the DQN family (the framework's default).
INITIALISATIONS = ("orthogonal", "he", "torch")


def initialise(module: nn.Module, rule: str, gain: float = math.sqrt(2.0)) -> None:
    """Draw the weights of every convolution and linear layer inside.

    Args:
        module: Changed in place.
        rule: "orthogonal" (times `gain`), "he" (normal, fan-in, for ReLU; `gain` is not used), or
            "torch" (left as they are). Biases become 0 with the first two.
        gain: sqrt(2) for layers before a ReLU, 0.01 for a policy head, 1 for a value head.

    Raises:
        InvalidArgumentError: Another rule.
    """
    if rule not in INITIALISATIONS:
        raise InvalidArgumentError(f"initialisation is {rule!r}; allowed: {INITIALISATIONS}")
    if rule == "torch":
        return
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            # Drawn apart: a channels-last weight has no view as a matrix.
            drawn = torch.empty(layer.weight.shape)
            if rule == "orthogonal":
                nn.init.orthogonal_(drawn, gain)
            else:
                nn.init.kaiming_normal_(drawn, nonlinearity="relu")
            with torch.no_grad():
                layer.weight.copy_(drawn)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
