"""Evaluation: whole episodes with unclipped scores, by the protocols of the literature.

Every environment contributes its first k episodes, and the evaluation ends when all have finished:
the first M episodes to finish would be biased towards short ones. A lost life does not end an
episode.

    noop        no sticky actions, up to 30 random no-op frames at the start
    sticky      sticky actions with probability 0.25, no no-ops
    machado     sticky actions with probability 0.25, all 18 actions, no no-ops and no FIRE at the
                start or after a lost life, episodes of at most 18,000 frames
    as-trained  sticky actions and no-ops as in training

All but machado truncate episodes at 108,000 frames. Frame skip and action set are those of
training; machado, the protocol of Machado et al. 2018, needs an agent with all 18 actions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from cule.agents.parts.config import EVALUATION_SEED, AgentConfig
from cule.agents.parts.envs import AnyEnv, FrameEnv, as_frame_env, make_env, make_games, make_stacks
from cule.agents.parts.player import Player
from cule.agents.run.scores import (
    human_normalized,
    mean_change,
    record_normalized,
    reference_scores,
)
from cule.agents.self_play import RandomOpponent, SelfPlayEnv
from cule.envs import Action, AtariVectorEnv
from cule.envs.options import PRESETS, modification_names
from cule.errors import CuleError, InvalidArgumentError, shown
from cule.games import game_id_of, resolve, resolve_players
from cule.games.modifications import ORIGINAL, all_modifications, modify_spec
from cule.replay.options import check_bool, check_int

if TYPE_CHECKING:
    from cule.agents.parts.learner import Learner

#: Fewest and most episodes of an evaluation.
MIN_EPISODES, MAX_EPISODES = 10, 10_000_000

#: Steps after which the host learns which environments have finished: a GPU is waited for.
_STEPS_BETWEEN_READS = {"cpu": 1, "cuda": 32}

#: Emulated frames after which an episode is truncated: half an hour of play.
FRAME_CAP = 108_000


#: What ``machado`` takes from the preset of environments of this name.
_OF_MACHADO = (
    *("repeat_action_probability", "noop_max", "use_fire_reset"),
    "max_num_frames_per_episode",
)

#: A protocol, as an option.
ProtocolName: TypeAlias = Literal["as-trained", "machado", "noop", "sticky"]

#: Options of the environments by protocol. noop_max 31 means 0 to 30 no-ops.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "noop": {"repeat_action_probability": 0.0, "noop_max": 31},
    "sticky": {"repeat_action_probability": 0.25, "noop_max": 1},
    "machado": {
        **{name: value for name, value in PRESETS["machado"].items() if name in _OF_MACHADO},
        "fire_after_life_loss": False,
    },
    "as-trained": {},
}


@dataclass(frozen=True)
class Evaluation:
    """Result of an evaluation."""

    returns: tuple[float, ...]
    """Unclipped, undiscounted score of each episode."""

    lengths: tuple[int, ...]
    """Agent steps of each episode."""

    game: str
    """Id of the game, and the players if there are several: "pong with 2 players"."""

    protocol: str
    """Protocol of the evaluation."""

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(np.mean(self.returns))

    @property
    def median(self) -> float:
        """Median score."""
        return float(np.median(self.returns))

    @property
    def std(self) -> float:
        """Sample standard deviation (n - 1) of the scores."""
        return float(np.std(self.returns, ddof=1))

    @property
    def human_normalized(self) -> float | None:
        """0 is random play and 1 human play; None for games without reference scores."""
        return human_normalized(self.game, self.mean) if self.game in reference_scores() else None

    @property
    def record_normalized(self) -> float | None:
        """0 is random play and 1 the human world record; None for games without one."""
        return record_normalized(self.game, self.mean)

    def row(self) -> dict[str, float | int | str]:
        """The result as a row of a log."""
        human, record = self.human_normalized, self.record_normalized
        return {
            "protocol": self.protocol,
            "episodes": len(self.returns),
            "mean": self.mean,
            "median": self.median,
            "std": self.std,
            "human_normalized": float("nan") if human is None else human,
            "record_normalized": float("nan") if record is None else record,
            "length_mean": float(np.mean(self.lengths)),
        }


def time_to_score(
    rows: Sequence[Mapping[str, float | int | str]], target: float
) -> dict[str, float] | None:
    """The first of these evaluations whose mean reaches a target, confirmed by the next one."""
    for row, following in pairwise(rows):
        if all(
            float(each["mean"]) >= target and int(each["episodes"]) >= MIN_EPISODES
            for each in (row, following)
        ):
            return {name: float(row[name]) for name in ("steps", "mean", "train_s", "wall_s")}
    return None


def evaluate(
    agent: Learner,
    *,
    episodes: int = 100,
    protocol: str = "noop",
    seed: int = 0,
    greedy: bool = False,
    num_envs: int = 0,
    env: AnyEnv | None = None,
    on_frames: Callable[[Tensor], None] | None = None,
    on_episodes: Callable[[int], None] | None = None,
) -> Evaluation:
    """Play whole episodes with an agent; training is not affected.

    Args:
        agent: The agent.
        episodes: Minimum number of episodes; rounded up to a multiple of the environments.
        protocol: One of `PROTOCOLS`.
        seed: Seed of environments and actions.
        greedy: Choose the best actions, instead of sampling from policies and following action
            values epsilon-greedily.
        num_envs: Environments, rounded up to a multiple of the games; 0: one per episode, up to
            128.
        env: Environments to use instead of those of the protocol.
        on_frames: Called with the newest frames ``[N, ...]`` after every step.
        on_episodes: Called again and again with the number of episodes that have ended.

    Returns:
        Scores and lengths of the episodes.

    Raises:
        InvalidArgumentError: Too few or too many episodes, a negative seed or number of
            environments, `greedy` that is not a bool, or a protocol that is unknown or does not fit
            the agent.
    """
    check_request(episodes, protocol)
    check_int("seed", seed, 0)
    check_int("num_envs", num_envs, 0)
    check_bool("greedy", greedy)
    own_env = env is None
    if env is None:
        if not getattr(agent.setup.env, "has_states", True):
            raise InvalidArgumentError(
                "env is None; agents of Gymnasium environments need environments to evaluate in"
            )
        count = num_envs or min(episodes, 128)
        env = make_eval_env(agent.config, protocol, count)
    env = as_frame_env(env)
    was_training = agent.network.training
    agent.network.eval()
    try:
        returns, lengths = _play(agent, env, episodes, seed, greedy, on_frames, on_episodes)
    finally:
        agent.network.train(was_training)
        if own_env:
            env.close()
    return Evaluation(returns, lengths, _game_of(agent.config), protocol)


def _game_of(config: AgentConfig) -> str:
    """The id of a game, or its name if cule does not know it; and the players if several."""
    try:
        name = game_id_of(config.game)
    except CuleError:
        name = config.game
    return name if config.num_players == 1 else f"{name} with {config.num_players} players"


def check_request(episodes: int, protocol: str) -> None:
    """Check arguments of `evaluate`."""
    check_int("episodes", episodes, MIN_EPISODES, MAX_EPISODES)
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise InvalidArgumentError(
            f"protocol is {shown(protocol)}; it must be one of {', '.join(PROTOCOLS)}"
        )


def check_protocol(config: AgentConfig, protocol: str) -> None:
    """Refuse a protocol that does not fit how an agent was trained.

    Raises:
        InvalidArgumentError: It is unknown; or it is ``machado``, and the agent plays with others
            or has fewer than 18 actions.
    """
    check_request(MIN_EPISODES, protocol)
    if protocol != "machado":
        return
    if config.num_players > 1:
        raise InvalidArgumentError(
            f"protocol is 'machado' and num_players {config.num_players}; it must be 1"
        )
    if config.full_action_space or config.continuous:
        return
    for name in config.game.split(","):
        spec = resolve(name.strip(), config.rom_path or None, config.rules or None)
        count = len(spec.rules.minimal_actions)
        if count < len(Action):
            raise InvalidArgumentError(
                f"protocol is 'machado' and the agent has {count} actions; it must have all "
                f"{len(Action)}, from training with full_action_space"
            )


def make_eval_env(
    config: AgentConfig, protocol: str, num_envs: int
) -> AtariVectorEnv | SelfPlayEnv:
    """Make the environments of a protocol, for an agent trained with a config.

    At least `num_envs`: a multiple of the games. With several players the opponents play at random.
    """
    seats = max(config.num_players // 2, 1)
    least = seats * (config.game.count(",") + 1)
    config = eval_config(config, protocol, -(-num_envs // least) * least)
    if config.num_players == 1:
        return make_env(config)
    games = make_games(config, seats)
    return SelfPlayEnv(games, RandomOpponent(len(games.action_set), games.config.device))


def eval_config(config: AgentConfig, protocol: str, num_envs: int) -> AgentConfig:
    """The options of the environments of a protocol, for an agent trained with a config."""
    check_protocol(config, protocol)
    starts = {"max_num_frames_per_episode": FRAME_CAP, **PROTOCOLS[protocol]}
    return dataclasses.replace(config, num_envs=num_envs, decorrelate_steps=0, **starts)


@torch.no_grad()
def _play(
    agent: Learner,
    env: FrameEnv,
    episodes: int,
    seed: int,
    greedy: bool,
    on_frames: Callable[[Tensor], None] | None,
    on_episodes: Callable[[int], None] | None,
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    each = -(-episodes // env.num_envs)
    generator = torch.Generator(device=agent.setup.device)
    generator.manual_seed(seed + EVALUATION_SEED)
    obs, _ = env.reset(seed=seed)
    continuous = agent.config.continuous
    stacks = make_stacks(env, obs, continuous=continuous, device=agent.setup.device)
    returns, lengths = torch.zeros(2, env.num_envs, each)
    finished = torch.zeros(env.num_envs, dtype=torch.int64)
    playing = torch.arange(env.num_envs, device=agent.setup.device)
    player = Player(agent, env.num_envs)
    for number in count(1):
        obs = stacks.observe()
        some = None if len(playing) == env.num_envs else playing
        seen = obs if some is None else obs[some]
        chosen = player.act(seen, generator, greedy=greedy, envs=some)
        # Environments that have finished play no-ops, for which no network is needed.
        actions = chosen.new_zeros((env.num_envs, *chosen.shape[1:]))
        actions[playing] = chosen
        step = env.step_frames(actions.to(agent.setup.env_device))
        stacks.append(actions, step)
        player.begin(step.first)
        if on_frames is not None:
            on_frames(step.frame)
        device = step.terminated.device  # of a user's environments, whatever their options say
        returns, lengths, finished = returns.to(device), lengths.to(device), finished.to(device)
        ended = (step.terminated | step.truncated) & (finished < each)
        place = finished.clamp(max=each - 1).unsqueeze(1)
        for table, value in ((returns, step.episode_return), (lengths, step.episode_length)):
            now = torch.where(ended, value.to(table.dtype), table.gather(1, place).squeeze(1))
            table.scatter_(1, place, now.unsqueeze(1))
        finished += ended
        if number % _STEPS_BETWEEN_READS.get(device.type, 1) == 0:
            playing = torch.nonzero(finished < each).flatten().to(agent.setup.device)
            if on_episodes is not None:
                on_episodes(int(finished.sum()))
            if not len(playing):
                break
    return tuple(returns.flatten().tolist()), tuple(map(int, lengths.flatten().tolist()))


# --- Modified games -------------------------------------------------------------------------------

#: Every modification of a game that changes what is played rather than how it is rewarded.
ALL = "all"


def modifications_to_play(config: AgentConfig, asked: str) -> dict[str, str | None]:
    """The option `modifications` of each evaluation, by its name; the first is the original.

    Args:
        config: Options of the agent's training.
        asked: `ALL`, or the modifications of one evaluation.

    Raises:
        InvalidArgumentError: A game has none of this name, or `ALL` is asked of several games.
        UnsupportedRomError, RulesError: As of `cule.games.modifications.modify_spec`.
    """
    if asked != ALL:
        rom_path = config.rom_path or None
        for game in map(str.strip, config.game.split(",")):
            if config.num_players > 1:
                spec = resolve_players(game, config.num_players, rom_path)
            else:
                spec = resolve(game, rom_path, config.rules or None)
            modify_spec(spec, modification_names(asked))
        return {ORIGINAL: None, asked: asked}
    if "," in config.game:
        raise InvalidArgumentError(
            f"modifications is {shown(asked)} and game {shown(config.game)}; it must be one game"
        )
    known = all_modifications(game_id_of(config.game)).values()
    names = [one.name for one in known if one.group != "reward"]
    return {ORIGINAL: None, **{name: name for name in names}}


def table_of_changes(results: Mapping[str, Evaluation]) -> str:
    """Mean scores in the original and in modified games, and the changes, as lines of text."""
    before = results[ORIGINAL]
    width = max(map(len, results))
    lines = [f"{'':<{width}} {'mean':>12} {'change':>12}  95 % interval"]
    for name, result in results.items():
        line = f"{name:<{width}} {result.mean:12.2f}"
        if name != ORIGINAL:
            change, low, high = mean_change(result.returns, before.returns)
            line += f" {change:+12.2f}  [{low:+.2f}, {high:+.2f}]"
            if before.mean:
                line += f"  {change / abs(before.mean):+.0%}"
        lines.append(line)
    return "\n".join(lines)
