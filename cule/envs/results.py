"""What `reset` and `step` return, whatever the back end.

A call writes observations into memory that `Memory.pool` lends, and numbers into two small tables,
int32 ``[INT_ROWS, n]`` and bool ``[FLAG_ROWS, n]``, made anew for each call. Users get rows of
these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from gymnasium.vector import AutoresetMode

from cule import _core
from cule.envs.arrays import Array

#: ``info`` of Gymnasium.
Info: TypeAlias = dict[str, Array]

#: Result of `AtariVectorEnv.step`: obs, reward, terminated, truncated, info.
StepResult: TypeAlias = tuple[Array, Array, Array, Array, Info]

#: Keys of ``info``, as in ale-py, and the rows of the result table that they are.
INFO_ROWS = {
    "env_id": _core.INT_ENV_ID,
    "lives": _core.INT_LIVES,
    "frame_number": _core.INT_FRAME_NUMBER,
    "episode_frame_number": _core.INT_EPISODE_FRAME_NUMBER,
}

_EPISODE_ROWS = {
    "episode_return": _core.INT_EPISODE_RETURN,
    "episode_length": _core.INT_EPISODE_LENGTH,
}

#: Keys of ``final_info``, likewise.
FINAL_INFO_ROWS = INFO_ROWS | _EPISODE_ROWS

#: Keys of ``info`` with the option ``episode_info``, likewise.
EPISODE_INFO_ROWS = INFO_ROWS | {"reward": _core.INT_RAW_REWARD} | _EPISODE_ROWS


class FrameStep(NamedTuple):
    """Result of `AtariVectorEnv.step_frames`: one step, without stacking.

    N environments, H x W pixels; numpy arrays, or torch tensors with ``output="torch"``.
    """

    frame: Array
    """Newest frame, the one to choose the next action on; uint8 ``[N, H, W]``, RGB ``[N, H, W,
    3]``, RAM ``[N, 128]``. This is `out` where it was given."""

    reward: Array
    """Sum over the skipped frames, never clipped; float32 ``[N]``."""

    terminated: Array
    """The game is over, or a lost life counts as its end; bool ``[N]``."""

    truncated: Array
    """The episode was truncated; bool ``[N]``."""

    life_lost: Array
    """A life was lost in this step, and the game continues; bool ``[N]``."""

    first: Array
    """`frame` is the first of an episode; bool ``[N]``."""

    final_frame: Array
    """Frame on which the old episode ended, as `frame`; meaningful where an episode ended."""

    episode_return: Array
    """Unclipped return of the episode that ended, or so far; float32 ``[N]``."""

    episode_length: Array
    """Steps of the episode that ended, or so far; int32 ``[N]``."""


class NextStepFrames(FrameStep):
    """A step of environments that reset themselves in the next step; replays check the mode."""

    __slots__ = ()
    autoreset_mode = AutoresetMode.NEXT_STEP.value


class SameStepFrames(FrameStep):
    """A step of environments that reset themselves in the same step."""

    __slots__ = ()
    autoreset_mode = AutoresetMode.SAME_STEP.value


#: What `AtariVectorEnv.step_frames` returns.
FRAME_STEPS: dict[AutoresetMode, type[FrameStep]] = {
    AutoresetMode.NEXT_STEP: NextStepFrames,
    AutoresetMode.SAME_STEP: SameStepFrames,
    AutoresetMode.DISABLED: FrameStep,
}


def make_info(ints: Array, wrap: Callable[[Array], Array], episode_info: bool) -> Info:
    """``info`` of a reset or step, from the table of numbers; `wrap` is `Memory.wrap`."""
    rows = EPISODE_INFO_ROWS if episode_info else INFO_ROWS
    return {key: wrap(ints[row]) for key, row in rows.items()}


def make_final_info(ints: Array, ended: Array, wrap: Callable[[Array], Array]) -> Info:
    """``final_info``: numbers of the episodes that ended, zero elsewhere, and Gymnasium's masks."""
    info: Info = {}
    for key, row in FINAL_INFO_ROWS.items():
        info[key] = wrap(ints[row] * ended)
        info[f"_{key}"] = wrap(ended)
    return info
