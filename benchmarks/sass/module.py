"""A compiled module, an ELF file: its sections, and its constant banks as a driver leaves them."""

from __future__ import annotations

import ctypes
import re
import struct
from dataclasses import dataclass, field

_NO_BITS = 8  # type of a section that takes no place in the file
#: Kinds of relocations: 64 bits of a symbol's address, its halves in an instruction, and a call.
_ADDRESS, _LOW, _HIGH, _CALL = 2, 56, 57, 75
_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
#: Format of attributes with a value in section .nv.info, and the kind that each function has.
_VALUE, _REGISTERS = 4, 0x2F
_RESERVED_SHARED_BYTES = 1024  # of every block, in the size of its section


@dataclass
class Module:
    """A kernel in a module: its code, the resources it uses, and its constants.

    The code is that of the kernel, followed by the functions that it reaches in other sections.
    Constant banks are all but bank 0, which holds the parameters; `memory` holds the global
    variables that they and the code point to.
    """

    banks: dict[int, bytes]
    memory: dict[int, ctypes.Array[ctypes.c_char]]
    code: bytes = b""
    starts: dict[str, int] = field(default_factory=dict)  # of functions in `code`, kernel first
    words: dict[int, int] = field(default_factory=dict)  # halves of addresses, by place in `code`
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


def _read_registers(attributes: bytes) -> dict[int, int]:
    """Registers of functions, by number of the function's symbol."""
    found, at = {}, 0
    while at < len(attributes):
        form, kind, size = struct.unpack_from("<BBH", attributes, at)
        at += 4
        if (form, kind) == (_VALUE, _REGISTERS):
            symbol, value = struct.unpack_from("<II", attributes, at)
            found[symbol] = value
        at += size if form == _VALUE else 0
    return found


def read_module(module: bytes, kernel: str) -> Module:
    """Load a module like the driver: global variables have memory, and banks hold addresses.

    `kernel` is the mangled name.
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
        if match is None or (match[2] not in (None, kernel)):
            continue
        bank = bytearray(data)
        for at, kind, symbol, addend in _RELOCATION.iter_unpack(contents.get(".rela" + name, b"")):
            if kind != _ADDRESS:
                raise NotImplementedError(f"relocation {kind} of {name}")
            _, _, _, section, value, _ = SYMBOL.unpack_from(
                contents[".symtab"], symbol * SYMBOL.size
            )
            # Banks hold addresses of functions too, which nothing here reads.
            base = ctypes.addressof(memory[section]) if section in memory else 0
            struct.pack_into("<Q", bank, at, base + value + addend)
        banks[int(match[1])] = bytes(bank)
    found = Module(banks, memory)
    heads = _heads(module)
    _add_code(found, contents, [name for name, _ in heads], kernel)
    registers = _read_registers(contents.get(".nv.info", b""))
    for name, head in heads:
        if name == f".text.{kernel}":
            found.registers = registers.get(head[7] & 0xFFFFFF, 0)
        elif name == f".nv.shared.{kernel}":
            found.shared_bytes = head[5] - _RESERVED_SHARED_BYTES
    return found


def _add_code(found: Module, contents: dict[str, bytes], names: list[str], kernel: str) -> None:
    """The kernel and the functions it reaches, one after the other; halves of addresses in them.

    `names` are those of all sections, by number.
    """
    symbols = list(SYMBOL.iter_unpack(contents.get(".symtab", b"")))
    halves: list[tuple[int, int, int, int]] = []
    reached = [section for section in (f".text.{kernel}",) if section in contents]
    for section in reached:  # grows
        start = found.starts[section[6:]] = len(found.code)
        found.code += contents[section]
        relocations = contents.get(".rela" + section, b"")
        for at, kind, symbol, addend in _RELOCATION.iter_unpack(relocations):
            if kind not in (_LOW, _HIGH, _CALL):
                raise NotImplementedError(f"relocation {kind} of {section}")
            _, _, _, number, value, _ = symbols[symbol]
            target = names[number]
            if target.startswith(".text.") and target not in reached:
                reached.append(target)
            if kind != _CALL:
                shift = 32 if kind == _HIGH else 0
                halves.append((start + at // 16 * 16, shift, number, value + addend))
    for at, shift, number, offset in halves:
        if number in found.memory:
            base = ctypes.addressof(found.memory[number])
        else:
            base = found.starts[names[number].removeprefix(".text.")]
        found.words[at] = (base + offset) >> shift & 0xFFFFFFFF
