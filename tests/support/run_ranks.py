"""Learners in several processes, for torchrun: the same update as one process with all the data.

``torchrun --nproc-per-node 2 run_ranks.py FILE``: trains, and process 0 writes what came out.
"""

from __future__ import annotations

import shutil
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[2]))

from cule.agents import AGENTS, RunOptions, start_run
from cule.agents.parts import graphs, memory
from cule.agents.parts.distributed import (
    gather_values,
    global_moments,
    join_world,
    leave_world,
    rank,
    update_statistics,
    world_size,
)
from cule.agents.run.checkpoint import path_of_rank
from cule.errors import CheckpointError
from cule.nets import PixelStatistics
from tests.support.catch import Catch
from tests.support.learners import allow_graphs_on_cpu
from tests.support.recorded_graph import as_one_operation, record_graphs

#: Environments of all processes.
TOTAL = 16
#: One minibatch an epoch, so that its order does not matter.
OPTIONS: dict[str, dict[str, Any]] = {
    "a2c": {"num_steps": 7},
    "ppo": {"num_steps": 7, "num_minibatches": 1, "num_epochs": 3, "learning_rate": 1e-2},
    "vtrace": {"num_steps": 7, "num_batches": 1, "steps_per_update": 7.0, "normalize_obs": False},
    "pqn": {"num_steps": 7, "num_minibatches": 1, "num_epochs": 3, "learning_rate": 1e-2},
}


def trained(name: str, first: int, count: int, **changes: Any) -> Any:
    """A learner after three rounds on given environments, with given actions."""
    env = Catch(count, first_env=first)
    options = {"network": "mlp", "num_envs": count, "total_steps": 10_000, "seed": 3}
    config = AGENTS[name].config_class(**options, **OPTIONS[name], **changes)
    agent: Any = AGENTS[name](config, env)
    note_gradients(agent)
    obs, _ = env.reset(seed=3)  # the same games in whatever process they are
    agent.begin_buffer(obs[:, -1])
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        for _ in range(7):
            actions = torch.randint(3, (TOTAL,), generator=generator)[first : first + count]
            with torch.no_grad():
                out = agent.forward(agent.buffer.observe())
            step = env.step_frames(actions, out=agent.buffer.next_frame())
            if name == "pqn":
                agent.buffer.append(actions, step, max_q=out.amax(-1))
            else:
                log_probs = torch.full((count,), -1.0)
                agent.buffer.append(actions, step, log_probs=log_probs, values=out[1])
        agent.learn_once()
    return agent


def with_graphs(name: str, count: int, warm_up: int) -> Any:
    """`trained` with recordings in place of graphs, after that many calls."""
    with pytest.MonkeyPatch.context() as patch:
        record_graphs(patch)
        allow_graphs_on_cpu(patch)
        patch.setattr(graphs, "WARM_UP_CALLS", warm_up)
        patch.setattr(dist, "all_reduce", as_one_operation(dist.all_reduce))
        return trained(name, rank() * count, count, cuda_graphs=True)


def note_gradients(agent: Any) -> None:
    """Keep the gradient of the first update as `agent.first_gradient`, as the optimizer gets it."""
    step = agent.optimizer.step

    def noting() -> None:
        if not hasattr(agent, "first_gradient"):
            gradients = [p.grad.flatten() for p in agent.network.parameters()]
            agent.first_gradient = torch.cat(gradients)
        step()

    agent.optimizer.step = noting


def weights(agent: Any) -> torch.Tensor:
    """All parameters as one vector."""
    return torch.cat([p.detach().flatten() for p in agent.network.parameters()])


def resumed_runs(folder: Path) -> dict[str, Any]:
    """What becomes of a run whose second process lost what it wrote last; once it is whole again."""

    def start(steps: int) -> Any:
        config = AGENTS["a2c"].config_class(network="mlp", num_envs=8, total_steps=steps)
        options = RunOptions(
            out=str(folder), resume=True, keep_every=400, eval_episodes=0, progress_bar=False
        )
        env = Catch(8, first_env=8 * rank())
        return start_run(AGENTS["a2c"], config, options, env=env)

    assert start(800).run()
    latest, waiting, older = (
        path_of_rank(folder / "checkpoints" / name) for name in ("latest.pt", "next.pt", "400.pt")
    )
    result: dict[str, Any] = {}
    if rank() == 1:  # killed when all had written, and only the first had moved its file
        latest.rename(waiting)
        shutil.copy(older, latest)
    result["moved"] = gather_values(start(1200).agent.steps)
    for name, spoil in (("other", lambda: shutil.copy(older, latest)), ("none", latest.unlink)):
        if rank() == 1:
            waiting.unlink(missing_ok=True)
            spoil()
        try:
            start(1200)
        except CheckpointError as error:
            result[name] = gather_values(str(error))
    return result


def main(path: str) -> None:
    torch.set_num_threads(1)
    join_world(torch.device("cpu"))
    count = TOTAL // world_size()
    result: dict[str, Any] = {"world_size": world_size()}
    for name in OPTIONS:
        agent = trained(name, rank() * count, count)
        others = [torch.zeros_like(weights(agent)) for _ in range(world_size())]
        dist.all_gather(others, weights(agent))
        assert all(torch.equal(other, others[0]) for other in others), name
        result[name] = others[0]
        result[f"{name} gradient"] = agent.first_gradient
        replayed, called = (with_graphs(name, count, warm_up) for warm_up in (1, 1 << 30))
        assert replayed.learn_once.captures, name
        assert not called.learn_once.captures, name
        result[f"{name} replayed"], result[f"{name} called"] = weights(replayed), weights(called)
    shown = torch.arange(32.0).reshape(8, 4)[rank() * 4 : rank() * 4 + 4]
    result["moments"] = torch.stack(global_moments(shown))
    statistics = PixelStatistics((4,))
    update_statistics(statistics, shown)
    result["mean"], result["variance"] = statistics.mean, statistics.variance

    # A whole loop: schedules, statistics and checkpoints of all processes together.
    config = AGENTS["dqn"].config_class(
        network="mlp",
        num_envs=8,
        total_steps=1600,
        memory=4000,
        learning_starts=200,
        prioritized=True,
    )
    dqn: Any = AGENTS["dqn"](config, Catch(8, first_env=8 * rank()))
    for _ in dqn.train():
        pass
    result["dqn_steps"], result["dqn_updates"] = dqn.steps, dqn.updates
    checkpoint = Path(path).with_name("dqn.pt")
    dqn.save(checkpoint)
    again: Any = AGENTS["dqn"].load(checkpoint, Catch(8, first_env=8 * rank()))
    assert torch.equal(weights(again), weights(dqn))
    dist.barrier()
    result["files"] = sorted(p.name for p in checkpoint.parent.glob("dqn*"))

    batch = memory.weigh_over_ranks(dqn.replay.sample(32, 0.5), dqn.replay, 0.5)
    raw = (batch.probabilities * dqn.replay.num_valid).pow(-0.5)
    largest = max(gather_values(float(raw.max())))
    torch.testing.assert_close(batch.weights, raw / largest)
    result["largest_weights"] = gather_values(float(batch.weights.max()))
    result["resumed"] = resumed_runs(Path(path).with_name("run"))
    if rank() == 0:
        torch.save(result, path)
    group = weakref.ref(dist.group.WORLD)
    leave_world()
    assert group() is None, "the group and its threads are still there"


if __name__ == "__main__":
    main(sys.argv[1])
