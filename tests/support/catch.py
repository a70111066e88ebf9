"""Catch: a ball falls, a paddle below moves; a batch of games as plain tensors.

It has the contract of `cule.agents.parts.envs.FrameEnv`, so that learners can be tried in seconds.
Best return 1, worst -1; random play gets about -0.6. A game is a pure function of (seed, environment,
number of the episode) and the actions.
"""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from cule import FrameStep

WHITE = 255


class Catch:
    """N games of Catch, with SameStep autoreset."""

    def __init__(
        self,
        num_envs: int,
        *,
        size: int = 5,
        stack: int = 2,
        continuous: bool = False,
        limit: int = 0,
        first_env: int = 0,
    ) -> None:
        """Make the games.

        Args:
            num_envs: N.
            size: Rows and columns; the ball falls size - 1 steps.
            stack: Frames of an observation.
            continuous: Actions are (radius, angle, fire); x beyond 0.5 moves.
            limit: Steps after which an episode is truncated; 0: never.
            first_env: Number of the first game, of which the seed's stream depends.
        """
        self.num_envs, self.size, self.stack, self.limit = num_envs, size, stack, limit
        self.continuous = continuous
        self.metadata: dict[str, Any] = {"autoreset_mode": "SameStep"}
        self.single_observation_space = SimpleNamespace(shape=(stack, size, size))
        self.single_action_space = (
            SimpleNamespace(shape=(3,)) if continuous else SimpleNamespace(n=3)
        )
        self.seed = 0
        self.env_ids = torch.arange(first_env, first_env + num_envs)
        # row and column of the ball, column of the paddle, episode, steps in it
        self.state = torch.zeros(5, num_envs, dtype=torch.int64)
        self.is_closed = False

    def reset(self, *, seed: Any = None) -> tuple[Tensor, dict[str, Any]]:
        self.seed = 0 if seed is None else int(seed)
        self.state.zero_()
        self._new_episodes(torch.ones(self.num_envs, dtype=torch.bool))
        obs = torch.zeros(self.num_envs, self.stack, self.size, self.size, dtype=torch.uint8)
        obs[:, -1] = self._frames()
        return obs, {}

    def step_frames(self, actions: Any, out: Any = None) -> FrameStep:
        if self.continuous:
            x = actions[:, 0] * actions[:, 1].cos()
            moves = (x > 0.5).long() - (x < -0.5).long()
        else:
            assert int(actions.min()) >= 0
            assert int(actions.max()) <= 2
            moves = actions.long() - 1
        row, column, paddle, episode, steps = self.state
        paddle.copy_((paddle + moves).clamp(0, self.size - 1))
        row += 1
        steps += 1
        terminated = row == self.size - 1
        reward = torch.where(terminated, torch.where(paddle == column, 1.0, -1.0), 0.0)
        truncated = (steps == self.limit) & ~terminated
        ended = terminated | truncated
        final = self._frames()
        lengths = steps.int()
        episode += ended
        self._new_episodes(ended)
        frame = self._frames()
        if out is not None:
            out.copy_(frame)
            frame = out
        return FrameStep(
            frame=frame,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            life_lost=torch.zeros_like(terminated),
            first=ended,
            final_frame=final,
            episode_return=reward.clone(),
            episode_length=lengths,
        )

    def get_state(self) -> Tensor:
        seeds = torch.full((self.num_envs, 1), self.seed)
        return torch.cat([self.state.T, seeds], 1).contiguous().view(torch.uint8)

    def set_state(self, states: Any) -> None:
        rows = torch.as_tensor(states).contiguous().view(torch.int64)
        self.state.copy_(rows[:, :5].T)
        self.seed = int(rows[0, 5])

    def close(self) -> None:
        self.is_closed = True

    def _new_episodes(self, mask: Tensor) -> None:
        row, column, paddle, episode, steps = self.state
        row[mask], steps[mask] = 0, 0
        word = (self.env_ids * 7919 + episode * 104_729 + self.seed * 1_299_709 + 12_345) % 2**31
        word = (word * 1_103_515_245 + 12_345) % 2**31
        word = (word * 1_103_515_245 + 12_345) % 2**31 // 2**8
        column[mask] = (word % self.size)[mask]
        paddle[mask] = (word // self.size % self.size)[mask]

    def _frames(self) -> Tensor:
        frames = torch.zeros(self.num_envs, self.size, self.size, dtype=torch.uint8)
        games = torch.arange(self.num_envs)
        row, column, paddle = self.state[:3]
        frames[games, self.size - 1, paddle] = WHITE // 2
        frames[games, row, column] = WHITE
        return frames


class Interrupting(Catch):
    """Catch, whose 40th step sends a signal to the process, by default that of Ctrl-C."""

    kind, calls = signal.SIGINT, 0

    def step_frames(self, actions: Any, out: Any = None) -> Any:
        self.calls += 1
        if self.calls == 40:
            os.kill(os.getpid(), self.kind)
        return super().step_frames(actions, out)


class Ending(Interrupting):
    """Catch, whose 40th step asks the process to end."""

    kind = signal.SIGTERM


class Endless(Ending):
    """Catch, which takes a minute more from there on."""

    def step_frames(self, actions: Any, out: Any = None) -> Any:
        result = super().step_frames(actions, out)
        if self.calls == 40:
            time.sleep(60)
        return result
