"""Two or four players in each environment of a batch: the environments and their options."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import gymnasium
import numpy as np

from cule.envs.checks import INT32_MAX, Array
from cule.envs.errors import ArgumentTypeError
from cule.envs.options import (
    MAX_NOOPS,
    EnvOptions,
    resolve_fields,
    takes_options,
)
from cule.envs.plan import BatchPlan, lay_out
from cule.envs.single_agent import ObjectsMethods
from cule.envs.vector_env import BatchEnv
from cule.errors import DeviceError, InvalidArgumentError, shown
from cule.games import MultiplayerGame, multiplayer_game, resolve_players
from cule.option_fields import documents, within


@documents()
@dataclass(frozen=True, kw_only=True)
class MultiAgentOptions(EnvOptions):
    """Every option of a `MultiAgentVectorEnv`; its `config` holds them as resolved."""

    game: str = field(kw_only=False)
    """Name of the game."""

    mode: int | tuple[int, ...] | None = None
    """Game mode, for all environments or for each; each mode has one number of players. None: the
    first of those for `num_players`.
    """

    num_players: int | None = field(default=None, metadata={"range": (2, 4)})
    """Players of each environment, 2 or 4. None: as many as the mode has, or else 2."""

    max_turn_time: int | None = field(default=None, metadata={"range": (0, INT32_MAX)})
    """Frames after which a player who stalls loses a point, in double_dunk, othello, tennis and
    video_checkers; 0: never. None: as many as in PettingZoo.
    """

    noop_max: int = within(0, 0, MAX_NOOPS)
    """A reset plays fewer than this many random frames in which no player does anything."""

    reward_clipping: bool = False
    """Rewards of `step` are clipped to [-1, 1]."""

    # What is about a single player.
    continuous: bool = field(default=False, init=False)
    continuous_action_threshold: float = field(default=0.5, init=False)
    episodic_life: bool = field(default=False, init=False)
    life_loss_info: bool = field(default=False, init=False)
    fire_after_life_loss: bool = field(default=False, init=False)
    use_fire_reset: bool = field(default=False, init=False)
    preset: str = field(default="ale", init=False)
    rules: None = field(default=None, init=False)


@documents(MultiAgentOptions)
class MultiAgentVectorEnv(ObjectsMethods, BatchEnv):
    """Many Atari 2600 environments of two or four players, stepped together.

    As `AtariVectorEnv`, without `ale`, `xla` and `xla_pure`; with P players:

    * actions are integers ``[N, P]``, one action set for all players;
    * rewards are int32 ``[N, P]`` (of `step_frames`, float32), not clipped by default;
    * ``info["lives"]``, ``info["episode_return"]`` and `lives` are int32 ``[N, P]``;
    * ``info["is_out"]``, bool ``[N, P]``, marks players who are out: their lives are below 0. While
      the game continues, their actions still count and their rewards are still paid;
    * all players see one observation, and an episode ends for all of them at once.

    With ``resets="exact"`` an environment with seed s plays as ``multi_agent_ale_py`` with
    ``random_seed = s``, whose game modes and rewards are those of PettingZoo. There the seed 0
    means the time of day; here it is a seed like any other.

    Args:
        game: Name of one of the 20 games that have modes for several players.
        num_envs: Number of environments.
        **options: The other options below; `config` shows how they were resolved.

    Raises:
        InvalidArgumentError: An option is outside its allowed values.
        UnknownGameError: No game for several players has this name.
        RomNotFoundError, UnsupportedRomError: The ROM of the game is not available.
        DeviceError: There is no backend for the device, or `kernel` is "compiled" where games
            cannot be compiled.

    Example:
        >>> import cule
        >>> env = cule.MultiAgentVectorEnv("pong", num_envs=8)
        >>> obs, info = env.reset(seed=0)
        >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> obs.shape, reward.shape, terminated.shape
        ((8, 4, 84, 84), (8, 2), (8,))
    """

    @takes_options(MultiAgentOptions)
    def __init__(self, game: str, num_envs: int, **options: object) -> None:
        """Make the environments; the first `reset` plays them to their first observation."""
        config = resolve_multi_agent_options(game, num_envs, options)
        super().__init__(config, plan_players(config), game, options)

    def _action_space(self, num_actions: int) -> gymnasium.Space[Array]:
        return gymnasium.spaces.MultiDiscrete(np.full(self.num_players, num_actions))


def resolve_multi_agent_options(
    game: object, num_envs: object, keywords: Mapping[str, object]
) -> MultiAgentOptions:
    """Check what a user asked for and fill in the rest.

    Raises:
        TypeError: There is no option of this name.
        InvalidArgumentError, DeviceError: An option is outside its allowed values.
        UnknownGameError: No game for several players has this name.
    """
    if not isinstance(game, str):
        raise ArgumentTypeError(f"game is {shown(game)}; it must be the name of a game")
    name = "MultiAgentVectorEnv"
    options = resolve_fields(MultiAgentOptions, name, game, num_envs, keywords)
    facts = multiplayer_game(options.game)
    _check_turn_time(options, facts)
    if options.device != "cpu" and options.kernel == "compiled":
        raise DeviceError(
            "kernel is 'compiled'; on a GPU it must be 'auto' or 'interpreter' with several players"
        )
    return dataclasses.replace(options, num_players=_num_players(options, facts))


def plan_players(options: MultiAgentOptions) -> BatchPlan:
    """Find the game and lay out the batch."""
    assert options.num_players is not None
    spec = resolve_players(
        options.game, options.num_players, options.rom_path, options.max_turn_time
    )
    return lay_out(options, [spec], [options.num_envs])


def _num_players(options: MultiAgentOptions, facts: MultiplayerGame) -> int:
    """The number of players that `num_players` and `mode` agree on."""
    game_id, asked = facts.rules.game_id, options.num_players
    if asked is not None and asked not in facts.modes:
        words = " or ".join(map(str, facts.modes))
        raise InvalidArgumentError(f"num_players is {asked}; for {game_id} it must be {words}")
    modes = (options.mode,) if isinstance(options.mode, int) else options.mode
    if modes is None:
        return asked or min(facts.modes)
    for number, allowed in facts.modes.items():
        if asked in (None, number) and modes[0] in allowed:
            return number  # that the others are of this number is checked by `lay_out`
    words = "; ".join(
        f"{', '.join(map(str, allowed))} for {number} players"
        for number, allowed in facts.modes.items()
        if asked in (None, number)
    )
    raise InvalidArgumentError(f"mode is {modes[0]}; for {game_id} it must be one of {words}")


def _check_turn_time(options: MultiAgentOptions, facts: MultiplayerGame) -> None:
    if options.max_turn_time is not None and not facts.has_turn_limit:
        raise InvalidArgumentError(
            f"max_turn_time is {options.max_turn_time}; for {facts.rules.game_id}, which never "
            "charges for stalling, it must be None"
        )
