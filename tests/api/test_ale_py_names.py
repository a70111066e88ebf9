"""Every public name of ale-py's modules, and what a call of it does, side by side with ale-py."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cule
from tests.support.ale_pair import load_ale_py
from tests.support.api import rom_path
from tests.support.cases import long_except

pytestmark = pytest.mark.ale

#: Classes and modules of ale-py by their name there.
FACES: dict[str, Any] = {
    "ALEInterface": cule.ALEInterface,
    "ALEState": cule.ALEState,
    "Action": cule.Action,
    "LoggerMode": cule.LoggerMode,
    "AtariEnv": cule.AtariEnv,
    "AtariVectorEnv": cule.AtariVectorEnv,
    "roms": cule.roms,
}

#: Names that ale-py has alone, and why.
ALONE = {
    "ALEVectorInterface": "the class of AtariVectorEnv.ale, which is not made by itself",
    "AtariEnvStepMetadata": "annotations of AtariEnv's info",
    "SDL_SUPPORT": "nothing here opens a window or plays sound",
    "env": "the module of AtariEnv",
    "metadata": "a module of the standard library",
    "packagedir": "where ale-py is installed",
    "registration": "cule.register_envs registers cule/<Title>-v5, -v0 and -v4",
    "register_v0_v4_envs": "registers ids of ale-py",
    "register_v5_envs": "registers ids of ale-py",
    "vector_env": "the module of AtariVectorEnv",
}

Call = Callable[[Any, Any], Any]


def public(thing: Any) -> set[str]:
    """The public names of a class or module, without the modules that it imports."""
    standard = {"annotations", "functools", "hashlib", "json", "os", "platform", "warnings", "Path"}
    return {name for name in dir(thing) if not name.startswith("_")} - standard


def test_every_public_name_is_here() -> None:
    ale_py = load_ale_py()
    here = set(FACES) | {name for name in dir(cule) if not name.startswith("_")}
    missing = {name for name in public(ale_py) if name not in here}
    for name, ours in FACES.items():
        missing |= {f"{name}.{part}" for part in public(getattr(ale_py, name)) - public(ours)}
    assert missing == set(ALONE)


def buffer(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.uint8)


def filled(method: str, *shape: int) -> Call:
    """What a method writes to a buffer, and what it returns."""

    def call(ale: Any, _: Any) -> Any:
        out = buffer(*shape)
        return getattr(ale, method)(out), out.tolist()

    return call


#: Calls of each method of `ALEInterface`: (interface with pong loaded, its module).
CALLS: dict[str, list[Call]] = {
    "act": [
        lambda ale, m: [ale.act(action) for action in m.Action.__members__.values()],
        lambda ale, m: [ale.act(1) for _ in range(300)],
        lambda ale, m: ale.act(m.Action.UP, 0.5),
        lambda ale, m: ale.act(action=3, paddle_strength=0.25),
        lambda ale, m: ale.act("x"),
        lambda ale, m: ale.act(None),
        lambda ale, m: ale.act(1.5),
        lambda ale, m: ale.act(),
    ],
    "cloneState": [
        lambda ale, m: ale.cloneState().getFrameNumber(),
        lambda ale, m: ale.cloneState(include_rng=True) == ale.cloneState(True),
        lambda ale, m: ale.cloneState() == ale.cloneState(include_rng=True),
        lambda ale, m: type(ale.cloneState().serialize()),
        lambda ale, m: m.ALEState(ale.cloneState().serialize()) == ale.cloneState(),
        lambda ale, m: ale.cloneState().equals(ale.cloneState()),
        lambda ale, m: ale.cloneState().getCurrentMode(),
        lambda ale, m: ale.cloneState().getDifficulty(),
        lambda ale, m: ale.cloneState().getEpisodeFrameNumber(),
        lambda ale, m: ale.cloneState("x"),
    ],
    "cloneSystemState": [lambda ale, m: ale.cloneSystemState() == ale.cloneSystemState()],
    "game_over": [
        lambda ale, m: ale.game_over(),
        lambda ale, m: ale.game_over(with_truncation=False),
        lambda ale, m: ale.game_over("x"),
    ],
    "game_truncated": [lambda ale, m: ale.game_truncated()],
    "getAudio": [
        lambda ale, m: ale.getAudio(),
        filled("getAudio", 512),
        filled("getAudio", 3),
    ],
    "getAudioSize": [lambda ale, m: ale.getAudioSize()],
    "getAvailableDifficulties": [lambda ale, m: ale.getAvailableDifficulties()],
    "getAvailableModes": [lambda ale, m: ale.getAvailableModes()],
    "getBool": [
        lambda ale, m: ale.getBool("color_averaging"),
        lambda ale, m: ale.getBool(3),
    ],
    "getEpisodeFrameNumber": [lambda ale, m: ale.getEpisodeFrameNumber()],
    "getFloat": [
        lambda ale, m: ale.getFloat("repeat_action_probability"),
    ],
    "getFrameNumber": [lambda ale, m: ale.getFrameNumber()],
    "getInt": [lambda ale, m: ale.getInt("random_seed")],
    "getLegalActionSet": [lambda ale, m: [(a.name, int(a.value)) for a in ale.getLegalActionSet()]],
    "getMinimalActionSet": [lambda ale, m: [int(a.value) for a in ale.getMinimalActionSet()]],
    "getRAM": [
        lambda ale, m: ale.getRAM(),
        filled("getRAM", 128),
        filled("getRAM", 127),
        lambda ale, m: ale.getRAM("x"),
    ],
    "getRAMSize": [lambda ale, m: ale.getRAMSize()],
    "getScreen": [
        lambda ale, m: ale.getScreen(),
        filled("getScreen", 210, 160),
        filled("getScreen", 84, 84),
    ],
    "getScreenDims": [lambda ale, m: ale.getScreenDims()],
    "getScreenGrayscale": [
        lambda ale, m: ale.getScreenGrayscale(),
        filled("getScreenGrayscale", 210, 160),
        filled("getScreenGrayscale", 84, 84),
    ],
    "getScreenRGB": [
        lambda ale, m: ale.getScreenRGB(),
        filled("getScreenRGB", 210, 160, 3),
        filled("getScreenRGB", 84, 84, 3),
    ],
    "getString": [
        lambda ale, m: ale.getString("rom_file"),
        lambda ale, m: ale.getString("record_screen_dir"),
    ],
    "isSupportedROM": [
        lambda ale, m: m.ALEInterface.isSupportedROM(str(rom_path("ms_pacman"))),
        lambda ale, m: m.ALEInterface.isSupportedROM(rom_path("pong")),
        lambda ale, m: m.ALEInterface.isSupportedROM("/nowhere.bin"),
        lambda ale, m: m.ALEInterface.isSupportedROM(Path("/nowhere.bin")),
        lambda ale, m: m.ALEInterface.isSupportedROM("/"),
        lambda ale, m: m.ALEInterface.isSupportedROM(__file__),
        lambda ale, m: m.ALEInterface.isSupportedROM(3),
    ],
    "lives": [lambda ale, m: ale.lives()],
    "loadROM": [
        lambda ale, m: ale.loadROM(rom_path("breakout")),
        lambda ale, m: (ale.loadROM(str(rom_path("breakout"))), ale.lives()),
        lambda ale, m: ale.loadROM(3),
    ],
    "reset_game": [lambda ale, m: (ale.reset_game(), ale.getEpisodeFrameNumber())],
    "restoreState": [
        lambda ale, m: restored(ale, ale.cloneState()),
        lambda ale, m: ale.restoreState(3),
    ],
    "restoreSystemState": [
        lambda ale, m: restored(ale, ale.cloneSystemState()),
        lambda ale, m: ale.restoreSystemState(None),
    ],
    "saveScreenPNG": [lambda ale, m: ale.saveScreenPNG(3)],
    "setBool": [
        lambda ale, m: (ale.setBool("sound_obs", True), ale.getBool("sound_obs")),
        lambda ale, m: ale.setBool("sound_obs", 1),
        lambda ale, m: ale.setBool("nothing", True),
    ],
    "setDifficulty": [
        lambda ale, m: (ale.setDifficulty(1), ale.act(0)),
        lambda ale, m: ale.setDifficulty(77),
        lambda ale, m: ale.setDifficulty(-1),
        lambda ale, m: ale.setDifficulty("x"),
    ],
    "setFloat": [
        lambda ale, m: (
            ale.setFloat("repeat_action_probability", 0.1),
            ale.getFloat("repeat_action_probability"),
        ),
        lambda ale, m: ale.setFloat("nothing", 0.1),
        lambda ale, m: ale.setFloat("repeat_action_probability", "x"),
    ],
    "setInt": [
        lambda ale, m: (ale.setInt("frame_skip", 5), ale.getInt("frame_skip")),
        lambda ale, m: ale.setInt("nothing", 1),
        lambda ale, m: ale.setInt("frame_skip", 1.5),
        lambda ale, m: ale.setInt("frame_skip", 2**40),
    ],
    "setLoggerMode": [
        lambda ale, m: m.ALEInterface.setLoggerMode(m.LoggerMode.Error),
        lambda ale, m: m.ALEInterface.setLoggerMode(3),
    ],
    "setMode": [
        lambda ale, m: (ale.setMode(1), ale.reset_game(), ale.cloneState().getCurrentMode()),
        lambda ale, m: ale.setMode(77),
        lambda ale, m: ale.setMode(-1),
    ],
    "setRAM": [
        lambda ale, m: (ale.setRAM(3, 200), ale.getRAM()[3]),
        lambda ale, m: ale.setRAM(128, 1),
        lambda ale, m: ale.setRAM(-1, 1),
        lambda ale, m: ale.setRAM(0, 256),
    ],
    "setString": [
        lambda ale, m: (ale.setString("rom_file", "x"), ale.getString("rom_file")),
        lambda ale, m: ale.setString("nothing", "x"),
        lambda ale, m: ale.setString("rom_file", 3),
    ],
}


#: Calls that ale-py answers with a number or text of no meaning, and cule refuses.
REFUSED: list[Call] = [
    lambda ale, m: ale.getBool("random_seed"),
    lambda ale, m: ale.getInt("nothing"),
    lambda ale, m: ale.getFloat("nothing"),
    lambda ale, m: ale.getString("nothing"),
]


def restored(ale: Any, state: Any) -> Any:
    """What is left after one act and a restore."""
    ale.act(3)
    ale.restoreState(state)
    return ale.getFrameNumber(), ale.getRAM().tolist(), ale.getScreen().tolist()


def outcome(call: Call, module: Any) -> Any:
    """What a call returns or raises, on a new interface in the middle of a game of pong."""
    ale = module.ALEInterface()
    ale.setInt("random_seed", 1)
    ale.loadROM(str(rom_path("pong")))
    for i in range(60):
        ale.act(module.Action(i % 6))
    try:
        value = call(ale, module)
    except Exception as error:
        return error
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_every_method_is_called() -> None:
    assert public(load_ale_py().ALEInterface) == set(CALLS)


@pytest.mark.parametrize("method", long_except(CALLS, every=12))
def test_calls(method: str) -> None:
    for number, call in enumerate(CALLS[method]):
        expected, got = outcome(call, load_ale_py()), outcome(call, cule)
        if isinstance(expected, Exception):
            assert isinstance(got, type(expected)), (number, expected, got)
        else:
            assert got == expected, number
            assert type(got) is type(expected), number


@pytest.mark.parametrize("call", REFUSED)
def test_settings_that_do_not_exist_are_refused(call: Call) -> None:
    assert not isinstance(outcome(call, load_ale_py()), Exception)
    assert isinstance(outcome(call, cule), cule.CuleError)


def vector_env(module: Any) -> Any:
    return FACES["AtariVectorEnv"] if module is cule else module.vector_env.AtariVectorEnv


def masked_reset(first: bool, mask: object, seed: object = None) -> Call:
    """A reset of some of four environments, after a reset of all or not."""

    def call(_: Any, module: Any) -> Any:
        env = vector_env(module)("pong", 4, num_threads=1)
        if first:
            env.reset()
        return env.reset(seed=seed, options={"reset_mask": mask})

    return call


@pytest.mark.parametrize(
    ("call", "words"),
    long_except(
        [
            (
                masked_reset(False, np.array([True, False, False, False])),
                r"first reset\(\) must reset",
            ),
            (masked_reset(True, np.array([1, 0, 0, 0])), "must be a boolean numpy array"),
            (masked_reset(True, np.array([True, False])), "must have shape"),
            (
                masked_reset(True, np.array([True, False, False, False]), np.array([1, 2])),
                "one entry per sub-environment",
            ),
            (lambda ale, _: ale.getRAM(np.zeros(128, np.int32)), "incompatible function arguments"),
            (lambda ale, _: ale.getRAM(np.zeros(1, np.uint8)), "incompatible function arguments"),
            (
                lambda _, m: m.AtariEnv("pong", continuous=True).get_keys_to_action(),
                "can't be provided",
            ),
        ],
        every=3,
    ),
)
def test_words_of_errors(call: Call, words: str) -> None:
    """What code written for ale-py may search for in a message."""
    for module in (load_ale_py(), cule):
        error = outcome(call, module)
        assert isinstance(error, Exception)
        assert re.search(words, str(error)), error


def test_rom_ids_and_paths() -> None:
    theirs = load_ale_py().roms
    assert cule.roms.get_all_rom_ids() == sorted(theirs.get_all_rom_ids())
    for rom_id in ("pong", "ms_pacman", "combat"):
        ours = cule.roms.get_rom_path(rom_id)
        assert ours is not None
        assert ours.read_bytes() == theirs.get_rom_path(rom_id).read_bytes()
    for module in (theirs, cule.roms):
        with pytest.warns(UserWarning, match="nothing"):
            assert module.get_rom_path("nothing") is None


def numbers(result: Any) -> Any:
    """Arrays of a result as lists, so that == compares them."""
    if isinstance(result, np.ndarray):
        return result.dtype, result.tolist()
    if isinstance(result, dict):
        return {key: numbers(value) for key, value in result.items()}
    return [numbers(part) for part in result] if isinstance(result, tuple) else result


#: Calls of each method of `AtariVectorEnv.ale`: (that object, of three environments of breakout).
VECTOR_CALLS: dict[str, list[Callable[[Any], Any]]] = {
    "get_action_set": [lambda ale: [(a.name, int(a.value)) for a in ale.get_action_set()]],
    "get_num_envs": [lambda ale: ale.get_num_envs()],
    "get_observation_shape": [lambda ale: ale.get_observation_shape()],
    "reset": [
        lambda ale: numbers(ale.reset([0, 1, 2], [4, 5, 6])),
        lambda ale: numbers(ale.reset([2, 0], [7, 8])),
        lambda ale: numbers(ale.reset([1], [-1])),
        lambda ale: numbers(ale.reset([], [])),
        lambda ale: ale.reset([0, 0], [-1, -1]),
        lambda ale: ale.reset([3], [-1]),
        lambda ale: ale.reset([-1], [-1]),
        lambda ale: ale.reset([0, 1], [-1]),
        lambda ale: ale.reset([0], [1.5]),
        lambda ale: ale.reset([0.0], [1]),
        lambda ale: ale.reset("x", [1]),
        lambda ale: ale.reset([[0], [1, 2]], [1, 2]),
        lambda ale: ale.reset([0, 1], [[1], [2, 3]]),
    ],
    "send": [
        lambda ale: ale.send([[0], [1, 2], 3], [1.0] * 3),
        lambda ale: ale.send([0, 1, 2], [[1.0], [1.0, 1.0], 1.0]),
        lambda ale: ale.send([0, 1], [1.0, 1.0, 1.0]),
        lambda ale: ale.send([0, 1, 2], [1.0, 1.0]),
        lambda ale: ale.send([0, 1, 2, 0], [1.0] * 4),
        lambda ale: ale.send([0.5, 1, 2], [1.0] * 3),
    ],
    "recv": [
        lambda ale: [
            (ale.send([1, i % 4, 3], [1.0] * 3), numbers(ale.recv()))[1] for i in range(40)
        ]
    ],
}


def vector_outcome(call: Callable[[Any], Any], module: Any) -> Any:
    """What a call returns or raises, after a reset of all environments and three steps."""
    env = vector_env(module)("breakout", 3, num_threads=1, noop_max=1)
    env.reset(seed=3)
    for _ in range(3):
        env.step(np.ones(3, np.int64))
    try:
        return call(env.ale)
    except Exception as error:
        return error


@pytest.mark.parametrize("method", long_except(VECTOR_CALLS, "recv"))
def test_calls_of_the_vector_interface(method: str) -> None:
    for number, call in enumerate(VECTOR_CALLS[method]):
        expected, got = vector_outcome(call, load_ale_py()), vector_outcome(call, cule)
        if isinstance(expected, Exception):
            assert isinstance(got, type(expected)), (number, expected, got)
            assert isinstance(got, cule.CuleError), (number, got)
        else:
            assert not isinstance(got, Exception), (number, got)
            assert got == expected, number


def test_wide_seeds_of_the_vector_interface() -> None:
    env = cule.AtariVectorEnv("pong", 2)
    for seed in (2**63, 2**64 - 1):
        with pytest.raises(cule.InvalidArgumentError, match=f"the seed {seed}; it must be at most"):
            env.ale.reset([0, 1], np.array([5, seed], np.uint64))


def test_every_method_of_the_vector_interface_is_called() -> None:
    theirs = load_ale_py().vector_env.AtariVectorEnv("pong", 1).ale
    ours = cule.AtariVectorEnv("pong", 1).ale
    assert public(ours) == set(VECTOR_CALLS)
    assert public(theirs) == {*VECTOR_CALLS, "handle"}  # the first result of xla()


def test_strengths_of_discrete_actions_are_refused() -> None:
    env = cule.AtariVectorEnv("breakout", 2)
    env.reset(seed=1)
    with pytest.raises(cule.InvalidArgumentError, match=r"paddle_strengths is \[1.0, 0.5\]"):
        env.ale.send([0, 1], [1.0, 0.5])
    env.step(np.array([0, 1]))
