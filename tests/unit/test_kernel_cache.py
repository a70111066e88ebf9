"""Compiled kernels on disk (cule.envs.kernel_cache)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cule.envs import kernel_cache

FOR = {"game": "pong", "architecture": "90"}
CODE = b"\x7fELF\nmachine code\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CULE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_stored_is_loaded(folder: Path) -> None:
    assert kernel_cache.load("pong", FOR) is None
    kernel_cache.store("pong", FOR, CODE)
    assert kernel_cache.load("pong", FOR) == CODE
    assert list(folder.iterdir()) == [kernel_cache.path_of("pong", FOR)]
    kernel_cache.store("pong", FOR, b"newer")
    assert kernel_cache.load("pong", FOR) == b"newer"
    kernel_cache.discard("pong", FOR)
    assert kernel_cache.load("pong", FOR) is None


def test_every_word_counts() -> None:
    kernel_cache.store("pong", FOR, CODE)
    for word in FOR:
        assert kernel_cache.load("pong", {**FOR, word: "other"}) is None
    assert kernel_cache.load("pong", FOR) == CODE


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: content[:-2] + b"?\n",
        lambda content: content.replace(b"90", b"80"),
        lambda content: CODE,
        lambda content: content.partition(b"\n")[0],
    ],
)
def test_a_damaged_file_is_deleted(damage: object) -> None:
    kernel_cache.store("pong", FOR, CODE)
    path = kernel_cache.path_of("pong", FOR)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert kernel_cache.load("pong", FOR) is None
    assert not path.exists()


def test_a_file_of_something_else_is_deleted() -> None:
    other = {**FOR, "game": "breakout"}
    kernel_cache.store("pong", other, CODE)
    path = kernel_cache.path_of("pong", FOR)
    os.rename(kernel_cache.path_of("pong", other), path)
    assert kernel_cache.load("pong", FOR) is None
    assert not path.exists()


def test_a_folder_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CULE_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match="file"):
        kernel_cache.load("pong", FOR)
    with pytest.raises(OSError, match="file"):
        kernel_cache.store("pong", FOR, CODE)


def test_a_write_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="no space"):
        kernel_cache.store("pong", FOR, CODE)
    assert list(folder.iterdir()) == []
