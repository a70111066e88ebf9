"""Runs a fuzz target in Python, guided by coverage: needs Atheris, which is no dependency of cule."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

LONGEST_INPUT_BYTES = 20_000

with atheris.instrument_imports(include=["cule", "tomllib", "zipfile"]):
    from tests.fuzz.parsers import TARGETS, Checker
    from tests.fuzz.seeds import findings


def main(name: str, seconds: int, found: Path) -> None:
    """Run a target for a time; an input with a finding is kept in `found`."""
    folder = Path(tempfile.mkdtemp())
    corpus, files = folder / "corpus", folder / "files"
    corpus.mkdir()
    files.mkdir()
    for title, data in {**TARGETS[name].corpus(), **findings(name)}.items():
        (corpus / title).write_bytes(data)
    dictionary = folder / "words"
    words = ("".join(f"\\x{byte:02x}" for byte in word) for word in TARGETS[name].words)
    dictionary.write_text("".join(f'"{word}"\n' for word in words))
    options = {
        "max_total_time": seconds,
        "artifact_prefix": f"{found}/",
        "max_len": LONGEST_INPUT_BYTES,
    }
    flags = [f"-{key}={value}" for key, value in {**options, "print_final_stats": 1}.items()]
    checker = Checker(name, files)
    words_of_command = [sys.argv[0], *flags, f"-dict={dictionary}", str(corpus)]
    atheris.Setup(words_of_command, checker.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
