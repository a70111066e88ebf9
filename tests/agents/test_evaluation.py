"""Evaluation: whole episodes, the first ones of every environment, nothing left changed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import cule  # noqa: E402
from cule.agents import A2C, PPO, A2CConfig, RunOptions, start_run  # noqa: E402
from cule.agents.run import evaluation  # noqa: E402
from cule.agents.run.checkpoint import read_checkpoint  # noqa: E402
from cule.agents.run.evaluation import (  # noqa: E402
    Evaluation,
    evaluate,
    make_eval_env,
    time_to_score,
)
from cule.agents.run.presets import load_to_play  # noqa: E402
from cule.cli import main  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from cule.nets import sample_noise  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import small_learner  # noqa: E402


class Countdown(Catch):
    """Environment i has episodes of i + 1 steps, each worth 10 and a hundredth for each before."""

    def reset(self, *, seed: Any = None) -> Any:
        self.done = torch.zeros(self.num_envs, dtype=torch.int64)
        self.age = torch.zeros(self.num_envs, dtype=torch.int64)
        return super().reset(seed=seed)

    def step_frames(self, actions: Any, out: Any = None) -> Any:
        step = super().step_frames(actions, out)
        self.age += 1
        ended = self.age == torch.arange(1, self.num_envs + 1)
        returns = 10.0 + 0.01 * self.done
        lengths = self.age.clone()
        self.done += ended
        self.age[ended] = 0
        return step._replace(
            terminated=ended,
            truncated=torch.zeros_like(ended),
            first=ended,
            episode_return=returns,
            episode_length=lengths,
        )


def test_numbers_of_episodes_that_are_refused() -> None:
    for episodes in (9, 10**7 + 1, 10**11, True, 1e6):
        with pytest.raises(InvalidArgumentError, match=f"episodes is {episodes}"):
            evaluate(small_learner("ppo"), episodes=episodes, env=Countdown(4))  # type: ignore[arg-type]


def test_every_console_gives_its_first_episodes() -> None:
    agent = small_learner("ppo")
    result = evaluate(agent, episodes=12, env=Countdown(4))
    # Three each, although environment 0 has finished twelve before environment 3 has finished three.
    assert sorted(result.lengths) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert sorted(result.returns) == pytest.approx([10.0] * 4 + [10.01] * 4 + [10.02] * 4)
    assert len(evaluate(agent, episodes=10, env=Countdown(4)).returns) == 12


def test_episodes_that_have_ended_are_counted() -> None:
    counts: list[int] = []
    evaluate(small_learner("ppo"), episodes=12, env=Countdown(4), on_episodes=counts.append)
    # Of episodes 1 to 4 steps long, three each.
    assert counts == [
        sum(min(step // length, 3) for length in range(1, 5)) for step in range(1, 13)
    ]


class Summed(Countdown):
    """The same; the score of an episode is the sum of its actions, and a hundred for each before."""

    def step_frames(self, actions: Any, out: Any = None) -> Any:
        self.total = getattr(self, "total", 0) + actions
        step = super().step_frames(actions, out)
        returns = self.total + 100.0 * (self.done - step.terminated.long())
        self.total = self.total * ~step.terminated
        return step._replace(episode_return=returns)


def test_what_has_finished_can_be_read_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = small_learner("ppo")
    often = evaluate(agent, episodes=12, env=Summed(4), greedy=True)
    assert any(score % 100 for score in often.returns)
    monkeypatch.setitem(evaluation._STEPS_BETWEEN_READS, "cpu", 32)
    assert evaluate(agent, episodes=12, env=Summed(4), greedy=True) == often


def test_environments_of_a_user_have_a_device_of_their_own() -> None:
    """Whatever `env_device` says."""
    agent = small_learner("ppo")
    found = evaluate(agent, episodes=12, env=Countdown(4))
    agent.setup.env_device = torch.device("meta")

    class OnCpu(Countdown):
        def step_frames(self, actions: Any, out: Any = None) -> Any:
            return super().step_frames(torch.zeros(4, dtype=torch.int64), out)

    assert evaluate(agent, episodes=12, env=OnCpu(4)) == found


def test_environments_that_have_finished_need_no_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent: Any = small_learner("a2c")
    sizes = []
    act = agent.act

    def recorded(obs: Any, *arguments: Any, **keywords: Any) -> Any:
        sizes.append(len(obs))
        return act(obs, *arguments, **keywords)

    monkeypatch.setattr(agent, "act", recorded)
    env = Countdown(4)
    result = evaluate(agent, episodes=12, env=env)
    assert len(result.returns) == 12
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 4
    assert sizes[-1] < 4
    # Each environment is in the batch until its third episode has ended.
    ends = [sum(result.lengths[3 * i : 3 * i + 3]) for i in range(4)]
    assert sizes == [sum(step < end for end in ends) for step in range(max(ends))]


def test_numbers() -> None:
    result = Evaluation((1.0, 2.0, 6.0), (3, 4, 5), "pong", "noop")
    assert (result.mean, result.median) == (3.0, 2.0)
    assert result.std == pytest.approx(7.0**0.5)
    assert result.human_normalized == pytest.approx((3.0 + 20.7) / 35.3)
    assert result.record_normalized == pytest.approx((3.0 + 20.7) / 41.7)
    row = result.row()
    assert row["episodes"] == 3
    assert row["length_mean"] == 4.0
    assert Evaluation((1.0,), (1,), "adventure", "noop").human_normalized is None


def test_a_learner_is_as_it_was() -> None:
    agent = small_learner("rainbow")
    for _ in agent.train(steps=640):
        pass
    generator = agent.generator.get_state()
    weights = [p.clone() for p in agent.network.parameters()]
    first = agent.evaluate(episodes=20, env=Catch(20), seed=3)
    assert agent.network.training
    assert agent.steps == 640
    assert torch.equal(agent.generator.get_state(), generator)
    assert all(map(torch.equal, weights, agent.network.parameters()))
    assert agent.evaluate(episodes=20, env=Catch(20), seed=3) == first


def test_a_learner_of_graphs_plays_without_them(tmp_path: Path) -> None:
    agent = small_learner("ppo")
    agent.save(tmp_path / "trained.pt")
    content = read_checkpoint(tmp_path / "trained.pt")
    content["config"] |= {"cuda_graphs": True, "device": "cuda"}
    assert not load_to_play(content, Catch(20)).config.cuda_graphs


def test_minibatches_do_not_matter_to_play(tmp_path: Path) -> None:
    small_learner("ppo", num_minibatches=8).save(tmp_path / "trained.pt")
    agent = load_to_play(read_checkpoint(tmp_path / "trained.pt"), Catch(3))
    assert len(agent.evaluate(episodes=10, env=Catch(3)).returns) == 12


def test_seeds_of_older_checkpoints_do_not_matter_to_play(tmp_path: Path) -> None:
    small_learner("ppo").save(tmp_path / "trained.pt")
    content = read_checkpoint(tmp_path / "trained.pt")
    content["config"]["seed"] = 1_500_000_000
    assert load_to_play(content, Catch(3)).config.seed == 1_500_000_000 % 2**30


def test_a_game_has_one_name() -> None:
    agent = small_learner("ppo", game="MsPacman")
    result = agent.evaluate(episodes=10, env=Catch(10))
    assert result.game == "ms_pacman"
    assert result.human_normalized is not None
    assert small_learner("ppo", game="catch").evaluate(episodes=10, env=Catch(10)).game == "catch"


@pytest.mark.parametrize(
    ("name", "changes"),
    [("rainbow", {}), ("iqn", {"num_acting_quantiles": 1}), ("btr", {"network": "btr_small"})],
)
def test_predictions_change_nothing(name: str, changes: dict[str, Any]) -> None:
    """Neither the power iteration of spectral norms; greedy ones are always the same."""
    agent = small_learner(name, **changes)
    next(agent.train())
    sample_noise(agent.network, agent.generator)
    if name != "rainbow":  # the best action depends on the fractions
        agent.network.embedding.weight.data.mul_(10)
    before = {key: value.clone() for key, value in agent.network.state_dict().items()}
    generator = agent.generator.get_state()
    obs = torch.randint(0, 256, (500, 2, 5, 5)).to(torch.uint8)
    found = [agent.predict(obs, greedy=True) for _ in range(2)]
    agent.predict(obs)
    assert agent.network.training
    assert torch.equal(agent.generator.get_state(), generator)
    for key, value in agent.network.state_dict().items():
        assert torch.equal(value, before[key]), key
    agent.network.eval()
    found.append(agent.act(obs, agent.generator, greedy=True))
    assert all(torch.equal(each, found[0]) for each in found)


@pytest.mark.parametrize("name", ["dqn", "iqn", "pqn", "apex-dqn"])
def test_one_environment_has_no_ladder(name: str, tmp_path: Path) -> None:
    small_learner(name, exploration="ladder").save(tmp_path / "trained.pt")
    agent = load_to_play(read_checkpoint(tmp_path / "trained.pt"), Catch(1))
    assert len(agent.evaluate(episodes=10, env=Catch(1)).returns) == 10
    changes = {"num_envs": 1, "num_steps": 4} if name == "pqn" else {"num_envs": 1}
    *_, last = small_learner(name, exploration="schedule", **changes).train(steps=8)
    assert last.steps == 8
    agent = small_learner(name, exploration="ladder", **changes)
    with pytest.raises(InvalidArgumentError, match="num_envs is 1; with a ladder"):
        next(agent.train())


def test_noise_is_off_and_greedy_is_greedy() -> None:
    agent = small_learner("rainbow")
    obs = torch.randint(0, 256, (500, 2, 5, 5)).to(torch.uint8)
    generator = torch.Generator().manual_seed(0)
    agent.network.eval()
    q_values = agent.head.values(agent.network, obs, agent.generator)  # type: ignore[attr-defined]
    assert torch.equal(agent.act(obs, generator, greedy=True), q_values.argmax(-1))
    policy = small_learner("ppo")
    logits, _ = policy.network(obs)
    assert torch.equal(policy.act(obs, generator, greedy=True), logits.argmax(-1))
    assert not torch.equal(policy.act(obs, generator), logits.argmax(-1))


def test_refused_requests() -> None:
    agent = small_learner("ppo")
    for name, value in (
        ("episodes", 9), ("episodes", "20"), ("seed", -1), ("seed", "0"), ("greedy", "no"),
        ("num_envs", "3"), ("num_envs", 2.5), ("num_envs", None),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=f"^{name} is {value!r}"):
            evaluate(agent, env=Catch(3), **{name: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="protocol"):
        make_eval_env(agent.config, "easy", 3)
    with pytest.raises(InvalidArgumentError, match="protocol"):
        evaluate(agent, protocol=["noop"])  # type: ignore[arg-type]


@pytest.mark.ale
def test_protocols_of_real_environments() -> None:
    config = small_learner("ppo", episodic_life=True, repeat_action_probability=0.1).config
    for protocol, sticky, noops in (
        ("noop", 0.0, 31),
        ("sticky", 0.25, 1),
        ("as-trained", 0.1, 30),
    ):
        env: Any = make_eval_env(config, protocol, 2)
        assert env.config.repeat_action_probability == pytest.approx(sticky)
        assert env.config.noop_max == noops
        assert env.config.max_num_frames_per_episode == evaluation.FRAME_CAP == 108_000
        assert not env.config.episodic_life
        assert not env.config.life_loss_info
        assert not env.config.reward_clipping
        assert env.config.decorrelate_steps == 0
        env.close()
    env = make_eval_env(dataclasses.replace(config, continuous=True), "noop", 2)
    assert env.single_action_space.shape == (3,)
    env.close()


@pytest.mark.ale
def test_machado_is_the_preset_of_environments_with_the_frame_skip_of_training() -> None:
    trained = {"full_action_space": True, "fire_after_life_loss": True, "episodic_life": True}
    config = dataclasses.replace(small_learner("ppo", **trained).config, game="breakout")
    env: Any = make_eval_env(config, "machado", 2)
    twin = cule.AtariVectorEnv(
        "breakout",
        2,
        preset="machado",
        autoreset_mode="SameStep",
        output="torch",
        frameskip=config.frameskip,
        img_height=config.img_size,
        img_width=config.img_size,
        stack_num=config.stack_num,
    )
    assert torch.equal(env.reset(seed=3)[0], twin.reset(seed=3)[0])
    assert len(env.action_set) == 18
    generator = torch.Generator().manual_seed(0)
    ends = 0
    for _ in range(400):
        actions = torch.randint(18, (2,), generator=generator)
        ours, theirs = env.step_frames(actions), twin.step_frames(actions)
        assert torch.equal(ours.frame, theirs.frame)
        assert torch.equal(ours.reward, theirs.reward)
        assert torch.equal(ours.terminated, theirs.terminated)
        assert torch.equal(ours.life_lost, theirs.life_lost)
        ends += int(ours.terminated.sum())
    assert ends
    assert env.config.max_num_frames_per_episode == 18_000
    env.close()
    twin.close()


@pytest.mark.ale
def test_machado_needs_all_actions() -> None:
    config = dataclasses.replace(small_learner("ppo").config, game="breakout")
    with pytest.raises(InvalidArgumentError, match="the agent has 4 actions; it must have all 18"):
        make_eval_env(config, "machado", 2)
    with pytest.raises(InvalidArgumentError, match="num_players 2; it must be 1"):
        make_eval_env(dataclasses.replace(config, num_players=2), "machado", 2)
    # A game that uses all 18 needs no option, and continuous actions reach them.
    for changes in ({"game": "seaquest"}, {"continuous": True}):
        make_eval_env(dataclasses.replace(config, **changes), "machado", 2).close()


@pytest.mark.ale
def test_a_run_refuses_a_protocol_that_does_not_fit_before_it_trains(tmp_path: Path) -> None:
    options = RunOptions(out=str(tmp_path / "run"), eval_protocol="machado")
    with pytest.raises(InvalidArgumentError, match="protocol is 'machado'"):
        start_run(PPO, PPO.config_class(game="breakout"), options)
    assert not list(tmp_path.iterdir())


def test_time_to_score_needs_a_confirmation() -> None:
    def rows(*means: float, episodes: int = 10) -> list[dict[str, str]]:
        return [
            {
                "steps": str(100 * i),
                "mean": str(mean),
                "episodes": str(episodes),
                "train_s": str(i),
                "wall_s": str(2 * i),
            }
            for i, mean in enumerate(means)
        ]

    assert time_to_score(rows(1, 18, 17, 18.5, 19), 18.0) == {
        "steps": 300.0,
        "mean": 18.5,
        "train_s": 3.0,
        "wall_s": 6.0,
    }
    assert time_to_score(rows(1, 18), 18.0) is None
    assert time_to_score(rows(18, 18, episodes=5), 18.0) is None
    assert time_to_score([], 18.0) is None


@pytest.mark.ale
@pytest.mark.usefixtures("short_episodes")
def test_scores_without_a_human_score_are_json(tmp_path: Path) -> None:
    A2C(A2CConfig(game="adventure", num_envs=2, network="small", img_size=42)).save(
        tmp_path / "a.pt"
    )
    scores = tmp_path / "scores.json"
    assert main(["eval", str(tmp_path / "a.pt"), "--episodes", "10", "--json", str(scores)]) == 0
    (record,) = json.loads(scores.read_text(), parse_constant=pytest.fail)
    assert record["human_normalized"] is record["record_normalized"] is None
