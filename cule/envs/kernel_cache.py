"""Compiled kernels on disk, each in a file that says what it was made for.

A file is a line of JSON, then the code. The line holds what the code was made for and the code's
digest; a file where one of them is wrong is none. Files are written whole or not at all, whichever
processes write at the same time.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from cule.files import home, replace_bytes
from cule.reading import read_file

#: What a kernel was made for: sources, architecture, compiler and the like.
MadeFor = dict[str, str]


def cache_folder() -> Path:
    """Where compiled kernels are kept: `CULE_CACHE`, or cule in the user's cache folder."""
    named = os.environ.get("CULE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "cule"


def path_of(name: str, made_for: MadeFor) -> Path:
    """The file of a kernel; `name` is for people."""
    digest = hashlib.sha256(json.dumps(made_for, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"{name}-{digest[:32]}.kernel"


def load(name: str, made_for: MadeFor) -> bytes | None:
    """The code of a kernel; None if it is not there. A file that holds something else is deleted.

    Raises:
        OSError: The file cannot be read or deleted.
    """
    path = path_of(name, made_for)
    try:
        content = read_file(path)
    except FileNotFoundError:
        return None
    head, _, code = content.partition(b"\n")
    if head == _head(made_for, code):
        return code
    discard(name, made_for)
    return None


def store(name: str, made_for: MadeFor, code: bytes) -> None:
    """Keep a kernel; its folder is made.

    Raises:
        StorageError: It cannot be written.
    """
    replace_bytes(path_of(name, made_for), _head(made_for, code) + b"\n" + code)


def discard(name: str, made_for: MadeFor) -> None:
    """Delete a kernel that is no good."""
    path_of(name, made_for).unlink(missing_ok=True)


def _head(made_for: MadeFor, code: bytes) -> bytes:
    words = {"made_for": made_for, "sha256": hashlib.sha256(code).hexdigest()}
    return json.dumps(words, sort_keys=True).encode()
