"""From options to a native batch: the game of each environment, and what an action index means.

In: `EnvOptions`. Out: `BatchPlan`, and the Gymnasium spaces.

Games of one batch may differ in their action sets. Where they do, the joint action space is all 18
actions: index i is `Action(i)`, and an action that is not legal for an environment's game is no-op
for it, as in ALE.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from cule import _core
from cule.envs.actions import Action
from cule.envs.errors import native_errors
from cule.envs.options import EnvOptions
from cule.errors import DeviceError, InvalidArgumentError
from cule.games import GameRules, GameSpec, resolve
from cule.games.language import OBJECT_COLUMNS

COLOUR_CHANNELS = 3

#: Observations that are rows of numbers, int16.
ROW_OBS_TYPES = ("objects", "sprites")

#: Columns of a row of ``obs_type="sprites"``, `SpriteColumn` in csrc/tia/sprites.hpp.
SPRITE_COLUMNS = (
    "x",
    "y",
    "w",
    "h",
    "visible",
    "object",
    "pixels",
    "color",
    "copies",
    "shape",
    "runs",
)

#: Options that `_core.BatchOptions` has under the same name.
_NATIVE_OPTIONS = vars(EnvOptions)["__dataclass_fields__"].keys() & vars(_core.BatchOptions).keys()

#: Results that are alive at once: those of the last step, which the caller still reads, and those
#: that the next one writes.
STEPS_ALIVE = 2

#: Emulated frames per second of a console, by the format of its picture (in whole numbers).
FRAME_RATES = {"NTSC": 60, "PAL": 50}


@dataclass(frozen=True)
class BatchPlan:
    """Games and settings of a batch's environments.

    A game whose cartridge is modified in some environments is there once for each cartridge.
    """

    games: tuple[_core.Game, ...]
    rules: tuple[GameRules, ...]  # of each
    game_index: NDArray[np.int32]  # [N], which of games
    modes: NDArray[np.int32]  # [N]
    difficulties: NDArray[np.int32]  # [N]
    action_delays: NDArray[np.int32]  # [N], in frames
    modifications: NDArray[np.int32]  # [N], number among those compiled for the game; 0: none
    num_modifications: NDArray[np.int32]  # [N], from that one on; each episode draws one
    full_action_space: bool  # whether native indices count legal instead of minimal actions
    action_set: tuple[Action, ...]  # what an index means to the user
    action_table: NDArray[np.int32] | None  # [games, 18] user index to native index; None: the same
    object_rows: int  # of tables of objects, where they are asked for: of the game with the most

    @property
    def num_players(self) -> int:
        """Players of each environment."""
        return self.rules[0].num_players

    @property
    def kinds(self) -> NDArray[np.int32]:
        """Game, mode, difficulty and modifications of each environment, int32 ``[N, 5]``."""
        choices = (self.modifications, self.num_modifications)
        return np.stack([self.game_index, self.modes, self.difficulties, *choices], axis=1)

    def reset_sets(self) -> tuple[BatchPlan, NDArray[np.int32]]:
        """An environment for each set of cached reset states, and the first set of each of ours.

        A kind of environment has a set for each of its modifications, in order.
        """
        kinds, kind_of = np.unique(self.kinds, axis=0, return_inverse=True)
        counts = kinds[:, -1]
        starts = np.cumsum(counts) - counts
        game_index, modes, difficulties, modifications, _ = np.repeat(kinds, counts, axis=0).T
        drawn = np.arange(counts.sum()) - np.repeat(starts, counts)
        one_of_each = dataclasses.replace(
            self,
            game_index=game_index,
            modes=modes,
            difficulties=difficulties,
            action_delays=np.zeros_like(game_index),
            modifications=(modifications + drawn).astype(np.int32),
            num_modifications=np.ones_like(game_index),
        )
        return one_of_each, np.ascontiguousarray(starts[kind_of.reshape(-1)], np.int32)

    @property
    def screen_heights(self) -> NDArray[np.int32]:
        """Rows of each environment's screen, int32 ``[N]``."""
        heights = np.array([game.screen_height for game in self.games], np.int32)
        return heights[self.game_index]

    @property
    def frame_rate(self) -> int:
        """Frames per second of a real console with the first game."""
        return FRAME_RATES[self.games[0].format]


def frame_shape(options: EnvOptions, object_rows: int = 0) -> tuple[int, ...]:
    """Shape of one frame of one environment.

    ``[H, W]``, ``[H, W, 3]``, RAM ``[128]``, objects ``[K, 6]``, or sprites ``[K, 11]``.
    """
    if options.obs_type == "ram":
        return (_core.RAM_BYTES,)
    if options.obs_type == "objects":
        return (object_rows, len(OBJECT_COLUMNS))
    if options.obs_type == "sprites":
        return (options.max_sprites, len(SPRITE_COLUMNS))
    size = (options.img_height, options.img_width)
    return size if options.grayscale else (*size, COLOUR_CHANNELS)


def obs_dtype(options: EnvOptions) -> np.dtype[Any]:
    """Type of the numbers of observations."""
    return np.dtype(np.int16 if options.obs_type in ROW_OBS_TYPES else np.uint8)


def observation_space(options: EnvOptions, object_rows: int = 0) -> spaces.Box:
    """Observations of one environment: a stack of frames or of rows of objects, or RAM."""
    frame = frame_shape(options, object_rows)
    shape = frame if options.obs_type == "ram" else (options.stack_num, *frame)
    dtype = obs_dtype(options)
    low, high = (-(2**15), 2**15 - 1) if dtype == np.int16 else (0, 255)
    return spaces.Box(low, high, shape, dtype)


def continuous_action_space() -> spaces.Box:
    """Radius, angle and fire."""
    low = np.array([0.0, -np.pi, 0.0], np.float32)
    high = np.array([1.0, np.pi, 1.0], np.float32)
    return spaces.Box(low, high, dtype=np.float32)


def make_game(fields: Mapping[str, object], kernel: str = "auto") -> _core.Game:
    """The native game of ``GameSpec.to_core_kwargs()``.

    Args:
        fields: What `_core.GameSpec` is set to.
        kernel: What executes the program on the CPU, as in `EnvOptions`.

    Raises:
        UnsupportedRomError: No supported cartridge type fits the ROM.
        InvalidArgumentError: A field is outside its allowed values.
        DeviceError: `kernel` is "compiled", and the program cannot be compiled here.
    """
    with native_errors:
        spec = _core.GameSpec()
        for name, value in fields.items():
            setattr(spec, name, value)
        spec.translates = kernel != "interpreter"
        game = _core.Game(spec)
    if kernel == "compiled" and not game.is_translated:
        raise DeviceError(
            f"kernel is 'compiled', but {_why_interpreted()}; it must be 'auto' or 'interpreter' "
            "here"
        )
    return game


def describe_host(game: str) -> str:
    """One line: what executes games on this CPU, tried with one whose ROM is there."""
    if make_game(resolve(game).to_core_kwargs(), "auto").is_translated:
        return "translated to machine code"
    return f"interpreted: {_why_interpreted()}"


def _why_interpreted() -> str:
    if _core.HAS_JIT:
        return "the system does not let memory become executable"
    return "programs can be compiled on Linux on x86-64 and AArch64 only"


def plan_batch(options: EnvOptions) -> BatchPlan:
    """Find the games and lay out the batch."""
    pairs = ((options.game, options.num_envs),) if isinstance(options.game, str) else options.game
    total = sum(count for _, count in pairs)
    if total != options.num_envs:
        raise InvalidArgumentError(
            f"num_envs is {options.num_envs}; it must be {total}, the environments of all games"
        )
    specs = [resolve(name, options.rom_path, options.rules) for name, _ in pairs]
    return lay_out(options, specs, [count for _, count in pairs])


def lay_out(options: EnvOptions, specs: list[GameSpec], counts: list[int]) -> BatchPlan:
    """Lay out a batch of `counts` environments of each game."""
    # On a GPU "compiled" is about the kernel there; the CPU makes the reset states only.
    is_for_gpu = options.device != "cpu" and options.kernel == "compiled"
    kernel = "auto" if is_for_gpu else options.kernel
    game_index = np.repeat(np.arange(len(specs), dtype=np.int32), counts)
    modifications, num_modifications = np.zeros_like(game_index), np.ones_like(game_index)
    words: list[list[int]] = [[] for _ in specs]
    if options.modifications is not None:
        from cule.envs.modified import modify_games

        specs, words, game_index, modifications, num_modifications = modify_games(
            options.modifications, specs, game_index
        )
    if is_for_gpu and len(specs) > 1:
        names = ", ".join(spec.game_id for spec in specs)
        raise InvalidArgumentError(
            f"kernel is 'compiled', and the environments have different cartridges ({names}); it "
            "must be 'auto' or 'interpreter'"
        )
    fields = [
        spec.to_core_kwargs() | {"modifications": compiled}
        for spec, compiled in zip(specs, words, strict=True)
    ]
    object_rows = 0
    if options.obs_type == "objects" or options.objects_info:
        from cule.games.objects import load_objects

        for spec, given in zip(specs, fields, strict=True):
            table = load_objects(spec.game_id)
            given["objects"] = list(table.words)
            object_rows = max(object_rows, len(table.slots))
    games = tuple(make_game(given, kernel) for given in fields)
    for game in games:
        if options.obs_type == "image" and options.img_height > game.screen_height:
            raise InvalidArgumentError(
                f"img_height is {options.img_height}; it must be in 1..{game.screen_height}, the "
                f"screen of {game.game_id}"
            )
    rules = tuple(spec.rules for spec in specs)
    defaults, allowed = [own.default_mode for own in rules], [own.modes for own in rules]
    modes = _choices("mode", options.mode, defaults, allowed, game_index, specs)
    # ALE starts with difficulty 0 even where a game's list does not hold it.
    defaults, allowed = [0] * len(rules), [own.difficulties for own in rules]
    difficulties = _choices("difficulty", options.difficulty, defaults, allowed, game_index, specs)
    whole = options.full_action_space or options.continuous
    sets = [game.legal_actions if whole else game.minimal_actions for game in games]
    joint = any(actions != sets[0] for actions in sets)
    return BatchPlan(
        games=games,
        rules=rules,
        game_index=game_index,
        modes=modes,
        difficulties=difficulties,
        action_delays=np.full_like(game_index, options.action_delay),
        modifications=modifications,
        num_modifications=num_modifications,
        full_action_space=whole or joint,
        action_set=tuple(Action) if joint else tuple(Action(action) for action in sets[0]),
        action_table=_joint_table(games) if joint else None,
        object_rows=object_rows,
    )


def results_bytes(plan: BatchPlan, options: EnvOptions) -> int:
    """Bytes of an environment in the results of a step."""
    table = 4 * _core.int_rows(plan.num_players)
    space = observation_space(options, plan.object_rows)
    obs = math.prod(space.shape or ()) * np.dtype(space.dtype).itemsize
    has_finals = options.autoreset_mode is AutoresetMode.SAME_STEP
    if options.objects_info:
        table += plan.object_rows * len(OBJECT_COLUMNS) * np.dtype(np.int16).itemsize
    return (obs + table) * (2 if has_finals else 1) + _core.flag_rows(plan.num_players)


def batched_space(space: spaces.Box, num_envs: int) -> spaces.Box:
    """``gymnasium.vector.utils.batch_space`` whose bounds are stored for one environment alone.

    Bounds of all of them would take as much memory as four batches of observations, and take far
    longer to make than the environments.
    """
    batched = batch_space(space, 1)
    assert isinstance(batched, spaces.Box)
    shape = (num_envs, *space.shape)
    for name in ("low", "high", "bounded_below", "bounded_above"):
        setattr(batched, name, np.broadcast_to(getattr(batched, name), shape))
    batched._shape = shape
    return batched


def make_batch(plan: BatchPlan, options: EnvOptions) -> _core.Batch:
    """The native batch of a plan, on the CPU."""
    game_index, modes, difficulties, modifications, counts = map(np.ascontiguousarray, plan.kinds.T)
    with native_errors:
        return _core.Batch(
            plan.games,
            game_index,
            modes,
            difficulties,
            plan.action_delays,
            modifications,
            counts,
            native_options(plan, options),
        )


def reset_rows(
    plan: BatchPlan, options: EnvOptions
) -> tuple[list[NDArray[np.uint8]], NDArray[np.int32]]:
    """Sets of cached reset states, and the first one of each environment."""
    one_of_each, reset_set = plan.reset_sets()
    batch = make_batch(one_of_each, options)
    try:
        with native_errors:
            rows = [batch.reset_states(env) for env in range(len(one_of_each.game_index))]
    finally:
        batch.close()
    return rows, reset_set


def native_options(plan: BatchPlan, options: EnvOptions) -> _core.BatchOptions:
    """The options of a native batch, on any back end."""
    native = _core.BatchOptions()
    for name in _NATIVE_OPTIONS:
        setattr(native, name, getattr(options, name))
    native.full_action_space = plan.full_action_space
    native.autoreset = getattr(_core.Autoreset, AutoresetMode(options.autoreset_mode).value)
    native.cached_resets = options.resets == "cached"
    native.obs = getattr(_core.ObsKind, options.obs_type)
    native.object_rows = plan.object_rows
    native.num_players = plan.num_players
    native.max_action_delay = int(np.max(options.action_delay))
    return native


def _choices(
    name: str,
    asked: int | Sequence[int] | None,
    defaults: list[int],
    allowed: list[tuple[int, ...]],
    game_index: NDArray[np.int32],
    specs: list[GameSpec],
) -> NDArray[np.int32]:
    """One mode or difficulty for each environment, int32 ``[N]``, allowed by its game."""
    values = np.array(defaults, np.int32)[game_index]
    if asked is None:
        return values
    values[:] = asked
    for index, (own, spec) in enumerate(zip(allowed, specs, strict=True)):
        chosen = values[game_index == index]
        wrong = chosen[~np.isin(chosen, own)]
        if wrong.size:
            words = ", ".join(map(str, own))
            raise InvalidArgumentError(
                f"{name} is {wrong[0]}; for {spec.game_id} it must be one of {words}"
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
