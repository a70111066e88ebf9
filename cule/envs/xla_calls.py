"""Calls of csrc/bindings/bind_xla.cpp and bind_cuda_xla.cpp as functions of JAX arrays.

Shapes and dtypes are checked here, where JAX traces; values where the calls run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from cule import _core
from cule.envs.actions import CONTINUOUS_SIZE, continuous_actions
from cule.envs.checks import Array, as_array, to_numpy
from cule.envs.errors import ActionShapeError, ArgumentTypeError
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan, make_batch, obs_dtype, observation_space
from cule.envs.requests import as_seeds
from cule.envs.results import Info, StepResult, make_final_info, make_info
from cule.errors import CuleError, InvalidArgumentError, MissingPackageError

if TYPE_CHECKING:
    from cule import _cuda
    from cule.envs.cuda_batch import CudaBatch

Shape: TypeAlias = tuple[int, ...]
_ResetCall: TypeAlias = Callable[..., tuple[Array, tuple[Array, Info]]]
_StepCall: TypeAlias = Callable[..., tuple[Array, StepResult]]

_INT32 = np.iinfo(np.int32)

#: Rows of the result tables; JAX plays games of one player.
_INT_ROWS = _core.int_rows(1)
_FLAG_ROWS = _core.flag_rows(1)

#: Numbers of a joystick, as the native module takes it: x, y, fire, strength.
_JOYSTICK_SIZE = 4


@functools.cache
def _register_handlers(native: ModuleType, platform: str) -> None:
    for name, capsule in native.xla_handlers().items():
        jax.ffi.register_ffi_target(name, capsule, platform=platform)


class _Calls:
    """Parts that all functions share: arguments and results."""

    _target: _core.XlaTarget | _cuda.XlaTarget

    def __init__(self, plan: BatchPlan, options: EnvOptions) -> None:
        """Prepare for environments of these options."""
        self._options = options
        self._obs_dtype = obs_dtype(options)
        size = self._obs_dtype.itemsize
        shape = observation_space(options, plan.object_rows).shape or ()
        self._native_shape = (*shape, size) if size > 1 else shape  # calls write bytes

    def _call(
        self, name: str, first: Array, shape: Shape, **keywords: object
    ) -> Callable[..., list[Array]]:
        """The call of a handler that returns `first` and the results of `shape` environments."""
        ints = [jax.ShapeDtypeStruct(shape, jnp.int32)] * _INT_ROWS
        flags = [jax.ShapeDtypeStruct(shape, jnp.bool_)] * _FLAG_ROWS
        obs = jax.ShapeDtypeStruct((*shape, *self._native_shape), jnp.uint8)
        final = [obs, *ints] if name.startswith("cule_step") and self._is_same_step else []
        results = [first, obs, *ints, *flags, *final]
        call: Callable[..., list[Array]] = jax.ffi.ffi_call(name, results, **keywords)
        return call

    @property
    def _is_same_step(self) -> bool:
        return self._options.autoreset_mode is AutoresetMode.SAME_STEP

    def _read_obs(self, native: Array) -> Array:
        if self._obs_dtype.itemsize == 1:
            return native
        return jax.lax.bitcast_convert_type(native, self._obs_dtype)

    def _read_reset(self, results: Sequence[Array]) -> tuple[Array, Info]:
        obs, *rows = results
        return self._read_obs(obs), make_info(rows.__getitem__, self._options.episode_info)

    def _read_step(self, results: Sequence[Array]) -> StepResult:
        obs, info = self._read_reset(results)
        ints, rest = results[1:], results[1 + _INT_ROWS :]
        flags, final = rest[:_FLAG_ROWS], rest[_FLAG_ROWS:]
        if final:
            ended = flags[_core.FLAG_ENDED]
            info["final_obs"] = self._read_obs(final[0])
            if self._options.final_info:
                info["final_info"] = make_final_info(final[1:].__getitem__, ended, _same)
                info["_final_info"] = ended
        terminated, truncated = flags[_core.FLAG_TERMINATED], flags[_core.FLAG_TRUNCATED]
        return obs, ints[_core.INT_REWARD], terminated, truncated, info

    def _actions(self, actions: object, shape: Shape) -> Array:
        """Actions of environments of this shape: int32, or joysticks, float32 ``[..., 4]``."""
        is_continuous = self._options.continuous
        wanted = (*shape, CONTINUOUS_SIZE) if is_continuous else shape
        kind = "float32" if is_continuous else "integers"
        given = _as_array("actions", actions, kind, wanted, ActionShapeError)
        if is_continuous:
            joysticks = jax.ShapeDtypeStruct((*shape, _JOYSTICK_SIZE), jnp.float32)
            return jax.pure_callback(_joysticks, joysticks, given, vmap_method="expand_dims")
        if not np.can_cast(given.dtype, np.int32):  # no wide number may become an action
            low = max(_INT32.min, jnp.iinfo(given.dtype).min)
            given = given.clip(low, _INT32.max)
        return given.astype(np.int32)


class EnvironmentFunctions(_Calls):
    """The functions of `AtariVectorEnv.xla`, which change an environment."""

    def __init__(self, env: object, batch: Any, plan: BatchPlan, options: EnvOptions) -> None:
        """Serve an environment with its back end, and keep it alive."""
        super().__init__(plan, options)
        self._env = env
        self._shape = (options.num_envs,)
        self._reset_call: _ResetCall = jax.jit(self._call_reset)
        self._step_call: _StepCall = jax.jit(self._call_step)
        self._target = self._make_target(batch, plan)
        number = np.array([self._target.id], np.int64).view(np.uint8)
        self.handle = jax.device_put(number, self._device())
        self._handle_type = jax.ShapeDtypeStruct(self.handle.shape, self.handle.dtype)

    def _make_target(self, batch: Any, plan: BatchPlan) -> _core.XlaTarget | _cuda.XlaTarget:
        _register_handlers(_core, "cpu")
        target: _core.XlaTarget = batch.xla_target(_action_table(plan, self._options))
        return target

    def _device(self) -> jax.Device | None:
        """Where the handle is; None for JAX's default."""
        return None

    def reset(
        self, handle: Array, seed: object = None, reset_mask: object = None
    ) -> tuple[Array, tuple[Array, Info]]:
        """Start new episodes; see `AtariVectorEnv.xla`."""
        self._before_call()
        (num_envs,) = self._shape
        if reset_mask is None:
            return self._reset_call(handle, _seeds(seed, num_envs), None)
        mask = _as_array("reset_mask", reset_mask, "bool", self._shape, InvalidArgumentError)
        count = num_envs
        if np.ndim(to_numpy(seed)) > 0:
            if isinstance(mask, jax.core.Tracer):
                raise InvalidArgumentError(
                    "seed is an array, one for each environment that is reset, and reset_mask is "
                    "traced; seed must be None or an integer"
                )
            count = int(mask.sum())
        # Seeds count from the first environment that is reset. Those of the others are not used.
        seeds = _seeds(seed, count)
        rank = jnp.clip(jnp.cumsum(mask) - 1, 0)
        return self._reset_call(handle, seeds[rank] if count else jnp.zeros(num_envs, int), mask)

    def step(self, handle: Array, actions: object) -> tuple[Array, StepResult]:
        """Advance every environment by one step; see `AtariVectorEnv.xla`."""
        self._before_call()
        return self._step_call(handle, self._actions(actions, self._shape))

    def _before_call(self) -> None:
        """Prepare the back end for a call."""

    def _call_reset(
        self, handle: Array, seeds: Array, mask: Array | None
    ) -> tuple[Array, tuple[Array, Info]]:
        mask = jnp.ones(self._shape, bool) if mask is None else mask
        call = self._call("cule_reset", self._handle_type, self._shape, has_side_effect=True)
        handle, *results = call(handle, seeds, mask)
        return handle, self._read_reset(results)

    def _call_step(self, *arguments: Array) -> tuple[Array, StepResult]:
        call = self._call("cule_step", self._handle_type, self._shape, has_side_effect=True)
        handle, *results = call(*arguments)
        return handle, self._read_step(results)


class DeviceFunctions(EnvironmentFunctions):
    """The same of environments on a GPU: calls on its stream, whose results are tables."""

    def __init__(self, env: object, batch: CudaBatch, plan: BatchPlan, options: EnvOptions) -> None:
        """Serve an environment, and keep it alive.

        Raises:
            MissingPackageError: JAX has no such GPU.
        """
        self._batch = batch
        self._jax_device = find_device(batch.device.index or 0)
        super().__init__(env, batch, plan, options)
        table = plan.action_table
        self._table = (
            None if table is None else jax.device_put(table[plan.game_index], self._jax_device)
        )

    def _before_call(self) -> None:
        self._batch.take_news()

    def _make_target(self, batch: Any, plan: BatchPlan) -> _core.XlaTarget | _cuda.XlaTarget:
        platform = "CUDA" if self._jax_device.platform == "gpu" else self._jax_device.platform
        _register_handlers(batch.native, platform)
        target: _cuda.XlaTarget = batch.xla_target()
        return target

    def _device(self) -> jax.Device | None:
        return self._jax_device

    def _call_reset(
        self, handle: Array, seeds: Array, mask: Array | None
    ) -> tuple[Array, tuple[Array, Info]]:
        # Integers of 64 bits, the lower half first.
        halves = jnp.stack([seeds, jnp.where(seeds < 0, -1, 0)], axis=1)
        masks = [] if mask is None else [mask]
        handle, *results = self._run("cule_cuda_reset", handle, halves, *masks)
        return handle, self._read_reset(results)

    def _call_step(self, handle: Array, actions: Array) -> tuple[Array, StepResult]:
        if self._table is not None:
            inside = actions.clip(0, self._table.shape[1] - 1)
            native = jnp.take_along_axis(self._table, inside[:, None], axis=1)[:, 0]
            actions = jnp.where(actions == inside, native, -1)
        handle, *results = self._run("cule_cuda_step", handle, actions)
        return handle, self._read_step(results)

    def _run(self, name: str, *arguments: Array) -> list[Array]:
        """The handle and the results, tables as their rows."""
        frames = jax.ShapeDtypeStruct((*self._shape, *self._native_shape), jnp.uint8)
        numbers = jax.ShapeDtypeStruct((_INT_ROWS, *self._shape), jnp.int32)
        bits = jax.ShapeDtypeStruct((_FLAG_ROWS, *self._shape), jnp.bool_)
        has_final = name == "cule_cuda_step" and self._is_same_step
        last = [frames, numbers] if has_final else []
        results = [self._handle_type, frames, numbers, bits, *last]
        call = jax.ffi.ffi_call(name, results, has_side_effect=True, input_output_aliases={0: 0})
        found = call(*arguments, target=np.int64(self._target.id))
        # Where a loop stores results in slices of an array, XLA replaces the call by a copy that
        # writes there, but keeps the call as well, for its effects: two steps in place of one.
        handle, obs, ints, flags, *final = jax.lax.optimization_barrier(found)
        rows = [handle, obs, *ints, *flags]
        return [*rows, final[0], *final[1]] if final else rows


def find_device(number: int) -> jax.Device:
    """The device of JAX that is this GPU.

    Raises:
        MissingPackageError: JAX has none.
    """
    try:
        found = [
            gpu for gpu in jax.local_devices(backend="cuda") if gpu.local_hardware_id == number
        ]
        reason = f"JAX has no GPU {number}"
    except RuntimeError as error:
        found, reason = [], str(error)
    if not found:
        raise MissingPackageError(
            f"device is 'cuda:{number}', and JAX cannot use it: {reason}; pip install "
            "'jax[cuda13]', as JAX's documentation says for this machine"
        )
    return found[0]


class SnapshotFunctions(_Calls):
    """The functions of `AtariVectorEnv.xla_pure`, in environments of their own."""

    def __init__(self, plan: BatchPlan, options: EnvOptions) -> None:
        """Make environments that snapshots are run in."""
        batch = make_batch(plan, options)
        super().__init__(plan, options)
        _register_handlers(_core, "cpu")
        self._target = batch.xla_target(_action_table(plan, options))
        self._reset_call: _ResetCall = jax.jit(self._call_reset)
        self._step_call: _StepCall = jax.jit(self._call_step)
        self._num_envs = options.num_envs
        self._state_size = batch.state_size
        rows = np.column_stack([plan.kinds, plan.action_delays])
        self._is_uniform = len(np.unique(rows, axis=0)) == 1

    def reset(self, seed: object) -> tuple[Array, tuple[Array, Info]]:
        """Snapshots of new episodes; see `AtariVectorEnv.xla_pure`."""
        shape = np.shape(to_numpy(seed)) or (self._num_envs,)
        self._check_shape("seed", shape)
        return self._reset_call(_seeds(seed, math.prod(shape)).reshape(shape))

    def step(self, states: object, actions: object) -> tuple[Array, StepResult]:
        """Snapshots one step later; see `AtariVectorEnv.xla_pure`."""
        shape = np.shape(to_numpy(states))[:-1]
        wanted = (*shape, self._state_size)
        rows = _as_array("states", states, "uint8", wanted, InvalidArgumentError)
        self._check_shape("states", shape)
        return self._step_call(rows, self._actions(actions, shape))

    def _check_shape(self, name: str, shape: Shape) -> None:
        if not self._is_uniform and shape[-1:] != (self._num_envs,):
            raise InvalidArgumentError(
                f"{name} is for environments of shape {shape}; with several games, modes, "
                f"difficulties or action delays the last dimension must be {self._num_envs}, one "
                "environment each"
            )

    def _call_reset(self, *arguments: Array) -> tuple[Array, tuple[Array, Info]]:
        states, *results = self._run("cule_reset_snapshots", arguments, arguments[0].shape)
        return states, self._read_reset(results)

    def _call_step(self, *arguments: Array) -> tuple[Array, StepResult]:
        states, *results = self._run("cule_step_snapshots", arguments, arguments[0].shape[:-1])
        return states, self._read_step(results)

    def _run(self, name: str, arguments: Sequence[Array], shape: Shape) -> list[Array]:
        states = jax.ShapeDtypeStruct((*shape, self._state_size), jnp.uint8)
        # A step writes its snapshots where those that it reads are, where nothing else needs them.
        aliases = {0: 0} if name == "cule_step_snapshots" else {}
        call = self._call(
            name, states, shape, vmap_method="broadcast_all", input_output_aliases=aliases
        )
        results = call(*arguments, target=np.int64(self._target.id))
        # A number of the snapshot's place here, not of the environment it was run in.
        count = shape[-1] if shape else 1
        ids = jnp.arange(math.prod(shape), dtype=jnp.int32).reshape(shape) % max(count, 1)
        results[2 + _core.INT_ENV_ID] = ids
        if len(results) > 2 + _INT_ROWS + _FLAG_ROWS:
            results[-_INT_ROWS + _core.INT_ENV_ID] = ids
        return results


def _same(array: Array) -> Array:
    return array


def _action_table(plan: BatchPlan, options: EnvOptions) -> NDArray[np.int32]:
    """Actions as indices of each environment's own set; nothing where they are continuous."""
    if options.continuous:
        return np.empty((options.num_envs, 0), np.int32)
    if plan.action_table is not None:
        return plan.action_table[plan.game_index]
    return np.tile(np.arange(len(plan.action_set), dtype=np.int32), (options.num_envs, 1))


def _as_array(name: str, value: object, dtype: str, shape: Shape, error: type[CuleError]) -> Array:
    """An array of JAX or numpy, of this dtype ("integers" for any) and shape."""
    if not isinstance(value, jax.Array):  # a traced one is
        value = value if shape else np.asarray(value)  # a number is no array
        return as_array(name, value, dtype, shape, error, error)
    if not (value.dtype.kind in "iu" if dtype == "integers" else value.dtype == dtype):
        raise error(f"{name} is an array of {value.dtype}; it must be one of {dtype}")
    if value.shape != shape:
        raise error(f"{name} has shape {value.shape}; it must be {shape}")
    return value


def _joysticks(actions: Array) -> NDArray[np.float32]:
    """Joysticks of continuous actions, computed as `AtariVectorEnv.step` does."""
    given = np.asarray(actions)
    rows = given.reshape(-1, CONTINUOUS_SIZE)
    return continuous_actions(rows, len(rows)).reshape(*given.shape[:-1], _JOYSTICK_SIZE)


def _seeds(seed: object, count: int) -> Array:
    """Seeds of `count` environments, int32 ``[count]``."""
    if not isinstance(seed, jax.Array):
        flat = np.reshape(seed, -1) if isinstance(seed, np.ndarray) and seed.ndim > 1 else seed
        return jnp.asarray(as_seeds(flat, count), jnp.int32)
    if seed.dtype.kind not in "iu" or not np.can_cast(seed.dtype, np.int32):
        raise ArgumentTypeError(f"seed is an array of {seed.dtype}; it must be one of int32")
    seeds = seed.astype(jnp.int32)
    if seeds.size == count and seeds.ndim > 0:
        return seeds.reshape(count)
    if seeds.ndim > 0:
        raise InvalidArgumentError(f"seed has shape {seed.shape}; it must be () or ({count},)")
    counted = seeds + jnp.arange(count, dtype=jnp.int32)
    # The number of a sum that int32 does not hold, which the call refuses.
    return jnp.where((seeds >= 0) & (counted < 0), _INT32.min, counted)
