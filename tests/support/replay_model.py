"""Replay in plain Python: a list of steps an environment, searched and summed the slow way.

An environment is a list of `Row`: what was seen, and what then happened. Nothing is shared, nothing
wraps, nothing is forgotten; whether a row is still in a ring is a question of arithmetic. The
float32 operations are those of the specification, one after the other, so results are compared
exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Frame = NDArray[np.generic]


@dataclass
class Row:
    """A frame, and the step taken on it."""

    frame: Frame
    first: bool
    action: int = -1
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    life_lost: bool = False
    ignored: bool = False  # the action did nothing, or never happened
    final_frame: Frame | None = None  # where the next row does not show it


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
        self.rows: list[Row] = []

    def start(self, frame: Frame) -> None:
        if self.rows:
            self.rows[-1].ignored = True
        self.rows.append(Row(frame, first=True))

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
        row = self.rows[-1]
        row.action, row.reward, row.life_lost = action, reward, life_lost
        row.terminated, row.truncated = terminated, truncated
        if self.same_step:
            row.final_frame = final_frame
        else:
            row.ignored = first
        self.rows.append(Row(frame, first=first))

    @property
    def head(self) -> int:
        return len(self.rows) - 1

    def valid_rows(self, num_rows: int) -> list[int]:
        """Rows whose stack and n steps are all among the newest `num_rows` rows."""
        oldest = max(self.head - num_rows + self.stack, 0)
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

    def history(self, row: int) -> tuple[list[Frame], list[bool]]:
        rows = self.rows[max(row - self.stack + 1, 0) : row + 1]
        return [r.frame for r in rows], [r.first for r in rows]

    def expected(self, row: int) -> Expected:
        """The transition that begins in a row."""
        total, discount = np.float32(0), np.float32(1)
        next_obs: Frame | None = None
        for k in range(self.n_step):
            step = self.rows[row + k]
            total = np.float32(total + discount * np.float32(step.reward))
            over = step.terminated or (self.life_loss_ends and step.life_lost)
            discount = np.float32(discount * np.float32(0.0 if over else self.gamma))
            frames, starts = self.history(row + k + 1)
            next_obs = self.stacked(frames, starts)
            if over:
                break
            if step.truncated and self.same_step:
                frames, starts = self.history(row + k)
                assert step.final_frame is not None
                next_obs = self.stacked([*frames, step.final_frame], [*starts, False])
            if step.truncated or self.rows[row + k + 1].ignored:
                break
        frames, starts = self.history(row)
        return Expected(
            obs=self.stacked(frames, starts),
            action=self.rows[row].action,
            n_step_return=total,
            discount=discount,
            next_obs=next_obs if discount > 0 else None,
            is_real=not self.rows[row].ignored,
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
