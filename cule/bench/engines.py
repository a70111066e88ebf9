"""Vector environments of several libraries behind one interface, so that one loop times them all.

Every engine makes the same observations: 84x84 gray, the maximum of the last two frames of a step,
four frames stacked, frame skip 4, fewer than 30 no-ops at a reset. cule on the CPU and ale-py start
from the same seeds and return the same arrays. cule on a GPU starts from cached states; cule on the
CPU does so on request. EnvPool uses a reset procedure of its own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import cule
from cule.errors import CuleError, InvalidArgumentError, shown

FRAMESKIP = 4

#: The process is idle if it uses less than half of this much time within this much time.
_IDLE_SECONDS = 2e-4

#: Seconds between two looks for a compiled kernel.
_COMPILE_POLL_SECONDS = 0.1

#: A numpy array, or a torch tensor on a GPU; torch is optional and its types are not checked.
Array: TypeAlias = Any
VectorEnv: TypeAlias = Any  # of any library

#: What `Engine.step` returns: obs, reward, terminated, truncated.
Result = tuple[Array, ...]

Actions = NDArray[np.int32]
Ram = NDArray[np.uint8]


class KernelMissingError(CuleError, RuntimeError):
    """The kernel that an engine's name asks for does not run, so its speed means nothing."""


class EngineMissingError(CuleError, ImportError):
    """An engine or a requirement of a load is not available; the message names it."""


class Engine:
    """A batch of environments of one library.

    Attributes:
        name: Name in results.
        env: The library's own vector environment.
        num_envs: Environments.
        batch_size: Environments per call of `step`; less than `num_envs` in asynchronous stepping.
        num_actions: Actions of each environment.
        device: "cpu", "cuda" or "cuda:<number>": the device of the results.
    """

    _space = "single_action_space"

    def __init__(
        self, name: str, env: VectorEnv, num_envs: int, *, batch_size: int = 0, device: str = "cpu"
    ) -> None:
        """Wrap an environment."""
        self.name, self.env, self.num_envs, self.device = name, env, num_envs, device
        self.batch_size = batch_size or num_envs
        self.num_actions = int(getattr(env, self._space).n)

    @property
    def is_synchronous(self) -> bool:
        """Whether a step is one of all environments, in order."""
        return self.batch_size == self.num_envs

    def reset(self, seed: int) -> Array:
        """Reset every environment (environment i gets seed + i); return the observations."""
        return self.env.reset(seed=seed)[0]

    def step(self, actions: Array) -> Result:
        """Step `batch_size` environments."""
        result: Result = self.env.step(actions)[:4]
        return result

    def to_device(self, actions: Actions) -> Array:
        """Convert actions to the input of `step`; not timed."""
        return actions

    def synchronize(self) -> None:
        """Wait until all work is done, before a clock is read.

        After asynchronous stepping, which keeps stepping other environments when `step` returns,
        until no thread of the process works; up to half a millisecond longer. Without that, the
        work would be timed as part of the next engine's round. Receiving the results does not
        help: actions go to the environments that were received last.
        """
        while not self.is_synchronous:
            begin = time.process_time()
            time.sleep(_IDLE_SECONDS)
            if time.process_time() - begin < _IDLE_SECONDS / 2:
                return

    def ram(self) -> Ram | None:
        """A copy of all RAM, uint8 ``[N, 128]``; None if the library does not expose it."""
        return None

    def running_kernel(self) -> dict[str, object] | None:
        """Kernel that executes programs, with its launch geometry; None for other libraries."""
        return None

    def close(self) -> None:
        """Free all resources."""
        self.env.close()


class CuleEngine(Engine):
    """cule on the CPU."""

    def reset(self, seed: int) -> Array:
        """Reset every environment.

        Raises:
            KernelMissingError: The kernel that the name asks for does not run.
        """
        check_kernel(self.env, variant_of(self.name).kernel)
        return super().reset(seed)

    def running_kernel(self) -> dict[str, object]:
        """Kernel of the environments, as `Engine.running_kernel` describes."""
        kernel: dict[str, object] = self.env.running_kernel._asdict()
        return kernel

    def ram(self) -> Ram | None:
        """RAM of every environment, see `Engine.ram`."""
        ram: Ram = as_numpy(self.env.ram)
        return ram


class CudaEngine(CuleEngine):
    """cule on a GPU; tensors stay there."""

    def reset(self, seed: int) -> Array:
        """Reset, after the environment has loaded a kernel that is being compiled."""
        if self.env.is_compiling:
            self.env.reset(seed=seed)
            load_kernel(self.env, self.to_device(np.zeros(self.num_envs, np.int32)))
        return super().reset(seed)

    def to_device(self, actions: Actions) -> Array:
        """Return a tensor on the GPU."""
        import torch

        return torch.as_tensor(actions, device=self.device)

    def synchronize(self) -> None:
        """Wait for the GPU."""
        import torch

        torch.cuda.synchronize(self.device)


class EnvPoolEngine(Engine):
    """EnvPool, which takes its seed at construction and returns the RAM with every step."""

    _space = "action_space"
    _ram: Ram | None = None

    def reset(self, seed: int) -> Array:
        """Reset every environment."""
        return self.env.reset()[0]

    def step(self, actions: Array) -> Result:
        """Step, and keep the RAM."""
        *result, info = self.env.step(actions)
        self._ram = info["ram"]
        return tuple(result)

    def ram(self) -> Ram | None:
        """RAM after the last step."""
        return self._ram


def load_kernel(env: VectorEnv, actions: Array) -> None:
    """Step with `actions` until a kernel that is being compiled for the game has been loaded."""
    while env.is_compiling:  # a step loads it
        time.sleep(_COMPILE_POLL_SECONDS)
        env.step(actions)


def check_kernel(env: VectorEnv, wanted: str) -> None:
    """Check that cule's environment runs the kernel that a benchmark asks for.

    Raises:
        KernelMissingError: It does not, for want of a compiler for example.
    """
    running = env.running_kernel
    if wanted != "auto" and running.name != wanted:
        raise KernelMissingError(
            f"kernel is {shown(wanted)}, but {shown(running.name)} runs {shown(env.config.game)}; "
            "warnings before this error say why"
        )


def as_numpy(array: Array) -> Array:
    """A numpy array of an array or of a tensor on any device."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    return np.asarray(array)


@dataclass(frozen=True)
class EngineConfig:
    """Settings from which an engine is made."""

    name: str  # with launch geometry and kernel
    game: str
    num_envs: int
    threads: int
    seed: int = 0  # for an engine that takes it at construction
    batch_size: int = 0  # environments per call of an asynchronous engine; 0: half of them
    resets: str = "exact"  # "exact" or "cached"; cule on the CPU only
    gpu: str = "cuda"  # or "cuda:<number>"; cule on a GPU only


def _async_batch(config: EngineConfig) -> int:
    """Environments per call of an asynchronous engine.

    Raises:
        EngineMissingError: The environments do not divide into batches of this size.
    """
    num_envs = config.num_envs
    size = config.batch_size or max(1, num_envs // 2)
    if not 0 < size < num_envs or num_envs % size:
        raise EngineMissingError(
            f"async_batch is {size}; it must be a divisor of {num_envs} environments, less than "
            "all of them"
        )
    return size


def _make_cule_cpu(config: EngineConfig) -> Engine:
    variant = variant_of(config.name)
    batch_size = _async_batch(config) if variant.is_async else 0
    env = cule.AtariVectorEnv(
        config.game,
        config.num_envs,
        batch_size=batch_size,
        num_threads=variant.threads or config.threads,
        resets=config.resets,
        kernel=variant.kernel,
        low_memory=variant.low_memory,
    )
    return CuleEngine(config.name, env, config.num_envs, batch_size=batch_size)


def _make_cule_cuda(config: EngineConfig) -> Engine:
    variant = variant_of(config.name)
    with contextlib.ExitStack() as stack:
        if variant.geometry:
            from cule.envs.launch import use_geometry

            stack.enter_context(use_geometry(*variant.geometry))
        env = cule.AtariVectorEnv(
            config.game, config.num_envs, device=config.gpu, kernel=variant.kernel
        )
    return CudaEngine(config.name, env, config.num_envs, device=config.gpu)


def _make_ale(config: EngineConfig) -> Engine:
    import ale_py
    from ale_py.vector_env import AtariVectorEnv

    batch_size = _async_batch(config) if config.name == "ale-async" else 0
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    env = AtariVectorEnv(
        config.game, config.num_envs, batch_size=batch_size, num_threads=config.threads
    )
    return Engine(config.name, env, config.num_envs, batch_size=batch_size)


def _make_envpool(config: EngineConfig) -> Engine:
    import envpool

    name = config.game.title().replace("_", "") + "-v5"
    if name not in envpool.list_all_envs():
        raise EngineMissingError(f"EnvPool has no {name}")
    env = envpool.make(
        name,
        env_type="gymnasium",
        num_envs=config.num_envs,
        num_threads=config.threads,
        reward_clip=True,
        seed=config.seed,
    )
    return EnvPoolEngine(config.name, env, config.num_envs)


@dataclass(frozen=True)
class EngineKind:
    """A library and how to make its engine."""

    title: str  # in plots
    package: str  # name to import
    distribution: str  # name to install
    make: Callable[[EngineConfig], Engine]


#: Engines by the name that --engines takes.
ENGINES: dict[str, EngineKind] = {
    "cule-cpu": EngineKind("cule, CPU", "cule", "cule", _make_cule_cpu),
    "cule-cuda": EngineKind("cule, CUDA", "cule", "cule", _make_cule_cuda),
    "ale": EngineKind("ale-py", "ale_py", "ale-py", _make_ale),
    "ale-async": EngineKind("ale-py, asynchronous", "ale_py", "ale-py", _make_ale),
    "envpool": EngineKind("EnvPool", "envpool", "envpool", _make_envpool),
}


#: Most threads of an environment.
MAX_THREADS = 1024

_VARIANT = re.compile(
    r"(cule-cpu(?P<low>@low_memory)?(?P<async>@async)?(@(?P<threads>[1-9]\d{0,3})threads)?"
    r"|cule-cuda(@(?P<lanes>1|2|4|8|16|32)x(?P<warps>[1-4]))?)"
    r"(@(?P<kernel>interpreter|compiled))?"
)


class Variant(NamedTuple):
    """Requests in an engine's name, after its first @."""

    geometry: tuple[int, int] | None = None  # environments per warp and warps per block
    low_memory: bool = False  # the environment's option
    is_async: bool = False  # asynchronous stepping
    threads: int = 0  # 0: as many as the benchmark's
    kernel: str = "auto"  # the environment's option


def variant_of(name: str) -> Variant:
    """Read the name of an engine, such as ``cule-cpu@low_memory`` or ``cule-cuda@8x4@compiled``."""
    match = _VARIANT.fullmatch(name)
    if match is None:
        return Variant()
    lanes, warps, threads = match["lanes"], match["warps"], match["threads"]
    return Variant(
        geometry=(int(lanes), int(warps)) if lanes else None,
        low_memory=bool(match["low"]),
        is_async=bool(match["async"]),
        threads=int(threads or 0),
        kernel=match["kernel"] or "auto",
    )


def kind_of(name: str) -> EngineKind:
    """The library of an engine.

    Raises:
        InvalidArgumentError: No engine has this name.
    """
    kind = ENGINES.get(name.partition("@")[0] if _VARIANT.fullmatch(name) else name)
    if kind is None or variant_of(name).threads > MAX_THREADS:
        raise InvalidArgumentError(
            f"engines has {shown(name)}; it must be one of {', '.join(ENGINES)}; those of cule "
            "with a kernel such as cule-cpu@interpreter or cule-cuda@compiled; "
            "cule-cpu@low_memory, cule-cpu@async, cule-cpu@2threads; or a launch geometry such as "
            "cule-cuda@8x4 (1 to 32 environments per warp, 1 to 4 warps per block)"
        )
    return kind


def is_cuda(name: str) -> bool:
    """Whether an engine is cule on a GPU, with any launch geometry and kernel."""
    return name.startswith("cule-cuda")


def make_engine(config: EngineConfig) -> Engine:
    """Make a vector environment of one library, without a reset.

    Raises:
        InvalidArgumentError: No engine has this name.
        EngineMissingError: The library is not installed or lacks this game or size.
        CuleError: Raised by cule's environment.
    """
    kind = kind_of(config.name)
    if importlib.util.find_spec(kind.package) is None:
        raise EngineMissingError(f"{kind.distribution} is not installed")
    try:
        return kind.make(config)
    except ImportError as error:  # of a library that is installed and broken, too
        raise EngineMissingError(str(error)) from None


def unavailable_reason(name: str, game: str = "pong") -> str | None:
    """Why an engine cannot run on this machine; None if it can.

    A small engine is made to find out, which checks the build, the driver and the device.

    Raises:
        InvalidArgumentError: No engine has this name.
    """
    try:
        make_engine(EngineConfig(name, game, 2, 1)).close()
    except InvalidArgumentError:
        raise
    except CuleError as error:
        return str(error)
    return None
