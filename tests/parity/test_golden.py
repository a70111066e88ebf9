"""Recorded traces of ale-py: the same exactness where ale-py is not at hand, only ROMs."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cule
from cule.games import list_games, rom_status
from roms_tools import record_golden
from tests.support.cases import long_except

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


def make(game: str, num_envs: int = record_golden.NUM_ENVS, **options: Any) -> cule.AtariVectorEnv:
    resets = {"resets": "cached", "num_reset_states": 1}
    options = {"num_threads": 1, **resets, **record_golden.STEP_OPTIONS, **options}
    return cule.AtariVectorEnv(game, num_envs, **options)


@pytest.mark.parametrize("game", long_except(list_games(), every=3))
def test_steps(game: str) -> None:
    if PATHS[game] is None:
        pytest.skip(f"no ROM of {game}")
    assert record_golden.play_env(game, make(game)) == GOLDEN["traces"][game]["steps"]


class Split:
    """Batches of one environment, as one."""

    def __init__(self, game: str) -> None:
        self._parts = [make(game, 1) for _ in range(record_golden.NUM_ENVS)]
        self.single_action_space = self._parts[0].single_action_space

    def reset(self, *, seed: Any) -> tuple[Any, dict[str, Any]]:
        parts = zip(self._parts, seed, strict=True)
        return np.concatenate([env.reset(seed=int(one))[0] for env, one in parts]), {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        each = [env.step(actions[i : i + 1]) for i, env in enumerate(self._parts)]
        *results, infos = zip(*each, strict=True)
        lives = np.concatenate([info["lives"] for info in infos])
        return (*map(np.concatenate, results), {"lives": lives})

    def close(self) -> None:
        for env in self._parts:
            env.close()


def digest(game: str) -> str:
    """Of another process."""
    return record_golden.play_env(game, make(game))


def digest_of_a_process(game: str) -> str:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return str(pool.apply(digest, (game,)))


class OnHost:
    """A batch of a GPU, whose results are copied."""

    def __init__(self, env: cule.AtariVectorEnv) -> None:
        self._env = env
        self.single_action_space = env.single_action_space
        self.close = env.close

    def reset(self, *, seed: Any) -> tuple[Any, dict[str, Any]]:
        obs, _ = self._env.reset(seed=seed)
        return obs.cpu().numpy(), {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        *results, info = self._env.step(actions)
        host = [result.cpu().numpy() for result in results]
        return (*host, {"lives": info["lives"].cpu().numpy()})


def digest_of_kernels(game: str) -> str:
    """On a GPU, or the mock device."""
    from cule.device import unavailable_reason
    from tests.support.fake_cuda import fake_cuda

    is_real = unavailable_reason("cuda") is None
    with contextlib.nullcontext() if is_real else fake_cuda():
        return record_golden.play_env(game, OnHost(make(game, device="cuda", num_threads=0)))


#: Ways to take the same steps.
WAYS: dict[str, Callable[[str], str]] = {
    "threads": lambda game: record_golden.play_env(game, make(game, num_threads=3)),
    "split": lambda game: record_golden.play_env(game, Split(game)),
    "process": digest_of_a_process,
    "interpreter": lambda game: record_golden.play_env(game, make(game, kernel="interpreter")),
    "compiled": lambda game: record_golden.play_env(game, make(game, kernel="compiled")),
    "kernels": digest_of_kernels,
}

#: Of all kinds of cartridge, and with paddles and PAL.
SAMPLE = ("breakout", "klax", "montezuma_revenge", "pitfall2", "robotank", "video_checkers")
QUICK = ("montezuma_revenge",)


@pytest.mark.parametrize("way", long_except(WAYS, "threads", "split", "compiled"))
@pytest.mark.parametrize(
    "game",
    [
        pytest.param(g, marks=pytest.mark.long if g in SAMPLE else pytest.mark.slow)
        if g not in QUICK
        else g
        for g in list_games()
    ],
)
def test_every_way_takes_the_same_steps(game: str, way: str) -> None:
    if PATHS[game] is None:
        pytest.skip(f"no ROM of {game}")
    assert WAYS[way](game) == GOLDEN["traces"][game]["steps"]


@pytest.mark.ale
@pytest.mark.parametrize("game", long_except(["pong", "montezuma_revenge", "tetris"], "pong"))
def test_the_record_is_what_ale_py_does(game: str) -> None:
    import ale_py

    assert ale_py.__version__ == GOLDEN["ale_py"], f"run {record_golden.COMMAND}"
    assert record_golden.record(game) == GOLDEN["traces"][game]
