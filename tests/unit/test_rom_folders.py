"""Folders of ROMs that hold anything: FIFOs, devices, other folders without end, names of no text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cule.cli import main
from cule.envs.kernel_cache import cache_folder
from cule.errors import InvalidArgumentError, RomNotFoundError, StorageError
from cule.games import import_roms, resolve, rom_status
from tests.support.api import rom_path


@pytest.mark.skipif(os.name == "nt", reason="a path is short there")
def test_folders_in_each_other_without_end(tmp_path: Path) -> None:
    place = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(1500):
            Path("folder").mkdir()
            os.chdir("folder")
        Path("a.zip").write_bytes(b"PK")
    finally:
        os.chdir(place)
    try:
        report = import_roms(tmp_path, tmp_path / "target")
    finally:  # pytest cannot remove them
        subprocess.run(["rm", "-rf", tmp_path / "folder"], check=True)
    assert not report.imported


def test_a_user_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    pwd = pytest.importorskip("pwd")

    def unknown(_: object) -> None:
        raise KeyError

    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "CULE_CACHE", "CULE_ROM_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("getpwuid", "getpwnam"):
        monkeypatch.setattr(pwd, name, unknown)
    assert not cache_folder().exists()
    assert "user folder" not in {status.source for status in rom_status()}
    with pytest.raises(RomNotFoundError, match=r"~someone/pong\.bin"):
        resolve("pong", "~someone/pong.bin")
    monkeypatch.setenv("CULE_ROM_DIR", "~someone/roms")
    with pytest.raises(RomNotFoundError, match="CULE_ROM_DIR is '~someone/roms'"):
        rom_status()


def test_names_that_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("a" * 5000)
    monkeypatch.setenv("XDG_DATA_HOME", str(long))
    assert "user folder" not in {status.source for status in rom_status()}
    with pytest.raises(InvalidArgumentError, match="neither a folder nor a zip archive"):
        import_roms(long)
    monkeypatch.setenv("CULE_ROM_DIR", str(long))
    with pytest.raises(RomNotFoundError, match="which is not a folder"):
        rom_status()


@pytest.mark.ale
def test_a_target_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    for target in ("target", "target/inside", "a" * 5000):
        with pytest.raises(StorageError, match="cannot be written"):
            import_roms(Path(rom_path("pong")).parent, tmp_path / target)
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_what_is_no_regular_file_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pong.bin", "a.zip", "b.gz"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "c.bin").symlink_to("/dev/zero")
    monkeypatch.setenv("CULE_ROM_DIR", str(tmp_path))
    assert rom_status()
    report = import_roms(tmp_path, tmp_path / "target")
    assert len(report.unread) == 3
    with pytest.raises(InvalidArgumentError, match="neither a folder nor a zip archive"):
        import_roms(tmp_path / "a.zip")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes there")
def test_names_do_not_reach_the_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (b"\x1b[2J.bin", b"\xff.bin", b"a\nb.gz"):
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).write_bytes(b"x" * 2048)
    assert main(["roms", "import", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "\\x1b[2J.bin: no known ROM" in text
    assert "\\udcff.bin: no known ROM" in text
    assert "a\\nb.gz: no known ROM" in text
    text.encode("ascii")
