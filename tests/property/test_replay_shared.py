"""The buffer between processes: its content, and that dying writers do not damage it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cule.errors import InvalidArgumentError
from cule.replay import (
    CapacityError,
    CheckpointError,
    DisconnectedError,
    NotReadyError,
    ReplayWriter,
    SharedHandle,
    SharedOptions,
    SharedPrioritizedReplay,
    byte_locks,
)
from cule.replay.byte_locks import ByteLocks
from cule.tensor_files import load_tensors, save_tensors
from tests.support.cases import long_except
from tests.support.replay_model import ListReplay, RandomEpisodes

pytestmark = pytest.mark.usefixtures("one_thread")

#: As with "spawn", nothing of this process is inherited, but torch is imported only once.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["cule.replay"])
FEATURES = 300

#: Of a wait for the end of a process, seconds.
LIMIT_S = 300


def fields_of(step: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**{name: value for name, value in step.items() if name != "action"})


def key_of(obs: np.ndarray, action: int, n_step_return: float, discount: float) -> tuple[Any, ...]:
    return (obs.tobytes(), action, float(n_step_return), float(discount))


@pytest.mark.parametrize("seed", long_except(range(12), every=3))
def test_transitions_are_those_of_the_lists(seed: int) -> None:
    """As a multiset, with next observations: everything is published once, and read back so."""
    rng = np.random.default_rng(seed)
    n, same_step = int(rng.integers(1, 4)), bool(rng.integers(2))
    stack, n_step = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    options = SharedOptions(
        capacity=4000,
        num_envs=n,
        obs_shape=(2,),
        stack=stack,
        n_step=n_step,
        gamma=0.9,
        pad=str(rng.choice(["zero", "repeat"])),
        block_size=int(rng.integers(1, 20)),
        autoreset_mode="SameStep" if same_step else "NextStep",
    )
    episodes = RandomEpisodes(n, rng, same_step=same_step, end_chance=0.15)
    models = [
        ListReplay(stack=stack, pad=options.pad, n_step=n_step, gamma=0.9, same_step=same_step)
        for _ in range(n)
    ]
    given: list[float] = []

    def prioritize(batch: Any) -> torch.Tensor:
        priorities = torch.rand(len(batch.returns)) + 0.1
        given.extend(priorities[batch.weights > 0].tolist())
        return priorities

    with SharedPrioritizedReplay(options) as replay:
        with ReplayWriter(pickle.loads(pickle.dumps(replay.handle())), 0, prioritize) as writer:
            for _ in range(2):
                frames = episodes.frames()
                episodes.ended[:] = False
                writer.start(frames)
                for env, model in enumerate(models):
                    model.start(frames[env])
                for _ in range(int(rng.integers(1, 60))):
                    step = episodes.step()
                    writer.append(step["action"], fields_of(step))
                    for env, model in enumerate(models):
                        model.append(**{name: values[env] for name, values in step.items()})
        replay.poll()
        wanted: dict[tuple[Any, ...], list[Any]] = {}
        for model in models:
            # Final frames have a timestep of their own, which delays the next ones by a step.
            for timestep in range(model.head - n_step + 1):
                expected = model.expected(timestep)
                if expected.is_real:
                    key = key_of(
                        expected.obs, expected.action, expected.n_step_return, expected.discount
                    )
                    wanted.setdefault(key, []).append(expected.next_obs)
        num_real = sum(len(values) for values in wanted.values())
        leaves = replay._priorities.sums.leaves[:-1].nonzero().squeeze(1)
        assert len(leaves) == len(given)
        # All leaves together are all transitions.
        found = replay._weighed(leaves, replay._read(leaves), 0.4)
        seen = 0
        for i in range(len(leaves)):
            key = key_of(
                found.obs[i].numpy(),
                int(found.actions[i]),
                found.returns[i].item(),
                found.discounts[i].item(),
            )
            # A final frame in a timestep of its own completes one more of the newest transitions.
            candidates = wanted.get(key)
            if candidates is None:
                continue
            next_obs = found.next_obs[i].numpy()
            matches = [
                k for k, c in enumerate(candidates) if c is None or np.array_equal(c, next_obs)
            ]
            assert matches
            candidates.pop(matches[0])
            seen += 1
        assert seen == num_real
        assert len(leaves) - num_real <= n * n_step
        np.testing.assert_allclose(
            sorted(found.probabilities.numpy()),
            np.sort(np.array(given) ** 0.6 / (np.array(given) ** 0.6).sum()),
            rtol=1e-4,
        )


def make_step(rng: np.random.Generator, serial: int) -> SimpleNamespace:
    """A step whose frame carries a checksum of itself, and its serial number."""
    frame = rng.integers(0, 2**31, (1, FEATURES))
    frame[0, 0] = serial
    frame[0, -1] = checksum(frame[0, :-1])
    no = np.zeros(1, bool)
    return SimpleNamespace(
        frame=frame,
        reward=np.full(1, serial % 4096, np.float32),
        terminated=no,
        truncated=no,
        life_lost=no,
        first=no,
        final_frame=frame,
    )


def checksum(values: np.ndarray) -> Any:
    return (values * np.arange(1, values.shape[-1] + 1)).sum(-1) % (2**31)


def write_forever(handle: SharedHandle, index: int, seed: int, confirmed: Any) -> None:
    """Append forever; report in shared memory what has certainly been published."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    serial = 0
    try:
        with ReplayWriter(handle, index) as writer:
            writer.start(make_step(rng, serial).frame)
            while True:
                serial += 1
                writer.append(np.full(1, serial), make_step(rng, serial))
                if serial % 64 == 0:
                    confirmed[index] = writer.num_published
    except DisconnectedError:
        sys.exit(3)


def stress(num_kills: int) -> None:
    """4 writers, of which one is killed and replaced again and again, and a busy learner."""
    options = SharedOptions(
        capacity=1500,
        obs_shape=(FEATURES,),
        obs_dtype=torch.int64,
        stack=2,
        n_step=2,
        num_writers=4,
        block_size=32,
    )
    confirmed = SERVER.Array("q", 4, lock=False)
    rng = np.random.default_rng(0)
    serials = np.random.SeedSequence(0).generate_state(10_000)
    with SharedPrioritizedReplay(options) as replay:

        def spawn(index: int, seed: int) -> Any:
            process = SERVER.Process(
                target=write_forever, args=(replay.handle(), index, seed, confirmed), daemon=True
            )
            process.start()
            return process

        processes = [spawn(index, int(serials[index])) for index in range(4)]
        kills = samples = 0
        next_kill = None  # in samples: clocks say little on a busy machine
        while kills < num_kills:
            if next_kill is None and replay.poll() >= 0 and all(confirmed):
                next_kill = samples + 50
            if replay.num_valid == 0:
                continue
            batch = replay.sample(64)
            samples += 1
            assert (batch.weights > 0).all()
            for frames in (batch.obs.numpy(), batch.next_obs.numpy()):
                whole = checksum(frames[..., :-1]) == frames[..., -1]
                padding = ~frames.any(-1)
                assert (whole | padding).all()
                assert whole[:, -1].all()
            # Timesteps of one transition belong together: serial numbers follow each other.
            serial = batch.obs[:, -1, 0]
            assert torch.equal(batch.next_obs[:, -1, 0], serial + 2)
            assert torch.equal(batch.actions, serial + 1)
            rewards = (serial + 1) % 4096 + options.gamma * ((serial + 2) % 4096)
            torch.testing.assert_close(batch.returns.double(), rewards.double(), rtol=1e-5, atol=0)
            replay.update_priorities(batch.ids, torch.rand(64) + 0.01)
            if next_kill is not None and samples > next_kill and processes[kills % 4].is_alive():
                victim = kills % 4
                before = confirmed[victim]
                os.kill(processes[victim].pid, signal.SIGKILL)
                processes[victim].join(LIMIT_S)
                status = replay.writers()[victim]
                assert not status.is_alive
                # It may have been killed between handing over and saying so, a few blocks at most.
                assert before <= status.num_published <= before + 6 * options.block_size
                kills += 1
                processes[victim] = spawn(victim, int(serials[4 + kills]))
                next_kill = samples + int(rng.integers(50, 200))
        started = sum(status.num_published for status in replay.writers())
        assert started >= sum(confirmed)
        # The first block of a writer has no timesteps before it, so as many more transitions.
        assert 0 < replay.num_valid <= len(replay._known) * (options.block_size + options.stack - 1)
        for process in processes[:2]:
            os.kill(process.pid, signal.SIGKILL)
        for process in processes[:2]:
            process.join(LIMIT_S)
        # All counts that are left on the learner's side agree with the headers.
        replay.poll()
        headers = replay._shared.headers
        with replay._shared.locks.held(0):
            published = headers[headers[:, 0] == 2]
            replay._poll_locked()
            assert replay.num_valid == published[:, 5].sum()
        sums = replay._priorities.sums
        kept = sums.block_sums.clone()
        sums.rebuild()
        assert torch.equal(kept, sums.block_sums)
    for process in processes[2:]:
        process.join(LIMIT_S)
        assert process.exitcode == 3  # the learner has closed the buffer


def test_writers_that_die_while_writing() -> None:
    stress(5)


@pytest.mark.slow
def test_writers_that_die_while_writing_many_times() -> None:
    stress(200)


def test_a_writer_killed_in_every_state_blocks_no_other() -> None:
    """Reserved and never published; the block is used again, the count stays exact."""
    options = SharedOptions(
        capacity=8, obs_shape=(1,), stack=1, num_writers=2, block_size=4, n_step=1
    )
    with SharedPrioritizedReplay(options) as replay:
        assert len(replay._known) == 4
        doomed = ReplayWriter(replay.handle(), 0)
        assert doomed._shared.reserve(0) == 0
        with ReplayWriter(replay.handle(), 1) as other:
            for block in [other._shared.reserve(1) for _ in range(3)]:
                other._shared.publish(block, 0, 4)
            # Skipped while its writer is alive, however often the blocks wrap around.
            assert [other._shared.reserve(1) for _ in range(1)] == [1]
            doomed._shared.locks.close()  # what the kernel does when it dies
            blocks = []
            for _ in range(4):
                taken = other._shared.reserve(1)
                other._shared.publish(taken, 0, 4)
                blocks.append(taken)
            assert sorted(blocks) == [0, 1, 2, 3]
            assert replay.writers() == [(False, 0), (True, 28)]


def test_locks_go_with_their_holder(tmp_path: Path) -> None:
    path = tmp_path / "locks"
    path.write_bytes(b"\0" * 8)
    one, two = ByteLocks(str(path)), ByteLocks(str(path))
    assert one.try_acquire(1)
    assert not two.try_acquire(1)
    assert two.is_held_elsewhere(1)
    assert not one.is_held_elsewhere(1)
    one.close()
    assert two.try_acquire(1)
    # The file alone: the package would import torch.
    code = f"import runpy; ByteLocks = runpy.run_path({byte_locks.__file__!r})['ByteLocks']\n"
    code += f"l = ByteLocks({str(path)!r})\nwith l.held(2):\n  print('held', flush=True)\n  import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        assert not two.try_acquire(2)
        process.kill()
    with two.held(2):
        pass


def append_many(writer: ReplayWriter, step: SimpleNamespace) -> None:
    """More than a block."""
    for _ in range(20):
        writer.append([0], step)


def test_the_learner_goes_first() -> None:
    options = SharedOptions(capacity=100, obs_shape=(1,), stack=1, block_size=4)
    replay = SharedPrioritizedReplay(options)
    handle = replay.handle()
    no = np.zeros(1, bool)
    frame = np.zeros((1, 1), np.uint8)
    step = SimpleNamespace(
        frame=frame,
        reward=[0.0],
        terminated=no,
        truncated=no,
        life_lost=no,
        first=no,
        final_frame=frame,
    )
    writer = ReplayWriter(handle, 0)
    writer.start(frame)
    replay.close()
    replay.close()
    with pytest.raises(DisconnectedError, match="closed"):
        append_many(writer, step)
    writer.close()
    with pytest.raises(DisconnectedError, match="closed"):
        writer.append([0], step)
    with pytest.raises(DisconnectedError, match="closed"):
        writer.start(frame)
    with pytest.raises(DisconnectedError, match="gone"):
        ReplayWriter(handle, 0)
    with pytest.raises(DisconnectedError, match="closed"):
        replay.sample(1)

    # A learner that is killed says nothing, but its lock does.
    killed = SharedPrioritizedReplay(options)
    with ReplayWriter(killed.handle(), 0) as survivor:
        survivor.start(frame)
        killed._shared.locks.close()
        with pytest.raises(DisconnectedError, match="ended"):
            append_many(survivor, step)
    killed.close()


def test_first_priorities_of_ignored_steps_have_no_effect() -> None:
    options = SharedOptions(
        capacity=100, obs_shape=(1,), stack=1, block_size=4, autoreset_mode="NextStep"
    )
    no, yes = [False], [True]
    with SharedPrioritizedReplay(options) as replay:

        def prioritize(batch: Any) -> torch.Tensor:
            return torch.where(batch.weights > 0, 2.0, 1000.0)

        with ReplayWriter(replay.handle(), 0, prioritize) as writer:
            writer.start(np.zeros((1, 1), np.uint8))
            for ends, starts in ((yes, no), (no, yes), (no, no)):
                step = SimpleNamespace(
                    frame=np.zeros((1, 1), np.uint8), reward=[0.0], terminated=ends, truncated=no,
                    life_lost=no, first=starts, final_frame=None,
                )  # fmt: skip
                writer.append([0], step)
        assert replay.poll() == 3
        assert float(replay.max_priority) == 2.0


def test_bad_arguments_are_rejected(tmp_path: Path) -> None:
    options = SharedOptions(capacity=100, obs_shape=(1,), stack=1, block_size=4, num_writers=2)
    with SharedPrioritizedReplay(options) as replay:
        with pytest.raises(NotReadyError):
            replay.sample(4)
        with pytest.raises(InvalidArgumentError, match="index"):
            ReplayWriter(replay.handle(), 2)
        with ReplayWriter(replay.handle(), 1) as writer:
            with pytest.raises(InvalidArgumentError, match="alive"):
                ReplayWriter(replay.handle(), 1)
            with pytest.raises(NotReadyError, match="start"):
                writer.append([0], make_step(np.random.default_rng(0), 1))
            with pytest.raises(InvalidArgumentError, match="frame"):
                writer.start(np.zeros((1, 2), np.uint8))
            with pytest.raises(NotReadyError, match="join"):
                replay.load(tmp_path / "none")
        for batch_size in (0, -1, 2.0, True):
            with pytest.raises(InvalidArgumentError, match="batch_size"):
                replay.sample(batch_size)
    with pytest.raises(CapacityError, match="hold"):
        SharedPrioritizedReplay(SharedOptions(capacity=10**10))
    with pytest.raises(CapacityError, match="needed"):
        SharedPrioritizedReplay(SharedOptions(capacity="1KB"))


def test_save_and_load(tmp_path: Path) -> None:
    options = SharedOptions(
        capacity=200, obs_shape=(FEATURES,), obs_dtype=torch.int64, stack=1, block_size=8
    )
    rng = np.random.default_rng(0)
    path = tmp_path / "shared.replay"
    with SharedPrioritizedReplay(options) as replay:
        with ReplayWriter(replay.handle(), 0) as writer:
            writer.start(make_step(rng, 0).frame)
            for serial in range(1, 60):
                writer.append([serial], make_step(rng, serial))
        replay.update_priorities(replay.sample(16).ids, torch.rand(16))
        replay.update_priorities([-5, 10**15], [1e6, -1.0])  # never in the buffer
        assert (float(replay.max_priority), int(replay.num_rejected)) == (1.0, 0)
        replay.save(path)
        batch = replay.sample(32)
    with SharedPrioritizedReplay(options) as other:
        other.load(path)
        assert other.num_valid == 59
        assert other.writers() == [(False, 59)]
        other.generator.manual_seed(options.seed)
        _ = other._sample_leaves(16)
        for mine, theirs in zip(other.sample(32), batch, strict=True):
            assert torch.equal(mine, theirs)
    other_options = SharedOptions(
        capacity=200, obs_shape=(FEATURES,), obs_dtype=torch.int64, stack=1, block_size=9
    )
    with SharedPrioritizedReplay(other_options) as third:
        with pytest.raises(CheckpointError, match="block_size"):
            third.load(path)
        assert third.num_valid == 0


def test_files_with_damaged_headers_are_refused(tmp_path: Path) -> None:
    options = SharedOptions(
        capacity=40, obs_shape=(FEATURES,), obs_dtype=torch.int64, stack=1, block_size=8
    )
    rng = np.random.default_rng(0)
    path, forged = tmp_path / "shared.replay", tmp_path / "forged.replay"
    with SharedPrioritizedReplay(options) as replay:
        with ReplayWriter(replay.handle(), 0) as writer:
            writer.start(make_step(rng, 0).frame)
            for serial in range(1, 40):
                writer.append([serial], make_step(rng, serial))
        replay.save(path)
    state: Any = load_tensors(path)
    tensors = state["tensors"]
    columns = range(tensors["headers"].shape[1])
    wrong: list[tuple[str, tuple[int, ...], int]]
    wrong = [("headers", (0, k), value) for k in columns for value in (-1, 2**62 + 1, -(2**63))]
    # A state, a writer, and live cells that there are not.
    wrong += [("headers", (0, k), value) for k, value in ((0, 3), (2, 1), (2, 5), (4, 99), (5, 99))]
    wrong += [("num_live", (0,), value) for value in (-1, 99)]
    for name, place, value in wrong:
        damaged = tensors[name].clone()
        damaged[place] = value
        save_tensors(forged, {**state, "tensors": {**tensors, name: damaged}})
        with SharedPrioritizedReplay(options) as other:
            with pytest.raises(CheckpointError, match=f"the saved '{name}' is"):
                other.load(forged)
            other.load(path)
            assert other.writers() == [(False, 39)]
            with ReplayWriter(other.handle(), 0) as writer:
                writer.start(make_step(rng, 0).frame)
                writer.append([1], make_step(rng, 1))
            assert other.sample(8).ids.shape == (8,)


def test_other_systems_have_no_locks(tmp_path: Path) -> None:
    """Where fcntl is missing, the package is imported, and only this replay says that it cannot."""
    code = (
        "import multiprocessing.heap, multiprocessing.shared_memory, sys, torch, cule\n"
        "sys.platform, sys.modules['fcntl'] = 'win32', None\n"
        "import cule.replay\n"
        "from cule.replay.byte_locks import ByteLocks\n"
        f"ByteLocks({str(tmp_path / 'file')!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "CuleError: this system is 'win32'; replay that is shared by" in done.stderr
