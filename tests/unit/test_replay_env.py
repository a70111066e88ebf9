"""Replay fed by the environments: what is sampled is what the policy saw, bit for bit."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import cule
from cule.errors import InvalidArgumentError
from cule.replay import (
    PrioritizedOptions,
    PrioritizedReplay,
    ReplayOptions,
    ReplayWriter,
    SharedOptions,
    SharedPrioritizedReplay,
    TrajectoryBuffer,
    TrajectoryOptions,
    UniformReplay,
)
from tests.support.cases import long_except
from tests.support.fake_cuda import fake_cuda

pytestmark = [
    pytest.mark.ale,
    pytest.mark.filterwarnings("ignore::cule.replay.ShortReplayWarning"),
]


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_replayed_stacks_are_what_step_returned(mode: str, output: str) -> None:
    keywords = {"autoreset_mode": mode, "max_num_frames_per_episode": 60}
    env = cule.AtariVectorEnv("breakout", 2, **keywords)
    source = cule.AtariVectorEnv("breakout", 2, **keywords, output=output)
    seen = [env.reset(seed=3)[0].copy()]
    replay = UniformReplay(
        ReplayOptions(capacity=200, num_envs=2, autoreset_mode=mode, max_episode_steps=15)
    )
    first, _ = source.reset(seed=3)
    replay.start(first[:, -1])
    rng = np.random.default_rng(0)
    finals: dict[tuple[int, int], np.ndarray] = {}
    for step in range(60):
        assert np.array_equal(replay.observe(), seen[-1])
        actions = rng.integers(0, 4, 2)
        obs, _, _, truncated, info = env.step(actions)
        result = source.step_frames(actions, out=replay.next_frame())
        replay.append(actions, result)
        for env_index in np.flatnonzero(truncated):
            shown = info["final_obs"] if mode == "SameStep" else obs
            finals[step, int(env_index)] = shown[env_index].copy()
        seen.append(obs.copy())
    assert finals
    batch = replay.sample_at(torch.arange(60 * 2))
    for index in range(60 * 2):
        timestep, env_index = divmod(index, 2)
        if batch.weights[index] == 0:
            assert (timestep - 1, env_index) in finals  # the step that only reset
            assert mode == "NextStep"
            continue
        assert np.array_equal(batch.obs[index], seen[timestep][env_index])
        if batch.discounts[index] > 0:
            following = finals.get((timestep, env_index), seen[timestep + 1][env_index])
            assert np.array_equal(batch.next_obs[index], following)


MODES = ("SameStep", "NextStep")


@pytest.mark.parametrize("device", long_except(["cpu", "cuda"], "cuda"))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("replay_mode", MODES)
def test_the_mode_of_the_environment(replay_mode: str, mode: str, device: str) -> None:
    """Transitions of a replay with another mode would hold the step that only resets, or no end."""
    env = cule.AtariVectorEnv("pong", 2, autoreset_mode=mode, max_num_frames_per_episode=40)
    with contextlib.ExitStack() as stack:
        if device == "cuda":
            stack.enter_context(fake_cuda())
        replay = UniformReplay(
            ReplayOptions.for_env(env, capacity=200, autoreset_mode=replay_mode, device=device)
        )
        replay.start(env.reset(seed=0)[0][:, -1])
        blocks: list[Any] = []
        wrong = np.zeros((0, 2), bool)
        for _ in range(25):
            actions = np.zeros(2, np.int64)
            step: Any = SimpleNamespace(**env.step_frames(actions)._asdict())  # says no mode
            if replay_mode != mode and step.first.any() and device == "cpu":
                head, before = replay.head, replay.sample_at(torch.arange(2)).obs
                with pytest.raises(InvalidArgumentError, match=f"autoreset_mode.*{replay_mode}"):
                    replay.append(actions, step)
                blocks.append(step)
                lists = {
                    f"{name}s" if name in ("frame", "reward", "final_frame") else name: np.stack(
                        [getattr(block, name) for block in blocks]
                    )
                    for name in vars(step)
                    if "episode" not in name
                }
                given = UniformReplay(
                    ReplayOptions.for_env(env, capacity=200, autoreset_mode=replay_mode)
                )
                given.start(env.screens("gray")[:, :84, :84])
                with pytest.raises(InvalidArgumentError, match="first is True in environment 0"):
                    given.append_block(actions=np.zeros((len(blocks), 2), int), **lists)
                assert (replay.head, given.head) == (head, 0)
                assert torch.equal(replay.sample_at(torch.arange(2)).obs, before)
                return
            blocks.append(step)
            replay.append(actions, step)
            wrong = np.vstack([wrong, step.first[None] & (mode == "NextStep")])
        weights = replay.sample_at(torch.arange(24 * 2)).weights.tolist()
    if mode == "NextStep":  # also where nothing could be refused
        assert [weight == 0 for weight in weights] == wrong.ravel()[: len(weights)].tolist()
        assert wrong.any()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["replay", "trajectory", "writer"])
def test_steps_of_another_mode_are_refused_at_once(kind: str, mode: str, device: str) -> None:
    """On a GPU as well, where terminal transitions would get weight 0 without a word."""
    other = MODES[1 - MODES.index(mode)]
    env = cule.AtariVectorEnv("pong", 2, autoreset_mode=mode)
    frames = env.reset(seed=0)[0][:, -1]
    actions = np.zeros(2, np.int64)
    with contextlib.ExitStack() as stack:
        if device == "cuda":
            stack.enter_context(fake_cuda())
        for replay_mode in (other, mode):
            options = {"autoreset_mode": replay_mode, "device": device}
            if kind == "trajectory":
                buffer: Any = TrajectoryBuffer(TrajectoryOptions.for_env(env, extras={}, **options))
            elif kind == "writer":
                shared = SharedPrioritizedReplay(
                    SharedOptions.for_env(env, capacity=1000, **options)
                )
                stack.callback(shared.close)
                buffer = stack.enter_context(ReplayWriter(shared.handle(), 0))
            else:
                buffer = UniformReplay(ReplayOptions.for_env(env, capacity=100, **options))
            buffer.start(frames)
            step = env.step_frames(actions)
            if replay_mode == mode:
                buffer.append(actions, step)
                continue
            with pytest.raises(
                InvalidArgumentError, match=f"with autoreset_mode '{mode}'.*{other}"
            ):
                buffer.append(actions, step)


@pytest.mark.parametrize("obs_type", ["image", "ram"])
def test_options_for_an_environment(obs_type: str) -> None:
    keywords = {} if obs_type == "ram" else {"stack_num": 3, "img_height": 60, "grayscale": False}
    env = cule.AtariVectorEnv(
        "pong", 5, obs_type=obs_type, frameskip=3, max_num_frames_per_episode=100, **keywords
    )
    options = ReplayOptions.for_env(env, capacity=100, gamma=0.5)
    assert (options.num_envs, options.autoreset_mode, options.gamma) == (5, "NextStep", 0.5)
    assert options.max_episode_steps == 34
    assert options.obs_shape == ((128,) if obs_type == "ram" else (60, 84, 3))
    assert options.stack == (1 if obs_type == "ram" else 3)
    assert (options.action_shape, options.action_dtype) == ((), torch.int64)
    continuous = cule.AtariVectorEnv("pong", 1, continuous=True, autoreset_mode="Disabled")
    with pytest.raises(InvalidArgumentError, match="Disabled"):
        ReplayOptions.for_env(continuous)
    options = ReplayOptions.for_env(continuous, autoreset_mode="SameStep")
    assert (options.action_shape, options.action_dtype) == ((3,), torch.float32)


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        (ReplayOptions, "buffer_size", "capacity"),
        (SharedOptions, "n_steps", "n_step"),
        (TrajectoryOptions, "n_steps", "num_steps"),
    ],
)
def test_unknown_options_are_answered_with_the_name_here(kind: Any, name: str, meant: str) -> None:
    env = cule.AtariVectorEnv("pong", 1)
    for make in (lambda **options: kind.for_env(env, **options), kind):
        with pytest.raises(TypeError, match=f"{name}'; did you mean '{meant}'"):
            make(**{name: 4})


def cule_env_without_pictures() -> cule.AtariVectorEnv:
    """An environment whose `render` warns."""
    env = cule.AtariVectorEnv("pong", 1)
    env.reset(seed=0)
    return env


def test_warnings_name_the_users_line(tmp_path: Path) -> None:
    path = tmp_path / "enduro.bin"
    path.write_bytes(bytes([0x4C, 0, 0xF0]) + bytes(4091) + b"\x00\xf0")
    for call in (
        lambda: UniformReplay(ReplayOptions(capacity=100)),
        lambda: PrioritizedReplay(PrioritizedOptions(capacity=100)),
        lambda: cule.ALEInterface().loadROM(path),
        lambda: cule.AtariVectorEnv("enduro", 1, rom_path=path),
        lambda: cule.roms.get_rom_path("nothing"),
        cule_env_without_pictures().render,
    ):
        with pytest.warns(UserWarning, match=r"capacity|name of|unknown|render_mode") as caught:
            call()
        assert [warning.filename for warning in caught] == [__file__]
