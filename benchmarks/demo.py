"""The demonstration of `make demo`: batched stepping of eight games, compared with ale-py.

`cule bench` with few environments: emulated frames per second of cule, ale-py and, if installed,
EnvPool for each game, measured in interleaved rounds. It fails if cule and ale-py return different
observations, rewards or flags at any step. Then some steps of all games in one batch, and a picture
of the environments, a column for each game.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import cule
from cule.bench.games import DEFAULT_GAMES
from cule.envs.png import encode_png

NUM_ENVS = 4
BENCH = (
    f"bench --engines cule-cpu,ale,envpool --load emulation --num-envs {NUM_ENVS} --rounds 3 "
    "--round-steps 20 --seconds 0 --minutes 0 --no-memory --out"
)

#: Steps before the picture.
SHOWN_STEPS = 68
FOLDER = Path("build", "demo")


def picture() -> bytes:
    """A PNG file: screens of a batch of all games under random play."""
    pairs = [(game, NUM_ENVS) for game in DEFAULT_GAMES]
    env = cule.AtariVectorEnv(
        pairs, NUM_ENVS * len(pairs), full_action_space=True, render_mode="rgb_array"
    )
    with env:
        env.reset(seed=0)
        rng = np.random.default_rng(0)
        for _ in range(SHOWN_STEPS):
            env.step(rng.integers(len(env.action_set), size=env.num_envs))
        screens = env.render()
    assert screens is not None
    height = max(map(len, screens))
    filled = [np.pad(screen, ((0, height - len(screen)), (0, 0), (0, 0))) for screen in screens]
    columns = [np.vstack(filled[k : k + NUM_ENVS]) for k in range(0, len(filled), NUM_ENVS)]
    return encode_png(np.hstack(columns))


def main() -> int:
    """Run the demonstration; return the exit status."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    command = [sys.executable, "-m", "cule.cli", *BENCH.split(), str(FOLDER)]
    status = subprocess.run(command).returncode
    if status == 0:
        path = FOLDER / "environments.png"
        path.write_bytes(picture())
        print(f"frames of {NUM_ENVS} environments per game: {path.resolve()}")
    return status


if __name__ == "__main__":
    sys.exit(main())
