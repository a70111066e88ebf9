"""Any Gymnasium vector environment as a source of an agent: CartPole, Box2D, your own.

Observations are arrays: vectors ``[D]``, images ``[C, H, W]`` or ``[H, W, C]`` (moved to the first
axis), uint8 or floats. They are stored whole, without stacking. Lives and states do not exist here:
a resumed run begins new episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cule.envs import FrameStep
from cule.envs.results import FRAME_STEPS
from cule.errors import InvalidArgumentError

#: Channels of an image that has them on the last axis.
CHANNELS = (1, 3, 4)


class GymFrameEnv:
    """Steps of a Gymnasium vector environment as agents read them.

    With NextStep autoreset steps are passed on as they are; with Disabled the environments that
    ended are reset at once, so that the mode is SameStep.
    """

    #: An observation is one frame.
    frame_stack = 1
    #: There is no state to save.
    has_states = False

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> None:
        """Use an environment.

        Raises:
            InvalidArgumentError: Its spaces or its autoreset mode do not fit.
        """
        self.env = env
        self.num_envs = int(env.num_envs)
        mode = gymnasium.vector.AutoresetMode(env.metadata.get("autoreset_mode"))
        self._resets = mode == gymnasium.vector.AutoresetMode.DISABLED
        self.mode = gymnasium.vector.AutoresetMode.SAME_STEP if self._resets else mode
        self.metadata: Mapping[str, object] = {"autoreset_mode": self.mode.value}
        space = env.single_observation_space
        if not isinstance(space, gymnasium.spaces.Box):
            raise InvalidArgumentError(
                f"the observations of the environment are {space}; they must be a Box"
            )
        self._moves_channels = len(space.shape) == 3 and (
            space.shape[-1] in CHANNELS and space.shape[0] not in CHANNELS
        )
        shape = space.shape[-1:] + space.shape[:-1] if self._moves_channels else space.shape
        dtype = np.dtype(np.uint8 if space.dtype == np.uint8 else np.float32)
        self.single_observation_space = SimpleNamespace(shape=shape, dtype=dtype)
        self.single_action_space = env.single_action_space
        self._dtype = dtype
        self._return = np.zeros(self.num_envs, np.float32)
        self._length = np.zeros(self.num_envs, np.int32)
        self._has_ended = np.zeros(self.num_envs, np.bool_)

    def reset(self, *, seed: int | None = None) -> tuple[Tensor, dict[str, Any]]:
        """Start new episodes."""
        obs, info = self.env.reset(seed=seed)
        self._return[:], self._length[:], self._has_ended[:] = 0, 0, False
        return self._tensor(obs), dict(info)

    def step_frames(self, actions: Tensor, out: Tensor | None = None) -> FrameStep:
        """Step all environments."""
        is_next_step = self.mode == gymnasium.vector.AutoresetMode.NEXT_STEP
        obs, reward, terminated, truncated, info = self.env.step(actions.cpu().numpy())
        first = self._has_ended.copy() if is_next_step else terminated | truncated
        started = self._has_ended
        self._return[started], self._length[started] = 0, 0
        self._return += np.where(first, 0, reward) if is_next_step else reward
        self._length += ~first if is_next_step else True
        ended = terminated | truncated
        self._has_ended = ended.copy()
        final = self._tensor(obs)
        if not is_next_step and ended.any():
            if self._resets:
                obs, _ = self.env.reset(options={"reset_mask": ended})
            else:
                final[torch.from_numpy(ended)] = self._finals(info, ended)
        frame = self._tensor(obs)
        if out is not None:
            frame = out.copy_(frame)
        return FRAME_STEPS[self.mode](
            frame=frame,
            reward=torch.from_numpy(np.asarray(reward, np.float32)),
            terminated=torch.from_numpy(terminated.copy()),
            truncated=torch.from_numpy(truncated.copy()),
            life_lost=torch.zeros(self.num_envs, dtype=torch.bool),
            first=torch.from_numpy(first.copy()),
            final_frame=final,
            episode_return=torch.from_numpy(self._return.copy()),
            episode_length=torch.from_numpy(self._length.copy()),
        )

    def get_state(self) -> object:
        """Nothing."""
        return torch.zeros((self.num_envs, 0), dtype=torch.uint8)

    def set_state(self, states: object) -> None:
        """There is no state."""
        raise NotImplementedError("the environment has no states")

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _finals(self, info: Mapping[str, Any], ended: NDArray[np.bool_]) -> Tensor:
        """Final observations of the environments that ended, which SameStep has in `info`."""
        found = info["final_obs"]
        return self._tensor(np.stack([found[i] for i in np.nonzero(ended)[0]]))

    def _tensor(self, obs: NDArray[Any]) -> Tensor:
        """Observations in the type and layout of the networks, a copy."""
        array = np.array(obs, self._dtype)
        if self._moves_channels:
            array = np.ascontiguousarray(np.moveaxis(array, -1, 1))
        return torch.from_numpy(array)
