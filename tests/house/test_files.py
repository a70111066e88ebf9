"""Rules for every file: its length, and no ROM in the repository or its packages."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from cule.games import load_roms
from cule.games.roms import md5_of

ROOT = Path(__file__).parents[2]
MAX_LINES = 620

CODE = (".py", ".pyi", ".hpp", ".cpp", ".cu", ".cuh")
SKIPPED = {".git", "build", "dist", "__pycache__"}


def files() -> list[Path]:
    """Every file of the checkout, except in folders of tools and virtual environments."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED]
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        found += [Path(folder, name) for name in names]
    return sorted(found)


def test_no_file_is_too_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in files()
        if path.suffix in CODE and ".generated." not in path.name
        if (lines := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert not long


def test_generated_files_say_how_they_are_made() -> None:
    for path in files():
        if ".generated." in path.name:
            assert "roms_tools" in path.read_text().splitlines()[0], path


def test_no_rom_is_in_the_checkout() -> None:
    known = {info.md5 for info in load_roms().values()}
    for path in files():
        assert md5_of(path.read_bytes()) not in known, path


@pytest.mark.slow
def test_packages_hold_what_they_need_and_no_rom(tmp_path: Path) -> None:
    pytest.importorskip("build.__main__")  # a folder of that name is no such package
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    known = {info.md5 for info in load_roms().values()}

    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert not [name for name in names if md5_of(archive.read(name)) in known]
    data = ("cule/games/data/games.toml", "cule/watch/page.html")
    for needed in ("cule/py.typed", "cule/_core.pyi", *data):
        assert needed in names
    assert any(name.startswith("cule/_core.") and name.endswith(".so") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"cule"}

    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        for member in members:
            stream = archive.extractfile(member)
            assert stream is not None
            assert md5_of(stream.read()) not in known, member.name
    inside = {member.name.partition("/")[2] for member in members}
    assert {"CMakeLists.txt", "pyproject.toml", "LICENSE", "csrc/bindings/module.cpp"} <= inside
