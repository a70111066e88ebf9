"""Networks of the learners: torsos that read observations, heads that give policies and values.

In: observations, uint8 ``[B, S, H, W]`` (images, newest frame last) or ``[B, D]`` (RAM, features).
Out: float32 logits, values, action values or actions. A torso turns an observation into features
``[B, F]``; a network is a torso and heads. Plain torch modules: no environment, no optimiser.

Pixels are scaled by 1/255 inside the first layer's weights, so that no pass over the observation
is spent on it; 0..255 is exact in bfloat16.
"""

from __future__ import annotations

from cule.nets.continuous import DeterministicActorCritic, GaussianActorCritic
from cule.nets.heads import ActorCritic, QNetwork, gather_actions, soft_copy
from cule.nets.initialisation import INITIALISATIONS, initialise
from cule.nets.noisy import NoisyLinear, draw_noise
from cule.nets.normalised import NormalisedQNetwork
from cule.nets.pixels import PixelStatistics
from cule.nets.torsos import TORSOS, make_torso

__all__ = [
    "INITIALISATIONS",
    "TORSOS",
    "ActorCritic",
    "DeterministicActorCritic",
    "GaussianActorCritic",
    "NoisyLinear",
    "NormalisedQNetwork",
    "PixelStatistics",
    "QNetwork",
    "draw_noise",
    "gather_actions",
    "initialise",
    "make_torso",
    "soft_copy",
]
