"""The GPU of these tests: a real one, or with ``--fake-cuda`` `tests.support.fake_cuda`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.conftest import missing


@pytest.fixture(autouse=True)
def gpu(request: pytest.FixtureRequest, one_thread: None) -> Iterator[None]:
    """A GPU, whichever."""
    with contextlib.ExitStack() as stack:
        if request.config.getoption("--fake-cuda") and missing("gpu") is not None:
            from tests.support.fake_cuda import fake_cuda

            stack.enter_context(fake_cuda(count=2))
        yield
