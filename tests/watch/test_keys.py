"""Keys to actions, and the players who hold them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from cule import Action
from cule.envs.actions import joystick_action
from cule.watch.keys import KEYS, nearest_action, polar_action, pressed_by
from cule.watch.messages import RequestError
from cule.watch.players import TIMEOUT_S, Players

COMBINATIONS = [frozenset(keys) for size in range(6) for keys in combinations(sorted(KEYS), size)]


def name_of(keys: frozenset[str]) -> str:
    return "+".join(sorted(keys)) or "none"


def meant_by(keys: frozenset[str]) -> Action:
    """The action that ALE has for keys."""
    horizontal = ("right" in keys) - ("left" in keys)
    vertical = ("up" in keys) - ("down" in keys)
    return joystick_action(horizontal, vertical, "fire" in keys)


@pytest.mark.parametrize("keys", COMBINATIONS, ids=name_of)
def test_all_actions_are_the_joysticks(keys: frozenset[str]) -> None:
    assert nearest_action(keys, [pressed_by(action) for action in Action]) == meant_by(keys)


@pytest.mark.parametrize("keys", COMBINATIONS, ids=name_of)
def test_continuous_actions_are_the_joysticks(keys: frozenset[str]) -> None:
    radius, angle, fire = polar_action(keys)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    horizontal, vertical = (int(value > 0.5) - int(value < -0.5) for value in (x, y))
    assert joystick_action(horizontal, vertical, bool(fire > 0.5)) == meant_by(keys)


def test_small_sets_get_what_they_have_of_what_is_held() -> None:
    actions = [Action.NOOP, Action.FIRE, Action.RIGHT, Action.LEFT, Action.RIGHTFIRE]
    presses = [pressed_by(action) for action in actions]

    def nearest(*keys: str) -> Action:
        return actions[nearest_action(frozenset(keys), presses)]

    assert nearest() == nearest("up") == nearest("left", "right") == Action.NOOP
    assert nearest("up", "right", "fire") == Action.RIGHTFIRE
    assert nearest("left", "fire") == Action.FIRE
    assert nearest("down", "left") == Action.LEFT
    # Where even nothing is no action, the least that there is.
    assert nearest_action(frozenset(), [pressed_by(Action.UPFIRE), pressed_by(Action.FIRE)]) == 1


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_held_keys_stay_and_tapped_keys_count_once() -> None:
    players = Players(Clock())
    players.play("a", 3, frozenset({"left"}))
    players.play("a", 3, frozenset({"left", "fire"}))
    players.play("a", 3, frozenset({"left"}))
    assert players.pop_keys() == {3: {"left", "fire"}}
    assert players.pop_keys() == {3: {"left"}}
    players.play("a", 3, frozenset())
    assert players.pop_keys() == {3: frozenset()}


def test_a_viewer_plays_one_console_and_a_console_has_one_viewer() -> None:
    players = Players(Clock())
    players.play("a", 0, frozenset({"up"}))
    players.play("b", 1, frozenset({"down"}))
    with pytest.raises(RequestError, match="console is 1, which another viewer plays"):
        players.play("a", 1, frozenset())
    assert players.by_slot() == {0: "a", 1: "b"}
    players.play("a", 2, frozenset())
    assert players.pop_keys() == {2: frozenset(), 1: {"down"}}
    players.release("b")
    players.release("nobody")
    players.play("a", 1, frozenset())
    assert players.by_slot() == {1: "a"}
    with pytest.raises(RequestError, match="plays no environment"):
        players.env_of("b")


def test_who_is_silent_has_gone() -> None:
    clock = Clock()
    players = Players(clock)
    players.play("a", 0, frozenset({"up"}))
    players.play("b", 1, frozenset({"up"}))
    clock.now_s += TIMEOUT_S
    players.hear("a")
    clock.now_s += 0.1
    assert players.pop_keys() == {0: {"up"}}
    players.hear("b")
    assert players.by_slot() == {0: "a"}


def test_viewers_share_a_console_of_several_seats() -> None:
    players = Players(Clock(), seats=2)
    players.play("a", 3, frozenset({"left"}))
    players.play("b", 3, frozenset({"up"}))
    players.play("c", 0, frozenset())
    assert players.by_slot() == {6: "a", 7: "b", 0: "c"}
    with pytest.raises(RequestError, match="console is 3, which other viewers play"):
        players.play("c", 3, frozenset())
    assert players.env_of("b") == 3
    players.release("a")
    players.play("b", 3, frozenset())  # keeps its seat
    players.play("c", 3, frozenset({"down"}))
    assert players.pop_keys() == {7: {"up"}, 6: {"down"}}
