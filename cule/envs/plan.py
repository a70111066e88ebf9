"""From options to a native batch: which game each console plays, and what an action index means.

In: `EnvOptions`. Out: `BatchPlan`, with everything the native batch and the Gymnasium spaces are
made of.

Games of one batch may differ in their action sets. Where they do, the joint action space is all 18
actions: index i is `Action(i)`, and an action that is not legal for a console's game is no-op for
it, as in ALE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cule import _core
from cule.envs.action import Action
from cule.envs.native import native_errors
from cule.envs.options import EnvOptions
from cule.errors import InvalidArgumentError
from cule.games import resolve

#: Emulated frames a second of a console, by the format of its pictures (in whole numbers).
FRAME_RATES = {"NTSC": 60, "PAL": 50}


@dataclass(frozen=True)
class BatchPlan:
    """What the consoles of a batch are."""

    games: tuple[_core.Game, ...]
    game_index: NDArray[np.int32]  # [N], which of games
    modes: NDArray[np.int32]  # [N]
    difficulties: NDArray[np.int32]  # [N]
    full_action_space: bool  # whether native indices count legal instead of minimal actions
    action_set: tuple[Action, ...]  # what an index means to the user
    action_table: NDArray[np.int32] | None  # [games, 18] user index to native index; None: the same

    @property
    def screen_heights(self) -> NDArray[np.int32]:
        """Rows of each console's screen, int32 ``[N]``."""
        heights = np.array([game.screen_height for game in self.games], np.int32)
        return heights[self.game_index]

    @property
    def frame_rate(self) -> int:
        """Frames a second that a person would see of the first console."""
        return FRAME_RATES[self.games[0].format]


def make_game(kwargs: dict[str, Any]) -> _core.Game:
    """The native game of ``GameSpec.to_core_kwargs()``.

    Raises:
        UnsupportedRomError: No supported cartridge type fits the ROM.
    """
    with native_errors():
        return _core.Game(**kwargs)


def plan_batch(options: EnvOptions) -> BatchPlan:
    """Find the games and lay out the batch.

    Raises:
        InvalidArgumentError: Counts, modes, difficulties or sizes do not fit the games.
        UnknownGameError, RomNotFoundError, UnsupportedRomError, RulesError: As
            `cule.games.resolve`.
    """
    pairs = options.game if isinstance(options.game, tuple) else ((options.game, options.num_envs),)
    total = sum(count for _, count in pairs)
    if total != options.num_envs:
        raise InvalidArgumentError(
            f"num_envs is {options.num_envs}, but the games have {total} consoles in all"
        )
    if len(pairs) > 1:
        for name in ("rom_path", "rules"):
            if getattr(options, name) is not None:
                raise InvalidArgumentError(
                    f"{name} is {getattr(options, name)!r}; with several games it must be None"
                )
    kwargs = [resolve(name, options.rom_path, options.rules).to_core_kwargs() for name, _ in pairs]
    games = tuple(make_game(entry) for entry in kwargs)
    for game in games:
        if options.obs_type == "image" and options.img_height > game.screen_height:
            raise InvalidArgumentError(
                f"img_height is {options.img_height}; it must be in 1..{game.screen_height}, the "
                f"screen of {game.game_id}"
            )
    counts = [count for _, count in pairs]
    game_index = np.repeat(np.arange(len(pairs), dtype=np.int32), counts)
    modes = _choices("mode", options.mode, game_index, kwargs, "modes", "default_mode")
    difficulties = _choices(
        "difficulty", options.difficulty, game_index, kwargs, "difficulties", None
    )

    whole = options.full_action_space or options.continuous
    sets = [game.legal_actions if whole else game.minimal_actions for game in games]
    joint = any(actions != sets[0] for actions in sets)
    return BatchPlan(
        games=games,
        game_index=game_index,
        modes=modes,
        difficulties=difficulties,
        full_action_space=whole or joint,
        action_set=tuple(Action) if joint else tuple(Action(action) for action in sets[0]),
        action_table=_joint_table(games) if joint else None,
    )


def make_batch(plan: BatchPlan, options: EnvOptions) -> _core.Batch:
    """The native batch of a plan, on the CPU.

    Raises:
        InvalidArgumentError: The native module refuses an option.
    """
    return make_game_batch(plan, options, plan.game_index, plan.modes, plan.difficulties)


def make_game_batch(
    plan: BatchPlan,
    options: EnvOptions,
    game_index: NDArray[np.int32],
    modes: NDArray[np.int32],
    difficulties: NDArray[np.int32],
) -> _core.Batch:
    """A native batch of the same games with other consoles.

    Raises:
        InvalidArgumentError: The native module refuses an option.
    """
    columns = [np.ascontiguousarray(column) for column in (game_index, modes, difficulties)]
    with native_errors():
        return _core.Batch(plan.games, *columns, **batch_arguments(plan, options))


def batch_arguments(plan: BatchPlan, options: EnvOptions) -> dict[str, Any]:
    """What every native batch is told by keyword."""
    return {
        "num_threads": options.num_threads,
        "thread_affinity_offset": options.thread_affinity_offset,
        "frameskip": options.frameskip,
        "repeat_action_probability": options.repeat_action_probability,
        "max_num_frames_per_episode": options.max_num_frames_per_episode,
        "stack_num": options.stack_num,
        "img_height": options.img_height,
        "img_width": options.img_width,
        "grayscale": options.grayscale,
        "maxpool": options.maxpool,
        "noop_max": options.noop_max,
        "use_fire_reset": options.use_fire_reset,
        "episodic_life": options.episodic_life,
        "life_loss_info": options.life_loss_info,
        "reward_clipping": options.reward_clipping,
        "autoreset": options.autoreset_mode.value,
        "cached_resets": options.resets == "cached",
        "num_reset_states": options.num_reset_states,
        "ram_obs": options.obs_type == "ram",
        "full_action_space": plan.full_action_space,
        "continuous": options.continuous,
        "continuous_action_threshold": options.continuous_action_threshold,
    }


def _choices(
    name: str,
    asked: int | tuple[int, ...] | None,
    game_index: NDArray[np.int32],
    kwargs: list[dict[str, Any]],
    allowed_key: str,
    default_key: str | None,
) -> NDArray[np.int32]:
    """One mode or difficulty a console, int32 ``[N]``, each allowed by the console's game."""
    # ALE starts with difficulty 0 even where a game's list does not hold it.
    defaults = np.array([entry[default_key] if default_key else 0 for entry in kwargs], np.int32)
    if asked is None:
        return defaults[game_index]
    values = np.empty_like(game_index)
    values[:] = asked
    for index, entry in enumerate(kwargs):
        own = values[game_index == index]
        wrong = own[~np.isin(own, entry[allowed_key])]
        if wrong.size:
            raise InvalidArgumentError(
                f"{name} is {wrong[0]}; {entry['game_id']} has "
                f"{', '.join(str(value) for value in entry[allowed_key])}"
            )
    return values


def _joint_table(games: tuple[_core.Game, ...]) -> NDArray[np.int32]:
    """For each game, where each of the 18 actions is in its legal set; illegal ones are no-op."""
    table = np.empty((len(games), len(Action)), np.int32)
    for row, game in zip(table, games, strict=True):
        legal = game.legal_actions
        noop = legal.index(Action.NOOP)
        row[:] = [legal.index(action) if action in legal else noop for action in Action]
    return table
