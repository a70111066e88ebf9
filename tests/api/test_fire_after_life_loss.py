"""FIRE after a lost life, as the wrappers of OpenAI Baselines press it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.errors import CuleError
from tests.support.cases import long_except

SKIP = 4

#: Games with FIRE in their minimal action set, and the screens of one where FIRE does nothing.
GAMES = ("breakout", "space_invaders", "beam_rider", "demon_attack", "ms_pacman")


class MaxAndSkip(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Repeats an action; the observation is the maximum of the last two frames."""

    def __init__(self, env: Any, max_frames: int, *, pools: bool = True) -> None:
        super().__init__(env)
        self.max_frames, self.pools, self.frames = max_frames, pools, 0

    def reset(self, **keywords: Any) -> Any:
        self.frames = 0
        return self.env.reset(**keywords)

    def step(self, action: Any) -> Any:
        pictures, total, terminated, truncated = [], 0.0, False, False
        for _ in range(SKIP):
            obs, reward, terminated, _, info = self.env.step(action)
            pictures.append(obs)
            total += float(reward)
            self.frames += 1
            truncated = self.frames >= self.max_frames and not terminated
            if terminated or truncated:
                break
        newest = pictures[-2:] if self.pools else pictures[-1:]
        return np.max(newest, 0), total, terminated, truncated, info


class EpisodicLife(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A lost life ends an episode; the game is only reset when it is over."""

    lives, was_real_done = 0, True
    rewards_of_reset = 0.0

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_done = terminated or truncated
        lives = self.unwrapped.ale.lives()  # type: ignore[attr-defined]
        if 0 < lives < self.lives:
            terminated = True
        self.lives = lives
        return obs, reward, terminated, truncated, info

    def reset(self, **keywords: Any) -> Any:
        if self.was_real_done:
            obs, info = self.env.reset(**keywords)
        else:
            obs, self.rewards_of_reset, terminated, truncated, info = self.env.step(0)
            assert not terminated
            assert not truncated
        self.lives = self.unwrapped.ale.lives()  # type: ignore[attr-defined]
        return obs, info


class FireReset(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A reset plays FIRE and the third action."""

    def reset(self, **keywords: Any) -> Any:
        self.env.reset(**keywords)
        for action in (1, 2):
            obs, reward, terminated, truncated, info = self.env.step(action)
            assert not terminated
            assert not truncated
            self.env.rewards_of_reset += reward  # type: ignore[attr-defined]
        return obs, info


def reference(game: str, max_frames: int, *, fires: bool, pools: bool) -> Any:
    """The wrappers, over one environment with full-size gray frames."""
    single = cule.AtariEnv(game, obs_type="grayscale", frameskip=1, repeat_action_probability=0.0)
    skipping = EpisodicLife(MaxAndSkip(single, max_frames, pools=pools))
    return FireReset(skipping) if fires else skipping


@pytest.mark.parametrize(
    "option", long_except(["episodic_life", "life_loss_info", None], "episodic_life")
)
@pytest.mark.parametrize("game", long_except(GAMES, "breakout", "demon_attack"))
def test_frames_are_those_of_the_wrappers(game: str, option: str | None) -> None:
    """Rewards, ends and every pixel, over whole games."""
    max_frames, pools = 40_000, option != "life_loss_info"
    keywords: dict[str, Any] = {} if option is None else {option: True}
    env = cule.AtariVectorEnv(
        game,
        1,
        img_height=210,
        img_width=160,
        stack_num=1,
        noop_max=0,
        use_fire_reset=False,
        reward_clipping=False,
        maxpool=pools,
        max_num_frames_per_episode=max_frames,
        autoreset_mode="Disabled",
        fire_after_life_loss=True,
        episode_info=True,
        num_threads=1,
        **keywords,
    )
    has_fire = game != "ms_pacman"
    wrapped = reference(game, max_frames, fires=has_fire, pools=pools)
    skipping = wrapped.unwrapped
    obs, _ = env.reset(seed=1)
    wrapped.env.reset() if has_fire else wrapped.reset()  # without FIRE at the start
    rng = np.random.default_rng(3)
    losses, total = 0, 0.0
    while True:
        action = int(rng.integers(env.single_action_space.n))
        obs, reward, terminated, truncated, info = env.step(np.array([action]))
        wanted, points, ends, is_cut, _ = wrapped.step(action)
        is_over = skipping.ale.game_over() or is_cut
        if ends and not is_over:
            losses += 1
            if has_fire:
                wrapped.env.rewards_of_reset = 0.0
                wanted, _ = wrapped.reset()
                points += wrapped.env.rewards_of_reset
            assert bool(terminated[0]) == (option is not None)
        else:
            assert bool(terminated[0]) == skipping.ale.game_over()
        total += points
        assert reward[0] == points
        assert bool(truncated[0]) == is_cut
        if is_over:
            break
        assert env.lives[0] == skipping.ale.lives()
        assert np.array_equal(obs[0, 0], wanted)
        assert np.array_equal(env.ram[0], skipping.ale.getRAM())
    assert losses >= 2
    assert info["episode_return"][0] == total
    env.close()


def test_nothing_changes_by_default() -> None:
    assert cule.EnvOptions("breakout", 1).fire_after_life_loss is False
    lost = []
    for fires in (False, True):
        env = cule.AtariVectorEnv(
            "breakout", 2, fire_after_life_loss=fires, autoreset_mode="SameStep", num_threads=1
        )
        env.reset(seed=0)
        rng = np.random.default_rng(0)
        frames = [env.step_frames(rng.integers(0, 4, 2)).life_lost.copy() for _ in range(200)]
        lost.append(np.stack(frames))
        env.close()
    first = int(np.nonzero(lost[0].any(1))[0][0])
    assert np.array_equal(lost[0][: first + 1], lost[1][: first + 1])
    assert not np.array_equal(lost[0], lost[1])


def test_the_time_limit_counts_these_frames() -> None:
    """An episode that reaches its limit in them is truncated, or with a lost life terminated."""
    for limit in range(140, 260, 7):
        env = cule.AtariVectorEnv(
            "breakout",
            1,
            fire_after_life_loss=True,
            max_num_frames_per_episode=limit,
            autoreset_mode="Disabled",
            num_threads=1,
        )
        env.reset(seed=0)
        rng = np.random.default_rng(1)
        while True:
            step = env.step_frames(rng.integers(0, 4, 1))
            frames = int(env.episode_frames[0])
            if step.truncated[0] or step.terminated[0]:
                break
        assert step.truncated[0]
        assert frames == limit or frames - limit in range(1, 32)  # no-ops at the start
        env.close()


def test_other_values_are_refused() -> None:
    with pytest.raises(CuleError, match="fire_after_life_loss"):
        cule.AtariVectorEnv("breakout", 1, fire_after_life_loss="yes")  # type: ignore[arg-type]
