"""``cule bench``: runs the suite with the options of a command line."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from cule.bench.games import SETS
from cule.bench.options import LOADS, PRESETS, BenchOptions
from cule.bench.suite import run_suite
from cule.familiar_names import Parser

#: Exit status after Ctrl-C, as of a shell.
INTERRUPTED = 130


def bench(words: Sequence[str]) -> int:
    """Run ``cule bench`` with the words after it.

    Returns:
        0: measured; 1: nothing was measured; 130: interrupted by Ctrl-C, finished cells are kept.

    Raises:
        CuleError: An option is invalid, no engine is available, or engines that must agree differ.
    """
    first = Parser(add_help=False)
    first.add_argument("--preset", choices=PRESETS, default="default")
    preset = first.parse_known_args(words)[0].preset
    given = vars(parser(PRESETS[preset]).parse_args(words))
    del given["preset"]
    for name, value in given.items():
        if isinstance(value, list):  # of lists, one per word
            given[name] = tuple(itertools.chain.from_iterable(value))
    try:
        records = run_suite(BenchOptions(**given), functools.partial(print, flush=True))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0 if records else 1


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
    sentences = _sentences()
    for item in dataclasses.fields(BenchOptions):
        word = "--" + item.name.replace("_", "-")
        text = sentences[item.name].replace("%", "%%")
        default = getattr(defaults, item.name)
        if isinstance(default, bool):
            action = argparse.BooleanOptionalAction if item.default else "store_true"
            made.add_argument(word, action=action, default=default, help=text)
        elif isinstance(default, tuple):
            shown = ",".join(map(str, default)) or "none"
            made.add_argument(
                word,
                nargs="+",
                type=_list_of(int if item.name == "num_envs" else str),
                default=default,
                metavar="LIST",
                help=f"{text} ({shown})",
            )
        else:
            read: type = Path if item.name == "out" else type(default)
            text = text if default in (None, "") else f"{text} ({default})"
            made.add_argument(
                word, type=read, default=default, metavar=read.__name__.upper(), help=text
            )
    return made


def _list_of(read: type[int] | type[str]) -> Callable[[str], list[int | str]]:
    def split(text: str) -> list[int | str]:
        return [read(part) for part in text.split(",") if part]

    split.__name__ = f"list of {read.__name__}"
    return split


def _sentences() -> dict[str, str]:
    """The sentence under each field of `BenchOptions`."""
    (node,) = ast.parse(inspect.getsource(BenchOptions)).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for declaration, sentence in itertools.pairwise(node.body):
        match declaration, sentence:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found
