"""Write ``tests/golden/multiplayer.json``: traces of multi_agent_ale_py for machines without it.

Run as ``python -m roms_tools.record_multiplayer`` in the repository root, with ale-py and
multi_agent_ale_py installed. In the first and the last mode of each game and number of players a
console plays `FRAMES` frames with random actions of all players and sticky actions, with a reset at
the end of a game. A digest is chained over RAM, rewards, lives and game over of every frame, and
the screen of every `SCREEN_EVERY`-th frame.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from cule.games import find_rom, load_multiplayer

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "golden" / "multiplayer.json"
COMMAND = "python -m roms_tools.record_multiplayer"
PACKAGE = "multi-agent-ale-py"

FRAMES = 200
SCREEN_EVERY = 20
SEED = 7
STICKY = 0.25

CASES = tuple(
    (game, mode)
    for game, facts in load_multiplayer().items()
    for modes in facts.modes.values()
    for mode in dict.fromkeys((modes[0], modes[-1]))
)


class Frame(NamedTuple):
    """State that a console shows after a frame."""

    ram: bytes
    rewards: Sequence[int]
    lives: Sequence[int]
    is_over: bool
    screen: bytes  # colour register values


def players_of(game: str, mode: int) -> int:
    """The number of players of a mode."""
    modes = load_multiplayer()[game].modes
    return next(number for number, allowed in modes.items() if mode in allowed)


def play(game: str, mode: int, step: Callable[[list[int]], Frame]) -> str:
    """Play a console that has been reset.

    Args:
        game: Its id.
        mode: One of its modes.
        step: Plays a frame with these actions of the minimal action set; after the end of a game,
            resets instead.

    Returns:
        The digest.
    """
    digest = hashlib.sha256()
    rng = random.Random(f"{game} {mode}")
    actions = load_multiplayer()[game].rules.minimal_actions
    for number in range(FRAMES):
        chosen = [rng.choice(actions) for _ in range(players_of(game, mode))]
        frame = step(chosen)
        numbers = ([*map(int, frame.rewards)], [*map(int, frame.lives)], bool(frame.is_over))
        digest.update(frame.ram + repr(numbers).encode())
        if number % SCREEN_EVERY == 0:
            digest.update(frame.screen)
    return digest.hexdigest()[:32]


def record(game: str, mode: int) -> str:
    """The digest of multi_agent_ale_py."""
    from multi_agent_ale_py import ALEInterface

    ALEInterface.setLoggerMode("error")
    ale = ALEInterface()
    ale.setInt("random_seed", SEED)
    ale.setFloat("repeat_action_probability", STICKY)
    ale.setInt("frame_skip", 1)
    ale.loadROM(str(find_rom(game, load_multiplayer()[game].rules.md5).path))
    ale.setMode(mode)
    ale.reset_game()

    def step(actions: list[int]) -> Frame:
        if ale.game_over():
            ale.reset_game()
            rewards = [0] * len(actions)
        else:
            rewards = ale.act(actions)
        ram, screen = bytes(ale.getRAM()), ale.getScreen().tobytes()
        return Frame(ram, rewards, ale.allLives(), ale.game_over(), screen)

    return play(game, mode, step)


def main() -> None:
    """Record the cases."""
    traces: dict[str, dict[str, str]] = {}
    for game, mode in CASES:
        traces.setdefault(game, {})[str(mode)] = record(game, mode)
    document = {"command": COMMAND, PACKAGE: version(PACKAGE), "traces": traces}
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
