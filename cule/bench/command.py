"""``cule bench``: words of a command line to a run of the suite."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cule.bench import options as options_module
from cule.bench.games import SETS
from cule.bench.options import LOADS, BenchOptions
from cule.bench.suite import run_suite

#: Exit status after Ctrl-C, as of a shell.
STOPPED = 130


def bench(words: Sequence[str]) -> int:
    """Run ``cule bench ...``.

    Args:
        words: What follows ``bench``.

    Returns:
        0: measured; 1: nothing could be measured; 130: stopped by Ctrl-C, finished cells are kept.

    Raises:
        CuleError: A refused option, no engine, or engines that must agree and did not.
    """
    given = vars(parser().parse_args(words))
    options = BenchOptions(**given)
    try:
        records = run_suite(options, functools.partial(print, flush=True))
    except KeyboardInterrupt:
        return STOPPED
    return 0 if records else 1


def parser() -> argparse.ArgumentParser:
    """The options of `BenchOptions` as words."""
    made = argparse.ArgumentParser(
        prog="cule bench",
        description="Emulated frames a second of cule and other libraries, in turns on one "
        "machine: a table, and JSON records and plots in a folder.",
        epilog=f"Sets of games: {', '.join(SETS)}. Loads: "
        + "; ".join(f"{name}: {text}" for name, text in LOADS.items())
        + ". Lists are separated by commas or spaces.",
    )
    sentences = sentences_of(BenchOptions)
    for item in dataclasses.fields(BenchOptions):
        word = "--" + item.name.replace("_", "-")
        text = sentences[item.name].replace("%", "%%")
        if isinstance(item.default, bool):
            action = argparse.BooleanOptionalAction if item.default else "store_true"
            made.add_argument(word, action=action, default=item.default, help=text)
        elif isinstance(item.default, tuple):
            shown = ",".join(item.default) or "none given"
            made.add_argument(
                word,
                action=_Extend,
                nargs="+",
                type=_list_of(int if item.name == "num_envs" else str),
                default=item.default,
                metavar="LIST",
                help=f"{text} ({shown})",
            )
        else:
            read: type = Path if item.name == "out" else type(item.default)
            text = text if item.default in (None, "") else f"{text} ({item.default})"
            made.add_argument(
                word, type=read, default=item.default, metavar=read.__name__.upper(), help=text
            )
    return made


class _Extend(argparse.Action):
    """Joins lists that were given in several words."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, tuple(value for part in values for value in part))


def _list_of(read: type) -> Callable[[str], list[Any]]:
    def split(text: str) -> list[Any]:
        return [read(part) for part in text.split(",") if part]

    split.__name__ = f"list of {read.__name__}"
    return split


def sentences_of(config_class: type) -> dict[str, str]:
    """The sentence under each field of a dataclass of `cule.bench.options`."""
    tree = ast.parse(inspect.getsource(options_module))
    (node,) = [
        one
        for one in tree.body
        if isinstance(one, ast.ClassDef) and one.name == config_class.__name__
    ]
    found = {}
    for declaration, sentence in zip(node.body, node.body[1:], strict=False):
        if isinstance(declaration, ast.AnnAssign) and isinstance(declaration.target, ast.Name):
            assert isinstance(sentence, ast.Expr)
            assert isinstance(sentence.value, ast.Constant)
            found[declaration.target.id] = " ".join(str(sentence.value.value).split())
    return found
