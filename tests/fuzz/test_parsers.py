"""The fuzz targets in Python on their corpus, the findings, and some mutations of both."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.fuzz.parsers import TARGETS, Checker, inputs_of
from tests.fuzz.watch_requests import close_servers

pytestmark = pytest.mark.usefixtures("one_thread")

MARKS = dict.fromkeys(("watch_requests", "dataset_file", "archive_file"), pytest.mark.ale)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::SyntaxWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS.get(name, ())) for name in TARGETS]
)
@pytest.mark.parametrize(
    ("seed", "count"), [(0, 100), pytest.param(1, 2000, marks=pytest.mark.long)]
)
def test_inputs(name: str, seed: int, count: int, tmp_path: Path) -> None:
    checker = Checker(name, tmp_path)
    for data in itertools.islice(inputs_of(name, seed), count):
        checker.run(data)
    assert checker.num_inputs == count
    if name == "watch_requests":
        close_servers()
