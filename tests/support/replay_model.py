"""Replay in plain Python: a list of steps an environment, searched and summed the slow way.

An environment is a list of `Timestep`: what was seen, and what then happened. Nothing is shared, nothing
wraps, nothing is forgotten; arithmetic decides whether a timestep is still in a ring. The
float32 operations are those of the specification, one after the other, so results are compared
exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.generic]


@dataclass
class Timestep:
    """A frame, and the step taken on it."""

    frame: Frame
    first: bool
    action: int = -1
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    life_lost: bool = False
    ignored: bool = False  # the action did nothing, or never happened
    final_frame: Frame | None = None  # where the next timestep does not show it


@dataclass
class Expected:
    """What a sample must be."""

    obs: Frame
    action: int
    n_step_return: np.float32
    discount: np.float32
    next_obs: Frame | None  # None where nothing depends on it
    is_real: bool


class ListReplay:
    """The same calls as `UniformReplay`, for one environment."""

    def __init__(self, *, stack: int, pad: str, n_step: int, gamma: float, same_step: bool) -> None:
        self.stack, self.pad, self.n_step = stack, pad, n_step
        self.gamma, self.same_step = gamma, same_step
        self.life_loss_ends = False
        self.timesteps: list[Timestep] = []

    def start(self, frame: Frame) -> None:
        if self.timesteps:
            self.timesteps[-1].ignored = True
        self.timesteps.append(Timestep(frame, first=True))

    def append(
        self,
        action: int,
        frame: Frame,
        reward: float,
        terminated: bool,
        truncated: bool,
        life_lost: bool,
        first: bool,
        final_frame: Frame,
    ) -> None:
        timestep = self.timesteps[-1]
        timestep.action, timestep.reward, timestep.life_lost = action, reward, life_lost
        timestep.terminated, timestep.truncated = terminated, truncated
        if self.same_step:
            timestep.final_frame = final_frame
        else:
            timestep.ignored = first
        self.timesteps.append(Timestep(frame, first=first))

    @property
    def head(self) -> int:
        return len(self.timesteps) - 1

    def valid_timesteps(self, num_timesteps: int) -> list[int]:
        """Timesteps whose stack and n steps are all among the newest `num_timesteps` timesteps."""
        oldest = max(self.head - num_timesteps + self.stack, 0)
        return list(range(oldest, self.head - self.n_step + 1))

    def stacked(self, frames: list[Frame], starts: list[bool]) -> Frame:
        """The newest frames of one episode; both lists oldest first."""
        taken: list[Frame] = []
        for frame, is_first in zip(reversed(frames), reversed(starts), strict=True):
            taken.insert(0, frame)
            if is_first or len(taken) == self.stack:
                break
        padding = np.zeros_like(taken[0]) if self.pad == "zero" else taken[0]
        taken = [padding] * (self.stack - len(taken)) + taken
        return np.stack(taken) if self.stack > 1 else taken[0]

    def history(self, timestep: int) -> tuple[list[Frame], list[bool]]:
        timesteps = self.timesteps[max(timestep - self.stack + 1, 0) : timestep + 1]
        return [r.frame for r in timesteps], [r.first for r in timesteps]

    def expected(self, timestep: int) -> Expected:
        """The transition of a timestep."""
        total, discount = np.float32(0), np.float32(1)
        next_obs: Frame | None = None
        for k in range(self.n_step):
            step = self.timesteps[timestep + k]
            total = np.float32(total + discount * np.float32(step.reward))
            over = step.terminated or (self.life_loss_ends and step.life_lost)
            discount = np.float32(discount * np.float32(0.0 if over else self.gamma))
            frames, starts = self.history(timestep + k + 1)
            next_obs = self.stacked(frames, starts)
            if over:
                break
            if step.truncated and self.same_step:
                frames, starts = self.history(timestep + k)
                assert step.final_frame is not None
                next_obs = self.stacked([*frames, step.final_frame], [*starts, False])
            if step.truncated or self.timesteps[timestep + k + 1].ignored:
                break
        frames, starts = self.history(timestep)
        return Expected(
            obs=self.stacked(frames, starts),
            action=self.timesteps[timestep].action,
            n_step_return=total,
            discount=discount,
            next_obs=next_obs if discount > 0 else None,
            is_real=not self.timesteps[timestep].ignored,
        )


class RandomEpisodes:
    """N environments that emit numbered frames and random rewards and ends, in either mode."""

    def __init__(
        self,
        num_envs: int,
        rng: np.random.Generator,
        *,
        same_step: bool,
        shape: tuple[int, ...] = (2,),
        end_chance: float = 0.2,
        max_steps: int = 10**9,
        dtype: type = np.uint8,
    ) -> None:
        self.num_envs, self.rng, self.same_step = num_envs, rng, same_step
        self.shape, self.end_chance, self.max_steps, self.dtype = (
            shape,
            end_chance,
            max_steps,
            dtype,
        )
        self.ended = np.zeros(num_envs, bool)
        self.steps = np.zeros(num_envs, int)

    def frames(self) -> Frame:
        """Frames that are never all zero."""
        return self.rng.integers(1, 256, (self.num_envs, *self.shape)).astype(self.dtype)

    def reset(self) -> Frame:
        """Start new episodes; their first frames."""
        self.ended[:], self.steps[:] = False, 0
        return self.frames()

    def step(self) -> dict[str, NDArray[np.generic]]:
        """Random results, keyed as the fields of `FrameStep`, with the action that led to them."""
        n, rng = self.num_envs, self.rng
        ignored = self.ended if not self.same_step else np.zeros(n, bool)
        self.steps = np.where(ignored, 0, self.steps + 1)
        ends = (rng.random(n) < self.end_chance) & ~ignored
        terminated = ends & (rng.random(n) < 0.5)
        truncated = ends & (~terminated | (rng.random(n) < 0.2))
        truncated |= (self.steps >= self.max_steps) & ~ignored
        done = terminated | truncated
        if self.same_step:
            self.steps[done] = 0
        first = done if self.same_step else ignored
        self.ended = done
        return {
            "action": rng.integers(0, 18, n),
            "frame": self.frames(),
            "reward": np.where(ignored, 0, rng.normal(size=n) * 3).astype(np.float32),
            "terminated": terminated,
            "truncated": truncated,
            "life_lost": (rng.random(n) < 0.1) & ~done & ~ignored,
            "first": first.copy(),
            "final_frame": self.frames(),
        }
