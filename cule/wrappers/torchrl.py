"""TorchRL: an `EnvBase` over the batched environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch

from cule.envs import AtariVectorEnv
from cule.envs.checks import INT32_MAX
from cule.envs.options import resolve_options
from cule.envs.requests import as_seeds
from cule.lazy import needs
from cule.wrappers.options import check_ends, check_is_synchronous, with_fixed

with needs("torchrl"):
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded
    from torchrl.envs import EnvBase

#: Options that follow from what TorchRL expects: it resets environments itself, all that report an
#: end.
_FIXED = {
    "autoreset_mode": "Disabled",
    "output": "torch",
    "life_loss_info": False,
}


class TorchRLEnv(EnvBase):  # type: ignore[misc]  # the library is optional
    """Many Atari 2600 environments as one batched environment of TorchRL.

    ``batch_size`` is ``[N]``. Of a step, ``observation`` is uint8 ``[N, 4, 84, 84]`` with default
    options, the tensor of `AtariVectorEnv.step` without a copy, ``reward`` float32 ``[N, 1]``, and
    ``done``, ``terminated`` and ``truncated`` are bool ``[N, 1]``. ``action`` is int64 ``[N]``, an
    index into `AtariVectorEnv.action_set`, or float32 ``[N, 3]`` with ``continuous=True``. With
    ``device="cuda"`` all of them are on the GPU. Environments that have ended are reset by TorchRL,
    with the entry ``_reset``.

    Args:
        game: Name of the game, or (name, number of environments) for each of several games.
        num_envs: Number of environments.
        **options: The other fields of `EnvOptions`. `autoreset_mode` is Disabled, `output` torch,
            and `life_loss_info` False, because a game continues after a lost life; so it does with
            `episodic_life` and `fire_after_life_loss`, of which one is False.

    Raises:
        InvalidArgumentError: An option is outside its allowed values, or another value of one that
            TorchRL fixes.
        MissingPackageError: On import, where TorchRL is not installed.

    Example:
        >>> from cule.wrappers.torchrl import TorchRLEnv
        >>> env = TorchRLEnv("pong", num_envs=8)
        >>> env.rollout(100, break_when_any_done=False)["next", "reward"].shape
        torch.Size([8, 100, 1])
    """

    def __init__(
        self, game: str | Sequence[tuple[str, int]], num_envs: int, **options: Any
    ) -> None:
        """Make the environments."""
        given = with_fixed("TorchRL", options, _FIXED)
        check_ends("TorchRL", resolve_options(game, num_envs, given))
        env = AtariVectorEnv(game, num_envs, **given)
        check_is_synchronous("TorchRL", env)
        super().__init__(device=env.config.device, batch_size=[num_envs])
        self.env = env
        self._seeds: int | None = None
        place = {"device": self.device}
        space = env.single_observation_space
        dtype = np.dtype(space.dtype)
        limits = np.iinfo(dtype)
        observation = Bounded(
            limits.min,
            limits.max,
            shape=(num_envs, *(space.shape or ())),
            dtype=getattr(torch, dtype.name),
            **place,
        )
        self.observation_spec = Composite(observation=observation, shape=[num_envs])
        self.reward_spec = Unbounded(shape=(num_envs, 1), **place)
        flag = Binary(shape=(num_envs, 1), dtype=torch.bool, **place)
        flags = {name: flag.clone() for name in ("done", "terminated", "truncated")}
        self.done_spec = Composite(**flags, shape=[num_envs])
        space = env.single_action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            self.action_spec = Categorical(int(space.n), shape=(num_envs,), **place)
        else:
            assert isinstance(space, gymnasium.spaces.Box)
            low, high = (
                torch.from_numpy(np.tile(x, (num_envs, 1))) for x in (space.low, space.high)
            )
            self.action_spec = Bounded(low, high, dtype=torch.float32, **place)

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: object) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        options = None
        if mask is not None and not bool(mask.all()):
            options = {"reset_mask": mask.view(-1).cpu().numpy()}
        obs, _ = self.env.reset(seed=self._seeds, options=options)
        self._seeds = None
        return TensorDict({"observation": obs}, batch_size=self.batch_size, device=self.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        obs, reward, terminated, truncated, _ = self.env.step(tensordict["action"])
        found = {
            "observation": obs,
            "reward": reward.to(torch.float32).unsqueeze(-1),
            "done": (terminated | truncated).unsqueeze(-1),
            "terminated": terminated.unsqueeze(-1),
            "truncated": truncated.unsqueeze(-1),
        }
        return TensorDict(found, batch_size=self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        if isinstance(seed, int) and 0 <= seed < 2**32:  # TorchRL derives seeds of 32 bits
            seed %= INT32_MAX + 2 - self.env.num_envs
        as_seeds(seed, self.env.num_envs)
        self._seeds = seed

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Free the environments."""
        self.env.close()
        super().close(raise_if_closed=raise_if_closed)
