"""Reads tables of TOML files key by key, with checks of types and ranges.

Unknown keys, wrong types and values out of range are errors that name the table, the key and what
is allowed.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard, TypeVar

from cule.errors import RulesError, shown
from cule.games.language import INT_MAX, INT_MIN
from cule.reading import MAX_LINE_DOTS, MAX_RULES_BYTES, read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")
TextT = TypeVar("TextT", bound=str)


def package_data(name: str) -> bytes:
    """Content of a file of ``cule/games/data``."""
    return (resources.files("cule.games") / "data" / name).read_bytes()


def user_data(what: str, path: str) -> bytes:
    """Content of a file of a user; `what` is the option that names it.

    Raises:
        RulesError: The file cannot be read.
    """
    try:
        return read_file(Path(path), MAX_RULES_BYTES)
    except OSError as error:
        reason = error.strerror or error
        raise RulesError(f"{what}: cannot read {shown(path)}: {reason}") from None
    except ValueError as error:
        raise RulesError(f"{what}: cannot read {shown(path)}: {error}") from None


#: Texts and comments of TOML 1.0, also without an end, so that each byte is looked at once. A text
#: of several lines may have one or two quotes of its own before the three that end it.
_TEXTS = re.compile(
    rb'"""(?:[^\\]|\\.)*?(?:"{3,5}|\\?\Z)'
    rb"|'{3}.*?(?:'{3,5}|\Z)"
    rb'|"(?:[^"\\\n]|\\[^\n])*"?'
    rb"|'[^'\n]*'?"
    rb"|#[^\n]*",
    re.DOTALL,
)


def parse_document(where: str, data: bytes) -> dict[str, object]:
    """The content of a TOML file, which `where` names in errors."""
    lines = _TEXTS.sub(b"", data).splitlines()
    if max((line.count(b".") for line in lines), default=0) > MAX_LINE_DOTS:
        raise RulesError(f"{where}: a line with more than {MAX_LINE_DOTS} dots outside texts")
    try:
        content: dict[str, object] = tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise RulesError(f"{where}: not a TOML file: {error}") from None
    return content


def parse_toml(where: str, data: bytes) -> dict[str, dict[str, object]]:
    """The tables of a TOML file, by their keys; `where` names it in errors."""
    tables = {}
    for key, table in parse_document(where, data).items():
        if not isinstance(table, dict):
            raise RulesError(
                f"{where}: {shown(key)} is outside a table; put it under [name_of_the_game]"
            )
        if not re.fullmatch(r"[a-z0-9][a-z0-9_]*", key):
            raise RulesError(
                f"{where}: table name {shown(key)}; a game id is made of a-z, 0-9 and _, as in "
                "ms_pacman"
            )
        tables[key] = table
    return tables


class Table:
    """Reads one TOML table key by key, with checks of types and ranges.

    A key without a default (None) is required.
    """

    def __init__(self, where: str, table: Mapping[str, object]) -> None:
        """Read a table, which `where` names in errors."""
        self.where = where
        self._table = table
        self._known: list[str] = []

    def error(self, key: str, message: str) -> RulesError:
        """Describe what is wrong with the value of a key."""
        return RulesError(f"{self.where}: {key} {message}")

    def finish(self) -> None:
        """Raise a RulesError for a key that was not read."""
        for key in self._table:
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, n=1)
                hint = f"did you mean {shown(near[0])}? " if near else ""
                allowed = ", ".join(self._known)
                raise RulesError(
                    f"{self.where}: unknown key {shown(key)}; {hint}allowed: {allowed}"
                )

    def skip(self, key: str) -> None:
        """Accept a key, whatever its value."""
        self._known.append(key)

    def _value(self, key: str, default: object) -> object:
        self._known.append(key)
        value = self._table.get(key, default)
        if value is None:
            raise RulesError(f"{self.where}: {shown(key)} is missing")
        return value

    def _typed(self, key: str, default: T | None, kind: type[T], what: str) -> T:
        value = self._value(key, default)
        if not isinstance(value, kind):
            raise self.error(key, f"is {shown(value)}; it must be {what}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text."""
        return self._typed(key, default, str, "a text")

    def flag(self, key: str, default: bool | None = None) -> bool:
        """A truth value."""
        return self._typed(key, default, bool, "true or false")

    def choice(self, key: str, allowed: Sequence[TextT], default: TextT | None = None) -> TextT:
        """One of some words."""
        value = self._value(key, default)
        for option in allowed:
            if value == option:
                return option
        raise self.error(key, f"is {shown(value)}; allowed: {', '.join(allowed)}")

    def integer(self, key: str, allowed: Collection[int], default: int | None = None) -> int:
        """An allowed integer."""
        value = self._value(key, default)
        if not _is_integer(value) or value not in allowed:
            raise self.error(key, f"is {shown(value)}; allowed: {_range_text(allowed)}")
        return value

    def integers(
        self,
        key: str,
        allowed: Collection[int],
        default: tuple[int, ...] | None = None,
        *,
        is_set: bool = True,
    ) -> tuple[int, ...]:
        """A list of integers; `is_set`: ascending, without repetition, and not empty."""
        values = self._value(key, default)
        if not isinstance(values, list | tuple):
            raise self.error(key, f"is {shown(values)}; it must be a list of integers")
        for value in values:
            if not _is_integer(value) or value not in allowed:
                raise self.error(key, f"holds {shown(value)}; allowed: {_range_text(allowed)}")
        if is_set and not values:
            raise self.error(key, "is empty; it needs at least one value")
        if is_set and any(a >= b for a, b in pairwise(values)):
            raise self.error(key, "must be in ascending order, without repetition")
        return tuple(values)

    def items(self, key: str) -> list[object]:
        """A list of anything."""
        return self._typed(key, None, list, "a list")

    def texts(self, key: str, count: int) -> tuple[str, ...]:
        """So many texts."""
        values = self._typed(key, None, list, "a list of texts")
        if len(values) != count or not all(isinstance(value, str) for value in values):
            raise self.error(key, f"is {shown(values)}; it must be a list of {count} texts")
        return tuple(values)

    def choices(self, key: str, allowed: Collection[str]) -> tuple[str, ...]:
        """A list of some of the allowed words."""
        values = self._typed(key, None, list, "a list of texts")
        for value in values:
            if value not in allowed:
                raise self.error(key, f"holds {shown(value)}; allowed: {', '.join(allowed)}")
        return tuple(values)

    def digests(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of MD5 digests."""
        values = self._value(key, default)
        if not isinstance(values, list | tuple):
            raise self.error(key, f"is {shown(values)}; it must be a list of MD5s")
        return tuple(self.checked_digest(key, value) for value in values)

    def checked_digest(self, key: str, value: object) -> str:
        """The value, if it is an MD5 digest."""
        if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{32}", value):
            raise self.error(key, f"has {shown(value)}; an MD5 digest is 32 digits 0-9 a-f")
        return value

    def table(self, key: str, default: Mapping[str, object] | None = None) -> Mapping[str, object]:
        """A table."""
        return self._typed(key, default, dict, "a table")

    def tables(self, key: str) -> list[Mapping[str, object]]:
        """A list of tables."""
        values = self._typed(key, None, list, "a list of tables")
        if not all(isinstance(value, dict) for value in values):
            raise self.error(key, f"is {shown(values)}; it must be a list of tables")
        return values

    def state(
        self, key: str, needed: Sequence[str], default: Mapping[str, object] | None = None
    ) -> tuple[tuple[str, int], ...]:
        """Names and reset values; `needed` must be among them."""
        values = {}
        for name, value in self.table(key, default).items():
            if not _is_integer(value) or not INT_MIN <= value <= INT_MAX:
                raise self.error(key, f"has {name} = {shown(value)}; it must be a 32-bit integer")
            values[name] = value
        for name in needed:
            if name not in values:
                raise self.error(key, f"lacks {shown(name)}; it needs {', '.join(needed)}")
        return tuple(values.items())


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _range_text(allowed: Collection[int]) -> str:
    if isinstance(allowed, range):
        return f"{allowed.start}..{allowed.stop - 1}"
    return shown(list(allowed))[1:-1]
