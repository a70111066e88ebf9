"""Mode selections in numbered steps: the program that they are, and errors."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cule.errors import RulesError
from cule.games.compiler import compile_rules
from cule.games.schema import load_games
from tests.support.made_up_rules import rules_of

#: `mode_setup` of games in numbered steps.
STEPS = {
    "pong": "1. While ram(0x96) != mode: SELECT(2).\n2. SOFT_RESET.",
    "adventure": """
1. While ((ram(0x5D) >> 1) & 3) != mode: SELECT(2 + RAND % 256), ACT(0).
2. SOFT_RESET.
""",
    "berzerk": "1. 20 times: ACT(0).\n2. While ram(0x00) != mode: SELECT(2).\n3. SOFT_RESET.",
    "demon_attack": "1. While ram(0x6A) != mode: SELECT(1).\n2. Set fresh = 1.\n3. SOFT_RESET.",
    "et": """
1. tries = 0.
2. While ((ram(0x6A) - 1) & 255) != mode and tries < 100: SELECT(25), tries = tries + 1.
3. If ((ram(0x6A) - 1) & 255) != mode: fail with an error.
4. SOFT_RESET.
""",
    "ms_pacman": """
1. wanted = 1 if mode == 0 else mode.
2. variant = 1 if mode == 0 else 0.
3. While ram(0x99) != wanted or ram(0xA1) != variant: SELECT(10).
4. SOFT_RESET.
""",
}


@pytest.mark.parametrize("game", sorted(STEPS))
def test_numbered_steps_are_the_program(game: str) -> None:
    rules = load_games()[game]
    assert compile_rules(replace(rules, mode_setup=STEPS[game])) == compile_rules(rules)


def test_steps_with_names_and_choices() -> None:
    steps = """
    1. NEXT.
    2. OPTION(0x08, mode & 1).
    3. wanted = (0, 2, 8)[mode % 100].
    NEXT means: remember p = ram(0x30); while ram(0x30) == p: ACT(5), ACT(0).
    OPTION(bit, wanted) means: if wanted is not 0, while (ram(0) & bit) == 0: ACT(3); if wanted is 0, ACT(4).
    """
    program = """
p = ram(0x30)
while ram(0x30) == p:
    act(5)
    act(0)
if (mode & 1) != 0:
    while (ram(0) & 0x08) == 0:
        act(3)
if (mode & 1) == 0:
    act(4)
wanted = 0 if mode % 100 == 0 else 2 if mode % 100 == 1 else 8
"""
    assert compile_rules(rules_of(setup=steps)) == compile_rules(rules_of(setup=program))


@pytest.mark.parametrize(
    ("steps", "blamed"),
    [
        ("1. SELECT(2)", "SELECT(2)"),  # no full stop
        ("1. PRESS(2).", "PRESS(2)"),
        ("1. While ram(0) != mode: select 2.", "select 2"),
        ("1. AGAIN.\nAGAIN means: ACT(1); AGAIN.", "AGAIN"),
        ("1. TWICE(1, 2).\nTWICE(a) means: ACT(a); ACT(a).", "TWICE(1, 2)"),
        ("1. SELECT(ram(1.", "SELECT(ram(1"),
        ("1. SELECT(who).", "who"),
    ],
)
def test_what_is_no_step_is_named(steps: str, blamed: str) -> None:
    with pytest.raises(RulesError, match=re.escape(blamed)) as caught:
        compile_rules(rules_of(setup=steps))
    assert "made_up: mode_setup" in str(caught.value)


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (
            "1. A_.\n"
            + "\n".join(
                f"{'A' * n}_ means: {'A' * (n + 1)}_; {'A' * (n + 1)}_." for n in range(1, 40)
            )
            + f"\n{'A' * 40}_ means: ACT(0).",
            "the program of its steps is longer",
        ),
        ("1. " + "If " * 10_000 + ".", "steps longer than"),
    ],
)
def test_steps_that_would_take_for_ever_are_refused(setup: str, message: str) -> None:
    with pytest.raises(RulesError, match=message):
        compile_rules(rules_of(setup=setup))
