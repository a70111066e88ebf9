"""The fuzz targets in Python on their corpus, the findings, and some mutations of both."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.fuzz.parsers import TARGETS, Checker, inputs_of
from tests.fuzz.watch_requests import close_servers

pytestmark = pytest.mark.usefixtures("one_thread")

MARKS = {"watch_requests": pytest.mark.ale}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::SyntaxWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, ())) for name in TARGETS]
)
def test_inputs(name: str, tmp_path: Path) -> None:
    checker = Checker(name, tmp_path)
    for data in itertools.islice(inputs_of(name, seed=0), 100):
        checker.run(data)
    assert checker.num_inputs == 100
    if name == "watch_requests":
        close_servers()
