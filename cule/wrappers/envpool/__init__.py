"""EnvPool's ``make``: its option names, results and order of calls, for code written for EnvPool.

EnvPool itself is not needed; ``env_type="dm"`` needs dm_env. Equal to EnvPool 1.2.5 are options and
their defaults, spaces, dtypes, shapes and keys of all results, send and recv, the step that resets,
stacks that repeat the first frame, and from equal starts RAM, rewards, lives and observations. What
cannot be equal:

* Random streams: a seed gives another start, and sticky actions fall elsewhere. In games without
  FIRE at a reset, EnvPool plays one no-op frame more.
* The newest frame of the step that ends an episode is ale-py's.
* `episodic_life`: after a lost life, EnvPool plays one frame of FIRE or no-op and returns its
  observation; here that step has `frame_skip` frames, and counts for `max_episode_steps`.
* `use_inter_area_resize=False`, several players, ``xla()`` and rendering to a window do not exist;
  `AtariVectorEnv.xla` does. Errors are kinds of `CuleError`.
* With batches of some environments, `send` takes those of the last batch that `recv` returned.
"""

from __future__ import annotations

from typing import Any

from cule.envs.checks import as_choice, as_int
from cule.games import load_games
from cule.lazy import needs
from cule.wrappers.envpool.pools import DMEnvPool, GymnasiumEnvPool
from cule.wrappers.envpool.spec import Config, EnvSpec, make_spec

__all__ = [
    "Config",
    "DMEnvPool",
    "EnvSpec",
    "GymnasiumEnvPool",
    "list_all_envs",
    "make",
    "make_dm",
    "make_gym",
    "make_gymnasium",
    "make_spec",
]


def list_all_envs() -> list[str]:
    """List the names that `make` takes, such as "Pong-v5"."""
    return sorted(f"{rules.title}-v5" for rules in load_games().values())


def make(task_id: str, env_type: str, **options: Any) -> GymnasiumEnvPool | DMEnvPool:
    """Make environments as ``envpool.make``.

    Args:
        task_id: Title of a game and ``-v5``, such as "MsPacman-v5".
        env_type: "gymnasium" (or "gym"), or "dm".
        **options: Of `Config`, and with "gymnasium" `render_mode` and `render_env_id`.

    Raises:
        TypeError: There is no option of this name.
        InvalidArgumentError: `env_type` or an option is outside its allowed values.
        UnknownGameError, RomNotFoundError: The game is not available.

    Example:
        >>> import numpy as np
        >>> from cule.wrappers import envpool
        >>> env = envpool.make("Pong-v5", env_type="gymnasium", num_envs=8, batch_size=4)
        >>> env.async_reset()
        >>> obs, reward, terminated, truncated, info = env.recv()
        >>> env.send(np.zeros(4, np.int32), info["env_id"])
        >>> obs.shape
        (4, 4, 84, 84)
    """
    if as_choice("env_type", env_type, ("dm", "gym", "gymnasium")) == "dm":
        return make_dm(task_id, **options)
    return make_gymnasium(task_id, **options)


def make_gymnasium(
    task_id: str, *, render_mode: str | None = None, render_env_id: int = 0, **options: object
) -> GymnasiumEnvPool:
    """Make environments with the interface of Gymnasium; see `make`.

    Args:
        task_id: Title of a game and ``-v5``.
        render_mode: "rgb_array": `render` returns screens.
        render_env_id: The environment that `render` shows where none is named.
        **options: Of `Config`.

    Raises:
        TypeError, CuleError: As `make`.
    """
    if render_mode is not None:
        as_choice("render_mode", render_mode, ("rgb_array",))
    spec = make_spec(task_id, **options)
    as_int("render_env_id", render_env_id, 0, spec.config.num_envs - 1)
    return GymnasiumEnvPool(spec, render_mode=render_mode, render_env_id=render_env_id)


make_gym = make_gymnasium


def make_dm(task_id: str, **options: object) -> DMEnvPool:
    """Make environments with the interface of dm_env; see `make`.

    Args:
        task_id: Title of a game and ``-v5``.
        **options: Of `Config`.

    Raises:
        As `make`, and MissingPackageError: dm_env is not installed.
    """
    with needs("dm-env"):
        import dm_env
    dm_env.Environment.register(DMEnvPool)  # an instance of it, as in EnvPool
    return DMEnvPool(make_spec(task_id, **options))
