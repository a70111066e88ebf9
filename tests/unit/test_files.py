"""Files that a command writes: complete or absent, readable by whom the umask allows, and named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cule.errors import StorageError
from cule.files import format_bytes, replace_text, writing
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

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match=r"a\.json cannot be written: No space .* has 2\.5 kB"):
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
