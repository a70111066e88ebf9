"""Every keyword of `AtariVectorEnv` acts: each is changed alone, and makes a difference."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cule
from cule.device import unavailable_reason
from cule.envs.options import PRESETS
from cule.errors import DeviceError, RomNotFoundError, UnsupportedRomError
from tests.support.api import MakeEnv, rollout_digest, rom_path

pytestmark = pytest.mark.ale

#: keyword: (game, the changed keywords, the keywords that both have).
ACTING: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "game": ("breakout", {}, {}),
    "num_envs": ("pong", {"num_envs": 3}, {}),
    "max_num_frames_per_episode": ("pong", {"max_num_frames_per_episode": 80}, {}),
    "repeat_action_probability": ("pong", {"repeat_action_probability": 0.5}, {}),
    "full_action_space": ("pong", {"full_action_space": True}, {}),
    "continuous": ("pong", {"continuous": True}, {}),
    "continuous_action_threshold": (
        "pong",
        {"continuous_action_threshold": 0.1},
        {"continuous": True},
    ),
    "autoreset_mode": (
        "pong",
        {"autoreset_mode": "SameStep"},
        {"max_num_frames_per_episode": 80},
    ),
    "img_height": ("pong", {"img_height": 96}, {}),
    "img_width": ("pong", {"img_width": 72}, {}),
    "grayscale": ("pong", {"grayscale": False}, {}),
    "stack_num": ("pong", {"stack_num": 3}, {}),
    "frameskip": ("pong", {"frameskip": 5}, {}),
    "maxpool": ("space_invaders", {"maxpool": False}, {}),
    "noop_max": ("pong", {"noop_max": 5}, {}),
    "episodic_life": ("breakout", {"episodic_life": True}, {}),
    "life_loss_info": ("breakout", {"life_loss_info": True}, {}),
    "fire_after_life_loss": ("breakout", {"fire_after_life_loss": True}, {}),
    "reward_clipping": ("ms_pacman", {"reward_clipping": False}, {}),
    "use_fire_reset": ("breakout", {"use_fire_reset": False}, {"noop_max": 0}),
    "output": ("pong", {"output": "torch"}, {}),
    "resets": ("pong", {"resets": "cached"}, {}),
    "num_reset_states": ("pong", {"num_reset_states": 1}, {"resets": "cached", "num_envs": 6}),
    "obs_type": ("pong", {"obs_type": "ram"}, {}),
    "action_delay": ("pong", {"action_delay": 3}, {}),
    "modifications": ("pong", {"modifications": "enemy_x(x=40)"}, {}),
    "mode": ("pong", {"mode": 1}, {}),
    "difficulty": ("pong", {"difficulty": 3}, {}),
    "episode_info": ("pong", {"episode_info": True}, {}),
    "preset": ("pong", {"preset": "machado"}, {}),
    "decorrelate_steps": ("pong", {"decorrelate_steps": 20}, {}),
}

#: Keywords with a test of their own below.
APART = {
    "batch_size",
    "device",
    "final_info",  # in test_gymnasium_vector.py
    "kernel",  # in test_kernel.py
    "low_memory",
    "max_sprites",  # in test_sprites.py
    "num_threads",
    "objects_info",  # in test_objects.py
    "render_boxes",  # in test_objects.py
    "render_mode",
    "rom_path",
    "rules",
    "thread_affinity_offset",
}


def test_every_keyword_is_here() -> None:
    fields = {field.name for field in dataclasses.fields(cule.EnvOptions)}
    assert fields == set(ACTING) | APART
    assert not set(ACTING) & APART


@pytest.mark.parametrize("keyword", list(ACTING))
def test_keyword_makes_a_difference(make_env: MakeEnv, keyword: str) -> None:
    game, change, common = ACTING[keyword]
    if keyword == "output":
        torch = pytest.importorskip("torch")
        obs, _ = make_env(game, **common, **change).reset(seed=0)
        assert isinstance(obs, torch.Tensor)
        assert isinstance(make_env(game, **common).reset(seed=0)[0], np.ndarray)
        return
    base = make_env("pong" if keyword == "game" else game, **common)
    changed = make_env(game, **{**common, **change})
    assert base.config != changed.config
    steps = 100 if game in ("breakout", "ms_pacman") else 40
    assert rollout_digest(changed, steps) != rollout_digest(base, steps)
    # The same keywords make the same run: the difference is no accident.
    again = make_env(game, **{**common, **change})
    assert rollout_digest(again, steps) == rollout_digest(changed, steps)


def test_batch_size(make_env: MakeEnv) -> None:
    env = make_env(num_envs=4, batch_size=3)
    assert env.reset(seed=0)[0].shape[0] == 3
    assert make_env(num_envs=4).reset(seed=0)[0].shape[0] == 4


def test_device(make_env: MakeEnv) -> None:
    torch = pytest.importorskip("torch")
    for device in ("cpu", "auto", torch.device("cpu")):
        assert make_env(device=device).config.device == "cpu"
    for device in ("cuda", "cuda:1", torch.device("cuda")):
        if unavailable_reason(str(device)) is None:
            continue  # there is such a GPU
        with pytest.raises(DeviceError, match=r"device is 'cuda(:1)?', but .*(torch|built in|GPU)"):
            make_env(device=device)


def test_num_threads(make_env: MakeEnv) -> None:
    assert make_env(num_envs=4, num_threads=1).num_threads == 1
    assert make_env(num_envs=4, num_threads=3).num_threads == 3
    assert make_env(num_envs=2, num_threads=0).num_threads == min(2, os.cpu_count() or 1)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's /proc")
def test_thread_affinity_offset(make_env: MakeEnv) -> None:
    def pinned() -> int:
        """Threads of this process that may run on one core only."""
        count = 0
        for task in Path("/proc/self/task").iterdir():
            count += len(os.sched_getaffinity(int(task.name))) == 1
        return count

    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("this process has one core")
    before = pinned()
    free = make_env(num_envs=2, num_threads=2)
    free.reset(seed=0)
    assert pinned() == before
    env = make_env(num_envs=2, num_threads=2, thread_affinity_offset=0)
    env.reset(seed=0)
    assert pinned() > before


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("pong", {}),
        ("yars_revenge", {"maxpool": False, "frameskip": 3}),
        ("breakout", {"grayscale": False, "autoreset_mode": "SameStep"}),
        ("ms_pacman", {"obs_type": "ram"}),
        ("seaquest", {"max_num_frames_per_episode": 50, "noop_max": 0}),
    ],
)
def test_low_memory_changes_no_result(
    make_env: MakeEnv, game: str, options: dict[str, object]
) -> None:
    env = make_env(game, 3, **options)
    small = make_env(game, 3, low_memory=True, **options)
    small_obs, _ = small.reset(seed=7)
    np.testing.assert_array_equal(small_obs, env.reset(seed=7)[0])
    rng = np.random.default_rng(0)
    for step in range(60):
        actions = rng.integers(len(env.action_set), size=3)
        for mine, theirs in zip(small.step(actions)[:4], env.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        if step == 30:
            np.testing.assert_array_equal(small.get_state(), env.get_state())
            small.set_state(env.get_state())


def test_render_mode(make_env: MakeEnv) -> None:
    env = make_env(render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render_mode == "rgb_array"
    assert len(env.render() or ()) == 2


def test_rom_path(make_env: MakeEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "anything.rom"
    shutil.copy(rom_path("pong"), copy)
    expected = rollout_digest(make_env())
    assert rollout_digest(make_env(rom_path=copy)) == expected
    with pytest.raises(UnsupportedRomError, match="pong"):
        make_env("breakout", rom_path=copy)
    with pytest.raises(RomNotFoundError, match="missing"):
        make_env(rom_path=tmp_path / "missing.bin")


def test_rules(make_env: MakeEnv, tmp_path: Path) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text(
        "[mine]\n"
        "minimal_actions = [0, 2, 5]\n"
        "modes = [0]\ndifficulties = [0]\n"
        "state = { score = 0, reward = 0, terminal = 0 }\n"
        'step = """\nreward = 1\nscore = score + 1\nterminal = score >= 30"""\n'
        'lives = "7"\n'
    )
    env = make_env(
        "mine", rom_path=rom_path("pong"), rules=rules, noop_max=0, reward_clipping=False
    )
    assert [action.name for action in env.action_set] == ["NOOP", "UP", "DOWN"]
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(np.zeros(2, np.int64))
    assert reward.tolist() == [4, 4]
    assert info["lives"].tolist() == [7, 7]
    for _ in range(10):
        terminated = env.step(np.zeros(2, np.int64))[2]
        if terminated.any():
            break
    assert terminated.all()


# --- Presets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", list(PRESETS))
def test_preset_gives_its_values(make_env: MakeEnv, preset: str) -> None:
    config = make_env(preset=preset).config
    default = make_env().config
    for field in dataclasses.fields(cule.EnvOptions):
        expected = PRESETS[preset].get(field.name, getattr(default, field.name))
        assert getattr(config, field.name) == (preset if field.name == "preset" else expected)
    assert all(value != getattr(default, name) for name, value in PRESETS[preset].items())


def test_explicit_keywords_win_over_the_preset(make_env: MakeEnv) -> None:
    # 4 and 0.0 are the defaults: given by name, they count all the same.
    config = make_env(preset="machado", frameskip=4, repeat_action_probability=0.0).config
    assert (config.frameskip, config.repeat_action_probability) == (4, 0.0)
    assert config.full_action_space


def test_sticky_probability_goes_through_six_digits(make_env: MakeEnv) -> None:
    config = make_env(repeat_action_probability=0.123456789).config
    assert config.repeat_action_probability == float(np.float32(0.123457))


def test_config_is_frozen(make_env: MakeEnv) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_env().config.frameskip = 5  # type: ignore[misc]
