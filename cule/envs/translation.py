"""A GPU kernel compiled for one game, while the environment runs; kept on disk.

`cule._core.Game.lane_source` writes the kernel's source (csrc/rom_kernel/source.hpp); NVRTC, which
comes with torch's CUDA builds and as the Python package nvidia-cuda-nvrtc, compiles it for one
architecture. What it made is kept under a name that stands for everything it was made of: the ROM,
the sources, the architecture and the compiler. Results are the interpreter's, bit for bit.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import os
import tempfile
import threading
import warnings
from pathlib import Path

from cule import _core
from cule.errors import DeviceError

#: Frames played, and from how many seeds, to find which instructions a game executes.
FRAMES, SEEDS = 600, 4

#: Instructions that are translated, those executed most; more take the compiler too long.
MOST_INSTRUCTIONS = 2000

_OPTIONS = ("-std=c++17", "-fmad=false", "-default-device")


def cache_folder() -> Path:
    """Where compiled kernels are kept: `CULE_CACHE`, or cule in the user's cache folder."""
    named = os.environ.get("CULE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cule"


def device_sources() -> Path:
    """The folder of the C++ that kernels are made of, as it was installed."""
    spec = importlib.util.find_spec("cule._core")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "device"


@functools.cache
def _sources_digest() -> bytes:
    folder = device_sources()
    state = hashlib.sha256(repr((_OPTIONS, FRAMES, SEEDS)).encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        state.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return state.digest()


class Compiler:
    """NVRTC, as found on this machine."""

    def __init__(self) -> None:
        """Load the library."""
        for path in _library_candidates():
            with contextlib.suppress(OSError):
                self._library = ctypes.CDLL(path)
                self._builtins = _load_builtins(Path(path).parent)
                break
        else:
            raise DeviceError(
                "NVRTC, which compiles games for a GPU, was not found; install the Python package "
                "nvidia-cuda-nvrtc, or use kernel='auto' or 'interpreter'"
            )
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, source: str, architecture: str) -> bytes:
        """Machine code of a source for one architecture, such as ``"sm_90"``."""
        folder = device_sources()
        options = [
            *_OPTIONS,
            f"-arch={architecture}",
            f"-I{folder / 'rom_kernel' / 'rtc'}",
            f"-I{folder / 'cuda' / 'device'}",
            f"-I{folder}",
        ]
        nvrtc = self._library
        program = ctypes.c_void_p()
        self._check(
            nvrtc.nvrtcCreateProgram(
                ctypes.byref(program), source.encode(), b"cule_step.cu", 0, None, None
            )
        )
        try:
            array = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
            code = nvrtc.nvrtcCompileProgram(program, len(options), array)
            if code:
                log = self._text(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
                raise DeviceError(
                    f"NVRTC {self.version} for {architecture}: {self._name(code)}: "
                    + log.rstrip(b"\0").decode(errors="replace")[-2000:]
                )
            return self._text(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        finally:
            nvrtc.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, get_size: object, get: object) -> bytes:
        size = ctypes.c_size_t()
        self._check(get_size(program, ctypes.byref(size)))  # type: ignore[operator]
        text = ctypes.create_string_buffer(size.value)
        self._check(get(program, text))  # type: ignore[operator]
        return text.raw

    def _name(self, code: int) -> str:
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return str(self._library.nvrtcGetErrorString(code).decode())

    def _check(self, code: int) -> None:
        if code:
            raise DeviceError(f"NVRTC: {self._name(code)}")


def _library_candidates() -> list[str]:
    """Names and paths of NVRTC, the packages of this Python first."""
    found: list[str] = []
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec is not None else ():
        paths = sorted(Path(root).glob("*/lib/libnvrtc.so.*"), reverse=True)
        found += [str(path) for path in paths if "alt" not in path.name]
    for toolkit in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if toolkit:
            found += [str(path) for path in sorted(Path(toolkit).glob("lib64/libnvrtc.so.*[0-9]"))]
    return [*found, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]


def _load_builtins(folder: Path) -> list[ctypes.CDLL]:
    """What NVRTC loads by name when it compiles, and in some packages does not find by itself."""
    paths = sorted(folder.glob("libnvrtc-builtins.so.*"))
    return [ctypes.CDLL(str(path)) for path in paths if "alt" not in path.name]


@functools.cache
def compiler() -> Compiler:
    """The compiler of this process."""
    return Compiler()


def source_of(game: _core.Game, lanes_per_warp: int) -> str:
    """The source of a game's kernel; one for a single lane per warp has no votes."""
    is_alone = lanes_per_warp == 1
    return game.lane_source(FRAMES, SEEDS, MOST_INSTRUCTIONS, is_alone=is_alone)


def compiled_path(
    game: _core.Game, lanes_per_warp: int, architecture: str, compiler_version: str
) -> Path:
    """Where the kernel of a game is, or will be once it has been compiled."""
    state = hashlib.sha256(_sources_digest())
    made_for = (game.game_id, lanes_per_warp == 1, architecture, compiler_version)
    state.update(repr(made_for).encode() + game.rom)
    return cache_folder() / f"{game.game_id}-{architecture}-{state.hexdigest()[:32]}.cubin"


def translate(game: _core.Game, lanes_per_warp: int, architecture: str) -> Path:
    """A file with the kernel of a game, compiled unless it is on disk already."""
    path = compiled_path(game, lanes_per_warp, architecture, compiler().version)
    if not path.exists():
        code = compiler().compile(source_of(game, lanes_per_warp), architecture)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not at all, whichever other process writes it at the same time.
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as scratch:
            scratch.write(code)
        os.replace(scratch.name, path)
    return path


def warn_of_failure(error: Exception) -> None:
    """Say that a game has no kernel of its own."""
    warnings.warn(
        f"the interpreter kernel continues to run the game: {error}", RuntimeWarning, stacklevel=3
    )


class BackgroundTranslation:
    """A compilation that runs while the interpreter kernel steps the game."""

    def __init__(self, game: _core.Game, lanes_per_warp: int, architecture: str) -> None:
        """Start, unless the kernel is on disk; arguments as for `translate`."""
        wanted = (game, lanes_per_warp, architecture)
        path = compiled_path(*wanted, compiler().version)
        self._path: Path | None = path if path.exists() else None
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        if self._path is None:
            self._thread = threading.Thread(
                target=self._run, args=wanted, name="cule-translation", daemon=True
            )
            self._thread.start()

    def _run(self, game: _core.Game, lanes_per_warp: int, architecture: str) -> None:
        try:
            self._path = translate(game, lanes_per_warp, architecture)
        except (DeviceError, OSError) as error:
            self._error = error

    @property
    def is_done(self) -> bool:
        """Whether `result` is known."""
        return self._thread is None or not self._thread.is_alive()

    def wait(self) -> None:
        """Return once it is done."""
        if self._thread is not None:
            self._thread.join()

    def result(self) -> Path | None:
        """The kernel, once it is done; None, with a warning, if it could not be made."""
        if self._error is not None:
            warn_of_failure(self._error)
        return self._path
