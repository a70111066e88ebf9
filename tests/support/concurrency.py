"""Random calls of several threads, forks and signals on one environment: ``python -m`` this file.

Each call returns a well-formed result or raises a `CuleError` (in the main thread also
``KeyboardInterrupt``), none waits for ever, and afterwards a reset by seed is as that of a new
environment.

Usage: python -m tests.support.concurrency KIND FIRST_SEED CASES
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import cule
from cule.errors import ClosedError, CuleError
from tests.support.runs import make

CASE_SECONDS = 30  # a case that takes longer hangs
THREADS, CALLS = 3, 12
CHILD_SECONDS = 10
COMPILE_SECONDS = 300  # of the mock GPU, once
ROOT = Path(__file__).parents[2]


def make_ale() -> cule.ALEInterface:
    """A console that plays pong."""
    from cule.games.roms import find_rom
    from cule.games.schema import load_roms

    ale = cule.ALEInterface()
    ale.setInt("random_seed", 3)
    ale.loadROM(find_rom("pong", {load_roms()["pong"].md5}).path)
    return ale


def make_parallel() -> Any:
    """An environment of PettingZoo, which need not be installed."""
    from cule.pettingzoo import parallel_env

    return parallel_env("joust_v3", obs_type="ram", seed=1)


#: Classes of environments, and what they differ in.
KINDS: dict[str, Callable[[], Any]] = {
    "one thread": lambda: make("breakout", 4),
    "threads": lambda: make("breakout", 6, num_threads=3),
    "asynchronous": lambda: make("breakout", 6, num_threads=2, batch_size=2),
    "cached": lambda: make("pong", 4, num_threads=2, resets="cached", num_reset_states=3),
    "decorrelated": lambda: make("pong", 4, num_threads=2, decorrelate_steps=40),
    "players": lambda: cule.MultiAgentVectorEnv("joust", 3, num_threads=2),
    "single": lambda: cule.AtariEnv("pong"),
    "ale": make_ale,
    # The checker of Gymnasium is for one thread.
    "gymnasium": lambda: gymnasium.make("cule/Pong-v5", disable_env_checker=True),
    "gymnasium vector": lambda: gymnasium.make_vec("cule/Pong-v5", 4, num_threads=2),
    "cuda": lambda: make("breakout", 2, device="cuda", num_threads=0),
    "parallel": make_parallel,
}
#: Those that signals do not interrupt: the mock GPU is made of torch's modes, which keep a stack.
WITHOUT_SIGNALS = ("cuda",)
#: Those without the calls of `cule.AtariVectorEnv` beyond Gymnasium.
ONE_CONSOLE = ("single", "ale", "gymnasium", "parallel")


class Case:
    """One environment, and calls that are drawn from a seed."""

    def __init__(self, kind: str, seed: int) -> None:
        """Make the environment; the calls are drawn by each thread from a stream of its own."""
        self.kind, self.seed = kind, seed
        self.env = KINDS[kind]()
        self.is_closed = False
        self.errors: list[BaseException] = []
        calls = [self.step] * 4 + [self.reset] * 2
        if kind == "ale":
            self.calls = [*calls, self.look, self.fork]
            return
        self.calls = [*calls, self.pickle, self.fork]
        if kind not in ONE_CONSOLE:
            self.calls += [self.look, self.send, self.send, self.recv, self.recv, self.states]
        if random.Random(f"{kind} {seed}").random() < 0.3:
            self.calls.append(self.close)

    # --- calls ---
    def step(self, rng: random.Random) -> None:
        if self.kind == "ale":
            assert isinstance(self.env.act(rng.randrange(2)), int)
            return
        obs = self.env.step(self.actions())[0]
        if self.kind == "parallel":
            assert all(seen.shape == (128,) for seen in obs.values())
        else:
            assert obs.shape == self.env.observation_space.shape

    def reset(self, rng: random.Random) -> None:
        if self.kind == "ale":
            self.env.reset_game()
        else:
            self.env.reset(seed=rng.choice((None, 3)))

    def send(self, rng: random.Random) -> None:
        self.env.send(self.actions())

    def recv(self, rng: random.Random) -> None:
        assert self.env.recv()[0].shape == self.env.observation_space.shape

    def look(self, rng: random.Random) -> None:
        if self.kind == "ale":
            assert self.env.getScreenRGB().shape == (210, 160, 3)
            self.env.restoreState(self.env.cloneState())
        else:
            assert self.env.observe()[0].shape[1:] == self.env.single_observation_space.shape

    def states(self, rng: random.Random) -> None:
        states = self.env.get_state()
        self.env.set_state(states[:1], [rng.randrange(len(states))])

    def pickle(self, rng: random.Random) -> None:
        pickle.loads(pickle.dumps(self.env)).close()

    def close(self, rng: random.Random) -> None:
        self.is_closed = True
        self.env.close()

    def fork(self, rng: random.Random) -> None:
        child = os.fork()
        if child == 0:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(CHILD_SECONDS)
            status = 1
            try:
                for call in (self.step, self.reset):
                    self.allow(lambda call=call: call(rng))
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0, "a child waits, or fails"

    def actions(self) -> Any:
        if self.kind in ("single", "gymnasium"):
            return 0
        if self.kind == "parallel":
            return dict.fromkeys(self.env.possible_agents, 0)
        return np.zeros(self.env.action_space.shape, np.int64)

    # --- the case ---
    def allow(self, call: Callable[[], None]) -> None:
        """Make a call; errors of this package are answers."""
        try:
            call()
        except ClosedError:
            if not self.is_closed:
                raise
        except CuleError:
            pass

    def in_thread(self) -> AbstractContextManager[None]:
        """What a thread needs for the mock GPU."""
        if self.kind != "cuda":
            return nullcontext()
        from tests.support import fake_cuda

        return fake_cuda.in_thread()

    def play(self, number: int) -> None:
        """The calls of one thread."""
        rng = random.Random(f"{self.kind} {self.seed} {number}")
        try:
            with self.in_thread():
                for _ in range(CALLS):
                    call = rng.choice(self.calls)
                    self.allow(lambda call=call: call(rng))
        except BaseException as error:
            self.errors.append(error)

    def play_interrupted(self) -> None:
        """Calls of the main thread, which signals interrupt at any time.

        None of them may import a module: Python can leave its import lock held when it is
        interrupted there, and a fork later waits for that lock. Unpickling looks for modules.
        """
        rng = random.Random(f"{self.kind} {self.seed} main")
        calls = [call for call in self.calls if call not in (self.fork, self.pickle)]
        for _ in range(CALLS):
            call = rng.choice(calls)
            try:
                if self.kind not in WITHOUT_SIGNALS:
                    signal.setitimer(signal.ITIMER_REAL, rng.choice((0.0003, 0.002, 0.02)))
                self.allow(lambda call=call: call(rng))
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)

    def run(self) -> None:
        """All threads at once, and then a comparison with a new environment."""
        if self.kind != "ale":
            self.env.reset(seed=self.seed)
        threads = [threading.Thread(target=self.play, args=(k,)) for k in range(THREADS)]
        for thread in threads:
            thread.start()
        try:
            self.play_interrupted()
        except KeyboardInterrupt:  # of the last timer
            signal.setitimer(signal.ITIMER_REAL, 0)
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]
        if self.kind != "ale":
            if not self.is_closed:
                self.compare()
            self.env.close()

    def compare(self) -> None:
        """A reset by seed and a few steps, in the environment and in a new one."""
        new = KINDS[self.kind]()
        results = []
        for env in (self.env, new):
            obs = [env.reset(seed=7)[0]]
            if self.kind != "asynchronous":
                obs += [env.step(self.actions())[0] for _ in range(3)]
            results.append(obs)
        if self.kind != "asynchronous":  # which environments come first, is up to the threads
            for ours, expected in zip(*results, strict=True):
                assert all(map(np.array_equal, arrays_of(ours), arrays_of(expected)))
        new.close()


def arrays_of(obs: Any) -> list[Any]:
    """Observations of all players, or one, in memory of the CPU."""
    if isinstance(obs, dict):
        return list(obs.values())
    return [obs if isinstance(obs, np.ndarray) else obs.cpu().numpy()]


def run_cases(kind: str, first_seed: int, cases: int, *, on_mock: bool = False) -> None:
    """Run some cases in a process of their own, on the mock GPU or not."""
    mock = ["tests.support.run_on_fake_cuda", "-m"] if on_mock else []
    words = [*mock, "tests.support.concurrency", kind, str(first_seed), str(cases)]
    limit_s = 30 + cases * CASE_SECONDS + on_mock * COMPILE_SECONDS
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-4000:]


def interrupt(*_: object) -> None:
    """A signal handler like that of Ctrl-C."""
    raise KeyboardInterrupt


def main(kind: str, first_seed: int, cases: int) -> None:
    """Run some cases; a case that hangs ends the process with the stack of every thread."""
    warnings.simplefilter("ignore")  # of forks in a process with threads
    signal.signal(signal.SIGALRM, interrupt)
    importlib.import_module("ale_py")  # otherwise every seeded reset of one console looks for it
    KINDS[kind]()  # outside the time of a case, because the mock GPU may have to be compiled
    for seed in range(first_seed, first_seed + cases):
        print(f"{kind} {seed}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
        Case(kind, seed).run()
    faulthandler.cancel_dump_traceback_later()
    print("done")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
