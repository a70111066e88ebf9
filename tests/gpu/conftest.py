"""The GPU of these tests: a real one, or with ``--stand-in-gpu`` `tests.stand_in_gpu`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.conftest import missing


@pytest.fixture(autouse=True)
def gpu(request: pytest.FixtureRequest, one_thread: None) -> Iterator[None]:
    """A GPU, whichever."""
    with contextlib.ExitStack() as stack:
        if request.config.getoption("--stand-in-gpu") and missing("gpu") is not None:
            from tests.stand_in_gpu import stand_in_gpu

            stack.enter_context(stand_in_gpu(count=2))
        yield
