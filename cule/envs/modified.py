"""The games of a batch with the modifications of its environments.

In: `EnvOptions.modifications`, and the game of each environment. Out: `ModifiedGames`. Environments
whose modifications change the same bytes share a game; programs are compiled for each game, and an
environment has the number of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cule.envs.options import modification_names
from cule.games import GameSpec
from cule.games.modifications import compile_modifications, modify_spec


class ModifiedGames(NamedTuple):
    """Cartridges of a batch, and which one and which programs an environment has."""

    specs: list[GameSpec]
    words: list[list[int]]  # compiled programs of each; empty: there are none
    game_index: NDArray[np.int32]  # [N], which of specs
    numbers: NDArray[np.int32]  # [N], of the first among those compiled for it; 0: none
    counts: NDArray[np.int32]  # [N], from that one on; each episode draws one


def modify_games(
    asked: str | Sequence[str | Sequence[str] | None],
    specs: list[GameSpec],
    game_index: NDArray[np.int32],
) -> ModifiedGames:
    """Change cartridges and compile programs.

    Args:
        asked: The option `modifications`.
        specs: The games of a batch.
        game_index: Which of them each environment has, int32 ``[N]``, ascending.

    Raises:
        InvalidArgumentError: A modification is wrong, or some do not fit together.
        UnsupportedRomError: A ROM has other bytes than a modification expects.
        RulesError: A file of modifications cannot be read, or is wrong.
    """
    numbers, counts = np.zeros_like(game_index), np.ones_like(game_index)
    names = _names_of_each(asked, len(game_index))
    modified: list[GameSpec] = []
    programs: list[list[tuple[str, ...]]] = []
    place_of: dict[tuple[int, bytes], int] = {}  # in modified, by game and ROM
    kinds: dict[tuple[int, tuple[str, ...]], tuple[int, int, int]] = {}
    index = np.empty_like(game_index)
    for env, kind in enumerate(zip(game_index.tolist(), names, strict=True)):
        if kind not in kinds:
            game, own = kind
            spec, episodes = modify_spec(specs[game], own)
            place = place_of.setdefault((game, spec.rom), len(modified))
            if place == len(modified):
                modified.append(spec)
                programs.append([])
            first = len(programs[place]) + 1
            kinds[kind] = (place, first, len(episodes)) if any(episodes) else (place, 0, 1)
            programs[place] += episodes if any(episodes) else []
        index[env], numbers[env], counts[env] = kinds[kind]
    words = [
        list(compile_modifications(spec.game_id, texts)) if texts else []
        for spec, texts in zip(modified, programs, strict=True)
    ]
    return ModifiedGames(modified, words, index, numbers, counts)


def _names_of_each(
    asked: str | Sequence[str | Sequence[str] | None], num_envs: int
) -> list[tuple[str, ...]]:
    """The modifications of each environment."""
    if isinstance(asked[0], str):
        return [modification_names(asked)] * num_envs
    return [modification_names(own) for own in asked]
