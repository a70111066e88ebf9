"""The CUDA kernels of several players, run by the lockstep shim, equal the CPU back end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cule import _core
from cule.games import load_multiplayer
from tests.support.cases import long_except
from tests.support.kernels import Pair

pytestmark = pytest.mark.ale

GAMES = load_multiplayer()
PLAYERS = [(game, number) for game, facts in GAMES.items() for number in facts.modes]

OPTIONS: dict[str, dict[str, Any]] = {
    "same_step_short": {"autoreset_mode": "SameStep", "max_num_frames_per_episode": 10},
    "next_step_short": {"max_num_frames_per_episode": 10},
    "clipped": {"reward_clipping": True, "frameskip": 5},
    "rgb": {"grayscale": False, "stack_num": 2},
    "ram": {"obs_type": "ram"},
    "frameskip_1": {"frameskip": 1, "maxpool": False, "full_action_space": True},
    "noops": {"noop_max": 20},
    "action_delay": {"action_delay": [0, 1, 4, 9, 30], "max_num_frames_per_episode": 60},
    "modes": {"mode": [1, 3, 1, 3, 1]},
}


@pytest.mark.parametrize(("game", "number"), long_except(PLAYERS, every=6))
def test_games(game: str, number: int) -> None:
    pair = Pair(
        game,
        3,
        has_players=True,
        lanes=2 + number,
        num_players=number,
        num_reset_states=2,
        repeat_action_probability=0.25,
    )
    pair.run(30, seed=number)
    pair.close()


@pytest.mark.parametrize("name", long_except(OPTIONS, every=6))
def test_options(name: str) -> None:
    pair = Pair("joust", 5, has_players=True, lanes=4, **OPTIONS[name])
    pair.run(40)
    pair.close()


def test_ends_of_games_and_players_who_are_out() -> None:
    """Rewards, lives and returns of players, over the ends of several games."""
    options = {"autoreset_mode": "SameStep", "obs_type": "ram", "frameskip": 32}
    pair = Pair("wizard_of_wor", 4, has_players=True, lanes=4, **options)
    pair.reset(np.arange(4, dtype=np.int64))
    rng = np.random.default_rng(4)
    ended = paid = out = 0
    for _ in range(100):
        pair.step(pair.random_actions(rng))
        ints, flags = pair.expected.ints, pair.expected.flags
        lives = _core.INT_OF_PLAYERS + 2 * (_core.INT_LIVES - _core.INT_OF_PLAYERS)
        ended += int(flags[_core.FLAG_ENDED].sum())
        paid += int(np.abs(ints[_core.INT_REWARD : _core.INT_REWARD + 2]).sum())
        out += int((ints[lives : lives + 2] < 0).sum())
    assert ended
    assert paid
    assert out
    pair.compare_snapshots()
    pair.close()


def test_partial_reset_and_decorrelation() -> None:
    for mode in ("NextStep", "SameStep", "Disabled"):
        pair = Pair("pong", 5, has_players=True, lanes=2, num_players=4, autoreset_mode=mode)
        pair.reset(np.arange(5, dtype=np.int64))
        pair.decorrelate(20, 99)
        pair.compare_snapshots()
        seeds = np.array([-1, 7, -1, 8, -1], np.int64)
        pair.reset(seeds, np.array([True, True, False, True, False]))
        pair.compare_snapshots()
        pair.close()


def test_snapshots_move_between_back_ends() -> None:
    pair, other = (Pair("mario_bros", 3, has_players=True, lanes=lanes) for lanes in (3, 1))
    pair.run(20)
    other.reset(np.arange(3, dtype=np.int64))
    pair.copy_crosswise(other)


def test_live_numbers() -> None:
    pair = Pair("wizard_of_wor", 3, has_players=True)
    pair.run(12)
    assert np.array_equal(pair.kernels.ram().numpy(), pair.cpu.ram())
    assert np.array_equal(pair.kernels.lives().numpy(), pair.cpu.lives())
    assert pair.cpu.lives().shape == (3, 2)
    assert np.array_equal(pair.kernels.episode_frames().numpy(), pair.cpu.episode_frames())
    pair.close()
