"""CUDA graphs of acting and learning, with a recorder of tensor operations in the device's place.

What only a device can show (that the operations can be captured there) is in tests/gpu.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule.agents import AGENTS  # noqa: E402
from cule.agents.parts import graphs  # noqa: E402
from cule.agents.parts.graphs import CapturedCall  # noqa: E402
from cule.agents.parts.learner import progress_of  # noqa: E402
from cule.agents.run.checkpoint import load_state  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from tests.support.cases import long_except  # noqa: E402
from tests.support.learners import (  # noqa: E402
    SMALL,
    allow_graphs_on_cpu,
    class_of,
    collect,
    small_learner,
)
from tests.support.recorded_graph import (  # noqa: E402
    Launches,
    NothingRead,
    as_one_operation,
    record_graphs,
)

#: Of each algorithm, and of its variants.
UPDATES, FEW_UPDATES = 100, 12


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings in place of graphs, on the CPU."""
    record_graphs(monkeypatch)


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learners with graphs on the CPU."""
    allow_graphs_on_cpu(monkeypatch)


def train(
    name: str, updates: int = FEW_UPDATES, **options: Any
) -> tuple[Any, list[dict[str, float]]]:
    """A small learner after some rounds, more than are called, and what it logged."""
    agent = small_learner(name, cuda_graphs=True, **options)
    logged = []
    for progress in agent.train():
        logged.append({key: float(value) for key, value in progress.metrics.items()})
        if agent.updates >= updates and len(logged) > 2 * graphs.WARM_UP_CALLS:
            break
    return agent, logged


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("name", "changes"),
    long_except(
        [(name, {}) for name in sorted(AGENTS)]
        + [
            ("ppo", {"target_kl": 1e-5}),
            ("ppo-continuous", {"target_kl": 1e-5}),
            ("ppo", {"adaptive_kl": 1e-3, "normalize_values": True}),
            ("ppo", {"entropy_coef_end": 0.0, "clip_range_end": 0.0, "clip_values": True}),
            ("rainbow", {"prioritized": False}),
        ],
        ("ppo", {"target_kl": 1e-5}),
    ),
)
def test_replays_learn_the_same(
    name: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights and metrics, bit for bit, with a learning rate that changes where one can."""
    options = {"total_steps": 100_000, **changes}
    if hasattr(class_of(name).config_class, "learning_rate_schedule"):
        options.setdefault("learning_rate_schedule", "linear")
    updates = FEW_UPDATES if changes else UPDATES
    replayed, metrics = train(name, updates, **options)
    assert len(replayed.setup.graphs.calls) == 2
    assert replayed.setup.graphs.are_captured
    monkeypatch.setattr(CapturedCall, "_run", lambda call, *inputs: call._function(*inputs))
    called, expected = train(name, updates, **options)
    assert not called.setup.graphs.are_captured
    assert metrics == expected
    assert replayed.updates == called.updates
    assert replayed.steps == called.steps
    for mine, theirs in zip(
        replayed.network.state_dict().values(), called.network.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, theirs)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("name", long_except(sorted(SMALL), "a2c"))
def test_an_update_is_one_replay(name: str) -> None:
    """Draw, gather, forward, backward, optimizer and priorities, with nothing launched apart.

    With `overlap` batches are drawn before, and their priorities set after, learning and acting.
    """
    has_target = hasattr(class_of(name).config_class, "target_interval")
    options = {"target_interval": 1 << 20} if has_target else {}
    agent, _ = train(name, total_steps=100_000, **options)
    collect(agent, 8)
    before = [p.clone() for p in agent.network.parameters()]
    with Launches() as launches:
        metrics = agent.update() if hasattr(agent, "update") else agent.learn_once()
    assert launches.replays == 1
    if getattr(agent.config, "overlap", False):
        assert launches.eager
    else:
        assert not launches.eager
    assert any(
        not torch.equal(p, old) for p, old in zip(agent.network.parameters(), before, strict=True)
    )
    with Launches() as launches:
        progress_of(agent, metrics)
    copies = [name for name in launches.eager if name == "aten::stack"]
    assert len(copies) == 1  # of all metrics


@pytest.mark.parametrize("name", long_except(sorted(SMALL), every=6))
def test_nothing_is_read_between_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rounds without a look at a number: the device is waited for by rows alone."""
    agent = small_learner(name, total_steps=100_000)
    monkeypatch.setattr(agent.setup, "can_sync", False)
    monkeypatch.setattr(agent.setup, "step_env", as_one_operation(agent.setup.step_env))
    # What it reads of its own on a CPU lies on the host on a GPU as well.
    monkeypatch.setattr(agent.optimizer, "step", as_one_operation(agent.optimizer.step))
    for _ in agent.train():
        if agent.updates >= FEW_UPDATES:
            break
    with NothingRead():
        for _ in zip(range(3), agent.train(), strict=False):
            pass
        with pytest.raises(AssertionError, match="_local_scalar_dense"):
            agent.statistics.sums.sum().item()


@pytest.mark.usefixtures("on_cpu")
def test_a_resumed_learner_captures_anew(tmp_path: Any) -> None:
    agent, _ = train("ppo", total_steps=100_000, learning_rate_schedule="linear")
    agent.save(tmp_path / "at.pt")
    rate = float(agent.optimizer.param_groups[0]["lr"])
    for _ in zip(range(2), agent.train(), strict=False):
        pass
    again = small_learner(
        "ppo", cuda_graphs=True, total_steps=100_000, learning_rate_schedule="linear"
    )
    from cule.agents.run.checkpoint import read_checkpoint

    load_state(again, read_checkpoint(tmp_path / "at.pt"))
    assert float(again.optimizer.param_groups[0]["lr"]) == rate
    for _ in zip(range(2), again.train(), strict=False):
        pass
    for mine, theirs in zip(again.network.parameters(), agent.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_calls_of_other_shapes_have_graphs_of_their_own() -> None:
    sums = torch.zeros(())

    def add(x: Any) -> Any:
        sums.add_(x.sum())
        return {"sum": sums, "twice": 2 * x}

    call = CapturedCall(add, torch.device("cpu"))
    total = 0.0
    for k in range(8):
        for n in (2, 3):
            x = torch.full((n,), float(k))
            total += k * n
            result = call(x)
            assert float(result["sum"]) == total
            assert torch.equal(result["twice"], 2 * x)
            result["twice"].zero_()  # the caller's, not the graph's
    assert len(call.captures) == 2
    call.forget()
    assert not call.captures


def test_a_call_is_not_captured_before_it_is_ready() -> None:
    is_ready = False
    call = CapturedCall(lambda x: x + 1, torch.device("cpu"), is_ready=lambda: is_ready)
    for _ in range(graphs.WARM_UP_CALLS + 2):
        assert torch.equal(call(torch.zeros(2)), torch.ones(2))
    assert not call.captures
    is_ready = True
    assert torch.equal(call(torch.zeros(2)), torch.ones(2))
    assert call.captures


def test_reading_a_value_cannot_be_captured() -> None:
    call = CapturedCall(lambda x: x * float(x.sum()), torch.device("cpu"))
    for _ in range(graphs.WARM_UP_CALLS):
        call(torch.ones(3))
    with pytest.raises(RuntimeError, match="reads a value"):
        call(torch.ones(3))


def test_a_cpu_has_no_graphs() -> None:
    with pytest.raises(InvalidArgumentError, match="cuda_graphs is True and device 'cpu'"):
        small_learner("a2c", cuda_graphs=True)
