"""JAX: the functions of xla() and xla_pure() against step(), inside JAX's transformations."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ale_py.vector_env
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import cule
from benchmarks.gpu_suite.device import Device
from benchmarks.gpu_suite.lines import LINES, Setting

#: Episodes of 50 steps at most.
SHORT = {"max_num_frames_per_episode": 200, "noop_max": 5, "num_threads": 2}

#: Options that change what a step returns.
OPTIONS: list[dict[str, Any]] = [
    {},
    {"autoreset_mode": "SameStep"},
    {"autoreset_mode": "SameStep", "episode_info": True, "life_loss_info": True},
    {"episode_info": True, "reward_clipping": False, "frameskip": 3, "stack_num": 2},
    {"grayscale": False, "img_height": 50, "img_width": 40, "repeat_action_probability": 0.25},
    {"obs_type": "ram", "episodic_life": True, "full_action_space": True},
    {"resets": "cached", "num_reset_states": 3, "action_delay": [6, 0, 1]},
    {"obs_type": "objects", "autoreset_mode": "SameStep"},
    {"obs_type": "sprites", "max_sprites": 9, "stack_num": 2},
]


def make_pair(closing: Callable, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    """Two environments of the same options."""
    return tuple(closing(cule.AtariVectorEnv(*arguments, **options)) for _ in range(2))


def make_actions(env: cule.AtariVectorEnv, steps: int, seed: int = 0) -> np.ndarray:
    """Actions of several steps, int32 ``[steps, N]``."""
    rng = np.random.default_rng(seed)
    return rng.integers(len(env.action_set), size=(steps, env.num_envs), dtype=np.int32)


def assert_info(ours: dict, wanted: dict) -> None:
    """Equal, but that rows of what did not end are there as well."""
    ended = np.asarray(wanted.get("_final_info", np.zeros(1, bool)))
    for key in wanted:
        if key == "final_info":
            assert_info(ours[key], wanted[key])
        else:
            mask = ended if key == "final_obs" else slice(None)
            np.testing.assert_array_equal(ours[key][mask], wanted[key][mask], key)
            assert ours[key].dtype == wanted[key].dtype
    if ours.keys() != wanted.keys():  # step() leaves them out where no episode ended
        assert ours.keys() - wanted.keys() == {"final_obs", "final_info", "_final_info"}
        assert not ours["_final_info"].any()
        assert not ours["final_obs"].any()


def assert_result(ours: tuple, wanted: tuple) -> None:
    """A result of JAX is that of the environment, bit for bit."""
    for mine, theirs in zip(ours[:-1], wanted[:-1], strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    assert_info(ours[-1], wanted[-1])


def row(results: Any, index: int) -> Any:
    """One step of stacked results."""
    return jax.tree.map(lambda leaf: np.asarray(leaf[index]), results)


def count_ends(results: tuple) -> int:
    return int(np.sum(results[2] | results[3]))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_eager_jit_and_scan_are_step(closing, options: dict) -> None:
    ours, theirs = make_pair(closing, "breakout", 3, **SHORT, **options)
    handle, reset, step = ours.xla()
    assert (handle.shape, handle.dtype) == ((8,), np.uint8)
    handle, result = reset(handle, seed=7)
    assert_result(result, theirs.reset(seed=7))
    actions = make_actions(ours, 260)
    ends = 0
    for function, number in ((step, 40), (jax.jit(step), 60)):
        for action in actions[:number]:
            handle, result = function(handle, action)
            assert_result(jax.tree.map(np.asarray, result), theirs.step(action))
            ends += count_ends(result)
    handle, results = jax.lax.scan(step, handle, actions)
    for index, action in enumerate(actions):
        assert_result(row(results, index), theirs.step(action))
    assert ends + count_ends(results) >= 9


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_pure_functions_are_step(closing, options: dict) -> None:
    ours, theirs = make_pair(closing, "breakout", 3, **SHORT, **options)
    reset, step = ours.xla_pure()
    states, result = jax.jit(reset)(7)
    assert (states.shape, states.dtype) == ((3, ours.state_size), np.uint8)
    assert_result(result, theirs.reset(seed=7))
    actions = make_actions(ours, 120)
    last, results = jax.lax.scan(step, states, actions)
    for index, action in enumerate(actions):
        assert_result(row(results, index), theirs.step(action))
    assert count_ends(results) >= 3
    # What is a function gives the same again, to the last byte of a snapshot.
    again, same = jax.lax.scan(step, reset(7)[0], actions)
    np.testing.assert_array_equal(again, last)
    jax.tree.map(np.testing.assert_array_equal, same, results)
    # Its snapshots are those of the environment.
    theirs.set_state(np.asarray(states))
    for index, action in enumerate(actions[:5]):
        assert_result(row(results, index), theirs.step(action))


def test_scan_is_that_of_ale_py(closing) -> None:
    ours = closing(cule.AtariVectorEnv("breakout", 3, **SHORT))
    theirs = closing(ale_py.vector_env.AtariVectorEnv("breakout", 3, **SHORT))
    actions = make_actions(ours, 200)
    outcomes = []
    for env in (ours, theirs):
        handle, reset, step = env.xla()
        handle, first = reset(handle, seed=4)
        handle, results = jax.lax.scan(step, handle, actions)
        mask = np.array([True, False, True])
        outcomes.append((first, results, reset(handle, seed=6, reset_mask=mask)[1]))
    jax.tree.map(np.testing.assert_array_equal, *outcomes)
    assert count_ends(outcomes[0][1]) >= 9


def test_scan_of_a_thousand_steps_of_64_environments(closing) -> None:
    ours, theirs = make_pair(closing, "breakout", 64)
    handle, reset, step = ours.xla()
    handle, (obs, _) = reset(handle, seed=0)
    wanted, _ = theirs.reset(seed=0)
    actions = make_actions(ours, 1000)

    def sums(handle: Any, action: Any) -> Any:
        """Of an observation a checksum; 1,000 of them would be 1.8 GB."""
        handle, (obs, *rest) = step(handle, action)
        weights = jnp.arange(1, obs[0].size + 1, dtype=jnp.uint32)
        return handle, ((obs.reshape(64, -1) * weights).sum(1, dtype=jnp.uint32), obs[:2], *rest)

    handle, (checks, some, *rest) = jax.jit(lambda h, a: jax.lax.scan(sums, h, a))(handle, actions)
    np.testing.assert_array_equal(obs, wanted)
    weights = np.arange(1, obs[0].size + 1, dtype=np.uint32)
    for index, action in enumerate(actions):
        wanted, *others = theirs.step(action)
        check = (wanted.reshape(64, -1) * weights).sum(1, dtype=np.uint32)
        np.testing.assert_array_equal(checks[index], check)
        np.testing.assert_array_equal(some[index], wanted[:2])
        assert_result(row(tuple(rest), index), tuple(others))
    assert np.sum(rest[1]) > 64


def test_fori_loop(closing) -> None:
    ours, theirs = make_pair(closing, "pong", 2)
    handle, reset, step = ours.xla()
    handle, _ = reset(handle, seed=1)
    theirs.reset(seed=1)
    actions = make_actions(ours, 300)

    def body(index: Any, carry: Any) -> Any:
        handle, total, _ = carry
        handle, (obs, reward, *_) = step(handle, jnp.asarray(actions)[index])
        return handle, total + reward, obs

    start = (handle, jnp.zeros(2, jnp.int32), jnp.zeros(ours.observation_space.shape, jnp.uint8))
    _, total, obs = jax.lax.fori_loop(0, 300, body, start)
    wanted = np.zeros(2, np.int32)
    for action in actions:
        last, reward, *_ = theirs.step(action)
        wanted += reward
    np.testing.assert_array_equal(total, wanted)
    np.testing.assert_array_equal(obs, last)
    assert wanted.any()


def test_several_games(closing) -> None:
    """The actions of the joint set mean what they mean to step(), in environments and snapshots."""
    ours, theirs = make_pair(closing, [("pong", 2), ("breakout", 1)], 3, **SHORT)
    handle, reset, step = ours.xla()
    pure_reset, pure_step = ours.xla_pure()
    handle, _ = reset(handle, seed=3)
    states, _ = pure_reset(3)
    theirs.reset(seed=3)
    actions = make_actions(ours, 100)
    handle, results = jax.lax.scan(step, handle, actions)
    pair = jnp.stack([states, states])
    twice = np.stack([actions, actions], axis=1)
    _, both = jax.lax.scan(jax.vmap(pure_step), pair, twice)
    for index, action in enumerate(actions):
        wanted = theirs.step(action)
        assert_result(row(results, index), wanted)
        for half in (0, 1):
            assert_result(jax.tree.map(lambda leaf, k=half: leaf[k], row(both, index)), wanted)
    with pytest.raises(cule.InvalidArgumentError, match="the last dimension must be 3"):
        pure_step(states[:2], actions[0, :2])


def test_snapshots_of_environments_with_delays_of_their_own(closing) -> None:
    env = closing(cule.AtariVectorEnv("pong", 3, action_delay=[0, 3, 9], num_threads=1))
    pure_reset, _ = env.xla_pure()
    with pytest.raises(cule.InvalidArgumentError, match="the last dimension must be 3"):
        pure_reset(jnp.array([1, 1]))
    states, _ = pure_reset(4)
    env.reset(seed=4)
    saved = env.get_state()
    env.set_state(np.asarray(states))
    np.testing.assert_array_equal(env.get_state(), saved)


@pytest.mark.parametrize("form", ["xla", "xla_pure"])
def test_continuous_actions(closing, form: str) -> None:
    ours, theirs = make_pair(closing, "breakout", 2, **SHORT, continuous=True)
    theirs.reset(seed=0)
    if form == "xla":
        carry, reset, step = ours.xla()
        carry, _ = reset(carry, seed=0)
    else:
        reset, step = ours.xla_pure()
        carry, _ = reset(0)
    ours.action_space.seed(0)
    actions = np.stack([ours.action_space.sample() for _ in range(100)])
    _, results = jax.lax.scan(step, carry, actions)
    for index, action in enumerate(actions):
        assert_result(row(results, index), theirs.step(action))


def test_vmap_over_seeds_and_start_states(closing) -> None:
    env = closing(cule.AtariVectorEnv("breakout", 2, **SHORT))
    reset, step = env.xla_pure()
    states, (obs, info) = jax.vmap(reset)(jnp.array([3, 5, 3]))
    assert obs.shape == (3, 2, 4, 84, 84)
    np.testing.assert_array_equal(states[0], states[2])
    np.testing.assert_array_equal(info["env_id"], [[0, 1]] * 3)
    actions = make_actions(env, 3)
    after, results = jax.vmap(step)(states, actions)
    for index in range(3):
        alone, result = step(states[index], actions[index])
        np.testing.assert_array_equal(after[index], alone)
        jax.tree.map(np.testing.assert_array_equal, row(results, index), result)
    # A snapshot alone, and one snapshot with every action.
    alone, (obs, *_) = step(states[0, 0], actions[0, 0])
    np.testing.assert_array_equal(alone, after[0, 0])
    assert obs.shape == (4, 84, 84)
    branches, _ = jax.vmap(step, in_axes=(None, 0))(states[0, 0], jnp.arange(4))
    np.testing.assert_array_equal(branches[actions[0, 0]], alone)
    seeds, _ = reset(np.array([5, 3], np.int64))
    np.testing.assert_array_equal(seeds[1], states[0, 0])


def test_snapshots_of_several_computations(closing) -> None:
    """Those of the last step, of earlier ones and of get_state give what an environment gives."""
    env = closing(cule.AtariVectorEnv("breakout", 2, **SHORT, repeat_action_probability=0.25))
    (reset, step), (_, other_step) = env.xla_pure(), env.xla_pure()
    kept = [reset(1)[0], reset(9)[0]]
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(150):
        back = int(rng.integers(min(len(kept), 5))) if rng.random() < 0.3 else 0
        states, actions = kept[-1 - back], rng.integers(4, size=2, dtype=np.int32)
        after, result = step(states, actions)
        env.set_state(np.asarray(states))
        plain = env.get_state()
        wanted = env.step(actions)
        assert_result(result, wanted)
        assert_result(step(plain, actions)[1], wanted)
        # The same bytes from functions that have played something else, and in another order.
        np.testing.assert_array_equal(other_step(states, actions)[0], after)
        np.testing.assert_array_equal(step(states[::-1], actions[::-1])[0][::-1], after)
        kept.append(after)
        ends += count_ends(result)
    assert ends


def test_partial_resets_and_seeds(closing) -> None:
    ours, theirs = make_pair(closing, "breakout", 3, **SHORT)
    handle, reset, step = ours.xla()
    jitted = jax.jit(reset)
    mask = np.array([False, True, True])
    cases = [
        (None, None),
        (4, None),
        (np.array([9, 2, 2]), None),
        (6, mask),
        (np.array([8, 1]), mask),
        (None, mask),
        (None, ~mask & mask),
    ]
    reset(handle, seed=0)
    theirs.reset(seed=0)
    for number, (seed, chosen) in enumerate(cases):
        action = np.full(3, number % 4)
        assert_result(step(handle, action)[1], theirs.step(action))
        options = None if chosen is None else {"reset_mask": chosen}
        wanted = theirs.reset(seed=seed, options=options)
        if number % 2:
            assert_result(reset(handle, seed, chosen)[1], wanted)
        elif chosen is None or np.ndim(seed) == 0:
            assert_result(jitted(handle, seed, chosen)[1], wanted)
        else:
            assert_result(jax.jit(lambda h, s, m=chosen: reset(h, s, m))(handle, seed)[1], wanted)


def test_autoreset_disabled(closing) -> None:
    env = closing(cule.AtariVectorEnv("pong", 2, **SHORT, autoreset_mode="Disabled"))
    handle, reset, step = env.xla()
    handle, _ = reset(handle, seed=0)
    actions = np.zeros((50, 2), np.int32)
    handle, (*_, truncated, _) = jax.lax.scan(step, handle, actions)
    assert truncated[-1].all()
    with pytest.raises(jax.errors.JaxRuntimeError, match="environment 0 has ended"):
        jax.block_until_ready(step(handle, actions[0]))
    _, (_, info) = reset(handle, reset_mask=np.array([True, True]))
    assert info["episode_frame_number"].tolist() == env.episode_frames.tolist()
    pure_reset, pure_step = env.xla_pure()
    states, _ = jax.lax.scan(pure_step, pure_reset(0)[0], actions)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"states\[0\]: the episode has ended"):
        jax.block_until_ready(pure_step(states, actions[0]))


def test_a_handle_that_is_used_twice(closing) -> None:
    """As in ale-py, each call steps the environment, also inside one function, and unused ones."""
    env = closing(cule.AtariVectorEnv("pong", 1, noop_max=0, use_fire_reset=False, num_threads=1))
    handle, reset, step = env.xla()
    reset(handle, seed=0)
    action = jnp.zeros(1, jnp.int32)

    @jax.jit
    def twice(handle: Any) -> Any:
        step(handle, action)
        return step(handle, action)[0]

    start = int(env.episode_frames[0])
    jax.block_until_ready(twice(handle))
    jax.block_until_ready(step(handle, action))
    assert env.episode_frames[0] == start + 12


def test_methods_and_functions_mix(closing) -> None:
    ours, theirs = make_pair(closing, "pong", 2, **SHORT)
    handle, reset, step = ours.xla()
    with pytest.raises(cule.NotResetError):
        ours.step(np.zeros(2, int))
    with pytest.raises(jax.errors.JaxRuntimeError, match="has not been reset"):
        jax.block_until_ready(step(handle, np.zeros(2, int)))
    assert_result(reset(handle, seed=2)[1], theirs.reset(seed=2))
    for action in make_actions(ours, 60):
        assert_result(ours.step(action), theirs.step(action))
        assert_result(jax.tree.map(np.asarray, step(handle, action)[1]), theirs.step(action))
    np.testing.assert_array_equal(ours.get_state()[:, :64], theirs.get_state()[:, :64])


def test_calls_from_threads_wait_for_each_other(closing) -> None:
    env = closing(cule.AtariVectorEnv("pong", 4, noop_max=0, use_fire_reset=False, num_threads=2))
    handle, reset, step = env.xla()
    handle, _ = jax.block_until_ready(reset(handle, seed=0))
    actions = np.zeros((100, 4), np.int32)
    start = int(env.episode_frames[0])
    thread = threading.Thread(target=lambda: [env.step(actions[0]) for _ in range(100)])
    thread.start()
    jax.block_until_ready(jax.lax.scan(step, handle, actions))
    thread.join()
    assert env.episode_frames.tolist() == [start + 800] * 4


def test_functions_keep_the_environment_alive() -> None:
    handle, reset, step = cule.AtariVectorEnv("pong", 2, **SHORT).xla()
    gc.collect()
    handle, _ = reset(handle, seed=0)
    compiled = jax.jit(step).lower(handle, np.zeros(2, np.int32)).compile()
    _, (obs, *_) = compiled(handle, np.zeros(2, np.int32))
    assert obs.shape == (2, 4, 84, 84)


def test_a_closed_environment_and_other_handles(closing) -> None:
    env = cule.AtariVectorEnv("pong", 2, **SHORT)
    handle, reset, step = env.xla()
    reset(handle, seed=0)
    action = np.zeros(2, np.int32)
    jax.block_until_ready(step(handle, action))
    with pytest.raises(jax.errors.JaxRuntimeError, match="names no environment"):
        jax.block_until_ready(step(jnp.full(8, 255, jnp.uint8), action))
    with pytest.raises(jax.errors.JaxRuntimeError, match="handle has 4 entries; it must have 8"):
        jax.block_until_ready(step(handle[:4], action))
    with pytest.raises(jax.errors.JaxRuntimeError, match="handle has data type 4"):
        jax.block_until_ready(step(handle.astype(jnp.int32), action))
    with pytest.raises(NotImplementedError, match="vmap"):
        jax.vmap(step, in_axes=(None, 0))(handle, np.stack([action, action]))
    env.close()
    for call in (lambda: step(handle, action), lambda: reset(handle, seed=0)):
        with pytest.raises(jax.errors.JaxRuntimeError, match="the environment has been closed"):
            jax.block_until_ready(call())
    with pytest.raises(cule.ClosedError):
        env.xla()


def test_wrong_arguments(closing) -> None:
    env = closing(cule.AtariVectorEnv("breakout", 3, **SHORT))
    handle, reset, step = env.xla()
    pure_reset, pure_step = env.xla_pure()
    handle, _ = jax.block_until_ready(reset(handle, seed=0))
    states, _ = pure_reset(0)
    frames = env.episode_frames.tolist()
    for actions in (np.zeros(4, int), np.zeros(3), jnp.zeros((3, 1), int), jnp.zeros(3), [0, 0, 0]):
        for function, first in ((step, handle), (pure_step, states)):
            with pytest.raises(AssertionError, match="actions"):
                function(first, actions)
    for actions in (np.array([0, 4, 0]), np.array([0, 2**32 + 4, 0]), jnp.array([0, 4, -1])):
        for function, first in ((step, handle), (pure_step, states)):
            with pytest.raises(jax.errors.JaxRuntimeError, match=r"actions\[1\] is \d+; it must"):
                jax.block_until_ready(function(first, actions))
    for seed, words in (
        ("x", "seed is 'x'"),
        (2**31 - 2, "seed gives environment 2"),
        (0.5, "seed"),
    ):
        for call in (lambda s=seed: reset(handle, seed=s), lambda s=seed: pure_reset(s)):
            with pytest.raises(cule.InvalidArgumentError, match=words):
                call()
    with pytest.raises(jax.errors.JaxRuntimeError, match="seed gives environment 2 a seed above"):
        jax.block_until_ready(jax.jit(reset)(handle, 2**31 - 2))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"seed\[0\] is -5; it must be in 0"):
        jax.block_until_ready(jax.jit(pure_reset)(-5))
    with pytest.raises(cule.InvalidArgumentError, match=r"reset_mask has shape \(2,\)"):
        reset(handle, reset_mask=np.ones(2, bool))
    with pytest.raises(cule.InvalidArgumentError, match="reset_mask is traced"):
        jax.jit(reset)(handle, np.arange(3), np.ones(3, bool))
    assert env.episode_frames.tolist() == frames


def test_snapshots_that_are_none(closing) -> None:
    env = closing(cule.AtariVectorEnv("breakout", 3, **SHORT))
    other = closing(cule.AtariVectorEnv("pong", 3, **SHORT))
    (reset, step), (other_reset, _) = env.xla_pure(), other.xla_pure()
    states, foreign = reset(0)[0], other_reset(0)[0]
    action = np.zeros(3, np.int32)
    for wrong, words in (
        (states.at[2, 500].add(1), "the bytes are corrupted"),
        (foreign.at[:2].set(states[:2]), "saved from another game"),
        (states.at[2].set(0), "not a snapshot"),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match=rf"states\[2\]: {words}"):
            jax.block_until_ready(step(wrong, action))
    with pytest.raises(cule.InvalidArgumentError, match="states has shape"):
        step(states[:, 1:], action)


@pytest.mark.parametrize(
    ("name", "value"), [("batch_size", 1), ("decorrelate_steps", 1), ("objects_info", True)]
)
def test_options_that_are_refused(closing, name: str, value: int) -> None:
    env = closing(cule.AtariVectorEnv("pong", 2, num_threads=1, **{name: value}))
    for method in (env.xla, env.xla_pure):
        with pytest.raises(cule.InvalidArgumentError, match=f"{name} is {value}; with JAX it must"):
            method()


def test_snapshots_of_environments_on_a_gpu_are_refused(
    closing, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = closing(cule.AtariVectorEnv("pong", 2, num_threads=1))
    monkeypatch.setattr(env, "_config", dataclasses.replace(env.config, device="cuda:1"))
    with pytest.raises(cule.InvalidArgumentError, match="device is 'cuda:1'; with JAX it must"):
        env.xla_pure()


def test_without_jax() -> None:
    """`import cule` and an environment do not import jax, and xla() says what to install."""
    program = (
        "import sys, cule\n"
        "env = cule.AtariVectorEnv('pong', 1)\n"
        "assert 'jax' not in sys.modules\n"
        "sys.modules['jax'] = None\n"
        "try: env.xla()\n"
        "except ImportError as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "MissingPackageError" in done.stdout, done.stderr
    assert "pip install 'cule[jax]'" in done.stdout


def test_results_are_shared_without_a_copy(closing) -> None:
    """By DLPack: JAX to torch and numpy, and cule's own results to JAX and back."""
    env = closing(cule.AtariVectorEnv("pong", 2, **SHORT))
    handle, reset, _ = env.xla()
    _, (obs, _) = jax.block_until_ready(reset(handle, seed=0))
    pointer = obs.unsafe_buffer_pointer()
    assert torch.from_dlpack(obs).data_ptr() == pointer
    assert np.from_dlpack(obs).ctypes.data == pointer
    assert np.asarray(obs).ctypes.data == pointer
    ours, _ = env.reset(seed=0)
    assert torch.from_dlpack(ours).data_ptr() == ours.ctypes.data
    there = jax.dlpack.from_dlpack(ours, copy=None)
    np.testing.assert_array_equal(there, ours)
    # JAX takes memory as it is where it begins at a multiple of 64 bytes.
    assert (there.unsafe_buffer_pointer() == ours.ctypes.data) == (ours.ctypes.data % 64 == 0)


@pytest.mark.long
def test_the_line_of_the_gpu_suite(tmp_path: Path) -> None:
    setting = Setting(tmp_path, Device("none", "0", "0 MiB", "90"), None, is_dry=True)
    for stage in LINES["xla"].stages(setting):
        for step in stage.steps:
            environment = {**os.environ, **setting.environment(), **step.environment}
            subprocess.run(step.words, cwd=tmp_path, env=environment, check=True)
            record = json.loads((tmp_path / f"{step.name}.json").read_text())
            assert set(record["frames_per_second"]["pong"]) >= {"cule step", "cule xla"}
