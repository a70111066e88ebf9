"""EnvPool-style make: options, results and order of calls against EnvPool 1.2.5 itself.

With ``noop_max=1`` a reset has no random part in games with FIRE, and trajectories are equal.
"""

from __future__ import annotations

from typing import Any

import dm_env
import envpool
import numpy as np
import pytest
from dm_env import specs

import cule
from cule.wrappers import envpool as ours

#: A start without random no-ops.
EXACT = {"noop_max": 1}


def pair(closing, task_id: str, env_type: str = "gymnasium", **options: Any) -> tuple[Any, Any]:
    """EnvPool's environments and these, of the same options."""
    return tuple(closing(module.make(task_id, env_type, **options)) for module in (envpool, ours))


def describe(value: Any) -> Any:
    """Types, dtypes, shapes and keys of a result."""
    if isinstance(value, dict):
        return {key: describe(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        return {name: describe(entry) for name, entry in zip(names, value, strict=True)}
    assert isinstance(value, np.ndarray)
    return value.dtype, value.shape


def assert_same(theirs: Any, mine: Any, path: str = "") -> None:
    """Equal to the last bit, in every array."""
    if isinstance(theirs, dict):
        assert theirs.keys() == mine.keys()
        for key in theirs:
            assert_same(theirs[key], mine[key], f"{path}.{key}")
    elif isinstance(theirs, tuple):
        for index, (one, two) in enumerate(zip(theirs, mine, strict=True)):
            assert_same(one, two, f"{path}.{index}")
    else:
        np.testing.assert_array_equal(theirs, mine, path)
        assert theirs.dtype == mine.dtype


def play(theirs: Any, mine: Any, steps: int, seed: int = 0) -> int:
    """Equal steps, but for the newest frame of a step that ends an episode; counts the ends."""
    rng = np.random.default_rng(seed)
    assert_same(theirs.reset(), mine.reset())
    ends = 0
    for _ in range(steps):
        actions = rng.integers(theirs.action_space.n, size=len(theirs), dtype=np.int32)
        wanted, found = theirs.step(actions), mine.step(actions)
        going = ~(wanted[2] | wanted[3])
        assert_same(wanted[0][going], found[0][going], "obs")
        assert_same(wanted[0][:, :-3], found[0][:, :-3], "obs")  # of a colour frame three channels
        assert_same(wanted[1:], found[1:])
        ends += int((wanted[2] | wanted[3]).sum())
    return ends


# --- Options --------------------------------------------------------------------------------------


def test_options_and_their_defaults() -> None:
    theirs = envpool.make_spec("Pong-v5").config._asdict()
    del theirs["base_path"]  # where its files are
    mine = vars(ours.make_spec("Pong-v5").config)
    assert list(mine) == list(theirs)
    assert {**mine, "env_seed": list(mine["env_seed"])} == theirs


def test_options_of_environments(closing) -> None:
    for options in (
        {},
        {"num_envs": 6, "batch_size": 4, "seed": 3},
        {"num_envs": 2, "seed": [4, 9]},
    ):
        theirs, mine = pair(closing, "Breakout-v5", **options)
        config = dict(theirs.config)
        del config["base_path"]
        assert mine.config == config
        assert len(mine) == len(theirs)
        assert mine.is_async == theirs.is_async
        np.testing.assert_array_equal(mine.all_env_ids, theirs.all_env_ids)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gray_scale": False},
        {"stack_num": 1, "img_height": 210, "img_width": 160},
        {"gray_scale": False, "stack_num": 2, "img_height": 50, "img_width": 40},
        {"full_action_space": True},
    ],
)
def test_spaces_and_results(closing, options: dict) -> None:
    spec, own = (m.make_spec("Pong-v5", **options) for m in (envpool, ours))
    assert own.observation_space == spec.observation_space
    assert own.action_space == spec.action_space
    assert own.gymnasium_action_space == spec.gymnasium_action_space
    theirs, mine = pair(closing, "Pong-v5", num_envs=3, **options)
    for name in ("observation_space", "single_observation_space", "action_space"):
        assert getattr(mine, name) == getattr(theirs, name)
    assert mine.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    assert describe(mine.reset()) == describe(theirs.reset())
    for dtype in (np.int32, np.int64):
        actions = np.zeros(3, dtype)
        assert describe(mine.step(actions)) == describe(theirs.step(actions))


def test_specs_of_dm_env(closing) -> None:
    theirs, mine = pair(closing, "Pong-v5", "dm", num_envs=3)
    assert isinstance(mine, dm_env.Environment)
    for name in ("action_spec", "reward_spec", "discount_spec"):
        assert getattr(mine, name)() == getattr(theirs, name)(), name
    wanted, found = theirs.observation_spec(), mine.observation_spec()
    assert found._fields == wanted._fields
    for name in found._fields:
        one, two = getattr(wanted, name), getattr(found, name)
        if name == "players":
            one, two = one.env_id, two.env_id
        assert (two.shape, two.dtype) == (one.shape, one.dtype), name
        assert isinstance(two, specs.BoundedArray)
    assert describe(mine.reset()) == describe(theirs.reset())
    assert describe(mine.step(np.zeros(3, int))) == describe(theirs.step(np.zeros(3, int)))


def test_every_game_has_its_id() -> None:
    known = set(envpool.list_all_envs())
    for rules in cule.games.load_games().values():
        title = rules.title.replace("3D", "3d")  # TicTacToe3d-v5
        assert f"{title}-v5" in known
        assert ours.make_spec(f"{title}-v5").config.task == rules.game_id


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "message"),
    [
        (("Pong-v5", "gymnasium"), {"foo": 1}, TypeError, "unexpected keyword argument 'foo'"),
        (("Pong-v5", "gymnasium"), {"frameskip": 2}, TypeError, "did you mean 'frame_skip'"),
        (("Pongg-v5", "gymnasium"), {}, cule.UnknownGameError, "did you mean pong"),
        (("ALE/Pong-v5", "gymnasium"), {}, ValueError, "task_id is 'ALE/Pong-v5'"),
        (("Pong-v5", "numpy"), {}, ValueError, "env_type is 'numpy'"),
        (("Pong-v5", "gymnasium"), {"num_envs": 0}, ValueError, "num_envs is 0"),
        (("Pong-v5", "gymnasium"), {"batch_size": 2}, ValueError, "batch_size is 2"),
        (("Pong-v5", "dm"), {"gray_scale": 3}, ValueError, "gray_scale is 3"),
        (("Pong-v5", "dm"), {"frame_skip": 0}, ValueError, "frame_skip is 0"),
        (("Pong-v5", "dm"), {"max_episode_steps": 2.5}, TypeError, "max_episode_steps is 2.5"),
        (("Pong-v5", "dm"), {"mode": 77}, ValueError, "mode is 77"),
        (("Pong-v5", "dm"), {"seed": [1, 2]}, ValueError, "seed holds 2 values"),
        (("Pong-v5", "dm"), {"seed": "x"}, TypeError, "seed is 'x'"),
        (("Pong-v5", "dm"), {"seed": [[1], [2, 3]]}, TypeError, "seed is"),
        (("Pong-v5", "dm"), {"seed": 2**40}, ValueError, "seed gives environment 0"),
        (("Pong-v5", "dm"), {"mode": np.array([0, 0])}, ValueError, "mode holds 2 values"),
        (("Pong-v5", "gym"), {"gym_reset_return_info": False}, ValueError, "must be True"),
        (("Pong-v5", "gym"), {"use_inter_area_resize": False}, ValueError, "must be True"),
        (("Pong-v5", "gym"), {"max_num_players": 2}, ValueError, "max_num_players is 2"),
        (("Pong-v5", "gym"), {"max_num_players": np.zeros(2)}, ValueError, "max_num_players is"),
        (("Pong-v5", "gym"), {"episodic_life": "False"}, TypeError, "episodic_life is 'False'"),
        (("Pong-v5", "dm"), {"zero_discount_on_life_loss": 2}, TypeError, "zero_discount_on"),
        (("Pong-v5", np.zeros(2)), {}, ValueError, "env_type is array"),
        (("Pong-v5", "gym"), {"render_env_id": 1}, ValueError, "render_env_id is 1"),
        (("Pong-v5", "gym"), {"render_mode": "human"}, ValueError, "render_mode is 'human'"),
    ],
)
def test_options_that_are_refused(
    arguments: tuple, options: dict, kind: type, message: str
) -> None:
    with pytest.raises(kind, match=message):
        ours.make(*arguments, **options)


# --- Steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task_id", "options", "steps"),
    [
        ("Breakout-v5", {}, 500),
        ("Seaquest-v5", {"reward_clip": True}, 600),
        ("Pong-v5", {"gray_scale": False, "img_height": 100, "img_width": 80}, 80),
        ("SpaceInvaders-v5", {"max_episode_steps": 50, "stack_num": 3, "frame_skip": 3}, 160),
        ("BeamRider-v5", {"full_action_space": True, "max_episode_steps": 60}, 130),
    ],
)
def test_steps_are_equal(closing, task_id: str, options: dict, steps: int) -> None:
    """RAM, rewards, flags, counts and observations, over the ends of episodes."""
    theirs, mine = pair(closing, task_id, num_envs=3, **EXACT, **options)
    ends = play(theirs, mine, steps)
    assert ends >= 3 or task_id == "Pong-v5"


def test_time_steps_are_equal(closing) -> None:
    options = {"zero_discount_on_life_loss": True, "max_episode_steps": 150}
    theirs, mine = pair(closing, "Breakout-v5", "dm", num_envs=2, **EXACT, **options)
    rng = np.random.default_rng(0)
    assert_same(theirs.reset(), mine.reset())
    zeros = ends = 0
    for _ in range(400):
        actions = rng.integers(4, size=2)
        wanted, found = theirs.step(actions), mine.step(actions)
        over = wanted.last()
        found.observation.obs[over] = wanted.observation.obs[over]
        assert_same(wanted, found)
        zeros += int((wanted.discount == 0).sum())
        ends += int(wanted.last().sum())
    assert zeros > ends > 2


def test_a_lost_life_that_ends_an_episode(closing) -> None:
    """The same numbers, step by step, where the game loses its lives by itself."""
    theirs, mine = pair(closing, "Breakout-v5", num_envs=2, episodic_life=True, **EXACT)
    theirs.reset()
    mine.reset()
    counts = []
    for env in (theirs, mine):
        rows = []
        restarts = np.zeros(2, bool)
        for _ in range(400):
            _, reward, terminated, _, info = env.step(np.zeros(2, int))
            if restarts.any():
                assert not reward[restarts].any()
                assert not terminated[restarts].any()
            restarts = terminated & ~info["terminated"].astype(bool)
            rows += [
                (int(i), int(info["lives"][i]), int(info["terminated"][i]))
                for i in np.flatnonzero(terminated)
            ]
        counts.append(rows)
    # A restart is one frame there and four here, so that steps differ, not what is reported.
    shorter = min(map(len, counts))
    assert shorter >= 20
    assert counts[0][:shorter] == counts[1][:shorter]


def test_order_of_a_whole_batch(closing) -> None:
    theirs, mine = pair(closing, "Breakout-v5", num_envs=4, **EXACT)
    assert_same(theirs.reset(), mine.reset())
    rng = np.random.default_rng(1)
    for _ in range(40):
        order = rng.permutation(4)
        actions = rng.integers(4, size=4, dtype=np.int32)
        assert_same(theirs.step(actions, order), mine.step(actions, order))
        given = {"action": actions, "env_id": order.astype(np.int32)}
        assert_same(theirs.step(given), mine.step(given))
        assert_same(theirs.step(actions), mine.step(actions))


@pytest.mark.parametrize("env_type", ["gymnasium", "dm"])
def test_environments_of_partial_batches_play_their_own_game(closing, env_type: str) -> None:
    """In the order in which they finish; each has the steps of its own actions."""
    outcomes = []
    for module in (envpool, ours):
        env = closing(module.make("Breakout-v5", env_type, num_envs=5, batch_size=2, **EXACT))
        env.async_reset()
        rows: list[list] = [[] for _ in range(5)]
        while min(map(len, rows)) < 30:
            if env_type == "gymnasium":
                obs, reward, *_, info = env.recv()
                ids, ram, elapsed = info["env_id"], info["ram"], info["elapsed_step"]
            else:
                step = env.recv()
                obs, reward, ids, ram = step.observation.obs, step.reward, *step.observation[::6]
                elapsed = step.step_type
            assert len(set(ids.tolist())) == 2
            for row, index in enumerate(ids):
                rows[index].append((obs[row].copy(), reward[row], ram[row].copy(), elapsed[row]))
            env.send(np.array([len(rows[index]) * 7 % 4 for index in ids]), ids)
        outcomes.append([row[:30] for row in rows])
    for theirs, mine in zip(*outcomes, strict=True):
        for one, two in zip(theirs, mine, strict=True):
            assert_same(tuple(map(np.asarray, one)), tuple(map(np.asarray, two)))


def test_reset_of_a_partial_batch_returns_one(closing) -> None:
    for env in pair(closing, "Pong-v5", num_envs=4, batch_size=2):
        obs, info = env.reset()
        assert obs.shape == (2, 4, 84, 84)
        assert len(set(info["env_id"].tolist())) == 2
        env.send(np.zeros(2, int), info["env_id"])
        assert len(env.recv()) == 5
        assert len(env.recv(reset=True)) == 2


def test_some_environments_are_reset(closing) -> None:
    env = closing(ours.make("Breakout-v5", "gymnasium", num_envs=3))
    env.reset()
    for _ in range(5):
        env.step(np.ones(3, int))
    _, info = env.reset(np.array([2, 0]))
    assert info["env_id"].tolist() == [2, 0]
    assert info["elapsed_step"].tolist() == [0, 0]
    info = env.step(np.ones(3, int))[-1]
    assert info["elapsed_step"].tolist() == [1, 6, 1]


def test_seeds_are_of_the_environments_in_their_order(closing) -> None:
    env = closing(ours.make("Breakout-v5", "gymnasium", num_envs=4))
    env.reset()
    rams = [
        env.reset(np.array([index]), seed=seed)[1]["ram"][0] for index, seed in ((3, 5), (1, 6))
    ]
    for seed in (5, [5, 6], np.array([5, 6])):
        np.testing.assert_array_equal(env.reset(np.array([3, 1]), seed=seed)[1]["ram"], rams)


@pytest.mark.parametrize(
    "env_id", [[4], [-1], [0, 0], [0, 0, 1, 1], [0.0], [[0]], [True, False, True, False], ["a"]]
)
def test_environments_that_are_refused_are_not_reset(closing, env_id: list) -> None:
    env = closing(ours.make("Breakout-v5", "gymnasium", num_envs=4))
    env.reset()
    ram = env.step(np.ones(4, int))[-1]["ram"]
    with pytest.raises(cule.CuleError, match="env_id"):
        env.reset(np.array(env_id))
    np.testing.assert_array_equal(env.env.ram, ram)


@pytest.mark.parametrize("env_type", ["gymnasium", "dm"])
def test_text_and_end(closing, env_type: str) -> None:
    for module in (envpool, ours):
        env = closing(module.make("Pong-v5", env_type, num_envs=2))
        assert "EnvPool(num_envs=2, batch_size=2, " in repr(env)
    env.close()
    assert env.closed


def test_seeds(closing) -> None:
    """As documented: environment i has seed + i, a sequence names all, and 42 is the default."""
    rams = []
    for seed in (42, None, [42, 43, 44]):
        options = {} if seed is None else {"seed": seed}
        env = closing(ours.make("Pong-v5", "gymnasium", num_envs=3, **options))
        rams.append(env.reset()[1]["ram"])
        np.testing.assert_array_equal(env.reset(seed=42)[1]["ram"], rams[0])
        assert (env.reset()[1]["ram"] != rams[0]).any()
        env.seed(42)
        np.testing.assert_array_equal(env.reset()[1]["ram"], rams[0])
    np.testing.assert_array_equal(rams[0], rams[1])
    np.testing.assert_array_equal(rams[0], rams[2])


@pytest.mark.parametrize("seed", [2**40, "x", 1.5, [1]])
def test_a_seed_that_is_refused_is_not_kept(closing, seed) -> None:
    env = closing(ours.make("Pong-v5", "gymnasium", num_envs=3))
    with pytest.raises(cule.InvalidArgumentError, match="seed"):
        env.seed(seed)
    env.reset()


def test_wrong_calls_move_nothing(closing) -> None:
    env = closing(ours.make("Pong-v5", "gymnasium", num_envs=4))
    _, info = env.reset()
    cases = [
        (np.zeros(4, int), np.array([0, 1, 2, 2]), cule.InvalidArgumentError, "env_id is"),
        (np.zeros(2, int), np.array([0, 1]), cule.InvalidArgumentError, "env_id is"),
        (np.zeros(3, int), None, cule.ActionShapeError, "actions"),
        (np.array([0, 6, 0, 0]), None, cule.ActionRangeError, "6"),
        ([0, 1, [2], 3], None, cule.ActionShapeError, "actions"),
        ({"env_id": np.arange(4)}, None, cule.InvalidArgumentError, "must hold 'action'"),
        (np.zeros(4, int), np.arange(4.0), cule.ArgumentTypeError, "env_id is"),
    ]
    for actions, ids, kind, message in cases:
        with pytest.raises(kind, match=message):
            env.step(actions, ids)
    with pytest.raises(cule.CallOrderError):
        env.recv()
    with pytest.raises(ValueError, match="a reset has none"):
        env.reset(options={"x": 1})
    with pytest.raises(ValueError, match="a reset has none"):
        env.reset(options=np.zeros(2))
    np.testing.assert_array_equal(env.env.ram, info["ram"])
    assert env.step(np.zeros(4, int))[-1]["elapsed_step"].tolist() == [1] * 4


def test_pictures(closing) -> None:
    theirs, mine = pair(closing, "Pong-v5", num_envs=3, render_mode="rgb_array", **EXACT)
    theirs.reset()
    mine.reset()
    for ids in (None, 2, [0, 2], np.array([1])):
        wanted, found = theirs.render(ids), mine.render(ids)
        assert describe(found) == describe(wanted)
    with pytest.raises(cule.GymArgumentError, match="render_mode is None"):
        pair(closing, "Pong-v5")[1].render()


def test_the_list_of_environments() -> None:
    names = ours.list_all_envs()
    assert len(names) == len(cule.games.list_games())
    assert {"Pong-v5", "MsPacman-v5", "SpaceInvaders-v5"} <= set(names) & set(
        envpool.list_all_envs()
    )
    for name in names:
        ours.make_spec(name)
