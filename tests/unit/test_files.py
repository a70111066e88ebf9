"""Files that a command writes: complete or absent, readable by whom the umask allows, and named."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from cule.cli import main
from cule.errors import CheckpointError, RomNotFoundError, StorageError
from cule.files import (
    check_no_device,
    check_writable,
    format_bytes,
    remove_leftovers,
    replace_text,
    writing,
)
from cule.games.roms import read_rom
from tests.support.small_files import cule_with_small_files


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_permissions_of_any_new_file(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        replace_text(tmp_path / "a.json", "1\n")
    finally:
        os.umask(before)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == mode
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_an_older_file_stays_where_the_new_one_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_text(tmp_path / "a.json", "old")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    def free_bytes(folder: Path) -> int:
        return 7_000 - sum(path.stat().st_size for path in folder.iterdir())

    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr("cule.files._free_bytes", free_bytes)
    message = r"a\.json cannot be written: No space .* has 2\.5 kB, and 7 kB are free"
    with pytest.raises(StorageError, match=message):  # without what has been written of it
        replace_text(tmp_path / "a.json", "x" * 2_500)
    assert (tmp_path / "a.json").read_text() == "old"
    message = r"b\.png cannot be written: .*; none of it written"
    with pytest.raises(StorageError, match=message), writing(tmp_path / "b.png"):
        fail(0)


def test_sizes() -> None:
    sizes = (0, 999, 1_000, 14_825_053, 3 * 10**12)
    assert [format_bytes(n) for n in sizes] == ["0 bytes", "999 bytes", "1 kB", "14.8 MB", "3 TB"]


@pytest.mark.ale
@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "file"),
    [
        (
            [
                *("bench", "--games", "pong", "--num-envs", "2", "--seconds", "0", "--rounds", "2"),
                *("--round-steps", "2", "--engines", "cule-cpu", "--no-memory", "--threads", "1"),
                *("--load", "emulation", "--out", "{folder}/bench"),
            ],
            "bench/records/emulation-2-pong.json",
        ),
        (
            [
                *("check", "--device", "cpu", "--games", "pong", "--num-envs", "2"),
                *("--steps", "2", "--seconds", "0.01", "--out", "{folder}/check.json"),
            ],
            "check.json",
        ),
    ],
)
def test_a_full_disk_ends_a_command_with_one_line(
    words: list[str], file: str, tmp_path: Path
) -> None:
    done = cule_with_small_files(100, [word.format(folder=tmp_path) for word in words])
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"cule: {tmp_path}/{file} cannot be written: File too large; it has ")
    assert not (tmp_path / file).exists()


@pytest.mark.parametrize(
    "words",
    ["record --game pong --out", "check --out", "eval no.pt --json", "eval no.pt --video"],
)
def test_a_command_cannot_write_and_says_so_before_its_work(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if words.startswith("eval"):
        pytest.importorskip("torch")
    if words.endswith("video"):
        pytest.importorskip("imageio_ffmpeg")
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "name.mp4"
    assert main([*words.split(), str(path)]) == 2
    assert f"{path} cannot be written: " in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    assert torch is not None
    from cule.agents.run.checkpoint import read_checkpoint
    from cule.agents.run.folders import read_config, read_rows
    from cule.agents.run.weights import read_weights
    from cule.datasets import open_dataset

    os.mkfifo(tmp_path / "config.json")
    for read in (read_checkpoint, read_weights, open_dataset):
        with pytest.raises(OSError, match="no regular file"):
            read(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="does not hold the options"):
        read_config(tmp_path)
    with pytest.raises(CheckpointError, match=r"does not hold rows of a run.*no regular file"):
        read_rows(tmp_path / "config.json")


def test_a_signal_while_a_file_is_opened_is_no_error_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rom.bin"
    path.write_bytes(bytes(4096))
    fdopen = os.fdopen

    def interrupted(handle: int, mode: str) -> None:
        fdopen(handle, mode).close()  # as a file without a name is
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fdopen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_rom(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_what_is_no_regular_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "folder"):
        with pytest.raises(StorageError, match=f"{name} cannot be written: it is no regular file"):
            replace_text(tmp_path / name, "new")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # addresses of sockets are short
        server.bind("socket")
        with pytest.raises(StorageError, match="socket cannot be written: it is no regular file"):
            replace_text("socket", "new")
        assert stat.S_ISSOCK((tmp_path / "socket").stat().st_mode)
    with pytest.raises(StorageError, match="/dev/null cannot be written"):
        replace_text("/dev/null", "new")
    assert main(["record", "--game", "pong", "--out", "/dev/null"]) == 2
    assert "/dev/null cannot be written: it is no regular file" in capsys.readouterr().err
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    for name in ("fifo", "/dev/null"):
        with pytest.raises(OSError, match="it is no regular file"):
            check_no_device(name)
    with pytest.raises(RomNotFoundError, match="no regular file"):
        read_rom(tmp_path / "fifo")


@pytest.mark.skipif(os.name == "nt", reason="modes and links are those of POSIX")
def test_a_file_keeps_its_mode_and_the_links_to_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "link").symlink_to("file")
    replace_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name == "nt", reason="links are those of POSIX")
@pytest.mark.parametrize(("name", "goal"), [("a", "a"), ("a", "b"), ("c", "a"), ("c", "a/d")])
def test_a_link_that_leads_back_to_itself_stays(name: str, goal: str, tmp_path: Path) -> None:
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "a").symlink_to(goal if name == "a" else "b")
    if name != "a":
        (tmp_path / name).symlink_to(goal)
    before = {path.name: os.readlink(path) for path in tmp_path.iterdir()}
    for write in (lambda path: replace_text(path, "new"), check_writable):
        with pytest.raises(StorageError, match=rf"/{name} cannot be written: "):
            write(tmp_path / name)
    assert {path.name: os.readlink(path) for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127])
def test_a_name_can_be_as_long_as_the_system_allows(name: str, tmp_path: Path) -> None:
    replace_text(tmp_path / name, "new")
    assert (tmp_path / name).read_text() == "new"
    with pytest.raises(StorageError, match="cannot be written"):
        replace_text(tmp_path / (name + "nn"), "new")


@pytest.mark.skipif(os.name == "nt", reason="partial files are locked on POSIX only")
def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    import fcntl

    for name in (".a.npz.0.part", ".a.npz.1.part", ".b.npz.2.part"):
        (tmp_path / name).write_bytes(b"part")
        os.utime(tmp_path / name, (0, 0))
    with (tmp_path / ".a.npz.1.part").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # of a writer that is at work
        replace_text(tmp_path / "a.npz", "new")
        assert sorted(os.listdir(tmp_path)) == [".a.npz.1.part", ".b.npz.2.part", "a.npz"]
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["a.npz"]
