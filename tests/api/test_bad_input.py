"""Bad input is refused by name, as a `CuleError` and as the built-in kind, and nothing moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import cule
from cule.envs.actions import FEW, continuous_actions, discrete_actions
from cule.envs.errors import ActionRangeError, ActionShapeError
from cule.envs.requests import as_states
from cule.errors import (
    ClosedError,
    CuleError,
    InvalidArgumentError,
    InvalidStateError,
    NotResetError,
    RomNotFoundError,
    UnknownGameError,
    UnsupportedRomError,
)
from cule.wrappers.options import SINGLE, with_fixed
from tests.support.api import MakeEnv, actions_for, rom_path

pytestmark = pytest.mark.ale


# --- Games and ROMs --------------------------------------------------------------------------


@pytest.mark.parametrize(("game", "near"), [("pongg", "pong"), ("mspacmann", "ms_pacman")])
def test_unknown_game_names_near_matches(game: str, near: str) -> None:
    with pytest.raises(UnknownGameError, match=f"{game}.*{near}") as caught:
        cule.AtariVectorEnv(game, 1)
    assert isinstance(caught.value, ValueError)


def test_missing_rom(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        cule.AtariVectorEnv("pong", 1, rom_path=tmp_path / "pong.bin")
    assert isinstance(caught.value, RomNotFoundError)
    with pytest.raises(RomNotFoundError):
        cule.ALEInterface().loadROM(tmp_path / "pong.bin")
    with pytest.raises(RomNotFoundError):
        cule.ALEInterface().loadROM(tmp_path)


def test_wrong_bytes(tmp_path: Path) -> None:
    file = tmp_path / "unheard_of.bin"
    file.write_bytes(bytes(range(256)) * 16)
    for load in (lambda: cule.AtariVectorEnv("pong", 1, rom_path=file), lambda: load_rom(file)):
        with pytest.raises(UnsupportedRomError, match="unheard_of"):
            load()


def test_truncated_file(tmp_path: Path) -> None:
    whole = Path(rom_path("pong")).read_bytes()
    for size in (0, 1, 100, len(whole) - 1):
        file = tmp_path / "pong.bin"
        file.write_bytes(whole[:size])
        with pytest.raises(UnsupportedRomError, match=r"pong\.bin"):
            cule.AtariVectorEnv("pong", 1, rom_path=file)
        with pytest.raises(UnsupportedRomError, match=r"pong\.bin"):
            load_rom(file)


def load_rom(file: Path) -> None:
    """Load a ROM into a new interface."""
    cule.ALEInterface().loadROM(file)


# --- Keywords --------------------------------------------------------------------------------


@pytest.mark.parametrize("frameskip", [0, -1, "a", (2, 5), 2.5, None, True])
def test_frameskip_is_refused_as_in_ale_py(frameskip: Any) -> None:
    from ale_py.vector_env import AtariVectorEnv

    for make in (AtariVectorEnv, cule.AtariVectorEnv):
        with pytest.raises(gymnasium.error.Error, match="frameskip") as caught:
            make("pong", num_envs=1, frameskip=frameskip)
    assert isinstance(caught.value, ValueError)


def test_partial_reset_of_a_batch_is_refused_as_in_ale_py() -> None:
    from ale_py.vector_env import AtariVectorEnv

    for make in (AtariVectorEnv, cule.AtariVectorEnv):
        env = make("pong", num_envs=4, batch_size=2)
        env.reset(seed=0)
        with pytest.raises(ValueError, match="batch_size < num_envs"):
            env.reset(options={"reset_mask": np.array([True, False, False, False])})
        env.close()


@pytest.mark.parametrize(
    "keywords",
    [
        {"num_envs": 0},
        {"num_envs": -1},
        {"num_envs": 1.5},
        {"num_envs": True},
        {"num_envs": "2"},
        {"batch_size": 3},
        {"batch_size": -1},
        {"num_threads": -1},
        {"num_threads": 1 << 20},
        {"thread_affinity_offset": -2},
        {"thread_affinity_offset": 1 << 20},
        {"max_num_frames_per_episode": 0},
        {"max_num_frames_per_episode": 1 << 40},
        {"repeat_action_probability": 1.5},
        {"repeat_action_probability": -0.1},
        {"repeat_action_probability": float("nan")},
        {"repeat_action_probability": "0.25"},
        {"full_action_space": 1},
        {"continuous": None},
        {"continuous_action_threshold": float("inf")},
        {"autoreset_mode": "same_step"},
        {"img_height": 0},
        {"img_height": 211},
        {"img_width": 161},
        {"grayscale": "yes"},
        {"stack_num": 0},
        {"frameskip": 0},
        {"frameskip": (2, 5)},
        {"frameskip": 4.0},
        {"maxpool": 1},
        {"noop_max": -1},
        {"device": "tpu"},
        {"device": 0},
        {"output": "jax"},
        {"resets": "fast"},
        {"num_reset_states": 0},
        {"obs_type": "rgb"},
        {"mode": 77},
        {"mode": [0]},
        {"mode": [0, "1"]},
        {"mode": -1},
        {"difficulty": 4},
        {"difficulty": 0.5},
        {"preset": "atari"},
        {"decorrelate_steps": -1},
        {"rom_path": 3},
        {"rules": 3},
        {"render_mode": "human"},
        {"obs_type": "ram", "stack_num": 2},
        {"obs_type": "ram", "grayscale": False},
        {"game": [("pong", 1), ("breakout", 2)]},
        {"game": [("pong", 0), ("breakout", 2)]},
        {"game": []},
        {"game": 3},
        {"game": [("pong",)]},
        {"game": [("pong", 1), ("breakout", 1)], "rom_path": "pong.bin"},
    ],
    ids=str,
)
def test_keyword_is_refused(keywords: dict[str, Any]) -> None:
    *_, name = keywords
    if "game" in keywords:
        name = "rom_path" if "rom_path" in keywords else "game"
    arguments = {"game": "pong", "num_envs": 2, **keywords}
    with pytest.raises(CuleError, match=name) as caught:
        cule.AtariVectorEnv(**arguments)
    assert isinstance(caught.value, ValueError)


def test_unknown_keyword_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="frameskipp"):
        cule.AtariVectorEnv("pong", 1, frameskipp=4)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        cule.AtariVectorEnv("pong", 1, 4)  # type: ignore[misc]


# --- Actions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "error"),
    [
        ([0, [0]], ActionShapeError),
        ([0.0, 0.0], ActionShapeError),
        (None, ActionShapeError),
        (0, ActionShapeError),
        (np.zeros(3, np.int64), ActionShapeError),
        (np.zeros((2, 1), np.int64), ActionShapeError),
        (np.zeros(2), ActionShapeError),
        (np.zeros(2, bool), ActionShapeError),
        (np.array(["0", "1"]), ActionShapeError),
        (np.array([0, 6]), ActionRangeError),
        (np.array([-1, 0]), ActionRangeError),
        (np.array([0, 2**32]), ActionRangeError),
        (np.array([0, 2**64 - 1], np.uint64), ActionRangeError),
    ],
    ids=str,
)
def test_action_is_refused_and_nothing_moves(
    make_env: MakeEnv, actions: Any, error: type[CuleError]
) -> None:
    env = make_env()
    env.reset(seed=0)
    before = env.get_state()
    for call in (env.step, env.send, env.step_frames):
        with pytest.raises(error, match="actions"):
            call(actions)
    assert np.array_equal(env.get_state(), before)
    env.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("rows", [1, FEW, FEW + 1, 1000])
@pytest.mark.parametrize("wrong", [-1, 6, 2**32, 2**63 - 1])
def test_the_first_wrong_action_is_named(rows: int, wrong: int) -> None:
    actions = np.full(rows, 5)
    actions[rows // 2 :] = wrong
    with pytest.raises(
        ActionRangeError, match=rf"^actions\[{rows // 2}\] is {wrong}; it must be in 0\.\.5$"
    ):
        discrete_actions(actions, rows, 6)


def test_actions_of_every_integer_type_are_taken(make_env: MakeEnv) -> None:
    env, other = make_env(), make_env()
    env.reset(seed=0)
    other.reset(seed=0)
    for dtype in (np.int8, np.uint8, np.int32, np.int64, np.uint64, ">i4"):
        obs = env.step(np.array([2, 3], dtype))[0]
        strided = np.array([2, 9, 3, 9])[::2]
        assert np.array_equal(other.step(strided)[0], obs)


@pytest.mark.parametrize(
    ("actions", "error"),
    [
        (np.zeros((2, 3)), ActionShapeError),
        (np.zeros((2, 2), np.float32), ActionShapeError),
        (np.zeros(2, np.int64), ActionShapeError),
        (np.full((2, 3), np.nan, np.float32), ActionRangeError),
        (np.array([[0, 0, 0], [np.inf, 0, 0]], np.float32), ActionRangeError),
        (np.array([[0, 0, 0], [0, 0, -1e30]], np.float32), ActionRangeError),
    ],
    ids=str,
)
def test_continuous_action_is_refused(
    make_env: MakeEnv, actions: Any, error: type[CuleError]
) -> None:
    env = make_env(continuous=True)
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(error, match="actions"):
        env.step(actions)
    assert np.array_equal(env.get_state(), before)


@pytest.mark.parametrize("rows", [FEW, FEW + 8])
@pytest.mark.parametrize("wrong", [-(2**31), 6, 2**20])
def test_masked_actions_are_checked(rows: int, wrong: int) -> None:
    actions = np.ma.masked_array(np.zeros(rows, np.int64), mask=False)
    actions[3] = np.ma.masked
    actions.data[3] = wrong
    with pytest.raises(ActionRangeError, match=rf"actions\[3\] is {wrong}; it must be in 0\.\.5"):
        discrete_actions(actions, rows, 6)
    strengths = np.ma.masked_array(np.zeros((rows, 3), np.float32), mask=False)
    strengths[3] = np.ma.masked
    strengths.data[3] = np.nan
    with pytest.raises(ActionRangeError, match=r"actions\[3\] is \[nan"):
        continuous_actions(strengths, rows)


def test_snapshots_are_copied_before_they_are_checked(make_env: MakeEnv) -> None:
    env = make_env("pong", 2)
    env.reset(seed=1)
    states = env.get_state()
    for given in (states, states[:1], states[0], states.T.copy().T):
        taken = as_states(given, 2, env.state_size, env.config)
        assert not np.shares_memory(taken, given)
        assert taken.flags.c_contiguous


def test_action_errors_are_the_kinds_of_ale_py() -> None:
    for kind in (CuleError, ValueError, AssertionError):
        assert issubclass(ActionShapeError, kind)
    for kind in (CuleError, ValueError, IndexError):
        assert issubclass(ActionRangeError, kind)


# --- Order of calls ----------------------------------------------------------------------------


def test_step_before_reset(make_env: MakeEnv) -> None:
    env = make_env(render_mode="rgb_array")
    zeros = np.zeros(2, np.int64)
    calls: list[Callable[[], Any]] = [
        lambda: env.step(zeros),
        lambda: env.step_frames(zeros),
        lambda: env.send(zeros),
        env.recv,
        env.get_state,
        env.screens,
        env.render,
        lambda: env.reset(options={"reset_mask": np.array([True, False])}),
    ]
    for call in calls:
        with pytest.raises(RuntimeError) as caught:
            call()
        assert isinstance(caught.value, NotResetError)
    env.reset(seed=0)
    env.step(zeros)


def test_closed(make_env: MakeEnv) -> None:
    env = make_env()
    env.reset(seed=0)
    states = env.get_state()
    env.close()
    env.close()
    assert env.closed
    zeros = np.zeros(2, np.int64)
    calls: list[Callable[[], Any]] = [
        env.reset,
        lambda: env.step(zeros),
        lambda: env.step_frames(zeros),
        lambda: env.send(zeros),
        env.recv,
        env.get_state,
        lambda: env.set_state(states),
        env.screens,
        env.render,
        lambda: env.ram,
        lambda: env.lives,
        lambda: env.episode_frames,
        lambda: env.num_threads,
    ]
    for call in calls:
        with pytest.raises(ClosedError):
            call()


def test_views_outlive_the_environment() -> None:
    env = cule.AtariVectorEnv("pong", 2, num_threads=1)
    env.reset(seed=0)
    ram = env.ram
    env.close()
    del env
    ram.sum()  # whatever it says, it does not crash


# --- Resets ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"seed": 1.5}, TypeError),
        ({"seed": "0"}, TypeError),
        ({"seed": [0.0, 1.0]}, TypeError),
        ({"seed": np.zeros(2)}, TypeError),
        ({"seed": np.zeros(3, np.int64)}, ValueError),
        ({"seed": 2**31 - 1}, ValueError),
        ({"seed": np.array([0, 2**31])}, ValueError),
        ({"options": 3}, TypeError),
        ({"options": {"resetmask": 1}}, ValueError),
        ({"options": {"reset_mask": [True, False]}}, TypeError),
        ({"options": {"reset_mask": np.array([1, 0])}}, TypeError),
        ({"options": {"reset_mask": np.array([True])}}, ValueError),
        (
            {"seed": np.zeros(2, int), "options": {"reset_mask": np.array([True, False])}},
            ValueError,
        ),
        ({"options": {"states": [1, 2]}}, TypeError),
        ({"options": {"states": np.zeros((2, 3), np.uint8)}}, ValueError),
    ],
    ids=str,
)
def test_reset_is_refused_and_nothing_moves(
    make_env: MakeEnv, arguments: dict[str, Any], error: type[Exception]
) -> None:
    env = make_env()
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(error) as caught:
        env.reset(**arguments)
    assert isinstance(caught.value, CuleError)
    assert np.array_equal(env.get_state(), before)


# --- States ------------------------------------------------------------------------------------


def test_damaged_states_are_refused_and_nothing_moves(make_env: MakeEnv) -> None:
    env = make_env()
    env.reset(seed=0)
    good = env.get_state()
    for actions in actions_for(env, 0, 5):
        env.step(actions)
    before = env.get_state()
    rng = np.random.default_rng(0)
    for byte in [0, good.shape[1] - 1, *rng.integers(good.shape[1], size=60).tolist()]:
        bad = good.copy()
        bad[1, byte] ^= np.uint8(1 << rng.integers(8))
        with pytest.raises(InvalidStateError):
            env.set_state(bad)
        assert np.array_equal(env.get_state(), before)
    for bad in (np.zeros_like(good), rng.integers(256, size=good.shape).astype(np.uint8)):
        with pytest.raises(InvalidStateError):
            env.set_state(bad)
    assert np.array_equal(env.get_state(), before)
    env.set_state(good)


def test_states_of_another_game_are_refused(make_env: MakeEnv) -> None:
    pong, breakout = make_env("pong"), make_env("breakout")
    pong.reset(seed=0)
    breakout.reset(seed=0)
    before = breakout.get_state()
    with pytest.raises((InvalidStateError, InvalidArgumentError)):
        breakout.set_state(pong.get_state())
    assert np.array_equal(breakout.get_state(), before)


def test_tensors_that_are_no_arrays_are_refused(make_env: MakeEnv) -> None:
    torch = pytest.importorskip("torch")
    env = make_env(continuous=True)
    env.reset(seed=0)
    with pytest.raises(InvalidArgumentError, match="cannot be read as an array"):
        env.step(torch.zeros(2, 3, dtype=torch.bfloat16))


#: Values that numpy or torch refuses in words of its own.
ODD_TENSORS = [torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2, requires_grad=True)]


@pytest.mark.parametrize("value", ODD_TENSORS, ids=str)
def test_tensors_are_refused_by_the_interface_of_ale_py(make_env: MakeEnv, value: object) -> None:
    env = make_env()
    env.reset(seed=0)
    for call in (
        lambda: env.ale.reset(value, [1, 2]),
        lambda: env.ale.reset([0, 1], value),
        lambda: env.ale.send(value, [1.0, 1.0]),
        lambda: env.ale.send([0, 0], value),
        lambda: env.step([value, 0]),
    ):
        with pytest.raises(CuleError):
            call()


@pytest.mark.parametrize("value", [np.array(1), torch.tensor(1)], ids=str)
def test_a_number_is_no_list_of_packed_states(value: Any) -> None:
    with pytest.raises(TypeError, match=r"packed is .*; it must be a list of bytes") as caught:
        cule.unpack_states(value)
    assert isinstance(caught.value, CuleError)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"], ids=ascii)
def test_names_that_no_file_can_have(name: str, make_env: MakeEnv) -> None:
    ale = cule.ALEInterface()
    for load in (
        lambda: ale.loadROM(name),
        lambda: ale.isSupportedROM(name),
        lambda: make_env(rom_path=name),
    ):
        with pytest.raises(CuleError):
            load()
    ale.loadROM(rom_path("pong"))
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        ale.saveScreenPNG(name)


@pytest.mark.parametrize(
    ("source", "origin", "message"),
    [
        (None, 0xF000, "source is None"),
        (b"NOP", 0xF000, "source is b'NOP'"),
        ("NOP", None, "origin is None"),
        ("NOP", 2.5, "origin is 2.5"),
        ("NOP", -1, "origin is -1"),
        ("NOP", 2**16, "origin is 65536"),
        ("NOP\n.byte", 0xF000, "line 2, '.byte': a value is missing"),
        (".byte 1,,2", 0xF000, "a value is missing"),
        ("LDA #<", 0xF000, "a value is missing"),
        ("LDA #" + "<" * 5000 + "1", 0xF000, "not an expression"),
        ("LDA #<>1", 0xF000, "not an expression: '>1'"),
        ("LDA #" + "9" * 5000, 0xF000, "line 1"),
        ("LDA #300", 0xF000, "300 does not fit 8 bits"),
        (".byte -129", 0xF000, "-129 does not fit 8 bits"),
        (".word 65536", 0xF000, "65536 does not fit 16 bits"),
        (".org 99999999999999", 0xF000, "addresses end at [$]FFFF"),
        (".wait 99999999999", 0xF000, "cannot wait 99999999999 cycles"),
        ("s: JMP e\n.wait e - s\ne: JMP e", 0xF000, "line 3, .* 'e' moves"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_programs_are_refused(source: Any, origin: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        cule.roms.assemble(source, origin)


def test_programs_with_tabs_and_three_digits() -> None:
    code, _ = cule.roms.assemble("start:\tLDA\t$080,X\n\t.byte\t-1, 255", 0xF000)
    assert code == bytes([0xB5, 0x80, 0xFF, 0xFF])


def test_state_arguments_are_refused(make_env: MakeEnv) -> None:
    env = make_env()
    env.reset(seed=0)
    rows = env.get_state()
    for states, indices in (
        (rows[[0, 1, 0]], None),
        (rows[:, :-1], None),
        (rows.astype(np.int32), None),
        (rows.tolist(), None),
        (rows, [0, 0]),
        (rows, [0, 2]),
        (rows, [-1, 0]),
        (rows, [0.0, 1.0]),
        (rows, [[0, 1]]),
        (rows, ["0", "1"]),
    ):
        with pytest.raises(InvalidArgumentError):
            env.set_state(states, indices)
    for call in (env.get_state, lambda indices: env.screens("rgb", indices)):
        for indices in (2, [-1], [0.5], "x", [[0], [1, 2]]):
            with pytest.raises(InvalidArgumentError, match="indices"):
                call(indices)
    assert np.array_equal(env.get_state(), rows)
    assert env.get_state([]).shape == (0, env.state_size)


def test_screens_are_refused(make_env: MakeEnv) -> None:
    env = make_env([("pong", 1), ("pooyan", 1)])
    env.reset(seed=0)
    with pytest.raises(InvalidArgumentError, match="kind"):
        env.screens("colour")
    with pytest.raises(InvalidArgumentError):
        env.screens("rgb")  # of different heights
    assert env.screens("rgb", [1]).shape == (1, 220, 160, 3)


@pytest.mark.parametrize("value", [np.zeros(2), np.zeros(1), np.array([["numpy"]]), torch.ones(3)])
def test_an_array_for_an_option_that_a_library_fixes(value: object) -> None:
    for name in SINGLE:
        with pytest.raises(InvalidArgumentError, match=rf"^{name} is (?s:.)*; for dm_env it must"):
            with_fixed("dm_env", {name: value}, SINGLE)
    given = {"continuous": np.False_, "output": np.str_("numpy")}
    assert with_fixed("dm_env", given, SINGLE) == SINGLE
