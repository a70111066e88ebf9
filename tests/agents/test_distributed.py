"""Two processes with half the environments each: the same weights as one process with all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule.agents import AGENTS, CheckpointError  # noqa: E402
from cule.agents.parts import distributed  # noqa: E402
from cule.nets import PixelStatistics  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.run_ranks import OPTIONS, TOTAL, trained, weights  # noqa: E402
from tests.support.two_ranks import run_two_ranks  # noqa: E402

SCRIPT = Path(__file__).parents[1] / "support" / "run_ranks.py"


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two gloo processes found."""
    path = tmp_path_factory.mktemp("ranks") / "result.pt"
    run_two_ranks(SCRIPT, [str(path)], path.parent)
    result: dict[str, Any] = torch.load(path, weights_only=True)
    return {**result, "checkpoint": path.with_name("dqn.pt")}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_two_processes_learn_as_one(name: str, two_ranks: dict[str, Any]) -> None:
    assert two_ranks["world_size"] == 2
    agent = trained(name, 0, TOTAL)
    gradient = two_ranks[f"{name} gradient"]
    torch.testing.assert_close(gradient, agent.first_gradient, atol=1e-6, rtol=0)
    assert float(gradient.abs().max()) > 1e-2
    alone = weights(agent)
    # Sums in another order; RMSProp and Adam divide small gradients by their size, which makes
    # the last bits of a gradient visible in the weight.
    torch.testing.assert_close(two_ranks[name], alone, atol=2e-4, rtol=0)
    assert torch.equal(two_ranks[f"{name} replayed"], two_ranks[f"{name} called"])
    start = type(trained(name, 0, TOTAL))
    assert float((alone - weights(_untrained(name, start))).abs().max()) > 2e-3


def _untrained(name: str, agent_class: Any) -> Any:
    config = agent_class.config_class(network="mlp", num_envs=TOTAL, seed=3, **OPTIONS[name])
    return agent_class(config, Catch(TOTAL))


@pytest.mark.long
def test_statistics_are_those_of_all_processes(two_ranks: dict[str, Any]) -> None:
    shown = torch.arange(32.0).reshape(8, 4)
    torch.testing.assert_close(two_ranks["moments"], torch.stack([shown.mean(), shown.std()]))
    statistics = PixelStatistics((4,))
    statistics.update(shown)
    torch.testing.assert_close(two_ranks["mean"], statistics.mean)
    torch.testing.assert_close(two_ranks["variance"], statistics.variance)


@pytest.mark.long
def test_steps_and_checkpoints_of_all_processes(two_ranks: dict[str, Any]) -> None:
    assert two_ranks["dqn_steps"] == 1600
    # 8 samples a step of 8 environments, batches of 32, once 200 transitions are in both memories:
    # 100 each are 13 rows (12 complete ones are 96), of 100 rounds in all.
    assert two_ranks["dqn_updates"] == 2 * (100 - 12)
    assert two_ranks["files"] == ["dqn.pt", "dqn.rank1.pt"]


@pytest.mark.long
def test_weights_are_over_the_largest_of_all_processes(two_ranks: dict[str, Any]) -> None:
    assert max(two_ranks["largest_weights"]) == 1.0
    assert min(two_ranks["largest_weights"]) < 1.0


@pytest.mark.long
def test_processes_resume_from_the_same_step(two_ranks: dict[str, Any]) -> None:
    resumed = two_ranks["resumed"]
    assert resumed["moved"] == [800, 800]
    for message in resumed["other"]:
        assert "[[800], [400]]" in message
    for message in resumed["none"]:
        assert "[[800], []]" in message


@pytest.mark.long
def test_another_number_of_processes_is_refused(two_ranks: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="by 2 processes; there are 1"):
        AGENTS["dqn"].load(two_ranks["checkpoint"], Catch(8))


def test_graphs_of_several_processes_need_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    from cule.agents.parts import setup

    monkeypatch.setattr(setup, "world_size", lambda: 2)
    monkeypatch.setattr(setup, "collectives_can_be_captured", lambda: False)
    monkeypatch.setattr(setup.dist, "get_backend", lambda: "gloo")
    monkeypatch.setattr(setup, "parse_device", lambda *_: torch.device("cuda"))
    monkeypatch.setattr(setup, "join_world", lambda device: device)
    config = AGENTS["a2c"].config_class(network="mlp", num_envs=8, cuda_graphs=True)
    with pytest.raises(ValueError, match=r"2 processes communicate by .gloo.; .* need .nccl."):
        AGENTS["a2c"](config, Catch(8))


def test_one_process_needs_no_group() -> None:
    values = torch.tensor([1.0, 2.0, 6.0])
    mean, std = distributed.global_moments(values)
    torch.testing.assert_close(mean, values.mean())
    torch.testing.assert_close(std, values.std())
    for moments in (distributed.global_moments, distributed.local_moments):
        assert moments(values, values > 5) == (6.0, 0.0)
        assert moments(values, values > 6) == (0.0, 0.0)
    assert (distributed.world_size(), distributed.rank()) == (1, 0)
    assert distributed.sum_over_ranks(values) is values
