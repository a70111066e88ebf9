"""Cases of parametrized tests, of which `make test` runs some and `make test-all` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def long_except(cases: Iterable[Any], *quick: Any, every: int = 0) -> list[Any]:
    """Mark cases as long, except for those in `quick` and every so manieth.

    Raises:
        ValueError: `quick` has something else than cases.
    """
    cases = list(cases)
    if unknown := [case for case in quick if case not in cases]:
        raise ValueError(f"not among the cases: {unknown}")
    return [
        case
        if case in quick or (every and index % every == 0)
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
        for index, case in enumerate(cases)
    ]
