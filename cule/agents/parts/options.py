"""Options as frozen dataclasses: declared once, checked, and turned into a command line.

The annotation of a field gives its type and allowed values (`Annotated[int, Bounds(1)]`,
`Literal["clip", "none"]`, `float | None`); the docstring under it is its documentation, also on the
command line.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import numbers
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from cule.errors import InvalidArgumentError, shown
from cule.familiar_names import suggestion
from cule.option_fields import field_docs, help_text, integer

Config = TypeVar("Config")


#: Further names of options on the command line.
_SHORT_NAMES = {"learning_rate": ("--lr",), "num_actors": ("--actors",)}


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
Fraction = Annotated[float, Bounds(0.0, 1.0)]


class Option(typing.NamedTuple):
    """Type and allowed values of a field."""

    kind: type
    is_optional: bool = False
    bounds: Bounds | None = None
    choices: tuple[str, ...] = ()

    def parse(self, name: str, value: object) -> object:
        """Return `value` in the type of the field."""
        if value is None and self.is_optional:
            return None
        is_limit = self.bounds is not None and self.bounds.allow_infinity and value == math.inf
        if _is_number(value) and not _is_finite(value) and not is_limit:
            raise InvalidArgumentError(f"{name} is {shown(value)}; it must be a finite number")
        if not self._accepts(value):
            wanted = f"{self.kind.__name__} or None" if self.is_optional else self.kind.__name__
            raise InvalidArgumentError(f"{name} is {shown(value)}; it must be of type {wanted}")
        parsed: object = self.kind(value)
        if self.bounds is not None:
            assert isinstance(parsed, int | float)
            if not self.bounds.lowest <= parsed <= self.bounds.highest:
                raise InvalidArgumentError(f"{name} is {shown(parsed)}; it must be {self.bounds}")
        if self.choices and parsed not in self.choices:
            raise InvalidArgumentError(
                f"{name} is {shown(parsed)}; it must be one of {', '.join(self.choices)}"
            )
        return parsed

    def _accepts(self, value: object) -> bool:
        """Whether `value` converts to the type without loss, such as 1e6, NumPy numbers, paths."""
        if self.kind is bool:
            return isinstance(value, bool | np.bool_)
        if self.kind is str:
            return isinstance(value, str | os.PathLike)
        return _is_number(value) and (self.kind is float or value == int(value))


def _is_number(value: object) -> typing.TypeGuard[float]:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def options_of(config_class: type) -> Mapping[str, Option]:
    """The options of a dataclass by the names of its fields."""
    hints = typing.get_type_hints(config_class, include_extras=True)
    return {item.name: _option(hints[item.name]) for item in dataclasses.fields(config_class)}


def _option(annotation: object) -> Option:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        (plain,) = [part for part in arguments if part is not type(None)]
        return _option(plain)._replace(is_optional=True)
    if origin is Annotated:
        return Option(arguments[0], bounds=arguments[1])
    if origin is Literal:
        return Option(str, choices=arguments)
    assert isinstance(annotation, type)
    return Option(annotation)


def validate(config: object) -> None:
    """Convert the values of a dataclass to the types of its fields, and check them."""
    for name, option in options_of(type(config)).items():
        object.__setattr__(config, name, option.parse(name, getattr(config, name)))


def add_arguments(
    parser: argparse._ActionsContainer, config_class: type, defaults: Mapping[str, object]
) -> None:
    """Add one option per field to a parser. Options that are not given stay out of the result."""
    docs = field_docs(config_class)
    options = options_of(config_class)
    for item in dataclasses.fields(config_class):
        option = options[item.name]
        flag = "--" + item.name.replace("_", "-")
        default = f"(default: {defaults.get(item.name, item.default)})".replace("%", "%%")
        text = f"{help_text(docs[item.name], docs)} {default}"
        flags = (flag, *_SHORT_NAMES.get(item.name, ()))
        add = functools.partial(parser.add_argument, *flags, default=argparse.SUPPRESS, help=text)
        if option.kind is bool:
            add(action=argparse.BooleanOptionalAction)
        else:
            add(type=functools.partial(_convert, option), metavar=option.kind.__name__.upper())


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


# Any: the values are checked by the dataclass, whatever they are.
def config_from(config_class: type[Config], values: Mapping[str, Any]) -> Config:
    """Make a config from named values."""
    known = options_of(config_class)
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise InvalidArgumentError(
            f"{config_class.__name__} has no option {', '.join(unknown)}; "
            f"it has {', '.join(sorted(known))}{suggestion(unknown[0], known)}"
        )
    return config_class(**values)
