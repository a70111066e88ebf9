"""ROM files: reading, identifying and finding them.

In: a game id, or a path. Out: bytes whose MD5 is that of the game. The MD5 alone identifies a file;
its name does not matter. Files can be plain or gzip-compressed.

Search order:

1. the folder in the environment variable ``CULE_ROM_DIR`` and its subfolders;
2. the user's ROM folder, the default target of `import_roms`;
3. the ROMs of ale-py, if it is installed (it is not imported).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import zipfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from gzip import BadGzipFile
from pathlib import Path
from typing import Literal

from cule.errors import InvalidArgumentError, RomNotFoundError, UnsupportedRomError, shown
from cule.files import expanded, home, replace_bytes
from cule.games.schema import load_roms
from cule.reading import MAX_ROM_BYTES, MAX_ZIP_MEMBERS, open_regular, read_packed

ROM_DIR_VARIABLE = "CULE_ROM_DIR"
ROM_SUFFIXES = (".bin", ".a26", ".rom", ".gz")

#: Archives that `import_roms` does not read.
OTHER_ARCHIVES = (".7z", ".rar", ".tar", ".tgz")

#: Compressions of members of a zip archive: of others, zipfile unpacks more than it is asked for.
_ZIP_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

Source = Literal["rom_path", "CULE_ROM_DIR", "user folder", "ale_py"]


@dataclass(frozen=True)
class RomFile:
    """One ROM file that was read."""

    path: Path
    source: Source
    data: bytes  # decompressed

    @property
    def md5(self) -> str:
        """MD5 of the decompressed bytes, as 32 hexadecimal digits."""
        return md5_of(self.data)


@dataclass(frozen=True)
class RomStatus:
    """The state of the ROM of one game."""

    rom_id: str
    path: Path | None  # the file, with the right MD5 or not; None: not found
    source: Source | None
    md5_ok: bool  # whether the MD5 is right
    playable: bool  # whether there are rules for it


@dataclass(frozen=True)
class ImportReport:
    """The result of `import_roms`."""

    target: Path
    imported: dict[str, Path]  # ROM id to the new file
    already_there: tuple[str, ...]  # ROM ids
    unrecognised: tuple[str, ...]  # files, and members of archives, whose MD5 is unknown
    unread: tuple[str, ...]  # archives and members that were not read, with the reason


def md5_of(data: bytes) -> str:
    """MD5 of the bytes, as 32 hexadecimal digits."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def rom_stem(path: Path) -> str:
    """Name of a ROM file in lower case, without its suffixes."""
    name = path.name.lower().removesuffix(".gz")
    return name.rsplit(".", 1)[0] if "." in name[1:] else name


def read_rom(path: Path) -> bytes:
    """Read a ROM file, plain or gzip-compressed.

    Raises:
        RomNotFoundError: The file does not exist or cannot be read.
        UnsupportedRomError: The file is empty, truncated or too large.
    """
    try:
        with open_regular(path) as file:
            data = read_packed(file, MAX_ROM_BYTES)
    except (EOFError, zlib.error, BadGzipFile) as error:
        raise UnsupportedRomError(f"{path} is a truncated or damaged gzip file: {error}") from None
    except IsADirectoryError:
        raise RomNotFoundError(f"{path} is a folder; a ROM is a single file") from None
    except FileNotFoundError:
        raise RomNotFoundError(f"there is no ROM file {path}") from None
    except OSError as error:
        name = shown(str(path))
        raise RomNotFoundError(f"cannot read ROM file {name}: {error.strerror or error}") from None
    except ValueError as error:  # a null character, or one that no file's name has
        raise RomNotFoundError(f"cannot read ROM file {shown(str(path))}: {error}") from None
    if not data:
        raise UnsupportedRomError(f"{path} is empty")
    if len(data) > MAX_ROM_BYTES:
        raise UnsupportedRomError(
            f"{path} holds more than {MAX_ROM_BYTES} bytes; no Atari 2600 cartridge is that large"
        )
    return data


def user_rom_folder() -> Path:
    """The user's own ROM folder: under ``XDG_DATA_HOME``, or ``~/.local/share``."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else home() / ".local" / "share") / "cule" / "roms"


def rom_folders() -> list[tuple[Source, Path]]:
    """The existing ROM folders, in search order.

    Raises:
        RomNotFoundError: ``CULE_ROM_DIR`` is set, but is not a folder.
    """
    folders: list[tuple[Source, Path]] = []
    named = os.environ.get(ROM_DIR_VARIABLE)
    if named:
        folder = expanded(named)
        if not os.path.isdir(folder):  # Path.is_dir can raise an OSError
            raise RomNotFoundError(f"{ROM_DIR_VARIABLE} is {shown(named)}, which is not a folder")
        folders.append(("CULE_ROM_DIR", folder))
    folders.append(("user folder", user_rom_folder()))
    spec = importlib.util.find_spec("ale_py")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folders.append(("ale_py", Path(location) / "roms"))
    return [(source, folder) for source, folder in folders if os.path.isdir(folder)]


def find_rom(name: str, digests: Collection[str]) -> RomFile:
    """Find a ROM with one of some MD5 digests in the ROM folders; files named so come first.

    Raises:
        RomNotFoundError: No file has one of these digests; the message names near misses.
    """
    wrong = []
    for source, folder in rom_folders():
        first = folder / f"{name}.bin"
        for path in sorted(_rom_files(folder), key=lambda path: path != first):
            digest = _file_md5(path)
            if digest in digests:
                return RomFile(path, source, read_rom(path))
            if digest is not None and rom_stem(path) == name:
                wrong.append(f"{path} is not it: its MD5 is {digest}")
    searched = ", ".join(f"{folder} ({source})" for source, folder in rom_folders()) or "no folder"
    near = "; ".join(wrong) + "; " if wrong else ""
    raise RomNotFoundError(
        f"no ROM of {shown(name)} (MD5 {' or '.join(sorted(digests))}) in {searched}; "
        f"{near}install ale-py, which brings its ROMs, or set {ROM_DIR_VARIABLE} to a folder of "
        "ROMs, or pass rom_path"
    )


def rom_status() -> list[RomStatus]:
    """Look for every known ROM, including ROMs of games without rules.

    Returns:
        One entry per ROM, in the order of the data file.

    Raises:
        RomNotFoundError: ``CULE_ROM_DIR`` is set, but is not a folder.
    """
    by_digest: dict[str, tuple[Source, Path]] = {}
    by_stem: dict[str, tuple[Source, Path]] = {}
    for source, folder in rom_folders():
        for path in _rom_files(folder):
            by_stem.setdefault(rom_stem(path), (source, path))
            digest = _file_md5(path)
            if digest is not None:
                by_digest.setdefault(digest, (source, path))
    statuses = []
    for info in load_roms().values():
        right = by_digest.get(info.md5)
        source_found, path_found = right or by_stem.get(info.rom_id) or (None, None)
        statuses.append(
            RomStatus(
                info.rom_id, path_found, source_found, right is not None, info.single_player_game
            )
        )
    return statuses


def import_roms(source: str | Path, target: Path | None = None) -> ImportReport:
    """Copy the known ROMs of a folder or zip archive, decompressed and named after their games.

    Args:
        source: A folder, searched with its subfolders and the zip archives in it, or an archive.
        target: Destination; by default ``CULE_ROM_DIR`` or, if unset, the user's ROM folder.

    Raises:
        InvalidArgumentError: `source` is neither, or a file in `target` has the name of a ROM but
            other bytes; nothing is copied.
        StorageError: A file cannot be written; those before it have been imported.
    """
    source = Path(source)
    if not os.path.isdir(source) and not (os.path.isfile(source) and zipfile.is_zipfile(source)):
        raise InvalidArgumentError(
            f"source is {shown(str(source))}, which is neither a folder nor a zip archive"
        )
    if target is None:
        named = os.environ.get(ROM_DIR_VARIABLE)
        target = expanded(named) if named else user_rom_folder()
    known = {info.md5: info.rom_id for info in load_roms().values()}
    found: dict[str, bytes] = {}
    unrecognised, unread = [], []
    for name, data in _contents(source):
        if isinstance(data, str):
            unread.append(f"{name}: {data}")
            continue
        rom_id = known.get(md5_of(data))
        if rom_id is None:
            unrecognised.append(name)
        else:
            found.setdefault(rom_id, data)

    already_there = []
    for rom_id in found:
        file = target / f"{rom_id}.bin"
        if os.path.exists(file):
            if known.get(_file_md5(file) or "") != rom_id:
                raise InvalidArgumentError(f"target: {file} is there already, with other bytes")
            already_there.append(rom_id)

    imported = {}
    for rom_id, data in found.items():
        if rom_id not in already_there:
            imported[rom_id] = target / f"{rom_id}.bin"
            replace_bytes(imported[rom_id], data)
    return ImportReport(target, imported, tuple(already_there), tuple(unrecognised), tuple(unread))


def _contents(source: Path) -> Iterator[tuple[str, bytes | str]]:
    """Names and bytes of possible ROMs, or why they were not read."""
    if source.is_file():
        yield from _zip_contents(source)
        return
    for path in _files(source):
        name = path.name.lower()
        if name.endswith(ROM_SUFFIXES):
            try:
                yield str(path), read_rom(path)
            except (RomNotFoundError, UnsupportedRomError) as error:
                yield str(path), str(error)
        elif name.endswith(".zip") and os.path.isfile(path):
            yield from _zip_contents(path)
        elif name.endswith(OTHER_ARCHIVES):
            yield str(path), "an archive of this kind is not read; unpack it"


def _zip_contents(path: Path) -> Iterator[tuple[str, bytes | str]]:
    """Read the members of a zip archive in memory, as `_contents`: their names are only shown."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            for member in members[:MAX_ZIP_MEMBERS]:
                name, suffix = f"{path}/{member.filename}", Path(member.filename).suffix.lower()
                if suffix in (".zip", *OTHER_ARCHIVES):
                    yield name, "an archive in an archive is not read; unpack it"
                elif suffix in ROM_SUFFIXES:
                    yield name, _zip_member(archive, member)
            if len(members) > MAX_ZIP_MEMBERS:
                left_out = len(members) - MAX_ZIP_MEMBERS
                yield str(path), f"only {MAX_ZIP_MEMBERS} members were read, {left_out} left out"
    except Exception as error:  # what zipfile raises depends on the damage
        yield str(path), f"not a readable zip archive: {error}"


def _zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes | str:
    if member.compress_type not in _ZIP_KINDS:
        return "a member that is compressed in this way is not read; unpack it"
    try:
        with archive.open(member) as file:
            data = read_packed(io.BytesIO(file.read(MAX_ROM_BYTES + 1)), MAX_ROM_BYTES)
    except Exception as error:  # damaged, encrypted, or compressed in another way
        return f"cannot be read: {error}"
    return data if len(data) <= MAX_ROM_BYTES else f"holds more than {MAX_ROM_BYTES} bytes"


def _files(folder: Path) -> list[Path]:
    """All files in a folder and its subfolders, in a fixed order."""
    found: list[Path] = []
    folders = [folder]
    while folders:  # os.walk of Python 3.11 has as many levels as the folders
        inside: list[Path] = []
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                (inside if is_folder else found).append(Path(entry.path))
        folders += inside
    return sorted(found)


def _rom_files(folder: Path) -> list[Path]:
    """Possible ROM files in a folder and its subfolders, in a fixed order."""
    return [path for path in _files(folder) if path.name.lower().endswith(ROM_SUFFIXES)]


#: MD5 of files read before, by path, size and modification time; None: not a ROM.
_digests: dict[tuple[str, int, int], str | None] = {}


def _file_md5(path: Path) -> str | None:
    try:
        status = path.stat()
        key = (str(path), status.st_size, status.st_mtime_ns)
        if key not in _digests:
            _digests[key] = md5_of(read_rom(path))
    except UnsupportedRomError:
        _digests[key] = None
    except OSError:  # also RomNotFoundError
        return None
    return _digests[key]
