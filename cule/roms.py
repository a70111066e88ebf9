"""Where the ROM files of games are, as ``ale_py.roms`` has it."""

from __future__ import annotations

from pathlib import Path

from cule.errors import UnknownGameError, warn
from cule.games import find_rom, game_id_of, load_roms


def get_all_rom_ids() -> list[str]:
    """Ids of all known ROMs, those without single-player rules included."""
    return sorted(load_roms())


def get_rom_path(name: str) -> Path | None:
    """The file of a ROM, found by its bytes; None, after a warning, for an unknown name.

    Args:
        name: Name of the game in any usual spelling, as in ``ms_pacman``.

    Raises:
        InvalidArgumentError: `name` is no string.
        RomNotFoundError: No file of this ROM was found.
    """
    try:
        rom_id = game_id_of(name)
    except UnknownGameError as error:
        warn(str(error))
        return None
    return find_rom(rom_id, (load_roms()[rom_id].md5,)).path
