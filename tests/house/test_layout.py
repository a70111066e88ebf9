"""The core compiles on its own, header by header, and asks the compiler's name in one file only."""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.cases import long_except

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "csrc"

#: The rooms that nvcc and a run-time compiler get as they are.
CORE = ("base", "cart", "cpu", "riot", "tia", "console", "game", "obs", "env", "warp")

#: What a preprocessor condition may ask outside platform.hpp: what platform.hpp has defined.
CONDITIONS = {
    *(
        f"#if defined(CULE_{what})"
        for what in (
            "ARM64",
            "AVX2",
            "HAS_AFFINITY",
            "HAS_JIT",
            "HAS_LARGE_PAGES",
            "HAS_REDUCE",
            "NEON",
            "SSE2",
            "VECTOR",
        )
    ),
    *("#else", "#endif"),
}

WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Werror")


def core_headers() -> list[Path]:
    """Every header of the core."""
    return sorted(path for room in CORE for path in (CSRC / room).glob("*.hpp"))


def sources() -> list[Path]:
    """Every C++ file."""
    return sorted(path for path in CSRC.rglob("*") if path.suffix in (".hpp", ".cpp"))


def tracked_files() -> list[Path]:
    """What git tracks; everything needs a git checkout with git at hand."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize(
    "header",
    long_except(core_headers(), every=16),
    ids=lambda path: str(path.relative_to(CSRC)),
)
def test_header_compiles_alone(header: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    assert compiler is not None, "a C++17 compiler is needed to build cule at all"
    command = [compiler, "-std=c++17", "-fsyntax-only", *WARNINGS, f"-I{CSRC}", "-x", "c++", "-"]
    text = f'#include "{header.relative_to(CSRC)}"\n'
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(CSRC)))
def test_platform_hpp_alone_asks_for_the_compiler(path: Path) -> None:
    if path == CSRC / "base" / "platform.hpp":
        return
    lines = re.findall(r"^\s*#\s*((?:if|elif|else|endif)\b.*)$", path.read_text(), re.MULTILINE)
    assert {"#" + line.partition("//")[0].strip() for line in lines} <= CONDITIONS


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(CSRC)))
def test_macros_are_defined_in_platform_hpp_alone(path: Path) -> None:
    if path != CSRC / "base" / "platform.hpp":
        assert not re.search(r"^\s*#\s*define\b", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("header", core_headers(), ids=lambda path: str(path.relative_to(CSRC)))
def test_header_says_what_it_is(header: Path) -> None:
    lines = header.read_text().splitlines()
    assert "#pragma once" in lines
    if ".generated." not in header.name:
        assert lines[0].startswith(f"// {header.relative_to(CSRC)}: "), lines[0]


def test_every_chip_room_has_its_facts() -> None:
    for room in (*CORE[1:], "batch", "host", "jit", "cuda", "rom_kernel"):
        lines = (CSRC / room / "NOTES.md").read_text().splitlines()
        assert lines[0] == f"# {room}: facts"
        # Nothing has reflowed it: no line of prose is indented further than a list's, or too long.
        prose = [line for line in lines if not line.lstrip().startswith("|")]
        assert all(len(line) <= 124 and not line.startswith(" " * 7) for line in prose), room


def cited_sections() -> list[tuple[str, str, str]]:
    """(file, room, section) for every citation of a NOTES.md in the C++ files."""
    found = []
    for path in sources():
        name = str(path.relative_to(CSRC))
        for match in re.finditer(r"(?:(\w+)/)?NOTES\.md ([0-9.]+(?:, [0-9.]+)*)", path.read_text()):
            room = match[1] or name.split("/")[0]
            found += [(name, room, section.rstrip(".")) for section in match[2].split(", ")]
    return found


@pytest.mark.parametrize(("name", "room", "section"), cited_sections())
def test_cited_section_exists(name: str, room: str, section: str) -> None:
    notes = (CSRC / room / "NOTES.md").read_text()
    # A section is a heading, "## 3. Title" or "### 3.1 Title"; its facts may be a numbered list.
    top, _, item = section.partition(".")
    heading = rf"^#+ {re.escape(section)}\.? "
    body = re.search(rf"^## {top}\. .*?(?=^## |\Z)", notes, re.MULTILINE | re.DOTALL)
    in_list = body is not None and item and re.search(rf"^{item}\. ", body[0], re.MULTILINE)
    assert re.search(heading, notes, re.MULTILINE) or in_list, (
        f"{name} cites {room}/NOTES.md {section}"
    )


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(CSRC)))
def test_cited_documents_exist(path: Path) -> None:
    for document in re.findall(r"[\w/]+\.md\b", path.read_text()):
        folders = (path.parent, CSRC, ROOT, ROOT / "benchmarks")
        assert any((folder / document).is_file() for folder in folders), document


def documents() -> list[Path]:
    """The pages in Markdown."""
    folders = (ROOT, ROOT / "benchmarks", ROOT / "docs")
    return sorted(
        [*(path for folder in folders for path in folder.glob("*.md")), *CSRC.rglob("*.md")]
    )


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_named_in_documents_exist(path: Path) -> None:
    others = (
        "batch",
        "host",
        "cuda",
        "rom_kernel",
        "benchmarks",
        "csrc",
        "cule",
        "roms_tools",
        "tests",
    )
    folders = "|".join((*CORE, *others))
    names = re.findall(rf"`((?:{folders})/[\w/.]+\.\w+)`", path.read_text())
    for name in names:
        assert any((folder / name).exists() for folder in (ROOT, CSRC)), name


def test_nothing_tracked_looks_like_a_rom() -> None:
    for path in tracked_files():
        data = path.read_bytes()
        is_picture = path.suffix == ".png" and data.startswith(b"\x89PNG\r\n")
        is_checkpoint = path.name.endswith(".pt.xz") and lzma.decompress(data).startswith(b"PK")
        is_known = is_picture or is_checkpoint or path.match("zoo/cule_zoo/*.safetensors")
        assert is_known or b"\0" not in data, f"{path.relative_to(ROOT)} is binary"
        assert path.suffix not in (".a26", ".bin", ".rom"), path
