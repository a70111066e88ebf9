"""Write ``tests/golden/traces.json``: what ale-py does, for machines that do not have it.

Run as ``python -m roms_tools.record_golden`` in the repository root, with ale-py installed. A trace
is one game played for `FRAMES` frames with random legal actions and sticky actions, reset where it
ends: a digest, chained over every frame, of RAM, reward, lives and the end, and over every
`SCREEN_EVERY`-th frame of the screen.
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "golden" / "traces.json"
COMMAND = "python -m roms_tools.record_golden"

FRAMES = 400
SCREEN_EVERY = 20
SEED = 7
STICKY = 0.25


def play(console: Any, game: str) -> dict[str, str]:
    """Play a console with the methods of ``ale_py.ALEInterface`` that has loaded the game's ROM.

    Returns:
        ``frames`` and ``screens``, the two digests.
    """
    frames, screens = hashlib.sha256(), hashlib.sha256()
    rng = random.Random(game)
    actions = list(console.getLegalActionSet())
    for frame in range(FRAMES):
        if console.game_over():
            console.reset_game()
        reward = console.act(rng.choice(actions))
        numbers = (int(reward), int(console.lives()), int(console.game_over()))
        frames.update(bytes(console.getRAM()) + repr(numbers).encode())
        if frame % SCREEN_EVERY == 0:
            screens.update(console.getScreen().tobytes())
    return {"frames": frames.hexdigest()[:32], "screens": screens.hexdigest()[:32]}


def prepare(console: Any) -> Any:
    """The settings of every trace; call before loading a ROM."""
    console.setInt("random_seed", SEED)
    console.setFloat("repeat_action_probability", STICKY)
    return console


def record(game: str) -> dict[str, str]:
    """The trace of a game, by ale-py."""
    import ale_py
    from ale_py import roms

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    console = prepare(ale_py.ALEInterface())
    console.loadROM(roms.get_rom_path(game))
    return play(console, game)


def main() -> None:
    """Record every game that ale-py has a single-player ROM of."""
    import ale_py

    from cule.games import list_games

    traces = {game: record(game) for game in list_games()}
    document = {"command": COMMAND, "ale_py": ale_py.__version__, "traces": traces}
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
