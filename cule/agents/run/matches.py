"""Matches between policies: games of several players that an agent plays against an opponent."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist, fmean
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cule.agents.parts.envs import make_games
from cule.agents.run.evaluation import check_request, eval_config, evaluate
from cule.agents.run.presets import load_opponent
from cule.agents.self_play import Opponent, RandomOpponent, SelfPlayEnv
from cule.errors import InvalidArgumentError, shown
from cule.replay.options import check_int

if TYPE_CHECKING:
    from cule.agents.parts.config import AgentConfig
    from cule.agents.parts.learner import Learner
    from cule.agents.run.checkpoint import PolicyState
    from cule.envs import MultiAgentVectorEnv


@dataclass(frozen=True)
class Matches:
    """Results of matches, from the side of the agent."""

    margins: tuple[float, ...]
    """Score of the agent's side less that of the other side, of each match."""

    lengths: tuple[int, ...]
    """Agent steps of each match."""

    @property
    def wins(self) -> int:
        """Matches with a positive margin."""
        return sum(margin > 0 for margin in self.margins)

    @property
    def losses(self) -> int:
        """Matches with a negative margin."""
        return sum(margin < 0 for margin in self.margins)

    @property
    def draws(self) -> int:
        """Matches with a margin of 0."""
        return len(self.margins) - self.wins - self.losses

    @property
    def win_rate(self) -> float:
        """Fraction of matches won, where a draw is half a win."""
        return (self.wins + self.draws / 2) / len(self.margins)

    def win_rate_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's score interval of the win rate (Wilson 1927; Brown, Cai and DasGupta 2001)."""
        n, z = len(self.margins), NormalDist().inv_cdf((1 + confidence) / 2)
        middle = (self.win_rate + z * z / (2 * n)) / (1 + z * z / n)
        spread = self.win_rate * (1 - self.win_rate) / n + (z / (2 * n)) ** 2
        half = z / (1 + z * z / n) * math.sqrt(spread)
        return max(middle - half, 0.0), min(middle + half, 1.0)

    def row(self) -> dict[str, float | int]:
        """The results as a row of a table."""
        low, high = self.win_rate_interval()
        return {
            "matches": len(self.margins),
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "win_rate": self.win_rate,
            "win_rate_low": low,
            "win_rate_high": high,
            "margin_mean": fmean(self.margins),
            "length_mean": fmean(self.lengths),
        }


def seats_with_opponent(config: AgentConfig) -> int:
    """Seats of the policy in each game, if an opponent has the others.

    Raises:
        InvalidArgumentError: It plays alone.
    """
    if config.num_players == 1:
        raise InvalidArgumentError(
            f"num_players is 1; with an opponent it must be 2 or 4 ({shown(config.game)})"
        )
    return config.num_players // 2


def find_opponent(
    versus: PolicyState | None, games: MultiAgentVectorEnv, device: str, *, greedy: bool = False
) -> Opponent:
    """An opponent from a checkpoint, or one that plays at random."""
    if not isinstance(versus, Mapping | None):
        raise InvalidArgumentError(
            f"versus is {shown(versus)}; it must be the content of a checkpoint, or None"
        )
    if versus is None:
        return RandomOpponent(len(games.action_set), games.config.device)
    agent = load_opponent(versus, games, device)
    act = functools.partial(agent.act, greedy=True)
    greedy_agent: Any = SimpleNamespace(device=agent.device, act=act)
    return greedy_agent if greedy else agent


def play_matches(
    agent: Learner,
    versus: PolicyState | None,
    *,
    matches: int = 100,
    protocol: str = "noop",
    seed: int = 0,
    greedy: bool = False,
    num_games: int = 0,
) -> Matches:
    """Play matches, in half of which the agent has the even seats, and in half the odd ones.

    Args:
        agent: The agent, of a game with several players.
        versus: The checkpoint of the opponent; None: it plays at random.
        matches: Minimum number of matches; rounded up to a multiple of the games.
        protocol: One of `PROTOCOLS`.
        seed: Seed of games and actions.
        greedy: Both choose their best actions.
        num_games: Games at a time, an even number; 0: one per match, up to 128.

    Raises:
        InvalidArgumentError: The agent plays alone, there are fewer than 10 matches, or the number
            of games is odd.
        CheckpointError: The opponent does not fit the games.
    """
    check_request(matches, protocol)
    check_int("num_envs", num_games, 0)
    count = num_games or min(matches + matches % 2, 128)
    if count % 2:
        raise InvalidArgumentError(
            f"num_envs is {count}; for matches it must be even, so that both sides are played "
            "equally often"
        )
    seats = seats_with_opponent(agent.config)
    games = make_games(eval_config(agent.config, protocol, count * seats), seats)
    try:
        opponent = find_opponent(versus, games, str(agent.setup.device), greedy=greedy)
        result = evaluate(
            agent,
            episodes=-(-matches // count) * count * seats,
            protocol=protocol,
            seed=seed,
            greedy=greedy,
            env=SelfPlayEnv(games, opponent, counts_margin=True),
        )
    finally:
        games.close()
    # The seats of a side have one result: take that of the first.
    each = len(result.returns) // (count * seats)
    first = [i for i in range(len(result.returns)) if i // each % seats == 0]
    return Matches(tuple(result.returns[i] for i in first), tuple(result.lengths[i] for i in first))


def make_opposed_env(config: AgentConfig, versus: PolicyState | None) -> SelfPlayEnv:
    """Environments of a config in which a checkpoint, or None at random, plays every second seat.

    Raises:
        InvalidArgumentError: The policy plays alone, or was trained for another game.
        CheckpointError: It does not fit the games.
    """
    games = make_games(config, seats_with_opponent(config))
    try:
        return SelfPlayEnv(games, find_opponent(versus, games, config.device))
    except BaseException:
        games.close()
        raise
