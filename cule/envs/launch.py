"""How consoles are spread over the warps of a GPU: chosen from the batch and the device.

``cule check`` measures some geometries, and keeps the fastest ones of a device in a file
(`geometry_file`), where `choose_geometry` finds them. Results do not depend on the geometry.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import torch

from cule import _core
from cule.envs.kernel_cache import cache_folder
from cule.files import replace_text
from cule.reading import read_json

WARP_LANES = 32
SCHEDULERS = 4  # of a multiprocessor; a warp lives on one
WARPS_PER_SCHEDULER = 3  # resident at once, by the registers of the state-update kernel
SHARED_WARPS = 2  # of a multiprocessor, where consoles share warps
WARPS_PER_BLOCK = 4  # they share the opcode table

_POSSIBLE_LANES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Geometry:
    """Launch geometry of the state-update kernel."""

    lanes_per_warp: int
    """Consoles that share a warp, 1 to 32."""

    warps_per_block: int
    """Warps that share a block and its copy of the opcode table, 1 to 4."""


_geometry_in_use: ContextVar[Geometry | None] = ContextVar("geometry", default=None)


@contextlib.contextmanager
def use_geometry(
    lanes_per_warp: int | None, warps_per_block: int = WARPS_PER_BLOCK
) -> Iterator[None]:
    """Make the batches of this context with a `Geometry`, to compare geometries; None: any."""
    geometry = Geometry(lanes_per_warp, warps_per_block) if lanes_per_warp else None
    token = _geometry_in_use.set(geometry)
    try:
        yield
    finally:
        _geometry_in_use.reset(token)


def choose_geometry(num_envs: int, device: torch.device) -> Geometry:
    """Geometry for a device: that of `use_geometry`, a measured one, or `geometry_for`.

    A device without multiprocessors counts as one of them.
    """
    if (in_use := _geometry_in_use.get()) is not None:
        return in_use
    if device.type != "cuda":
        return geometry_for(num_envs, 1)
    lanes = measured_lanes(num_envs, device)
    if lanes is not None:
        return Geometry(lanes, WARPS_PER_BLOCK)
    return geometry_for(num_envs, multiprocessors_of(device))


def multiprocessors_of(device: torch.device | str) -> int:
    """Multiprocessors of a CUDA device."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def geometry_file() -> Path:
    """Where measured geometries are kept: by device, lanes per warp by number of environments."""
    return cache_folder() / "geometry.json"


def measured_lanes(num_envs: int, device: torch.device) -> int | None:
    """Lanes per warp that were fastest on a device for about as many environments.

    None if there are none for between 0.7 and 1.4 times as many, or the file cannot be read.
    """
    found = _read_geometries().get(_device_key(device))
    best: tuple[float, int] | None = None
    for size, lanes in found.items() if isinstance(found, dict) else ():
        if not size.isdecimal() or int(size) == 0 or lanes not in _POSSIBLE_LANES:
            continue
        distance = abs(math.log2(num_envs / int(size)))
        if distance <= 0.5 and (best is None or distance < best[0]):
            best = (distance, lanes)
    return None if best is None else best[1]


def keep_lanes(device: torch.device | str, lanes: Mapping[int, int]) -> None:
    """Keep what was fastest on a device, by number of environments, in place of what was kept.

    Raises:
        StorageError: The file cannot be written.
    """
    kept = _read_geometries()
    kept[_device_key(device)] = {str(size): number for size, number in sorted(lanes.items())}
    replace_text(geometry_file(), json.dumps(kept, indent=1) + "\n")


def _read_geometries() -> dict[str, object]:
    try:
        kept = read_json(geometry_file())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _device_key(device: torch.device | str) -> str:
    """Key of measurements: a kind of device, and a version of the kernels."""
    properties = torch.cuda.get_device_properties(device)
    version = _core.build_config()["version"]
    return f"{properties.name}, {properties.multi_processor_count} multiprocessors, cule {version}"


def geometry_for(num_envs: int, multiprocessors: int) -> Geometry:
    """One lane per warp while all warps fit on the device, then as many as make few warps.

    A console with a warp to itself waits for no other. Where consoles share warps, warps at
    different places of a program compete for the instruction cache, so two full ones on a
    multiprocessor are faster than more with fewer lanes (measured on an H200 with 1,200, 4,096 and
    32,768 environments, see benchmarks/RESULTS.md).
    """
    lanes = 1
    if num_envs > SCHEDULERS * WARPS_PER_SCHEDULER * multiprocessors:
        while lanes < WARP_LANES and num_envs > SHARED_WARPS * multiprocessors * lanes:
            lanes *= 2
    return Geometry(lanes_per_warp=lanes, warps_per_block=WARPS_PER_BLOCK)
