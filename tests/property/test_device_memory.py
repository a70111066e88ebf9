"""Memory of a GPU: what is said to fit does, and what is freed is not in use."""

from __future__ import annotations

import gc
import itertools
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import cule
from cule.envs.device_memory import MemoryEstimate, pool_slots
from cule.errors import OutOfDeviceMemoryError
from tests.support import kernels
from tests.support.cases import long_except
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
    long_except(
        [{"autoreset_mode": "SameStep"}, {"autoreset_mode": "NextStep"}, {"obs_type": "ram"}],
        {"autoreset_mode": "SameStep"},
    ),
    ids=["SameStep", "NextStep", "ram"],
)
def test_as_many_environments_as_are_said_to_fit_do(options: dict[str, Any]) -> None:
    """With the results of two steps alive; and 1% more are refused beforehand."""
    with fake_cuda(memory_bytes=MEMORY_BYTES):
        fit = environments_that_fit(20_000, **options)
        assert fit <= environments_that_fit(fit + -(-fit // 100), **options) < 1.01 * fit
        quick = {"num_reset_states": 1, "frameskip": 1}
        env = cule.AtariVectorEnv("pong", fit, device="cuda", **quick, **options)
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
    counted = re.search(
        r"\(([\d,]+) of state, ([\d,]+) of the results of 2 steps\) and ([\d,]+) for pictures",
        str(caught.value),
    )
    assert counted is not None
    state, of_steps, pool = (int(number.replace(",", "")) for number in counted.groups())
    assert state > 4 * 84 * 84
    assert results < of_steps < results + 256
    assert pool == 4096 * (4 * 210 * 160 + 4)
    pool = kernels.module().reserve_local_memory(0)
    assert f"local memory of kernels takes {pool:,} already" in str(caught.value)


@pytest.mark.parametrize(
    ("num_envs", "short_frame_envs", "slots"),
    [
        *((1, 0, 1), (4096, 0, 4096), (4097, 0, 4096), (65_536, 0, 4096), (100_000, 0, 6250)),
        *((5000, 500, 4596), (5000, 5000, 5000)),
    ],
)
def test_slots_for_pictures_that_cannot_stay_logs(
    num_envs: int, short_frame_envs: int, slots: int
) -> None:
    assert pool_slots(num_envs, short_frame_envs) == slots


@pytest.mark.parametrize(("room", "slots"), [(32_767, 4096), (32_768, 32_768), (10**6, 32_768)])
def test_slots_are_on_the_device_where_all_fit_in_a_part_of_it(room: int, slots: int) -> None:
    assert pool_slots(32_768, 0, room) == slots


@pytest.mark.long
def test_host_memory_is_pinned_only_for_what_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 slots take 0.7 GB, a quarter of 2.7 GB."""
    from cule.envs import cuda_batch

    for free, is_pinned in ((2_600_000_000, True), (2_800_000_000, False)):
        with fake_cuda(), monkeypatch.context() as patch:
            patch.setattr(cuda_batch, "free_device_bytes", lambda device, free=free: free)
            env = cule.AtariVectorEnv("pong", 5000, device="cuda", num_reset_states=1, stack_num=1)
            assert (env._batch._reserve is not None) == is_pinned
            env.close()


@pytest.mark.parametrize(("kernel", "least"), [("interpreter", 0), ("auto", 2592)])
def test_local_memory_of_compiled_kernels_is_counted(kernel: str, least: int) -> None:
    with fake_cuda():
        asked: list[int] = []
        reserve = kernels.module().reserve_local_memory
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                kernels.module(),
                "reserve_local_memory",
                lambda size: asked.append(size) or reserve(size),
            )
            cule.AtariVectorEnv("pong", 1, device="cuda", kernel=kernel).close()
        own = max(found["local_bytes"] for found in kernels.module().kernel_resources())
        assert max(asked) == max(own, least)


def test_an_estimate_for_more_environments_than_slots() -> None:
    """The largest number that fits needs at most what is free, and one more needs more."""
    numbers = {"batch_bytes": 10_000_000_000, "console_bytes": 50_000, "slot_bytes": 134_400}
    estimate = MemoryEstimate(
        num_envs=200_000, short_frame_envs=100, room=0, results_bytes=30_000, **numbers
    )
    for free, room in itertools.product(
        (10**8, 10**9, 3 * 10**9, 20 * 10**9), (0, 4000, 6000, 50_000, 10**6)
    ):
        estimate = replace(estimate, room=room)
        fit = estimate.fit(free)
        of_fit, of_more = (
            replace(
                estimate,
                num_envs=n,
                short_frame_envs=-(-100 * n // 200_000),
                batch_bytes=50_000 * n,
            ).needed_bytes
            for n in (max(fit, 1), fit + 1)
        )
        assert fit == 0 or of_fit <= free < of_more


def make_env(**options: Any) -> cule.AtariVectorEnv:
    env = cule.AtariVectorEnv("pong", 2, device="cuda", num_reset_states=1, **options)
    env.reset(seed=1)
    return env


@pytest.mark.parametrize("is_closed", [False, True])
def test_memory_that_a_kernel_of_another_stream_uses_is_not_given_away(is_closed: bool) -> None:
    with fake_cuda() as gpu:
        side, env = torch.cuda.Stream(), make_env()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            env.step(torch.zeros(2, dtype=torch.int64, device="cuda"))
        gpu.waits.clear()
        if is_closed:
            env.close()
        del env
        gc.collect()
        assert len(gpu.waits) == is_closed  # garbage is collected anywhere, so it may not wait
        torch.zeros(3, device="cuda")


class TestFailedKernel:
    """After a kernel has failed, CUDA refuses every call of the process."""

    @pytest.fixture(autouse=True)
    def gpu(self) -> Iterator[None]:
        with fake_cuda():
            yield

    @staticmethod
    def fail(patch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError("CUDA error: unspecified launch failure\nCompile with TORCH_USE_...")

        def refuse(*_: Any) -> None:
            raise kernels.module().LaunchError("a kernel: unspecified launch failure")

        for place, name in (
            *((torch.cuda, name) for name in ("synchronize", "Stream")),
            *((torch.Tensor, name) for name in ("cpu", "copy_", "to")),
            *((torch, name) for name in ("empty", "zeros")),
        ):
            patch.setattr(place, name, fail)
        for name in ("step", "reset", "observe", "gather_snapshots", "draw_screens"):
            patch.setattr(kernels.module().Batch, name, refuse)

    @pytest.mark.parametrize(
        "call",
        [
            lambda env: env.step(torch.zeros(2, dtype=torch.int64, device="cuda")),
            lambda env: env.step(np.zeros(2, np.int64)),
            lambda env: env.step_frames(np.zeros(2, np.int64)),
            lambda env: env.reset(seed=2),
            lambda env: env.get_state(),
            lambda env: env.screens(),
            lambda env: np.asarray(env.ram),
        ],
    )
    def test_calls_say_so_and_close_does_not(
        self, call: Callable[[cule.AtariVectorEnv], object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        env = make_env(output="numpy")
        memory = weakref.ref(env._batch._memory)
        with monkeypatch.context() as patch:
            zeros = torch.zeros
            self.fail(patch)
            patch.setattr(torch, "zeros", zeros)  # the test's own
            with pytest.raises(cule.DeviceError, match=r"launch failure; .* start a new process$"):
                call(env)
            env.close()
        assert memory() is None
        with pytest.raises(cule.CuleError, match="has been closed"):
            call(env)

    def test_an_environment_that_is_not_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        env = make_env()
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("error")
            self.fail(patch)
            patch.setattr(type(env._batch._home), "wait_stream", torch.cuda.synchronize)
            memory = weakref.ref(env._batch._memory)
            del env
            gc.collect()
        assert memory() is None
