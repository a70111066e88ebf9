"""Options as dataclass fields: their ranges, and documentation that holds every one of them.

The docstring under a field is its documentation: in ``help()``, on the command line and in tests.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from cule.errors import shown

_Number = TypeVar("_Number", int, float)
_Word = TypeVar("_Word", str, "str | None")
_Class = TypeVar("_Class", bound=type)

#: Bounds from here on are not worth telling.
_NO_BOUND = 2**31 - 1


def within(default: _Number, low: _Number, high: _Number) -> _Number:
    """A number with the range that it must be in."""
    return field(default=default, metadata={"range": (low, high)})


def one_of(default: _Word, *allowed: str) -> _Word:
    """One of some words; None is allowed where it is the default."""
    return field(default=default, metadata={"allowed": allowed})


def init_fields(config_class: type) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a dataclass that its constructor takes, by name."""
    return {item.name: item for item in dataclasses.fields(config_class) if item.init}


@functools.cache
def field_docs(config_class: type) -> Mapping[str, str]:
    """The docstring of each field of a dataclass; inherited where a class only sets a default."""
    docs: dict[str, str] = {}
    for base in reversed(config_class.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for before, after in zip(definition.body, definition.body[1:], strict=False):
            match before, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                    value=ast.Constant(value=text)
                ):
                    docs[name] = " ".join(str(text).split())
    return docs


def help_text(text: str, names: Collection[str]) -> str:
    """Documentation of an option for ``--help``: other options as flags, without backticks."""

    def plain(match: re.Match[str]) -> str:
        word = match[1]
        return f"--{word.replace('_', '-')}" if word in names else word

    return re.sub(r"`{1,2}([^`]*)`{1,2}", plain, text).replace("%", "%%")


def describe_options(config_class: type) -> str:
    """A paragraph for each option: name, type, default, meaning and range."""
    docs = field_docs(config_class)
    lines = []
    for item in init_fields(config_class).values():
        default = "" if item.default is dataclasses.MISSING else f" = {item.default!r}"
        if item.default_factory is not dataclasses.MISSING:
            default = f" = {item.default_factory()!r}"
        text = f"{docs[item.name]}{_allowed(item.metadata)}"
        lines.append(f"{item.name}: {item.type}{default}")
        lines += textwrap.wrap(text, 92, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def _allowed(metadata: Mapping[str, tuple[object, ...]]) -> str:
    if "allowed" in metadata:
        return f" One of {', '.join(map(repr, metadata['allowed']))}."
    if "range" not in metadata:
        return ""
    low, high = metadata["range"]
    return f" At least {low}." if high == _NO_BOUND else f" From {low} to {high}."


class _Documentation:
    """The ``__doc__`` of a class, put together when it is read."""

    def __init__(self, text: str, config_class: type) -> None:
        self._text, self._config_class = inspect.cleandoc(text), config_class

    def __get__(self, instance: object, owner: type | None = None) -> str:
        options = textwrap.indent(describe_options(self._config_class), "    ")
        return f"{self._text}\n\nOptions:\n{options}\n"


def documents(config_class: type | None = None) -> Callable[[_Class], _Class]:
    """Add the options of a dataclass, by default of the class itself, to a class's ``__doc__``."""

    def decorate(cls: _Class) -> _Class:
        documentation = _Documentation(cls.__doc__ or "", config_class or cls)
        cls.__doc__ = documentation  # type: ignore[assignment]  # read as a str
        return cls

    return decorate


def add_arguments(parser: argparse.ArgumentParser, defaults: Any) -> None:
    """Add a command-line option for each field of an instance of a dataclass.

    Commas or spaces separate the items of a tuple. `given_fields` reads what was parsed.
    """
    options_class: type = type(defaults)
    docs = field_docs(options_class)
    for item in dataclasses.fields(options_class):
        word = "--" + item.name.replace("_", "-")
        text = help_text(docs[item.name], docs)
        default = getattr(defaults, item.name)
        if isinstance(default, bool):
            action = argparse.BooleanOptionalAction if item.default else "store_true"
            parser.add_argument(word, action=action, default=default, help=text)
        elif isinstance(default, tuple):
            shown = ",".join(map(str, default)) or "none"
            parser.add_argument(
                word,
                nargs="+",
                type=_list_of(int if "int" in str(item.type) else str),
                default=default,
                metavar="LIST",
                help=f"{text} ({shown})",
            )
        else:
            read: type = Path if "Path" in str(item.type) else type(default)
            text = text if default in (None, "") else f"{text} ({default})"
            parser.add_argument(
                word, type=read, default=default, metavar=read.__name__.upper(), help=text
            )


def integer(word: str) -> int:
    """Convert a word of the command line, which may be 1e6 or 10_000, to an integer.

    Raises:
        ValueError: It is none.
    """
    digits = word.replace("_", "")
    if digits.lstrip("+-").isdecimal():
        return int(digits)
    number = float(digits)
    if not number.is_integer():
        raise ValueError(f"{shown(word)} is no integer")
    return int(number)


def given_fields(parsed: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of the dataclass for what `add_arguments` has parsed."""
    return {
        name: tuple(itertools.chain.from_iterable(value)) if isinstance(value, list) else value
        for name, value in vars(parsed).items()
    }


def _list_of(read: type[int] | type[str]) -> Callable[[str], list[int | str]]:
    def split(text: str) -> list[int | str]:
        return [read(part) for part in text.split(",") if part]

    split.__name__ = f"list of {read.__name__}"
    return split
