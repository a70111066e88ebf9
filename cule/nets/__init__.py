"""Networks: torsos that read observations, and heads that give policies and values.

In: observations, uint8 ``[B, S, H, W]`` (images, newest frame last) or ``[B, D]`` (RAM, features).
Out: float32 logits, values, action values or actions. A torso turns observations into features
``[B, F]``; a network is a torso with heads. All are plain torch modules.

The weights of the first layer scale pixels by 1/255, which saves a pass over the observations;
0..255 is exact in bfloat16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cule.lazy import lazy_names, needs

with needs("cule[train]"):
    from cule.nets.heads import ActorCritic, QNetwork, gather_actions, soft_copy
from cule.nets.initialization import INITIALIZATIONS, initialize
from cule.nets.pixels import OBJECT_SCALE, PixelStatistics, read_floats
from cule.nets.torsos import OBJECT_TORSOS, TORSOS, make_torso, reads_blocks

if TYPE_CHECKING:
    from cule.nets.continuous import DeterministicActorCritic, GaussianActorCritic
    from cule.nets.noisy import NoisyLinear, sample_noise
    from cule.nets.normalized import NormalizedQNetwork
    from cule.nets.novelty import CuriousActorCritic, Novelty
    from cule.nets.objects import name_rows
    from cule.nets.quantiles import ImplicitQuantileNetwork
    from cule.nets.recurrent import RecurrentActorCritic, Sequences

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "continuous": ("DeterministicActorCritic", "GaussianActorCritic"),
        "noisy": ("NoisyLinear", "sample_noise"),
        "normalized": ("NormalizedQNetwork",),
        "novelty": ("CuriousActorCritic", "Novelty"),
        "objects": ("name_rows",),
        "quantiles": ("ImplicitQuantileNetwork",),
        "recurrent": ("RecurrentActorCritic", "Sequences"),
    },
)

__all__ = [
    "INITIALIZATIONS",
    "OBJECT_SCALE",
    "OBJECT_TORSOS",
    "TORSOS",
    "ActorCritic",
    "CuriousActorCritic",
    "DeterministicActorCritic",
    "GaussianActorCritic",
    "ImplicitQuantileNetwork",
    "NoisyLinear",
    "NormalizedQNetwork",
    "Novelty",
    "PixelStatistics",
    "QNetwork",
    "RecurrentActorCritic",
    "Sequences",
    "gather_actions",
    "initialize",
    "make_torso",
    "name_rows",
    "read_floats",
    "reads_blocks",
    "sample_noise",
    "soft_copy",
]
