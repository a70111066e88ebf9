"""Write ``tests/golden/snapshots.json``: snapshots that later builds of cule must restore.

Run as ``python -m roms_tools.record_snapshots`` in the repository root, and only when the version
of the snapshot format has changed (docs/snapshots.md). A case has the rows of `get_state` or the
bytes of `ALEState.serialize`, compressed, in base 64, and the digest of what followed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cule
from cule.games import rom_status

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "golden" / "snapshots.json"
COMMAND = "python -m roms_tools.record_snapshots"

NUM_ENVS = 2
STEPS_BEFORE = 40
STEPS_AFTER = 60
STICKY = 0.25

Make = Callable[[], Any]
_COMMON: dict[str, Any] = {"num_threads": 1, "repeat_action_probability": STICKY}

#: Environments by the name of their case.
CASES: dict[str, Make] = {
    "exact": lambda: cule.AtariVectorEnv("pong", NUM_ENVS, resets="exact", **_COMMON),
    "cached": lambda: cule.AtariVectorEnv("seaquest", NUM_ENVS, resets="cached", **_COMMON),
    "ram": lambda: cule.AtariVectorEnv("montezuma_revenge", NUM_ENVS, obs_type="ram", **_COMMON),
    "rgb": lambda: cule.AtariVectorEnv(
        "pitfall2", NUM_ENVS, grayscale=False, stack_num=2, img_height=42, img_width=42, **_COMMON
    ),
    "players": lambda: cule.MultiAgentVectorEnv("joust", NUM_ENVS, **_COMMON),
}


def play(env: Any, seed: int, steps: int) -> str:
    """Step a vector environment with random actions; the digest of all its results."""
    rng = np.random.default_rng(seed)
    digest = hashlib.sha256()
    for _ in range(steps):
        actions = rng.integers(len(env.action_set), size=env.action_space.shape)
        obs, reward, terminated, truncated, info = env.step(actions)
        for array in (obs, reward, terminated, truncated, info["lives"]):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def play_console(console: Any, steps: int) -> str:
    """Play FIRE, left and right in turn; the digest of RAM and rewards."""
    digest = hashlib.sha256()
    for step in range(steps):
        reward = console.act((1, 3, 4)[step // 4 % 3])
        digest.update(bytes(console.getRAM()) + repr(int(reward)).encode())
    return digest.hexdigest()


def load_console() -> cule.ALEInterface:
    """A console with Breakout."""
    console = cule.ALEInterface()
    console.setInt("random_seed", 1)
    console.setFloat("repeat_action_probability", STICKY)
    path = next(status.path for status in rom_status() if status.rom_id == "breakout")
    if path is None:
        raise FileNotFoundError("no ROM of breakout")
    console.loadROM(path)
    return console


def pack(state: bytes) -> str:
    """A state as text."""
    return base64.b64encode(zlib.compress(state, 9)).decode()


def unpack(text: str) -> bytes:
    """The state that `pack` was given."""
    return zlib.decompress(base64.b64decode(text))


def main() -> None:
    """Record every case."""
    cases: dict[str, dict[str, str]] = {}
    for name, make in CASES.items():
        env = make()
        env.reset(seed=1)
        play(env, 1, STEPS_BEFORE)
        state = pack(env.get_state().tobytes())
        cases[name] = {"state": state, "digest": play(env, 2, STEPS_AFTER)}
        env.close()
    console = load_console()
    play_console(console, STEPS_BEFORE)
    state = pack(console.cloneState(include_rng=True).serialize())
    cases["console"] = {"state": state, "digest": play_console(console, STEPS_AFTER)}
    document = {"command": COMMAND, "cases": cases}
    TARGET.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
