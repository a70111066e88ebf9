"""What agents take as environments: those of `FrameEnv`, and Gymnasium vector environments."""

from __future__ import annotations

from typing import Any, TypeAlias

import gymnasium

from cule.agents.training.contract import check_env
from cule.agents.training.environment import FrameEnv
from cule.agents.training.gym_env import GymFrameEnv

#: Environments of an agent.
AnyEnv: TypeAlias = FrameEnv | gymnasium.vector.VectorEnv[Any, Any, Any]


def as_frame_env(env: AnyEnv) -> FrameEnv:
    """The environments as agents read them.

    Raises:
        InvalidArgumentError: They do not fit.
    """
    if isinstance(env, gymnasium.vector.VectorEnv) and not hasattr(env, "step_frames"):
        return GymFrameEnv(env)
    check_env(env)
    return env  # type: ignore[return-value]  # checked just now
