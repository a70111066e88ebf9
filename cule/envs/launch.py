"""How consoles are spread over the warps of a GPU: chosen from the batch and the device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

import torch

WARP_LANES = 32
SCHEDULERS = 4  # of a multiprocessor; a warp lives on one
WARPS_PER_SCHEDULER = 3  # resident at once, by the registers of the state-update kernel


@dataclass(frozen=True)
class Geometry:
    """Launch geometry of the state-update kernel."""

    lanes_per_warp: int
    """Consoles that share a warp, 1 to 32."""

    warps_per_block: int
    """Warps that share a block and its copy of the opcode table, 1 to 4."""


_geometry_in_use: ContextVar[Geometry | None] = ContextVar("geometry", default=None)


@contextlib.contextmanager
def use_geometry(lanes_per_warp: int, warps_per_block: int) -> Iterator[None]:
    """Make the batches of this context with a given `Geometry`, to compare geometries."""
    token = _geometry_in_use.set(Geometry(lanes_per_warp, warps_per_block))
    try:
        yield
    finally:
        _geometry_in_use.reset(token)


def choose_geometry(num_envs: int, device: torch.device) -> Geometry:
    """Geometry for a device, unless `use_geometry` names one.

    A device without multiprocessors counts as one of them.
    """
    if (in_use := _geometry_in_use.get()) is not None:
        return in_use
    processors = 1
    if device.type == "cuda":
        processors = torch.cuda.get_device_properties(device).multi_processor_count
    return geometry_for(num_envs, processors)


def geometry_for(num_envs: int, multiprocessors: int) -> Geometry:
    """As few lanes per warp as let all warps be on the device at once.

    Lanes of a warp wait for each other, so fewer of them is better while there is room for more
    warps; beyond that, warps would queue. This is reasoned, not measured.
    """
    warps = SCHEDULERS * WARPS_PER_SCHEDULER * multiprocessors
    lanes = 1
    while lanes < WARP_LANES and num_envs > warps * lanes:
        lanes *= 2
    return Geometry(lanes_per_warp=lanes, warps_per_block=4)
