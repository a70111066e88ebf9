"""Games as kernels of their own (csrc/rom_kernel/source.hpp) equal the CPU back end under the shim.

g++ compiles each game's source in place of the device's compiler. All results are compared after
every step, and snapshots at intervals. The CPU back end equals ale-py (tests/parity); the recorded
traces of ale-py are compared here as well.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.sass.module import read_sections
from cule.envs import translation
from cule.envs.nvrtc import choose_toolkit, find_toolkits
from cule.errors import DeviceError, InvalidArgumentError
from cule.games import load_games
from tests.support.cases import long_except
from tests.support.kernels import (
    InstructionCounts,
    Pair,
    assert_golden,
    build_program,
    loadable,
    pop_instruction_counts,
)

pytestmark = pytest.mark.ale

ALL_GAMES = sorted(load_games())

#: Every cartridge family; programs that call with BRK, that run code in RAM, and that read latches
#: in the middle of a frame, also through an index. Lanes that share a warp with others are helped
#: to render, or with more than eight render together, each its own log.
CASES = [
    ("pong", 6, 8),
    ("montezuma_revenge", 4, 4),  # E0
    ("robotank", 3, 32),  # FE
    ("elevator_action", 3, 2),  # F8SC
    ("riverraid", 6, 4),
    ("riverraid", 9, 16),
    ("demon_attack", 9, 16),
    ("seaquest", 5, 2),
    ("up_n_down", 4, 16),  # F8, code in RAM
]

#: Most of what these games execute must be translated, or the test shows nothing.
MOST_SLOW = 0.2


def run(game: str, num_envs: int, lanes: int, steps: int, **keywords: object) -> InstructionCounts:
    """Step both and compare; what the game's own kernel executed."""
    pair = Pair(game, num_envs, lanes=lanes, is_compiled=True, **keywords)
    assert pair.program is not None
    pop_instruction_counts(pair.program)
    pair.run(steps, seed=num_envs)
    pair.close()
    return pop_instruction_counts(pair.program)


@pytest.mark.parametrize(
    ("game", "num_envs", "lanes"), long_except(CASES, ("pong", 6, 8), ("riverraid", 9, 16))
)
def test_games(game: str, num_envs: int, lanes: int) -> None:
    counts = run(game, num_envs, lanes, 60)
    assert counts.instructions > 0
    assert counts.slow <= MOST_SLOW * counts.instructions
    assert_golden(game, lanes=lanes, is_compiled=True)


def test_modified_games() -> None:
    names = [None, "shaking_enemy", "fast_ball, player_x"] * 2
    counts = run("pong", 6, 8, 60, modifications=names, action_delay=[0, 1, 7, 0, 4, 2])
    assert counts.slow <= MOST_SLOW * counts.instructions


@pytest.mark.long
def test_a_changed_cartridge() -> None:
    counts = run("freeway", 5, 4, 100, modifications="people, random_delay | original")
    assert counts.slow <= MOST_SLOW * counts.instructions


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("game", ALL_GAMES)
def test_every_game(game: str, lanes: int) -> None:
    counts = run(game, lanes + 2, lanes, 200)
    assert counts.slow < counts.instructions
    assert_golden(game, lanes=lanes, is_compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("game", [game for game, g in load_games().items() if len(g.modes) > 1])
def test_every_mode(game: str) -> None:
    for mode in load_games()[game].modes:
        counts = run(game, 3, 4, 40, mode=mode, num_reset_states=1)
        # In some modes the game is over as it begins, and nothing runs.
        assert counts.slow < counts.instructions or not counts.instructions


@pytest.mark.long
def test_what_is_executed_less_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("seaquest", 5, 4, 60)
    monkeypatch.setattr(translation, "MOST_INSTRUCTIONS", 300)
    part = run("seaquest", 5, 4, 60)
    assert whole.slow < 1e-3 * whole.instructions
    assert 0.01 * part.instructions < part.slow < 0.5 * part.instructions


@pytest.mark.long
def test_a_lane_with_a_warp_to_itself() -> None:
    pair = Pair("ms_pacman", 3, lanes=1, is_compiled=True)
    pair.run(100)
    pair.close()


def test_a_new_kernel_takes_over_between_steps() -> None:
    """The consoles continue as before."""
    pair = Pair("pong", 5, lanes=4)
    pair.run(10)
    pair.kernels.load_program(loadable(build_program(pair.plan.games[0])))
    rng = np.random.default_rng(3)
    for _ in range(20):
        pair.step(pair.random_actions(rng))
    pair.compare_snapshots()
    pair.close()


def test_only_a_batch_of_one_game_has_a_kernel_of_its_own() -> None:
    pair = Pair([("pong", 2), ("breakout", 2)], 4, lanes=2)
    with pytest.raises(InvalidArgumentError, match="a batch of 2 games"):
        pair.kernels.load_program(b"nowhere")
    pair.close()


def test_what_is_no_module_is_refused() -> None:
    pair = Pair("pong", 2, lanes=2)
    with pytest.raises(DeviceError, match="compiled kernel"):
        pair.kernels.load_program(b"no machine code")
    pair.run(3)
    pair.close()


def test_batches_of_a_game_share_its_module() -> None:
    def loaded() -> int:
        return pop_instruction_counts().modules

    before = loaded()
    first = Pair("pong", 2, lanes=2, is_compiled=True)
    second = Pair("pong", 3, lanes=2, is_compiled=True)
    assert loaded() == before + 1
    other = Pair("pong", 2, lanes=2)
    game = other.plan.games[0]
    other.kernels.load_program(loadable(build_program(game, most=100)))
    assert loaded() == before + 2
    with pytest.raises(DeviceError):
        other.kernels.load_program(b"no machine code")
    assert loaded() == before + 2
    # A graph may hold the kernel that another one follows.
    other.kernels.load_program(loadable(build_program(game, most=50)))
    assert loaded() == before + 3
    first.close()
    second.run(3)
    assert loaded() == before + 3
    second.close()
    assert loaded() == before + 2
    other.close()
    assert loaded() == before


def test_nvrtc_compiles_and_links_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a GPU; this shows that there is one, not that it runs."""
    monkeypatch.setenv("CULE_CACHE", str(tmp_path))
    kit = choose_toolkit(find_toolkits(), None, None)
    if kit is None or kit.linker is None:
        pytest.skip("no NVRTC, or no nvJitLink")
    monkeypatch.setattr(translation, "toolkit", lambda: kit)
    monkeypatch.setattr(translation, "MOST_INSTRUCTIONS", 120)
    monkeypatch.setattr(translation, "FIRST_INSTRUCTIONS", 40)
    pair = Pair("pong", 1)
    wanted = translation.Wanted(pair.plan.games[0], 1, 90)
    first: list[bytes] = []
    whole = wanted.compile(first.append)
    for code in (*first, whole):
        sections = dict(read_sections(code))
        assert ".text.cule_step" in sections
        assert ".text.cule_run_program" in sections
    assert len(first[0]) < len(whole)
    shared = list(tmp_path.iterdir())
    assert [path.name.partition("-sm")[0] for path in shared] == ["all-games"]
    before = shared[0].stat().st_mtime_ns
    assert wanted.compile() == whole
    assert shared[0].stat().st_mtime_ns == before
    pair.close()
