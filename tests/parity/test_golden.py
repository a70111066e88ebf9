"""Recorded traces of ale-py: the same exactness where ale-py is not at hand, only ROMs."""

from __future__ import annotations

import json

import pytest

import cule
from cule.games import list_games, rom_status
from roms_tools import record_golden

PATHS = {status.rom_id: status.path for status in rom_status()}
GOLDEN = json.loads(record_golden.TARGET.read_text(encoding="utf-8"))


def test_every_game_has_a_trace() -> None:
    assert sorted(GOLDEN["traces"]) == sorted(list_games())


@pytest.mark.parametrize("game", list_games())
def test_trace(game: str) -> None:
    console = record_golden.prepare(cule.ALEInterface())
    path = PATHS[game]
    if path is None:
        pytest.skip(f"no ROM of {game}")
    console.loadROM(path)
    trace = GOLDEN["traces"][game]
    expected = {part: trace[part] for part in ("frames", "screens")}
    assert record_golden.play(console, game) == expected


@pytest.mark.parametrize("game", list_games())
def test_steps(game: str) -> None:
    if PATHS[game] is None:
        pytest.skip(f"no ROM of {game}")
    resets = {"resets": "cached", "num_reset_states": 1}
    env = cule.AtariVectorEnv(
        game, record_golden.NUM_ENVS, num_threads=1, **resets, **record_golden.STEP_OPTIONS
    )
    assert record_golden.play_env(game, env) == GOLDEN["traces"][game]["steps"]


@pytest.mark.ale
@pytest.mark.parametrize("game", ["pong", "montezuma_revenge", "tetris"])
def test_the_record_is_what_ale_py_does(game: str) -> None:
    import ale_py

    assert ale_py.__version__ == GOLDEN["ale_py"], f"run {record_golden.COMMAND}"
    assert record_golden.record(game) == GOLDEN["traces"][game]
