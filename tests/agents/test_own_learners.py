"""Networks and environments of the user's own: what an agent needs of them, and what it reports."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import cule  # noqa: E402
from cule.agents import (  # noqa: E402
    DQN,
    PPO,
    PQN,
    A2CConfig,
    ApexDPG,
    ApexDPGConfig,
    DQNConfig,
    Learner,
    PPOConfig,
    PQNConfig,
    RunOptions,
    start_run,
)
from cule.agents.parts.envs import EpisodeStatistics  # noqa: E402
from cule.agents.parts.learner import progress_of  # noqa: E402
from cule.agents.run.checkpoint import (  # noqa: E402
    load_weights,
    read_checkpoint,
)
from cule.agents.run.presets import find_agent  # noqa: E402
from cule.cli import main  # noqa: E402
from cule.watch.policies import PlayOptions, open_trained  # noqa: E402
from tests.support.cases import long_except  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import SMALL, class_of, small_env  # noqa: E402


class Net(nn.Module):
    """A policy and a value; no attributes but layers."""

    def __init__(self, obs_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__()
        size = int(torch.Size(obs_shape).numel())
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(size, 8), nn.ReLU())
        self.policy, self.value = nn.Linear(8, num_actions), nn.Linear(8, 1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(obs / 255)
        return self.policy(features), self.value(features).squeeze(-1)


class QNet(Net):
    """Action values."""

    def forward(self, obs: Tensor) -> Any:
        return super().forward(obs)[0]


class OwnPPO(PPO):
    """PPO with `Net`."""

    name = "own-ppo"

    def make_network(self) -> nn.Module:
        return Net(self.obs_shape, self.num_actions)


class OwnPQN(PQN):
    """PQN with `QNet`."""

    def make_network(self) -> nn.Module:
        return QNet(self.obs_shape, self.num_actions)


class OwnDQN(DQN):
    """DQN with `QNet`."""

    def make_network(self) -> nn.Module:
        return QNet(self.obs_shape, self.num_actions)


CASES: dict[type[Learner], Any] = {
    OwnPPO: PPOConfig(num_steps=8, total_steps=256),
    OwnPQN: PQNConfig(num_steps=8, num_minibatches=4, total_steps=256),
    OwnDQN: DQNConfig(learning_starts=64, memory=100_000, total_steps=256),
}


@pytest.mark.parametrize("agent_class", list(CASES))
def test_own_networks_learn(agent_class: type[Learner]) -> None:
    agent = agent_class(CASES[agent_class], Catch(8))
    assert isinstance(agent.network, Net)
    before = agent.network.policy.weight.clone()
    steps = [progress.steps for progress in agent.train()]
    assert steps[-1] == 256
    assert agent.updates > 0
    assert not torch.equal(before, agent.network.policy.weight)


class AtomNet(Net):
    """Distributions of action values with 21 atoms."""

    def __init__(self, obs_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__(obs_shape, num_actions * 21)

    def forward(self, obs: Tensor) -> Any:
        return super().forward(obs)[0].unflatten(1, (-1, 21))


class GaussianNet(Net):
    """Means of a normal policy, and a value."""

    def __init__(self, obs_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__(obs_shape, 3)
        self.log_sigma = nn.Parameter(torch.zeros(3))


class ActorAndCritic(Net):
    """What Ape-X DPG needs."""

    def __init__(self, obs_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__(obs_shape, 3)
        self.value = nn.Linear(8 + 3, 1)

    def features(self, obs: Tensor) -> Tensor:
        return self.body(obs / 255)

    def raw_actions(self, features: Tensor) -> Tensor:
        return self.policy(features.detach())

    def values(self, features: Tensor, action: Tensor) -> Tensor:
        return self.value(torch.cat([features, action], -1)).squeeze(-1)


class QuantileNet(QNet):
    """Quantiles that are the same at all fractions but for their spread."""

    def forward(self, obs: Tensor, fractions: Tensor | None = None) -> Tensor:
        values = super().forward(obs)
        if fractions is None:
            return values
        return values.unsqueeze(1) + fractions.unsqueeze(2)


class TwoValueNet(Net):
    """A policy and two values."""

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        logits, values = super().forward(obs)
        return logits, torch.stack([values, -values], -1)


class GruNet(Net):
    """A policy and a value that remember with a GRU."""

    def __init__(self, obs_shape: tuple[int, ...], num_actions: int) -> None:
        super().__init__(obs_shape, num_actions)
        self.cell = nn.GRUCell(8, 8)

    def blank_memory(self, count: int) -> Tensor:
        return torch.zeros(count, 8)

    def step(self, obs: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        memory = self.cell(self.body(obs / 255), memory)
        return self.policy(memory), self.value(memory).squeeze(-1), memory

    def forward(self, obs: Any) -> tuple[Tensor, Tensor]:
        if isinstance(obs, Tensor):
            return self.step(obs, self.blank_memory(len(obs)))[:2]
        memory, found = obs.memory, []
        for now, starts in zip(obs.obs, obs.starts, strict=True):
            *outputs, memory = self.step(now, memory * ~starts.unsqueeze(1))
            found.append(outputs)
        logits, values = zip(*found, strict=True)
        return torch.cat(logits), torch.cat(values)


#: A network of their own for each small learner.
OWN: dict[str, type[Net]] = {
    **dict.fromkeys(("a2c", "vtrace", "ppo"), Net),
    **dict.fromkeys(("pqn", "dqn", "apex-dqn", "apex-dqn-overlap"), QNet),
    "ppo-continuous": GaussianNet,
    "ppo-rnd": TwoValueNet,
    **dict.fromkeys(("ppo-lstm", "vtrace-lstm"), GruNet),
    **dict.fromkeys(("iqn", "btr"), QuantileNet),
    "rainbow": AtomNet,
    "apex-dpg": ActorAndCritic,
}


@pytest.mark.parametrize("kind", long_except(["module", "factory"], "factory"))
@pytest.mark.parametrize("name", long_except(sorted(SMALL), every=3))
def test_networks_by_argument(name: str, kind: str, tmp_path: Path) -> None:
    """A module or what makes one, in every learner, also when it is loaded."""
    made: list[nn.Module] = []

    def make(obs_shape: tuple[int, ...], num_actions: int) -> nn.Module:
        made.append(OWN[name](obs_shape, num_actions))
        return made[-1]

    num_actions = 0 if class_of(name).config_class(**SMALL[name].options).continuous else 3
    network: Any = make((2, 5, 5), num_actions) if kind == "module" else make
    options = {**SMALL[name].options, "total_steps": 640}
    agent = class_of(name)(class_of(name).config_class(**options), small_env(name), network=network)
    assert agent.network is made[-1]
    before = made[-1].policy.weight.clone()  # type: ignore[union-attr]
    for _ in agent.train():
        pass
    assert agent.updates > 0
    assert not torch.equal(before, made[-1].policy.weight)  # type: ignore[union-attr]
    agent.save(tmp_path / "own.pt")
    again = class_of(name).load(tmp_path / "own.pt", small_env(name), network=OWN[name])
    assert isinstance(again.network, OWN[name])
    assert torch.equal(again.network.policy.weight, agent.network.policy.weight)


def test_what_a_network_by_argument_must_be(tmp_path: Path) -> None:
    with pytest.raises(
        cule.InvalidArgumentError, match=r"network made a int; it must make a torch"
    ):
        PPO(PPOConfig(), Catch(8), network=lambda shape, count: 3)  # type: ignore[arg-type]
    with pytest.raises(cule.InvalidArgumentError, match=r"must return logits \[B, 3\] and values"):
        PPO(PPOConfig(), Catch(8), network=QNet)
    with pytest.raises(cule.InvalidArgumentError, match="has no log_sigma; with continuous True"):
        PPO(PPOConfig(continuous=True), Catch(8, continuous=True), network=lambda s, _: Net(s, 3))
    with pytest.raises(cule.InvalidArgumentError, match="has no features, raw_actions, values"):
        ApexDPG(
            ApexDPGConfig(num_envs=8), Catch(8, continuous=True), network=lambda s, _: Net(s, 3)
        )
    options = RunOptions(out=str(tmp_path / "run"), eval_episodes=0, progress_bar=False)
    run = start_run(PPO, PPOConfig(num_steps=8, total_steps=64), options, env=Catch(8), network=Net)
    assert isinstance(run.agent.network, Net)


def test_the_contract_of_a_network() -> None:
    class Wrong(PPO):
        forward: Any

        def make_network(self) -> nn.Module:
            net = Net(self.obs_shape, self.num_actions)
            net.forward = type(self).forward.__get__(net)  # type: ignore[method-assign]
            return net

    for forward, words in (
        (lambda self, obs: self.policy(self.body(obs / 255)), r"returns float32 \[2, 3\] for 2"),
        (
            lambda self, obs: (self.policy(self.body(obs / 255)), self.value(self.body(obs / 255))),
            r"must return logits \[B, 3\] and values \[B\], float32",
        ),
        (
            lambda self, obs: tuple(x.double() for x in Net.forward(self, obs)),
            r"returns float64 \[2, 3\] and float64 \[2\]",
        ),
        (lambda self, obs: [1, 2], "returns a list for 2"),
        (lambda self, obs: self.body(obs), r"cannot read observations, uint8 \[B, 2, 5, 5\]"),
    ):
        Wrong.forward = forward
        with pytest.raises(cule.InvalidArgumentError, match=words):
            Wrong(PPOConfig(), Catch(8))


@pytest.mark.ale
def test_numpy_environments_are_refused() -> None:
    env = cule.AtariVectorEnv("pong", 8, autoreset_mode="SameStep")
    with pytest.raises(cule.InvalidArgumentError, match="needs output='torch'"):
        PPO(PPOConfig(), env)
    env.close()


def test_other_environments_are_refused_by_what_they_lack() -> None:
    class Arrays(Catch):
        def reset(self, *, seed: Any = None) -> Any:
            obs, info = super().reset(seed=seed)
            return obs.numpy(), info

    class ArraysLater(Catch):
        def step_frames(self, actions: Any, out: Any = None) -> Any:
            step = super().step_frames(actions)
            return step._replace(terminated=step.terminated.numpy())

    for env, words in ((Arrays(8), "obs of the"), (ArraysLater(8), "terminated of the")):
        with pytest.raises(cule.InvalidArgumentError, match=f"{words} environment is a ndarray"):
            list(OwnPPO(CASES[OwnPPO], env).train())

    class Bare:
        num_envs = 8

    with pytest.raises(cule.InvalidArgumentError, match=r"a Bare, has no metadata, .*step_frames"):
        PPO(PPOConfig(), Bare())  # type: ignore[arg-type]


def test_progress_has_returns_and_lengths() -> None:
    agent = OwnPPO(CASES[OwnPPO], Catch(8))
    found = []
    for progress in agent.train(128):
        found.append([float(x) for x in (progress.episodes, progress.episode_return)])
        assert float(progress.episode_length) == 4.0  # every game of Catch
    assert [episodes for episodes, _ in found] == [16.0, 16.0]
    assert all(-1 <= mean <= 1 for _, mean in found)
    whole = agent.statistics.read()
    assert whole["episodes"] == 32
    assert whole["episode_return"] == pytest.approx(sum(mean for _, mean in found) / 2)
    (progress,) = list(agent.train(192))  # counted on after the read
    assert float(progress.episodes) == 16.0
    empty = progress_of(agent, {})
    assert float(empty.episodes) == 0.0
    assert math.isnan(float(empty.episode_return))


def test_statistics_print_themselves() -> None:
    statistics = EpisodeStatistics(torch.device("cpu"))
    statistics.sums += torch.tensor([4.0, 10.0, 50.0, 1.0, 30.0, 60.0])
    assert repr(statistics) == (
        "EpisodeStatistics(4 episodes, mean return 2.50, mean length 12.5 steps, 1 truncated)"
    )
    found = statistics.read()
    assert (found["episodes"], found["reward_per_step"]) == (4, 0.5)


def test_rows_are_passed_on(tmp_path: Path) -> None:
    rows: list[tuple[str, Any]] = []
    options = RunOptions(
        out=str(tmp_path), log_every=64, eval_episodes=10, eval_every=128, progress_bar=False
    )
    run = start_run(
        OwnPPO,
        CASES[OwnPPO],
        options,
        env=Catch(8),
        eval_env=lambda: Catch(8),  # type: ignore[arg-type, return-value]
        on_row=lambda group, row: rows.append((group, row)),
    )
    assert run.run()
    steps = [(group, row["steps"]) for group, row in rows]
    assert [n for group, n in steps if group == "progress"] == [64, 128, 192, 256]
    assert [n for group, n in steps if group == "evaluation"] == [128, 256]
    assert rows[0][1]["episodes"] == 16


@pytest.mark.ale
@pytest.mark.usefixtures("short_episodes")
def test_own_agents_are_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = PPOConfig(
        num_envs=2, num_steps=4, num_minibatches=1, network="mlp", img_size=16, stack_num=1
    )
    agent = OwnPPO(config)
    list(agent.train(8))
    agent.save(tmp_path / "own.pt")
    agent.env.close()
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("from tests.agents.test_own_learners import OwnPPO as Mine\n")
    words = ["eval", "own.pt", "--episodes", "10"]
    assert main([*words, "--agent", "mine:Mine"]) == 0
    assert "own-ppo after 8 steps" in capsys.readouterr().out
    shown = PlayOptions(checkpoint=Path("own.pt"), num_envs=2, greedy=True)
    env, policy = open_trained(dataclasses.replace(shown, agent="mine:Mine"))
    assert policy.title == "own-ppo after 8 steps"
    env.close()
    with pytest.raises(cule.CheckpointError, match="with --agent MODULE:CLASS your own"):
        open_trained(shown)
    for name, text in (
        ([], "with --agent MODULE:CLASS your own"),
        (["--agent", "mine:Other"], "agent is 'mine:Other', which cannot be imported"),
        (["--agent", "mine"], "it must be MODULE:CLASS"),
        (["--agent", "..mine:Mine"], "agent is '..mine:Mine'; it must be MODULE:CLASS"),
        (["--agent", "pathlib:Path"], "of a cule.agents.Learner"),
        (["--agent", "cule.agents:PPO"], "the checkpoint is of 'own-ppo'; it must be of 'ppo'"),
    ):
        assert main([*words, *name]) == 2
        assert text in capsys.readouterr().err


def test_a_module_that_changes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "import os\nos.chdir(os.sep)\nfrom cule.agents import PPO as Moved\n"
    Path("moves_away.py").write_text(text)
    before = list(sys.path)
    assert find_agent("moves_away:Moved") is PPO
    assert sys.path == before


def test_weights_of_an_agent_without_a_name_of_its_own(tmp_path: Path) -> None:
    config = dataclasses.replace(CASES[OwnPQN], network="mlp")
    OwnPQN(config, Catch(8)).save(tmp_path / "own.pt")
    agent = PQN(config, Catch(8))
    with pytest.raises(cule.CheckpointError, match=r"network of PQN \(.*--agent MODULE:CLASS"):
        load_weights(agent, read_checkpoint(tmp_path / "own.pt"))


def test_a_wrong_option_names_the_right_one() -> None:
    from cule.option_fields import config_from

    with pytest.raises(cule.InvalidArgumentError, match="did you mean 'learning_rate'"):
        config_from(A2CConfig, {"lr": 1.0})
