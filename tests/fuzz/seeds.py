"""The corpus of the fuzz targets: generated programs, and the minimised findings.

``python -m tests.fuzz.seeds FOLDER`` writes the corpus of each target into a folder of its own.

Findings are text, ``findings/TARGET/NAME.txt``, because the repository holds no binary file: a line
that says what went wrong, then bytes in hexadecimal digits, ``00*20`` for twenty zeros.
"""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

from cule.envs.plan import make_game
from cule.games import ConsoleProperties, GameSpec, compile_rules, load_games
from cule.games.modifications import (
    ROM,
    compile_modifications,
    games_with_modifications,
    load_modifications,
)
from cule.games.objects import games_with_objects, load_objects
from tests.fuzz.mutate import mutated
from tests.support.random_programs import (
    CARTRIDGES,
    random_bytes_image,
    random_image,
    random_start_image,
)

FINDINGS = Path(__file__).parent / "findings"
#: Bytes of a header, as in ``input.hpp``.
HEADER_BYTES = 12
#: Cartridge types by number, as in ``console.hpp``.
KINDS = ("2K", "4K", "F8", "F8SC", "F6", "F6SC", "E0", "FE", "DPC")
ANY_IMAGE = len(KINDS)
#: A word of a program that takes more than a byte follows, as in ``rules.cpp``.
WIDE_WORD = 0xFF
#: Bytes of an environment's state, at the start of a snapshot or state, and of the log that a
#: snapshot of pure functions has after the random streams.
STATE = range(976)
LOG_HEAD = range(976 + 7500, 976 + 7500 + 100)
#: Bytes of a ROM with one bank, and of the header of a rules file.
BANK_BYTES = 4096
RULES_HEADER_BYTES = 32

#: Programs at $1100, as long as a power of two: registers of cartridges, loops that are skipped,
#: flags that are known, lines that write the same registers in every frame.
SHORT_PROGRAMS = {
    "registers": bytes.fromhex("A27F BD0010 6581 9D0010 8502 CA D0F3 EA"),
    "idle": bytes.fromhex("A250 CA 10FD A0C0 88 10FD AD8402 30FB EA"),
    "carry": bytes.fromhex(
        "38B000 2A 18B000 9000 6A 380828 38E901 186901 382A 182A 386A 382680 8502 EAEA"
    ),
    "lines": bytes.fromhex(
        "A9028500 8502 A9008500 A27D E681 A581 8508 8507 8502 A955851B A93C851C A9F0850D A90F850E"
        "A9AA850F A902851D A900851E A902851F A905850A A9038504 A9108520 A9E08524 A9018525 A9018527"
        "A9008528 A9008501 852A 852B CA D0B7 4C0011"
    ).ljust(128, b"\xea"),
}
#: Sizes and marks of images, most of them of types that are refused.
MARKED_IMAGES = (
    *((size, "") for size in (0, 8448, 12288, 32768, 65536, 131072)),
    *((size, mark) for size in (8192, 16384, 20000) for mark in ("853EA900", "853FEA00853F")),
    (8192, "8D4002"),
)
#: All operators of rule programs on some numbers; and a mode selection that fails.
OPERATORS = (
    *(word for op in (*range(10, 20), *range(23, 29)) for a, b in ((7, -2), (5, 0), (-9, -1))
      for word in (1, a, 1, b, op, 3, 5)),
    *(word for op in (20, 21, 22) for word in (1, 7, op, 3, 5)),
    0,
)  # fmt: skip
FAILS = (41, 44, 7)

Corpus = dict[str, bytes]


def finding_bytes(text: str) -> bytes:
    """The bytes of a finding's text."""
    words = " ".join(line for line in text.splitlines() if not line.startswith("#")).split()
    return b"".join(
        bytes.fromhex(digits) * int(count or 1)
        for digits, _, count in (word.partition("*") for word in words)
    )


def findings(target: str) -> Corpus:
    """The findings of a target, by name."""
    paths = sorted((FINDINGS / target).glob("*.txt"))
    return {path.stem: finding_bytes(path.read_text()) for path in paths}


def console_header(rng: random.Random) -> bytes:
    """A header of the targets that run a console, with the usual window in most cases."""
    first_line, height = rng.choice([(34, 10), (34, 10), (0, 60), (64, 0)])
    capacity, seed, frames = rng.choice([0, 0, *range(6)]), rng.randrange(256), rng.randrange(4)
    fields = bytes([rng.randrange(64), first_line, height, capacity, seed, frames])
    return fields + rng.randbytes(HEADER_BYTES - len(fields))


def console_input(header: bytes, kind: int, vectors: bytes, program: bytes) -> bytes:
    """An input of the targets that run a console; `vectors`: reset and BRK."""
    return header + bytes([kind]) + vectors + program


def console_corpus(per_kind: int) -> Corpus:
    """Programs of ``tests/support``: whole images, and short ones that are repeated."""
    corpus = {}
    for kind in CARTRIDGES:
        for seed in range(per_kind):
            for writer in (random_image, random_bytes_image, random_start_image):
                rng = random.Random(f"{kind} {seed} {writer.__name__}")
                image, name = writer(seed, kind), f"{kind}-{seed}-{writer.__name__}"
                corpus[name] = console_input(console_header(rng), ANY_IMAGE, bytes(4), image)
                short = image[0x100 : 0x100 + rng.choice((23, 150, 601))]
                number = rng.randrange(len(KINDS))
                corpus[f"{name}-short"] = console_input(
                    console_header(rng), number, image[-4:], short
                )
    for number in range(len(KINDS)):
        for name, program in SHORT_PROGRAMS.items():
            rng = random.Random(f"{number} {name}")
            vectors = b"\0\x11\0\x11"
            corpus[f"{KINDS[number]}-{name}"] = console_input(
                console_header(rng), number, vectors, program
            )
    for size, mark in MARKED_IMAGES:
        image = (bytes.fromhex(mark) + bytes(range(1, 252)) * 600)[:size]
        header = bytes(HEADER_BYTES)
        corpus[f"{size}-{mark}"] = console_input(header, ANY_IMAGE, bytes(4), image)
    return corpus


def snapshot_corpus(per_kind: int) -> Corpus:
    """Genuine snapshots, and some with a few other bytes in the state."""
    corpus = {}
    for kind in range(len(KINDS)):
        for form, places in enumerate((STATE, STATE, (*STATE, *LOG_HEAD))):
            for seed in range(per_kind):
                rng = random.Random(f"{kind} {form} {seed}")
                header = bytes([kind, form, *rng.choices(range(1, 8), k=2)])
                change = bytearray(max(places) + 1)
                for _ in range(seed):
                    change[rng.choice(places)] = 1 << rng.randrange(8)
                header = header.ljust(HEADER_BYTES, b"\3")
                corpus[f"{KINDS[kind]}-{form}-{seed}"] = header + bytes(change)
    return corpus


def batch_corpus(count: int) -> Corpus:
    """Random options and calls."""
    rng = random.Random(count)
    return {f"{k}": rng.randbytes(HEADER_BYTES + rng.choice((10, 30, 60))) for k in range(count)}


def encode_program(words: tuple[int, ...]) -> bytes:
    """Words of a rule program as an input."""
    return b"".join(
        bytes([word])
        if 0 <= word < WIDE_WORD
        else bytes([WIDE_WORD]) + (word % 2**32).to_bytes(4, "little")
        for word in words
    )


def rules_corpus(games: int) -> Corpus:
    """The compiled rules of some games, and damaged ones."""
    corpus = {}
    for name in sorted(load_games())[:games]:
        code = compile_rules(load_games()[name])
        for part in ("step_code", "lives_code", "setup_code"):
            header = name.encode()[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0")
            corpus[f"{name}-{part}"] = header + encode_program(tuple(getattr(code, part)))
    for name in games_with_objects()[:games]:
        corpus[f"{name}-objects"] = bytes(HEADER_BYTES) + encode_program(load_objects(name).words)
    for name in games_with_modifications()[:games]:
        programs = [one for one in load_modifications(name).values() if one.when != ROM]
        words = compile_modifications(name, [(one.name,) for one in programs])
        corpus[f"{name}-modifications"] = bytes(HEADER_BYTES) + encode_program(words)
    corpus["operators"] = bytes(HEADER_BYTES) + encode_program(OPERATORS)
    corpus["fails"] = bytes(HEADER_BYTES) + encode_program(FAILS)
    rng = random.Random(games)
    inputs = list(corpus.values())
    for number in range(20 * games):
        corpus[f"{number}-mutated"] = mutated(rng, inputs, ())
    for name in sorted(load_games())[: games // 3]:
        words = rules_file_words(name)
        # The fourth byte is that of the file's header that is wrong, if any.
        for at in (0, 1, 8, 12, 16, 24):
            header = bytes((0, 0, 0, at)).ljust(HEADER_BYTES, b"\0")
            corpus[f"{name}-rules_file-header-{at}"] = header + encode_program(words)
        for at in rng.sample(range(len(words)), games):
            damaged = (*words[:at], rng.choice((-1, 19, 50)), *words[at + 1 :])
            corpus[f"{name}-rules_file-{at}"] = bytes(HEADER_BYTES) + encode_program(damaged)
    return corpus


def rules_file_words(name: str) -> tuple[int, ...]:
    """The words of the rules file of a game, whatever its ROM; it selects no mode."""
    rules = load_games()[name]
    spec = GameSpec(rules, compile_rules(rules), bytes(BANK_BYTES), Path(), "", ConsoleProperties())
    # Without the mode selection, which would wait for what the empty program never does.
    fields = {**spec.to_core_kwargs(), "setup_code": []}
    data = make_game(fields).rules_file[RULES_HEADER_BYTES:]
    return struct.unpack(f"<{len(data) // 4}i", data)


def corpus_of(target: str, size: int = 3) -> Corpus:
    """Inputs of a target by name, findings included; `size` scales the number of the others."""
    if target == "snapshot":
        generated = snapshot_corpus(2 * size)
    elif target == "rules":
        generated = rules_corpus(10 * size)
    elif target == "batch":
        generated = batch_corpus(30 * size)
    else:
        generated = console_corpus(size)
    return {**generated, **findings(target)}


def write_corpus(target: str, folder: Path, size: int = 3) -> list[Path]:
    """Write the corpus of a target as files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, data in corpus_of(target, size).items():
        paths.append(folder / name)
        paths[-1].write_bytes(data)
    return paths


if __name__ == "__main__":
    from tests.fuzz.build import TARGETS

    for each in TARGETS:
        print(len(write_corpus(each, Path(sys.argv[1]) / each)), each)
