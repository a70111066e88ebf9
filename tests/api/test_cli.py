"""The command line: what it prints, and its exit status."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cule
from cule import __version__
from cule.cli import COMMANDS, main
from tests.support.api import rom_path


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, so that no ROM of this machine's user is found or written."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("CULE_ROM_DIR", raising=False)
    return tmp_path


@pytest.mark.ale
def test_info(capsys: pytest.CaptureFixture[str], own_folders: Path) -> None:
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    for text in (__version__, "gymnasium", "ale-py", "build: cuda", "ROMs: ale_py", "104 of 104"):
        assert text in printed
    env = cule.AtariVectorEnv("pong", 1)
    kind = "translated" if env.running_kernel.name == "compiled" else "interpreted"
    assert re.search(rf"games on the CPU +{kind}", printed) is not None


COMMAND_WORDS = [[name] for name in COMMANDS] + [["train", "ppo"], ["train", "dqn"]]


@pytest.mark.parametrize("words", COMMAND_WORDS, ids=" ".join)
def test_help_is_plain_text(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if words[0] in ("train", "sweep", "plot", "eval"):
        pytest.importorskip("torch")
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "`" not in printed
    if words == ["train"]:
        assert "cule train ALGO --help" in printed
    if words == ["sweep"]:
        assert "cule train PRESET --help" in printed


def test_modifications(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mods", "list", "Pong"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 18 + 22
    assert re.fullmatch(r"pong +frozen_enemy\(y=30\.\.200\) +The opponent's .*", lines[1])
    assert main(["mods", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 417
    assert main(["mods", "show", "pong", "frozen_enemy"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^defaults  y=100$", printed, re.MULTILINE)
    assert printed.endswith("\npoke(21, y)\n")
    assert main(["mods", "show", "pong", "frozen"]) == 2
    assert "'frozen'; pong has lazy_enemy" in capsys.readouterr().err


def test_no_command_prints_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    printed = capsys.readouterr().err
    assert all(f"    {command} " in printed for command in COMMANDS)


@pytest.mark.ale
def test_roms_list(capsys: pytest.CaptureFixture[str], own_folders: Path) -> None:
    assert main(["roms", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 104
    assert any(line.startswith("ms_pacman") and "ms_pacman.bin (ale_py)" in line for line in lines)


@pytest.mark.ale
def test_roms_verify(capsys: pytest.CaptureFixture[str], own_folders: Path) -> None:
    assert main(["roms", "verify"]) == 0
    assert "104 of 104" in capsys.readouterr().out


@pytest.mark.ale
def test_roms_verify_tells_what_is_wrong(
    capsys: pytest.CaptureFixture[str], own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = own_folders / "roms"
    folder.mkdir()
    shutil.copy(rom_path("pong"), folder / "pong.bin")
    (folder / "breakout.bin").write_bytes(b"\0" * 4096)
    monkeypatch.setenv("CULE_ROM_DIR", str(folder))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["roms", "verify"]) == 1
    printed = capsys.readouterr().out
    assert "1 of 104" in printed
    assert "breakout.bin (CULE_ROM_DIR), wrong bytes" in printed
    assert "seaquest: not found" in printed
    assert "pong: " not in printed


@pytest.mark.ale
def test_roms_rules(capsys: pytest.CaptureFixture[str], own_folders: Path) -> None:
    out = own_folders / "pong.rules"
    assert main(["roms", "rules", "Pong", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: rules of pong, for the ROM {rom_path('pong')}\n"
    before = out.read_bytes()
    assert before.startswith(b"culeRULE\2\0\0\0")
    assert main(["roms", "rules", "pong", "--rom-path", str(out), "--out", str(out)]) == 2
    assert out.read_bytes() == before
    assert main(["roms", "rules", "nonsense"]) == 2


@pytest.mark.ale
def test_roms_import(capsys: pytest.CaptureFixture[str], own_folders: Path) -> None:
    source = own_folders / "downloads"
    (source / "deep").mkdir(parents=True)
    shutil.copy(rom_path("pong"), source / "deep" / "some name.a26")
    (source / "other.bin").write_bytes(b"\0" * 4096)
    assert main(["roms", "import", str(source)]) == 0
    printed = capsys.readouterr().out
    assert "1 copied" in printed
    assert "other.bin: no known ROM" in printed
    copied = own_folders / "data" / "cule" / "roms" / "pong.bin"
    assert copied.read_bytes() == Path(rom_path("pong")).read_bytes()
    assert main(["roms", "import", str(source)]) == 0
    assert "1 there already" in capsys.readouterr().out


def test_refused_requests(
    capsys: pytest.CaptureFixture[str], own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["roms", "import", str(own_folders / "missing")]) == 2
    assert "missing" in capsys.readouterr().err
    empty = own_folders / "empty"
    empty.mkdir()
    assert main(["roms", "import", str(empty)]) == 1
    monkeypatch.setenv("CULE_ROM_DIR", str(own_folders / "missing"))
    assert main(["roms", "list"]) == 2
    assert "CULE_ROM_DIR" in capsys.readouterr().err
    for words in ([], ["nonsense"], ["roms"], ["roms", "import"]):
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 2


def test_info_reports_a_bad_folder_of_roms_and_the_rest(
    capsys: pytest.CaptureFixture[str], own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CULE_ROM_DIR", str(own_folders / "missing"))
    assert main(["info"]) == 1
    printed = capsys.readouterr().out
    assert "numpy" in printed
    assert re.search(r"ROMs +none: CULE_ROM_DIR is '.*missing', which is not a folder", printed)


def test_roms_of_an_archive_are_imported(
    capsys: pytest.CaptureFixture[str], own_folders: Path
) -> None:
    archive = own_folders / "roms.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("nonsense.bin", bytes(4096))
        file.writestr("more.7z", b"")
    assert main(["roms", "import", str(archive)]) == 1
    assert "1 not recognised, 1 not read" in capsys.readouterr().out


def test_command_is_installed() -> None:
    command = Path(sys.executable).with_name("cule")
    if not command.exists():
        pytest.skip("cule is not installed in this environment's bin folder")
    printed = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == f"cule {__version__}"


@pytest.mark.ale
@pytest.mark.skipif(os.name == "nt", reason="a shell that closes streams")
@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_standard_streams_can_be_closed(tmp_path: Path, closed: str) -> None:
    path = tmp_path / "x.cule"
    words = [sys.executable, "-m", "cule.cli", "record", "--game", "pong", "--steps", "16"]
    command = shlex.join([*words, "--out", str(path)])
    for status in (0, 2):  # then the file exists
        assert subprocess.run(f"{command} {closed}", shell=True, check=False).returncode == status
    assert path.exists()


@pytest.mark.ale
@pytest.mark.parametrize("encoding", ["ascii", "utf-8:strict"])
@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
def test_names_that_the_terminal_cannot_show(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / os.fsdecode(b"\xff\xe6\x97\xa5")
    words = [sys.executable, "-m", "cule.cli", "record", "--game", "pong", "--steps", "16"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([*words, "--out", path], env=environment, capture_output=True, check=True)
    assert b": 16 steps, 0 complete episodes" in done.stdout
    assert b"\\udcff" in done.stdout
    assert path.exists()


def test_commands_of_the_learners(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    assert "train an agent" in printed
    assert "play whole games" in printed
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for command in ("train", "eval"):
        assert main([command, "ppo"]) == 2
        assert f"cule {command} needs torch" in capsys.readouterr().err


def test_the_package_needs_no_torch() -> None:
    code = "import sys, cule, cule.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
