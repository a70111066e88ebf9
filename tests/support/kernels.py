"""The CUDA kernels run by the lockstep shim: the module `cule._cuda`, compiled by g++ for the CPU.

The sources are the ones that nvcc compiles; `tests/shim` replaces the CUDA runtime, and tensors on
the CPU replace those on a GPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pybind11
import torch

from benchmarks.sass import module as elf
from cule import _core
from cule.envs import translation
from cule.envs.cuda_batch import CudaBatch
from cule.envs.device_memory import DeviceOutputs
from cule.envs.launch import Geometry
from cule.envs.multi_agent import plan_players, resolve_multi_agent_options
from cule.envs.options import EnvOptions, resolve_options
from cule.envs.plan import (
    BatchPlan,
    frame_shape,
    make_batch,
    obs_dtype,
    observation_space,
    plan_batch,
)
from roms_tools import record_golden

ROOT = Path(__file__).parents[2]
SOURCES = (
    "csrc/bindings/bind_cuda.cpp",
    "csrc/bindings/bind_cuda_xla.cpp",
    "csrc/bindings/cuda_module.cpp",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "csrc" / "cuda").glob("*.c*"))),
    "csrc/rom_kernel/loaded_step.cpp",
    "tests/shim/instruction_counts.cpp",
    "tests/shim/launch_hook.cpp",
)
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off",
         # Like a GPU, and unlike a CPU, it refuses misaligned addresses.
         "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")  # fmt: skip
_INCLUDE = (f"-I{ROOT / 'tests' / 'shim'}", f"-I{ROOT / 'csrc'}")
_LIBRARY = ("-shared", "-pthread")
CPU = torch.device("cpu")


@functools.cache
def _digest() -> str:
    """A digest of everything the module is built from."""
    state = hashlib.sha256(repr((FLAGS, pybind11.__version__, os.environ.get("CXX"))).encode())
    for folder in (ROOT / "csrc", ROOT / "tests" / "shim"):
        for path in sorted(path for path in folder.rglob("*") if path.suffix not in (".md", "")):
            state.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return state.hexdigest()[:16]


def _compiler() -> str:
    return os.environ.get("CXX") or shutil.which("g++") or "c++"


def compile_command() -> list[str]:
    """The command that compiles sources of kernels for the shim."""
    return [_compiler(), *FLAGS, *_INCLUDE]


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"cule-shim-{os.getuid()}-{_digest()}"
    folder.mkdir(exist_ok=True)
    return folder


def _build(target: Path, words: Sequence[str], text: str | None = None) -> None:
    """Compile with these words, once for all processes; the source "-" is `text`."""
    with open(target.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return
        with tempfile.TemporaryDirectory() as scratch:
            linked = Path(scratch) / target.name
            command = [*compile_command(), *words, "-o", str(linked)]
            subprocess.run(command, cwd=ROOT, check=True, input=text, text=True)
            shutil.move(linked, target)


@functools.cache
def module() -> ModuleType:
    """The shim's `cule._cuda`, built once."""
    path = _folder() / f"_cuda{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = (pybind11.get_include(), sysconfig.get_paths()["include"])
    options = [word for folder in include for word in ("-isystem", folder)]
    options += ['-DCULE_CUDA_ARCHITECTURES="shim"', '-DCULE_CUDA_TOOLKIT="none"']
    _build(path, [*options, "-x", "c++", *SOURCES, *_LIBRARY])
    loader = importlib.machinery.ExtensionFileLoader("_cuda", str(path))
    spec = importlib.util.spec_from_file_location("_cuda", path, loader=loader)
    assert spec is not None
    native = importlib.util.module_from_spec(spec)
    loader.exec_module(native)
    return native


class InstructionCounts(ctypes.Structure):
    """Instructions that the lanes of the shim have executed (tests/shim/device_runtime.hpp)."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("instructions", "slow", "launches", "modules")]
    instructions: int
    slow: int
    launches: int
    modules: int  # loaded now


def pop_instruction_counts(program: Path | None = None) -> InstructionCounts:
    """Counts since the last call: of the kernels, or of a game's own (`build_program`)."""
    counts = InstructionCounts()
    library = ctypes.CDLL(str(program or module().__file__))
    library.cule_pop_instruction_counts(ctypes.byref(counts))
    return counts


class HookedLaunch(ctypes.Structure):
    """A launch of a kernel (tests/shim/host_api.hpp)."""

    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("parameters", ctypes.c_void_p),
        ("parameter_bytes", ctypes.c_size_t),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_size_t),
    ]
    kernel: int
    parameters: int
    parameter_bytes: int
    shared_bytes: int


_HOOK = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.POINTER(HookedLaunch))


def _read_symbols(library: bytes) -> dict[str, int]:
    """Values of the symbols: of a function, its address from the library's."""
    sections = dict(elf.read_sections(library))
    names = sections[".strtab"]
    found = {}
    for name_at, _, _, _, value, _ in elf.SYMBOL.iter_unpack(sections[".symtab"]):
        found[names[name_at : names.index(b"\0", name_at)].decode()] = value
    return found


@contextlib.contextmanager
def hooked_launches(run: Callable[[str, HookedLaunch], bool]) -> Iterator[None]:
    """Let `run` execute kernels; it gets their mangled names. The shim runs those it refuses.

    `run` returns whether it has executed the kernel. Raises what `run` raises.
    """
    path = Path(str(module().__file__))
    library = ctypes.CDLL(str(path))
    symbols = _read_symbols(path.read_bytes())
    setter = library.cule_set_launch_hook
    base = ctypes.cast(setter, ctypes.c_void_p).value - symbols["cule_set_launch_hook"]
    names = {base + value: name for name, value in symbols.items()}
    errors: list[Exception] = []

    def call(launch: Any) -> bool:
        try:
            return bool(errors) or run(names[launch.contents.kernel], launch.contents)
        except Exception as error:  # an exception cannot pass through the native module
            errors.append(error)
            return True

    hook = _HOOK(call)
    setter(hook)
    try:
        yield
    finally:
        setter(None)
        if errors:
            raise errors[0]


@functools.cache
def _shared_part(is_alone: bool) -> Path:
    """What is the same for all games' own kernels, as an object file."""
    path = _folder() / f"all-games-{'one' if is_alone else 'several'}.o"
    source = _core.lane_kernel_source(is_alone=is_alone) + '#include "loaded_kernel.hpp"\n'
    _build(path, ("-c", "-x", "c++", "-"), source)
    return path


_programs: dict[tuple[Any, ...], Path] = {}


def build_program(game: _core.Game, is_alone: bool = False, most: int | None = None) -> Path:
    """A game's own kernel, compiled by g++ for the shim and linked as for a GPU.

    `most` instructions are translated instead of all that matter; fewer compile faster.
    """
    # As of `translation.Wanted`: to write a source takes a second.
    key = (game.game_id, game.rom, is_alone, most or translation.MOST_INSTRUCTIONS)
    if key not in _programs:
        source = translation.source_of(game, 1 if is_alone else 2, most)
        state = hashlib.sha256((_digest() + source).encode()).hexdigest()[:16]
        _programs[key] = path = _folder() / f"{game.game_id}-{state}.so"
        counts = "tests/shim/instruction_counts.cpp"
        shared = _shared_part(is_alone)
        # The checks of addresses take a compiler minutes here; the part that is shared has them.
        words = ("-fno-sanitize=alignment", "-x", "c++", "-", counts, "-x", "none", str(shared))
        _build(path, (*words, *_LIBRARY), source)
    return _programs[key]


def loadable(path: Path) -> bytes:
    """What `CudaBatch.load_program` gets of a module of the shim, which loads shared libraries."""
    return os.fsencode(path)


class Results:
    """The results of a call."""

    def __init__(self, plan: BatchPlan, options: EnvOptions, stacked: bool = True) -> None:
        """Allocate arrays for one batch; `stacked` as in the calls that fill them."""
        rows = plan.object_rows
        shape = observation_space(options, rows).shape if stacked else frame_shape(options, rows)
        numbers = np.zeros((options.num_envs, *(shape or ())), obs_dtype(options))
        self.obs = numbers.view(np.uint8)
        self.final_obs = np.zeros_like(self.obs)
        self.out = _core.Outputs(self.obs, self.final_obs, stacked, plan.num_players)
        self.ints, self.final_ints, self.flags = self.out.ints, self.out.final_ints, self.out.flags
        for table in (self.ints, self.final_ints, self.flags):
            table[:] = 0

    def tensors(self, device: torch.device) -> DeviceOutputs:
        """The same memory as tensors of the CPU, or copies on a GPU."""

        def move(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(device)

        return DeviceOutputs(
            obs=move(self.obs),
            final_obs=move(self.final_obs),
            ints=move(self.ints),
            final_ints=move(self.final_ints),
            flags=move(self.flags),
            stacked=self.out.stacked,
        )

    def copy_from(self, outputs: DeviceOutputs) -> None:
        """What the tensors hold."""
        for name in ("obs", "final_obs", "ints", "final_ints", "flags"):
            np.copyto(getattr(self, name), getattr(outputs, name).cpu().numpy())

    def assert_equal(self, other: Results, what: str) -> None:
        """Compare everything that is defined after the call."""
        for name in ("obs", "ints", "flags"):
            mine, theirs = getattr(self, name), getattr(other, name)
            assert np.array_equal(mine, theirs), f"{what}: {name} {np.argwhere(mine != theirs)[:4]}"
        ended = self.flags[_core.FLAG_ENDED]
        last = ended | self.flags[_core.FLAG_TERMINATED]
        same = np.array_equal(self.final_obs[last], other.final_obs[last])
        assert same, f"{what}: final_obs"
        same = np.array_equal(self.final_ints[:, ended], other.final_ints[:, ended])
        assert same, f"{what}: final_ints"


class Pair:
    """The same consoles on the CPU back end and in the kernels, called and compared together."""

    def __init__(
        self,
        game: Any,
        num_envs: int,
        *,
        lanes: int = 32,
        warps: int = 1,
        native: ModuleType | None = None,
        device: torch.device = CPU,
        stacked: bool = True,
        cartridge: _core.Game | None = None,
        is_compiled: bool = False,
        has_players: bool = False,
        **keywords: Any,
    ) -> None:
        """Make both; `keywords` as for `cule.AtariVectorEnv`, `cartridge` instead of the game's.

        With `is_compiled` the kernel is the game's own. With `has_players` keywords are as for
        `cule.MultiAgentVectorEnv`.
        """
        keywords.setdefault("num_reset_states", 4)
        keywords.setdefault("num_threads", 1)
        keywords["resets"] = "cached"
        self.options: EnvOptions
        self.plan: BatchPlan
        if has_players:
            self.options = resolve_multi_agent_options(game, num_envs, keywords)
            self.plan = plan_players(self.options)
        else:
            self.options = resolve_options(game, num_envs, keywords)
            self.plan = plan_batch(self.options)
        if cartridge is not None:
            self.plan = dataclasses.replace(self.plan, games=(cartridge,))
        self.cpu = make_batch(self.plan, self.options)
        native = native or module()
        geometry = Geometry(lanes, warps)
        # On a GPU the interpreter kernel is what is compared, unless a test asks for another.
        kernel = keywords.get("kernel", "interpreter")
        options = dataclasses.replace(self.options, kernel=kernel)
        self.kernels = CudaBatch(self.plan, options, device, native, geometry)
        self.program: Path | None = None  # of the shim
        if is_compiled and device.type == "cuda":
            major, minor = torch.cuda.get_device_capability(device)
            code = translation.translate(self.plan.games[0], lanes, 10 * major + minor)
            self.kernels.load_program(code)
        elif is_compiled:
            self.program = build_program(self.plan.games[0], lanes == 1)
            self.kernels.load_program(loadable(self.program))
        self.expected = Results(self.plan, self.options, stacked)
        self.actual = Results(self.plan, self.options, stacked)
        self.outputs = self.actual.tensors(device)
        self.consoles = np.arange(num_envs, dtype=np.int64)

    def compare(self, what: str) -> None:
        """Compare the last results of both."""
        self.actual.copy_from(self.outputs)
        self.actual.assert_equal(self.expected, what)

    def reset(self, seeds: np.ndarray, mask: np.ndarray | None = None) -> None:
        """`reset` of both."""
        self.cpu.reset(mask, seeds, self.expected.out)
        self.kernels.reset(mask, seeds, self.outputs)
        self.compare("reset")

    def step(self, actions: np.ndarray) -> None:
        """`step` of both."""
        self.cpu.step(actions, self.expected.out)
        self.kernels.step(torch.from_numpy(actions).to(self.kernels.device), self.outputs)
        self.compare("step")

    def decorrelate(self, max_steps: int, seed: int) -> None:
        """`decorrelate` of both."""
        self.cpu.decorrelate(max_steps, seed, self.expected.out)
        self.kernels.decorrelate(max_steps, seed, self.outputs)
        self.compare("decorrelate")

    def compare_snapshots(self) -> np.ndarray:
        """Snapshots of both, which must be the same bytes."""
        expected = self.cpu.get_state(self.consoles)
        actual = self.kernels.get_state(self.consoles).cpu().numpy()
        assert np.array_equal(expected, actual), np.argwhere(expected != actual)[:4]
        return expected

    def copy_crosswise(self, other: Pair) -> None:
        """The kernels' snapshots into the other's CPU back end, and the reverse; all step alike."""
        snapshots = self.compare_snapshots()
        other.cpu.set_state(self.kernels.get_state(self.consoles).numpy(), self.consoles)
        other.kernels.set_state(snapshots, self.consoles)
        other.compare_snapshots()
        actions = self.random_actions(np.random.default_rng(5))
        for pair in (self, other):
            pair.step(actions)
        assert np.array_equal(self.compare_snapshots(), other.compare_snapshots())

    def random_actions(self, rng: np.random.Generator) -> np.ndarray:
        """One action a console."""
        if self.options.continuous:
            return rng.uniform(-1, 1, (self.options.num_envs, 4)).astype(np.float32)
        size = min(
            len(game.legal_actions if self.plan.full_action_space else game.minimal_actions)
            for game in self.plan.games
        )
        count = self.options.num_envs * self.plan.num_players
        return rng.integers(0, size, count).astype(np.int32)

    def run(self, steps: int, seed: int = 0, snapshots_every: int = 50) -> None:
        """Reset, then random steps; compare results after each, snapshots at intervals."""
        rng = np.random.default_rng(seed)
        self.reset(np.arange(self.options.num_envs, dtype=np.int64) + seed)
        for step in range(1, steps + 1):
            self.step(self.random_actions(rng))
            if step % snapshots_every == 0 or step == steps:
                self.compare_snapshots()

    def golden_trace(self) -> str:
        """`record_golden.play_steps` of both, made with its options (`assert_golden`)."""
        self.reset(np.zeros(record_golden.NUM_ENVS, np.int64))

        def step(actions: np.ndarray) -> record_golden.Step:
            self.step(actions.astype(np.int32))
            ints, flags = self.actual.ints, self.actual.flags
            lives, ended = ints[_core.INT_LIVES], flags[_core.FLAG_ENDED]
            return self.actual.obs, ints[_core.INT_REWARD], lives, ended

        game = self.plan.games[0]
        num_actions = len(game.minimal_actions)
        return record_golden.play_steps(game.game_id, num_actions, self.actual.obs, step)

    def close(self) -> None:
        """Free both."""
        self.cpu.close()
        self.kernels.close()


def assert_golden(game: str, **keywords: Any) -> None:
    """Both back ends give the trace that ale-py gave; `keywords` as for `Pair`."""
    keywords |= {"num_reset_states": 1, **record_golden.STEP_OPTIONS}
    pair = Pair(game, record_golden.NUM_ENVS, **keywords)
    expected = json.loads(record_golden.TARGET.read_text(encoding="utf-8"))["traces"][game]
    assert pair.golden_trace() == expected["steps"]
    pair.close()
