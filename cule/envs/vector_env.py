"""The batch of consoles that users see: a Gymnasium vector environment.

In: actions, one a console. Out: observations, rewards, flags and numbers, as arrays or tensors.
This file checks what comes in, lends memory for what goes out, and leaves everything between to
``cule._core.Batch``. A refused call changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from cule import _core
from cule.envs._decorators import one_at_a_time, remember_keywords
from cule.envs.action import Action
from cule.envs.actions import to_numpy
from cule.envs.backend import make_backend
from cule.envs.checks import as_choice
from cule.envs.compat_errors import CallOrderError
from cule.envs.native import native_errors
from cule.envs.options import EnvOptions, resolve_options
from cule.envs.plan import plan_batch
from cule.envs.requests import (
    KEEP_STATE,
    NO_SEED,
    ResetRequest,
    as_indices,
    as_states,
    parse_reset,
)
from cule.envs.results import FrameStep, Tables, make_info
from cule.envs.spaces import continuous_action_space, frame_shape, observation_space
from cule.errors import ClosedError, InvalidArgumentError, InvalidStateError, NotResetError


class AtariVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Many Atari 2600 consoles, stepped together.

    A drop-in for ``ale_py.vector_env.AtariVectorEnv`` 0.12.1: the same keywords, defaults, dtypes,
    shapes, info keys and autoreset modes, and with ``resets="exact"`` the same trajectories but for
    continuous actions in skiing and lost_luggage (csrc/env/NOTES.md 8.6). There is no ``xla``.
    Observations are uint8 ``[N, S, H, W]`` (``[N, S, H, W, 3]`` with ``grayscale=False``, ``[N,
    128]`` with ``obs_type="ram"``), the oldest frame first. Every result belongs to the caller and
    stays as it is.

    Args are those of `EnvOptions`, which documents each one; `config` shows what they came to.
    Calls from several threads wait for each other, but for `send` and `recv`.

    Raises:
        InvalidArgumentError: An option is outside its allowed values.
        UnknownGameError, RomNotFoundError, UnsupportedRomError, RulesError: The game cannot be had.
        DeviceError: There is no backend for the device.

    Example:
        >>> import cule
        >>> env = cule.AtariVectorEnv("pong", num_envs=8)
        >>> obs, info = env.reset(seed=0)
        >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> obs.shape, reward.dtype
        ((8, 4, 84, 84), dtype('int32'))
    """

    _keywords: dict[str, Any]

    @remember_keywords
    def __init__(
        self,
        game: str | tuple[tuple[str, int], ...] | list[tuple[str, int]],
        num_envs: int,
        *,
        batch_size: int = 0,
        num_threads: int = 0,
        thread_affinity_offset: int = -1,
        max_num_frames_per_episode: int = 108_000,
        repeat_action_probability: float = 0.0,
        full_action_space: bool = False,
        continuous: bool = False,
        continuous_action_threshold: float = 0.5,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        img_height: int = 84,
        img_width: int = 84,
        grayscale: bool = True,
        stack_num: int = 4,
        frameskip: int = 4,
        maxpool: bool = True,
        noop_max: int = 30,
        episodic_life: bool = False,
        life_loss_info: bool = False,
        reward_clipping: bool = True,
        use_fire_reset: bool = True,
        device: Any = "cpu",
        output: str | None = None,
        resets: str | None = None,
        num_reset_states: int = 30,
        obs_type: str = "image",
        mode: Any = None,
        difficulty: Any = None,
        preset: str = "ale",
        decorrelate_steps: int = 0,
        rom_path: Any = None,
        rules: Any = None,
        render_mode: str | None = None,
    ) -> None:
        """Make the consoles; the first `reset` plays them to their first observation."""
        self._lock = threading.RLock()
        self._arguments = (game, num_envs)
        options = resolve_options(game, num_envs, self._keywords)
        plan = plan_batch(options)
        self._config = options
        self._plan = plan
        self._batch, self._memory = make_backend(plan, options)

        self.num_envs = options.num_envs
        self.batch_size = options.batch_size or options.num_envs
        self.autoreset_mode = options.autoreset_mode
        self.metadata = {
            "autoreset_mode": options.autoreset_mode,
            "render_modes": ["rgb_array"],
            "render_fps": 30,
        }
        self.render_mode = options.render_mode
        self.single_observation_space = observation_space(options)
        if options.continuous:
            self.single_action_space = continuous_action_space()
        else:
            self.single_action_space = gymnasium.spaces.Discrete(len(plan.action_set))
        # As in ale-py, what step takes and gives is a batch, which may be fewer than all consoles.
        self.observation_space = batch_space(self.single_observation_space, self.batch_size)
        self.action_space = batch_space(self.single_action_space, self.batch_size)

        obs_shape = (self.batch_size, *(self.single_observation_space.shape or ()))
        frames_shape = (self.num_envs, *frame_shape(options))
        self._obs_pool = self._memory.pool(obs_shape)
        self._final_obs_pool = self._memory.pool(obs_shape)
        self._frame_pool = self._memory.pool(frames_shape)
        self._final_frame_pool = self._memory.pool(frames_shape)
        self._same_step = options.autoreset_mode is AutoresetMode.SAME_STEP
        self._was_reset = False
        self._all_ids = np.arange(self.num_envs, dtype=np.int32)
        self._batch_ids: NDArray[np.int32] | None = None  # consoles of the last received batch
        self._num_in_flight = 0  # consoles whose result has been asked for and not received

    # --- Gymnasium ------------------------------------------------------------------------------

    @one_at_a_time
    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes in all consoles, or in some.

        Args:
            seed: None: the random streams go on (from entropy, the first time). An integer s:
                console i gets s + i. An integer array: one for each console that is reset.
                Negative: as None. Beside ``states``, which hold the consoles' streams, it seeds the
                environment's own generator alone.
            options: ``reset_mask``, bool ``[N]``: only these are reset; an integer seed counts from
                the first of them. ``states``, uint8 ``[n, state_size]``: these n consoles take rows
                of `get_state` instead of a new episode.

        Returns:
            Observations of all consoles (of the first `batch_size`, where that is less), and
            ``info``.

        Raises:
            ArgumentTypeError: A seed, mask or state of the wrong type.
            InvalidArgumentError: One of the wrong shape or range, or an unknown option.
            InvalidStateError: States that are damaged or belong to other games.
            NotResetError: The first reset does not reset every console.
        """
        self._check_open()
        request = parse_reset(seed, options, self.num_envs, self._batch.state_size)
        partial = request.mask is not None
        if partial and self.batch_size != self.num_envs:
            raise InvalidArgumentError(
                f"options: a partial reset needs batch_size = num_envs, but they are "
                f"{self.batch_size} and {self.num_envs}"
            )
        if partial and not self._was_reset:
            raise NotResetError("options: the first reset must reset every console")
        if request.base_seed is not None:
            super().reset(seed=request.base_seed)
        self._drain()
        if self.batch_size != self.num_envs:
            seeds = self._first_seeds(request)
            if request.states is not None:
                seeds = np.full(self.num_envs, KEEP_STATE, np.int64)
                try:
                    self._restore(request.states, request.indices(self.num_envs))
                except InvalidStateError:
                    if self._was_reset:
                        self._send_reset(seeds)  # what has been drained is reported again
                    raise
            self._send_reset(seeds)
            return self._first_batch()
        obs, tables = self._obs_pool.take(), self._memory.tables(self.num_envs)
        if request.states is not None:
            self._restore(request.states, request.indices(self.num_envs))
            self._batch.observe(obs, *tables)
        else:
            with native_errors():
                self._batch.reset(request.mask, self._first_seeds(request), obs, *tables)
        if self._config.decorrelate_steps and not partial and request.states is None:
            seed_word = self._decorrelation_seed(request)
            self._batch.decorrelate(self._config.decorrelate_steps, seed_word, obs, *tables)
        self._was_reset = True
        self._batch_ids = self._all_ids
        return self._memory.wrap(obs), self._memory.wrap_all(make_info(tables.ints))

    @one_at_a_time
    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Advance every console by one step of ``frameskip`` frames.

        Args:
            actions: Indices into `action_set`, integers ``[N]``; with ``continuous=True`` (radius,
                angle, fire), float32 ``[N, 3]``. A numpy array or a torch tensor.

        Returns:
            Observations; reward, int32 ``[N]``; terminated and truncated, bool ``[N]``; and
            ``info`` with ``env_id``, ``lives``, ``frame_number`` and ``episode_frame_number``,
            int32 ``[N]``. Where episodes ended with SameStep autoreset, also ``final_obs`` (rows of
            consoles that did not end are unspecified), ``final_info`` and ``_final_info``, the mask
            of rows that are valid in both.

        Raises:
            ActionShapeError: Actions of the wrong type, dtype or shape; no console has moved.
            ActionRangeError: An action outside the action space; no console has moved.
            NotResetError: Before the first reset or, with Disabled autoreset, after an episode's
                end.
        """
        self._check_ready()
        if self.batch_size != self.num_envs:
            self.send(actions)
            return self.recv()
        native = self._native_actions(actions, self._all_ids)
        self._check_nothing_in_flight("step")
        obs, tables = self._obs_pool.take(), self._memory.tables(self.num_envs)
        final_obs, final_ints = self._final_memory(tables)
        with native_errors():
            self._batch.step(native, obs, tables.ints, tables.flags, final_obs, final_ints)
        return self._step_result(obs, tables, final_obs, final_ints)

    @one_at_a_time
    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """The current screens with ``render_mode="rgb_array"``: uint8 ``[H, 160, 3]`` each.

        Raises:
            NotResetError: Before the first reset.
        """
        self._check_ready()
        if self.render_mode is None:
            gymnasium.logger.warn("render_mode is None; make the environment with 'rgb_array'")
            return None
        frames: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)] * self.num_envs
        heights = self._plan.screen_heights
        for height in np.unique(heights):
            indices = np.flatnonzero(heights == height)
            for index, screen in zip(indices, self._batch.screens("rgb", indices), strict=True):
                frames[index] = to_numpy(screen)
        return tuple(frames)

    @one_at_a_time
    def close(self, **kwargs: Any) -> None:
        """Stop the threads and free the consoles, once a step of another thread is over."""
        super().close(**kwargs)

    def close_extras(self) -> None:
        """What `close` calls, once."""
        self._batch.close()

    # --- Asynchronous stepping ------------------------------------------------------------------

    def send(self, actions: Any) -> None:
        """Start a step of the consoles of the last received batch, and return at once.

        Args:
            actions: As for `step`; row i is for the console at row i of the last batch
                (``info["env_id"]``).

        Raises:
            As `step`, and CallOrderError: The last batch has been sent already.
        """
        self._check_ready()
        if self._batch_ids is None:
            raise CallOrderError("send() twice for one batch; call recv() first")
        native = self._native_actions(actions, self._batch_ids)
        with native_errors():
            self._batch.send(native, self._batch_ids)
        self._num_in_flight += self.batch_size
        self._batch_ids = None

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Wait for the next `batch_size` consoles to finish.

        Returns:
            As `step`; ``info["env_id"]`` says which consoles these are. With ``batch_size =
            num_envs`` they are in order, otherwise in the order in which they finished.

        Raises:
            CallOrderError: So many consoles are not on their way.
        """
        self._check_ready()
        if self._num_in_flight < self.batch_size:
            raise CallOrderError(
                f"recv() of {self.batch_size} consoles, but {self._num_in_flight} are on their "
                "way; call send() first"
            )
        obs, tables = self._obs_pool.take(), self._memory.tables(self.batch_size)
        final_obs, final_ints = self._final_memory(tables)
        with native_errors():
            self._batch.recv(obs, tables.ints, tables.flags, final_obs, final_ints)
        self._received(tables)
        return self._step_result(obs, tables, final_obs, final_ints)

    # --- Beyond Gymnasium -----------------------------------------------------------------------

    @one_at_a_time
    def step_frames(self, actions: Any, out: Any = None) -> FrameStep:
        """One step without stacking, for learners that keep their own ring of frames.

        Args:
            actions: As for `step`.
            out: Where to write the newest frames: a uint8 array or CPU tensor ``[N, H, W]`` (``[N,
                H, W, 3]`` for RGB, ``[N, 128]`` for RAM), each row contiguous, such as the next row
                of a replay ring.

        Returns:
            The result, see `FrameStep`.

        Raises:
            As `step`, and InvalidArgumentError: `out` does not fit, or batch_size is below
            num_envs.
        """
        self._check_ready()
        if self.batch_size != self.num_envs:
            raise InvalidArgumentError(
                f"step_frames needs batch_size = num_envs, but they are {self.batch_size} and "
                f"{self.num_envs}"
            )
        native = self._native_actions(actions, self._all_ids)
        self._check_nothing_in_flight("step_frames")
        shape = (self.num_envs, *frame_shape(self._config))
        frame = self._frame_pool.take() if out is None else self._memory.target(out, shape)
        tables = self._memory.tables(self.num_envs)
        final = self._final_frame_pool.take() if self._same_step else None
        final_ints = self._memory.final_ints(tables) if self._same_step else None
        with native_errors():
            self._batch.step(native, frame, *tables, final, final_ints, stacked=False)
        if final is not None and self._config.life_loss_info:
            # These episodes end for the learner alone: what they end on is the frame itself.
            ended = tables.flags[_core.FLAG_ENDED]
            self._memory.fill(final, frame, tables.flags[_core.FLAG_TERMINATED] & ~ended)
        result = self._memory.wrap(frame) if out is None else out
        ints, flags = tables
        return FrameStep(
            frame=result,
            reward=self._memory.wrap(self._memory.as_float(ints[_core.INT_RAW_REWARD])),
            terminated=self._memory.wrap(flags[_core.FLAG_TERMINATED]),
            truncated=self._memory.wrap(flags[_core.FLAG_TRUNCATED]),
            life_lost=self._memory.wrap(flags[_core.FLAG_LIFE_LOST]),
            first=self._memory.wrap(flags[_core.FLAG_FIRST]),
            # Without a reset in the same step the frame itself is the one the episode ended on.
            final_frame=result if final is None else self._memory.wrap(final),
            episode_return=self._memory.wrap(self._memory.as_float(ints[_core.INT_EPISODE_RETURN])),
            episode_length=self._memory.wrap(ints[_core.INT_EPISODE_LENGTH]),
        )

    @property
    def config(self) -> EnvOptions:
        """The options this environment was made with, complete."""
        return self._config

    @property
    def action_set(self) -> tuple[Action, ...]:
        """What the indices of `step` mean, or what continuous actions can become."""
        return self._plan.action_set

    @property
    def frame_rate(self) -> int:
        """Frames a second of a real console with the (first) game: 60, or 50 where it is PAL."""
        return self._plan.frame_rate

    @property
    def num_threads(self) -> int:
        """CPU threads that step the consoles."""
        self._check_open()
        return int(self._batch.num_threads)

    @property
    def state_size(self) -> int:
        """Bytes of a row of `get_state`."""
        self._check_open()
        return int(self._batch.state_size)

    @property
    def is_translating(self) -> bool:
        """Whether a kernel of the game's own is being compiled, to take over between two steps.

        Only with ``CULE_TRANSLATION=1`` on a GPU. A CUDA graph captured meanwhile keeps the kernels
        that it was captured with.
        """
        self._check_open()
        return bool(getattr(self._batch, "is_translating", False))

    @property
    def ram(self) -> Any:
        """RAM of every console, uint8 ``[N, 128]``: live, valid until `close`, not to be written.

        A copy with ``output="numpy"`` on a GPU.
        """
        self._check_open()
        return self._memory.wrap_read_only(self._batch.ram())

    @property
    def lives(self) -> Any:
        """Lives of every console, int32 ``[N]``; as `ram`."""
        self._check_open()
        return self._memory.wrap_read_only(self._batch.lives())

    @property
    def episode_frames(self) -> Any:
        """Frames since the last reset, int32 ``[N]``; as `ram`."""
        self._check_open()
        return self._memory.wrap_read_only(self._batch.episode_frames())

    @one_at_a_time
    def get_state(self, indices: Any = None) -> Any:
        """Whole consoles as bytes: machine, game, random streams, frame stack.

        Args:
            indices: Which consoles, integers ``[n]``; all by default.

        Returns:
            uint8 ``[n, state_size]``, a copy.

        Raises:
            NotResetError: Before the first reset.
            InvalidArgumentError: An index is out of range.
        """
        self._check_ready()
        self._check_nothing_in_flight("get_state")
        chosen = as_indices(indices, self.num_envs)
        with native_errors():
            return self._memory.wrap(self._batch.get_state(chosen))

    @one_at_a_time
    def set_state(self, states: Any, indices: Any = None) -> None:
        """Put consoles into states that `get_state` of an environment like this one returned.

        Args:
            states: uint8 ``[n, state_size]``.
            indices: Which consoles, integers ``[n]``, each once; all by default.

        With ``batch_size < num_envs`` the next `send` is for the batch received last; if there was
        none yet, `recv` gives the first.

        Raises:
            InvalidStateError: A row is damaged, or belongs to another game or kind of environment;
                nothing has changed.
            InvalidArgumentError: A wrong shape or index.
            NotResetError: Before the first reset, unless all consoles are set.
        """
        self._check_open()
        self._check_nothing_in_flight("set_state")
        chosen = as_indices(indices, self.num_envs, unique=True)
        rows = as_states(states, len(chosen), self._batch.state_size)
        if not self._was_reset and len(chosen) < self.num_envs:
            raise NotResetError("set_state() of some consoles before the first reset()")
        self._restore(rows, chosen)
        if self.batch_size != self.num_envs and not self._was_reset:
            self._send_reset(np.full(self.num_envs, KEEP_STATE, np.int64))
        elif self.batch_size == self.num_envs:
            self._batch_ids = self._all_ids
        self._was_reset = True

    @one_at_a_time
    def screens(self, kind: str = "rgb", indices: Any = None) -> Any:
        """Full-size screens as they were after the last frame.

        Args:
            kind: "rgb", "gray", or "index" (colour register values).
            indices: Which consoles, integers ``[n]``; all by default. Their screens must be of one
                height.

        Returns:
            uint8 ``[n, H, 160]``, or ``[n, H, 160, 3]`` for "rgb"; a copy.

        Raises:
            NotResetError: Before the first reset.
            InvalidArgumentError: Another kind, a wrong index, or screens of different heights.
        """
        self._check_ready()
        self._check_nothing_in_flight("screens")
        chosen = as_indices(indices, self.num_envs)
        word = as_choice("kind", kind, ("rgb", "gray", "index"))
        with native_errors():
            return self._memory.wrap(self._batch.screens(word, chosen))

    # --- Pickling: the arguments, and the state of every console ----------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """The arguments this environment was made with, and the state of its consoles."""
        self._check_open()
        self._check_nothing_in_flight("pickling")
        states = None
        if self._was_reset:
            states = to_numpy(self._batch.get_state(np.arange(self.num_envs, dtype=np.int64)))
        return {
            "arguments": self._arguments,
            "keywords": self._keywords,
            "states": states,
            "spec": self.spec,
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Make the environment anew and put its consoles where they were."""
        AtariVectorEnv.__init__(self, *state["arguments"], **state["keywords"])
        self.spec = state["spec"]
        if state["states"] is not None:
            self.set_state(state["states"])

    # --- Inside ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("this environment has been closed")

    def _check_ready(self) -> None:
        self._check_open()
        if not self._was_reset:
            raise NotResetError("this environment has not been reset; call reset() first")

    def _check_nothing_in_flight(self, what: str) -> None:
        if self._num_in_flight:
            raise CallOrderError(
                f"{what} while {self._num_in_flight} consoles are on their way; call recv() first"
            )

    def _native_actions(self, actions: Any, ids: NDArray[np.int32]) -> Any:
        if self._config.continuous:
            return self._memory.joysticks(actions, self.batch_size)
        return self._memory.indices(actions, self.batch_size, ids)

    def _first_seeds(self, request: ResetRequest) -> NDArray[np.int64]:
        """The seeds of a reset; consoles that never had one get it from entropy."""
        if self._was_reset:
            return request.seeds
        entropy = np.random.default_rng().integers(2**31, size=self.num_envs)
        return np.where(request.seeds == NO_SEED, entropy, request.seeds)

    def _decorrelation_seed(self, request: ResetRequest) -> int:
        """Of the random steps: from the one seed, from an array of them, or going on."""
        random = self.np_random
        if request.base_seed is None and (request.seeds != NO_SEED).any():
            random = np.random.default_rng((request.seeds + 1).tolist())
        return int(random.integers(2**31))

    def _send_reset(self, seeds: NDArray[np.int64]) -> None:
        with native_errors():
            self._batch.send_reset(seeds)
        self._was_reset = True
        self._batch_ids = None
        self._num_in_flight = self.num_envs

    def _first_batch(self) -> tuple[Any, dict[str, Any]]:
        obs, tables = self._obs_pool.take(), self._memory.tables(self.batch_size)
        self._batch.recv(obs, tables.ints, tables.flags)
        self._received(tables)
        return self._memory.wrap(obs), self._memory.wrap_all(make_info(tables.ints))

    def _received(self, tables: Tables) -> None:
        self._num_in_flight -= self.batch_size
        self._batch_ids = self._memory.env_ids(tables)

    def _drain(self) -> None:
        """Wait for consoles that are on their way, and forget their results."""
        if self._num_in_flight:
            shape = (self._num_in_flight, *(self.single_observation_space.shape or ()))
            obs = self._memory.pool(shape).take()
            self._batch.recv(obs, *self._memory.tables(self._num_in_flight))
            self._num_in_flight = 0

    def _restore(self, rows: NDArray[np.uint8], indices: NDArray[np.int64]) -> None:
        with native_errors(value_error=InvalidStateError):
            self._batch.set_state(rows, indices)

    def _final_memory(
        self, tables: Tables
    ) -> tuple[NDArray[np.uint8] | None, NDArray[np.int32] | None]:
        if not self._same_step:
            return None, None
        return self._final_obs_pool.take(), self._memory.final_ints(tables)

    def _step_result(
        self,
        obs: NDArray[np.uint8],
        tables: Tables,
        final_obs: NDArray[np.uint8] | None,
        final_ints: NDArray[np.int32] | None,
    ) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        ints, flags = tables
        terminated, truncated = flags[_core.FLAG_TERMINATED], flags[_core.FLAG_TRUNCATED]
        info = self._memory.wrap_all(make_info(ints))
        if final_ints is not None and self._memory.may_have_ended(terminated, truncated):
            ended = flags[_core.FLAG_ENDED]
            info["final_obs"] = self._memory.wrap(final_obs)
            info["final_info"] = self._memory.wrap_all(self._memory.final_info(final_ints, ended))
            info["_final_info"] = self._memory.wrap(ended)
        wrap = self._memory.wrap
        return wrap(obs), wrap(ints[_core.INT_REWARD]), wrap(terminated), wrap(truncated), info
