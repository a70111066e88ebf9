"""A GPU kernel compiled for one game, while the environments run; kept on disk.

`cule._core.Game.lane_source` writes the source of a game's parts (csrc/rom_kernel/source.hpp).
NVRTC compiles it, and nvJitLink links it with what is the same for all games (`cule.envs.nvrtc`);
`cule.envs.kernel_cache` keeps both. Results are the interpreter's, bit for bit. Without a kernel of
its own, for whatever reason, a game is interpreted.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from cule import _core
from cule.device import cuda_module
from cule.envs import kernel_cache
from cule.envs.nvrtc import (
    Job,
    Toolkit,
    Version,
    choose_toolkit,
    compile_code,
    find_toolkits,
    link_code,
)
from cule.errors import DeviceError, warn

#: Frames played, and from how many seeds, to find which instructions a game executes.
FRAMES, SEEDS = 600, 4

#: Instructions that are translated, those executed most: of the kernel, and of a first one that is
#: ready sooner.
MOST_INSTRUCTIONS, FIRST_INSTRUCTIONS = 8000, 400

#: What makes the source of a game's parts that of a whole kernel.
WHOLE = '#include "rom_kernel/kernel.hpp"\n'

_OPTIONS = ("-std=c++17", "-fmad=false", "-default-device")

#: What is linked is compiled for the registers of the kernel that calls it; without this,
#: NVRTC 13.0 can give functions more than their caller has, which ptxas refuses.
_LINKED_OPTIONS = (f"-maxrregcount={_core.LANE_PART_REGISTERS}", "-DCULE_LINKED_PARTS")


class MissingCompilerError(DeviceError):
    """There is no NVRTC."""


def device_sources() -> Path:
    """The folder of the C++ that kernels are made of, as it was installed."""
    spec = importlib.util.find_spec("cule._core")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "device"


@functools.cache
def _sources_digest() -> str:
    folder = device_sources()
    options = (_OPTIONS, _LINKED_OPTIONS, FRAMES, SEEDS, MOST_INSTRUCTIONS)
    state = hashlib.sha256(repr(options).encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        state.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return state.hexdigest()


@functools.cache
def toolkit() -> Toolkit:
    """The compiler of this process."""
    found = choose_toolkit(find_toolkits(), _torch_cuda(), _driver_version())
    if found is None:
        raise MissingCompilerError(
            "NVRTC, which compiles games for a GPU, was not found; install the Python package "
            "nvidia-cuda-nvrtc, or use kernel='auto' or 'interpreter'"
        )
    return found


def describe_compilers() -> str:
    """One line: which NVRTC compiles games, and which others there are."""
    try:
        used = toolkit()
    except MissingCompilerError:
        return "not found; games on a GPU are interpreted"
    others = [str(other) for other in find_toolkits() if other != used]
    return str(used) + (f"; not used: {', '.join(others)}" if others else "")


def _torch_cuda() -> str | None:
    torch = sys.modules.get("torch")  # a batch on a GPU has imported it
    return None if torch is None else torch.version.cuda


def _driver_version() -> Version | None:
    native = cuda_module()
    number = 0 if native is None else native.driver_version()
    return (number // 1000, number % 1000 // 10) if number else None


def source_of(game: _core.Game, lanes_per_warp: int, most: int | None = None) -> str:
    """The source of a game's parts; one for a single lane per warp has no votes."""
    is_alone = lanes_per_warp == 1
    return game.lane_source(FRAMES, SEEDS, most or MOST_INSTRUCTIONS, is_alone=is_alone)


def compile_source(source: str, architecture: int, linkable: bool = False) -> Job:
    """Compile a source that includes headers of `device_sources` for 90, which is sm_90."""
    folder = device_sources()
    include = [folder / "rom_kernel" / "rtc", folder / "cuda" / "device", folder]
    linked = _LINKED_OPTIONS if linkable else ()
    every = [*_OPTIONS, *linked, *(f"-I{path}" for path in include)]
    return compile_code(toolkit(), source, every, architecture, linkable)


class Wanted:
    """A kernel to make: for a game, lanes per warp and an architecture, 90 for sm_90."""

    def __init__(self, game: _core.Game, lanes_per_warp: int, architecture: int) -> None:
        """Find out what its file on disk must have been made for."""
        self.game, self.lanes_per_warp, self.architecture = game, lanes_per_warp, architecture
        self.name = f"{game.game_id}-sm_{architecture}"
        self._shared_name = f"all-games-sm_{architecture}"
        self._for_all_games = {
            "lanes": "one" if lanes_per_warp == 1 else "several",
            "architecture": str(architecture),
            "nvrtc": "{}.{}".format(*toolkit().version),
            "sources": _sources_digest(),
        }
        self.made_for = {
            "game": game.game_id,
            "rom": hashlib.sha256(game.rom).hexdigest(),
            **self._for_all_games,
        }

    @property
    def path(self) -> Path:
        """The file of the kernel."""
        return kernel_cache.path_of(self.name, self.made_for)

    @property
    def shared_path(self) -> Path:
        """The file of what is the same for all games."""
        return kernel_cache.path_of(self._shared_name, self._for_all_games)

    def load(self) -> bytes | None:
        """The kernel on disk, if there is one."""
        return kernel_cache.load(self.name, self.made_for)

    def compile(self, publish: Callable[[bytes], None] | None = None) -> bytes:
        """Make it. `publish`, if given, first gets a kernel of the hottest instructions alone."""
        tools = toolkit()
        source = source_of(self.game, self.lanes_per_warp)
        if tools.linker is None or self.architecture not in tools.architectures:
            return self.compile_as_one()
        shared = self.shared_part()
        if publish is not None:
            first = source_of(self.game, self.lanes_per_warp, FIRST_INSTRUCTIONS)
            if first != source:
                publish(self._link(shared(), self._compile_parts(first)))
        parts = self._compile_parts(source)
        return self._link(shared(), parts)

    def compile_as_one(self) -> bytes:
        """The same kernel without a linker, or PTX where NVRTC does not know the architecture."""
        source = source_of(self.game, self.lanes_per_warp) + WHOLE
        return compile_source(source, self.architecture).result()

    def _compile_parts(self, source: str) -> Job:
        return compile_source(source, self.architecture, linkable=True)

    def _link(self, shared: bytes, parts: Job) -> bytes:
        return link_code(toolkit(), [shared, parts.result()], self.architecture).result()

    def shared_part(self) -> Callable[[], bytes]:
        """Code that all games share, from disk or being compiled; the call waits for it."""
        name = self._shared_name
        with contextlib.suppress(OSError):
            code = kernel_cache.load(name, self._for_all_games)
            if code is not None:
                return lambda: code
        source = _core.lane_kernel_source(is_alone=self.lanes_per_warp == 1)
        job = compile_source(source, self.architecture, linkable=True)

        @functools.cache
        def wait() -> bytes:
            made = job.result()
            with contextlib.suppress(OSError):  # `Translation` says so of the kernel
                kernel_cache.store(name, self._for_all_games, made)
            return made

        return wait

    def store(self, code: bytes) -> None:
        """Keep it on disk."""
        kernel_cache.store(self.name, self.made_for, code)


def translate(
    game: _core.Game,
    lanes_per_warp: int,
    architecture: int,
    publish: Callable[[bytes], None] | None = None,
) -> bytes:
    """The kernel of a game, compiled unless it is on disk already; arguments as for `Wanted`."""
    wanted = Wanted(game, lanes_per_warp, architecture)
    code = wanted.load()
    if code is None:
        code = wanted.compile(publish)
        wanted.store(code)
    return code


_warned: set[str] = set()


def warn_once(message: str) -> None:
    """A warning, the first time that a process has this reason for it."""
    if message not in _warned:
        _warned.add(message)
        warn(message, RuntimeWarning)


def _failure(error: Exception) -> str:
    reason = str(error) or type(error).__name__
    return f"the interpreter kernel continues to run the game: {reason}"


class Translation:
    """A kernel from disk, or a compilation while the interpreter kernel steps the game."""

    def __init__(self, game: _core.Game, lanes_per_warp: int, architecture: int) -> None:
        """Start, unless the kernel is on disk; arguments as for `Wanted`.

        Raises:
            MissingCompilerError: There is no NVRTC.
        """
        self._codes: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._problems: list[str] = []
        self._thread: threading.Thread | None = None
        toolkit()
        try:
            self._wanted = Wanted(game, lanes_per_warp, architecture)
        except Exception as error:  # whatever it is, the game runs
            self._problems.append(_failure(error))
            return
        code = self._load()
        self._is_from_disk = code is not None
        if code is None:
            self._start()
        else:
            self._codes.put(code)

    def _load(self) -> bytes | None:
        try:
            return self._wanted.load()
        except OSError as error:
            self._problems.append(f"compiled kernels cannot be read from disk: {error}")
            return None

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="cule-translation", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            code = self._wanted.compile(self._codes.put)
        except Exception as error:
            self._problems.append(_failure(error))
            return
        try:
            self._wanted.store(code)  # first, so that `reject` deletes it
        except OSError as error:
            self._problems.append(f"compiled kernels cannot be kept on disk: {error}")
        self._codes.put(code)

    @property
    def is_done(self) -> bool:
        """Whether nothing will follow what there is to `take`."""
        return self._thread is None or not self._thread.is_alive()

    @property
    def has_news(self) -> bool:
        """Whether there is something to `take`, or nothing will come any more."""
        return self.is_done or not self._codes.empty()

    def wait(self) -> None:
        """Return once it is done."""
        if self._thread is not None:
            self._thread.join()

    def take(self) -> bytes | None:
        """The best kernel that is ready and has not been taken. Warns of what went wrong."""
        code = None
        while not self._codes.empty():
            code = self._codes.get()
        while self._problems:
            warn_once(self._problems.pop(0))
        return code

    def reject(self, error: Exception) -> None:
        """Handle a kernel that cannot be loaded: delete it, and compile it if it came from disk."""
        try:
            kernel_cache.discard(self._wanted.name, self._wanted.made_for)
        except OSError as problem:
            warn_once(f"a compiled kernel cannot be deleted from disk: {problem}")
        if self._is_from_disk:
            self._is_from_disk = False
            self._start()
        else:
            warn_once(_failure(error))
