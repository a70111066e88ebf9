"""What the time of rounds goes to, by the host's time and by the events of a GPU."""

from __future__ import annotations

import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule.agents.parts import timer  # noqa: E402
from cule.agents.parts.timer import PhaseTimer  # noqa: E402
from tests.support.fake_cuda import fake_cuda  # noqa: E402


@pytest.fixture(autouse=True)
def _fake_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves by `time.sleep` alone, for the timer and for the events of the fake GPU."""
    slept_s: list[float] = []
    monkeypatch.setattr(time, "sleep", slept_s.append)
    monkeypatch.setattr(time, "perf_counter", lambda: sum(slept_s))


def play_rounds(measured: PhaseTimer, count: int) -> None:
    """Rounds of 4 ms, of which 2 emulate and 1 more collects."""
    for _ in range(count):
        with measured.phase("round"):
            with measured.phase("collect"):
                time.sleep(0.001)
                with measured.phase("emulate"):
                    time.sleep(0.002)
            time.sleep(0.001)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shares(device: str) -> None:
    with fake_cuda():
        measured = PhaseTimer(torch.device(device))
        assert measured.read_shares() == {}
        for _ in range(2):
            play_rounds(measured, 5)
            shares = measured.read_shares()
            assert sum(shares.values()) == pytest.approx(1.0)
            assert shares["emulate_share"] > max(shares["act_share"], shares["learn_share"]) > 0
        with measured.phase("round"):
            pass
        assert measured.read_shares() == {}  # others collect


def test_rounds_on_a_gpu_are_looked_at_without_waiting_and_not_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timer, "MAX_ROUNDS", 3)
    with fake_cuda() as gpu:
        measured = PhaseTimer(torch.device("cuda"))
        play_rounds(measured, 2)
        with measured.phase("round"), measured.phase("collect"):
            time.sleep(0.02)
        play_rounds(measured, 10)
        assert not gpu.waits
        assert measured.read_shares()["act_share"] > 0.5
        play_rounds(measured, 1)
        assert measured.read_shares()["act_share"] < 0.5


def test_what_is_in_no_round_leaves_no_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who calls `train` by himself reads them."""
    made: list[Any] = []
    with fake_cuda():
        event = torch.cuda.Event
        monkeypatch.setattr(torch.cuda, "Event", lambda **kwargs: made.append(0) or event(**kwargs))
        measured = PhaseTimer(torch.device("cuda"))
        with measured.phase("collect"), measured.phase("emulate"):
            pass
        assert not made
        play_rounds(measured, 1)
        assert len(made) == 6
        with measured.phase("collect"):
            pass
        assert len(made) == 6


def test_events_are_of_the_networks_device(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set()
    with fake_cuda() as gpu:
        monkeypatch.setattr(
            torch.cuda, "current_stream", lambda device: asked.add(device) or gpu.order.current
        )
        play_rounds(PhaseTimer(torch.device("cuda:1")), 1)
    assert asked == {torch.device("cuda:1")}


def test_environments_that_nobody_waits_for_are_not_told_apart() -> None:
    measured = PhaseTimer(torch.device("cpu"), separates_emulation=False)
    play_rounds(measured, 1)
    assert set(measured.read_shares()) == {"learn_share"}


def test_steps_in_a_graph_are_not_told_apart() -> None:
    with fake_cuda():
        measured = PhaseTimer(torch.device("cuda"))
        with torch.cuda.graph(torch.cuda.CUDAGraph()), measured.phase("emulate"):
            pass
        with measured.phase("round"), measured.phase("collect"):
            time.sleep(0.001)
        assert set(measured.read_shares()) == {"learn_share"}
