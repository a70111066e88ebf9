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
#: Format and kind of the attribute in section .nv.info that says how many registers a function has.
_REGISTERS = (4, 0x2F)
_RESERVED_SHARED_BYTES = 1024  # of every block, in the size of its section


@dataclass
class Module:
    """A kernel in a module: its code, the resources it uses, and its constants.

    Constant banks are all but bank 0, which holds the parameters; `memory` holds the global
    variables that they point to.
    """

    banks: dict[int, bytes]
    memory: dict[int, ctypes.Array[ctypes.c_char]]
    code: bytes = b""
    registers: int = 0  # of a thread
    shared_bytes: int = 0  # of a block, without dynamic shared memory


def _heads(module: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """Name and header of every section, in order."""
    (table,) = struct.unpack_from("<Q", module, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", module, 0x3A)
    heads = [_HEADER.unpack_from(module, table + k * size) for k in range(count)]
    names = heads[names_at][4]
    starts = [names + head[0] for head in heads]
    texts = [module[at : module.index(b"\0", at)].decode() for at in starts]
    return list(zip(texts, heads, strict=True))


def read_sections(module: bytes) -> list[tuple[str, bytes]]:
    """Name and contents of every section, in order."""
    return [
        (name, bytes(length) if kind == _NO_BITS else module[offset : offset + length])
        for name, (_, kind, _, _, offset, length, *_) in _heads(module)
    ]


def kernels_of(module: bytes) -> list[str]:
    """Mangled names of the kernels."""
    return [name[6:] for name, _ in _heads(module) if name.startswith(".text.")]


def read_registers(attributes: bytes) -> dict[int, int]:
    """Registers of a thread, by number of the function's symbol."""
    found, at = {}, 0
    while at < len(attributes):
        form, kind, size = struct.unpack_from("<BBH", attributes, at)
        at += 4
        if (form, kind) == _REGISTERS:
            symbol, registers = struct.unpack_from("<II", attributes, at)
            found[symbol] = registers
        at += size if form == _REGISTERS[0] else 0
    return found


def read_symbols(module: bytes) -> dict[str, int]:
    """Values of the symbols: of a function in a library, its address from the library's."""
    sections = dict(read_sections(module))
    names = sections[".strtab"]
    found = {}
    for name_at, _, _, _, value, _ in _SYMBOL.iter_unpack(sections[".symtab"]):
        found[names[name_at : names.index(b"\0", name_at)].decode()] = value
    return found


def read_module(module: bytes, kernel: str) -> Module:
    """Load a module like the driver: global variables have memory, and banks hold addresses.

    `kernel` is a part of the mangled name.
    """
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
    found = Module(banks, memory)
    registers = read_registers(contents.get(".nv.info", b""))
    for name, head in _heads(module):
        if name.startswith(".text.") and kernel in name:
            found.code, found.registers = contents[name], registers.get(head[7] & 0xFFFFFF, 0)
        if name.startswith(".nv.shared.") and kernel in name:
            found.shared_bytes = head[5] - _RESERVED_SHARED_BYTES
    return found
