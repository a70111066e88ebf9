"""`cule.pettingzoo`: PettingZoo's own tests, and the very same play as its Atari games."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.errors import InvalidArgumentError
from cule.games import find_rom, load_multiplayer
from tests.support.ale_pair import difference
from tests.support.concurrency import run_cases

pytest.importorskip(
    "pettingzoo", reason="pettingzoo is not installed; make test-integrations runs this"
)

import pettingzoo

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its own use of names that it deprecates
    from pettingzoo.test import api_test, max_cycles_test, parallel_api_test, seed_test

from cule.pettingzoo import AtariParallelEnv, parallel_env
from cule.pettingzoo import env as turns_env
from cule.pettingzoo.variants import names, resolve_variant

pytestmark = pytest.mark.ale

NAMES = names()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Their tests warn of what the games are: no images as they like them, odd rewards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def theirs(name: str, number: int, mode: int | None = None, **options: Any) -> Any:
    """PettingZoo's environment of a name, without its wrappers."""
    pytest.importorskip("multi_agent_ale_py", reason="PettingZoo's Atari games need it")
    from pettingzoo.atari.base_atari_env import ParallelAtariEnv

    variant = resolve_variant(name, number, mode, {})
    rom = find_rom(variant.game_id, load_multiplayer()[variant.game_id].rules.md5)
    return ParallelAtariEnv(
        variant.game_id,
        number,
        mode_num=variant.mode,
        auto_rom_install_path=str(rom.path.parent),
        **options,
    )


def same(ours: Any, expected: Any, what: str) -> None:
    """Compare dictionaries by agent."""
    assert list(ours) == list(expected), what
    for agent, value in expected.items():
        if isinstance(value, np.ndarray):
            assert not difference(value, ours[agent]), f"{what}, {agent}"
        else:
            assert ours[agent] == value, f"{what}, {agent}"


def play_both(ours: Any, other: Any, steps: int, seed: int) -> int:
    """Play both at random, and compare everything; returns how many agents left early."""
    early = 0
    rng = np.random.default_rng(seed)
    for start in (seed, None):
        given, expected = ours.reset(seed=start), other.reset(seed=start)
        same(given[0], expected[0], f"reset({start})")
        same(given[1], expected[1], f"infos of reset({start})")
        for step in range(steps):
            size = ours.action_space("first_0").n
            actions = {agent: int(rng.integers(size)) for agent in ours.agents}
            given, expected = ours.step(actions), other.step(actions)
            for part, theirs_part in zip(given, expected, strict=True):
                same(part, theirs_part, f"step {step}")
            assert ours.agents == list(other.agents), step
            early += 0 < len(ours.agents) < len(ours.possible_agents)
            if not ours.agents:
                break
    return early


@pytest.mark.parametrize("name", NAMES)
def test_their_tests(name: str) -> None:
    turns = turns_env(name, obs_type="ram", max_cycles=60)
    assert turns.metadata["name"] == name
    api_test(turns, num_cycles=20)
    parallel_api_test(parallel_env(name, obs_type="ram", max_cycles=60), num_cycles=20)
    seed_test(partial(turns_env, name, obs_type="ram"), num_cycles=8)


@pytest.mark.parametrize("name", NAMES)
def test_their_limit_of_cycles(name: str) -> None:
    module = SimpleNamespace(
        env=partial(turns_env, name),
        raw_env=partial(turns_env, name),
        parallel_env=partial(parallel_env, name),
    )
    max_cycles_test(module)


@pytest.mark.parametrize(("name", "number"), [(n, p) for n, ps in NAMES.items() for p in ps])
def test_same_play(name: str, number: int) -> None:
    ours = parallel_env(name, num_players=number, max_cycles=25)
    play_both(ours, theirs(name, number, max_cycles=25), 30, seed=number)
    ours.close()


@pytest.mark.parametrize("obs_type", ["grayscale_image", "ram"])
@pytest.mark.parametrize("name", ["pong_v3", "combat_tank_v2"])
def test_observations(name: str, obs_type: str) -> None:
    options = {"obs_type": obs_type, "full_action_space": True}
    ours = parallel_env(name, **options)
    other = theirs(name, 2, **options)
    for agent in ours.possible_agents:
        assert ours.observation_space(agent) == other.observation_space(agent)
        assert ours.action_space(agent) == other.action_space(agent)
    play_both(ours, other, 20, seed=3)


def test_agents_who_are_out_leave() -> None:
    ours = parallel_env("maze_craze_v3", obs_type="ram")
    other = theirs("maze_craze_v3", 2, obs_type="ram")
    assert any(play_both(ours, other, 3000, seed) for seed in range(1, 6))


def test_seed_of_the_constructor() -> None:
    first, second = (parallel_env("surround_v2", obs_type="ram", seed=seed) for seed in (5, None))
    same(first.reset()[0], second.reset(seed=5)[0], "seed")
    assert not np.array_equal(first.reset()[0]["first_0"], first.reset(seed=6)[0]["first_0"])


def test_a_wrong_seed_of_the_constructor_stays_wrong() -> None:
    env = parallel_env("surround_v2", seed=2**40)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="seed gives environment 0"):
            env.reset()
    env.reset(seed=5)
    env.reset()


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (1.7, cule.ActionShapeError),
        (np.float32(1), cule.ActionShapeError),
        (np.nan, cule.ActionShapeError),
        ("1", cule.ActionShapeError),
        (None, cule.ActionShapeError),
        (True, cule.ActionShapeError),
        ([1], cule.ActionShapeError),
        (np.array([1]), cule.ActionShapeError),
        (2**70, cule.ActionRangeError),
        (-1, cule.ActionRangeError),
    ],
)
def test_actions_that_are_no_indices_move_nothing(action: Any, kind: type) -> None:
    env = parallel_env("pong_v3", obs_type="ram")
    env.reset(seed=1)
    frames = int(env._env.episode_frames[0])
    with pytest.raises(kind, match="actions"):
        env.step({"first_0": action, "second_0": 0})
    assert env._env.episode_frames[0] == frames
    env.step({"first_0": np.array(1), "second_0": np.uint8(0)})


def test_arguments_choose_modes() -> None:
    chosen = {
        ("pong_v3", 4): {"game_version": "quadrapong"},
        ("combat_tank_v2", 2): {"has_maze": False, "billiard_hit": False, "is_invisible": True},
        ("combat_plane_v2", 2): {"game_version": "jet", "guided_missile": False},
        ("maze_craze_v3", 2): {"game_version": "capture", "visibilty_level": 2},
        ("space_invaders_v2", 2): {"alternating_control": True, "moving_shields": False},
    }
    modes = {key: resolve_variant(*key, None, given).mode for key, given in chosen.items()}
    assert list(modes.values()) == [33, 10, 22, 46, 49]
    pytest.importorskip("multi_agent_ale_py", reason="PettingZoo's Atari games need it")
    for (name, number), given in chosen.items():
        ours = parallel_env(name, num_players=number, obs_type="ram", **given)
        facts = load_multiplayer()[resolve_variant(name, number, None, {}).game_id]
        folder = str(find_rom(facts.rules.game_id, facts.rules.md5).path.parent)
        module = importlib.import_module(f"pettingzoo.atari.{name}")
        players = {"num_players": number} if name == "pong_v3" else {}
        other = module.parallel_env(
            obs_type="ram", auto_rom_install_path=folder, **players, **given
        )
        same(ours.reset(seed=1)[0], other.reset(seed=1)[0], name)


def test_defaults_of_names() -> None:
    for name, numbers in NAMES.items():
        module = importlib.import_module(f"pettingzoo.atari.{name}")
        assert parallel_env(name).metadata["name"] == name
        facts = load_multiplayer()[resolve_variant(name, None, None, {}).game_id]
        folder = str(find_rom(facts.rules.game_id, facts.rules.md5).path.parent)
        other = module.parallel_env(auto_rom_install_path=folder)
        assert len(other.possible_agents) == next(iter(numbers))
        assert other.metadata["name"] == name


@pytest.mark.skipif(not hasattr(pettingzoo, "register"), reason="PettingZoo < 1.27")
def test_ids_are_those_of_pettingzoo() -> None:
    for registry in (pettingzoo.aec_registry, pettingzoo.parallel_registry):
        ours = {env_id.removeprefix("cule/") for env_id in registry if env_id.startswith("cule/")}
        atari = {env_id.removeprefix("atari/") for env_id in registry if "atari/" in env_id}
        assert ours - atari == {"backgammon", "fishing_derby"}
        assert len(ours) == 26
        assert not atari - ours


@pytest.mark.skipif(not hasattr(pettingzoo, "register"), reason="PettingZoo < 1.27")
def test_environments_of_ids() -> None:
    pytest.importorskip("multi_agent_ale_py", reason="PettingZoo's Atari games need it")
    facts = load_multiplayer()["maze_craze"]
    folder = str(find_rom("maze_craze", facts.rules.md5).path.parent)
    given: dict[str, Any] = {"game_version": "race", "obs_type": "ram"}
    ours = pettingzoo.make("parallel", "cule/maze_craze_v3", **given)
    other = pettingzoo.make(
        "parallel", "atari/maze_craze_v3", auto_rom_install_path=folder, **given
    )
    assert type(ours) is AtariParallelEnv
    play_both(ours, other, 30, seed=1)
    given["max_cycles"] = 25
    turns = pettingzoo.make("aec", "cule/maze_craze_v3", **given)
    turns_of_theirs = pettingzoo.make(
        "aec", "atari/maze_craze_v3", auto_rom_install_path=folder, **given
    )
    for env in (turns, turns_of_theirs):
        env.reset(seed=1)
    rng = np.random.default_rng(1)
    for agent, same_agent in zip(turns.agent_iter(), turns_of_theirs.agent_iter(), strict=False):
        assert agent == same_agent
        got, expected = turns.last(), turns_of_theirs.last()
        assert not difference(expected[0], got[0])
        assert got[1:] == expected[1:]
        done = got[2] or got[3]
        action = None if done else int(rng.integers(turns.action_space(agent).n))
        turns.step(action)
        turns_of_theirs.step(action)
    assert not turns.agents
    assert not turns_of_theirs.agents
    assert pettingzoo.make("aec", "cule/backgammon", obs_type="ram").possible_agents


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_players": 3}, "num_players is 3; for pong_v3 it must be 2 or 4"),
        ({"num_players": [2]}, r"num_players is \[2\] \(list\); it must be an integer"),
        ({"mode": np.array([4, 6])}, "mode is array"),
        ({"mode": 3}, "mode is 3; for pong_v3 it must be one of 4, 10"),
        ({"game_version": "chess"}, "game_version is 'chess'; "),
        ({"game_version": "classic", "mode": 4}, "mode is 4; with game_version it must be None"),
        ({"obs_type": "rgb"}, "obs_type is 'rgb'; "),
        ({"render_mode": np.zeros(2)}, "render_mode is array"),
        ({"render_mode": "human"}, "render_mode is 'human'; it must be None or 'rgb_array'"),
        ({"max_cycles": 0}, "max_cycles is 0; "),
    ],
)
def test_arguments_outside_what_is_allowed(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        parallel_env("pong_v3", **arguments)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(cule.UnknownGameError, match="'breakout' is for a single player"):
        parallel_env("breakout")
    with pytest.raises(cule.UnknownGameError, match="pong_v9"):
        parallel_env("pong_v9")
    with pytest.raises(TypeError, match="unexpected keyword argument 'has_maze'"):
        parallel_env("pong_v3", has_maze=True)


def test_games_under_their_own_names() -> None:
    with pytest.raises(InvalidArgumentError, match=r"num_players is 0; it must be in 2\.\.4"):
        parallel_env("pong", num_players=0)
    env = parallel_env("Pong", mode=33, render_mode="rgb_array")
    assert len(env.possible_agents) == 4
    assert env.metadata["name"] == "pong"
    with pytest.raises(cule.NotResetError):
        env.step({})
    observations, _ = env.reset(seed=1)
    assert np.array_equal(env.render(), observations["fourth_0"])
    actions = dict.fromkeys(env.possible_agents, 0)
    with pytest.raises(cule.ActionRangeError):
        env.step(actions | {"first_0": 6})
    with pytest.raises(
        cule.InvalidArgumentError, match="actions has 'frist_0'; agents are first_0"
    ):
        env.step(actions | {"frist_0": 1})
    with pytest.raises(cule.InvalidArgumentError, match="actions has none for third_0, fourth_0"):
        env.step({"first_0": 1, "second_0": 1})
    with pytest.raises(cule.InvalidArgumentError, match="actions is a list; it must be a dict"):
        env.step([0, 0, 0, 0])
    assert isinstance(env.action_space("first_0"), gymnasium.spaces.Discrete)
    env.close()


def test_modules_of_games() -> None:
    from cule.pettingzoo import boxing_v2, pong_v3

    for module, name in ((pong_v3, "pong_v3"), (boxing_v2, "boxing_v2")):
        ours, theirs = module.parallel_env(), parallel_env(name)
        for agent, obs in theirs.reset(seed=3)[0].items():
            np.testing.assert_array_equal(ours.reset(seed=3)[0][agent], obs)
        assert module.env().possible_agents == turns_env(name).possible_agents
    with pytest.raises(ImportError, match="pacman_v9"):
        from cule.pettingzoo import pacman_v9  # noqa: F401


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_calls_at_random() -> None:
    run_cases("parallel", 0, 3)
