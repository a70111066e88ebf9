"""Play action histories that ale-py recorded on a batch, and compare the RAM after every step.

Needs ale-py. The same works for histories of your own experiments, demonstrations and datasets, as
long as they begin at a reset and you know the settings.

python examples/ale_py_histories.py --num-envs 64 --steps 2000
"""

from __future__ import annotations

import argparse
from pathlib import Path

import ale_py
import numpy as np

import cule


def record(rom: Path, seed: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Random play with ale-py, up to game over: actions ``[T]`` and RAM ``[T + 1, 128]``."""
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", seed)
    ale.setInt("frame_skip", 4)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(rom)
    rng = np.random.default_rng(seed)
    actions: list[int] = []
    ram = [ale.getRAM()]
    while len(actions) < steps and not ale.game_over():
        actions.append(int(rng.integers(18)))
        ale.act(actions[-1])
        ram.append(ale.getRAM())
    return np.array(actions), np.array(ram)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--game", default="space_invaders")
parser.add_argument("--num-envs", type=int, default=16)
parser.add_argument("--steps", type=int, default=500)
args = parser.parse_args()

ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
rom = cule.roms.get_rom_path(args.game)
assert rom is not None, "cule roms list says which games are found"
histories = [record(rom, seed, args.steps) for seed in range(args.num_envs)]
lengths = np.array([len(actions) for actions, _ in histories])

# As the console of ALEInterface: all 18 actions, nothing after the reset.
env = cule.AtariVectorEnv(
    args.game,
    args.num_envs,
    frameskip=4,
    full_action_space=True,
    noop_max=0,
    use_fire_reset=False,
)
env.reset(seed=np.arange(args.num_envs))
actions = np.zeros((lengths.max(), args.num_envs), np.int64)  # no-ops after the end
for i, (history, _) in enumerate(histories):
    actions[: len(history), i] = history
compared = 0
for t in range(len(actions) + 1):
    if t > 0:
        env.step(actions[t - 1])
    for i in np.flatnonzero(t <= lengths).tolist():
        if not (env.ram[i] == histories[i][1][t]).all():
            raise SystemExit(f"history {i}: the RAM differs after step {t}")
        compared += 1
print(f"{args.num_envs} histories, {lengths.min()} to {lengths.max()} steps: RAM equal to")
print(f"ale-py {ale_py.__version__} in all {compared:,} comparisons")
env.close()
