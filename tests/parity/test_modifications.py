"""Modified games: what each modification does, and that poking ale-py does the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import cule
from cule.games.modifications import (
    COMMON,
    ROM,
    Modification,
    games_with_modifications,
    load_modifications,
    modify_spec,
)
from cule.games.schema import ConsoleProperties
from cule.games.spec import resolve
from tests.support.ale_pair import difference, load_ale_py
from tests.support.cases import long_except
from tests.support.modified_games import (
    NAMES,
    Run,
    actions_of,
    checks_of,
    load_game,
    load_image,
    switched_on,
)

pytestmark = pytest.mark.ale

CASES = [(game, name) for game in games_with_modifications() for name in load_modifications(game)]
#: Of every moment at which programs run, and those of cartridges that are changed.
QUICK = [
    ("breakout", "invisible_paddle_and_ball"),
    ("breakout", "paddle_size"),
    ("elevator_action", "start_lives"),
    ("qbert", "diagonal_controls"),
    ("riverraid", "no_shots"),
]
#: Games that those of every game are checked in.
COMMON_GAMES = ("seaquest", "riverraid", "space_invaders")
COMMON_CASES = [(game, name) for game in COMMON_GAMES for name in load_modifications(COMMON)]

#: Frames that are compared with ale-py at least, unless the game ends.
LEAST_FRAMES = 600


@lru_cache(maxsize=2)
def plain_run(game: str, actions: tuple[int, ...], program: str, state: Any) -> Run:
    return Run(game, actions, before=program, state=dict(state))


def our_frames(game: str, text: str, actions: list[int]) -> Iterator[tuple[Any, Any, float, bool]]:
    """RAM, screen, reward and end of each frame of a modified environment."""
    with cule.AtariVectorEnv(
        game, 1, modifications=text, obs_type="ram", frameskip=1, noop_max=0, use_fire_reset=False,
        full_action_space=True, reward_clipping=False, autoreset_mode="Disabled",
    ) as env:  # fmt: skip
        env.reset(seed=1)
        number = {int(action): index for index, action in enumerate(env.action_set)}
        for action in actions:
            ram, reward, terminated, *_ = env.step(np.array([number.get(action, 0)]))
            yield ram[0], env.screens("index", [0])[0], reward[0], terminated[0]


def text_of(name: str, values: Mapping[str, int]) -> str:
    arguments = ", ".join(f"{key}={value}" for key, value in values.items())
    return f"{name}({arguments})" if values else name


@pytest.mark.parametrize(("game", "name"), long_except(CASES, *QUICK))
def test_modification(game: str, name: str) -> None:
    assert_modified(game, load_modifications(game)[name], checks_of(game)[name])


@pytest.mark.parametrize(("game", "name"), long_except(COMMON_CASES, every=33))
def test_a_modification_of_every_game(game: str, name: str) -> None:
    check = {"policy": "*12", "frames": 1000, **checks_of(COMMON)[name]}
    assert_modified(game, load_modifications(COMMON)[name], check)


def assert_modified(game: str, modification: Modification, check: Mapping[str, Any]) -> None:
    """What is said of a modification holds, and environments do the same."""
    minimal = [action.value for action in load_game(game).getMinimalActionSet()]
    frames, seed = check["frames"], check.get("seed", 1)
    actions = actions_of(check["policy"], frames, minimal, seed)
    compared = actions_of(check["policy"], max(frames, LEAST_FRAMES), minimal, seed)
    before, state = check.get("before", ""), check.get("state", {})
    plain = check.get("plain", before)
    b = plain_run(game, tuple(actions), plain, tuple(state.items()))
    for values in check.get("values", [{}]):
        text = text_of(modification.name, values)
        if modification.when == ROM:
            m = run_changed(game, text, actions)
        else:
            m = Run(game, actions, modification, values, before, state)
        names = {**NAMES, "b": b, "m": m, "P": values}
        assert eval(check.get("check", "True"), names), values
        if "actions" in check:  # what the actions of the plain run become, one by one
            after = [eval(check["actions"], {**names, "t": t, "a": b.act}) for t in range(m.n)]
            assert m.act == after
            assert m.act != b.act[: m.n]
        if modification.when == "before_frame":
            same = Run(game, m.act)
            assert np.array_equal(same.ram, m.ram)
        if modification.when != ROM and (before or actions != compared):
            m = Run(game, compared, modification, values)
        ours = our_frames(game, text, compared[: m.n])
        for frame, (ram, screen, reward, is_over) in enumerate(ours):
            assert not difference(m.ram[frame].astype(np.uint8), ram), frame
            assert not difference(m.scr[frame], screen), frame
            assert reward == m.rew[frame], frame
            assert is_over == (m.over and frame == m.n - 1), frame


def run_changed(game: str, text: str, actions: list[int]) -> Run:
    """A run of a changed cartridge in ale-py.

    To ale-py it is an unknown ROM, with the console of one. Where that is not the game's, as with
    paddles, both emulators play it there alike, and the run that is returned is ours with paddles.
    """
    spec = resolve(game)
    image = modify_spec(spec, [text])[0].rom
    assert image != spec.rom
    reference = Run(game, actions, ale=load_image(load_ale_py().ALEInterface(), game, image))
    if spec.console == ConsoleProperties():
        return reference
    with pytest.warns(UserWarning, match="the console properties of an unknown ROM"):
        ours = Run(game, actions, ale=load_image(cule.ALEInterface(), game, image))
    assert np.array_equal(ours.ram, reference.ram)
    assert np.array_equal(ours.scr, reference.scr)
    assert np.array_equal(ours.rew, reference.rew)
    ale = cule.ALEInterface()
    ale.setString("modifications", text)
    return Run(game, actions, ale=switched_on(ale, spec.rom_path))
