"""RLlib: registration, its environment runner, and PPO on the new API stack."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

with warnings.catch_warnings():  # Ray's of its own classes
    warnings.simplefilter("ignore", DeprecationWarning)
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

import cule
from cule.wrappers import rllib
from cule.wrappers.objects import ScaledObjects

#: Episodes of 25 steps.
SHORT = {"max_num_frames_per_episode": 100, "noop_max": 1, "num_threads": 1}

#: Of Ray itself: its processes and files live longer than the objects that own them.
pytestmark = pytest.mark.filterwarnings("ignore")


def config_for(name: str, num_envs: int, **env_config: object) -> PPOConfig:
    """Environments in the process itself."""
    return (
        PPOConfig()
        .environment(name, env_config=env_config)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=num_envs,
            gym_env_vectorize_mode="vector_entry_point",
        )
        .debugging(seed=0)
    )


@pytest.fixture
def make_runner():
    """Makes environment runners, without a Ray cluster, and stops them."""
    made = []

    def make(config: PPOConfig) -> SingleAgentEnvRunner:
        made.append(SingleAgentEnvRunner(config=config, worker_index=0))
        return made[-1]

    yield make
    for runner in made:
        runner.stop()


def test_episodes_of_its_runner_are_those_of_the_environment(make_runner, closing) -> None:
    name = rllib.register("breakout", reward_clipping=False, **SHORT)
    assert name == "cule/breakout"
    runner = make_runner(config_for(name, 3))
    episodes = runner.sample(num_episodes=7, random_actions=True)
    assert len(episodes) >= 7
    env = closing(cule.AtariVectorEnv("breakout", 3, reward_clipping=False, **SHORT))
    env.reset(seed=runner._seed)
    lengths = np.zeros(3, int)
    for episode in episodes:
        if not episode.is_done:
            continue
        assert len(episode) == 25
        assert not episode.is_terminated
        lengths[episode.get_infos(0)["env_id"]] += 1
    assert (lengths >= 2).all()
    # Every environment plays the actions that its episodes hold.
    rows = [[e for e in episodes if e.get_infos(0)["env_id"] == index] for index in range(3)]
    for number in range(2):
        chosen = [row[number] for row in rows]
        if number:
            env.step(np.zeros(3, int))  # the reset; the action is ignored
        for index in range(25):
            actions = np.array([episode.get_actions(index) for episode in chosen])
            obs, reward, _, truncated, info = env.step(actions)
            for row, episode in enumerate(chosen):
                after = episode.get_observations(index + 1)
                assert after.dtype == np.float32
                wanted = np.moveaxis(obs[row], 0, 2)
                np.testing.assert_array_equal(np.rint((after + 1) * 127.5), wanted)
                assert episode.get_rewards(index) == reward[row]
                assert episode.get_infos(index + 1)["lives"] == info["lives"][row]
        assert truncated.all()


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (84, 84, 4)),
        ({"grayscale": False, "stack_num": 2, "img_height": 42, "img_width": 42}, (42, 42, 6)),
        ({"obs_type": "ram"}, (128,)),
        ({"obs_type": "objects", "stack_num": 2}, (2 * 5 * 6,)),
        ({"obs_type": "sprites", "stack_num": 1, "max_sprites": 16}, (16 * 11,)),
    ],
)
def test_observations(make_runner, options: dict, shape: tuple) -> None:
    runner = make_runner(config_for(rllib.register("pong", **SHORT, **options), 2))
    space = runner.env.single_observation_space
    assert space.shape == shape
    obs, _ = runner.env.reset(seed=0)
    assert obs.shape == (2, *shape)
    assert obs[0] in space
    assert -1 <= obs.min() < obs.max() <= 1


def test_objects_are_those_of_scaled_objects(make_runner, closing) -> None:
    options = {**SHORT, "obs_type": "objects", "autoreset_mode": "NextStep"}
    runner = make_runner(config_for(rllib.register("pong", **SHORT, obs_type="objects"), 2))
    plain = closing(ScaledObjects(cule.AtariVectorEnv("pong", 2, **options), low=-1))
    for env in (runner.env.unwrapped, plain):
        env.reset(seed=3)
    for _ in range(30):  # past the end of an episode
        rows, wanted = (env.step(np.array([2, 3]))[0] for env in (runner.env.unwrapped, plain))
        np.testing.assert_array_equal(rows, wanted.reshape(2, -1))


def test_entries_of_env_config_are_options(make_runner) -> None:
    name = rllib.register("pong", name="ours", preset="baselines", stack_num=3, **SHORT)
    assert name == "ours"
    runner = make_runner(config_for(name, 2, stack_num=2))
    config = runner.env.unwrapped.env.config
    assert (config.stack_num, config.preset, config.num_envs) == (2, "baselines", 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoreset_mode": "SameStep"}, "autoreset_mode is 'SameStep'; for RLlib"),
        ({"life_loss_info": True}, "life_loss_info is True; for RLlib it must be False"),
        (
            {"preset": "baselines", "fire_after_life_loss": True},
            "episodic_life and fire_after_life_loss are True; for RLlib",
        ),
        ({"stack_num": 0}, "stack_num is 0"),
        ({"num_envs": 4}, "num_envs is 4; RLlib's num_envs_per_env_runner"),
    ],
)
def test_options_that_are_refused(options: dict, message: str) -> None:
    with pytest.raises(cule.InvalidArgumentError, match=message):
        rllib.register("pong", **options)


@pytest.mark.parametrize("game", [None, 3, [], ["pong"], [("pong", "2")]])
def test_games_that_are_none(game: object) -> None:
    with pytest.raises(cule.InvalidArgumentError, match="game"):
        rllib.register(game)


def test_an_unknown_option_and_single_environments(make_runner) -> None:
    with pytest.raises(TypeError, match="did you mean 'grayscale'"):
        rllib.register("pong", gray_scale=True)
    name = rllib.register("pong", **SHORT)
    with pytest.raises(cule.InvalidArgumentError, match="'vector_entry_point'"):
        make_runner(config_for(name, 1).env_runners(gym_env_vectorize_mode="sync"))


def test_ppo_trains(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # results and a token
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    name = rllib.register("pong", preset="baselines", img_height=42, img_width=42, **SHORT)
    config = config_for(name, 4).training(
        train_batch_size_per_learner=128, minibatch_size=64, num_epochs=1
    )
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        algorithm = config.build_algo()
        before = algorithm.get_module().state_dict()
        before = {key: value.clone() for key, value in before.items()}
        for _ in range(2):
            result = algorithm.train()
        after = algorithm.get_module().state_dict()
        assert any((value != before[key]).any() for key, value in after.items())
        assert result["env_runners"]["num_env_steps_sampled_lifetime"] == 256
        assert result["env_runners"]["num_episodes_lifetime"] >= 8
        algorithm.stop()
    finally:
        ray.shutdown()
