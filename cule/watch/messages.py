"""Messages of viewers: JSON objects and queries with fixed names, and how others are rejected."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from urllib.parse import parse_qs

from cule.errors import CuleError, shown
from cule.watch.keys import KEYS, Keys

#: Most bytes of a message.
MAX_BYTES = 4096

#: The id that a page chooses for itself.
_VIEWER = re.compile(r"[0-9A-Za-z]{1,64}", re.ASCII)

_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class RequestError(CuleError, ValueError):
    """A request is invalid, which affects no environment; `status` is that of the response."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        """Create the error of a response; the message says why and what is allowed."""
        super().__init__(message)
        self.status = status


def parse_object(body: bytes, names: Collection[str]) -> dict[str, object]:
    """The members of a JSON object, which must have exactly these names."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError("the body is no JSON") from None
    if not isinstance(value, dict) or value.keys() != set(names):
        raise RequestError(f"the body must be an object of {', '.join(sorted(names)) or 'nothing'}")
    return value


def parse_query(query: str) -> dict[str, str]:
    """The parameters of a query, each of which may occur once."""
    try:
        values = parse_qs(query, keep_blank_values=True, max_num_fields=8)
    except ValueError:
        raise RequestError("the query has too many parameters") from None
    if any(len(value) > 1 for value in values.values()):
        raise RequestError("the query has a parameter twice")
    return {name: value for name, (value,) in values.items()}


def viewer_of(fields: Mapping[str, object]) -> str:
    """Id of the viewer."""
    viewer = fields.get("viewer")
    if not isinstance(viewer, str) or not _VIEWER.fullmatch(viewer):
        raise RequestError(f"viewer is {shown(viewer)}; it must be 1 to 64 letters and digits")
    return viewer


def after_of(fields: Mapping[str, str]) -> int:
    """Number of the picture that the viewer has; -1 by default."""
    after = fields.get("after", "-1")
    if not _INTEGER.fullmatch(after):
        raise RequestError(f"after is {shown(after)}; it must be an integer")
    return int(after)


def console_of(fields: Mapping[str, object]) -> int:
    """Index of an environment, not yet checked against their number."""
    console = fields["console"]
    if not isinstance(console, int) or isinstance(console, bool):
        raise RequestError(f"console is {shown(console)}; it must be an integer")
    return console


def keys_of(fields: Mapping[str, object]) -> Keys:
    """Held keys."""
    keys = fields["keys"]
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in KEYS for key in keys):
        raise RequestError(f"keys is {shown(keys)}; it must be a list of {', '.join(sorted(KEYS))}")
    return frozenset(keys)


def paused_of(fields: Mapping[str, object]) -> bool:
    """Whether the environments shall pause."""
    paused = fields["paused"]
    if not isinstance(paused, bool):
        raise RequestError(f"paused is {shown(paused)}; it must be true or false")
    return paused
