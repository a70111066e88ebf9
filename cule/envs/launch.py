"""How consoles are spread over the warps of a GPU: chosen from the batch and the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

WARP_LANES = 32
SCHEDULERS = 4  # of a multiprocessor; a warp lives on one


@dataclass(frozen=True)
class Geometry:
    """Launch geometry of the state-update kernel."""

    lanes_per_warp: int
    """Consoles that share a warp, 1 to 32."""

    warps_per_block: int
    """Warps that share a block and its copy of the micro-operation table, 1 to 8."""


def choose_geometry(num_envs: int, device: Any) -> Geometry:
    """As few lanes a warp as give every scheduler of the device a warp.

    Lanes of a warp wait for each other, so fewer of them is better while schedulers would be idle;
    beyond that, every further warp shares a scheduler with others. This is reasoned, not measured.

    Args:
        num_envs: Consoles of the batch.
        device: A torch device; one without multiprocessors gets full warps.
    """
    schedulers = SCHEDULERS
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        schedulers *= properties.multi_processor_count
    lanes = 1
    while lanes < WARP_LANES and num_envs > 4 * schedulers * lanes:
        lanes *= 2
    return Geometry(lanes_per_warp=lanes, warps_per_block=4)
