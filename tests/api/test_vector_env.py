"""The vector environment: shapes, dtypes, infos, memory, resets, states, asynchronous batches."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import cule
from tests.support.api import MakeEnv, actions_for, rollout_digest

pytestmark = pytest.mark.ale

INFO_KEYS = {"env_id", "lives", "frame_number", "episode_frame_number"}


@pytest.mark.parametrize(
    ("keywords", "shape"),
    [
        ({}, (4, 84, 84)),
        ({"stack_num": 1, "img_height": 96, "img_width": 72}, (1, 96, 72)),
        ({"grayscale": False}, (4, 84, 84, 3)),
        ({"img_height": 210, "img_width": 160, "stack_num": 2}, (2, 210, 160)),
        ({"obs_type": "ram"}, (128,)),
    ],
)
def test_shapes_and_dtypes(make_env: MakeEnv, keywords: dict[str, Any], shape: tuple) -> None:
    env = make_env(num_envs=3, **keywords)
    assert env.single_observation_space.shape == shape
    assert env.observation_space.shape == (3, *shape)
    obs, info = env.reset(seed=0)
    assert obs in env.observation_space
    assert set(info) == INFO_KEYS
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert obs in env.observation_space
    assert (reward.dtype, reward.shape) == (np.int32, (3,))
    assert (terminated.dtype, truncated.dtype) == (np.bool_, np.bool_)
    assert terminated.shape == truncated.shape == (3,)
    assert {key: value.dtype for key, value in info.items()} == dict.fromkeys(INFO_KEYS, np.int32)
    assert info["env_id"].tolist() == [0, 1, 2]


def test_gymnasium_attributes(make_env: MakeEnv) -> None:
    env = make_env(num_envs=3)
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert (env.num_envs, env.closed, env.spec) == (3, False, None)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert env.action_space == gymnasium.vector.utils.batch_space(env.single_action_space, 3)
    assert env.unwrapped is env
    assert repr(env).startswith("AtariVectorEnv('pong', num_envs=3, ")
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(env)
    wrapped.reset(seed=0)
    assert wrapped.step(env.action_space.sample())[0].shape == (3, 4, 84, 84)


def test_games_for_other_televisions_are_slower(make_env: MakeEnv) -> None:
    rates = {game: make_env(game).frame_rate for game in ("pong", "adventure", "klax", "seaquest")}
    assert rates == {"pong": 60, "adventure": 50, "klax": 50, "seaquest": 60}


def test_action_space_is_the_minimal_set(make_env: MakeEnv) -> None:
    assert [action.name for action in make_env("skiing").action_set] == ["NOOP", "RIGHT", "LEFT"]
    assert make_env("skiing", full_action_space=True).single_action_space.n == 9
    assert make_env("pong", full_action_space=True).single_action_space.n == 18
    box = make_env("pong", continuous=True).single_action_space
    assert box.shape == (3,)
    assert box.dtype == np.float32
    assert np.allclose([box.low, box.high], [[0, -np.pi, 0], [1, np.pi, 1]])


def test_same_seed_same_run_other_seed_other_run(make_env: MakeEnv) -> None:
    digests = [rollout_digest(make_env(), seed=seed) for seed in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]


def test_integer_seed_counts_up_by_console(make_env: MakeEnv) -> None:
    first, _ = make_env(num_envs=3).reset(seed=5)
    second, _ = make_env(num_envs=3).reset(seed=np.array([7, 6, 5]))
    assert np.array_equal(first, second[::-1])
    for seed in (np.int64(5), np.uint8(5)):
        assert np.array_equal(make_env(num_envs=3).reset(seed=seed)[0], first)
    negative, _ = make_env(num_envs=3).reset(seed=-1)
    assert negative.shape == first.shape


def test_reset_without_seed_goes_on(make_env: MakeEnv) -> None:
    one, two = make_env(), make_env()
    for env in (one, two):
        env.reset(seed=1)
    first, second = one.reset()[1], two.reset()[1]
    assert {key: value.tolist() for key, value in first.items()} == {
        key: value.tolist() for key, value in second.items()
    }
    assert first["frame_number"].tolist() != first["episode_frame_number"].tolist()


def test_results_stay_as_they_are(make_env: MakeEnv) -> None:
    env = make_env()
    kept, copies = [], []
    obs, info = env.reset(seed=0)
    for actions in actions_for(env, 0, 30):
        kept.append((obs, info))
        copies.append(copy.deepcopy((obs, info)))
        obs, _, _, _, info = env.step(actions)
    for (obs, info), (obs_then, info_then) in zip(kept, copies, strict=True):
        assert np.array_equal(obs, obs_then)
        assert all(np.array_equal(info[key], info_then[key]) for key in info)


def test_observation_memory_is_used_again_when_nobody_holds_it(make_env: MakeEnv) -> None:
    env = make_env()
    addresses = set()
    env.reset(seed=0)
    for actions in actions_for(env, 0, 20):
        addresses.add(env.step(actions)[0].ctypes.data)
    assert len(addresses) <= 2
    row = env.step(actions)[0][1, 2, 3:5]  # a view alone keeps a block
    value = row.copy()
    for actions in actions_for(env, 1, 20):
        assert not np.shares_memory(env.step(actions)[0], row)
    assert np.array_equal(row, value)


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_number_of_threads_changes_nothing(make_env: MakeEnv, num_threads: int) -> None:
    expected = rollout_digest(make_env(num_envs=5, num_threads=1))
    assert rollout_digest(make_env(num_envs=5, num_threads=num_threads)) == expected


def test_split_of_the_batch_changes_nothing(make_env: MakeEnv) -> None:
    whole = make_env("breakout", 4, repeat_action_probability=0.25)
    parts = [make_env("breakout", 2, repeat_action_probability=0.25) for _ in range(2)]
    obs = whole.reset(seed=0)[0]
    halves = [env.reset(seed=seed)[0] for env, seed in zip(parts, (0, 2), strict=True)]
    assert np.array_equal(obs, np.concatenate(halves))
    for actions in actions_for(whole, 0, 30):
        results = whole.step(actions)[:4]
        split = [parts[0].step(actions[:2])[:4], parts[1].step(actions[2:])[:4]]
        for index, result in enumerate(results):
            assert np.array_equal(result, np.concatenate([part[index] for part in split]))


# --- Partial resets and states ---------------------------------------------------------------


def test_partial_reset_leaves_the_others(make_env: MakeEnv) -> None:
    env = make_env(num_envs=3)
    env.reset(seed=0)
    for actions in actions_for(env, 0, 10):
        obs, _, _, _, info = env.step(actions)
    after, after_info = env.reset(seed=9, options={"reset_mask": np.array([False, True, False])})
    assert np.array_equal(obs[[0, 2]], after[[0, 2]])
    assert info["frame_number"][[0, 2]].tolist() == after_info["frame_number"][[0, 2]].tolist()
    fresh, fresh_info = make_env(num_envs=1).reset(seed=9)
    assert np.array_equal(after[1], fresh[0])
    assert after_info["frame_number"][1] == fresh_info["frame_number"][0]


def test_seeds_of_a_partial_reset_go_to_the_masked_in(make_env: MakeEnv) -> None:
    env = make_env(num_envs=4)
    env.reset(seed=0)
    mask = np.array([False, True, False, True])
    by_base = env.reset(seed=20, options={"reset_mask": mask})[0][mask]
    by_array = env.reset(seed=np.array([20, 21]), options={"reset_mask": mask})[0][mask]
    expected = make_env(num_envs=2).reset(seed=20)[0]
    assert np.array_equal(by_base, expected)
    assert np.array_equal(by_array, expected)


def test_state_continues_identically(make_env: MakeEnv) -> None:
    env = make_env("breakout", 3, repeat_action_probability=0.25)
    env.reset(seed=0)
    plan = actions_for(env, 0, 40)
    for actions in plan[:15]:
        env.step(actions)
    rows = env.get_state()
    assert (rows.dtype, rows.shape) == (np.uint8, (3, env.state_size))
    expected = [env.step(actions)[:4] for actions in plan[15:]]

    other = make_env("breakout", 3, repeat_action_probability=0.25)
    for target in (env, other):
        target.set_state(rows)
        for actions, results in zip(plan[15:], expected, strict=True):
            assert all(map(np.array_equal, target.step(actions)[:4], results))


def test_states_can_be_cloned_and_permuted(make_env: MakeEnv) -> None:
    env = make_env(num_envs=3)
    env.reset(seed=0)
    for actions in actions_for(env, 0, 10):
        env.step(actions)
    env.set_state(env.get_state([2, 2]), [0, 1])
    obs, _, _, _, info = env.step(np.zeros(3, np.int64))
    assert np.array_equal(obs[0], obs[2])
    assert np.array_equal(obs[1], obs[2])
    assert len(set(info["frame_number"].tolist())) == 1


def test_reset_to_states(make_env: MakeEnv) -> None:
    env = make_env(num_envs=3)
    env.reset(seed=0)
    for actions in actions_for(env, 0, 10):
        obs = env.step(actions)[0]
    rows = env.get_state([2])
    mask = np.array([True, False, False])
    after, _ = env.reset(options={"reset_mask": mask, "states": rows})
    assert np.array_equal(after, obs[[2, 1, 2]])
    fresh = make_env(num_envs=3)
    everything, _ = fresh.reset(options={"states": env.get_state()})
    assert np.array_equal(everything, after)
    fresh.step(np.zeros(3, np.int64))
    # As the page of the interface writes it; the seed is the environment's own generator's.
    again, _ = fresh.reset(seed=5, options={"reset_mask": mask, "states": rows})
    assert np.array_equal(again[0], obs[2])


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_cached_resets_follow_restored_states(
    make_env: MakeEnv, mode: str, num_threads: int
) -> None:
    """An environment that was never reset continues from the state of another, ends included."""
    keywords: dict[str, Any] = {
        "resets": "cached",
        "num_reset_states": 2,
        "max_num_frames_per_episode": 40,
        "autoreset_mode": mode,
        "num_threads": num_threads,
    }
    env, other = make_env(num_envs=4, **keywords), make_env(num_envs=4, **keywords)
    env.reset(seed=0)
    other.set_state(env.get_state())
    for actions in actions_for(env, 0, 30):
        for mine, theirs in zip(env.step(actions)[:4], other.step(actions)[:4], strict=True):
            assert np.array_equal(mine, theirs)


def test_a_mask_of_all_consoles_is_a_whole_reset(make_env: MakeEnv) -> None:
    everyone = {"reset_mask": np.ones(2, bool)}
    expected = make_env(num_envs=2).reset(seed=1)[0]
    assert np.array_equal(make_env(num_envs=2).reset(seed=1, options=everyone)[0], expected)
    make_env(num_envs=2, batch_size=1).reset(seed=1, options=everyone)


def test_state_crosses_processes(make_env: MakeEnv, tmp_path: Any) -> None:
    env = make_env(num_envs=2)
    env.reset(seed=0)
    for actions in actions_for(env, 0, 10):
        env.step(actions)
    np.save(tmp_path / "rows.npy", env.get_state())
    script = (
        "import sys, numpy as np, cule\n"
        "env = cule.AtariVectorEnv('pong', 2, num_threads=1)\n"
        "env.set_state(np.load(sys.argv[1]))\n"
        "np.save(sys.argv[2], env.step(np.zeros(2, np.int64))[0])\n"
    )
    arguments = [str(tmp_path / "rows.npy"), str(tmp_path / "obs.npy")]
    subprocess.run([sys.executable, "-c", script, *arguments], check=True)
    obs = env.step(np.zeros(2, np.int64))[0]
    assert np.array_equal(np.load(tmp_path / "obs.npy"), obs)


def test_pickle_and_deepcopy_continue_identically(make_env: MakeEnv) -> None:
    env = make_env(preset="machado", repeat_action_probability=0.5)
    unused = pickle.loads(pickle.dumps(env))
    assert unused.config == env.config
    env.reset(seed=0)
    plan = actions_for(env, 0, 20)
    for actions in plan[:10]:
        env.step(actions)
    copies = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    for actions in plan[10:]:
        expected = env.step(actions)[:4]
        for other in copies:
            assert all(map(np.array_equal, other.step(actions)[:4], expected))
    for other in (unused, *copies):
        other.close()


# --- Views of the consoles -------------------------------------------------------------------


def test_live_numbers(make_env: MakeEnv) -> None:
    env = make_env("breakout", 3)
    env.reset(seed=0)
    ram, lives, frames = env.ram, env.lives, env.episode_frames
    assert (ram.shape, ram.dtype) == ((3, 128), np.uint8)
    assert (lives.dtype, frames.dtype) == (np.int32, np.int32)
    before = ram.copy()
    for actions in actions_for(env, 0, 5):
        info = env.step(actions)[4]
    assert not np.array_equal(before, ram)
    assert lives.tolist() == info["lives"].tolist() == [5, 5, 5]
    assert frames.tolist() == info["episode_frame_number"].tolist()
    for view in (ram, lives, frames):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 0


def test_ram_is_the_ram_observation(make_env: MakeEnv) -> None:
    image, ram = make_env(), make_env(obs_type="ram")
    image.reset(seed=0)
    obs, _ = ram.reset(seed=0)
    assert np.array_equal(image.ram, obs)
    for actions in actions_for(image, 0, 5):
        image.step(actions)
        assert np.array_equal(image.ram, ram.step(actions)[0])


def test_screens(make_env: MakeEnv) -> None:
    env = make_env(num_envs=3, stack_num=1, maxpool=False, img_height=210, img_width=160)
    env.reset(seed=0)
    for actions in actions_for(env, 0, 5):
        obs = env.step(actions)[0]
    assert np.array_equal(env.screens("gray"), obs[:, 0])
    assert np.array_equal(env.screens("gray", [2, 0]), obs[[2, 0], 0])
    assert env.screens().shape == (3, 210, 160, 3)
    indices = env.screens("index", 1)
    assert indices.shape == (1, 210, 160)
    assert len(np.unique(indices)) > 1


def test_render(make_env: MakeEnv) -> None:
    env = make_env([("pong", 1), ("pooyan", 2)], 3, render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert isinstance(frames, tuple)
    assert [frame.shape for frame in frames] == [(210, 160, 3), (220, 160, 3), (220, 160, 3)]
    assert np.array_equal(frames[0], env.screens("rgb", [0])[0])
    assert np.array_equal(frames[2], env.screens("rgb", [2])[0])


def test_render_without_a_mode_warns(make_env: MakeEnv) -> None:
    env = make_env()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


# --- Several games ---------------------------------------------------------------------------


def test_several_games_in_one_batch(make_env: MakeEnv) -> None:
    env = make_env([("pong", 2), ("breakout", 1)], 3)
    assert env.action_set == tuple(cule.Action)  # their minimal sets differ
    obs, info = env.reset(seed=0)
    assert info["lives"].tolist() == [0, 0, 5]
    alone = make_env("breakout", 1, full_action_space=True)
    assert np.array_equal(obs[2], alone.reset(seed=2)[0][0])
    for actions in actions_for(env, 0, 20):
        assert np.array_equal(env.step(actions)[0][2], alone.step(actions[2:])[0][0])


def test_games_with_equal_action_sets_keep_them(make_env: MakeEnv) -> None:
    env = make_env([("pong", 1), ("space_invaders", 1)])
    assert [action.name for action in env.action_set] == [
        "NOOP",
        "FIRE",
        "RIGHT",
        "LEFT",
        "RIGHTFIRE",
        "LEFTFIRE",
    ]


def test_illegal_actions_of_a_joint_space_are_noop(make_env: MakeEnv) -> None:
    joint = make_env([("skiing", 1), ("pong", 1)])
    alone = make_env("skiing", 1)
    joint.reset(seed=0)
    alone.reset(seed=0)
    for _ in range(10):
        fired = joint.step(np.full(2, int(cule.Action.RIGHTFIRE)))[0][0]
        assert np.array_equal(fired, alone.step(np.zeros(1, np.int64))[0][0])
    right = joint.step(np.full(2, int(cule.Action.RIGHT)))[0][0]
    assert np.array_equal(right, alone.step(np.ones(1, np.int64))[0][0])


def test_modes_and_difficulties_for_each_console(make_env: MakeEnv) -> None:
    mixed = make_env("pong", 3, mode=[0, 1, 0], difficulty=np.array([0, 0, 3]))
    singles = [
        make_env("pong", 1, mode=mode, difficulty=difficulty)
        for mode, difficulty in ((0, 0), (1, 0), (0, 3))
    ]
    obs, _ = mixed.reset(seed=np.array([1, 1, 1]))
    expected = [env.reset(seed=1)[0][0] for env in singles]
    assert np.array_equal(obs, np.stack(expected))
    for actions in actions_for(mixed, 0, 60):
        same = np.repeat(actions[:1], 3)
        obs = mixed.step(same)[0]
        rows = [env.step(same[:1])[0][0] for env in singles]
        assert np.array_equal(obs, np.stack(rows))
    ram = [env.ram[0] for env in singles]
    assert not np.array_equal(ram[0], ram[1])
    assert not np.array_equal(ram[0], ram[2])


# --- Torch ---------------------------------------------------------------------------------


def test_torch_output(make_env: MakeEnv) -> None:
    torch = pytest.importorskip("torch")
    tensors = make_env(output="torch", autoreset_mode="SameStep", max_num_frames_per_episode=40)
    arrays = make_env(autoreset_mode="SameStep", max_num_frames_per_episode=40)
    expected, _ = arrays.reset(seed=0)
    obs, info = tensors.reset(seed=0)
    assert np.array_equal(obs.numpy(), expected)
    assert all(isinstance(value, torch.Tensor) for value in info.values())
    kept, endings = [], 0
    for actions in actions_for(arrays, 0, 12):
        results = tensors.step(torch.from_numpy(actions))
        kept.append((results[0], results[0].clone()))
        for tensor, array in zip(results[:4], arrays.step(actions)[:4], strict=True):
            assert isinstance(tensor, torch.Tensor)
            assert np.array_equal(tensor.numpy(), array)
        if results[3].any():
            endings += 1
            assert isinstance(results[4]["final_obs"], torch.Tensor)
            assert isinstance(results[4]["final_info"]["lives"], torch.Tensor)
    assert endings == 1
    assert all(torch.equal(obs, then) for obs, then in kept)
    assert np.array_equal(tensors.ram.numpy(), arrays.ram)
    assert torch.equal(tensors.get_state(), torch.from_numpy(arrays.get_state()))


def test_import_needs_no_torch() -> None:
    script = "import sys; sys.modules['torch'] = None; import cule; cule.AtariVectorEnv('pong', 1)"
    subprocess.run([sys.executable, "-c", script], check=True)
