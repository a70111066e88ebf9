"""What the kernels take of a GPU is on record, and the record is current."""

from __future__ import annotations

import json
import shutil

import pytest

from benchmarks.sass import kernel_resources
from cule.envs.launch import SCHEDULERS, WARP_LANES, WARPS_PER_SCHEDULER

RECORD = json.loads(kernel_resources.RECORD.read_text())


def test_every_kernel_is_on_record() -> None:
    found = set()
    for path in sorted((kernel_resources.ROOT / "csrc" / "cuda").glob("*.cu")):
        found |= set(kernel_resources.KERNEL.findall(path.read_text()))
    assert found
    assert {name.partition("<")[0] for name in RECORD["kernels"]} == found


def test_nothing_is_spilled_where_it_is_often_needed() -> None:
    """For more warps at once the state-update kernel spills a little before and after a frame.

    A team that renders a log has the pixels of six objects in registers, and spills what it needs
    once for 32 scanlines. The render kernel is one function, without calls where it paints: these
    cost more than its spills. The kernel of several players holds a command of each.
    """
    for name, numbers in RECORD["kernels"].items():
        of_kernel = numbers["spill_store_bytes"] + numbers["spill_load_bytes"]
        if name == "finish_step_kernel":
            assert of_kernel <= 480, name
            continue
        if not name.startswith("step_consoles_kernel"):
            assert of_kernel == 0, name
            continue
        assert of_kernel <= 560, name
        of_loop = numbers["loop_spill_store_bytes"] + numbers["loop_spill_load_bytes"]
        # Parameters and what a vote needs.
        assert of_loop <= 200, name


def test_twelve_warps_of_the_state_update_kernel_fit_on_a_multiprocessor() -> None:
    registers_of_a_multiprocessor = 65_536
    warps = SCHEDULERS * WARPS_PER_SCHEDULER
    for name, numbers in RECORD["kernels"].items():
        if name.startswith("step_consoles_kernel"):
            assert numbers["registers"] * WARP_LANES * warps <= registers_of_a_multiprocessor, name


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_record_is_current() -> None:
    if kernel_resources.toolkit() != RECORD["nvcc"]:
        pytest.skip(f"the record is of nvcc {RECORD['nvcc']}")
    assert kernel_resources.measure() == RECORD
