"""torchrun over two nodes (two agents of this machine): one is killed, and the run continues."""

from __future__ import annotations

import csv
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule.agents import AGENTS, CheckpointError, RunOptions, start_run  # noqa: E402
from cule.agents.run.checkpoint import read_checkpoint  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.two_ranks import run_two_ranks  # noqa: E402

SCRIPT = Path(__file__).parents[1] / "support" / "run_elastic.py"
STEPS = 6_144

#: A lost node is noticed within seconds.
RENDEZVOUS = "join_timeout=300,last_call_timeout=2,keep_alive_interval=2,keep_alive_max_attempt=5"

#: With the store of the agents for the workers as well, torch 2.13 gives the address of rank 0 to
#: the nodes of the first round only: a node that joins later waits for it in vain.
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


class Nodes:
    """Agents of torchrun with one process each, in process groups of their own."""

    def __init__(self, folder: Path, nodes: str) -> None:
        self.folder, self.nodes = folder, nodes
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.agents: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        is_host = int(not self.agents)
        words = [
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes", self.nodes),
            *("--nproc-per-node", "1", "--max-restarts", "5", "--monitor-interval", "0.2"),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}"),
            *("--rdzv-id", "cule", "--rdzv-conf", f"is_host={is_host},{RENDEZVOUS}"),
            *("--local-addr", "127.0.0.1", str(SCRIPT), str(self.folder / "run"), str(STEPS)),
        ]
        log = (self.folder / f"agent-{len(self.agents)}.txt").open("wb")
        with log:
            agent = subprocess.Popen(
                words,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **OWN_STORE},
            )
        self.agents.append(agent)
        return agent

    def wait_for_steps(self, steps: int) -> None:
        self.wait(lambda: any(row >= steps for row in steps_of(self.folder)))

    def wait(self, is_reached: Any) -> None:
        deadline = time.monotonic() + 900
        while not is_reached():
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.05)

    def output(self) -> str:
        return "\n".join(p.read_text() for p in sorted(self.folder.glob("agent-*.txt")))

    def kill(self, agent: subprocess.Popen[bytes]) -> None:
        """As the end of a machine: the agent and its process at once."""
        children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        for pid in (agent.pid, *map(int, children)):
            os.kill(pid, signal.SIGKILL)
        agent.wait()

    def close(self) -> None:
        for agent in self.agents:
            if agent.poll() is None:
                self.kill(agent)


@pytest.fixture
def nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    made = Nodes(tmp_path, request.param)
    yield made
    made.close()


def steps_of(folder: Path) -> list[int]:
    path = folder / "run" / "progress.csv"
    if not path.exists():
        return []
    complete = path.read_text().rpartition("\n")[0].splitlines()
    return [int(row["steps"]) for row in csv.DictReader(complete)]


def final_weights(folder: Path) -> Any:
    content = read_checkpoint(folder / "run" / "checkpoints" / "latest.pt")
    assert content["steps"] == STEPS
    return content["network"]


def undisturbed(folder: Path) -> Any:
    """The weights of a run of two processes that nothing happens to."""
    folder.mkdir()
    run_two_ranks(SCRIPT, [str(folder / "run"), str(STEPS)], folder)
    return final_weights(folder)


@pytest.mark.long
@pytest.mark.parametrize("nodes", ["2"], indirect=True)
def test_a_lost_node_is_replaced_and_nothing_changes(nodes: Nodes, tmp_path: Path) -> None:
    first, second = nodes.start(), nodes.start()
    nodes.wait_for_steps(1_536)
    nodes.kill(second)
    third = nodes.start()
    assert [first.wait(240), third.wait(240)] == [0, 0], nodes.output()
    text = nodes.output()
    begins = {int(line.rpartition(" ")[2]) for line in text.splitlines() if "begins at" in line}
    assert max(begins) >= 1_536, text
    assert steps_of(tmp_path) == list(range(512, STEPS + 1, 512))
    expected = undisturbed(tmp_path / "other")
    for name, weight in final_weights(tmp_path).items():
        assert torch.equal(weight, expected[name]), name


@pytest.mark.long
@pytest.mark.parametrize("nodes", ["1:2"], indirect=True)
def test_the_others_continue_without_a_lost_node(nodes: Nodes, tmp_path: Path) -> None:
    first, second = nodes.start(), nodes.start()
    nodes.wait_for_steps(1_536)
    nodes.kill(second)
    assert first.wait(240) == 0, nodes.output()
    text = nodes.output()
    assert "rank 1 of 2 begins at 0" in text
    assert "rank 0 of 1 begins at" in text
    rows = steps_of(tmp_path)
    assert rows == sorted(set(rows))
    assert read_checkpoint(tmp_path / "run" / "checkpoints" / "latest.pt")["world_size"] == 1


# --- Another number of processes, in one process --------------------------------------------------


def save_as_of_two(path: Path, name: str, *, replay: bool = False, **options: Any) -> Any:
    """Write a checkpoint that says that two processes made it; return its agent."""
    agent = AGENTS[name](
        AGENTS[name].config_class(network="mlp", num_envs=8, total_steps=6_000, **options), Catch(8)
    )
    for _ in agent.train(steps=1_600):
        pass
    agent.save(path, replay=replay)
    content = read_checkpoint(path)
    content["world_size"] = 2
    torch.save({"format": 1, **content}, path)
    return agent


def start(name: str, folder: Path, num_envs: int, **options: Any) -> Any:
    config = AGENTS[name].config_class(
        network="mlp", num_envs=num_envs, total_steps=6_000, **options
    )
    run = RunOptions(out=str(folder), resume=True, eval_episodes=0, progress_bar=False)
    return start_run(AGENTS[name], config, run, env=Catch(num_envs))


DQN = {"memory": 32_000, "learning_starts": 200}


@pytest.mark.long
@pytest.mark.parametrize(("name", "options"), [("ppo", {"num_steps": 16}), ("dqn", DQN)])
def test_one_process_continues_the_run_of_two(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").mkdir()
    before = save_as_of_two(tmp_path / "checkpoints" / "latest.pt", name, **options)
    run = start(name, tmp_path, 16, **options)  # the environments of both
    agent = run.agent
    assert (agent.steps, agent.updates) == (before.steps, before.updates)
    for key, weight in before.network.state_dict().items():
        assert torch.equal(agent.network.state_dict()[key], weight)
    moments = before.optimizer.state_dict()["state"][0]["exp_avg"]
    assert torch.equal(agent.optimizer.state_dict()["state"][0]["exp_avg"], moments)
    assert run.run()
    assert agent.steps >= 6_000
    assert agent.updates > before.updates
    assert start(name, tmp_path, 16, **options).agent.steps == agent.steps
    with pytest.raises(CheckpointError, match="num_envs = 16; here it is 8"):
        start(name, tmp_path, 8, **options)


@pytest.mark.long
def test_saved_replay_memories_are_not_divided(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / "latest.pt"
    save_as_of_two(path, "dqn", replay=True, **DQN)
    for load in (
        lambda: start("dqn", tmp_path, 8, **DQN),
        lambda: AGENTS["dqn"].load(path, Catch(8)),
    ):
        with pytest.raises(CheckpointError, match=r"by 2 processes; there are 1, and the replay"):
            load()
