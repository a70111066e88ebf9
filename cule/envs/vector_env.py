"""Base of environments with any number of players: a Gymnasium vector environment.

In: actions, one for each environment. Out: observations, rewards, flags and numbers, as arrays or
tensors. This file checks the order of calls, and leaves everything between to a back end
(`cule.envs.backend`). A refused call changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from enum import Enum, auto
from typing import TypeVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from cule import _core
from cule.envs.actions import Action
from cule.envs.backend import Outputs, make_backend, objects_beside, rgb_screens, running_kernel
from cule.envs.checks import Array, as_choice, to_numpy
from cule.envs.concurrency import forked_error, is_held_elsewhere, one_at_a_time, watch_forks
from cule.envs.errors import native_errors
from cule.envs.flight import Flight
from cule.envs.options import EnvOptions
from cule.envs.plan import BatchPlan, batched_space, frame_shape, obs_dtype, observation_space
from cule.envs.requests import (
    ResetRequest,
    as_indices,
    as_states,
    parse_reset,
    restore,
)
from cule.envs.results import FrameStep, Info, Results, RunningKernel, StepResult
from cule.errors import (
    ClosedError,
    InvalidArgumentError,
    InvalidStateError,
    NotResetError,
    warn,
)
from cule.files import anchored

_Env = TypeVar("_Env", bound="BatchEnv")


class State(Enum):
    """Calls that environments accept; `Flight` counts those that are under way."""

    NEW = auto()  # not reset
    READY = auto()
    LEFT_BEHIND = auto()  # in a forked process, without threads
    CLOSED = auto()


class BatchEnv(gymnasium.vector.VectorEnv[Array, Array, Array]):
    """Environments of any number of players, stepped together."""

    _state = State.CLOSED  # until __init__ succeeds, so that closing it is safe

    def __init__(
        self, config: EnvOptions, plan: BatchPlan, game: object, keywords: Mapping[str, object]
    ) -> None:
        """Make the environments of a plan.

        Args:
            config: The options, complete.
            plan: Games and settings of the environments.
            game: The game as the user gave it, for pickles.
            keywords: The options likewise.
        """
        self._arguments = (game, config.num_envs)
        files = {k: anchored(getattr(config, k)) for k in ("rom_path", "rules")}
        kept = {**keywords, **files, "modifications": config.modifications}
        self._keywords = {k: kept[k] for k in keywords}
        self._lock = threading.RLock()
        self._config = config
        self._plan = plan
        self._batch, self._memory = make_backend(plan, config)
        self._boxes, in_info = objects_beside(config, plan, self._batch)
        self._results = Results(self._memory, config, plan.num_players, in_info)

        self.num_envs = config.num_envs
        self.batch_size = config.batch_size or config.num_envs
        self.autoreset_mode = AutoresetMode(config.autoreset_mode)
        self.metadata = {
            "autoreset_mode": self.autoreset_mode,
            "render_modes": ["rgb_array"],
            "render_fps": 30,
        }
        self.render_mode = config.render_mode
        self.single_observation_space = observation_space(config, plan.object_rows)
        self.single_action_space = self._action_space(len(plan.action_set))
        # As in ale-py, step takes and gives a batch, which may be fewer than all environments.
        self.observation_space = batched_space(self.single_observation_space, self.batch_size)
        self.action_space = batch_space(self.single_action_space, self.batch_size)

        obs_shape = (self.batch_size, *(self.single_observation_space.shape or ()))
        dtype = obs_dtype(config)
        self._frames = (self.num_envs, *frame_shape(config, plan.object_rows)), dtype
        self._obs_pool = self._memory.pool(obs_shape, dtype)
        self._final_obs_pool = self._memory.pool(obs_shape, dtype)
        self._frame_pool = self._memory.pool(*self._frames)
        self._final_frame_pool = self._memory.pool(*self._frames)
        self._same_step = config.autoreset_mode is AutoresetMode.SAME_STEP
        self._flight = Flight(self._batch, self.num_envs, self.batch_size)
        self._state = State.NEW
        watch_forks(self)

    # --- Gymnasium ------------------------------------------------------------------------------

    @one_at_a_time
    def reset(
        self, *, seed: object = None, options: Mapping[str, object] | None = None
    ) -> tuple[Array, Info]:
        """Start new episodes in all environments, or in some.

        Args:
            seed: None: the random streams continue (from entropy, the first time). An integer s:
                environment i gets s + i. A list or array of integers: one for each environment that
                is reset.
                At most 2**31 - 1 as in ale-py, in an array of uint32 at most 2**32 - 2.
                Negative: as None. With ``states``, which hold the environments' streams, it seeds
                the generator of this object only.
            options: ``reset_mask``, bool ``[N]``: only these are reset; an integer seed counts from
                the first of them. ``states``, uint8 ``[n, state_size]``: these n environments take
                snapshots of `get_state` instead of a new episode.

        Returns:
            Observations of all environments (of the first `batch_size`, where that is less), and
            ``info``.

        Raises:
            ArgumentTypeError: A seed, mask or snapshot of the wrong type.
            InvalidArgumentError: One of the wrong shape or range, or an unknown option.
            InvalidStateError: Snapshots that are damaged or belong to other games.
            NotResetError: The first reset does not reset every environment.
        """
        self._check_open()
        request = parse_reset(seed, options, self._batch.state_size, self._config)
        self._check_mask(request)
        if request.base_seed is not None:
            super().reset(seed=request.base_seed)
        landed = self._drain()
        obs = self._obs_pool()
        out = self._memory.outputs(obs)
        if self._flight.is_partial:
            self._send_all(request)
            self._flight.receive(out)
        elif request.states is not None:
            try:
                restore(self._batch, request.states, request.indices(self.num_envs), self._config)
            except InvalidStateError:
                self._flight.give_back(landed)
                raise
            with native_errors:
                self._batch.observe(out)
        else:
            self._begin_episodes(request, out)
        self._state = State.READY
        return self._memory.wrap(obs), self._results.info(out)

    @one_at_a_time
    def step(self, actions: object) -> StepResult:
        """Advance every environment by one step of ``frameskip`` frames.

        Args:
            actions: Indices into `action_set`, integers ``[N]``; with ``continuous=True`` (radius,
                angle, fire), float32 ``[N, 3]``. A numpy array, a torch tensor or a list.

        Returns:
            Observations; reward, int32 ``[N]``; terminated and truncated, bool ``[N]``; and
            ``info`` with ``env_id``, ``lives``, ``frame_number`` and ``episode_frame_number``,
            int32 ``[N]``; with `episode_info` also ``reward``, ``episode_return`` and
            ``episode_length``, int32 ``[N]``. Where episodes ended with SameStep autoreset, also
            ``final_obs`` (rows of environments that did not end are unspecified) and, with the
            option `final_info`, ``final_info`` and ``_final_info``, the mask of valid rows of both.

        Raises:
            ActionShapeError: Actions of the wrong type, dtype or shape; nothing has moved.
            ActionRangeError: An action outside the action space; nothing has moved.
            NotResetError: Before the first reset or, with Disabled autoreset, after an episode's
                end.
        """
        self._check_ready()
        if self._flight.is_partial:
            self.send(actions)
            return self.recv()
        native = self._memory.actions(actions, self._flight.all_ids)
        self._flight.check_landed("step")
        out = self._step_outputs()
        with native_errors:
            self._batch.step(native, out)
        return self._results.step(out)

    @one_at_a_time
    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """The current screens with ``render_mode="rgb_array"``: uint8 ``[H, 160, 3]`` each.

        Raises:
            NotResetError: Before the first reset.
            CallOrderError: Environments have been sent and not received.
        """
        self._check_ready("render")
        if self.render_mode is None:
            warn("render_mode is None; make the environment with 'rgb_array'")
            return None
        screens = rgb_screens(self._batch, self._plan.screen_heights)
        if self._boxes is not None:
            self._boxes.draw(screens, 255)
        return screens

    @one_at_a_time
    def close(self, **kwargs: object) -> None:
        """Stop the threads and free the environments, after a step of another thread has ended."""
        super().close(**kwargs)

    def close_extras(self, **kwargs: object) -> None:
        """Free everything; `close` calls it once."""
        try:
            if self._state is not State.LEFT_BEHIND:
                self._batch.close()
        finally:  # also where a signal's handler raises
            self._state = State.CLOSED

    @property
    def closed(self) -> bool:
        """Whether `close` has been called; Gymnasium sets it."""
        return self._state is State.CLOSED

    @closed.setter
    def closed(self, closed: bool) -> None:
        assert closed, "closed environments stay so"
        self._state = State.CLOSED

    def __enter__(self: _Env) -> _Env:
        """Return the environments; leaving the block closes them."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Games, sizes and device."""
        config = self._config
        return (
            f"{type(self).__name__}({config.game!r}, num_envs={self.num_envs}, "
            f"obs={self.single_observation_space.dtype} {self.single_observation_space.shape}, "
            f"actions={self.single_action_space}, device={str(config.device)!r})"
        )

    # --- Asynchronous stepping ------------------------------------------------------------------

    @one_at_a_time
    def send(self, actions: object) -> None:
        """Start a step of the environments of the last received batch, and return at once.

        Args:
            actions: As for `step`; row i is for the environment at row i of the last batch
                (``info["env_id"]``).

        Raises:
            As `step`, and CallOrderError: The last batch has been sent already.
        """
        self._check_ready()
        self._flight.send(self._memory.actions(actions, self._flight.next_ids()))

    def recv(self) -> StepResult:
        """Wait for the next `batch_size` environments to finish.

        Returns:
            As `step`; ``info["env_id"]`` says which environments these are. With ``batch_size =
            num_envs`` they are in order, otherwise in the order in which they finished.

        Raises:
            CallOrderError: Fewer environments have been sent.
        """
        with self._flight.turn(self._lock):
            self._check_ready()
            self._flight.check_enough()
            return self._results.step(self._flight.receive(self._step_outputs()))

    # --- Beyond Gymnasium -----------------------------------------------------------------------

    @one_at_a_time
    def step_frames(self, actions: object, out: Array = None) -> FrameStep:
        """One step without stacking, for learners that keep their own ring of frames.

        Args:
            actions: As for `step`.
            out: Where to write the newest frames: a uint8 array or tensor on `device`, ``[N, H,
                W]`` (``[N, H, W, 3]`` for RGB, ``[N, 128]`` for RAM; int16 ``[N, K, 6]`` for
                objects), each row contiguous, such as the next row of a replay ring.

        Returns:
            The result, see `FrameStep`.

        Raises:
            InvalidArgumentError: `out` does not fit, or batch_size is below num_envs.
            ActionShapeError, ActionRangeError, NotResetError: As `step`.
        """
        self._check_ready()
        if self._flight.is_partial:
            raise InvalidArgumentError(
                f"batch_size is {self.batch_size}; for step_frames it must be num_envs, "
                f"{self.num_envs}"
            )
        native = self._memory.actions(actions, self._flight.all_ids)
        self._flight.check_landed("step_frames")
        memory = self._memory
        frame = self._frame_pool() if out is None else memory.target(out, *self._frames)
        final = self._final_frame_pool() if self._same_step else None
        outputs = memory.outputs(frame, final, stacked=False)
        with native_errors:
            self._batch.step(native, outputs)
        newest = memory.wrap(frame) if out is None else out
        return self._results.frames(newest, None if final is None else memory.wrap(final), outputs)

    @property
    def config(self) -> EnvOptions:
        """The options this environment was made with, complete."""
        return self._config

    @property
    def device(self) -> str:
        """Device of environments and results: "cpu" or "cuda:<number>"."""
        return str(self._config.device)

    @property
    def action_set(self) -> tuple[Action, ...]:
        """Actions that the indices of `step` mean, or that continuous actions can become."""
        return self._plan.action_set

    @property
    def num_players(self) -> int:
        """Players of each environment."""
        return self._plan.num_players

    @property
    def frame_rate(self) -> int:
        """Frames per second of a real console with the (first) game: 60, or 50 where it is PAL."""
        return self._plan.frame_rate

    @property
    def num_threads(self) -> int:
        """CPU threads that step the environments; 0 on a GPU."""
        self._check_open()
        return self._batch.num_threads

    @property
    def state_size(self) -> int:
        """Bytes of a snapshot of `get_state`."""
        self._check_open()
        return self._batch.state_size

    @property
    def is_compiling(self) -> bool:
        """Whether a kernel is being compiled for the game, to take over between two steps.

        Only on a GPU. A CUDA graph that is captured meanwhile keeps the kernels that it was
        captured with.
        """
        self._check_open()
        return self._batch.is_compiling

    @property
    def running_kernel(self) -> RunningKernel:
        """Kernel that executes programs: "interpreter" or "compiled", and its launch geometry.

        The option `kernel` says what is wanted. On a GPU a compiled kernel takes over once it is
        ready; on a CPU it is machine code, where this machine supports that.
        """
        self._check_open()
        return running_kernel(self._batch, self._plan)

    @property
    def ram(self) -> Array:
        """RAM of every environment, uint8 ``[N, 128]``: live until `close`, and read-only.

        A copy with ``output="numpy"`` on a GPU.
        """
        self._check_open()
        return self._memory.wrap_read_only(self._batch.ram())

    @property
    def lives(self) -> Array:
        """Lives of every environment, int32 ``[N]``; as `ram`."""
        self._check_open()
        return self._memory.wrap_read_only(self._batch.lives())

    @property
    def episode_frames(self) -> Array:
        """Frames since the last reset, int32 ``[N]``; as `ram`."""
        self._check_open()
        return self._memory.wrap_read_only(self._batch.episode_frames())

    @one_at_a_time
    def get_state(self, indices: object = None) -> Array:
        """Snapshots of environments: console, game, random streams, frame stack.

        Args:
            indices: Which environments, integers ``[n]``; all by default.

        Returns:
            uint8 ``[n, state_size]``, a copy.

        Raises:
            NotResetError: Before the first reset.
            InvalidArgumentError: An index is out of range.
        """
        self._check_ready("get_state")
        chosen = as_indices(indices, self.num_envs)
        with native_errors:
            return self._memory.wrap(self._batch.get_state(chosen))

    @one_at_a_time
    def set_state(self, states: object, indices: object = None) -> None:
        """Restore snapshots that `get_state` of an environment with the same options returned.

        Args:
            states: uint8 ``[n, state_size]``; one row is for all of them. Call `observe` for the
                observations.
            indices: Which environments, integers ``[n]``, each once; all by default.

        With ``batch_size < num_envs`` the next `send` is for the batch received last; if there was
        none yet, `recv` gives the first.

        Raises:
            InvalidStateError: A snapshot is damaged, belongs to another game, or was saved with
                other observations or resets; nothing has changed.
            InvalidArgumentError: A wrong shape or index.
            NotResetError: Before the first reset, unless all environments are set.
        """
        self._check_open()
        self._flight.check_landed("set_state")
        chosen = as_indices(indices, self.num_envs, unique=True)
        rows = as_states(states, len(chosen), self._batch.state_size, self._config)
        if not self._is_reset() and len(chosen) < self.num_envs:
            raise NotResetError("set_state() of some environments before the first reset()")
        restore(self._batch, rows, chosen, self._config)
        if self._flight.is_partial and self._state is State.NEW:
            self._flight.send_all(np.full(self.num_envs, _core.KEEP_STATE, np.int64))
        self._state = State.READY

    @one_at_a_time
    def observe(self) -> tuple[Array, Info]:
        """Observations of all environments as they are, such as after `set_state`.

        Returns:
            As `reset`, for all `num_envs` environments. Nothing has moved.

        Raises:
            NotResetError: Before the first reset.
            CallOrderError: Environments have been sent and not received.
        """
        self._check_ready("observe")
        shape = (self.num_envs, *(self.single_observation_space.shape or ()))
        obs = self._memory.pool(shape, obs_dtype(self._config))()
        out = self._memory.outputs(obs)
        with native_errors:
            self._batch.observe(out)
        return self._memory.wrap(obs), self._results.info(out)

    @one_at_a_time
    def screens(self, kind: str = "rgb", indices: object = None) -> Array:
        """Full-size screens as they were after the last frame.

        Args:
            kind: "rgb", "gray", or "index" (colour register values).
            indices: Which environments, integers ``[n]``; all by default. Their screens must have
                one height.

        Returns:
            uint8 ``[n, H, 160]``, or ``[n, H, 160, 3]`` for "rgb"; a copy.

        Raises:
            NotResetError: Before the first reset.
            InvalidArgumentError: Another kind, a wrong index, or screens of different heights.
        """
        self._check_ready("screens")
        chosen = as_indices(indices, self.num_envs)
        word = as_choice("kind", kind, ("rgb", "gray", "index"))
        with native_errors:
            return self._memory.wrap(self._batch.screens(word, chosen))

    # --- Pickling: the arguments, and a snapshot of every environment -----------------------------

    @one_at_a_time
    def __getstate__(self) -> dict[str, object]:
        """The arguments this environment was made with, and a snapshot of each environment."""
        self._check_open()
        self._flight.check_landed("pickling")
        states = None
        if self._is_reset():
            with native_errors:
                states = self._batch.get_state(np.arange(self.num_envs, dtype=np.int64))
            states = to_numpy(states)
        return {
            "arguments": self._arguments,
            "keywords": self._keywords,
            "states": states,
            "spec": self.spec,
        }

    def __setstate__(self, state: Mapping[str, Array]) -> None:
        """Make the environment anew and restore its snapshots."""
        type(self).__init__(self, *state["arguments"], **state["keywords"])
        self.spec = state["spec"]
        if state["states"] is not None:
            self.set_state(state["states"])

    # --- Inside ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._state is State.CLOSED:
            raise ClosedError("this environment has been closed")
        if self._state is State.LEFT_BEHIND:
            raise forked_error()

    def leave_behind(self) -> object | None:
        """Disable the environment in a forked child, unless it runs without worker threads."""
        has_threads = not isinstance(self._batch, _core.Batch) or self._batch.has_threads
        is_lost = has_threads or is_held_elsewhere(self._lock)
        if is_lost and not self.closed:
            self._state = State.LEFT_BEHIND
        self._lock = threading.RLock()  # its owner may not be in this process
        return self._batch if self._state is State.LEFT_BEHIND else None

    def _check_ready(self, what: str = "") -> None:
        """Refuse a call before the first reset; one that is named also while envs are sent."""
        if self._state is not State.READY:
            self._check_open()
            if not self._is_reset():
                raise NotResetError("this environment has not been reset; call reset() first")
        if what:
            self._flight.check_landed(what)

    def _is_reset(self) -> bool:
        """Whether every environment has an episode, which a function of `xla` may have begun."""
        if self._state is State.NEW and self._batch.has_reset:
            self._state = State.READY
        return self._state is State.READY

    def _check_mask(self, request: ResetRequest) -> None:
        """Refuse the reset of some environments where all must be reset."""
        if request.mask is None:
            return
        if self._flight.is_partial:
            raise InvalidArgumentError(
                "options holds 'reset_mask'; no partial reset is possible where batch_size < "
                f"num_envs, and they are {self.batch_size} and {self.num_envs}"
            )
        if not self._is_reset():
            raise NotResetError("options: the first reset() must reset every environment")

    def _begin_episodes(self, request: ResetRequest, out: Outputs) -> None:
        """Begin episodes; where all environments do, random steps follow by `decorrelate_steps`."""
        max_steps = self._config.decorrelate_steps
        with native_errors:
            self._batch.reset(request.mask, request.seeds_for(self._is_reset()), out)
            if max_steps and request.mask is None:
                self._batch.decorrelate(max_steps, request.decorrelation_seed(self.np_random), out)

    def _send_all(self, request: ResetRequest) -> None:
        """Send all environments, with new episodes or restored snapshots, to be received."""
        seeds = np.full(self.num_envs, _core.KEEP_STATE, np.int64)
        if request.states is None:
            seeds = request.seeds_for(self._is_reset())
        else:
            try:
                restore(self._batch, request.states, request.indices(self.num_envs), self._config)
            except InvalidStateError:
                if self._state is State.READY:
                    self._flight.send_all(seeds)  # what has been drained is reported again
                raise
        self._flight.send_all(seeds)
        self._state = State.READY

    def _drain(self) -> Outputs | None:
        """Wait for environments that have been sent; returns their results, if there are any."""
        if not self._flight.num_sent:
            return None
        if not self._flight.is_partial:
            return self._flight.drain(self._step_outputs())
        shape = (self._flight.num_sent, *(self.single_observation_space.shape or ()))
        pool = self._memory.pool(shape, obs_dtype(self._config))
        return self._flight.drain(self._memory.outputs(pool()))

    def _step_outputs(self) -> Outputs:
        final = self._final_obs_pool() if self._same_step else None
        return self._memory.outputs(self._obs_pool(), final)

    def _action_space(self, num_actions: int) -> gymnasium.Space[Array]:
        """The action space of one environment, for an action set of this size."""
        raise NotImplementedError
