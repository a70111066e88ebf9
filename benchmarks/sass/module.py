"""A compiled module, an ELF file: its sections, and its constant banks as a driver leaves them."""

from __future__ import annotations

import ctypes
import re
import struct
from dataclasses import dataclass

_NO_BITS = 8  # type of a section that takes no place in the file
_ADDRESS = 2  # kind of relocation: 64 bits of the address of a symbol
_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")


@dataclass
class Module:
    """Constant banks but bank 0, and the memory of the global variables that they point to."""

    banks: dict[int, bytes]
    memory: dict[int, ctypes.Array[ctypes.c_char]]


def read_sections(module: bytes) -> list[tuple[str, bytes]]:
    """Name and contents of every section, in order."""
    (table,) = struct.unpack_from("<Q", module, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", module, 0x3A)
    heads = [_HEADER.unpack_from(module, table + k * size) for k in range(count)]
    names = heads[names_at][4]
    sections = []
    for name_at, kind, _, _, offset, length, *_ in heads:
        name = module[names + name_at : module.index(b"\0", names + name_at)].decode()
        data = bytes(length) if kind == _NO_BITS else module[offset : offset + length]
        sections.append((name, data))
    return sections


def read_module(module: bytes, kernel: str) -> Module:
    """As the driver would load it: global variables have memory, and banks hold its addresses."""
    sections = read_sections(module)
    contents = dict(sections)
    memory = {
        number: ctypes.create_string_buffer(data, len(data) + 1)
        for number, (name, data) in enumerate(sections)
        if name in (".nv.global", ".nv.global.init")
    }
    banks = {}
    for name, data in sections:
        match = re.fullmatch(r"\.nv\.constant([234])(?:\.(.*))?", name)
        if match is None or (match[2] is not None and kernel not in match[2]):
            continue
        bank = bytearray(data)
        for at, kind, symbol, addend in _RELOCATION.iter_unpack(contents.get(".rela" + name, b"")):
            if kind != _ADDRESS:
                raise NotImplementedError(f"relocation {kind} of {name}")
            _, _, _, section, value, _ = _SYMBOL.unpack_from(
                contents[".symtab"], symbol * _SYMBOL.size
            )
            # Banks hold addresses of functions too, which nothing here reads.
            base = ctypes.addressof(memory[section]) if section in memory else 0
            struct.pack_into("<Q", bank, at, base + value + addend)
        banks[int(match[1])] = bytes(bank)
    return Module(banks, memory)
