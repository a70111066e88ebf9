"""Markers that depend on the machine, and what the tests of every room share."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
from collections.abc import Iterator

import pytest

#: Markers that depend on the machine.
MARKERS = ("gpu", "ale", "compilers")

# Before torch is imported, here and in processes that tests start: tests run side by side, and with
# a second thread each waits for the other more than it computes.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--require`` and ``--fake-cuda``."""
    parser.addoption(
        "--require",
        default="",
        metavar="MARKERS",
        help="markers (of gpu, ale, compilers; comma-separated) whose tests fail instead of being skipped",
    )
    parser.addoption(
        "--fake-cuda",
        action="store_true",
        help="where there is no GPU, run the tests of one on tests/support/fake_cuda.py",
    )


@functools.cache
def missing(marker: str) -> str | None:
    """Why tests with a marker cannot run here; None where they can."""
    if marker == "ale":
        if importlib.util.find_spec("ale_py") is None:
            return "ale-py is not installed"
        return None
    if marker == "compilers":
        from tests.support.compilers import missing_compilers

        return missing_compilers()
    from cule.device import unavailable_reason

    return unavailable_reason("cuda")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse unknown names in ``--require``."""
    unknown = required_markers(config) - set(MARKERS)
    if unknown:
        known, names = ", ".join(MARKERS), ", ".join(sorted(unknown))
        raise pytest.UsageError(f"--require knows {known}, not {names}")


def pytest_collection_finish() -> None:
    """Leave what is there before the first test out of garbage collection: a million objects."""
    gc.freeze()


def required_markers(config: pytest.Config) -> set[str]:
    """The markers named by ``--require``."""
    return {name.strip() for name in config.getoption("--require").split(",") if name.strip()}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, or fail it where ``--require`` says so."""
    for marker in MARKERS:
        if item.get_closest_marker(marker) is None:
            continue
        reason = missing(marker)
        if reason is None:
            continue
        if marker == "gpu" and item.config.getoption("--fake-cuda"):
            if item.get_closest_marker("no_fake_cuda") is None:
                continue
            reason = "the mock CUDA device does not run this"
        if marker in required_markers(item.config):
            pytest.fail(f"--require {marker}: {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch on one thread: on busy cores a second one is mostly waited for."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
