"""NVRTC, which compiles CUDA C++ while a program runs, and nvJitLink, which links what it makes.

They come with torch's CUDA builds, with toolkits, and as the Python packages nvidia-cuda-nvrtc and
nvidia-nvjitlink. Each compilation is a process of its own with low priority: this file, run as a
script. So it takes no time from a program's threads, ends with the program, and can crash alone.

In: a source, options. Out: machine code or PTX. Errors are `DeviceError`s.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import functools
import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

#: Toolkit versions, as (major, minor).
Version = tuple[int, int]
_Function = Callable[..., int]  # of a library of CUDA


@dataclasses.dataclass(frozen=True)
class Toolkit:
    """One NVRTC on this machine."""

    nvrtc: str
    """Path of the library, or the name that the system finds it by."""

    linker: str | None
    """nvJitLink that links what this NVRTC makes. None: there is none."""

    version: Version
    """Of NVRTC."""

    architectures: tuple[int, ...]
    """Compute capabilities that NVRTC compiles machine code for: 90 is sm_90."""

    def __str__(self) -> str:
        """Version and where it is, for people."""
        linker = "no nvJitLink" if self.linker is None else "with nvJitLink"
        return f"{self.version[0]}.{self.version[1]} ({self.nvrtc}), {linker}"


class Job:
    """A compilation or a link that runs in its own process; it is killed if this one ends."""

    def __init__(self, **request: object) -> None:
        """Start; `request` is for `_serve`."""
        command = [sys.executable, "-I", "-S", __file__]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        atexit.register(self._process.kill)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `result` says why it ended
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()

    def result(self) -> bytes:
        """Code that it made; waits for it."""
        from cule.errors import DeviceError

        code, messages = self._process.communicate()
        atexit.unregister(self._process.kill)
        if self._process.returncode == 0:
            return code
        said = messages.decode(errors="replace").strip()[-2000:]
        raise DeviceError(said or f"the compiler ended with exit status {self._process.returncode}")


def compile_code(
    toolkit: Toolkit, source: str, options: list[str], architecture: int, linkable: bool = False
) -> Job:
    """A source for one architecture: machine code, or PTX where NVRTC knows only older ones.

    `linkable` code needs `link_code`.
    """
    known = [number for number in toolkit.architectures if number <= architecture]
    is_known = architecture in known
    made_for = f"sm_{architecture}" if is_known or not known else f"compute_{max(known)}"
    return Job(
        library=toolkit.nvrtc,
        source=source,
        options=[*options, f"-arch={made_for}", *(["-rdc=true"] if linkable else [])],
        product="CUBIN" if made_for.startswith("sm") else "PTX",
    )


def link_code(toolkit: Toolkit, objects: list[bytes], architecture: int) -> Job:
    """Machine code of linkable parts."""
    assert toolkit.linker is not None
    return Job(
        library=toolkit.linker,
        objects=objects,
        options=[f"-arch=sm_{architecture}"],
        version=toolkit.version,
    )


@functools.cache
def find_toolkits() -> tuple[Toolkit, ...]:
    """Every NVRTC of this machine, those of this Python first."""
    found: dict[tuple[Version, tuple[int, ...]], Toolkit] = {}
    linkers = _library_candidates("nvJitLink")
    for path in _library_candidates("nvrtc"):
        with contextlib.suppress(OSError, AttributeError, RuntimeError):
            library = ctypes.CDLL(path)
            version = _version_of(library)
            linker = next((name for name in linkers if _can_link(name, version)), None)
            toolkit = Toolkit(path, linker, version, _architectures_of(library))
            found.setdefault((version, toolkit.architectures), toolkit)
    return tuple(found.values())


def choose_toolkit(
    toolkits: tuple[Toolkit, ...], torch_cuda: str | None, driver: Version | None
) -> Toolkit | None:
    """The toolkit to use; None if there is none.

    A driver loads code of its own toolkit and of older ones, and machine code of newer ones with
    the same major version. Of what it loads, that of torch's own major version comes first, then
    the newest that is not newer than the driver.

    Args:
        toolkits: Those of this machine.
        torch_cuda: As `torch.version.cuda`.
        driver: Newest CUDA version of the driver. None: unknown.
    """
    newest = (99, 0) if driver is None else driver
    torch_major = int(torch_cuda.partition(".")[0]) if torch_cuda else None

    def rank(toolkit: Toolkit) -> tuple[bool, bool, bool, Version]:
        version = toolkit.version
        loads = version[0] <= newest[0]
        return loads, version[0] == torch_major, version <= newest, version

    return max(toolkits, key=rank, default=None)


def _library_candidates(name: str) -> list[str]:
    """Paths and names of a library of CUDA, the packages of this Python first."""
    found: list[str] = []
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        paths = sorted(Path(root).glob(f"*/lib/lib{name}.so.*"), reverse=True)
        found += [str(path) for path in paths if "alt" not in path.name]
    for toolkit in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if toolkit:
            paths = sorted(Path(toolkit).glob(f"lib64/lib{name}.so.*[0-9]"))
            found += [str(path) for path in paths]
    return [*found, f"lib{name}.so.13", f"lib{name}.so.12", f"lib{name}.so"]


def _version_of(library: ctypes.CDLL) -> Version:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
    return major.value, minor.value


def _architectures_of(library: ctypes.CDLL) -> tuple[int, ...]:
    count = ctypes.c_int()
    _check(library.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
    numbers = (ctypes.c_int * count.value)()
    _check(library.nvrtcGetSupportedArchs(numbers), "nvrtcGetSupportedArchs")
    return tuple(sorted(numbers))


def _can_link(path: str, version: Version) -> bool:
    """Whether an nvJitLink is there and as new as an NVRTC: its functions have versions."""
    try:
        return hasattr(ctypes.CDLL(path), f"__nvJitLinkCreate_{version[0]}_{version[1]}")
    except OSError:
        return False


# --- In the process of a job ----------------------------------------------------------------------


def _serve() -> None:
    """Do what `Job` asks for on standard input; the result goes to standard output."""
    with contextlib.suppress(AttributeError):  # not on Windows
        os.nice(10)
    request = pickle.load(sys.stdin.buffer)  # noqa: S301, from `Job`
    try:
        code = _link(**request) if "objects" in request else _compile(**request)
    except RuntimeError as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(code)


def _compile(library: str, source: str, options: list[str], product: str) -> bytes:
    nvrtc = ctypes.CDLL(library)
    # NVRTC loads these by name when it compiles, and in some packages does not find them.
    builtins = sorted(Path(library).parent.glob("libnvrtc-builtins.so.*"))
    loaded = [ctypes.CDLL(str(path)) for path in builtins if "alt" not in path.name]
    version = ".".join(map(str, _version_of(nvrtc)))
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"cule_step.cu", 0, None, None
    )
    _check(status, "nvrtcCreateProgram")
    texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    status = nvrtc.nvrtcCompileProgram(program, len(options), texts)
    if status:
        log = _read(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        name = nvrtc.nvrtcGetErrorString(status).decode()
        said = log.rstrip(b"\0").decode(errors="replace")
        raise RuntimeError(f"NVRTC {version}: {name}: {' '.join(options[-2:])}: {said}")
    del loaded
    get_size = getattr(nvrtc, f"nvrtcGet{product}Size")
    return _read(program, get_size, getattr(nvrtc, f"nvrtcGet{product}"))


def _link(library: str, objects: list[bytes], options: list[str], version: Version) -> bytes:
    linker = ctypes.CDLL(library)

    def function(name: str) -> _Function:
        entry: _Function = getattr(linker, f"__nvJitLink{name}_{version[0]}_{version[1]}")
        return entry

    handle = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    _check(function("Create")(ctypes.byref(handle), len(options), texts), "nvJitLinkCreate")
    cubin = 1  # NVJITLINK_INPUT_CUBIN
    status = 0
    for number, code in enumerate(objects):
        size, name = ctypes.c_size_t(len(code)), f"part {number}".encode()
        status = status or function("AddData")(handle, cubin, code, size, name)
    status = status or function("Complete")(handle)
    if status:
        log = _read(handle, function("GetErrorLogSize"), function("GetErrorLog"))
        said = log.rstrip(b"\0").decode(errors="replace")
        raise RuntimeError(f"nvJitLink {version[0]}.{version[1]}: error {status}: {said}")
    return _read(handle, function("GetLinkedCubinSize"), function("GetLinkedCubin"))


def _read(handle: ctypes.c_void_p, get_size: _Function, get: _Function) -> bytes:
    size = ctypes.c_size_t()
    _check(get_size(handle, ctypes.byref(size)), "size")
    text = ctypes.create_string_buffer(size.value)
    _check(get(handle, text), "result")
    return text.raw


def _check(status: int, what: str) -> None:
    if status:
        raise RuntimeError(f"{what}: error {status}")


if __name__ == "__main__":
    _serve()
