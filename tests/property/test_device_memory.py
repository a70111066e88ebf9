"""Memory of a GPU: what is said to fit does, and what is freed is not in use."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import cule
from cule.errors import OutOfDeviceMemoryError
from tests.support import kernels
from tests.support.fake_cuda import fake_cuda

MEMORY_BYTES = 256 << 20


def environments_that_fit(num_envs: int, **options: Any) -> int:
    """The number in the error for too many."""
    with pytest.raises(OutOfDeviceMemoryError) as caught:
        cule.AtariVectorEnv("pong", num_envs, device="cuda", num_reset_states=1, **options)
    found = re.search(r"about ([\d,]+) environments fit", str(caught.value))
    assert found is not None
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize(
    "options",
    [{"autoreset_mode": "SameStep"}, {"autoreset_mode": "NextStep"}, {"obs_type": "ram"}],
    ids=["SameStep", "NextStep", "ram"],
)
def test_as_many_environments_as_are_said_to_fit_do(options: dict[str, Any]) -> None:
    """With the results of two steps alive; and 1% more are refused beforehand."""
    with fake_cuda(memory_bytes=MEMORY_BYTES):
        fit = environments_that_fit(20_000, **options)
        assert fit <= environments_that_fit(fit + -(-fit // 100), **options) < 1.01 * fit
        env = cule.AtariVectorEnv("pong", fit, device="cuda", num_reset_states=1, **options)
        results: Any = env.reset(seed=0)
        for _ in range(2):
            results = env.step(torch.zeros(fit, dtype=torch.int64, device="cuda"))
        assert len(results[0]) == fit
        assert torch.cuda.mem_get_info()[0] < 0.4 * MEMORY_BYTES  # not far too cautious
        env.close()


def test_what_the_error_counts() -> None:
    """State, the results of two steps, and what kernels have taken."""
    results = 2 * 4 * 84 * 84
    with fake_cuda(memory_bytes=MEMORY_BYTES), pytest.raises(OutOfDeviceMemoryError) as caught:
        cule.AtariVectorEnv("pong", 4096, device="cuda", num_reset_states=1)
    counted = re.search(r"\(([\d,]+) of state, ([\d,]+) of the results", str(caught.value))
    assert counted is not None
    state, of_steps = (int(number.replace(",", "")) for number in counted.groups())
    assert state > 4 * 210 * 160  # spill memory
    assert results < of_steps < results + 256
    pool = kernels.module().reserve_local_memory(0)
    assert f"local memory of kernels takes {pool:,} already" in str(caught.value)
