"""`ALEInterface`: settings, calls, results and errors, next to ale-py where that says more."""

from __future__ import annotations

import gzip
import logging
import pickle
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cule
from cule.envs.errors import (
    ActionRangeError,
    ArgumentTypeError,
    CallOrderError,
    SettingError,
)
from cule.errors import CuleError, InvalidArgumentError, InvalidStateError
from tests.support.api import rom_path

pytestmark = pytest.mark.ale

DEFAULTS: dict[str, Any] = {
    "random_seed": -1,
    "system_random_seed": 4753849,
    "frame_skip": 1,
    "max_num_frames_per_episode": 0,
    "reward_min": -(2**31),
    "reward_max": 2**31 - 1,
    "paddle_min": -1,
    "paddle_max": -1,
    "max_num_frames": 0,
    "fragsize": 64,
    "repeat_action_probability": 0.25,
    "truncate_on_loss_of_life": False,
    "color_averaging": False,
    "sound_obs": False,
    "display_screen": False,
    "sound": False,
    "restricted_action_set": False,
    "send_rgb": False,
    "run_length_encoding": True,
    "record_screen_dir": "",
    "record_sound_filename": "",
    "rom_file": "",
    "cpu": "low",
}


def getter(ale: Any, value: Any) -> Callable[[str], Any]:
    """The get method for settings of the type of a value."""
    return {bool: ale.getBool, int: ale.getInt, float: ale.getFloat, str: ale.getString}[
        type(value)
    ]


# --- Settings --------------------------------------------------------------------------------


def test_default_settings_are_those_of_ale_py() -> None:
    import ale_py

    ours, theirs = cule.ALEInterface(), ale_py.ALEInterface()
    for key, value in DEFAULTS.items():
        assert getter(ours, value)(key) == getter(theirs, value)(key) == value


@pytest.mark.parametrize("value", [0.123456789, 1.23456789e-5, 0.1, 1 / 3, 1, 0])
def test_floats_go_through_six_digits_as_in_ale_py(value: float) -> None:
    import ale_py

    ours, theirs = cule.ALEInterface(), ale_py.ALEInterface()
    for ale in (ours, theirs):
        ale.setFloat("repeat_action_probability", value)
    key = "repeat_action_probability"
    assert ours.getFloat(key) == theirs.getFloat(key)


def test_settings_are_refused() -> None:
    ale = cule.ALEInterface()
    refused: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: ale.setInt("bogus", 1), RuntimeError),
        (lambda: ale.getInt("bogus"), RuntimeError),
        (lambda: ale.setInt("repeat_action_probability", 1), RuntimeError),
        (lambda: ale.setFloat("random_seed", 1.0), RuntimeError),
        (lambda: ale.getBool("random_seed"), RuntimeError),
        (lambda: ale.setInt("random_seed", 1.5), TypeError),
        (lambda: ale.setInt("random_seed", 2**31), TypeError),
        (lambda: ale.setInt("random_seed", True), TypeError),
        (lambda: ale.setBool("sound_obs", 1), TypeError),
        (lambda: ale.setString("cpu", 3), TypeError),
        (lambda: ale.setFloat("repeat_action_probability", "x"), TypeError),
        (lambda: ale.setFloat("repeat_action_probability", 1.1), ValueError),
        (lambda: ale.setFloat("repeat_action_probability", float("nan")), ValueError),
        (lambda: ale.setBool("display_screen", True), RuntimeError),
        (lambda: ale.setString("cpu", "high"), RuntimeError),
        (lambda: ale.setInt(3, 3), TypeError),
    ]
    for call, kind in refused:
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, CuleError)
    for key, value in DEFAULTS.items():
        assert getter(ale, value)(key) == value


def test_settings_are_read_by_load_rom(pong: cule.ALEInterface) -> None:
    pong.setInt("frame_skip", 4)
    pong.act(0)
    assert pong.getFrameNumber() == 1
    pong.loadROM(rom_path("pong"))
    pong.act(0)
    assert pong.getFrameNumber() == 4
    pong.setInt("frame_skip", 0)
    pong.loadROM(rom_path("pong"))
    pong.act(0)
    assert pong.getFrameNumber() == 1


def acts(ale: cule.ALEInterface, game: str, steps: int = 120) -> list[Any]:
    """What a fixed run of a game shows."""
    ale.loadROM(rom_path(game))
    rng = np.random.default_rng(0)
    legal = ale.getLegalActionSet()
    shown = []
    for _ in range(steps):
        reward = ale.act(legal[rng.integers(len(legal))])
        shown.append((reward, ale.getRAM().tobytes(), ale.getScreen().tobytes(), ale.game_over()))
        shown.append(ale.getAudio().tobytes())
    return shown


@pytest.mark.parametrize(
    ("game", "kind", "key", "value"),
    [
        ("pong", "Int", "random_seed", 7),
        ("seaquest", "Int", "system_random_seed", 7),
        ("pong", "Float", "repeat_action_probability", 0.0),
        ("pong", "Int", "frame_skip", 3),
        ("pong", "Int", "max_num_frames_per_episode", 50),
        ("breakout", "Bool", "truncate_on_loss_of_life", True),
        ("ms_pacman", "Int", "reward_max", 3),
        ("ms_pacman", "Int", "reward_min", 3),
        ("pong", "Bool", "color_averaging", True),
        ("pong", "Int", "paddle_min", 300000),
        ("pong", "Int", "paddle_max", 500000),
        ("pong", "Bool", "sound_obs", True),
    ],
)
def test_setting_makes_a_difference(game: str, kind: str, key: str, value: Any) -> None:
    base, changed = cule.ALEInterface(), cule.ALEInterface()
    for ale in (base, changed):
        ale.setInt("random_seed", 1)
    getattr(changed, f"set{kind}")(key, value)
    steps = {"breakout": 500, "ms_pacman": 700}.get(game, 120)
    assert acts(base, game, steps) != acts(changed, game, steps)


def test_clock_seed_is_a_seed() -> None:
    ale = cule.ALEInterface()
    ale.loadROM(rom_path("pong"))
    ale.act(0)


# --- The ROM ---------------------------------------------------------------------------------


def test_calls_before_load_rom_are_refused() -> None:
    ale = cule.ALEInterface()
    calls: list[Callable[[], Any]] = [
        lambda: ale.act(0),
        ale.lives,
        ale.reset_game,
        ale.game_over,
        ale.game_truncated,
        ale.getRAM,
        ale.getScreen,
        ale.getScreenRGB,
        ale.getScreenGrayscale,
        ale.getScreenDims,
        ale.getAudio,
        ale.getMinimalActionSet,
        ale.getLegalActionSet,
        ale.getFrameNumber,
        ale.getEpisodeFrameNumber,
        ale.getAvailableModes,
        ale.getAvailableDifficulties,
        lambda: ale.setMode(0),
        lambda: ale.setDifficulty(0),
        lambda: ale.setRAM(0, 0),
        ale.cloneState,
        ale.cloneSystemState,
        lambda: ale.restoreState(cule.ALEState()),
        lambda: ale.saveScreenPNG("x.png"),
    ]
    for call in calls:
        with pytest.raises(CallOrderError, match="loadROM"):
            call()
    assert ale.getRAMSize() == 128
    assert ale.getAudioSize() == 512


def test_every_public_method_of_ale_py_is_here() -> None:
    import ale_py

    for theirs, ours in (
        (ale_py.ALEInterface, cule.ALEInterface),
        (ale_py.ALEState, cule.ALEState),
        (ale_py.LoggerMode, cule.LoggerMode),
        (ale_py.Action, cule.Action),
    ):
        names = [name for name in dir(theirs) if not name.startswith("_")]
        assert names
        assert [name for name in names if not hasattr(ours, name)] == []


def test_load_rom_takes_strings_paths_and_gzip(tmp_path: Path) -> None:
    path = Path(rom_path("pong"))
    packed = tmp_path / "pong.bin.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    states = []
    for file in (path, str(path), packed):
        ale = cule.ALEInterface()
        ale.setInt("random_seed", 0)
        ale.loadROM(file)
        assert ale.getString("rom_file") == str(file)
        states.append(ale.cloneSystemState())
    assert states[0] == states[1] == states[2]


def test_refused_load_rom_leaves_the_old_game(pong: cule.ALEInterface, tmp_path: Path) -> None:
    before = pong.cloneSystemState()
    file = tmp_path / "nothing.bin"
    file.write_bytes(b"\0" * 4096)
    with pytest.raises(CuleError):
        pong.loadROM(file)
    assert pong.cloneSystemState() == before
    assert pong.getString("rom_file") == str(rom_path("pong"))


def test_is_supported_rom(tmp_path: Path) -> None:
    assert cule.ALEInterface.isSupportedROM(rom_path("ms_pacman")) == "ms_pacman"
    file = tmp_path / "pong.bin"
    file.write_bytes(b"\1" * 4096)
    assert cule.ALEInterface.isSupportedROM(str(file)) is None
    with pytest.raises(FileNotFoundError) as caught:
        cule.ALEInterface.isSupportedROM(tmp_path / "missing.bin")
    assert isinstance(caught.value, RuntimeError)  # as in ale-py


def test_file_name_chooses_the_rules_of_unknown_bytes(tmp_path: Path) -> None:
    program = bytearray(4096)
    program[:3] = b"\x4c\x00\xf0"  # JMP $F000
    program[-4:-2] = b"\x00\xf0"  # reset vector
    file = tmp_path / "enduro.bin"
    file.write_bytes(program)
    ale = cule.ALEInterface()
    with pytest.warns(UserWarning, match="enduro"):
        ale.loadROM(file)
    assert ale.act(0) == 0


# --- Playing ---------------------------------------------------------------------------------


def test_action_sets(pong: cule.ALEInterface) -> None:
    names = [action.name for action in pong.getMinimalActionSet()]
    assert names == ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]
    assert pong.getLegalActionSet() == list(cule.Action)


@pytest.mark.parametrize("action", [-1, 18, 39, 41, 1000, 2**40])
def test_actions_that_do_not_exist_are_refused(pong: cule.ALEInterface, action: int) -> None:
    before = pong.cloneSystemState()
    with pytest.raises((ActionRangeError, InvalidArgumentError), match="action"):
        pong.act(action)
    assert pong.cloneSystemState() == before


def test_act_arguments(pong: cule.ALEInterface) -> None:
    import ale_py

    for action in (0, cule.Action.UP, np.int64(3), 40, ale_py.Action.UP):
        assert pong.act(action) == 0
    pong.act(action=3, paddle_strength=np.float32(0.5))
    frames = pong.getFrameNumber()
    for action, strength in ((1.0, 1.0), ("x", 1.0), (True, 1.0), (0, "x"), (0, float("nan"))):
        with pytest.raises(InvalidArgumentError):
            pong.act(action, strength)
    assert pong.getFrameNumber() == frames


def test_modes_and_difficulties(pong: cule.ALEInterface) -> None:
    assert pong.getAvailableModes() == [0, 1]
    assert pong.getAvailableDifficulties() == [0, 1, 2, 3]
    pong.setMode(1)
    pong.setDifficulty(3)
    for call in (pong.setMode, pong.setDifficulty):
        with pytest.raises(SettingError):
            call(77)
        with pytest.raises(ArgumentTypeError):
            call(-1)
    pong.reset_game()
    state = pong.cloneState()
    assert (state.getCurrentMode(), state.getDifficulty()) == (1, 3)


def test_end_of_episode() -> None:
    ale = cule.ALEInterface()
    ale.setInt("max_num_frames_per_episode", 18)
    ale.setInt("frame_skip", 4)
    ale.loadROM(rom_path("pong"))
    for _ in range(5):
        ale.act(0)
    assert ale.getEpisodeFrameNumber() == 18
    assert (ale.game_over(), ale.game_over(with_truncation=False)) == (True, False)
    assert ale.game_truncated()
    ram = ale.getRAM()
    ale.act(1)
    assert np.array_equal(ram, ale.getRAM())
    ale.reset_game()
    assert (ale.game_over(), ale.getEpisodeFrameNumber(), ale.getFrameNumber()) == (False, 0, 18)


# --- What can be seen ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("getScreen", (210, 160)),
        ("getScreenGrayscale", (210, 160)),
        ("getScreenRGB", (210, 160, 3)),
        ("getRAM", (128,)),
        ("getAudio", (512,)),
    ],
)
def test_arrays_and_buffers(name: str, shape: tuple[int, ...]) -> None:
    ale = cule.ALEInterface()
    ale.setBool("sound_obs", True)
    ale.loadROM(rom_path("pong"))
    for _ in range(60):
        ale.act(1)
    read = getattr(ale, name)
    array = read()
    assert (array.dtype, array.shape, array.flags.writeable) == (np.uint8, shape, True)
    assert array.any()
    assert not np.shares_memory(array, read())
    for call in (lambda buffer: read(buffer), lambda buffer: read(buffer=buffer)):
        buffer = np.zeros(shape, np.uint8)
        assert call(buffer) is None
        assert np.array_equal(buffer, array)
    wrong_kind = (np.zeros(shape, np.int32), np.zeros((*shape, 2), np.uint8)[..., 0], [1])
    for buffer in wrong_kind:
        with pytest.raises(TypeError, match=name):
            read(buffer)
    with pytest.raises(RuntimeError if len(shape) > 1 else TypeError, match=name):
        read(np.zeros((3, 4), np.uint8))


def test_screen_dims(pong: cule.ALEInterface) -> None:
    assert pong.getScreenDims() == (210, 160)


def test_set_ram(pong: cule.ALEInterface) -> None:
    pong.setRAM(np.int64(5), np.uint8(200))
    assert pong.getRAM()[5] == 200
    for index, value, kind in ((128, 0, RuntimeError), (-1, 0, TypeError), (0, 256, TypeError)):
        with pytest.raises(kind):
            pong.setRAM(index, value)


def decode_png(data: bytes) -> np.ndarray:
    """Pixels of an 8-bit RGB PNG file without filters, checksums checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = [], 8
    while place < len(data):
        (size,) = struct.unpack_from(">I", data, place)
        body = data[place + 4 : place + 8 + size]
        assert struct.unpack_from(">I", data, place + 8 + size) == (zlib.crc32(body),)
        chunks.append((body[:4], body[4:]))
        place += 12 + size
    assert [name for name, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, kind, *rest = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (depth, kind, rest) == (8, 2, [0, 0, 0])
    lines = np.frombuffer(zlib.decompress(chunks[1][1]), np.uint8).reshape(height, 1 + 3 * width)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_save_screen_png(pong: cule.ALEInterface, tmp_path: Path) -> None:
    file = tmp_path / "screen.png"
    pong.saveScreenPNG(str(file))
    assert np.array_equal(decode_png(file.read_bytes()), np.repeat(pong.getScreenRGB(), 2, axis=1))
    with pytest.raises(InvalidArgumentError, match="filename"):
        pong.saveScreenPNG(str(tmp_path / "missing" / "screen.png"))
    with pytest.raises(TypeError):
        pong.saveScreenPNG(tmp_path / "screen.png")  # type: ignore[arg-type]


def test_logger_mode(pong: cule.ALEInterface, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("cule")
    before = logger.level
    try:
        cule.ALEInterface.setLoggerMode(cule.LoggerMode.Error)
        pong.loadROM(rom_path("pong"))
        assert not caplog.records
        pong.setLoggerMode(cule.LoggerMode.Info)
        pong.loadROM(rom_path("pong"))
        assert "pong" in caplog.text
        with pytest.raises(TypeError):
            pong.setLoggerMode(0)  # type: ignore[arg-type]
    finally:
        logger.setLevel(before)


# --- States ----------------------------------------------------------------------------------


def test_state_round_trip(pong: cule.ALEInterface) -> None:
    for _ in range(100):
        pong.act(cule.Action.RIGHT)
    state = pong.cloneState()
    assert (state.getFrameNumber(), state.getEpisodeFrameNumber()) == (100, 100)
    shown = [(pong.act(4), pong.getRAM().tobytes(), pong.getScreen().tobytes()) for _ in range(50)]
    pong.restoreState(state)
    assert pong.getFrameNumber() == 100
    again = [(pong.act(4), pong.getRAM().tobytes(), pong.getScreen().tobytes()) for _ in range(50)]
    assert again == shown


def test_screen_stays_after_restore(pong: cule.ALEInterface) -> None:
    state = pong.cloneState()
    ram = pong.getRAM()
    for _ in range(100):
        pong.act(3)
    screen = pong.getScreen()
    pong.restoreState(state)
    assert np.array_equal(pong.getRAM(), ram)
    assert np.array_equal(pong.getScreen(), screen)


def test_random_stream_is_in_the_state_on_request() -> None:
    ale = cule.ALEInterface()
    ale.setInt("random_seed", 3)
    ale.setFloat("repeat_action_probability", 0.5)
    ale.loadROM(rom_path("pong"))

    def run(seed: int) -> list[bytes]:
        rng = np.random.default_rng(seed)
        return [(ale.act(int(rng.integers(18))), ale.getRAM().tobytes())[1] for _ in range(80)]

    run(0)
    plain, whole = ale.cloneState(), ale.cloneState(include_rng=True)
    assert plain != whole
    assert whole == ale.cloneSystemState()
    expected = run(1)
    ale.restoreSystemState(whole)
    assert run(1) == expected
    ale.restoreState(plain)
    assert run(1) != expected


def test_state_equality_and_bytes(pong: cule.ALEInterface) -> None:
    state, same = pong.cloneState(), pong.cloneState()
    assert state == same
    assert state.equals(same)
    assert hash(state) == hash(same)
    for copied in (cule.ALEState(state.serialize()), pickle.loads(pickle.dumps(state))):
        assert copied == state
        pong.restoreState(copied)
    pong.act(0)
    assert pong.cloneState() != state
    assert state != 3


def test_damaged_states_are_refused(pong: cule.ALEInterface) -> None:
    state = pong.cloneState()
    good = state.serialize()
    rng = np.random.default_rng(0)
    bad = [b"", b"abc", good[:100], good[:-1], good + b"\0"]
    for _ in range(60):
        damaged = bytearray(good)
        damaged[rng.integers(len(good))] ^= 1 << int(rng.integers(8))
        bad.append(bytes(damaged))
    for data in bad:
        with pytest.raises(InvalidStateError):
            cule.ALEState(data)
    with pytest.raises(ArgumentTypeError):
        cule.ALEState("x")  # type: ignore[arg-type]

    other = cule.ALEInterface()
    other.loadROM(rom_path("breakout"))
    before = other.cloneSystemState()
    for wrong in (state, cule.ALEState()):
        with pytest.raises(InvalidStateError):
            other.restoreState(wrong)
    with pytest.raises(ArgumentTypeError):
        other.restoreState(None)  # type: ignore[arg-type]
    assert other.cloneSystemState() == before
