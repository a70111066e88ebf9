"""Learners in CUDA graphs on a real GPU."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from cule.agents import AGENTS, RunOptions, start_run
from cule.agents.ppo import Samples
from cule.games import rom_status
from cule.replay import PrioritizedOptions, PrioritizedReplay
from tests.support.cases import long_except
from tests.support.learners import collect

ROMS = {status.rom_id for status in rom_status() if status.md5_ok}
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif("pong" not in ROMS, reason="no ROMs: install ale-py or set CULE_ROM_DIR"),
]

SMALL: dict[str, Any] = {
    "game": "pong",
    "num_envs": 4,
    "device": "cuda",
    "cuda_graphs": True,
    "total_steps": 10**9,
    "decorrelate_steps": 4,
    "network": "small",
    "img_size": 42,
}
REPLAY = {"memory": 60_000, "learning_starts": 100, "samples_per_insert": 1.0, "batch_size": 32}


def make_agent(name: str, **changes: Any) -> Any:
    config_class = AGENTS[name].config_class
    options = REPLAY if hasattr(config_class, "memory") else {"num_steps": 8}
    if name.startswith("vtrace"):
        options = {**options, "num_batches": 4}
    return AGENTS[name](config_class(**{**SMALL, **options, **changes}))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {}) for name in sorted(AGENTS)),
        ("ppo", {"continuous": True}),
        ("dqn", {"prioritized": True}),
        ("apex-dqn", {"overlap": True, "collect_steps": 2}),
        ("apex-dpg", {"overlap": True, "collect_steps": 2}),
    ],
)
def test_learners_replay(name: str, changes: dict[str, Any]) -> None:
    """Acting and learning are captured, go on, and stay finite."""
    agent = make_agent(name, **changes)
    before = copy.deepcopy(agent.network.state_dict())
    for progress in agent.train():
        if agent.setup.graphs.are_captured and agent.updates >= 20:
            break
        assert progress.steps < 200_000
    agent.check_finite()
    assert any(
        not torch.equal(before[key], value) for key, value in agent.network.state_dict().items()
    )
    agent.env.close()


@pytest.mark.long
@pytest.mark.parametrize("name", ["a2c", "vtrace"])
def test_replays_learn_what_calls_do(name: str) -> None:
    """The same rollout again and again, by replays in one learner and by calls in another."""
    agent, other = make_agent(name), make_agent(name)
    agent.begin()
    collect(agent, 8)
    other.buffer = agent.buffer
    other.network.load_state_dict(agent.network.state_dict())
    for _ in range(8):
        replayed = agent.learn_once()
        called = other.learn()
        for key, value in called.items():
            torch.testing.assert_close(replayed[key], value, rtol=1e-3, atol=1e-4)
    assert agent.learn_once.captures
    for mine, theirs in zip(agent.network.parameters(), other.network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
    agent.env.close()
    other.env.close()


def test_replayed_steps_are_the_environments() -> None:
    """What a graph of whole steps has put into the buffer, played again without one."""
    agent = make_agent("a2c")
    agent.begin()
    state = agent.env.get_state()
    actions, rewards = [], []
    for _ in range(4):
        collect(agent, 8)
        window = agent.buffer.rollout()
        actions.append(window.actions.clone())
        rewards.append(window.rewards.clone())
    assert agent.play.captures
    frames = agent.buffer.observe()[:, -1].clone()
    agent.env.set_state(state)
    for taken, paid in zip(torch.cat(actions), torch.cat(rewards), strict=True):
        step = agent.env.step_frames(taken)
        assert torch.equal(step.reward.clamp(-1, 1), paid)
    assert torch.equal(step.frame, frames)
    agent.env.close()


@pytest.mark.long
@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_rows_tell_of_the_device(cuda_graphs: bool, tmp_path: Path) -> None:
    """GPU memory and shares of time; a graph of whole steps has no shares."""
    changes = {"total_steps": 80, "num_steps": 4, "num_epochs": 1, "cuda_graphs": cuda_graphs}
    config = AGENTS["ppo"].config_class(**{**SMALL, **changes})
    options = RunOptions(out=str(tmp_path), log_every=40, eval_episodes=0, progress_bar=False)
    run = start_run(AGENTS["ppo"], config, options)
    assert run.run()
    run.agent.env.close()
    lines = (tmp_path / "progress.jsonl").read_text().splitlines()[1:]
    assert len(lines) == 2
    for row in map(json.loads, lines):
        assert row["gpu_bytes"] > 0
        assert 0 < row["learn_share"] < 1
        assert ("act_share" in row) != cuda_graphs
        if not cuda_graphs:
            shares = [row[f"{part}_share"] for part in ("act", "emulate", "learn")]
            assert min(shares) > 0
            assert sum(shares) == pytest.approx(1.0)


def inputs_of(agent: Any) -> tuple[Any, ...]:
    """What an update learns from: a batch, a window, or for PPO a minibatch of made-up numbers."""
    agent.begin()
    collect(agent, 8)
    if hasattr(agent, "replay"):
        return (agent.replay.sample(64),)
    window = agent.buffer.rollout()
    if agent.name != "ppo":
        return (window,)
    log_probs, values = (window.extras[name].flatten() for name in ("log_probs", "values"))
    advantages = window.rewards.flatten() + values.cos()
    has_stopped = torch.zeros((), dtype=torch.bool, device=agent.device)
    samples = Samples(
        window.obs.flatten(0, 1),
        window.actions.flatten(),
        advantages,
        values + 1.0,
        log_probs - 0.05,
        values,
        window.valid.flatten(),
    )
    return (samples, has_stopped)


def minimise(agent: Any, inputs: tuple[Any, ...]) -> Any:
    """An update from given samples; A2C's from the rollout that it reads."""
    if agent.name != "a2c":
        return agent.minimise(*inputs)
    (window,) = inputs
    agent.buffer = SimpleNamespace(rollout=lambda: window)
    return agent.learn()


@pytest.mark.parametrize(
    "name", long_except(["a2c", "vtrace", "ppo", "dqn", "rainbow", "apex-dpg"], "ppo")
)
def test_updates_are_those_of_a_cpu(name: str) -> None:
    """From the same samples and weights in float32, without noise: all that an update returns."""
    changes = {"cuda_graphs": False, **({"noisy": False} if name == "rainbow" else {})}
    there, here = make_agent(name, **changes), make_agent(name, **changes, device="cpu")
    inputs = inputs_of(there)
    here.network.load_state_dict(there.network.state_dict())
    moved = pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, inputs)
    for _ in range(3):
        returned, expected = minimise(there, inputs), minimise(here, moved)
        for ours, theirs in zip(
            pytree.tree_leaves(returned), pytree.tree_leaves(expected), strict=True
        ):
            torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-4)
    there.env.close()
    here.env.close()


@pytest.mark.parametrize(
    ("name", "changes"),
    long_except(
        [
            *((name, {}) for name in sorted(AGENTS)),
            ("ppo", {"target_kl": 1e-4}),
            ("ppo", {"continuous": True}),
            ("dqn", {"prioritized": True, "double": True, "num_atoms": 51}),
            ("apex-dqn", {"overlap": True}),
            ("apex-dpg", {"overlap": True}),
        ],
        ("dqn", {"prioritized": True, "double": True, "num_atoms": 51}),
    ),
)
def test_rounds_do_not_wait(name: str, changes: dict[str, Any]) -> None:
    """Collecting and learning, without graphs: nothing is read back, nothing copied there."""
    agent = make_agent(name, cuda_graphs=False, num_envs=8, **changes)
    rounds = agent.train()
    while agent.updates < 2:
        next(rounds)
    wanted = agent.updates + 2
    torch.cuda.set_sync_debug_mode("error")
    try:
        while agent.updates < wanted:
            next(rounds)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    agent.check_finite()
    agent.env.close()


@pytest.mark.long
@pytest.mark.parametrize("name", ["apex-dqn", "apex-dpg"])
@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_learning_beside_playing_changes_no_step(name: str, cuda_graphs: bool) -> None:
    """Two learners whose weights stay as they are, one on two streams: they play the same."""
    options = {"cuda_graphs": cuda_graphs, "learning_rate": 0.0, "sync_steps": 5}
    learners = [make_agent(name, overlap=overlap, **options) for overlap in (True, False)]
    for agent in learners:
        for progress in agent.train():
            if progress.updates >= 12:
                break
    steps = min(agent.steps for agent in learners) // 4
    ids = torch.arange(4 * (steps - 5), device=learners[0].device)
    ours, theirs = (agent.replay.sample_at(ids) for agent in learners)
    for field in ("obs", "actions", "returns", "discounts", "next_obs"):
        assert torch.equal(getattr(ours, field), getattr(theirs, field))
    for agent in learners:
        agent.check_finite()
        agent.env.close()


@pytest.mark.parametrize("name", long_except(["a2c", "dqn"], "dqn"))
@pytest.mark.parametrize(
    "places",
    [
        ("cuda:0", "cpu"),
        *(
            pytest.param(places, marks=pytest.mark.long)
            for places in (("cpu", "cuda:0"), ("cuda:1", "cuda"), ("cuda:1", ""))
        ),
    ],
)
def test_consoles_and_network_on_two_devices(name: str, places: tuple[str, str]) -> None:
    """Frames and actions go between them; on the second GPU nothing is left to the first."""
    if "cuda:1" in places and torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    device, env_device = places
    placed = {"device": device, "env_device": env_device}
    agent = make_agent(name, cuda_graphs=False, num_envs=8, **placed)
    rounds = agent.train()
    while agent.updates < 2:
        with agent.setup.timer.phase("round"):
            next(rounds)
    agent.check_finite()
    shares = agent.setup.timer.read_shares()
    assert 0 < shares["learn_share"] < 1
    assert ("emulate_share" in shares) == (places in [("cuda:0", "cpu"), ("cuda:1", "")])
    assert agent.env.config.device == {"cuda": "cuda:0", "": device}.get(env_device, env_device)
    agent.env.close()


@pytest.mark.no_fake_cuda  # so much memory there is not
@pytest.mark.filterwarnings("ignore::cule.replay.ShortReplayWarning")
def test_a_million_transitions_take_what_is_printed() -> None:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    options = PrioritizedOptions(capacity=1_000_000, num_envs=1024, n_step=3, device="cuda")
    replay = PrioritizedReplay(options)
    peak = torch.cuda.max_memory_allocated() - before
    total = sum(replay.memory_bytes().values())
    assert peak == pytest.approx(total, rel=0.01)
    assert total > 7_056_000_000
