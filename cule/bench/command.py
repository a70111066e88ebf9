"""``cule bench``: runs the suite with the options of a command line."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from dataclasses import replace

from cule.bench.games import SETS
from cule.bench.options import LOADS, PRESETS, BenchOptions
from cule.bench.suite import run_suite
from cule.familiar_names import Parser
from cule.option_fields import add_arguments, given_fields


def bench(words: Sequence[str]) -> int:
    """Run ``cule bench`` with the words after it.

    Returns:
        0: measured; 1: nothing was measured.

    Raises:
        CuleError: An option is invalid, no engine is available, or engines that must agree differ.
    """
    first = Parser(prog="cule bench", add_help=False)
    first.add_argument("--preset", choices=PRESETS, default="default")
    preset = first.parse_known_args(words)[0].preset
    given = given_fields(parser(PRESETS[preset]).parse_args(words))
    given.pop("preset")
    options = replace(PRESETS[preset], **given)
    return 0 if run_suite(options, functools.partial(print, flush=True)) else 1


def parser(defaults: BenchOptions) -> argparse.ArgumentParser:
    """Command-line options for the fields of `BenchOptions`."""
    made = Parser(
        prog="cule bench",
        description="Emulated frames per second of cule and other libraries, in interleaved rounds "
        "on one machine: a table, and JSON records and plots in a folder.",
        epilog=f"Sets of games: {', '.join(SETS)}. Loads: "
        + "; ".join(f"{name}: {text}" for name, text in LOADS.items())
        + ". Commas or spaces separate the items of a list.",
    )
    made.add_argument(
        "--preset", choices=PRESETS, help="named set of options; other options override it"
    )
    add_arguments(made, BenchOptions, vars(defaults))
    return made
