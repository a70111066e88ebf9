"""Recorded traces of multi_agent_ale_py: the same exactness where only the ROMs are at hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cule
from cule.games import rom_status
from roms_tools import record_multiplayer
from roms_tools.record_multiplayer import CASES, SEED, STICKY, Frame, players_of

PATHS = {status.rom_id: status.path for status in rom_status()}
GOLDEN = json.loads(record_multiplayer.TARGET.read_text(encoding="utf-8"))


def test_every_case_has_a_trace() -> None:
    recorded = [(game, int(mode)) for game, modes in GOLDEN["traces"].items() for mode in modes]
    assert sorted(recorded) == sorted(CASES)


@pytest.mark.parametrize(("game", "mode"), CASES)
def test_trace(game: str, mode: int) -> None:
    if PATHS[game] is None:
        pytest.skip(f"no ROM of {game}")
    env = cule.MultiAgentVectorEnv(
        game,
        1,
        mode=mode,
        num_players=players_of(game, mode),
        frameskip=1,
        repeat_action_probability=STICKY,
        obs_type="ram",
        num_threads=1,
    )
    env.reset(seed=SEED)
    indices = {int(action): index for index, action in enumerate(env.action_set)}

    def step(actions: list[int]) -> Frame:
        chosen = np.array([[indices[action] for action in actions]])
        ram, reward, terminated, _, info = env.step(chosen)
        screen = env.screens("index")[0].tobytes()
        return Frame(ram[0].tobytes(), reward[0], info["lives"][0], terminated[0], screen)

    assert record_multiplayer.play(game, mode, step) == GOLDEN["traces"][game][str(mode)]
    env.close()
