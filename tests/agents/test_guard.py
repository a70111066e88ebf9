"""Numbers of every algorithm, bit for bit, as they were recorded; a checkpoint changes none.

They are compared where torch and the processor give the same last bits as those that recorded them.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support import guard
from tests.support.cases import long_except
from tests.support.guard import VARIANTS, Case, cases, digests_of, fingerprint, recorded

pytestmark = [
    pytest.mark.ale,
    pytest.mark.filterwarnings("ignore::cule.replay.ShortReplayWarning"),
]

#: Trainings of `make test` and `make test-all`; `pytest -m slow` has the others.
SHORT = [case for case in cases() if case.kind == "lives"]
LONG = [case for case in cases() if case.kind != "lives"]

#: Trainings that are continued from a checkpoint in the middle.
RESUMED = [case for case in SHORT if case.mode == "SameStep"]
RESUMED_LONG = [case for case in LONG if case.kind in ("players", "continuous", *VARIANTS)]

#: Each algorithm once: `make test` has these.
QUICK = [Case(name, "lives", "NextStep") for name in ("a2c", "vtrace", "pqn", "dqn", "iqn")]
QUICK_RESUMED = [
    Case(name, "lives", "SameStep") for name in ("ppo", "rainbow", "apex-dqn", "apex-dpg")
]


@pytest.fixture(autouse=True)
def same_bits() -> None:
    """Skip where the last bits differ anyway."""
    wanted = recorded()["fingerprint"]
    if fingerprint() != wanted:
        pytest.skip(f"digests are of {wanted!r}; this is {fingerprint()!r}")


def name_of(case: Case) -> str:
    return case.name


@pytest.mark.parametrize(
    "case",
    long_except([case for case in SHORT if case not in RESUMED], *QUICK),
    ids=name_of,
)
def test_numbers_are_those_recorded(case: Case) -> None:
    assert digests_of(case) == recorded()[case.name]


@pytest.mark.parametrize("case", long_except(RESUMED, *QUICK_RESUMED), ids=name_of)
def test_resumed_numbers_are_those_recorded(case: Case) -> None:
    assert digests_of(case, resumed=True) == recorded()[case.name]


@pytest.mark.slow
@pytest.mark.parametrize("case", [*LONG, *RESUMED], ids=name_of)
def test_all_numbers_are_those_recorded(case: Case) -> None:
    assert digests_of(case) == recorded()[case.name]


@pytest.mark.slow
@pytest.mark.parametrize("case", RESUMED_LONG, ids=name_of)
def test_all_resumed_numbers_are_those_recorded(case: Case) -> None:
    assert digests_of(case, resumed=True) == recorded()[case.name]


def test_every_training_is_recorded_with_its_own_numbers() -> None:
    found = recorded()
    assert set(found) == {"fingerprint", *(case.name for case in cases())}
    for case in cases():
        assert len(found[case.name]) == guard.ROUNDS // guard.ROUNDS_PER_DIGEST + 1
    ends = [found[case.name][-1] for case in cases()]
    assert len(set(ends)) == len(ends)
