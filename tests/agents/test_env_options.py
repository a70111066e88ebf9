"""Options of the environments, through learners and in their evaluations."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import cule  # noqa: E402
from cule.agents import A2C, A2CConfig  # noqa: E402
from cule.agents.parts.envs import make_env  # noqa: E402
from cule.agents.run.evaluation import make_eval_env  # noqa: E402
from cule.errors import CuleError, InvalidArgumentError  # noqa: E402

SMALL = {"num_envs": 4, "network": "small", "img_size": 42, "env_threads": 1}


@pytest.mark.ale
def test_options_reach_the_environments() -> None:
    config = A2CConfig(
        game="breakout",
        mode=4,
        difficulty=1,
        action_delay=6,
        use_fire_reset=False,
        maxpool=False,
        resets="cached",
        **SMALL,  # type: ignore[arg-type]
    )
    for env in (make_env(config), make_eval_env(config, "noop", 4)):
        options = env.config
        assert (options.mode, options.difficulty) in ((4, 1), ([4] * 4, [1] * 4))
        assert (options.use_fire_reset, options.maxpool) == (False, False)
        assert (options.resets, options.action_delay) == ("cached", 6)
        env.close()
    env = make_env(A2CConfig(game="breakout", **SMALL))  # type: ignore[arg-type]
    assert env.config.use_fire_reset
    assert env.config.resets == "exact"
    env.close()
    with pytest.raises(CuleError, match="mode"):
        make_env(A2CConfig(game="pong", mode=77, **SMALL))  # type: ignore[arg-type]


@pytest.mark.ale
def test_several_games_are_learned_together() -> None:
    config = A2CConfig(
        game="pong, breakout",
        full_action_space=True,
        total_steps=40,
        **SMALL,  # type: ignore[arg-type]
    )
    agent = A2C(config)
    assert agent.num_actions == 18
    assert [progress.steps for progress in agent.train()] == [20, 40]
    with pytest.raises(InvalidArgumentError, match="a multiple of the 3 games"):
        make_env(A2CConfig(game="pong,breakout,boxing", **SMALL))  # type: ignore[arg-type]
    with make_eval_env(config, "noop", 11) as env:  # whatever the number of episodes
        assert env.num_envs == 12


@pytest.mark.parametrize("stack_num", [1, 4])
def test_pictures_in_colour(stack_num: int) -> None:
    env = cule.AtariVectorEnv(
        "pong", 2, grayscale=False, img_height=12, img_width=10, stack_num=stack_num,
        autoreset_mode="SameStep", output="torch", num_threads=1,
    )  # fmt: skip
    agent = A2C(A2CConfig(network="mlp", num_envs=2, total_steps=20), env)
    assert [progress.steps for progress in agent.train()] == [10, 20]
    obs = agent.buffer.observe().view(2, stack_num, 12, 10, 3)
    assert torch.equal(obs, env.observe()[0])


def test_partial_batches_are_refused() -> None:
    env = cule.AtariVectorEnv("pong", 2, batch_size=1, autoreset_mode="SameStep", output="torch")
    with pytest.raises(InvalidArgumentError, match=r"batch_size of the environment is 1; .* 2"):
        A2C(A2CConfig(network="mlp", num_envs=2), env)
