"""`episode_info`: raw rewards, returns and lengths in ``info``, and Gymnasium's wrappers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics, RecordVideo

from cule.envs.options import PRESETS
from tests.support.api import MakeEnv, actions_for
from tests.support.cases import long_except

pytestmark = pytest.mark.ale

KEYS = ("reward", "episode_return", "episode_length")
MODES = ("NextStep", "SameStep", "Disabled")

#: From here on RecordEpisodeStatistics counts SameStep episodes from their first step.
RIGHT_GYMNASIUM = (1, 4)


def gymnasium_version() -> tuple[int, ...]:
    return tuple(int(part) for part in gymnasium.__version__.split(".")[:2])


def test_it_is_off_by_default(make_env: MakeEnv) -> None:
    env = make_env()
    for info in (env.reset(seed=0)[1], env.step(np.zeros(2, int))[4]):
        assert not set(KEYS) & set(info)
    for preset in set(PRESETS) - {"ale"}:
        assert make_env(preset=preset).config.episode_info
    assert not make_env(preset="v5", episode_info=False).config.episode_info


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("game", long_except(["breakout", "ms_pacman"], "breakout"))
@pytest.mark.parametrize(
    "rule", long_except(["episodic_life", "life_loss_info", None], "episodic_life")
)
def test_sums_of_every_episode(make_env: MakeEnv, mode: str, game: str, rule: str | None) -> None:
    options: dict[str, Any] = {} if rule is None else {rule: True}
    options |= {"autoreset_mode": mode, "max_num_frames_per_episode": 400, "noop_max": 0}
    env = make_env(game, 3, episode_info=True, **options)
    raw = make_env(game, 3, **options)
    _, info = env.reset(seed=1)
    raw.reset(seed=1)
    for key in KEYS:
        assert info[key].tolist() == [0, 0, 0], key
        assert info[key].dtype == np.int32
    returns, lengths, ended = np.zeros(3, int), np.zeros(3, int), np.zeros(3, bool)
    episodes = 0
    for actions in actions_for(env, 0, 500):
        if mode == "Disabled" and ended.any():
            _, info = env.reset(options={"reset_mask": ended})
            raw.reset(options={"reset_mask": ended})
            assert not any(info[key][ended].any() for key in KEYS)
        _, reward, terminated, truncated, info = env.step(actions)
        step = raw.step_frames(actions)
        returns[ended], lengths[ended] = 0, 0
        was_reset = step.first & (mode == "NextStep")  # in this step, which plays nothing
        returns += step.reward.astype(int)
        lengths += 1
        returns[was_reset], lengths[was_reset] = 0, 0
        assert info["reward"].tolist() == step.reward.tolist()
        assert np.array_equal(np.sign(info["reward"]), reward)
        assert info["episode_return"].tolist() == returns.tolist()
        assert info["episode_length"].tolist() == lengths.tolist()
        ended = terminated | truncated
        if rule == "life_loss_info":  # the game goes on, and so do the sums
            over = (env.episode_frames >= 400) | (env.lives == 0)
            ended = step.first if mode == "SameStep" else over
        episodes += ended.sum()
        if mode == "SameStep" and ended.any():
            final = info["final_info"]
            assert final["episode_return"][ended].tolist() == returns[ended].tolist()
    assert episodes > 6


def test_batches_and_tensors(make_env: MakeEnv) -> None:
    import torch

    env = make_env(num_envs=4, batch_size=2, episode_info=True, output="torch")
    _, info = env.reset(seed=0)
    assert info["episode_length"].tolist() == [0, 0]
    lengths = np.zeros(4, int)
    for _ in range(40):
        _, _, _, _, info = env.step(torch.zeros(2, dtype=torch.int64))
        played = info["episode_length"].numpy() > 0
        lengths[info["env_id"].numpy()[played]] += 1
        assert info["episode_length"].tolist() == lengths[info["env_id"]].tolist()
    assert lengths.sum() > 60


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.skipif(
    gymnasium_version() < RIGHT_GYMNASIUM, reason="RecordEpisodeStatistics is right from 1.4 on"
)
def test_gymnasium_records_the_same_statistics(make_env: MakeEnv, mode: str) -> None:
    env = make_env(
        num_envs=3,
        autoreset_mode=mode,
        episode_info=True,
        reward_clipping=False,
        max_num_frames_per_episode=400,
    )
    recorded = RecordEpisodeStatistics(env)
    recorded.reset(seed=0)
    ended = np.zeros(3, bool)
    episodes = 0
    for actions in actions_for(env, 1, 400):
        if mode == "Disabled" and ended.any():
            recorded.reset(options={"reset_mask": ended})
        _, _, terminated, truncated, info = recorded.step(actions)
        ended = terminated | truncated
        assert ("episode" in info) == ended.any()
        if ended.any():
            assert np.array_equal(info["episode"]["r"][ended], info["episode_return"][ended])
            assert np.array_equal(info["episode"]["l"][ended], info["episode_length"][ended])
            episodes += ended.sum()
    assert episodes >= 9
    assert len(recorded.return_queue) == episodes


@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_gymnasium_records_videos(
    make_env: MakeEnv, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: dict[str, list[Any]] = {}

    class Clip:
        """The part of moviepy that the wrapper uses."""

        def __init__(self, frames: list[Any], fps: int) -> None:
            self.frames = list(frames)

        def write_videofile(self, path: str, logger: object) -> None:
            written[Path(path).name] = self.frames

    for name in ("moviepy", "moviepy.video", "moviepy.video.io"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    clips = ModuleType("moviepy.video.io.ImageSequenceClip")
    clips.ImageSequenceClip = Clip  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, clips.__name__, clips)

    env = make_env(
        num_envs=2, autoreset_mode=mode, render_mode="rgb_array", max_num_frames_per_episode=120
    )
    video = RecordVideo(env, str(tmp_path / "videos"), episode_trigger=lambda number: number < 2)
    shown: list[list[np.ndarray]] = [[]]

    def see() -> None:
        shown[-1].append(np.concatenate(env.screens("rgb"), axis=1))

    video.reset(seed=0)
    see()
    ended = np.zeros(2, bool)
    for actions in actions_for(env, 0, 70):
        if ended.any():
            shown.append([])
            if mode == "Disabled":
                video.reset(options={"reset_mask": ended})
                see()
        _, _, terminated, truncated, _ = video.step(actions)
        see()
        ended = terminated | truncated
        assert ended[0] == ended[1]
    video.close()
    assert list(written) == ["rl-video-episode-0.mp4", "rl-video-episode-1.mp4"]
    for frames, expected in zip(written.values(), shown, strict=False):
        assert len(frames) == len(expected) > 20
        assert np.array_equal(frames, expected)
