"""Write ``tests/golden/traces.json``: traces of ale-py for machines without it.

Run as ``python -m roms_tools.record_golden`` in the repository root, with ale-py installed. A trace
has two parts:

* A console plays `FRAMES` frames with random legal actions and sticky actions, with a reset at the
  end of a game. One digest is chained over RAM, reward, lives and game over of every frame, another
  over the screen of every `SCREEN_EVERY`-th frame.
* A batch of `NUM_ENVS` environments takes `NUM_STEPS` steps with random actions. A digest covers
  the results of every environment until its first episode ends, which every back end must give,
  because nothing after the reset is random.
"""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "golden" / "traces.json"
COMMAND = "python -m roms_tools.record_golden"

FRAMES = 400
SCREEN_EVERY = 20
SEED = 7
STICKY = 0.25

NUM_ENVS = 4
NUM_STEPS = 150
#: Options of the batch; others have ale-py's defaults. All environments have seed 0.
STEP_OPTIONS: dict[str, Any] = {"noop_max": 0, "use_fire_reset": False, "reward_clipping": False}

#: Observations, rewards, lives and ended episodes of a step, one row per environment.
Step = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def play(console: Any, game: str) -> dict[str, str]:
    """Play a console with the methods of ``ale_py.ALEInterface`` and a loaded ROM.

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


def play_steps(
    game: str, num_actions: int, obs: np.ndarray, step: Callable[[np.ndarray], Step]
) -> str:
    """Play a batch that has been reset with `STEP_OPTIONS`.

    Args:
        game: Its id.
        num_actions: Size of the game's minimal action set.
        obs: First observations, uint8 ``[NUM_ENVS, ...]``.
        step: Takes actions, int64 ``[NUM_ENVS]``.

    Returns:
        The digest.
    """
    rng = np.random.default_rng(zlib.crc32(game.encode()))
    digests = [hashlib.sha256(row.tobytes()) for row in obs]
    playing = set(range(NUM_ENVS))
    for _ in range(NUM_STEPS):
        obs, rewards, lives, ended = step(rng.integers(num_actions, size=NUM_ENVS))
        for i in sorted(playing):
            numbers = (int(rewards[i]), int(lives[i]), bool(ended[i]))
            digests[i].update(obs[i].tobytes() + repr(numbers).encode())
            if ended[i]:
                playing.remove(i)
    return hashlib.sha256(b"".join(digest.digest() for digest in digests)).hexdigest()[:32]


def play_env(game: str, env: Any) -> str:
    """`play_steps` of a vector environment with the interface of ale-py's."""
    obs, _ = env.reset(seed=np.zeros(NUM_ENVS, np.int64))

    def step(actions: np.ndarray) -> Step:
        obs, rewards, terminated, truncated, info = env.step(actions)
        return obs, rewards, info["lives"], terminated | truncated

    digest = play_steps(game, int(env.single_action_space.n), obs, step)
    env.close()
    return digest


def prepare(console: Any) -> Any:
    """Apply the settings of every trace, before a ROM is loaded."""
    console.setInt("random_seed", SEED)
    console.setFloat("repeat_action_probability", STICKY)
    return console


def record(game: str) -> dict[str, str]:
    """The trace of a game by ale-py."""
    import ale_py
    from ale_py import roms
    from ale_py.vector_env import AtariVectorEnv

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    console = prepare(ale_py.ALEInterface())
    console.loadROM(roms.get_rom_path(game))
    env = AtariVectorEnv(game, num_envs=NUM_ENVS, num_threads=1, **STEP_OPTIONS)
    return {**play(console, game), "steps": play_env(game, env)}


def main() -> None:
    """Record every single-player game of ale-py."""
    import ale_py

    from cule.games import list_games

    traces = {game: record(game) for game in list_games()}
    document = {"command": COMMAND, "ale_py": ale_py.__version__, "traces": traces}
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
