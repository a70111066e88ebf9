"""What is said where a device cannot be used, and which devices the built architectures cover."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cule import device
from cule.errors import DeviceError, InvalidArgumentError


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine with one GPU of compute capability 9.0 and everything built for it."""
    state = SimpleNamespace(capability=(9, 0), count=1, available=True, error=None)

    def init() -> None:
        if state.error is not None:
            raise RuntimeError(state.error)

    native = SimpleNamespace(
        ARCHITECTURES="75-real 80-real 90-real 90-virtual",
        TOOLKIT="13.0",
        unavailable_reason=lambda: None,
        driver_version=lambda: 13000,
    )
    monkeypatch.setattr(device, "cuda_module", lambda: native)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for name, value in {
        "is_available": lambda: state.available,
        "init": init,
        "device_count": lambda: state.count,
        "current_device": lambda: 0,
        "get_device_capability": lambda index: state.capability,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    state.native = native
    return state


def message(of: Any = "cuda") -> str:
    with pytest.raises(DeviceError) as caught:
        device.resolve_device(of)
    return str(caught.value)


def test_a_device_that_is_there(machine: SimpleNamespace) -> None:
    assert device.resolve_device("cuda") == "cuda:0"
    assert device.resolve_device(torch.device("cuda", 0)) == "cuda:0"
    assert device.resolve_device("auto", device.AUTO_MIN_ENVS) == "cuda:0"
    assert device.resolve_device("auto", device.AUTO_MIN_ENVS - 1) == "cpu"


def test_no_such_device(machine: SimpleNamespace) -> None:
    assert "device is 'cuda:3', but there are 1 GPUs here: cuda:0 to cuda:0" in message("cuda:3")


@pytest.mark.parametrize(
    ("driver", "toolkit", "advice"),
    [
        (
            12040,
            "13.0.88",
            "the driver supports CUDA 12.4, and cule is built with 13.0.88: update the driver to "
            "580.65.06 or later, or build cule with nvcc 12 (CUDACXX=/path/to/nvcc pip install .)",
        ),
        (
            11080,
            "12.4.131",
            "the driver supports CUDA 11.8, and cule is built with 12.4.131: update the driver to "
            "525.60.13 or later",
        ),
        (13000, "14.1.2", "update the driver, or build cule with nvcc 13"),
        (12000, "12.9.86", None),
        (0, "13.0.88", None),
    ],
)
def test_the_driver_is_too_old_for_the_runtime_built_in(
    machine: SimpleNamespace, driver: int, toolkit: str, advice: str | None
) -> None:
    reason = "CUDA driver version is insufficient for CUDA runtime version"
    machine.native.unavailable_reason = lambda: reason
    machine.native.driver_version = lambda: driver
    machine.native.TOOLKIT = toolkit
    words = f"the CUDA runtime built in, {toolkit}, finds no usable GPU: {reason}"
    if advice is None:
        assert message().endswith(words)
    else:
        assert f"{words}; " in message()
        assert advice in message()
    assert device.resolve_device("auto", device.AUTO_MIN_ENVS) == "cpu"
    driver_lines = [line for line in device.describe_devices() if line.startswith("driver")]
    version = f"{driver // 1000}.{driver % 1000 // 10}"
    assert driver_lines == ([f"driver: supports CUDA {version}"] if driver else [])


def test_not_built_in(machine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "cuda_module", lambda: None)
    assert "the CUDA backend is not built in" in message()
    assert device.describe_devices() == ["CUDA backend: not built in"]


def test_torch_without_cuda(machine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "is built without CUDA; install a CUDA build of torch" in message()


@pytest.mark.parametrize(
    "error",
    [
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "The NVIDIA driver on your system is too old (found version 11040). Please update",
    ],
)
def test_no_driver_or_an_old_one(machine: SimpleNamespace, error: str) -> None:
    machine.available = False
    machine.error = error
    machine.native.driver_version = lambda: 0
    assert message() == f"device is 'cuda', but torch finds no usable GPU: {error}"
    assert device.resolve_device("auto", 1 << 20) == "cpu"


def test_the_driver_is_too_old_for_torch(machine: SimpleNamespace) -> None:
    machine.available = False
    machine.error = "The NVIDIA driver on your system is too old (found version 12040)"
    machine.native.driver_version = lambda: 12040
    assert message() == (
        f"device is 'cuda', but torch finds no usable GPU: {machine.error}; the driver supports "
        "CUDA 12.4, and torch is built with 13.0: update the driver to 580.65.06 or later, or "
        "install a torch wheel built with CUDA 12"
    )


@pytest.mark.parametrize(
    ("built", "capability", "runs"),
    [
        ("90-real", (9, 0), True),
        ("90-real", (8, 9), False),
        ("80-real", (8, 6), True),
        ("86-real", (8, 0), False),
        ("90-real", (10, 0), False),
        ("90-real 90-virtual", (12, 0), True),
        ("75-real 120-virtual", (9, 0), False),
        ("90", (9, 0), True),
        ("90", (10, 0), True),
        ("100f-real", (10, 3), True),
    ],
)
def test_architectures(
    machine: SimpleNamespace, built: str, capability: tuple[int, int], runs: bool
) -> None:
    machine.native.ARCHITECTURES = built
    machine.capability = capability
    if runs:
        assert device.resolve_device("cuda") == "cuda:0"
    else:
        number = 10 * capability[0] + capability[1]
        assert f"its architecture sm_{number} is none of those built in ({built})" in message()
        assert f"CULE_CUDA_ARCHITECTURES={number}" in message()


@pytest.mark.parametrize("wrong", ["gpu", "cuda:", "cuda:-1", "cuda:x", 3, None, "CUDA"])
def test_no_device_at_all(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="device is"):
        device.resolve_device(wrong)
