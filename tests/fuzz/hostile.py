"""Files made to hang a reader or to take all memory, run one after the other with limits.

``python -m tests.fuzz.hostile`` reads each with a gigabyte of memory above what the process has, and
ends at the first that takes longer than two seconds of the processor, is accepted, or is refused
with another error than that of the limit it was made for.
"""

from __future__ import annotations

import faulthandler
import functools
import io
import itertools
import json
import lzma
import re
import resource
import string
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import cule
from cule.agents.run.checkpoint import read_checkpoint
from cule.agents.run.weights import read_weights
from cule.datasets import open_dataset
from cule.datasets.settings import RECORDED
from cule.errors import (
    CapacityError,
    CheckpointError,
    CuleError,
    DatasetError,
    InvalidStateError,
    RulesError,
    UnsupportedRomError,
)
from cule.games import compile_rules
from cule.games.roms import import_roms, read_rom
from cule.games.schema import load_user_rules
from cule.search import Archive

MOST_BYTES = 2**30
LONGEST_S = 2.0


class Case(NamedTuple):
    """A file, its reader, and the error that refuses it."""

    file: str
    data: bytes
    read: Callable[[Path], object]
    kind: type[CuleError]
    message: str  # regular expression that finds a part of the message


# --- Rules ----------------------------------------------------------------------------------------

HEAD = "[g]\nstate = {score = 0, reward = 0, terminal = 0%s}\nlives = '0'\n"


def rules_of(path: Path) -> None:
    for user in load_user_rules(path).values():
        compile_rules(user.rules)


def rules_cases() -> dict[str, tuple[str, str]]:
    """Texts of rules files and the messages that refuse them, by name."""
    plain, number = HEAD % "", "0x" + "9" * 5000
    step = plain + "step = '''\n%s'''\n"
    setup = plain + "step = 'pass'\nmode_setup = '''\n%s'''\n"
    letters = string.ascii_uppercase
    doubled = "".join(f"S_{c} means: S_{d}; S_{d}.\n" for c, d in itertools.pairwise(letters))
    nested = "1 < 2"
    for _ in range(30):
        nested = f"0 < ({nested}) < 3"
    dots = "more than 16 dots"
    levels = "not a TOML file: .*(recursion|nested)"
    parser = "cannot be parsed|too many nested"
    names = HEAD % "".join(f", a{n} = 0" for n in range(80_000)) + "step = 'pass'\n"
    steps = setup % f"1. S_A.\n{doubled}S_Z means: ACT(0); ACT(0).\n"
    return {
        "dots": (f"{plain}{'a.' * 50_000}b = 1\n", dots),
        "dots of a table in a line": (f"{plain}step = {{{'a.' * 50_000}b = 1}}\n", dots),
        "dots of a header": (f"[{'a.' * 50_000}b]\n", dots),
        "dots after a text": (f'["="{".a" * 50_000}]\n', dots),
        "quotes": ('a = "' + '\\"' * 400_000, "Unterminated string"),
        "brackets": (plain + "step = " + "[" * 400_000, levels),
        "tables": (plain + "step = " + "{a=" * 200_000, levels),
        "games": ("".join(f"[g{n}]\n" for n in range(60_000)), "60000 tables; at most 1000"),
        "names": (names, "80003 names in state; at most 1000"),
        "local names": (step % "".join(f"x{n} = 0\n" for n in range(9_000)), "than 1000 names"),
        "a large number": (HEAD % f", a = {number}" + "step = 'pass'\n", "must be a 32-bit"),
        "a large mode": (f"{plain}modes = [{number}]\nstep = 'pass'\n", "modes holds an integer"),
        "a large constant": (step % f"score = {number}\n", "does not fit 32 bits"),
        "a large decimal": (step % f"score = {'9' * 5000}\n", "Exceeds the limit"),
        "a long key": (f"{plain}step = 'pass'\n{'a' * 900_000} = 1\n", "unknown key"),
        "a long file": (plain + "#" * 10**6, "larger than 1000000 bytes"),
        "a long program": (step % ("score = 0\n" * 20_000), "longer than 100000 characters"),
        "steps that double": (steps, "the program of its steps is longer than 100000 characters"),
        "many steps": (setup % ("1. ACT(0).\n" * 5000), "steps longer than 10000 characters"),
        "nested comparisons": (step % f"score = {nested}\n", "more than 16 values at once"),
        "a long step": (setup % f"1. x = {'(1,' * 3000}.\n", parser),
        "a long choice": (setup % f"1. x = {'(1,1)[0]' * 1200}.\n", r"Call \(...\) is outside"),
        "a deep choice": (step % f"score = {'1 if 1 else ' * 8000}0\n", parser),
        "many signs": (step % f"score = {'-' * 90_000}1\n", parser),
        "some signs": (step % f"score = {'-' * 160}1\n", "nested more than 150 deep"),
    }


# --- Files of tensors -----------------------------------------------------------------------------


def tensor_file(
    pickled: bytes, kind: int = zipfile.ZIP_STORED, *, times: int = 1, **storages: bytes
) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind, compresslevel=1) as archive:
        with archive.open("a/data.pkl", "w", force_zip64=True) as member:
            for _ in range(times):
                member.write(pickled)
        for name, data in storages.items():
            archive.writestr(f"a/data/{name}", data)
    return file.getvalue()


def torch_file(content: object) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


class Zeros:
    """Pickled as the call of `bytearray` that takes 3 GB."""

    def __reduce__(self) -> Any:
        return bytearray, (3 * 10**9,)


def doubled(first: bytes, push: bytes, times: int, last: bytes) -> bytes:
    """A pickle of a value that holds the one before twice, many times."""
    steps = [first + b"q\1"]
    for n in range(2, times + 2):
        steps.append(b"h%ch%c%bq%c" % (n - 1, n - 1, push, n))
    return b"\x80\2" + b"".join(steps) + last


def named_storage(count: int) -> bytes:
    number = b"\x8a\x08" + struct.pack("<q", count)
    text = b"X\7\0\0\0storage" + b"ctorch\nByteStorage\n" + b"X\1\0\0\0000" + b"X\3\0\0\0cpu"
    return b"(" + text + number + b"tQ"


def tensor_of(count: int, size: int, stride: int) -> bytes:
    number = b"\x8a\x08" + struct.pack("<q", size)
    shape = number + b"\x85" + b"K%c\x85" % stride + b"\x89}t"
    return (
        b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n("
        + named_storage(count)
        + b"K\0"
        + shape
        + b"R."
    )


def checkpoint_cases() -> dict[str, tuple[bytes, str]]:
    """Files of tensors and the messages that refuse them, by name."""
    pair = doubled(b"K\1K\1\x86", b"\x86", 200, b".")
    key = doubled(b"K\1K\1\x86", b"\x86", 14, b"q\xfe}h\xfeK\1s.")
    grown = b"\x80\2]q\0(h\0h\0e" + b"(h\0h\0e" * 60 + b"."
    zeros = bytes(10**6)
    large = (
        b"\x80\2ctorch\nSize\nq\0(" + b"K\1" * 400_000 + b"tq\1\x85q\2(" + b"h\0h\2R" * 300 + b"t."
    )
    equal = b"".join(
        b"\x8a\x0b" + (n * (2**61 - 1)).to_bytes(11, "little") + b"N" for n in range(1, 60_000)
    )
    values, no_key = "more than 500000 values", "a key that is no text or number"
    text, numbers = b"\x80\2X" + struct.pack("<I", 2 * 10**9), b"\x80\2(" + b"N" * 10**7 + b"t."
    small = tensor_file(tensor_of(10**12, 10**12, 1), **{"0": b"abc"})
    no_strides = tensor_file(tensor_of(3, 10**12, 0), **{"0": b"abc"})
    deflate, deflated = zipfile.ZIP_DEFLATED, "'a/data.pkl' is compressed"
    return {
        "a bytearray": (torch_file({"format": 1, "x": Zeros()}), "'__builtin__ bytearray'"),
        "a deflated pickle": (tensor_file(zeros, deflate, times=200), deflated),
        "a deflated text": (tensor_file(text, deflate), deflated),
        "a text without its bytes": (tensor_file(text), "expected 2000000000 bytes"),
        "a large pickle": (tensor_file(zeros, times=20), "data.pkl has 20000000 bytes; at most"),
        "pairs of pairs": (tensor_file(pair), values),
        "pairs of pairs as a key": (tensor_file(key), no_key),
        "a list in itself": (tensor_file(grown), "changes a value that it has used"),
        "many copies of a large tuple": (tensor_file(large), values),
        "keys with equal hashes": (tensor_file(b"\x80\2}(" + equal + b"u."), no_key),
        "millions of values": (tensor_file(numbers), values),
        "a storage that is too small": (small, "a storage of 3 bytes"),
        "a tensor without strides": (no_strides, r"shape \(1000000000000,\) in 3 elements"),
        "a tensor as the format": (torch_file({"format": torch.ones(3)}), "of format 1"),
        "a format alone": (torch_file({"format": 1}), "algorithm is None"),
    }


def weights_cases() -> dict[str, tuple[bytes, str]]:
    """Files of weights and the messages that refuse them, by name."""
    from safetensors.torch import save

    texts = {"algorithm": "ppo", "version": "0", "obs_shape": "[4]", "num_actions": "6"}
    texts |= {"steps": "1", "updates": "1"}
    tensors = {"x": torch.zeros(1)}
    return {
        "brackets": (save(tensors, {**texts, "config": "[" * 100_000}), "too many levels"),
        "a large header": (struct.pack("<Q", 2**40) + bytes(100), "header too large"),
        "a large number": (save(tensors, {**texts, "config": "9" * 100_000}), "Exceeds the limit"),
    }


# --- Datasets -------------------------------------------------------------------------------------


def dataset_file(
    seeds: int = 1, num_steps: int = 1, rows: Any = (), blocks: Any = None, **options: Any
) -> bytes:
    """A dataset of zeros with a right checksum."""
    table = np.array(rows, "<i8").reshape(-1, 5)
    parts = [bytes(seeds * num_steps), bytes(8 * seeds), table.tobytes()]
    packed = blocks or [zlib.compress(part) for part in parts]
    segment = {"seeds": list(range(seeds)), "num_steps": num_steps, "num_episodes": len(table)}
    values = vars(cule.AtariVectorEnv("pong", 1).config)
    known = {name: values[name] for name in RECORDED} | {"autoreset_mode": "NextStep"}
    header = {
        "cule_version": "0",
        "game": "pong",
        "rom_md5": "0",
        "action_set": [],
        "options": known | options,
        "digest_every": 1000,
        "segments": [{**segment, "blocks": [len(part) for part in packed]}],
    }
    return checked(json.dumps(header).encode(), b"".join(packed))


def checked(header: bytes, blocks: bytes) -> bytes:
    data = struct.pack("<8sII", b"CULEDATA", 1, len(header)) + header + blocks
    return data + struct.pack("<I", zlib.crc32(data))


def read_dataset(path: Path) -> None:
    """Read the tables and the actions of a dataset."""
    _ = open_dataset(path).resets


def dataset_cases() -> dict[str, tuple[bytes, str]]:
    """Datasets and the messages that refuse them, by name."""
    nothing, digests = zlib.compress(b""), zlib.compress(bytes(8))
    action, zeros = zlib.compress(b"0"), zlib.compress(bytes(40 * 1_600_000), 1)
    cached = {"resets": "cached", "num_reset_states": 65536}
    products = {"resets": "cached", "num_reset_states": 4096, "noop_max": 100_000}
    table = "its table of episodes does not fit its trajectories"
    rows = np.zeros((1_600_000, 5), int)
    return {
        "no-ops without end": (dataset_file(noop_max=2**31 - 1), "noop_max is 2147483647; it"),
        "states to reset to": (dataset_file(**cached), "num_reset_states is 65536; it"),
        "no-ops of many states": (dataset_file(**products), "their product must be at most"),
        "frames without end": (dataset_file(frameskip=10**6), "frameskip is 1000000; it"),
        "a text as a number": (dataset_file(noop_max="30"), "noop_max is '30'"),
        "modes of others": (dataset_file(mode=[0, 1, 2]), "mode holds 3 values"),
        "rows of zeros": (dataset_file(num_steps=10, rows=[[0] * 5] * 3), table),
        "a row before the start": (dataset_file(num_steps=10, rows=[[0, -5, 3, 0, 1]]), table),
        "rows that overlap": (
            dataset_file(num_steps=10, rows=[[0, 0, 6, 0, 1], [0, 5, 9, 0, 1]]),
            table,
        ),
        "a row of another trajectory": (dataset_file(num_steps=10, rows=[[1, 0, 5, 0, 1]]), table),
        "more rows than steps": (
            dataset_file(num_steps=2, rows=[[0, 0, 1, 0, 1]] * 3),
            r"num_episodes is 3; it must be an integer in 0\.\.2",
        ),
        "a table of zeros": (dataset_file(num_steps=len(rows), rows=rows), table),
        "a table longer than its header says": (
            dataset_file(blocks=[action, digests, zeros]),
            "a block does not hold the 0 bytes of its header",
        ),
        "episodes without end": (
            dataset_file(num_steps=2**27, rows=np.zeros((2**22, 5), int)),
            "num_episodes is 4194304; it",
        ),
        "steps without end": (
            dataset_file(num_steps=2**28, blocks=[nothing, digests, nothing]),
            "a block of 8 bytes cannot hold 268435456 bytes",
        ),
        "more steps than are read": (
            dataset_file(num_steps=2**28 + 1, blocks=[nothing, digests, nothing]),
            "num_steps is 268435457; it",
        ),
        "brackets": (checked(b"[" * 10**6, b""), "JSON with too many levels"),
        "digits": (checked(b'{"segments": ' + b"9" * 10**6 + b"}", b""), "Exceeds the limit"),
        "a large header": (
            checked(b"[" + b"[]," * 6 * 10**6 + b"[]]", b""),
            "JSON of 18000004 bytes; at most",
        ),
    }


# --- Snapshots, archives and ROMs -----------------------------------------------------------------


def zeros_of_xz(num_bytes: int) -> bytes:
    packer = lzma.LZMACompressor(preset=0)
    parts = [packer.compress(bytes(2**20)) for _ in range(num_bytes >> 20)]
    return b"".join([*parts, packer.flush()])


def unpack(path: Path) -> None:
    cule.unpack_states([path.read_bytes()])


def unpack_many(path: Path) -> None:
    cule.unpack_states([path.read_bytes()] * 100)


def array_file(shape: tuple[int, ...], data: bytes, kind: int, times: int = 1) -> bytes:
    """An archive whose snapshots have this shape."""
    head, file = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    with zipfile.ZipFile(file, "w", kind, compresslevel=1) as archive:
        with archive.open("states.npy", "w", force_zip64=True) as member:
            member.write(head.getvalue())
            for _ in range(times):
                member.write(data)
        for name in ("version", "cells", "scores", "steps", "visits", "ways", "parents"):
            archive.writestr(f"{name}.npy", head.getvalue())
        for name in ("action_counts", "actions", "state_sizes"):
            archive.writestr(f"{name}.npy", head.getvalue())
    return file.getvalue()


def rom_archive(kind: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind, compresslevel=1) as archive:
        archive.writestr("a.bin", bytes(2 * 10**7))
    return file.getvalue()


def read_archive(path: Path) -> None:
    report = import_roms(path, path.parent / "target")
    if report.unread:
        raise CuleError(report.unread[0])


@functools.lru_cache
def make_env() -> cule.AtariVectorEnv:
    """The environment of archives."""
    env = cule.AtariVectorEnv("pong", 1, img_height=11, img_width=8, stack_num=1)
    env.reset(seed=0)
    return env


def archive_arrays() -> dict[str, Any]:
    """The arrays of an archive of one cell."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Archive(make_env())
        archive.add(np.zeros((1, 3), np.uint8), scores=0, steps=0)
        archive.save(Path(folder) / "a.npz")
        with np.load(Path(folder) / "a.npz") as data:
            return {name: data[name] for name in data.files}


def archive_cases() -> dict[str, tuple[bytes, type[CuleError], str]]:
    """Archives and the errors that refuse them, by name."""
    stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    arrays = archive_arrays()
    no_bytes = {n: saved_arrays(**{**arrays, "cells": no_columns(n)}) for n in (10**6, 10**12)}
    kind = InvalidStateError
    return {
        "a header": (array_file((3 * 10**9,), b"", stored), kind, "an array of shape"),
        "deflated": (
            array_file((2 * 10**9,), bytes(10**6), deflated, 100),
            kind,
            "'states.npy' is compressed",
        ),
        "no bytes": (no_bytes[10**12], CapacityError, "1000000000000 cells; capacity is"),
        "no bytes of some cells": (no_bytes[10**6], kind, "its parts do not fit together"),
    }


def no_columns(rows: int) -> Any:
    """An array of many rows without columns, which takes no memory."""
    return np.empty((rows, 0), np.uint8)


def saved_arrays(**arrays: Any) -> bytes:
    """The bytes of a file of `numpy.savez`."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def cases() -> dict[str, Case]:
    """All cases by name."""
    env = make_env()

    def load_archive(path: Path) -> None:
        Archive.load(path, env)

    found: dict[str, Case] = {}
    for name, (text, message) in rules_cases().items():
        found[f"rules: {name}"] = Case("a.toml", text.encode(), rules_of, RulesError, message)
    for name, (data, message) in checkpoint_cases().items():
        case = Case("a.pt", data, read_checkpoint, CheckpointError, message)
        found[f"checkpoint: {name}"] = case
    for name, (data, message) in weights_cases().items():
        case = Case("a.safetensors", data, read_weights, CheckpointError, message)
        found[f"weights: {name}"] = case
    for name, (data, message) in dataset_cases().items():
        found[f"dataset: {name}"] = Case("a.cule", data, read_dataset, DatasetError, message)
    for name, (data, kind, message) in archive_cases().items():
        found[f"archive: {name}"] = Case("a.npz", data, load_archive, kind, message)
    state, zeros = InvalidStateError, zeros_of_xz(2**27)
    found["snapshot: zeros"] = Case("a.xz", zeros, unpack, state, "an entry holds more than")
    message = "without state_size they must have at most"
    found["snapshots: zeros"] = Case("a.xz", zeros_of_xz(2**25), unpack_many, state, message)
    no_rom = "holds more than 524288 bytes"
    for zip_kind, message in {
        zipfile.ZIP_STORED: no_rom,
        zipfile.ZIP_DEFLATED: no_rom,
        zipfile.ZIP_LZMA: "compressed in this way",
        zipfile.ZIP_BZIP2: "compressed in this way",
    }.items():
        case = Case("a.zip", rom_archive(zip_kind), read_archive, CuleError, message)
        found[f"ROMs: zeros {zip_kind}"] = case
    gzipped = zlib.compressobj(1, zlib.DEFLATED, 31)
    data = b"".join([gzipped.compress(bytes(2**24)) for _ in range(20)]) + gzipped.flush()
    found["ROM: zeros"] = Case("a.gz", data, read_rom, UnsupportedRomError, no_rom)
    return found


def main() -> None:
    """Run every case; the last line of the output is the number of them."""
    torch.set_num_threads(1)
    made = cases()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, -1))
    with tempfile.TemporaryDirectory() as folder:
        for name, case in made.items():
            path = Path(folder) / case.file
            path.write_bytes(case.data)
            print(name, len(case.data), flush=True)
            faulthandler.dump_traceback_later(20 * LONGEST_S, exit=True)
            start_s = time.process_time()
            try:
                case.read(path)
            except case.kind as error:
                if not re.search(case.message, str(error)):
                    sys.exit(f"{name} is refused, but not with {case.message!r}: {error}")
            else:
                sys.exit(f"{name} is accepted")
            took_s = time.process_time() - start_s
            if took_s > LONGEST_S:
                sys.exit(f"{name} takes {took_s:.1f} s")
    faulthandler.cancel_dump_traceback_later()
    print(f"{len(made)} cases are refused")


if __name__ == "__main__":
    main()
