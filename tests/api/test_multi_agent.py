"""Environments of two and four players: shapes, options, autoreset, snapshots and errors."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.errors import InvalidArgumentError, InvalidStateError, UnknownGameError
from cule.games import load_multiplayer

pytestmark = pytest.mark.ale

GAMES = load_multiplayer()
PLAYERS = [(game, number) for game, facts in GAMES.items() for number in facts.modes]


def make(game: str, num_envs: int, **options: Any) -> cule.MultiAgentVectorEnv:
    return cule.MultiAgentVectorEnv(game, num_envs, **{"num_threads": 1, **options})


def random_actions(env: cule.MultiAgentVectorEnv, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(len(env.action_set), size=(env.num_envs, env.num_players))


def play(env: cule.MultiAgentVectorEnv, steps: int, seed: int = 0) -> list[np.ndarray]:
    """All results of random play, for comparison."""
    rng = np.random.default_rng(seed)
    seen = []
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(random_actions(env, rng))
        seen += [obs, reward, terminated, truncated, info["lives"], np.array(env.ram)]
    return seen


def equal(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize(("game", "number"), PLAYERS)
def test_shapes_and_types(game: str, number: int) -> None:
    env = make(game, 3, num_players=number, episode_info=True)
    assert env.num_players == env.config.num_players == number
    assert env.single_action_space == gymnasium.spaces.MultiDiscrete([len(env.action_set)] * number)
    obs, info = env.reset(seed=5)
    assert obs.shape == (3, 4, 84, 84)
    actions = env.action_space.sample()
    assert actions.shape == (3, number)
    obs, reward, terminated, truncated, info = env.step(actions)
    assert env.observation_space.contains(obs)
    assert (reward.shape, reward.dtype) == ((3, number), np.dtype("int32"))
    assert terminated.shape == truncated.shape == (3,)
    for key in ("lives", "is_out", "episode_return", "reward"):
        assert info[key].shape == (3, number), key
    assert info["is_out"].dtype == bool
    assert np.array_equal(env.lives, info["lives"])
    for key in ("env_id", "frame_number", "episode_frame_number", "episode_length"):
        assert info[key].shape == (3,), key
    env.close()


def test_a_mode_says_how_many_players_there_are() -> None:
    assert make("pong", 1).num_players == 2
    assert make("pong", 1, mode=33).num_players == 4
    assert make("pong", 2, mode=[33, 50]).num_players == 4
    assert make("Wizard-of-Wor", 1, num_players=2).config.num_players == 2
    assert make("combat", 2, mode=(1, 27)).reset(seed=1)[0].shape[0] == 2


def test_modes_differ() -> None:
    env = make("pong", 3, mode=[4, 19, 45], frameskip=1)
    env.reset(seed=np.array([3, 3, 3]))
    screens = env.screens("gray")
    assert not np.array_equal(screens[0], screens[1])
    assert not np.array_equal(screens[1], screens[2])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_players": 4}, "num_players is 4; for boxing it must be 2"),
        ({"num_players": 3}, "num_players is 3; for boxing it must be 2"),
        ({"num_players": 5}, r"num_players is 5; it must be in 2\.\.4"),
        ({"mode": 1}, "mode is 1; for boxing it must be one of 2 for 2 players"),
        ({"mode": [2, 1]}, "mode is 1; for boxing it must be one of 2"),
        ({"difficulty": 4}, "difficulty is 4; for boxing it must be one of 0, 1, 2, 3"),
        ({"max_turn_time": 60}, "max_turn_time is 60; for boxing, which never charges"),
        ({"img_height": 211}, r"img_height is 211; it must be in 1\.\.210"),
    ],
)
def test_options_outside_what_is_allowed(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        make("boxing", 2, **arguments)


def test_modes_of_other_numbers_of_players() -> None:
    with pytest.raises(InvalidArgumentError, match="mode is 33; for pong it must be one of 3, 4"):
        make("pong", 1, mode=33, num_players=2)
    with pytest.raises(InvalidArgumentError, match="mode is 4; for pong it must be one of 5, 6"):
        make("pong", 2, mode=[33, 4])


def test_unknown_games_and_options() -> None:
    with pytest.raises(UnknownGameError, match=r"'breakout' is for a single player; .*backgammon"):
        make("breakout", 1)
    with pytest.raises(UnknownGameError, match="did you mean boxing"):
        make("boxin", 1)
    with pytest.raises(TypeError, match=r"game is .*; it must be the name of a game"):
        make([("boxing", 1)], 1)  # type: ignore[arg-type]
    for name in ("episodic_life", "continuous", "rules", "preset", "use_fire_reset"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            make("boxing", 1, **{name: False})
    with pytest.raises(cule.UnsupportedRomError, match="MultiAgentVectorEnv"):
        cule.AtariVectorEnv("combat", 1)


def test_rom_of_another_game(tmp_path: Any) -> None:
    path = tmp_path / "boxing.bin"
    path.write_bytes(bytes(2048))
    with pytest.raises(cule.UnsupportedRomError, match="is not the ROM of 'boxing'"):
        make("boxing", 1, rom_path=path)


def test_wrong_actions_move_nothing() -> None:
    env = make("boxing", 2)
    env.reset(seed=1)
    before = env.get_state()
    for wrong in (np.zeros(2, int), np.zeros((2, 3), int), np.zeros((2, 2))):
        with pytest.raises(cule.ActionShapeError, match=r"actions .*\(2, 2\)"):
            env.step(wrong)
    with pytest.raises(
        cule.ActionRangeError, match=r"actions\[1, 0\] is 18; it must be in 0\.\.17"
    ):
        env.step(np.array([[0, 0], [18, 0]]))
    assert np.array_equal(env.get_state(), before)


def test_what_is_for_one_player_is_not_there() -> None:
    assert not isinstance(make("boxing", 1), cule.AtariVectorEnv)
    for name in ("ale", "xla", "xla_pure"):
        assert hasattr(cule.AtariVectorEnv, name)
        assert not hasattr(cule.MultiAgentVectorEnv, name)


# --- Trajectories ------------------------------------------------------------------------------


def test_players_act_on_their_own() -> None:
    """Each player of four moves one paddle: the RAM tells the actions of each apart."""
    env = make("warlords", 5, mode=1, frameskip=1)
    env.reset(seed=np.full(5, 9))
    right = [int(action) for action in env.action_set].index(3)
    actions = np.zeros((5, 4), int)
    for player in range(4):
        actions[player + 1, player] = right
    for _ in range(30):
        env.step(actions)
    assert len({row.tobytes() for row in env.ram}) == 5


def test_seeds_decide_whatever_the_batch() -> None:
    seeds = np.array([5, 0, 7])
    whole = make("surround", 3, repeat_action_probability=0.25, num_threads=2)
    whole.reset(seed=seeds)
    seen = play(whole, 30)
    for index, seed in enumerate(seeds):
        alone = make("surround", 1, repeat_action_probability=0.25)
        alone.reset(seed=np.array([seed]))
        rng = np.random.default_rng(0)
        for step in range(30):
            actions = random_actions(whole, rng)[index : index + 1]
            obs, reward, *_ = alone.step(actions)
            assert np.array_equal(obs[0], seen[6 * step][index])
            assert np.array_equal(reward[0], seen[6 * step + 1][index])


@pytest.mark.parametrize("resets", ["exact", "cached"])
def test_a_seed_repeats_a_trajectory(resets: str) -> None:
    options = {"resets": resets, "num_reset_states": 2, "repeat_action_probability": 0.5}
    env = make("tennis", 3, max_num_frames_per_episode=60, decorrelate_steps=5, **options)
    runs = []
    for _ in range(2):
        env.reset(seed=11)
        runs.append(play(env, 40))
    assert equal(*runs)
    env.reset(seed=12)
    assert not equal(runs[0], play(env, 40))


def test_noops_delay_the_start() -> None:
    plain, env = (make("boxing", 8, noop_max=most) for most in (0, 30))
    set_up = plain.reset(seed=0)[1]["episode_frame_number"]
    noops = env.reset(seed=0)[1]["episode_frame_number"] - set_up
    assert len(set(noops.tolist())) > 3
    assert 0 <= noops.min() <= noops.max() < 30


def test_time_to_stall() -> None:
    """A server of tennis who waits loses points, unless stalling is free."""
    rewards = {}
    for limit in (20, 0):
        env = make("tennis", 1, max_turn_time=limit, frameskip=1)
        env.reset(seed=1)
        rewards[limit] = sum(env.step(np.zeros((1, 2), int))[1].sum() for _ in range(100))
    assert rewards == {20: -5, 0: 0} or (rewards[20] < 0 and rewards[0] == 0)


def test_rewards_are_clipped_when_asked_for() -> None:
    both = [make("joust", 4, reward_clipping=clips) for clips in (False, True)]
    for env in both:
        env.reset(seed=3)
    rng = np.random.default_rng(3)
    largest = 0
    for _ in range(60):
        actions = random_actions(both[0], rng)
        plain, clipped = (env.step(actions)[1] for env in both)
        assert np.array_equal(clipped, plain.clip(-1, 1))
        largest = max(largest, int(plain.max()))
    assert largest > 1


# --- Episodes ----------------------------------------------------------------------------------


def test_next_step_autoreset() -> None:
    env = make("boxing", 2, max_num_frames_per_episode=12)
    env.reset(seed=1)
    for _ in range(2):
        assert not env.step(np.ones((2, 2), int))[3].any()
    _, _, _, truncated, info = env.step(np.ones((2, 2), int))
    assert truncated.all()
    assert info["episode_frame_number"].tolist() != [0, 0]
    _, reward, terminated, truncated, info = env.step(np.ones((2, 2), int))
    assert not reward.any()
    assert not terminated.any()
    assert not truncated.any()
    assert env.step(np.ones((2, 2), int))[4]["episode_frame_number"].max() < 12 + 4


def test_same_step_autoreset_reports_the_ended_episode() -> None:
    options = {"max_num_frames_per_episode": 240, "frameskip": 4, "episode_info": True}
    same = make("joust", 3, autoreset_mode="SameStep", **options)
    other = make("joust", 3, autoreset_mode="Disabled", **options)
    same.reset(seed=3)
    other.reset(seed=3)
    rng = np.random.default_rng(8)
    for _ in range(59):
        actions = random_actions(same, rng)
        same.step(actions)
        _, _, _, _, info = other.step(actions)
    actions = random_actions(same, rng)
    _, reward, _, truncated, info = same.step(actions)
    final_obs, expected_reward, _, _, expected = other.step(actions)
    assert truncated.all()
    assert np.array_equal(info["final_obs"], final_obs)
    assert np.array_equal(reward, expected_reward)
    assert info["final_info"]["episode_return"].shape == (3, 2)
    for key in ("lives", "episode_return", "episode_length"):
        assert np.array_equal(info["final_info"][key], expected[key]), key
    assert np.array_equal(info["episode_return"], expected["episode_return"])
    assert expected["episode_return"].any()
    with pytest.raises(cule.NotResetError, match="the episode of environment 0 has ended"):
        other.step(actions)


def test_partial_resets() -> None:
    env = make("boxing", 3)
    env.reset(seed=1)
    play(env, 5)
    before = np.array(env.ram)
    env.reset(seed=9, options={"reset_mask": np.array([False, True, False])})
    assert np.array_equal(env.ram[[0, 2]], before[[0, 2]])
    alone = make("boxing", 1)
    alone.reset(seed=9)
    assert np.array_equal(env.ram[1], alone.ram[0])


def test_players_go_out() -> None:
    """In maze_craze a robber catches one player, and the other plays on."""
    env = make("maze_craze", 24, mode=4)
    env.reset(seed=0)
    rng = np.random.default_rng(1)
    found = False
    for _ in range(400):
        _, _, terminated, _, info = env.step(random_actions(env, rng))
        alone = info["is_out"].sum(1) == 1
        found = found or bool((alone & ~terminated).any())
        assert np.array_equal(info["is_out"], info["lives"] < 0)
        if found:
            break
    assert found


def test_steps_of_frames() -> None:
    options = {"autoreset_mode": "SameStep", "max_num_frames_per_episode": 700, "stack_num": 1}
    stacked, plain = (make("joust", 3, episode_info=True, **options) for _ in range(2))
    stacked.reset(seed=3)
    plain.reset(seed=3)
    rng = np.random.default_rng(2)
    lost = 0
    lives = np.array(plain.lives)
    for _ in range(200):
        actions = random_actions(plain, rng)
        obs, reward, terminated, truncated, info = stacked.step(actions)
        result = plain.step_frames(actions)
        assert np.array_equal(result.frame, obs[:, 0])
        assert result.reward.dtype == np.float32
        assert np.array_equal(result.reward, reward)
        assert np.array_equal(result.episode_return, info["episode_return"])
        assert np.array_equal(result.truncated, truncated)
        ended = (terminated | truncated)[:, None]
        assert np.array_equal(result.life_lost & ~ended, (plain.lives < lives) & ~ended)
        lost += int(result.life_lost.sum())
        lives = np.array(plain.lives)
    assert lost > 0


def test_batches_of_some_environments() -> None:
    env = make("boxing", 4, batch_size=2, num_threads=2)
    obs, info = env.reset(seed=1)
    assert obs.shape[0] == 2
    for _ in range(10):
        obs, reward, _, _, info = env.step(np.zeros((2, 2), int))
        assert reward.shape == info["lives"].shape == (2, 2)
    env.close()


# --- Snapshots ---------------------------------------------------------------------------------


@pytest.mark.parametrize("resets", ["exact", "cached"])
def test_snapshots_hold_everything(resets: str) -> None:
    options = {"resets": resets, "num_reset_states": 2, "repeat_action_probability": 0.25}
    env = make("warlords", 3, num_players=4, max_num_frames_per_episode=100, **options)
    env.reset(seed=3)
    play(env, 7)
    states = env.get_state()
    copy = pickle.loads(pickle.dumps(env))
    expected = play(env, 30, seed=4)
    assert equal(play(copy, 30, seed=4), expected)
    env.set_state(states)
    assert equal(play(env, 30, seed=4), expected)


def test_snapshots_of_another_number_of_players_are_refused() -> None:
    two, four = make("pong", 1), make("pong", 1, num_players=4)
    for env in (two, four):
        env.reset(seed=1)
    with pytest.raises(InvalidStateError, match="saved from another game"):
        four.set_state(two.get_state())


def test_torch_results() -> None:
    torch = pytest.importorskip("torch")
    env = make("pong", 2, num_players=4, output="torch")
    env.reset(seed=1)
    _, reward, _, _, info = env.step(torch.zeros((2, 4), dtype=torch.int64))
    assert reward.shape == info["lives"].shape == (2, 4)
    assert info["is_out"].dtype == torch.bool
