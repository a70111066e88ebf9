"""Libraries that take the Gymnasium ids of cule without an adapter."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing

import cule  # noqa: F401  # registers the ids

pytestmark = pytest.mark.ale

needs_cv2 = pytest.mark.skipif(
    importlib.util.find_spec("cv2") is None, reason="OpenCV, which AtariPreprocessing needs"
)


@needs_cv2
@pytest.mark.parametrize("title", ["Pong", "Breakout", "Qbert", "SpaceInvaders"])
def test_gymnasiums_preprocessing_gives_the_bytes_of_ale_py(title: str) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    made = [
        AtariPreprocessing(
            gymnasium.make(f"{name}/{title}-v5", frameskip=1, repeat_action_probability=0.0),
            terminal_on_life_loss=True,
        )
        for name in ("ALE", "cule")
    ]
    theirs, ours = made
    np.testing.assert_array_equal(theirs.reset(seed=3)[0], ours.reset(seed=3)[0])
    rng = np.random.default_rng(0)
    for _ in range(200):
        action = int(rng.integers(theirs.action_space.n))
        wanted, found = theirs.step(action), ours.step(action)
        np.testing.assert_array_equal(wanted[0], found[0])
        assert wanted[1:4] == found[1:4]
        if wanted[2] or wanted[3]:
            np.testing.assert_array_equal(theirs.reset()[0], ours.reset()[0])
    for env in made:
        env.close()


@pytest.mark.parametrize("name", ["DummyVectorEnv", "SubprocVectorEnv"])
def test_vector_environments_of_tianshou(name: str) -> None:
    tianshou = pytest.importorskip("tianshou.env")
    make = getattr(tianshou, name)
    envs = make([lambda: gymnasium.make("cule:cule/Pong-v5", obs_type="ram") for _ in range(2)])
    alone = gymnasium.make("cule/Pong-v5", obs_type="ram")
    obs, _ = envs.reset(seed=5)
    np.testing.assert_array_equal(obs[0], alone.reset(seed=5)[0])
    for action in (2, 3, 0, 5):
        obs, reward, terminated, truncated, _ = envs.step(np.array([action, 0]))
        wanted = alone.step(action)
        np.testing.assert_array_equal(obs[0], wanted[0])
        assert (reward[0], terminated[0], truncated[0]) == wanted[1:4]
    envs.close()
    alone.close()


#: Hyperparameters as in RL Zoo's own file for Atari, but few steps.
ZOO = """
cule/Pong-v5:
  env_wrapper:
    - stable_baselines3.common.atari_wrappers.AtariWrapper
  env_kwargs:
    frameskip: 1
    repeat_action_probability: 0.0
  frame_stack: 4
  policy: CnnPolicy
  n_envs: 2
  n_steps: 16
  n_epochs: 1
  batch_size: 32
  n_timesteps: 64
"""


@needs_cv2
def test_rl_zoo_trains(tmp_path: Path) -> None:
    pytest.importorskip("rl_zoo3")
    (tmp_path / "ppo.yml").write_text(ZOO)
    words = ["--algo", "ppo", "--env", "cule/Pong-v5", "--gym-packages", "cule", "--device", "cpu"]
    words += ["--conf-file", "ppo.yml", "--log-folder", "logs", "--eval-freq", "-1"]
    command = [sys.executable, "-m", "rl_zoo3.train", *words]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(tmp_path.glob("logs/ppo/*/*.zip"))
