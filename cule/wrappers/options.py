"""Options of `AtariVectorEnv` that follow from what a library expects of an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from cule.envs import AtariVectorEnv, EnvOptions
from cule.errors import InvalidArgumentError, shown

#: Options that follow from what dm_env and OpenEnv expect of a single environment.
SINGLE = {
    "num_envs": 1,
    "autoreset_mode": "Disabled",
    "output": "numpy",
    "device": "cpu",
    "continuous": False,
}


def with_fixed(
    library: str, options: Mapping[str, object], fixed: Mapping[str, object]
) -> dict[str, Any]:
    """The options of a user, and those that the library fixes.

    Raises:
        InvalidArgumentError: The user gave another value for one that is fixed.
    """
    for name, value in fixed.items():
        given = options.get(name, value)
        if name == "autoreset_mode" and isinstance(given, AutoresetMode):
            given = given.value
        is_other: object = (str(given) if name == "device" else given) != value
        if not isinstance(is_other, bool | np.bool_) or is_other:  # of arrays: an array
            raise InvalidArgumentError(
                f"{name} is {shown(options[name])}; for {library} it must be {shown(value)}"
            )
    return {**options, **fixed}


def check_ends(library: str, options: EnvOptions) -> None:
    """Refuse options with which an end is reported and the game continues.

    Raises:
        InvalidArgumentError: Both `episodic_life` and `fire_after_life_loss` are True.
    """
    if options.episodic_life and options.fire_after_life_loss:
        raise InvalidArgumentError(
            f"episodic_life and fire_after_life_loss are True; for {library} one of them must be "
            "False, because with both a game continues after a lost life"
        )


def check_is_synchronous(library: str, env: AtariVectorEnv) -> None:
    """Refuse an environment whose steps are of a part of the batch, and close it.

    Raises:
        InvalidArgumentError: `batch_size` is less than `num_envs`.
    """
    if env.batch_size != env.num_envs:
        env.close()
        raise InvalidArgumentError(
            f"batch_size is {env.batch_size}; for {library} it must be num_envs, {env.num_envs}"
        )
