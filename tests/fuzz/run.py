"""Runs the fuzz targets, each for a time: ``python -m tests.fuzz.run --seconds 60 [TARGET ...]``.

Targets in C++ are built with clang and libFuzzer, with address and undefined-behaviour sanitizers,
in ``build/fuzz``; the corpus grows there from run to run. ``CLANGXX`` names the compiler, with its
options. Targets in Python run with Atheris where it is installed, else on mutations of their corpus.
A finding ends the run, and its input is in ``build/fuzz/found``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import subprocess
import sys

from tests.fuzz import parsers
from tests.fuzz.build import ROOT, TARGETS, Builder
from tests.fuzz.seeds import write_corpus

FOLDER = ROOT / "build" / "fuzz"
# Tracing comparisons takes more than half of the time of an instruction loop.
COVERAGE = "-fno-sanitize-coverage=trace-cmp"
FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined")
LONGEST_INPUT_S = 20
MOST_MEMORY_MB = 2048
LONGEST_INPUT_BYTES = 17_000  # the largest image of a supported type, and its header


def run_native(target: str, seconds: int) -> int:
    """Build a target with libFuzzer and run it; its exit status."""
    compiler = shlex.split(os.environ.get("CLANGXX", "clang++"))
    builder = Builder(FOLDER / "objects", compiler, [*FLAGS, "-fsanitize=fuzzer-no-link", COVERAGE])
    program = builder.build(target, link=["-fsanitize=fuzzer"])
    corpus, found = FOLDER / "corpus" / target, FOLDER / "found" / target
    write_corpus(target, corpus)
    found.mkdir(parents=True, exist_ok=True)
    options = {
        "max_total_time": seconds,
        "timeout": LONGEST_INPUT_S,
        "rss_limit_mb": MOST_MEMORY_MB,
        "max_len": LONGEST_INPUT_BYTES,
        "entropic": 0,
        "verbosity": 0,
        "print_final_stats": 1,
    }
    words = [f"-{name}={value}" for name, value in options.items()]
    command = [str(program), *words, f"-artifact_prefix={found}/", str(corpus)]
    return subprocess.run(command, check=False).returncode


def run_parser(target: str, seconds: int) -> int:
    """Run a target in Python in a process of its own; its exit status."""
    found = FOLDER / "found" / target
    found.mkdir(parents=True, exist_ok=True)
    has_atheris = importlib.util.find_spec("atheris") is not None
    module = "tests.fuzz.run_atheris" if has_atheris else "tests.fuzz.parsers"
    command = [sys.executable, "-W", "ignore", "-m", module, target, str(seconds), str(found)]
    return subprocess.run(command, check=False, cwd=ROOT).returncode


def main() -> int:
    """Parse the arguments and run the targets."""
    names = (*TARGETS, *parsers.TARGETS)
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run")
    parser.add_argument("--seconds", type=int, default=60, help="time for each target")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(names))
    arguments = parser.parse_args()
    for target in arguments.targets:
        if target not in names:
            parser.error(f"TARGET is {target}; it must be one of {', '.join(names)}")
    for target in arguments.targets or names:
        print(f"--- {target}", flush=True)
        run_one = run_native if target in TARGETS else run_parser
        status = run_one(target, arguments.seconds)
        if status != 0:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
