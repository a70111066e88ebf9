"""Rules of several players: the compiled programs against the plain evaluator."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from cule import _core
from cule.envs.plan import make_game
from cule.errors import CuleError
from cule.games import load_multiplayer, resolve_players
from cule.games.compiler import NUM_SLOTS, compile_rules
from tests.support.rule_evaluator import RuleEvaluator

IMAGES = 300


def ram_images(text: str) -> Iterator[bytes]:
    """RAM whose cells hold bytes that the rules ask for, half of the time."""
    draw = random.Random(text)
    likely = [int(number, 0) & 255 for number in re.findall(r"\b(?:0x[0-9A-F]+|\d+)\b", text)]
    for _ in range(IMAGES):
        yield bytes(
            draw.choice(likely) if draw.random() < 0.5 else draw.randrange(256) for _ in range(128)
        )


@pytest.mark.parametrize("game", load_multiplayer())
def test_rules_of_several_players_equal_the_evaluator(game: str) -> None:
    """Rewards in the slots where the core expects them, and a lives program for each player."""
    rules = load_multiplayer()[game].rules
    compiled = compile_rules(rules)
    evaluator = RuleEvaluator(rules)
    slots = [*compiled.state, *[0] * (NUM_SLOTS - len(compiled.state))]
    starts = [*compiled.lives_at, len(compiled.lives_code)]
    for ram in ram_images(rules.step):
        evaluator.step(ram)
        _, slots = _core.run_program(compiled.step_code, slots, ram, bytes(128))
        state = list(evaluator.state.values())
        assert slots[: len(state)] == state
        rewards = [slots[1], *slots[3 : 2 + rules.num_players]]
        names = [f"reward_p{player}" for player in range(rules.num_players)]
        assert rewards == [evaluator.state[name] for name in names]
        for player, (start, end) in enumerate(pairwise(starts)):
            lives, _ = _core.run_program(compiled.lives_code[start:end], slots, ram, bytes(128))
            assert lives == evaluator.lives_of(player)


def test_kept_state_and_turn_limits() -> None:
    facts = load_multiplayer()["entombed"]
    compiled, evaluator = compile_rules(facts.rules), RuleEvaluator(facts.rules)
    assert [list(evaluator.state)[slot] for slot in compiled.kept_slots] == ["cooperative"]
    evaluator.state["cooperative"] = evaluator.state["score"] = 1
    evaluator.reset()
    assert (evaluator.state["cooperative"], evaluator.state["score"]) == (1, 0)
    tennis = load_multiplayer()["tennis"]
    assert tennis.has_turn_limit
    assert dict(tennis.rules_for(2, 9).state)["turn_limit"] == 9
    assert dict(tennis.rules_for(2).state)["turn_limit"] == 180
    assert not facts.has_turn_limit


def test_the_core_checks_what_players_need() -> None:
    fields = resolve_players("pong", 4).to_core_kwargs()
    wrong = {
        "num_players": (5, "num_players is 5; it must be 1 to 4"),
        "kept_slots": ([7], "kept_slots holds 7; it must hold slots of state"),
        "lives_at": ([0, 3, 6, 99], "lives_at must ascend within lives_code"),
    }
    for name, (value, words) in wrong.items():
        with pytest.raises(CuleError, match=words):
            make_game({**fields, name: value})
