"""Devices: what the keyword ``device`` may say, what it means here, and free memory of the host."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from cule.errors import DeviceError, InvalidArgumentError, shown

if TYPE_CHECKING:
    import torch

#: "auto" chooses a GPU from this many environments on. Reasoned, not measured: below it a GPU's
#: multiprocessors are mostly idle, and a step is bound by the time of one environment.
AUTO_MIN_ENVS = 256

#: The first driver for Linux that runs programs of a CUDA major version. (CUDA Toolkit release
#: notes, minimum required driver version for minor version compatibility.)
OLDEST_DRIVER = {12: "525.60.13", 13: "580.65.06"}


#: Limit, usage and statistics of a container, for both versions of control groups.
CGROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
    ),
)

#: Files that were read or written: the system gives up their memory.
_CACHED = re.compile(r"^(?:in)?active_file (\d+)$", re.MULTILINE)


@functools.cache
def cuda_module() -> ModuleType | None:
    """The native module `cule._cuda`; None where it has not been built."""
    if importlib.util.find_spec("cule._cuda") is None:
        return None
    return importlib.import_module("cule._cuda")


def resolve_device(device: object, num_envs: int = 1) -> str:
    """The device that a request means: ``"cpu"``, or ``"cuda:<number>"``.

    Args:
        device: ``"cpu"``, ``"cuda"`` (torch's current device), ``"cuda:1"``, ``"auto"``, or a
            ``torch.device``.
        num_envs: Environments of the batch; decides "auto".

    Raises:
        InvalidArgumentError: `device` is none of these.
        DeviceError: The device or its back end is missing; the message says what would help.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(device, torch.device):
        device = str(device)
    if not isinstance(device, str) or not re.fullmatch(r"auto|cpu(:0)?|cuda(:\d+)?", device):
        raise InvalidArgumentError(
            f"device is {shown(device)}; it must be 'cpu', 'cuda', 'cuda:<number>', 'auto' or a "
            "torch.device"
        )
    if device == "auto":
        enough = num_envs >= AUTO_MIN_ENVS
        device = "cuda" if enough and unavailable_reason("cuda") is None else "cpu"
    if not device.startswith("cuda"):
        return "cpu"
    reason = unavailable_reason(device)
    if reason is not None:
        raise DeviceError(f"device is {shown(device)}, but {reason}")
    return f"cuda:{_index_of(device)}"


def torch_device(device: str | torch.device) -> torch.device:
    """The torch.device of a name."""
    import torch

    return torch.device(device)


def describe_devices() -> list[str]:
    """One line for the CUDA backend, and one for each GPU that torch sees."""
    native = cuda_module()
    if native is None:
        return ["CUDA backend: not built in"]
    lines = [f"CUDA backend: toolkit {native.TOOLKIT}, architectures {native.ARCHITECTURES}"]
    if driver := native.driver_version():
        lines.append(f"driver: supports CUDA {_version(driver)}")
    reason = unavailable_reason("cuda")
    if reason is not None:
        return [*lines, f"GPU: none usable; {reason}"]
    import torch

    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        lines.append(
            f"cuda:{index}: {properties.name}, sm_{properties.major}{properties.minor}, "
            f"{properties.multi_processor_count} multiprocessors, "
            f"{properties.total_memory / 2**30:.0f} GiB"
        )
    return lines


def _index_of(device: str) -> int:
    import torch

    _, _, number = device.partition(":")
    return int(number) if number else torch.cuda.current_device()


def unavailable_reason(device: str) -> str | None:
    """Why a CUDA device cannot be used, and what would help; None where it can."""
    native = cuda_module()
    if native is None:
        return (
            "the CUDA backend is not built in: install cule where there are nvcc and a GPU, or "
            "with CULE_CUDA_ARCHITECTURES set to the architecture of the GPU, such as 90 "
            "(docs/cuda.md), or use device='cpu'"
        )
    try:
        import torch
    except ImportError as error:
        return f"torch cannot be imported ({error}); results on a GPU are torch tensors"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA; install a CUDA build of torch"
    if not torch.cuda.is_available():
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call]
        except (RuntimeError, AssertionError) as error:
            reason = f"torch finds no usable GPU: {str(error).splitlines()[0]}"
            return reason + _driver_advice(native.driver_version(), torch.version.cuda, "torch")
        return "torch finds no GPU"
    reason = native.unavailable_reason()
    if reason is not None:
        advice = _driver_advice(native.driver_version(), native.TOOLKIT, "cule")
        return f"the CUDA runtime built in, {native.TOOLKIT}, finds no usable GPU: {reason}{advice}"
    index = _index_of(device)
    count = torch.cuda.device_count()
    if index >= count:
        return f"there are {count} GPUs here: cuda:0 to cuda:{count - 1}"
    return _architecture_problem(native.ARCHITECTURES, torch.cuda.get_device_capability(index))


def _driver_advice(driver: int, cuda: str, package: str) -> str:
    """Advice where the driver is too old for a package built with this CUDA; else nothing.

    A driver runs programs of all minor versions of the major versions that it supports. `driver`:
    1000 major + 10 minor.
    """
    supported, major = driver // 1000, int(cuda.partition(".")[0])
    if driver == 0 or supported >= major:
        return ""
    oldest = OLDEST_DRIVER.get(major)
    advice = f"update the driver to {oldest} or later" if oldest else "update the driver"
    if supported in OLDEST_DRIVER and package == "torch":
        advice += f", or install a torch wheel built with CUDA {supported}"
    elif supported in OLDEST_DRIVER:
        advice += f", or build cule with nvcc {supported} (CUDACXX=/path/to/nvcc pip install .)"
    return (
        f"; the driver supports CUDA {_version(driver)}, and {package} is built with {cuda}: "
        f"{advice}"
    )


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _architecture_problem(built_in: str, capability: tuple[int, int]) -> str | None:
    """Why no kernel in the module runs on a device of this compute capability.

    Machine code runs on its own architecture and later ones of the same major number, PTX on all
    from its own on. (CUDA C++ Programming Guide, Binary and PTX Compatibility.)
    """
    number = 10 * capability[0] + capability[1]
    for entry in built_in.split():
        match = re.fullmatch(r"(\d+)[af]?(-real|-virtual)?", entry)
        if match is None:
            continue
        built, kind = int(match[1]), match[2]
        if kind != "-virtual" and built // 10 == capability[0] and built <= number:
            return None
        if kind != "-real" and built <= number:
            return None
    return (
        f"its architecture sm_{number} is none of those built in ({built_in}); build "
        f"cule with CULE_CUDA_ARCHITECTURES={number}"
    )


def free_host_bytes() -> int:
    """Bytes that the machine and its container have left."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        free = int(re.search(r"MemAvailable:\s+(\d+) kB", text)[1]) * 1024  # type: ignore[index]
    except (OSError, TypeError):
        free = _physical_bytes()
    for limit_file, usage_file, statistics_file in CGROUP_FILES:
        try:
            limit = int(Path(limit_file).read_text(encoding="ascii"))
            used = int(Path(usage_file).read_text(encoding="ascii"))
        except (OSError, ValueError):  # no such file, or the word "max"
            continue
        free = min(free, limit - used + _cached_bytes(Path(statistics_file)))
    return max(free, 0)


def free_device_bytes(device: torch.device) -> int:
    """Bytes that a GPU and torch's allocator have left; those of the host for a CPU."""
    if device.type != "cuda":
        return free_host_bytes()
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    # The driver counts what torch holds in reserve as used; a new tensor can use it.
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free) + idle


def free_address_bytes() -> int:
    """Bytes that this process may still map, by ``ulimit -v``, whether it touches them or not."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        mapped_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return sys.maxsize
    return max(limit - mapped_pages * resource.getpagesize(), 0)


def _physical_bytes() -> int:
    if sys.platform == "win32":
        return sys.maxsize
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cached_bytes(statistics: Path) -> int:
    try:
        return sum(map(int, _CACHED.findall(statistics.read_text(encoding="ascii"))))
    except OSError:
        return 0
