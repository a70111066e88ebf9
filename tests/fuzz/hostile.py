"""Files made to hang a reader or to take all memory, run one after the other with limits.

``python -m tests.fuzz.hostile`` reads each with a gigabyte of memory above what the process has, and
ends at the first that takes longer than two seconds of the processor, or raises anything but a
`CuleError`: each is refused.
"""

from __future__ import annotations

import faulthandler
import functools
import io
import itertools
import json
import lzma
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
from typing import Any

import numpy as np
import torch

import cule
from cule.agents.run.checkpoint import read_checkpoint
from cule.agents.run.weights import read_weights
from cule.datasets import open_dataset
from cule.datasets.settings import RECORDED
from cule.errors import CuleError
from cule.games import compile_rules
from cule.games.roms import import_roms, read_rom
from cule.games.schema import load_user_rules
from cule.search import Archive

MOST_BYTES = 2**30
LONGEST_S = 2.0

#: The name of a file, its bytes, and its reader.
Case = tuple[str, bytes, Callable[[Path], object]]


# --- Rules ----------------------------------------------------------------------------------------

HEAD = "[g]\nstate = {score = 0, reward = 0, terminal = 0%s}\nlives = '0'\n"


def rules_of(path: Path) -> None:
    for user in load_user_rules(path).values():
        compile_rules(user.rules)


def rules_cases() -> dict[str, str]:
    plain, number = HEAD % "", "0x" + "9" * 5000
    step = plain + "step = '''\n%s'''\n"
    setup = plain + "step = 'pass'\nmode_setup = '''\n%s'''\n"
    letters = string.ascii_uppercase
    doubled = "".join(f"S_{c} means: S_{d}; S_{d}.\n" for c, d in itertools.pairwise(letters))
    nested = "1 < 2"
    for _ in range(30):
        nested = f"0 < ({nested}) < 3"
    return {
        "dots": f"{plain}{'a.' * 50_000}b = 1\n",
        "dots of a table in a line": f"{plain}step = {{{'a.' * 50_000}b = 1}}\n",
        "dots of a header": f"[{'a.' * 50_000}b]\n",
        "dots after a text": f'["="{".a" * 50_000}]\n',
        "quotes": 'a = "' + '\\"' * 400_000,
        "brackets": plain + "step = " + "[" * 400_000,
        "tables": plain + "step = " + "{a=" * 200_000,
        "games": "".join(f"[g{n}]\n" for n in range(60_000)),
        "names": HEAD % "".join(f", a{n} = 0" for n in range(80_000)) + "step = 'pass'\n",
        "local names": step % "".join(f"x{n} = 0\n" for n in range(9_000)),
        "a large number": HEAD % f", a = {number}" + "step = 'pass'\n",
        "a large mode": f"{plain}modes = [{number}]\nstep = 'pass'\n",
        "a large constant": step % f"score = {number}\n",
        "a large decimal": step % f"score = {'9' * 5000}\n",
        "a long key": plain + "a" * 900_000 + " = 1\n",
        "steps that double": setup % f"1. S_A.\n{doubled}S_Z means: ACT(0); ACT(0).\n",
        "nested comparisons": step % f"score = {nested}\n",
        "a long step": setup % f"1. x = {'(1,' * 3000}.\n",
        "a long choice": setup % f"1. x = {'(1,1)[0]' * 1200}.\n",
        "a deep choice": step % f"score = {'1 if 1 else ' * 8000}0\n",
        "many signs": step % f"score = {'-' * 90_000}1\n",
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
        steps.append(b"0h%ch%c%bq%c" % (n - 1, n - 1, push, n))
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


def checkpoint_cases() -> dict[str, bytes]:
    pair = doubled(b"K\1K\1\x86", b"\x86", 200, b".")
    key = doubled(b"K\1K\1\x86", b"\x86", 30, b"q\xfe0}h\xfeK\1s.")
    grown = b"\x80\2]q\0(h\0h\0e" + b"(h\0h\0e" * 60 + b"."
    zeros = bytes(10**6)
    large = (
        b"\x80\2ctorch\nSize\nq\0(" + b"K\1" * 400_000 + b"tq\1\x85q\2(" + b"h\0h\2R" * 300 + b"t."
    )
    equal = b"".join(
        b"\x8a\x0b" + (n * (2**61 - 1)).to_bytes(11, "little") + b"N" for n in range(1, 60_000)
    )
    return {
        "a bytearray": torch_file({"format": 1, "x": Zeros()}),
        "a deflated pickle": tensor_file(zeros, zipfile.ZIP_DEFLATED, times=200),
        "a deflated text": tensor_file(
            b"\x80\2X" + struct.pack("<I", 2 * 10**9), zipfile.ZIP_DEFLATED
        ),
        "a large pickle": tensor_file(zeros, times=20),
        "pairs of pairs": tensor_file(pair),
        "pairs of pairs as a key": tensor_file(key),
        "a list in itself": tensor_file(grown),
        "many copies of a large tuple": tensor_file(large),
        "keys with equal hashes": tensor_file(b"\x80\2}(" + equal + b"u."),
        "millions of values": tensor_file(b"\x80\2(" + b"N" * 10**7 + b"t."),
        "a storage that is too small": tensor_file(tensor_of(10**12, 10**12, 1), **{"0": b"abc"}),
        "a tensor without strides": tensor_file(tensor_of(3, 10**12, 0), **{"0": b"abc"}),
        "a tensor as the format": torch_file({"format": torch.ones(3)}),
        "a format alone": torch_file({"format": 1}),
    }


def weights_cases() -> dict[str, bytes]:
    from safetensors.torch import save

    texts = {"algorithm": "ppo", "version": "0", "obs_shape": "[4]", "num_actions": "6"}
    texts |= {"steps": "1", "updates": "1"}
    return {
        "brackets": save({"x": torch.zeros(1)}, {**texts, "config": "[" * 100_000}),
        "a large header": struct.pack("<Q", 2**40) + bytes(100),
        "a large number": save({"x": torch.zeros(1)}, {**texts, "config": "9" * 100_000}),
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


def dataset_cases() -> dict[str, bytes]:
    zeros = zlib.compress(bytes(40 * 1_600_000), 1)
    return {
        "no-ops without end": dataset_file(noop_max=2**31 - 1),
        "states to reset to": dataset_file(resets="cached", num_reset_states=65536),
        "no-ops of many states": dataset_file(
            resets="cached", num_reset_states=4096, noop_max=100_000
        ),
        "frames without end": dataset_file(frameskip=10**6),
        "a text as a number": dataset_file(noop_max="30"),
        "modes of others": dataset_file(mode=[0, 1, 2]),
        "rows of zeros": dataset_file(num_steps=10, rows=[[0] * 5] * 3),
        "a row before the start": dataset_file(num_steps=10, rows=[[0, -5, 3, 0, 1]]),
        "rows that overlap": dataset_file(num_steps=10, rows=[[0, 0, 6, 0, 1], [0, 5, 9, 0, 1]]),
        "a row of another trajectory": dataset_file(num_steps=10, rows=[[1, 0, 5, 0, 1]]),
        "more rows than steps": dataset_file(num_steps=2, rows=[[0, 0, 1, 0, 1]] * 3),
        "a table of zeros": dataset_file(
            blocks=[zlib.compress(b"0"), zlib.compress(bytes(8)), zeros]
        ),
        "episodes without end": dataset_file(num_steps=2**27, rows=np.zeros((2**22, 5), int)),
        "steps without end": dataset_file(num_steps=10**7, blocks=[b"", b"", b""]),
        "brackets": checked(b"[" * 10**6, b""),
        "digits": checked(b'{"segments": ' + b"9" * 10**6 + b"}", b""),
        "a large header": checked(b"[" + b"[]," * 6 * 10**6 + b"[]]", b""),
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
    import_roms(path, path.parent / "target")
    raise CuleError("read without a finding")


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


def cases() -> dict[str, Case]:
    """All cases by name."""
    env = make_env()

    def load_archive(path: Path) -> None:
        Archive.load(path, env)

    stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    archives = {
        "a header": array_file((3 * 10**9,), b"", stored),
        "deflated": array_file((2 * 10**9,), bytes(10**6), deflated, 100),
        "no bytes": array_file((10**12, 0), b"", stored),
    }
    found: dict[str, Case] = {}
    for name, text in rules_cases().items():
        found[f"rules: {name}"] = ("a.toml", text.encode(), rules_of)
    for name, data in checkpoint_cases().items():
        found[f"checkpoint: {name}"] = ("a.pt", data, read_checkpoint)
    for name, data in weights_cases().items():
        found[f"weights: {name}"] = ("a.safetensors", data, read_weights)
    for name, data in dataset_cases().items():
        found[f"dataset: {name}"] = ("a.cule", data, open_dataset)
    for name, data in archives.items():
        found[f"archive: {name}"] = ("a.npz", data, load_archive)
    zeros = zeros_of_xz(2**27)
    found["snapshot: zeros"] = ("a.xz", zeros, unpack)
    found["snapshots: zeros"] = ("a.xz", zeros_of_xz(2**25), unpack_many)
    for kind in (deflated, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        found[f"ROMs: zeros {kind}"] = ("a.zip", rom_archive(kind), read_archive)
    gzipped = zlib.compressobj(1, zlib.DEFLATED, 31)
    data = b"".join([gzipped.compress(bytes(2**24)) for _ in range(20)]) + gzipped.flush()
    found["ROM: zeros"] = ("a.gz", data, read_rom)
    return found


def main() -> None:
    """Run every case; the last line of the output is the number of them."""
    torch.set_num_threads(1)
    made = cases()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_BYTES, -1))
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, data, read) in made.items():
            path = Path(folder) / file
            path.write_bytes(data)
            print(name, len(data), flush=True)
            faulthandler.dump_traceback_later(20 * LONGEST_S, exit=True)
            start_s = time.process_time()
            try:
                read(path)
            except CuleError:
                pass
            else:
                sys.exit(f"{name} is accepted")
            took_s = time.process_time() - start_s
            if took_s > LONGEST_S:
                sys.exit(f"{name} takes {took_s:.1f} s")
    faulthandler.cancel_dump_traceback_later()
    print(f"{len(made)} cases are refused")


if __name__ == "__main__":
    main()
