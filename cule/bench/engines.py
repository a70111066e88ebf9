"""Vector environments of several libraries behind one face, so that one loop can time them all.

Every engine makes the same observations: 84x84 gray, the maximum of the last two frames of a step,
four frames stacked, frame skip 4, fewer than 30 no-ops at a reset. cule on the CPU and ale-py start
from the same seeds and give the same arrays. cule on a GPU starts from cached states, which cule on
the CPU does as well when asked to. EnvPool draws its resets in another way.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cule
from cule.bench.errors import EngineMissingError
from cule.errors import CuleError, InvalidArgumentError

FRAMESKIP = 4

#: A process that uses less than half of so long is idle.
_IDLE_SECONDS = 2e-4

#: What `Engine.step` returns: obs, reward, terminated, truncated.
Result = tuple[Any, ...]


class Engine:
    """A batch of consoles of one library.

    Attributes:
        name: Key of `ENGINES`.
        env: The library's own vector environment.
        num_envs: Consoles.
        batch_size: Consoles of one call of `step`; fewer than all in asynchronous stepping.
        num_actions: Actions of each console.
        device: "cpu" or "cuda": where results land.
    """

    def __init__(
        self, name: str, env: Any, num_envs: int, *, batch_size: int = 0, device: str = "cpu"
    ) -> None:
        """Put an environment behind the face."""
        self.name = name
        self.env = env
        self.num_envs = num_envs
        self.batch_size = batch_size or num_envs
        self.device = device
        self.num_actions = int(self._action_space().n)

    @property
    def is_synchronous(self) -> bool:
        """Whether a step is one of all consoles, in the order of their numbers."""
        return self.batch_size == self.num_envs

    def reset(self, seed: int) -> Any:
        """Reset every console (console i gets seed + i); the observations."""
        return self.env.reset(seed=seed)[0]

    def step(self, actions: Any) -> Result:
        """One step of `batch_size` consoles."""
        result: Result = self.env.step(actions)[:4]
        return result

    def to_device(self, actions: NDArray[np.int32]) -> Any:
        """Actions as `step` wants them; outside the clock."""
        return actions

    def synchronise(self) -> None:
        """Wait until everything that was asked for is done; before a clock is read."""

    def ram(self) -> NDArray[np.uint8] | None:
        """RAM of all consoles, uint8 ``[N, 128]``; None where the library does not show it."""
        return None

    def close(self) -> None:
        """Free what is held."""
        self.env.close()

    def _action_space(self) -> Any:
        return self.env.single_action_space


class CuleEngine(Engine):
    """cule; on a GPU its tensors stay there."""

    def to_device(self, actions: NDArray[np.int32]) -> Any:
        """On a GPU, a tensor there."""
        if self.device == "cpu":
            return actions
        import torch

        return torch.as_tensor(actions, device=self.device)

    def synchronise(self) -> None:
        """Wait for the GPU."""
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()

    def ram(self) -> NDArray[np.uint8] | None:
        """A copy on the host."""
        return as_numpy(self.env.ram)


class AsyncEngine(Engine):
    """ale-py's asynchronous stepping, which goes on with other consoles after `step` has returned.

    Left alone, that work would fall into the turn of whoever comes next, and the results would be
    there before this engine's next turn begins. Receiving them would not do: actions go to the
    consoles that were received last.
    """

    def synchronise(self) -> None:
        """Wait until no thread of the process works; up to half a millisecond longer."""
        while True:
            begin = time.process_time()
            time.sleep(_IDLE_SECONDS)
            if time.process_time() - begin < _IDLE_SECONDS / 2:
                return


class EnvPoolEngine(Engine):
    """EnvPool, which takes its seed when it is made, and gives the RAM with every step."""

    _ram: NDArray[np.uint8] | None = None

    def reset(self, seed: int) -> Any:
        """Reset every console."""
        return self.env.reset()[0]

    def step(self, actions: Any) -> Result:
        """One step; the RAM is kept."""
        *result, info = self.env.step(actions)
        self._ram = info["ram"]
        return tuple(result)

    def ram(self) -> NDArray[np.uint8] | None:
        """RAM after the last step."""
        return self._ram

    def _action_space(self) -> Any:
        return self.env.action_space


def as_numpy(array: Any) -> NDArray[Any]:
    """A numpy array of an array or of a tensor on any device."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    return np.asarray(array)


def _make_cule_cpu(
    game: str, num_envs: int, threads: int, seed: int, batch_size: int, **options: Any
) -> Engine:
    env = cule.AtariVectorEnv(game, num_envs, num_threads=threads, **options)
    return CuleEngine("cule-cpu", env, num_envs)


def _make_cule_cuda(
    game: str, num_envs: int, threads: int, seed: int, batch_size: int, **options: Any
) -> Engine:
    env = cule.AtariVectorEnv(game, num_envs, device="cuda", **options)
    return CuleEngine("cule-cuda", env, num_envs, device="cuda")


def _ale_py(game: str, num_envs: int, threads: int, **options: Any) -> Any:
    import ale_py
    from ale_py.vector_env import AtariVectorEnv

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return AtariVectorEnv(game, num_envs=num_envs, num_threads=threads, **options)


def _make_ale(
    game: str, num_envs: int, threads: int, seed: int, batch_size: int, **options: Any
) -> Engine:
    return Engine("ale", _ale_py(game, num_envs, threads, **options), num_envs)


def _make_ale_async(
    game: str, num_envs: int, threads: int, seed: int, batch_size: int, **options: Any
) -> Engine:
    batch_size = batch_size or max(1, num_envs // 2)
    if not 0 < batch_size < num_envs or num_envs % batch_size:
        raise EngineMissingError(
            f"a batch of {batch_size} is no part of {num_envs} consoles, so nothing is asynchronous"
        )
    env = _ale_py(game, num_envs, threads, batch_size=batch_size, **options)
    return AsyncEngine("ale-async", env, num_envs, batch_size=batch_size)


def _make_envpool(
    game: str, num_envs: int, threads: int, seed: int, batch_size: int, **options: Any
) -> Engine:
    import envpool

    name = game.title().replace("_", "") + "-v5"
    if name not in envpool.list_all_envs():
        raise EngineMissingError(f"EnvPool has no {name}")
    env = envpool.make(
        name,
        env_type="gymnasium",
        num_envs=num_envs,
        num_threads=threads,
        reward_clip=True,
        seed=seed,
        **options,
    )
    return EnvPoolEngine("envpool", env, num_envs)


@dataclass(frozen=True)
class EngineKind:
    """How an engine is made."""

    title: str
    """In tables and plots."""

    package: str
    """What is imported."""

    distribution: str
    """What is installed, and has the version."""

    make: Callable[..., Engine]
    """Makes it."""


#: Engines by the name that --engines takes.
ENGINES: dict[str, EngineKind] = {
    "cule-cpu": EngineKind("cule, CPU", "cule", "cule", _make_cule_cpu),
    "cule-cuda": EngineKind("cule, CUDA", "cule", "cule", _make_cule_cuda),
    "ale": EngineKind("ale-py", "ale_py", "ale-py", _make_ale),
    "ale-async": EngineKind("ale-py, asynchronous", "ale_py", "ale-py", _make_ale_async),
    "envpool": EngineKind("EnvPool", "envpool", "envpool", _make_envpool),
}


def make_engine(
    name: str,
    game: str,
    num_envs: int,
    threads: int,
    *,
    seed: int = 0,
    batch_size: int = 0,
    **options: Any,
) -> Engine:
    """A vector environment of one library, not reset yet.

    Args:
        name: Key of `ENGINES`.
        game: Which game.
        num_envs: Consoles.
        threads: CPU threads.
        seed: For an engine that takes it now.
        batch_size: Consoles of a call of an asynchronous engine; 0: half of them.
        options: Further keywords of the library's environment.

    Raises:
        InvalidArgumentError: No engine has this name.
        EngineMissingError: The library is not there, or does not have this game or size.
        CuleError: What cule's environment raises.
    """
    if name not in ENGINES:
        raise InvalidArgumentError(f"engines has {name!r}; it must be one of {', '.join(ENGINES)}")
    kind = ENGINES[name]
    if importlib.util.find_spec(kind.package) is None:
        raise EngineMissingError(f"{kind.distribution} is not installed")
    return kind.make(game, num_envs, threads, seed, batch_size, **options)


def why_missing(name: str, game: str = "pong") -> str | None:
    """Why an engine cannot run on this machine; None where it can.

    It is found out by making a small one, so that what is built in, the driver and the device all
    have their say.

    Raises:
        InvalidArgumentError: No engine has this name.
    """
    try:
        make_engine(name, game, 2, 1).close()
    except InvalidArgumentError:
        raise
    except (CuleError, ImportError) as error:
        return str(error)
    return None


def versions(names: Sequence[str]) -> dict[str, str]:
    """Versions of the libraries behind engines, by distribution."""
    found = dict.fromkeys(ENGINES[name].distribution for name in names)
    return {name: importlib.metadata.version(name) for name in found}
