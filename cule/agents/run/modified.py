"""Evaluations in modified games: which ones, and how the scores change."""

from __future__ import annotations

from collections.abc import Mapping

from cule.agents.parts.config import AgentConfig
from cule.agents.run.evaluation import Evaluation
from cule.agents.run.scores import mean_change
from cule.errors import InvalidArgumentError, shown
from cule.games import game_id_of
from cule.games.modifications import ORIGINAL, all_modifications

#: Every modification of a game that changes what is played rather than how it is rewarded.
ALL = "all"


def modifications_to_play(config: AgentConfig, asked: str) -> dict[str, str | None]:
    """The option `modifications` of each evaluation, by its name; the first is the original.

    Args:
        config: Options of the agent's training.
        asked: `ALL`, or the modifications of one evaluation.
    """
    if asked != ALL:
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
