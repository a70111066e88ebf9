"""What the time of rounds goes to, by the host's time and by the events of a GPU."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")

from cule.agents import clock  # noqa: E402
from cule.agents.clock import Clock  # noqa: E402
from tests.stand_in_gpu import stand_in_gpu  # noqa: E402


def play_rounds(measured: Clock, count: int) -> None:
    """Rounds of 4 ms, of which 2 emulate and 1 more collects."""
    for _ in range(count):
        with measured.part("round"):
            with measured.part("collect"):
                time.sleep(0.001)
                with measured.part("emulate"):
                    time.sleep(0.002)
            time.sleep(0.001)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_shares(device: str) -> None:
    with stand_in_gpu():
        measured = Clock(torch.device(device))
        assert measured.read_shares() == {}
        for _ in range(2):
            play_rounds(measured, 5)
            shares = measured.read_shares()
            assert sum(shares.values()) == pytest.approx(1.0)
            assert shares["emulate_share"] > max(shares["act_share"], shares["learn_share"]) > 0
        with measured.part("round"):
            pass
        assert measured.read_shares() == {}  # others collect


def test_rounds_on_a_gpu_are_looked_at_without_waiting_and_not_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock, "MOST_ROUNDS", 3)
    with stand_in_gpu() as gpu:
        measured = Clock(torch.device("cuda"))
        play_rounds(measured, 2)
        with measured.part("round"), measured.part("collect"):
            time.sleep(0.02)
        play_rounds(measured, 10)
        assert not gpu.waits
        assert measured.read_shares()["act_share"] > 0.5
        play_rounds(measured, 1)
        assert measured.read_shares()["act_share"] < 0.5


def test_steps_in_a_graph_are_not_told_apart() -> None:
    with stand_in_gpu():
        measured = Clock(torch.device("cuda"))
        with torch.cuda.graph(torch.cuda.CUDAGraph()), measured.part("emulate"):
            pass
        with measured.part("round"), measured.part("collect"):
            time.sleep(0.001)
        assert set(measured.read_shares()) == {"learn_share"}
