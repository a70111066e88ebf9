"""Self-play: the seats of games for several players as the environments of one policy.

The players of a game see one picture, so that a policy has to be told which of them it plays: the
top rows of a seat's frames are painted in a shade of its own.
"""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium
import numpy as np
import torch
from torch import Tensor

from cule.envs import FrameStep, MultiAgentVectorEnv
from cule.envs.checks import as_array, as_int, to_own_numpy
from cule.envs.errors import ActionShapeError, ArgumentTypeError
from cule.errors import CuleError, InvalidArgumentError, InvalidStateError, shown
from cule.replay.options import check_int

#: One of so many rows of a frame is painted.
_ROWS_PER_MARK = 14

#: Dtypes of actions.
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Opponent(Protocol):
    """Who plays the other seats; every agent can."""

    device: torch.device

    def act(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        """Actions int64 ``[n]`` for observations uint8 ``[n, S, H, W]``."""


class RandomOpponent:
    """An opponent that plays at random."""

    def __init__(self, num_actions: int, device: torch.device | str = "cpu") -> None:
        """Choose among so many actions.

        Raises:
            InvalidArgumentError: num_actions is not a positive int.
        """
        check_int("num_actions", num_actions, 1)
        self.num_actions, self.device = num_actions, torch.device(device)

    def act(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        """Actions int64 ``[n]``; observations make no difference."""
        shape, device = (len(obs),), obs.device
        return torch.randint(self.num_actions, shape, generator=generator, device=device)


class SelfPlayEnv:
    """Seats of a `MultiAgentVectorEnv` as environments, which every agent takes as `env`.

    Without an opponent every seat is an environment: in M games of P players, environment
    ``m * P + p`` is seat p of game m. With an opponent, the policy has the even seats of even games
    and the odd seats of odd games, so that it plays both sides.

    Attributes:
        games: The games.
        num_envs: Seats N of the policy.
        opponent: Who plays the other seats; None if there are none.

    Example:
        >>> import cule
        >>> from cule.agents import PPO, PPOConfig, SelfPlayEnv
        >>> games = cule.MultiAgentVectorEnv("pong", 4, output="torch", autoreset_mode="SameStep")
        >>> config = PPOConfig(game="pong", num_players=2, num_steps=4, total_steps=32)
        >>> agent = PPO(config, SelfPlayEnv(games))
        >>> [progress.steps for progress in agent.train()]
        [32]
    """

    def __init__(
        self,
        games: MultiAgentVectorEnv,
        opponent: Opponent | None = None,
        *,
        counts_margin: bool = False,
    ) -> None:
        """Use games.

        Args:
            games: With grayscale pictures as observations, and torch tensors as results.
            opponent: Who plays the other seats, such as an agent that is not trained meanwhile;
                None: all seats are environments.
            counts_margin: Rewards and returns of a seat are those of its side less those of the
                other side; sides are the even and the odd seats.

        Raises:
            InvalidArgumentError: The observations are not such pictures, games have a smaller
                `batch_size`, or the opponent cannot act.
            ArgumentTypeError: `games` is not a MultiAgentVectorEnv.
        """
        if opponent is not None and not (hasattr(opponent, "act") and hasattr(opponent, "device")):
            raise InvalidArgumentError(
                f"opponent is {shown(opponent)}; it must be None, an agent, or have a device and "
                "act(obs, generator), such as RandomOpponent"
            )
        if not isinstance(games, MultiAgentVectorEnv):
            raise ArgumentTypeError(f"games is {shown(games)}; it must be a MultiAgentVectorEnv")
        config = games.config
        if games.batch_size < games.num_envs:
            raise InvalidArgumentError(
                f"games have batch_size {games.batch_size}; for self-play it must be that of all "
                f"{games.num_envs}"
            )
        if config.obs_type != "image" or not config.grayscale or config.output != "torch":
            raise InvalidArgumentError(
                f"games have obs_type {shown(config.obs_type)}, grayscale {config.grayscale} and "
                f"output {shown(config.output)}; for self-play they must be 'image', True and "
                "'torch'"
            )
        self.games, self.opponent, self._counts_margin = games, opponent, counts_margin
        device, players = config.device, games.num_players
        index = torch.arange(games.num_envs * players, device=device)
        self._game, self._seat = index // players, index % players
        is_own = self._seat % 2 == self._game % 2 if opponent is not None else index >= 0
        self._own, self._others = index[is_own], index[~is_own]
        self._sides = torch.where(torch.arange(players, device=device) % 2 == 0, 1.0, -1.0)
        self._shades = (255 * (self._seat + 1) // players).to(torch.uint8)
        self._marked_rows = max(config.img_height // _ROWS_PER_MARK, 1)
        # Of the opponent's actions: each step has a seed, so that the state is the same anywhere.
        self._seeds = torch.Generator()
        self._generator = torch.Generator("cpu" if opponent is None else opponent.device)
        self.num_envs = len(self._own)
        self.metadata = games.metadata
        self.single_observation_space = games.single_observation_space
        spaces = games.single_action_space
        assert isinstance(spaces, gymnasium.spaces.MultiDiscrete)
        self.single_action_space = gymnasium.spaces.Discrete(int(spaces.nvec[0]))

    # Any: whatever type the attribute of the games has.
    def __getattr__(self, name: str) -> Any:
        """Delegate to the games."""
        if name == "games":  # not made yet, such as while unpickling
            raise AttributeError(name)
        return getattr(self.games, name)

    def reset(self, *, seed: int | None = None) -> tuple[Tensor, object]:
        """Start new episodes; observations ``[N, S, H, W]`` and the infos of the games."""
        seed = None if seed is None else as_int("seed", seed, -1)
        obs, info = self.games.reset(seed=seed)
        if seed is not None:
            self._seeds.manual_seed(seed)
        return self._seen(obs, self._own), info

    def observations(self, obs: Tensor) -> Tensor:
        """Observations ``[M, S, H, W]`` of the games as the policy sees them, ``[N, S, H, W]``."""
        return self._seen(obs, self._own)

    def step_frames(self, actions: Tensor, out: Tensor | None = None) -> FrameStep:
        """Step as `AtariVectorEnv.step_frames` does; actions and results are by seat, ``[N]``.

        Raises:
            ActionShapeError, ActionRangeError: An action is wrong.
            InvalidArgumentError: `out` has another shape or dtype.
        """
        shape = (self.num_envs,)
        if not isinstance(actions, Tensor):
            wrong = ActionShapeError  # of the dtype, or the shape
            given = as_array("actions", to_own_numpy(actions), "integers", shape, wrong, wrong)
            actions = torch.from_numpy(given.astype(np.int64))
        elif actions.shape != shape or actions.dtype not in _INTEGERS:
            raise ActionShapeError(
                f"actions is a tensor of {actions.dtype}, shape {tuple(actions.shape)}; it must "
                f"be of integers, shape {shape}"
            )
        if out is not None:
            config = self.games.config
            frames = (self.num_envs, config.img_height, config.img_width)
            if not isinstance(out, Tensor) or out.shape != frames or out.dtype != torch.uint8:
                raise InvalidArgumentError(
                    f"out is {shown(out)}; it must be a tensor of torch.uint8, shape {frames}"
                )
        chosen = torch.empty(len(self._game), dtype=torch.int64, device=self._game.device)
        chosen[self._own] = actions.to(chosen)
        before = self._seeds.get_state()
        try:
            if self.opponent is not None:
                chosen[self._others] = self._opposing_actions(self.opponent).to(chosen)
            step = self.games.step_frames(chosen.reshape(-1, len(self._sides)))
        except CuleError:  # a refused step uses no seed
            self._seeds.set_state(before)
            raise
        game = self._game[self._own]
        frame = self._seen(step.frame, self._own)
        has_final = step.final_frame is not step.frame
        return type(step)(
            frame=frame if out is None else out.copy_(frame),
            reward=self._of_seats(step.reward),
            terminated=step.terminated[game],
            truncated=step.truncated[game],
            life_lost=step.life_lost[game, self._seat[self._own]],
            first=step.first[game],
            final_frame=self._seen(step.final_frame, self._own) if has_final else frame,
            episode_return=self._of_seats(step.episode_return),
            episode_length=step.episode_length[game],
        )

    @torch.no_grad()
    def _opposing_actions(self, opponent: Opponent) -> Tensor:
        obs, _ = self.games.observe()
        self._generator.manual_seed(int(torch.randint(2**62, (), generator=self._seeds)))
        return opponent.act(self._seen(obs, self._others).to(opponent.device), self._generator)

    def _seen(self, pictures: Tensor, seats: Tensor) -> Tensor:
        """Pictures ``[M, ..., H, W]`` as seats see them, ``[n, ..., H, W]``; blank ones stay so."""
        seen = pictures[self._game[seats]]
        is_blank = (seen == 0).all(-1, keepdim=True).all(-2, keepdim=True)
        shades = self._shades[seats].reshape(-1, *[1] * (seen.dim() - 1))
        seen[..., : self._marked_rows, :] = torch.where(is_blank, 0, shades)
        return seen

    def _of_seats(self, numbers: Tensor) -> Tensor:
        """Numbers ``[M, P]`` by seat of the policy, ``[N]``."""
        if self._counts_margin:
            numbers = (numbers * self._sides).sum(1, keepdim=True) * self._sides
        return numbers[self._game[self._own], self._seat[self._own]]

    def get_state(self) -> Tensor:
        """Everything that future steps depend on, uint8 ``[bytes]``."""
        states = torch.as_tensor(self.games.get_state()).cpu()
        return torch.cat([self._seeds.get_state(), states.flatten()])

    def set_state(self, states: object) -> None:
        """Restore what `get_state` returned.

        Raises:
            InvalidStateError: It does not fit; nothing has changed.
        """
        try:
            data = torch.as_tensor(states).cpu()
        except (TypeError, ValueError, RuntimeError):
            data = torch.empty(0, dtype=torch.uint8)
        before = self._seeds.get_state()
        size = len(before)
        wanted = size + self.games.num_envs * self.games.state_size
        if data.dtype != torch.uint8 or data.numel() != wanted:
            raise InvalidStateError(
                f"states has {data.numel()} values of {data.dtype}; it must be uint8 [{wanted}], "
                f"the bytes of {self.games.num_envs} games"
            )
        try:
            self._seeds.set_state(data[:size])
            self.games.set_state(data[size:].reshape(self.games.num_envs, -1))
        except (RuntimeError, InvalidStateError) as error:
            self._seeds.set_state(before)
            raise InvalidStateError(f"states is damaged: {error}") from None

    def close(self) -> None:
        """Close the games."""
        self.games.close()
