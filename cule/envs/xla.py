"""The environments as functions of JAX; jax is imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

from cule import _core
from cule.envs.backend import Backend
from cule.envs.checks import Array
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan
from cule.errors import InvalidArgumentError, MissingPackageError, shown

#: A function of JAX arrays.
XlaFunction: TypeAlias = Callable[..., Array]


class XlaMethods:
    """Methods of `AtariVectorEnv` that return functions for ``jax.jit`` and its relatives."""

    _config: EnvOptions
    _plan: BatchPlan
    _batch: Backend
    _check_open: Callable[[], None]

    def xla(self) -> tuple[Array, XlaFunction, XlaFunction]:
        """This environment as functions that JAX can compile, as in ale-py.

        ``reset(handle, seed=None, reset_mask=None)`` returns ``handle, (obs, info)``, and
        ``step(handle, actions)`` returns ``handle, (obs, reward, terminated, truncated, info)``:
        JAX arrays with the values, shapes and dtypes of `reset` and `step`. With SameStep
        autoreset ``info`` always has ``final_obs``, zero where no episode ended, and with
        the option `final_info` ``final_info`` and ``_final_info``. The functions run in
        ``jax.jit``, ``jax.lax.scan`` and ``jax.lax.fori_loop``, not in ``jax.vmap``.

        The handle, uint8 ``[8]``, names this environment and orders the calls: pass on the one
        that the last call returned. Each call changes the environment, whatever handle it gets.
        The functions keep the environment alive; results that are not ready do not. JAX may still
        run a function that has returned: wait for its results before you call `step`, `get_state`
        or `close`.

        With ``device="cuda"`` the arrays are on that GPU, in JAX as here: the calls launch kernels
        on JAX's stream, and nothing passes through the host. What the environment does with torch
        must be complete before (``torch.cuda.synchronize()``). The handle orders calls only, and
        what a kernel finds wrong with actions or episodes is reported by the call after it. JAX
        takes 75 % of a GPU's memory unless ``XLA_PYTHON_CLIENT_PREALLOCATE`` is false.

        Args of the functions: ``seed``, None, an integer or integers as for `reset`, which may be
        traced; ``reset_mask``, bool ``[N]``; ``actions``, an array as for `step`, not a list.

        Returns:
            ``handle, reset, step``.

        Raises:
            MissingPackageError: (an ImportError) jax is not installed, or not for the GPU.
            InvalidArgumentError: `batch_size` is below `num_envs`, `decorrelate_steps` is above 0,
                or `objects_info` is True.
            ActionShapeError, ActionRangeError: (by ``step``) Actions of the wrong shape or dtype,
                or numpy actions outside the action space.
            jax.errors.JaxRuntimeError: (where results are waited for) Other actions outside the
                action space, no reset before, an ended episode with Disabled autoreset, a closed
                environment, or a handle of none.

        Example:
            >>> import cule, jax
            >>> env = cule.AtariVectorEnv("pong", num_envs=8)
            >>> handle, reset, step = env.xla()
            >>> handle, (obs, info) = reset(handle, seed=0)
            >>> actions = jax.numpy.zeros((100, 8), jax.numpy.int32)
            >>> handle, (obs, reward, *_) = jax.lax.scan(step, handle, actions)
            >>> obs.shape, reward.dtype
            ((100, 8, 4, 84, 84), dtype('int32'))
        """
        self._check_open()
        calls = _import_calls(self._config)
        is_host = isinstance(self._batch, _core.Batch)
        kind = calls.EnvironmentFunctions if is_host else calls.DeviceFunctions
        functions = kind(self, self._batch, self._plan, self._config)
        return functions.handle, functions.reset, functions.step

    def xla_pure(self) -> tuple[XlaFunction, XlaFunction]:
        """Environments as pure functions of snapshots, which JAX can compile.

        ``reset(seed)`` returns ``states, (obs, info)``, and ``step(states, actions)`` returns
        ``states, (obs, reward, terminated, truncated, info)``, so that ``jax.lax.scan`` takes
        ``step`` as it is. The results are those of an environment with the options of this one,
        after `set_state`; this environment does not change. The same arguments always give the
        same results. The functions run in ``jax.jit``, ``jax.lax.scan`` and ``jax.vmap``. They are
        slower than those of `xla`, because each step reads and writes every snapshot.

        ``states`` are snapshots of `get_state` or of these functions, uint8
        ``[..., state_size]``, and ``actions`` and the results have the same leading dimensions,
        any number of them. With several games, modes, difficulties or action delays the last of
        these is N, one environment each. ``seed`` is an integer s, for N environments with the
        seeds s to s + N - 1, or int32 ``[...]``, one for each snapshot; from 0 on. Both may be
        traced. On a CPU, `set_state` takes the snapshots of these functions, too.

        Returns:
            ``reset, step``.

        Raises:
            MissingPackageError: As `xla`.
            InvalidArgumentError: As `xla`, or `device` is not "cpu".
            jax.errors.JaxRuntimeError: A snapshot is damaged or of another game.

        Example:
            >>> import cule, jax
            >>> env = cule.AtariVectorEnv("pong", num_envs=8)
            >>> reset, step = env.xla_pure()
            >>> states, (obs, info) = jax.vmap(reset)(jax.numpy.arange(3))
            >>> actions = jax.numpy.zeros((3, 8), jax.numpy.int32)
            >>> states, (obs, *_) = jax.vmap(step)(states, actions)
            >>> obs.shape
            (3, 8, 4, 84, 84)
        """
        self._check_open()
        _check_option("device", self._config.device, "cpu")
        functions = _import_calls(self._config).SnapshotFunctions(self._plan, self._config)
        return functions.reset, functions.step


def _import_calls(options: EnvOptions) -> ModuleType:
    """The module of the calls, for options that it serves."""
    _check_option("batch_size", options.batch_size or options.num_envs, options.num_envs)
    _check_option("decorrelate_steps", options.decorrelate_steps, 0)
    _check_option("objects_info", options.objects_info, False)
    try:
        from cule.envs import xla_calls
    except ImportError as error:
        raise MissingPackageError(f"{error}; pip install 'cule[jax]'") from error
    return xla_calls


def _check_option(name: str, given: object, allowed: object) -> None:
    if given != allowed:
        raise InvalidArgumentError(
            f"{name} is {shown(given)}; with JAX it must be {shown(allowed)}"
        )
