"""Options as dataclass fields: declared once, checked, documented, and turned into a command line.

The annotation of a field gives its type and allowed values (`Annotated[int, Bounds(1)]`,
`Literal["clip", "none"]`, `float | None`); `within` and `one_of` do where values may also be
others, such as numpy's. The docstring under a field is its documentation: in ``help()``, on the
command line and in tests. A subclass inherits what it does not say of a field.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import os
import re
import textwrap
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from cule.errors import InvalidArgumentError, shown
from cule.familiar_names import SHORT_NAMES, suggestion

_Number = TypeVar("_Number", int, float)
_Word = TypeVar("_Word", str, "str | None")
_Class = TypeVar("_Class", bound=type)
_Config = TypeVar("_Config")
_Value = TypeVar("_Value")

#: Largest seed: environments count up from it, below 2**31.
MAX_SEED = 2**30 - 1

#: Bounds from here on are not worth telling.
_NO_BOUND = 2**31 - 1

#: Largest size of the numbers of an option: torch converts them to int64, and products with floats
#: to float32.
LARGEST: Mapping[type, float] = MappingProxyType({int: 2**63 - 1, float: 1e30})


def within(default: _Number, low: _Number, high: _Number, **metadata: object) -> _Number:
    """A number with the range that it must be in, and further metadata."""
    return field(default=default, metadata={"range": (low, high), **metadata})


def one_of(default: _Word, *allowed: str) -> _Word:
    """One of some words; None is allowed where it is the default."""
    return field(default=default, metadata={"allowed": allowed})


def positional(metavar: str, default: _Value) -> _Value:
    """A value that is given without a flag on the command line, with its name there."""
    return field(default=default, metadata={"positional": metavar})


def init_fields(config_class: type) -> dict[str, dataclasses.Field[Any]]:
    """The fields of a dataclass that its constructor takes, by name."""
    return {item.name: item for item in dataclasses.fields(config_class) if item.init}


def described_by(other: type) -> Callable[[_Class], _Class]:
    """Let fields without a docstring have that of the field of this name in another dataclass."""

    def decorate(cls: _Class) -> _Class:
        cls._described_by = other  # type: ignore[attr-defined]  # for `field_docs`
        return cls

    return decorate


@functools.cache
def field_docs(config_class: type) -> Mapping[str, str]:
    """The docstring of each field of a dataclass; inherited where a class only sets a default."""
    other = getattr(config_class, "_described_by", None)
    docs: dict[str, str] = {} if other is None else dict(field_docs(other))
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


# --- Checks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bounds:
    """Closed interval of the allowed values of an option."""

    lowest: float
    highest: float = math.inf
    allow_infinity: bool = False

    def __str__(self) -> str:
        """The interval in words."""
        if self.highest == math.inf:
            return f"at least {self.lowest}"
        return f"from {self.lowest} to {self.highest}"


Positive = Annotated[int, Bounds(1)]
NonNegative = Annotated[int, Bounds(0)]
NonNegativeFloat = Annotated[float, Bounds(0.0)]
PositiveFloat = Annotated[float, Bounds(1e-6)]
GradNorm = Annotated[float, Bounds(0.0, allow_infinity=True)]
Epochs = Annotated[int, Bounds(1, 1_000)]
Seed = Annotated[int, Bounds(0, MAX_SEED)]
Seeds = Annotated[int, Bounds(1, 10_000)]
Threads = Annotated[int, Bounds(0, 1_024)]
Cells = Annotated[int, Bounds(1, 65_536)]
Fraction = Annotated[float, Bounds(0.0, 1.0)]


class Option(typing.NamedTuple):
    """Type and allowed values of a field."""

    kind: type
    is_optional: bool = False
    is_list: bool = False
    bounds: Bounds | None = None
    choices: tuple[str, ...] = ()

    def parse(self, name: str, value: object) -> object:
        """Return `value` in the type of the field."""
        if value is None and self.is_optional:
            return None
        if not self.is_list:
            return self._parse(f"{name} is", value)
        assert isinstance(value, Collection)
        return tuple(self._parse(f"{name} has", item) for item in value)

    def _parse(self, what: str, value: object) -> object:
        is_limit = self.bounds is not None and self.bounds.allow_infinity and value == math.inf
        if is_number(value) and not _is_finite(value) and not is_limit:
            raise InvalidArgumentError(f"{what} {shown(value)}; it must be a finite number")
        if not self._accepts(value):
            wanted = f"{self.kind.__name__} or None" if self.is_optional else self.kind.__name__
            raise InvalidArgumentError(f"{what} {shown(value)}; it must be of type {wanted}")
        parsed: object = self.kind(value)
        if self.bounds is not None:
            assert isinstance(parsed, int | float)
            if not self.bounds.lowest <= parsed <= self.bounds.highest:
                raise InvalidArgumentError(f"{what} {shown(parsed)}; it must be {self.bounds}")
        largest = LARGEST.get(self.kind, math.inf)
        if isinstance(parsed, int | float) and largest < abs(parsed) < math.inf:
            limit = f"at most {largest}" if parsed > 0 else f"at least {-largest}"
            raise InvalidArgumentError(f"{what} {shown(parsed)}; it must be {limit}")
        if self.choices and parsed not in self.choices:
            raise InvalidArgumentError(
                f"{what} {shown(parsed)}; it must be one of {', '.join(self.choices)}"
            )
        return parsed

    def _accepts(self, value: object) -> bool:
        """Whether `value` converts to the type without loss, such as 1e6, NumPy numbers, paths."""
        if self.kind is bool:
            return isinstance(value, bool | np.bool_)
        if self.kind in (str, Path):
            return isinstance(value, str | os.PathLike)
        return is_number(value) and (self.kind is float or value == int(value))


def is_number(value: object) -> typing.TypeGuard[float]:
    """Whether a value is a real number; True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def options_of(config_class: type) -> Mapping[str, Option]:
    """The options of a dataclass by the names of its fields."""
    return _options_of(config_class)


@functools.cache  # mypy takes no class with unhashable instances for its argument
def _options_of(config_class: type) -> Mapping[str, Option]:
    found: dict[str, Option] = {}
    for base in reversed(config_class.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        hints = typing.get_type_hints(base, include_extras=True)
        for name in inspect.get_annotations(base):
            option = _option(hints[name], base.__dataclass_fields__[name].metadata)
            before = found.get(name)
            if before is not None and option.bounds is None and not option.choices:
                option = option._replace(bounds=before.bounds, choices=before.choices)
            found[name] = option
    return {item.name: found[item.name] for item in dataclasses.fields(config_class)}


def _option(annotation: object, metadata: Mapping[str, Any] = MappingProxyType({})) -> Option:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if "allowed" in metadata:
        return Option(str, choices=metadata["allowed"])
    if "range" in metadata:
        low, high = metadata["range"]
        return _option(annotation)._replace(
            bounds=Bounds(low, math.inf if high == _NO_BOUND else high)
        )
    if origin in (typing.Union, types.UnionType):
        plain = [part for part in arguments if part is not type(None)]
        return _option(plain[0])._replace(is_optional=len(plain) < len(arguments))
    if origin is Annotated:
        return _option(arguments[0])._replace(bounds=arguments[1])
    if origin is Literal:
        return Option(str, choices=arguments)
    if origin is tuple:
        return _option(arguments[0])._replace(is_list=True)
    assert isinstance(annotation, type)
    return Option(annotation)


def validate(config: object) -> None:
    """Convert the values of a dataclass to the types of its fields, and check them."""
    for name, option in options_of(type(config)).items():
        object.__setattr__(config, name, option.parse(name, getattr(config, name)))


def require(config: object, where: str, /, **needed: object) -> None:
    """Refuse other values of some options, if `config` has them; `where` says when they are needed.

    Raises:
        InvalidArgumentError: An option has another value.
    """
    for name, value in needed.items():
        given = getattr(config, name, value)
        if given != value:
            raise InvalidArgumentError(
                f"{name} is {shown(given)}; {where} it must be {shown(value)}"
            )


# Any: the values are checked by the dataclass, whatever they are.
def config_from(config_class: type[_Config], values: Mapping[str, Any]) -> _Config:
    """Make a config from named values."""
    known = options_of(config_class)
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise InvalidArgumentError(
            f"{config_class.__name__} has no option {', '.join(unknown)}; "
            f"it has {', '.join(sorted(known))}{suggestion(unknown[0], known)}"
        )
    return config_class(**values)


# --- Command lines --------------------------------------------------------------------------------


def parse_options(
    parser: argparse.ArgumentParser, config_class: type[_Config], words: Sequence[str]
) -> _Config:
    """Parse a command line whose options are the fields of a dataclass."""
    add_arguments(parser, config_class)
    return config_class(**given_fields(parser.parse_args(words)))


def add_arguments(
    parser: argparse._ActionsContainer,
    config_class: type,
    defaults: Mapping[str, object] = MappingProxyType({}),
    targets: Mapping[str, argparse._ActionsContainer] = MappingProxyType({}),
) -> None:
    """Add one option per field to a parser; `given_fields` reads those that are given.

    Args:
        parser: The parser, or a group of one.
        config_class: A dataclass; fields whose metadata have a ``group`` are together in the help.
        defaults: Defaults other than those of the class, for the help.
        targets: Groups of fields, by name, in place of `parser`.
    """
    docs, options = field_docs(config_class), options_of(config_class)
    groups: dict[str, argparse._ActionsContainer] = {}
    for item in dataclasses.fields(config_class):
        group, target = item.metadata.get("group"), targets.get(item.name, parser)
        if group is not None:
            target = groups[group] = groups.get(group) or parser.add_argument_group(group)
        option = options[item.name]
        names = (item.name, *SHORT_NAMES.get(item.name, ()))
        flags = ["--" + name.replace("_", "-") for name in names]
        default = defaults.get(item.name, item.default)
        if isinstance(default, tuple):
            default = ",".join(map(str, default))
        text = help_text(docs[item.name], docs)
        if default not in (None, "", dataclasses.MISSING):
            text += f" (default: {default})".replace("%", "%%")
        read = functools.partial(_convert, option)
        add = functools.partial(target.add_argument, default=argparse.SUPPRESS, help=text)
        if "positional" in item.metadata:
            add(
                item.name,
                nargs="+" if option.is_list else "?",
                type=read,
                default=item.default,
                metavar=item.metadata["positional"],
            )
        elif option.kind is bool:
            add(*flags, action=argparse.BooleanOptionalAction)
        elif option.is_list:
            add(*flags, nargs="+", type=functools.partial(_split, read), metavar="LIST")
        else:
            is_required = item.default is dataclasses.MISSING
            metavar = option.kind.__name__.upper()
            add(*flags, type=read, metavar=metavar, required=is_required)


def _convert(option: Option, word: str) -> object:
    """Convert a word of the command line; numbers may be written 1e6 or 10_000."""
    if option.is_optional and word.lower() == "none":
        return None
    try:
        converted: object = integer(word) if option.kind is int else option.kind(word)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{shown(word)} is not of type {option.kind.__name__}"
        ) from None
    return converted


def _split(read: Callable[[str], object], text: str) -> list[object]:
    """The items of a list with commas."""
    return [read(part) for part in text.split(",") if part]


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
    given = vars(parsed)
    for name, value in given.items():
        if isinstance(value, list):
            parts = (part if isinstance(part, list) else [part] for part in value)
            given[name] = tuple(itertools.chain.from_iterable(parts))
    return given
