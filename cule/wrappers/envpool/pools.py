"""EnvPool's environments: send, recv, reset and step, for Gymnasium and for dm_env."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from cule.envs import Action, AtariVectorEnv
from cule.envs.checks import to_own_numpy
from cule.envs.errors import GymArgumentError
from cule.envs.requests import as_indices, as_seeds
from cule.errors import InvalidArgumentError, shown
from cule.wrappers.envpool.spec import EnvSpec, Players, State, env_options

#: ``step_type`` of a `dm_env.TimeStep`.
FIRST, MID, LAST = 0, 1, 2


class _Batch(NamedTuple):
    """Results of `recv`, before it is in the form of an interface; B environments."""

    env_ids: NDArray[np.int32]  # [B]
    obs: NDArray[np.uint8]  # [B, S, H, W], or [B, 3 S, H, W] in colour
    reward: NDArray[np.float32]  # [B]
    raw_reward: NDArray[np.float32]  # [B], not clipped
    terminated: NDArray[np.bool_]  # [B], as reported
    truncated: NDArray[np.bool_]  # [B]
    game_over: NDArray[np.bool_]  # [B]
    life_lost: NDArray[np.bool_]  # [B]
    first: NDArray[np.bool_]  # [B], of an episode, or after a lost life that ended one
    lives: NDArray[np.int32]  # [B]
    elapsed_steps: NDArray[np.int32]  # [B]
    ram: NDArray[np.uint8]  # [B, 128]

    def rows(self, index: NDArray[np.integer[Any]]) -> _Batch:
        """Some of the environments."""
        return _Batch._make(field[index] for field in self)


class Pool:
    """Base of both interfaces: environments, the batch to send next, and EnvPool's counts."""

    def __init__(self, spec: EnvSpec) -> None:
        """Make the environments."""
        config = spec.config
        self.spec: Any = spec
        self.config = {**dataclasses.asdict(config), "env_seed": list(config.env_seed)}
        self.env = AtariVectorEnv(config.task, config.num_envs, **env_options(config))
        self.all_env_ids = np.arange(config.num_envs, dtype=np.int32)
        self.is_async = config.batch_size < config.num_envs
        self._seed: object = np.array(config.env_seed) if config.env_seed else config.seed
        self._waiting: _Batch | None = None  # the batch of a reset that recv has not returned
        self._batch_ids: NDArray[Any] = self.all_env_ids  # of the batch sent or received last
        self._lives = np.zeros(config.num_envs, np.int32)
        self._elapsed_steps = np.zeros(config.num_envs, np.int32)
        self._restarts = np.zeros(config.num_envs, bool)  # next step, after a lost life
        can_fire = config.use_fire_reset and Action.FIRE in spec.action_set
        self._restart_action = spec.action_set.index(Action.FIRE) if can_fire else 0

    def __repr__(self) -> str:
        """The options."""
        return f"{type(self).__name__}({self.spec.options()})"

    def __len__(self) -> int:
        """Number of environments."""
        return len(self.all_env_ids)

    def seed(self, seed: int | Sequence[int] | None = None) -> None:
        """Seed the next reset: the first environment, or all of them.

        Raises:
            InvalidArgumentError: Another seed; the one before is kept.
        """
        as_seeds(seed, len(self))
        self._seed = seed

    def async_reset(self) -> None:
        """Reset all environments; `recv` returns them."""
        self._waiting = self._reset(None)

    def send(
        self, action: Mapping[str, Any] | NDArray[Any], env_id: NDArray[Any] | None = None
    ) -> None:
        """Start a step.

        Args:
            action: Integers ``[B]``, or a dict of ``action`` and ``env_id``.
            env_id: Environments of these actions, those of the last batch in any order. None: all
                from the first on, or of a partial batch, in its order.

        Raises:
            InvalidArgumentError: Other environments; nothing has moved.
            InvalidActionError, CallOrderError: As `AtariVectorEnv.send`.
        """
        if isinstance(action, Mapping):
            if "action" not in action:
                raise InvalidArgumentError(
                    f"action holds {shown(list(action))}; it must hold 'action', and may hold "
                    "'env_id'"
                )
            env_id = action.get("env_id", env_id)
            action = action["action"]
        actions = to_own_numpy(action)
        batch = self._batch_ids if self.is_async else self.all_env_ids
        ids = batch if env_id is None else as_indices(env_id, len(self), name="env_id")
        if not np.array_equal(np.sort(ids), np.sort(batch)):
            raise InvalidArgumentError(
                f"env_id is {ids.tolist()}; it must hold the environments of the last batch, "
                f"{batch.tolist()}"
            )
        is_whole = getattr(actions, "shape", None) == ids.shape
        if self._restarts.any() and is_whole:
            actions = np.where(self._restarts[ids], self._restart_action, actions)
        if is_whole and not np.array_equal(ids, batch):
            by_env = np.empty(len(self), actions.dtype)
            by_env[ids] = actions
            actions = by_env[batch]
        self.env.send(actions)
        self._batch_ids = ids

    def recv(self) -> Any:
        """Wait for a batch, in the form of the interface."""
        raise NotImplementedError

    def step(
        self, action: Mapping[str, Any] | NDArray[Any], env_id: NDArray[Any] | None = None
    ) -> Any:
        """`send`, and `recv`."""
        self.send(action, env_id)
        return self.recv()

    def close(self, **kwargs: object) -> None:
        """Free the environments."""
        self.env.close()
        self.closed = True

    def _reset(self, env_id: NDArray[Any] | None, seed: object = None) -> _Batch:
        """Begin episodes, and return those of `env_id`, or the first batch."""
        seed = self._seed if seed is None else seed
        ids = options = None
        if env_id is not None:
            ids = as_indices(env_id, len(self), unique=True, name="env_id")
            options = {"reset_mask": np.isin(self.all_env_ids, ids)}
            if seed is not None:  # of `ids`, in their order
                seed = as_seeds(seed, len(ids))[np.argsort(ids)]
        obs, info = self.env.reset(seed=seed, options=options)
        self._seed, self._waiting = None, None
        none = np.zeros(len(obs), bool)
        batch = self._collect(obs, info["reward"], none, none, info, has_stepped=False)
        return batch if ids is None or self.is_async else batch.rows(ids)

    def _receive(self) -> _Batch:
        batch, self._waiting = self._waiting, None
        return batch or self._collect(*self.env.recv())

    def _collect(
        self,
        obs: NDArray[np.uint8],
        reward: NDArray[np.int32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        info: dict[str, NDArray[np.int32]],
        *,
        has_stepped: bool = True,
    ) -> _Batch:
        """A batch of `AtariVectorEnv` as EnvPool's, and its counts one step further."""
        ids, lives, lengths = info["env_id"], info["lives"], info["episode_length"]
        first, restarted = lengths == 0, self._restarts[ids]
        life_lost = (lives < self._lives[ids]) & ~(first | terminated)
        self._lives[ids] = lives
        counted = ~restarted & has_stepped
        self._elapsed_steps[ids] = np.where(first, 0, self._elapsed_steps[ids] + counted)
        is_end = life_lost & bool(self.config["episodic_life"])
        self._restarts[ids] = is_end if has_stepped else restarted & ~first
        # EnvPool's stacks begin with copies of the first frame, not with zeros.
        stack = obs.shape[1]
        for length in range(stack - 1):
            rows = np.flatnonzero(lengths == length)
            if rows.size:
                oldest = stack - 1 - length
                obs[rows, :oldest] = obs[rows, oldest : oldest + 1]
        if obs.ndim == 5:  # colour: [B, S, H, W, 3]
            obs = np.moveaxis(obs, 4, 2).reshape(len(obs), -1, *obs.shape[2:4])
        batch = _Batch(
            env_ids=ids,
            obs=obs,
            reward=np.where(restarted, 0, reward).astype(np.float32),
            raw_reward=np.where(restarted, 0, info["reward"]).astype(np.float32),
            terminated=terminated | is_end,
            truncated=truncated,
            game_over=terminated,
            life_lost=life_lost,
            first=first | restarted,
            lives=lives,
            elapsed_steps=self._elapsed_steps[ids],
            ram=self.env.ram[ids],
        )
        if not self.is_async and has_stepped and not np.array_equal(self._batch_ids, ids):
            batch = batch.rows(self._batch_ids)  # in the order in which they were sent
        self._batch_ids = batch.env_ids
        return batch


class GymnasiumEnvPool(Pool, gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Environments as of EnvPool with the interface of Gymnasium; see `make`.

    Observations are uint8 ``[B, S, H, W]``, in colour ``[B, 3 S, H, W]``, rewards float32 ``[B]``,
    and ``info`` has ``env_id``, ``players.env_id``, ``lives``, ``reward`` (not clipped),
    ``terminated`` (the game is over), ``ram`` and ``elapsed_step``.
    """

    closed = True  # there is nothing to close until it is made

    def __init__(
        self, spec: EnvSpec, *, render_mode: str | None = None, render_env_id: int = 0
    ) -> None:
        """Make the environments."""
        super().__init__(spec)
        self.num_envs = spec.config.num_envs
        self.metadata = {
            "render_modes": ["rgb_array"],
            "autoreset_mode": AutoresetMode.NEXT_STEP,
        }
        self.render_mode = render_mode
        self._render_env_id = render_env_id
        # As in EnvPool, spaces are those of one environment.
        self.single_observation_space = self.observation_space = spec.observation_space
        self.single_action_space = self.action_space = spec.action_space
        self.closed = False

    def reset(
        self,
        env_id: NDArray[Any] | None = None,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin episodes.

        Args:
            env_id: Environments that are reset, where batches are whole. None: all.
            seed: Seed of the first of them, or of each. None: random streams continue, and the
                first reset has that of `make`.
            options: There are none.

        Returns:
            Observations and ``info`` of these, or of the first batch.

        Raises:
            InvalidArgumentError: A wrong seed or environment, or options.
        """
        if options is not None and not (isinstance(options, Mapping) and not options):
            raise InvalidArgumentError(f"options is {shown(options)}; a reset has none")
        batch = self._reset(env_id, seed)
        return batch.obs, _info(batch)

    def recv(self, reset: bool = False, return_info: bool = True) -> tuple[Any, ...]:
        """Wait for a batch.

        Args:
            reset: Return observations and ``info`` only.
            return_info: Ignored, as in EnvPool.

        Returns:
            Observations, rewards, terminated, truncated and ``info``.

        Raises:
            CallOrderError: Fewer environments have been sent.
        """
        batch = self._receive()
        if reset:
            return batch.obs, _info(batch)
        return batch.obs, batch.reward, batch.terminated, batch.truncated, _info(batch)

    def render(  # type: ignore[override]  # as EnvPool's
        self, env_ids: int | Sequence[int] | None = None, camera_id: int | None = None
    ) -> NDArray[np.uint8]:
        """Screens, uint8 ``[n, H, 160, 3]``, with ``render_mode="rgb_array"``.

        Args:
            env_ids: Environments; None: that of `render_env_id`.
            camera_id: There is one camera.

        Raises:
            GymArgumentError: There is no render mode.
        """
        if self.render_mode is None:
            raise GymArgumentError("render_mode is None; make the environments with 'rgb_array'")
        ids = self._render_env_id if env_ids is None else env_ids
        screens: NDArray[np.uint8] = self.env.screens("rgb", ids)
        return screens


class DMEnvPool(Pool):
    """Environments as of EnvPool with the interface of dm_env; see `make`.

    A time step holds `step_type` int32, `reward` and `discount` float32, each ``[B]``, and a
    `State` as observation. The discount is 0 where an episode ends, by a limit of steps too.
    """

    def reset(self, env_id: NDArray[Any] | None = None) -> Any:
        """Begin episodes, and return the `dm_env.TimeStep` of the first batch."""
        return self._time_step(self._reset(env_id))

    def recv(self, reset: bool = False, return_info: bool = True) -> Any:
        """Wait for a batch, and return its `dm_env.TimeStep`."""
        return self._time_step(self._receive())

    def observation_spec(self) -> State:
        """The `State` of one environment."""
        state: State = self.spec.observation_spec()
        return state

    def action_spec(self) -> Any:
        """Actions of one environment."""
        return self.spec.action_spec()

    def reward_spec(self) -> Any:
        """The reward of one environment."""
        from dm_env import specs

        return specs.Array((), float, "reward")

    def discount_spec(self) -> Any:
        """The discount of one environment."""
        from dm_env import specs

        return specs.BoundedArray((), float, 0.0, 1.0, "discount")

    def _time_step(self, batch: _Batch) -> Any:
        import dm_env

        ended = batch.terminated | batch.truncated
        zero = ended | (batch.life_lost & bool(self.config["zero_discount_on_life_loss"]))
        return dm_env.TimeStep(
            step_type=np.where(batch.first, FIRST, np.where(ended, LAST, MID)).astype(np.int32),
            reward=batch.reward,
            discount=1 - zero.astype(np.float32),
            observation=State(
                env_id=batch.env_ids,
                players=Players(env_id=batch.env_ids),
                obs=batch.obs,
                lives=batch.lives,
                reward=batch.raw_reward,
                terminated=batch.game_over.astype(np.int32),
                ram=batch.ram,
            ),
        )


def _info(batch: _Batch) -> dict[str, Any]:
    """EnvPool's ``info``."""
    return {
        "env_id": batch.env_ids,
        "players": {"env_id": batch.env_ids},
        "lives": batch.lives,
        "reward": batch.raw_reward,
        "terminated": batch.game_over.astype(np.int32),
        "ram": batch.ram,
        "elapsed_step": batch.elapsed_steps,
    }
