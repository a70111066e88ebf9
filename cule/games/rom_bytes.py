"""Changed bytes of cartridges: rows ``[offset, old, new]`` of modifications with ``when = "rom"``.

`old` is what the ROM has at `offset`, which is counted from the start of the image. Both `old` and
`new` are a byte, or lists of as many bytes. A new byte can depend on a parameter: its name stands
for its value, and ``{ width = [0x30, 0x35, 0x37] }`` has a byte for each of its values, from the
lowest on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

from cule.errors import shown
from cule.games.tables import Table
from cule.reading import MAX_ROM_BYTES

_BYTE = range(256)


@dataclass(frozen=True)
class ByteChange:
    """One byte of a cartridge that a modification replaces."""

    offset: int  # from the start of the image
    old: int  # the byte that is replaced
    new: tuple[int, ...]  # one byte, or one for each value of the parameter
    parameter: str = ""  # that chooses among several

    def value(self, parameters: Mapping[str, range], values: Mapping[str, int]) -> int:
        """The new byte for these values of the parameters, of which the ranges are given, too."""
        name = self.parameter
        return self.new[parameters[name].index(values[name]) if name else 0]

    def __str__(self) -> str:
        """Offset, old and new bytes, as in ``0x01a3: 0x35 -> width: 0x30, 0x35, 0x37``."""
        by = f"{self.parameter}: " if self.parameter else ""
        return f"0x{self.offset:04x}: 0x{self.old:02x} -> {by}{', '.join(map(_hex, self.new))}"


def _hex(byte: int) -> str:
    return f"0x{byte:02x}"


def read_bytes(table: Table, parameters: Mapping[str, range]) -> tuple[ByteChange, ...]:
    """Read the rows of ``bytes``.

    Args:
        table: A modification.
        parameters: Allowed values of its parameters.

    Raises:
        RulesError: A row is wrong, or two are of the same offset.
    """
    changes = [change for row in table.items("bytes") for change in _row(table, row, parameters)]
    offsets = sorted(change.offset for change in changes)
    for offset, following in pairwise(offsets):
        if offset == following:
            raise table.error("bytes", f"has two rows of offset 0x{offset:04x}")
    if not changes:
        raise table.error("bytes", "is empty; it needs at least one row")
    return tuple(changes)


def _row(table: Table, row: object, parameters: Mapping[str, range]) -> list[ByteChange]:
    match row:
        case [offset, old, new]:
            old, new = _as_list(old), _as_list(new)
        case _:
            raise table.error("bytes", f"holds {shown(row)}; a row is [offset, old, new]")
    if not _is_in(offset, range(MAX_ROM_BYTES)):
        raise table.error("bytes", f"has offset {shown(offset)}; allowed: 0..{MAX_ROM_BYTES - 1}")
    if len(old) != len(new) or not old:
        raise table.error(
            "bytes", f"holds {shown(row)}, with {len(old)} old and {len(new)} new bytes"
        )
    known = [byte for byte in old if _is_in(byte, _BYTE)]
    if len(known) < len(old):
        raise table.error("bytes", f"holds {shown(row)}; an old byte is in 0..255")
    return [
        ByteChange(offset + index, byte, *_new_byte(table, value, parameters))
        for index, (byte, value) in enumerate(zip(known, new, strict=True))
    ]


def _new_byte(
    table: Table, value: object, parameters: Mapping[str, range]
) -> tuple[tuple[int, ...], str]:
    """The values of a new byte, and the parameter that chooses among them."""
    match value:
        case str() if value in parameters and _are_bytes(parameters[value]):
            return tuple(parameters[value]), value
        case dict() if len(value) == 1:
            ((name, choices),) = value.items()
            if (
                name in parameters
                and isinstance(choices, list)
                and len(choices) == len(parameters[name])
                and all(_is_in(byte, _BYTE) for byte in choices)
            ):
                return tuple(choices), name
        case _ if _is_in(value, _BYTE):
            return (value,), ""
    raise table.error(
        "bytes",
        f"holds the new byte {shown(value)}; it must be in 0..255, the name of a parameter within "
        "that, or { PARAMETER = [a byte for each of its values] }",
    )


def _are_bytes(values: range) -> bool:
    return values.start in _BYTE and values.stop - 1 in _BYTE


def _as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _is_in(value: object, allowed: range) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value in allowed
