"""Results of `reset` and `step`, whatever the back end.

A call writes observations into memory that `Memory.pool` lends, and numbers into two small tables,
int32 ``[int_rows, n]`` and bool ``[flag_rows, n]``, made anew for each call. Users get rows of
these; what each player has of their own is a row per player.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gymnasium.vector import AutoresetMode

from cule import _core
from cule.envs.checks import Array, NativeArray

if TYPE_CHECKING:
    from cule.envs.backend import Memory, Outputs
    from cule.envs.options import EnvOptions

#: ``info`` of Gymnasium.
Info: TypeAlias = dict[str, Array]

#: Result of `AtariVectorEnv.step`: obs, reward, terminated, truncated, info.
StepResult: TypeAlias = tuple[Array, Array, Array, Array, Info]

#: Objects of environments, given their numbers ``[n]``: int16 ``[n, K, 6]``.
RowsOf: TypeAlias = Callable[[NativeArray], NativeArray]

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


class RunningKernel(NamedTuple):
    """Kernel that executes the programs of a batch now; see `AtariVectorEnv.running_kernel`."""

    name: str
    """"interpreter", or "compiled": machine code of a CPU, or a GPU kernel of the game."""

    lanes_per_warp: int = 0
    """Environments that share a warp, 1 to 32; 0 on a CPU. One lane has a kernel of its own."""

    warps_per_block: int = 0
    """Warps that share a block, 1 to 4; 0 on a CPU."""


class FrameStep(NamedTuple):
    """Result of `AtariVectorEnv.step_frames`: one step, without stacking.

    N environments, H x W pixels, K objects; numpy arrays, or torch tensors with ``output="torch"``.
    """

    frame: Array
    """Newest frame, the one to choose the next action on; uint8 ``[N, H, W]``, RGB ``[N, H, W,
    3]``, RAM ``[N, 128]``, objects int16 ``[N, K, 6]``. This is `out` where it was given."""

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


def make_info(numbers: Callable[[int], Array], episode_info: bool) -> Info:
    """``info`` of a reset or step; `numbers` gives a row of the table as users get it."""
    rows = EPISODE_INFO_ROWS if episode_info else INFO_ROWS
    return {key: numbers(row) for key, row in rows.items()}


def make_final_info(
    numbers: Callable[[int], Array], ended: Array, wrap: Callable[[Array], Array]
) -> Info:
    """``final_info``: numbers of the episodes that ended, zero elsewhere, and Gymnasium's masks.

    Args:
        numbers: Gives a row of the table.
        ended: Where episodes ended.
        wrap: Makes of an array what users get.
    """
    info: Info = {}
    for key, row in FINAL_INFO_ROWS.items():
        values = numbers(row)
        info[key] = wrap(values * (ended if values.ndim == 1 else ended[:, None]))
        info[f"_{key}"] = wrap(ended)
    return info


class Results:
    """Results for users, from the memory that a call has written to.

    With P players, rewards, returns and lives are ``[N, P]`` instead of ``[N]``, and ``info`` has
    ``is_out``, bool ``[N, P]``: players who are out while the game continues.
    """

    def __init__(
        self,
        memory: Memory,
        options: EnvOptions,
        num_players: int,
        objects: RowsOf | None,
    ) -> None:
        """Serve a batch of environments with these options; `objects` are for ``info``."""
        self._memory = memory
        self._options = options
        self._num_players = num_players
        self._objects = objects
        self._is_same_step = options.autoreset_mode is AutoresetMode.SAME_STEP
        self._frame_step = FRAME_STEPS[AutoresetMode(options.autoreset_mode)]

    def info(self, out: Outputs) -> Info:
        """``info`` of a reset or step."""
        wrap = self._memory.wrap
        info = make_info(lambda row: wrap(self._numbers(out.ints, row)), self._options.episode_info)
        if self._num_players > 1:
            is_out = self._numbers(out.ints, _core.INT_LIVES) < 0
            info["is_out"] = wrap(is_out)
        if self._objects is not None:
            info["objects"] = wrap(self._objects(out.ints[_core.INT_ENV_ID]))
        return info

    def step(self, out: Outputs) -> StepResult:
        """The result of a step."""
        memory, wrap, flags = self._memory, self._memory.wrap, out.flags
        terminated, truncated = flags[_core.FLAG_TERMINATED], flags[_core.FLAG_TRUNCATED]
        info = self.info(out)
        if self._is_same_step and memory.may_have_ended(terminated, truncated):
            assert out.final_obs is not None
            assert out.final_ints is not None
            info["final_obs"] = memory.wrap_obs(out.final_obs)
            if self._options.final_info:
                ended = flags[_core.FLAG_ENDED]
                info["final_info"] = make_final_info(
                    partial(self._numbers, out.final_ints), ended, wrap
                )
                info["_final_info"] = wrap(ended)
        reward = wrap(self._numbers(out.ints, _core.INT_REWARD))
        return memory.wrap_obs(out.obs), reward, wrap(terminated), wrap(truncated), info

    def frames(self, frame: Array, final: Array | None, out: Outputs) -> FrameStep:
        """The result of a step without stacking, with `frame` and `final` as users get them."""
        memory, wrap, flags = self._memory, self._memory.wrap, out.flags
        return self._frame_step(
            frame=frame,
            reward=wrap(memory.as_float(self._numbers(out.ints, _core.INT_RAW_REWARD))),
            terminated=wrap(flags[_core.FLAG_TERMINATED]),
            truncated=wrap(flags[_core.FLAG_TRUNCATED]),
            life_lost=wrap(self._row(flags, _core.FLAG_LIFE_LOST, _core.FLAG_OF_PLAYERS)),
            first=wrap(flags[_core.FLAG_FIRST]),
            # Without a reset in the same step the frame itself is the one the episode ended on.
            final_frame=frame if final is None else final,
            episode_return=wrap(memory.as_float(self._numbers(out.ints, _core.INT_EPISODE_RETURN))),
            episode_length=wrap(out.ints[_core.INT_EPISODE_LENGTH]),
        )

    def _numbers(self, ints: NativeArray, kind: int) -> NativeArray:
        """Integers of one kind, ``[N]``, or ``[N, P]`` if each player has their own."""
        return self._row(ints, kind, _core.INT_OF_PLAYERS)

    def _row(self, table: NativeArray, kind: int, of_players: int) -> NativeArray:
        """The same of a table whose kinds from `of_players` on have a row per player."""
        if self._num_players == 1 or kind < of_players:
            return table[kind]
        first = of_players + (kind - of_players) * self._num_players
        return table[first : first + self._num_players].T
