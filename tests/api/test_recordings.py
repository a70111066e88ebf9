"""What `ALEInterface` records and saves, next to ale-py: pictures, sound, and equality of states."""

from __future__ import annotations

import os
import wave
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cule
from tests.support.ale_pair import load_ale_py
from tests.support.api import rom_path
from tests.support.cases import long_except

pytestmark = pytest.mark.ale


def both() -> list[tuple[str, Any]]:
    """A new interface of each library, without sticky actions."""
    made = []
    for name, module in (("theirs", load_ale_py()), ("ours", cule)):
        ale = module.ALEInterface()
        ale.setInt("random_seed", 1)
        ale.setFloat("repeat_action_probability", 0.0)
        made.append((name, ale))
    return made


def pixels(path: Path) -> np.ndarray:
    """Pixels of an 8-bit RGB PNG file without filters, as both libraries write it."""
    data, packed, at = path.read_bytes(), b"", 8
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += length + 12
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


@pytest.mark.parametrize(
    ("game", "frame_skip", "mode", "limit"),
    [
        ("pong", 1, None, 0),
        ("asteroids", 4, 7, 0),
        ("berzerk", 2, 18, 0),  # recorded while the mode is selected, also by loadROM
        ("adventure", 2, 2, 0),
        ("breakout", 3, None, 10),  # and after the episode's end
    ],
)
@pytest.mark.parametrize("averaging", long_except([False, True], False))
def test_every_frame_is_a_picture(
    game: str, frame_skip: int, mode: int | None, limit: int, averaging: bool, tmp_path: Path
) -> None:
    folders = {}
    for name, ale in both():
        folder = folders[name] = tmp_path / name
        folder.mkdir()
        ale.setInt("frame_skip", frame_skip)
        ale.setInt("max_num_frames_per_episode", limit)
        ale.setBool("color_averaging", averaging)
        ale.setString("record_screen_dir", str(folder))
        ale.loadROM(str(rom_path(game)))
        if mode is not None:
            ale.setMode(mode)
        ale.reset_game()
        for action in (0, 1, 3, 4, 1, 0):
            ale.act(action if name == "ours" else load_ale_py().Action(action))
        ale.reset_game()
        ale.act(0 if name == "ours" else load_ale_py().Action.NOOP)
    names = sorted(path.name for path in folders["theirs"].iterdir())
    assert names == sorted(path.name for path in folders["ours"].iterdir())
    assert len(names) >= 7 * frame_skip
    for name in names:
        assert np.array_equal(pixels(folders["theirs"] / name), pixels(folders["ours"] / name)), (
            name
        )


def test_recording_changes_no_frame(tmp_path: Path) -> None:
    shown = []
    for records in (False, True):
        _, ale = both()[1]
        ale.setInt("frame_skip", 3)
        ale.setInt("reward_max", 20)
        ale.setFloat("repeat_action_probability", 0.25)
        ale.setBool("sound_obs", True)
        if records:
            ale.setString("record_screen_dir", str(tmp_path))
        ale.loadROM(rom_path("ms_pacman"))
        shown.append(
            [(ale.act(i % 9), ale.getRAM().tobytes(), ale.getAudio().tobytes()) for i in range(99)]
        )
    assert shown[0] == shown[1]


@pytest.mark.parametrize("game", ["breakout", "berzerk"])
def test_sound_of_every_frame(game: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")  # a sound card that plays nothing
    heard = []
    for name, ale in both():
        ale.setBool("sound", True)
        ale.setBool("sound_obs", name == "ours")
        ale.setString("record_sound_filename", str(tmp_path / f"{name}.wav"))
        ale.loadROM(str(rom_path(game)))
        for i in range(200):
            ale.act(i // 4 % 6 if name == "ours" else load_ale_py().Action(i // 4 % 6))
            if name == "ours":
                heard.append(ale.getAudio())
    del ale
    files = (str(tmp_path / f"{name}.wav") for name in ("theirs", "ours"))
    with wave.open(next(files)) as theirs, wave.open(next(files)) as ours:
        assert ours.getparams()._replace(nframes=0) == theirs.getparams()._replace(nframes=0)
        samples = np.frombuffer(ours.readframes(ours.getnframes()), np.uint8)
    # ale-py's file holds what the sound card has asked for meanwhile; ours holds every frame.
    assert np.array_equal(samples[-200 * 512 :], np.concatenate(heard))
    assert len(np.unique(samples)) > 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_what_is_no_regular_file_is_not_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, ale = both()[1]
    for name in ("000000.png", "a.wav"):
        os.mkfifo(tmp_path / name)  # which would wait for a reader
    ale.setBool("sound", True)
    ale.setString("record_screen_dir", str(tmp_path))
    ale.setString("record_sound_filename", str(tmp_path / "a.wav"))
    ale.loadROM(rom_path("pong"))
    ale.act(0)
    assert caplog.text.count("cannot be written: it is no regular file") == 2
    with pytest.raises(cule.InvalidArgumentError, match="it is no regular file"):
        ale.saveScreenPNG(str(tmp_path / "a.wav"))


def test_without_sound_there_is_no_file(tmp_path: Path) -> None:
    for name, ale in both():
        ale.setString("record_sound_filename", str(tmp_path / f"{name}.wav"))
        ale.loadROM(str(rom_path("pong")))
        ale.reset_game()
        del ale
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(pong: cule.ALEInterface, tmp_path: Path) -> None:
    before = pong.cloneSystemState()
    pong.setString("record_screen_dir", str(tmp_path / "missing"))
    with pytest.raises(RuntimeError, match=r"record_screen_dir.*missing"):
        pong.loadROM(rom_path("breakout"))
    assert pong.cloneSystemState() == before


@pytest.mark.parametrize("include_rng", [False, True])
@pytest.mark.parametrize("game", ["pong", "breakout"])
def test_a_restored_state_is_the_saved_one(game: str, include_rng: bool) -> None:
    equalities = {}
    for name, ale in both():
        action = (lambda number: number) if name == "ours" else load_ale_py().Action
        ale.setFloat("repeat_action_probability", 0.25)
        ale.loadROM(str(rom_path(game)))
        for i in range(40):
            ale.act(action(i % 4))
        state = ale.cloneState(include_rng=include_rng)
        other = ale.cloneState(include_rng=not include_rng)
        found = equalities[name] = [state == ale.cloneState(include_rng=include_rng)]
        found.append(state == other)
        ale.act(action(3))
        found.append(state == ale.cloneState(include_rng=include_rng))
        ale.restoreState(state)
        found.append(state == ale.cloneState(include_rng=include_rng))
        found.append(other == ale.cloneState(include_rng=not include_rng))
        ale.setMode(4 if game == "breakout" else 1)
        found.append(state == ale.cloneState(include_rng=include_rng))
        ale.setMode(0)
        ale.setDifficulty(1)
        found.append(state == ale.cloneState(include_rng=include_rng))
        ale.restoreState(state)
        found.append(state == ale.cloneState(include_rng=include_rng))
    assert equalities["ours"] == equalities["theirs"]
    assert equalities["ours"][:4] == [True, False, False, True]
