"""The load training: rounds of the learners of `cule.agents`, timed by interleaved.

A turn is one round of a learner's own loop: a rollout of all consoles, or with replay one step, and
what it learns then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from cule.bench.engines import FRAMESKIP, as_numpy
from cule.bench.errors import EngineMissingError
from cule.bench.interleaved import Comparison, digest_of
from cule.bench.meter import DeviceMeter
from cule.bench.options import CPU_PPO_STEPS, BenchOptions
from cule.errors import InvalidArgumentError

#: Device of the consoles and of the network, by engine.
DEVICES = {"cule-cpu": "cpu", "cule-cuda": "cuda"}


def lane_name(algorithm: str, engine: str) -> str:
    """A learner on an engine, as records name it."""
    return f"{algorithm} on {engine}"


def why_no_training() -> str | None:
    """Why nothing can be trained here; None where it can."""
    for package in ("torch", "cule.agents"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed"
    return None


def check_algorithms(names: Sequence[str]) -> None:
    """Refuse names that are no learner with a choice of actions.

    Raises:
        InvalidArgumentError: One is not.
    """
    known = learners()
    for name in names:
        if name not in known:
            raise InvalidArgumentError(
                f"algorithms has {name!r}; it must be one of {', '.join(known)}"
            )


def learners() -> dict[str, Any]:
    """Classes of the learners that take the same actions, by name."""
    from cule.agents import AGENTS

    return {name: agent for name, agent in AGENTS.items() if not agent.config_class().continuous}


class _Learner:
    """A learner in a race."""

    def __init__(self, algorithm: str, engine: str, game: str, num_envs: int, config: Any) -> None:
        self.device = DEVICES[engine]
        self.num_rounds = 0
        self.meter = DeviceMeter(self.device)
        self.agent = learners()[algorithm](config)
        self._rounds: Iterator[Any] = self.agent.train()

    def run_turn(self) -> tuple[float, float, int]:
        """A round: seconds, processor seconds, frames."""
        steps = self.agent.steps
        with self.meter:
            start, cpu_start = time.perf_counter(), time.process_time()
            next(self._rounds)
            self.synchronise()
            wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
        self.num_rounds += 1
        return wall_s, cpu_s, (self.agent.steps - steps) * FRAMESKIP

    def synchronise(self) -> None:
        """Wait for a GPU."""
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()


def config_of(
    algorithm: str, engine: str, game: str, num_envs: int, threads: int, options: BenchOptions
) -> Any:
    """Options of a learner: its own defaults but for what the run says."""
    config_class = learners()[algorithm].config_class
    changes: dict[str, Any] = {}
    num_steps = options.rollout_steps
    if not num_steps and algorithm == "ppo" and DEVICES[engine] == "cpu":
        num_steps = CPU_PPO_STEPS
    plain = config_class()
    has_rollouts = hasattr(plain, "num_steps")
    if hasattr(plain, "num_batches"):
        most = min(plain.num_batches, num_envs)
        batches = next(n for n in range(most, 0, -1) if num_envs % n == 0)
        changes["num_batches"] = batches
        num_steps = num_steps or batches  # each step is learned from once, as by default
    if num_steps and has_rollouts:
        changes["num_steps"] = num_steps
    if not has_rollouts:  # a full memory is no slower
        changes["memory"] = max(64 * num_envs, 4096)
        changes["learning_starts"] = max(8 * num_envs, 512)
    return config_class(
        game=game,
        num_envs=num_envs,
        device=DEVICES[engine],
        env_threads=threads if DEVICES[engine] == "cpu" else 0,
        torch_threads=threads,
        seed=options.seed,
        total_steps=10**15,  # schedules do not come to their end
        cuda_graphs=options.cuda_graphs and DEVICES[engine] == "cuda",
        **changes,
    )


def train_by_turns(
    game: str, engines: Sequence[str], num_envs: int, threads: int, options: BenchOptions
) -> tuple[Comparison, dict[str, dict[str, Any]]]:
    """Every learner on every engine of cule, round by round.

    Args:
        game: Which game.
        engines: Those of `DEVICES` take part.
        num_envs: Consoles of each learner.
        threads: CPU threads of consoles and torch.
        options: Of the run.

    Returns:
        Rates of lanes named by `lane_name`, and each lane's options.

    Raises:
        EngineMissingError: Nothing can be trained.
        DivergedError: A loss is no number.
        CuleError: What making cule's environment raises.
    """
    reason = why_no_training()
    if reason is not None:
        raise EngineMissingError(reason)
    result = Comparison(game, num_envs)
    configs: dict[str, dict[str, Any]] = {}
    racing: dict[str, _Learner] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="capacity is .* nearly on-policy")
        for algorithm in options.algorithms:
            for engine in (name for name in engines if name in DEVICES):
                name = lane_name(algorithm, engine)
                try:
                    config = config_of(algorithm, engine, game, num_envs, threads, options)
                    learner = _Learner(algorithm, engine, game, num_envs, config)
                except InvalidArgumentError as error:
                    # Such as minibatches that do not divide the rollout.
                    result.absent[name] = str(error)
                    continue
                stack.callback(learner.agent.env.close)
                configs[name] = dataclasses.asdict(config)
                racing[name] = learner
        if not racing:
            raise EngineMissingError(f"nothing to train: {result.absent or 'no engine of cule'}")
        for name, learner in racing.items():
            learner.run_turn()  # memory, kernels
            while not (learner.agent.updates and learner.agent.is_captured):
                learner.run_turn()
            learner.meter.forget()
            result.rates[name], result.cpu_rates[name] = [], []
        start = time.perf_counter()
        rounds = 0
        while rounds < options.turns or time.perf_counter() < start + options.seconds:
            for name, learner in racing.items():
                wall_s, cpu_s, frames = learner.run_turn()
                result.rates[name].append(frames / wall_s)
                result.cpu_rates[name].append(frames / cpu_s)
            rounds += 1
            if rounds == options.turns:
                result.digest_steps = learner.num_rounds
                for name, learner in racing.items():
                    result.ram_digests[name] = digest_of(as_numpy(learner.agent.env.ram))
        for name, learner in racing.items():
            learner.agent.check_finite()
            result.utilisation[name] = learner.meter.mean()
            configs[name]["updates"] = learner.agent.updates
    return result, configs
