"""Priorities: exact sums, proportional sampling, special values, entering and leaving."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cule.errors import InvalidArgumentError
from cule.replay import (
    CheckpointError,
    NotReadyError,
    PrioritizedOptions,
    PrioritizedReplay,
    native,
)
from cule.replay.permutation import permuted
from cule.replay.priority_sums import BLOCK_LEAVES, MASS_SCALE, PrioritySums

pytestmark = [
    pytest.mark.filterwarnings("ignore::cule.replay.ShortReplayWarning"),
    pytest.mark.usefixtures("one_thread"),
]

CPU = torch.device("cpu")


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """How far counts are from what is expected, in standard deviations of the statistic."""
    expected = probabilities * counts.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    return float((statistic - freedom) / math.sqrt(2 * freedom))


def filled(timesteps: int = 40, **options: object) -> PrioritizedReplay:
    """A buffer of one environment with as many transitions; the frame of timestep t is t."""
    replay = PrioritizedReplay(
        PrioritizedOptions(
            **{
                "capacity": timesteps,
                "obs_shape": (1,),
                "obs_dtype": torch.int64,
                "stack": 1,
                **options,
            }
        )
    )
    replay.start(np.zeros((1, 1), np.int64))
    add(replay, 1, timesteps + 1)
    return replay


def add(replay: PrioritizedReplay, begin: int, end: int) -> None:
    frames = np.arange(begin, end).reshape(-1, 1, 1)
    replay.append_block(
        frames=frames,
        actions=np.zeros((end - begin, 1), np.int64),
        rewards=np.zeros((end - begin, 1)),
        terminated=np.zeros((end - begin, 1), bool),
    )


def probabilities_of(replay: PrioritizedReplay, timesteps: range) -> np.ndarray:
    return replay.sample_at(list(timesteps)).probabilities.double().numpy()


def test_numbers_of_the_specification() -> None:
    """Priorities 1 2 0 4 8, alpha .6, beta .4, four transitions that count."""
    replay = filled(5, alpha=0.6, beta=0.4)
    replay.update_priorities(range(5), [1.0, 2.0, 0.0, 4.0, 8.0])
    batch = replay.sample_at(range(5))
    wanted = [0.12055, 0.18272, 0, 0.276951, 0.419779]
    np.testing.assert_allclose(batch.probabilities, wanted, atol=1.5e-6)
    # Ratios of weights do not depend on the number of transitions.
    np.testing.assert_allclose(batch.weights, [1, 0.846745, 0, 0.716978, 0.607097], atol=1.5e-6)


def test_frequencies() -> None:
    replay = filled(300)
    rng = np.random.default_rng(0)
    priorities = rng.exponential(size=300) * (rng.random(300) < 0.8)
    replay.update_priorities(range(300), priorities)
    counts = np.zeros(300)
    for _ in range(250):  # a million samples
        counts += np.bincount(replay.sample(4096).ids, minlength=300)
    wanted = priorities**0.6 / (priorities**0.6).sum()
    assert not counts[wanted == 0].any()
    sampled = wanted > 0
    # Stratified samples vary less than independent ones, so the statistic is below its mean.
    assert chi_square(counts[sampled], wanted[sampled]) < 4
    sums = replay._priorities.sums
    independent = sums.sample(
        torch.rand(1_000_000, dtype=torch.float64, generator=replay.generator)
    )
    spread = np.bincount(independent, minlength=300)[:300][sampled]
    assert -5 < chi_square(spread, wanted[sampled]) < 5
    assert chi_square(counts[sampled], wanted[sampled]) < chi_square(spread, wanted[sampled])


@pytest.mark.parametrize("leaves", [1, 100, 128, 129, 5000])
def test_sums_are_exact_after_a_million_updates(leaves: int) -> None:
    sums = PrioritySums(leaves, CPU)
    generator = torch.Generator().manual_seed(leaves)
    plain = np.zeros(leaves, np.int64)
    for _ in range(1_000_000 // 20_000 // 5 if leaves < 5000 else 1_000_000 // 20_000):
        index = torch.randint(leaves, (20_000,), generator=generator)
        # From far below a unit to the limit: 16 orders of magnitude.
        exponents = torch.rand(20_000, generator=generator, dtype=torch.float64) * 16 - 8
        masses = sums.masses(10.0**exponents, 0.9)
        sums.assign(index, masses)
        fresh = np.zeros(leaves, np.int64)
        np.maximum.at(fresh, index.numpy(), masses.numpy())
        plain[index.numpy()] = fresh[index.numpy()]
    assert np.array_equal(sums.leaves[:leaves], plain)
    padded = np.zeros(len(sums.block_sums) * BLOCK_LEAVES, dtype=object)
    padded[:leaves] = plain.tolist()  # whole numbers of any size
    assert sums.block_sums.tolist() == padded.reshape(-1, BLOCK_LEAVES).sum(1).tolist()
    assert int(sums.total()) == sum(plain.tolist())


def test_every_mass_belongs_to_its_leaf() -> None:
    """Samples at the first and last unit of every leaf land on it; never on an empty one."""
    sums = PrioritySums(700, CPU)
    rng = np.random.default_rng(0)
    masses = rng.integers(0, 4, 700) * rng.integers(0, 2, 700)
    masses[:BLOCK_LEAVES] = 0
    masses[-200:] = 0
    sums.assign(torch.arange(700), torch.from_numpy(masses))
    total = int(masses.sum())
    fractions = (torch.arange(total, dtype=torch.float64) + 0.5) / total
    assert np.array_equal(sums.sample(fractions), np.repeat(np.arange(700), masses))
    ends = torch.tensor([0.0, 1.0 - 2.0**-53, 1.0], dtype=torch.float64)
    assert (sums.leaves[sums.sample(ends)] > 0).all()


def test_zero_is_never_sampled_and_everything_else_may_be() -> None:
    for alpha in (0.0, 0.5, 1.0):
        replay = filled(50, alpha=alpha)
        priorities = np.zeros(50)
        priorities[7], priorities[9] = 1e-300, 1.0
        replay.update_priorities(range(50), priorities)
        ids = set(replay.sample(256).ids.tolist())
        assert ids <= {7, 9}
        assert probabilities_of(replay, range(50))[7] > 0
        replay.update_priorities([7, 9], [0.0, 0.0])
        batch = replay.sample(8)
        assert not batch.weights.any()
        assert torch.isfinite(batch.weights).all()


def test_huge_and_infinite_priorities_share_the_limit() -> None:
    replay = filled(50, alpha=1.0)
    replay.update_priorities([3, 4, 5], [math.inf, 1e300, replay.largest_priority])
    share = probabilities_of(replay, range(50))
    assert share[3] == share[4] == share[5] > 0.33
    assert math.isfinite(replay.max_priority)
    assert float(replay.max_priority) == replay.largest_priority
    batch = replay.sample(64)
    assert torch.isfinite(batch.weights).all()
    assert (batch.weights > 0).all()
    # All transitions at the limit: still no overflow.
    replay.update_priorities(range(50), [math.inf] * 50)
    assert 0 < int(replay.total_mass()) < 2**63 - 1
    np.testing.assert_allclose(probabilities_of(replay, range(50)), 1 / 50, rtol=1e-6)


def test_nan_and_negative_priorities_are_rejected_and_counted() -> None:
    replay = filled(10, alpha=1.0)
    replay.update_priorities(range(10), np.arange(1.0, 11.0))
    before = probabilities_of(replay, range(10))
    replay.update_priorities([0, 1, 2], [math.nan, -1.0, -math.inf])
    assert np.array_equal(probabilities_of(replay, range(10)), before)
    assert int(replay.num_rejected) == 3
    assert float(replay.max_priority) == 10
    # Beside a good value for the same transition, the good one counts.
    replay.update_priorities([0, 0, 0], [math.nan, 4.0, 3.0])
    assert probabilities_of(replay, range(10))[0] == pytest.approx(4 / 58)


def test_first_priorities() -> None:
    """The largest so far, or the caller's; counted from the moment the n steps are there."""
    replay = filled(10, n_step=3, alpha=1.0)
    assert np.array_equal(np.unique(probabilities_of(replay, range(8))), [np.float32(1 / 8)])
    replay.update_priorities([0], [5.0])
    no = np.zeros(1, bool)
    step = SimpleNamespace(
        frame=np.full((1, 1), 11), reward=[0.0], terminated=no, truncated=no, life_lost=no,
        first=no, final_frame=np.full((1, 1), 11),
    )  # fmt: skip
    replay.append([0], step)
    assert replay.newest_ids().tolist() == [8]
    np.testing.assert_allclose(
        probabilities_of(replay, range(9))[[0, 1, 8]], np.array([5, 1, 5]) / 17
    )
    replay.append([0], step, priorities=[2.5])
    replay.append([0], step, priorities=[math.nan])
    shares = probabilities_of(replay, range(2, 11))
    np.testing.assert_allclose(shares[-2:], np.array([2.5, 5]) / shares_total(replay), rtol=1e-6)


@pytest.mark.parametrize("is_native", [True, False])
def test_first_priorities_of_no_transition_have_no_effect(
    is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_native:
        monkeypatch.setattr(native, "is_used", lambda device: False)
    options = PrioritizedOptions(
        capacity=9, obs_shape=(1,), stack=1, n_step=2, autoreset_mode="NextStep"
    )
    replay = PrioritizedReplay(options)
    replay.start(np.zeros((1, 1), np.uint8))
    no, yes = np.zeros(1, bool), np.ones(1, bool)
    for ends, starts, priority in (
        (no, no, 1000.0),  # completes none
        (yes, no, 2.0),
        (no, yes, 3.0),
        (no, no, 1000.0),  # completes the reset
        (no, no, 0.5),
    ):
        step = SimpleNamespace(
            frame=np.zeros((1, 1), np.uint8), reward=[0.0], terminated=ends, truncated=no,
            life_lost=no, first=starts, final_frame=None,
        )  # fmt: skip
        replay.append([0], step, priorities=[priority])
    assert float(replay.max_priority) == 3.0
    masses = replay.sample_at(range(4)).probabilities * shares_total(replay)
    np.testing.assert_allclose(masses, np.array([2.0, 3.0, 0.0, 0.5]) ** 0.6, rtol=1e-5)


def shares_total(replay: PrioritizedReplay) -> float:
    return int(replay._priorities.sums.total()) / MASS_SCALE


@pytest.mark.parametrize("is_native", [True, False])
def test_timesteps_leave_with_the_ring_and_late_updates_change_nothing(
    is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_native:
        monkeypatch.setattr(native, "is_used", lambda device: False)
    replay = filled(20, stack=3, n_step=2)
    add(replay, 21, 31)
    oldest = replay.sample_at([replay.head - replay.num_timesteps + 3])
    assert oldest.weights[0] > 0
    add(replay, 31, 36)
    total = int(replay._priorities.sums.total())
    replay.update_priorities(oldest.ids, [1000.0])
    replay.update_priorities([replay.head, replay.head - 1, -5, 10**15], [1000.0] * 4)
    assert int(replay._priorities.sums.total()) == total == replay.num_valid * MASS_SCALE
    replay.update_priorities([*oldest.ids.tolist(), replay.head], [float("nan"), -1.0])
    assert (float(replay.max_priority), int(replay.num_rejected)) == (1.0, 0)
    assert not replay.sample_at(oldest.ids).weights.any()
    for _ in range(20):
        assert (replay.sample(32).weights > 0).all()


def test_importance_weights() -> None:
    replay = filled(30, alpha=0.7)
    priorities = np.random.default_rng(1).random(30) + 0.05
    replay.update_priorities(range(30), priorities)
    share = priorities**0.7 / (priorities**0.7).sum()
    for beta in (0.0, 0.4, 1.0):
        batch = replay.sample(16, beta=beta)
        ids = batch.ids.numpy()
        weights = (30 * share[ids]) ** -beta
        np.testing.assert_allclose(batch.weights, weights / weights.max(), rtol=1e-4)
    tensor_beta = replay.sample(16, beta=torch.tensor(0.0))
    assert (tensor_beta.weights == 1).all()


def test_invalid_calls_change_nothing() -> None:
    replay = filled(10)
    before = {name: value.clone() for name, value in replay.state_dict()["tensors"].items()}
    for ids, priorities in (
        ([0], [1.0, 2.0]), ([[0]], [[1.0]]), ([0.5], [1.0]), ([0], ["a"]), (["a"], [1.0]),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=r"ids|priorities"):
            replay.update_priorities(ids, priorities)
    tensors = (
        torch.tensor(math.nan),
        torch.tensor(1.1),
        torch.ones(3),
        torch.ones((), device="meta"),
    )
    for beta in (-0.1, 1.1, "a", *tensors, torch.tensor(True)):
        with pytest.raises(InvalidArgumentError, match="beta"):
            replay.sample(4, beta=beta)
    state = replay.state_dict()
    for name, bad in (("leaves", -1), ("leaves", 2**62), ("max_priority", math.nan)):
        damaged = {**before, name: torch.full_like(before[name], bad)}
        with pytest.raises(CheckpointError, match=f"the saved '{name}'"):
            replay.load_state_dict({**state, "tensors": damaged})
    with pytest.raises(InvalidArgumentError, match="replacement"):
        PrioritizedOptions(replacement=False)
    with pytest.raises(InvalidArgumentError, match="alpha"):
        PrioritizedOptions(alpha=2)
    for beta in (-0.1, 1.1, math.nan, "a"):
        with pytest.raises(InvalidArgumentError, match=r"beta is .* from 0.0 to 1.0"):
            PrioritizedOptions(beta=beta)  # type: ignore[arg-type]
    replay.update_priorities([], [])
    for name, value in replay.state_dict()["tensors"].items():
        assert torch.equal(value, before[name]), name
    empty = PrioritizedReplay(PrioritizedOptions(capacity=10))
    with pytest.raises(NotReadyError):
        empty.sample(1)


@pytest.mark.parametrize("size", [*range(1, 40), 63, 64, 65, 99, 100, 101, 1000, 4096, 10_007])
def test_permutations_are_permutations(size: int) -> None:
    for key in range(3):
        values = permuted(torch.arange(size), torch.tensor(size), torch.tensor(key * 7919))
        assert torch.equal(values.sort().values, torch.arange(size))


def test_permutations_are_even() -> None:
    """Where numbers go, and which come next to each other, is as good as chance."""
    for size in (5, 24):
        keys = torch.randint(2**62, (20_000,), generator=torch.Generator().manual_seed(0))
        first = permuted(torch.tensor(0), torch.tensor(size), keys)
        second = permuted(torch.tensor(1), torch.tensor(size), keys)
        counts = np.bincount(first * size + second, minlength=size * size).reshape(size, size)
        pairs = counts[~np.eye(size, dtype=bool)]
        assert not counts[np.eye(size, dtype=bool)].any()
        assert abs(chi_square(pairs, np.full(len(pairs), 1 / len(pairs)))) < 5
