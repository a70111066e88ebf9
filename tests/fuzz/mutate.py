"""Mutations of byte strings, from a seed: for fuzzing where Atheris is not installed."""

from __future__ import annotations

import random
from collections.abc import Sequence

INTERESTING = (0, 1, 0x7F, 0x80, 0xFF)


def mutated(rng: random.Random, corpus: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """An input of the corpus with a few changes; `words` mean something to the target."""
    data = bytearray(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        kind, at = rng.randrange(8), rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 2, 4, 16, 64)))
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.choice(INTERESTING)
        elif kind == 2:
            del data[at:end]
        elif kind == 3:
            data[at:at] = data[at:end]
        elif kind == 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 5 and words:
            word = rng.choice(words)
            data[at : at + rng.choice((0, len(word)))] = word
        elif kind == 6:
            other = rng.choice(corpus)
            start = rng.randrange(len(other) + 1)
            data[at:end] = other[start : start + 64]
        elif kind == 7:
            del data[at:]
    return bytes(data)
