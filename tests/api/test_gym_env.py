"""`AtariEnv` and its ids: Gymnasium's own checks, keywords, and the results of ale-py's ids."""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cule
from cule.envs.errors import (
    ActionRangeError,
    ActionShapeError,
    ArgumentTypeError,
    GymArgumentError,
)
from cule.errors import ClosedError, CuleError, NotResetError, UnknownGameError
from cule.games import list_games
from tests.support.api import MakeEnv
from tests.support.cases import long_except

pytestmark = pytest.mark.ale


def test_every_game_is_registered() -> None:
    specs = {
        env_id: spec for env_id, spec in gymnasium.registry.items() if spec.namespace == "cule"
    }
    assert len(list_games()) == 104
    for end in ("-v5", "-v0", "-v4", "NoFrameskip-v0", "NoFrameskip-v4"):
        assert f"cule/MsPacman{end}" in specs
    games = Counter(spec.kwargs["game"] for spec in specs.values())
    assert games == dict.fromkeys(list_games(), 5)


def test_ids_are_those_of_ale_py() -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    kinds = Counter[tuple[str | None, int | None]]()
    for env_id, spec in gymnasium.registry.items():
        if str(spec.entry_point).startswith("ale_py."):
            ours = gymnasium.registry[f"cule/{spec.name}-v{spec.version}"]
            assert ours.kwargs == spec.kwargs, env_id
            assert (ours.max_episode_steps, ours.nondeterministic) == (None, False)
            assert (ours.vector_entry_point is None) == (spec.vector_entry_point is None)
            kinds[spec.namespace, spec.version] += 1
    assert kinds == {("ALE", 5): 104, (None, 0): 124, (None, 4): 124}


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"obs_type": "ram", "full_action_space": True},
        {"obs_type": "grayscale", "frameskip": (2, 5)},
        {"continuous": True, "sound_obs": True},
    ],
    ids=str,
)
def test_gymnasium_checker(keywords: dict[str, Any]) -> None:
    env = gymnasium.make("cule/Breakout-v5", render_mode="rgb_array", **keywords)
    with warnings.catch_warnings():
        # A square of bytes 0..255 is not what the checker recommends for actions.
        warnings.filterwarnings("ignore", message=".*action space")
        check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize(
    "keywords",
    long_except(
        [
            {},
            {"obs_type": "grayscale", "frameskip": (2, 5)},
            {"obs_type": "ram", "mode": 4, "difficulty": 1, "repeat_action_probability": 0.0},
            {"full_action_space": True, "frameskip": 1, "max_num_frames_per_episode": 90},
            {"continuous": True, "continuous_action_threshold": 0.3},
        ],
        every=2,
    ),
    ids=str,
)
def test_results_are_those_of_ale_py(keywords: dict[str, Any]) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    ours = gymnasium.make("cule/Breakout-v5", disable_env_checker=True, **keywords)
    theirs = gymnasium.make("ALE/Breakout-v5", disable_env_checker=True, **keywords)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    ours.action_space.seed(0)
    for seed in (3, None, 3 * 10**9):
        left, right = ours.reset(seed=seed), theirs.reset(seed=seed)
        if seed is None:
            theirs_info = right[1]
        assert left[1] == right[1]
        assert np.array_equal(left[0], right[0])
        for _ in range(60):
            action = ours.action_space.sample()
            left, right = ours.step(action), theirs.step(action)
            assert np.array_equal(left[0], right[0])
            assert left[1:] == right[1:]
    assert "seeds" not in theirs_info
    ours.close()
    theirs.close()


def test_action_names_and_keys_are_those_of_ale_py() -> None:
    import ale_py

    for game in ("ms_pacman", "skiing", "pong"):
        ours, theirs = cule.AtariEnv(game), ale_py.AtariEnv(game)
        assert ours.get_action_meanings() == theirs.get_action_meanings()
        assert ours.get_keys_to_action() == theirs.get_keys_to_action()
    for horizontal in (-1, 0, 1):
        for vertical in (-1, 0, 1):
            for fire in (False, True):
                action = cule.AtariEnv.map_action_idx(horizontal, vertical, fire)
                theirs_action = ale_py.AtariEnv.map_action_idx(horizontal, vertical, fire)
                assert action.name == theirs_action.name


def test_make_vec(make_env: MakeEnv) -> None:
    env = gymnasium.make_vec("cule/Pong-v5", num_envs=3, num_threads=1)
    assert isinstance(env, cule.AtariVectorEnv)
    assert env.spec is not None
    assert env.config.repeat_action_probability == 0.25
    obs, _ = env.reset(seed=0)
    assert np.array_equal(obs, make_env(num_envs=3, preset="v5").reset(seed=0)[0])
    env.close()
    sync = gymnasium.make_vec("cule/Pong-v5", num_envs=2, vectorization_mode="sync")
    assert sync.reset(seed=0)[0].shape == (2, 210, 160, 3)
    sync.close()


def test_wrappers_of_gymnasium_fit() -> None:
    env = gymnasium.make("cule/Pong-v5", obs_type="ram")
    stacked = gymnasium.wrappers.FrameStackObservation(env, 4)
    assert stacked.reset(seed=0)[0].shape == (4, 128)
    assert stacked.step(0)[0].shape == (4, 128)
    env.close()


def test_render() -> None:
    env = cule.AtariEnv("pong", render_mode="rgb_array")
    obs, _ = env.reset(seed=0)
    assert np.array_equal(env.render(), obs)
    with pytest.raises(GymArgumentError, match="render_mode"):
        cule.AtariEnv("pong").render()


@pytest.mark.parametrize("name", ["full_action_space", "continuous", "sound_obs"])
def test_switches_are_bools(name: str) -> None:
    with pytest.raises(cule.InvalidArgumentError, match=f"{name} is 'no' .*must be True or False"):
        cule.AtariEnv("pong", **{name: "no"})
    cule.AtariEnv("pong", **{name: np.bool_(False)}).close()


def test_clone_and_restore() -> None:
    env = cule.AtariEnv("pong")
    env.reset(seed=0)
    state = env.clone_state(include_rng=True)
    first = [env.step(action % 6)[0] for action in range(30)]
    env.restore_state(state)
    again = [env.step(action % 6)[0] for action in range(30)]
    assert np.array_equal(first, again)


def test_pickle_makes_the_same_environment_anew() -> None:
    env = cule.AtariEnv("pong", obs_type="ram", frameskip=2)
    copied = pickle.loads(pickle.dumps(env))
    assert np.array_equal(env.reset(seed=1)[0], copied.reset(seed=1)[0])
    assert np.array_equal(env.step(2)[0], copied.step(2)[0])


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"game": "pongg"}, UnknownGameError),
        ({"obs_type": "x"}, gymnasium.error.Error),
        ({"frameskip": 0}, gymnasium.error.Error),
        ({"frameskip": 1.5}, gymnasium.error.Error),
        ({"frameskip": "4"}, gymnasium.error.Error),
        ({"frameskip": (5, 2)}, gymnasium.error.Error),
        ({"frameskip": (0, 2)}, gymnasium.error.Error),
        ({"frameskip": (1, 2, 3)}, gymnasium.error.Error),
        ({"mode": 77}, RuntimeError),
        ({"difficulty": 77}, RuntimeError),
        ({"repeat_action_probability": 2.0}, ValueError),
        ({"repeat_action_probability": "a"}, TypeError),
        ({"render_mode": "x"}, gymnasium.error.Error),
        ({"render_mode": np.zeros(2)}, gymnasium.error.Error),
        ({"obs_type": np.zeros(2)}, gymnasium.error.Error),
        ({"max_num_frames_per_episode": 1.5}, TypeError),
        ({"continuous_action_threshold": float("nan")}, ValueError),
    ],
    ids=str,
)
def test_keyword_is_refused(keywords: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        cule.AtariEnv(**{"game": "pong", **keywords})
    assert isinstance(caught.value, CuleError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("seed", [-1, 1.5, "x", [None], np.True_])
def test_seeds_of_the_game_are_refused(seed: Any) -> None:
    env = cule.AtariEnv("pong", obs_type="ram")
    with pytest.raises(ArgumentTypeError, match="seed is "):
        env.seed_game(seed)


def test_actions_are_refused() -> None:
    env = cule.AtariEnv("pong")
    with pytest.raises(NotResetError):
        env.step(0)
    env.reset(seed=0)
    for action in (6, -1, np.int64(100), 2**70):
        with pytest.raises(ActionRangeError):
            env.step(action)
    for action in (1.0, "x", None, np.zeros(2, int), True):
        with pytest.raises(ActionShapeError):
            env.step(action)
    for action in (0, np.int64(1), np.array(2), np.uint8(3)):
        env.step(action)
    assert env.ale.getFrameNumber() == 16

    env = cule.AtariEnv("pong", continuous=True)
    env.reset(seed=0)
    for action in (np.zeros(3), [0, 0, 0], np.zeros(2, np.float32), 0):
        with pytest.raises(AssertionError):
            env.step(action)
    with pytest.raises(ActionRangeError):
        env.step(np.array([np.nan, 0, 0], np.float32))
    with pytest.raises(AttributeError):
        env.get_keys_to_action()


def test_closed() -> None:
    env = cule.AtariEnv("pong")
    env.reset(seed=0)
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step(0), env.render, env.clone_state):
        with pytest.raises(ClosedError):
            call()


def test_every_keyword_acts() -> None:
    base: dict[str, Any] = {"game": "breakout", "repeat_action_probability": 0.25}
    changes: list[dict[str, Any]] = [
        {"game": "pong"},
        {"mode": 4},
        {"difficulty": 1},
        {"obs_type": "ram"},
        {"frameskip": 3},
        {"repeat_action_probability": 0.0},
        {"full_action_space": True},
        {"continuous": True},
        {"max_num_frames_per_episode": 40},
        {"sound_obs": True},
    ]

    def run(keywords: dict[str, Any]) -> list[Any]:
        env = cule.AtariEnv(**keywords)
        env.action_space.seed(0)

        def plain(obs: Any) -> Any:  # compared at once, and cheap to keep
            parts = obs.values() if isinstance(obs, dict) else (obs,)
            return [(part.shape, part.tobytes()) for part in map(np.asarray, parts)]

        shown: list[Any] = [plain(env.reset(seed=0)[0])]
        for _ in range(40):
            result = env.step(env.action_space.sample())
            shown.append([plain(result[0]), *result[1:]])
        return shown

    expected = run(base)
    assert run(base) == expected
    for change in changes:
        assert run({**base, **change}) != expected, change
    slow = {**base, "continuous": True}
    assert run({**slow, "continuous_action_threshold": 0.05}) != run(slow)


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 11])
def test_a_batch_has_the_seeds_of_gymnasium_environments(seed: int) -> None:
    """A seed of Gymnasium becomes a word of 32 bits, which an array of uint32 can hold."""
    single = cule.AtariEnv("breakout", repeat_action_probability=0.25)
    batch = cule.AtariVectorEnv(
        "breakout", 1, noop_max=0, use_fire_reset=False, repeat_action_probability=0.25
    )
    _, info = single.reset(seed=seed)
    batch.reset(seed=np.array([info["seeds"][1]], np.uint32))
    rng = np.random.default_rng(0)
    for _ in range(100):
        action = rng.integers(4)
        single.step(int(action))
        batch.step(np.array([action]))
        np.testing.assert_array_equal(single.ale.getRAM(), batch.ram[0])
    with pytest.raises(cule.InvalidArgumentError, match="must be at most 4294967294"):
        batch.reset(seed=np.array([2**32 - 1], np.uint32))
    with pytest.raises(cule.InvalidArgumentError, match="must be at most 2147483647"):
        batch.reset(seed=np.array([2**31]))
    single.close()
    batch.close()
