"""Batches on the CPU that do not fit, and what an environment takes."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

import cule
from cule.envs.plan import batched_space
from cule.errors import OutOfMemoryError
from tests.support.cases import long_except

pytestmark = pytest.mark.ale

FREE = 100_000_000


def fitting(error: pytest.ExceptionInfo[OutOfMemoryError]) -> int:
    match = re.search(r"about ([\d,]+) environments fit", str(error.value))
    assert match is not None, error.value
    return int(match[1].replace(",", ""))


@pytest.mark.parametrize(
    ("name", "least", "most"), [("free_host_bytes", 250, 400), ("free_address_bytes", 200, 300)]
)
def test_the_number_that_fits(
    name: str, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"cule.envs.host_memory.{name}", lambda: FREE)
    with pytest.raises(
        OutOfMemoryError, match=r"num_envs is 1000: [\d,]+ bytes are needed"
    ) as error:
        cule.AtariVectorEnv("pong", 1000)
    fit = fitting(error)
    assert least < fit < most
    cule.AtariVectorEnv("pong", fit, num_threads=1).close()
    with pytest.raises(OutOfMemoryError):
        cule.AtariVectorEnv("pong", fit + 1)


def test_ram_observations_and_cached_resets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cule.envs.host_memory.free_host_bytes", lambda: FREE)
    cule.AtariVectorEnv("pong", 1000, obs_type="ram", num_threads=1).close()
    with pytest.raises(OutOfMemoryError, match="for cached resets"):
        cule.AtariVectorEnv("pong", 100, resets="cached", num_reset_states=1000)


def test_a_batch_larger_than_the_machine() -> None:
    with pytest.raises(OutOfMemoryError, match="environments fit"):
        cule.AtariVectorEnv("pong", 1_048_576)


TAKEN = """
import resource, sys
import cule
def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
cule.AtariVectorEnv("pong", 1).reset(seed=0)
before = used()
env = cule.AtariVectorEnv("pong", 200, num_threads=1, **eval(sys.argv[1]))
env.reset(seed=0)
env.step(env.action_space.sample())
print((used() - before) / 200)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read as on Linux")
@pytest.mark.parametrize(
    "options",
    long_except(["{}", "{'stack_num': 16}", "{'low_memory': True}"], "{'stack_num': 16}"),
)
def test_the_estimate_is_what_an_environment_takes(
    options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", TAKEN, options]
    taken = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    monkeypatch.setattr("cule.envs.host_memory.free_host_bytes", lambda: FREE)
    with pytest.raises(OutOfMemoryError) as error:
        cule.AtariVectorEnv("pong", 1000, **eval(options))
    estimate = FREE / fitting(error)
    assert 0.7 * estimate < taken < 1.2 * estimate, (taken, estimate)


def test_low_memory_fits_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cule.envs.host_memory.free_host_bytes", lambda: FREE)
    fit = []
    for low_memory in (False, True):
        with pytest.raises(OutOfMemoryError) as error:
            cule.AtariVectorEnv("pong", 10_000, low_memory=low_memory)
        fit.append(fitting(error))
    assert fit[1] > 1.8 * fit[0]


def test_bounds_of_observations_are_stored_once() -> None:
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    ours, expected = batched_space(space, 3), batch_space(space, 3)
    assert ours == expected
    assert ours.low.strides[0] == ours.high.strides[0] == ours.bounded_above.strides[0] == 0
    ours.seed(1)
    expected.seed(1)
    sample = ours.sample()
    assert np.array_equal(sample, expected.sample())
    assert sample in ours
    assert str(ours) == str(expected)
    space = cule.AtariVectorEnv("pong", 7, num_threads=1).observation_space
    assert space.low.strides[0] == 0
