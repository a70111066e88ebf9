"""What the kernels take of a GPU is on record, and the record is current."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from benchmarks import kernel_resources

RECORD = json.loads(kernel_resources.RECORD.read_text())


def test_every_kernel_is_on_record() -> None:
    found = set()
    for path in sorted((kernel_resources.ROOT / "csrc" / "cuda").iterdir()):
        found |= set(re.findall(r"__global__ void (\w+)\(", path.read_text()))
    assert found
    assert {name.partition("<")[0] for name in RECORD["kernels"]} == found


def test_no_kernel_spills() -> None:
    for name, numbers in RECORD["kernels"].items():
        assert numbers["spill_store_bytes"] == numbers["spill_load_bytes"] == 0, name


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_record_is_current() -> None:
    if kernel_resources.toolkit() != RECORD["nvcc"]:
        pytest.skip(f"the record is of nvcc {RECORD['nvcc']}")
    assert kernel_resources.measure() == RECORD
