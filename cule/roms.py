"""Where the ROM files of games are, as ``ale_py.roms`` has it, and an assembler for your own."""

from __future__ import annotations

from pathlib import Path

from cule.errors import InvalidArgumentError, UnknownGameError, shown, warn
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


def assemble(source: str, origin: int = 0xF000) -> tuple[bytes, dict[str, int]]:
    """Assemble a program for the 6507; `cule.games.assembler` describes the source.

    Args:
        source: One statement per line.
        origin: Address of the first byte, such as 0xF000.

    Returns:
        The bytes from `origin` on, and the addresses of the names.

    Raises:
        InvalidArgumentError: An invalid statement; the message has its line. Or `source` is no
            text, or `origin` no address.
    """
    from cule.games import assembler

    if not isinstance(source, str):
        raise InvalidArgumentError(f"source is {shown(source)}; it must be a str")
    if not isinstance(origin, int) or not 0 <= origin <= 0xFFFF:
        raise InvalidArgumentError(
            f"origin is {shown(origin)}; it must be an integer in 0..{0xFFFF}"
        )
    return assembler.assemble(source, origin)
