"""The load training: updates of the agents of `cule.agents`, timed in interleaved rounds.

A round is one iteration of an agent's own loop: a rollout of all environments or, with experience
replay, one step, and the updates that follow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

from cule.bench.engines import FRAMESKIP, EngineMissingError, as_numpy
from cule.bench.interleaved import Comparison, digest_of
from cule.bench.meter import DeviceMeter
from cule.bench.options import CPU_PPO_STEPS, BenchOptions
from cule.errors import InvalidArgumentError, shown

#: Device of environments and network, by engine.
DEVICES = {"cule-cpu": "cpu", "cule-cuda": "cuda"}

#: A class of `cule.agents` or its configuration; imported late, because they need torch.
FromAgents: TypeAlias = Any


def run_name(algorithm: str, engine: str) -> str:
    """Name of an agent on an engine in records."""
    return f"{algorithm} on {engine}"


def check_algorithms(names: Sequence[str]) -> None:
    """Raise an InvalidArgumentError unless every name is an agent with discrete actions."""
    known = agent_classes()
    for name in names:
        if name not in known:
            raise InvalidArgumentError(
                f"algorithms has {shown(name)}; it must be one of {', '.join(known)}"
            )


def agent_classes() -> dict[str, FromAgents]:
    """Classes of the agents with discrete actions, by name."""
    from cule.agents import AGENTS

    return {name: agent for name, agent in AGENTS.items() if not agent.config_class().continuous}


class _AgentRun:
    """An agent on an engine."""

    def __init__(self, algorithm: str, engine: str, config: FromAgents) -> None:
        self.device = DEVICES[engine]
        self.num_rounds = 0
        self.meter = DeviceMeter(self.device)
        self.agent = agent_classes()[algorithm](config)
        self._loop = self.agent.train()

    def run_round(self) -> int:
        """Run one iteration; return its frames."""
        steps = self.agent.steps
        with self.meter:
            next(self._loop)
            if self.device != "cpu":
                import torch

                torch.cuda.synchronize()
        self.num_rounds += 1
        num_steps: int = self.agent.steps - steps
        return num_steps * FRAMESKIP


def config_of(
    algorithm: str, engine: str, game: str, num_envs: int, threads: int, options: BenchOptions
) -> FromAgents:
    """Configuration of an agent: its own defaults, changed by the options of the benchmark."""
    config_class = agent_classes()[algorithm].config_class
    changes: dict[str, int] = {}
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
    if not has_rollouts:  # a full memory is not slower
        changes["memory"] = max(64 * num_envs, 4096)
        changes["learning_starts"] = max(8 * num_envs, 512)
    return config_class(
        game=game,
        num_envs=num_envs,
        device=DEVICES[engine],
        env_threads=threads if DEVICES[engine] == "cpu" else 0,
        torch_threads=threads,
        seed=options.seed,
        total_steps=10**15,  # schedules of learning rate and the like do not end
        cuda_graphs=options.cuda_graphs and DEVICES[engine] == "cuda",
        precision=options.precision if DEVICES[engine] == "cuda" else "fp32",
        **changes,
    )


def compare_agents(
    game: str, engines: Sequence[str], num_envs: int, threads: int, options: BenchOptions
) -> tuple[Comparison, dict[str, dict[str, object]]]:
    """Train every agent on every engine that is a key of `DEVICES`, in interleaved rounds.

    Returns:
        Rates by `run_name`, and the configuration of each agent.

    Raises:
        EngineMissingError: Nothing can be trained.
        DivergedError: A loss is not finite.
        CuleError: Raised by cule's environment.
    """
    result = Comparison(game, num_envs)
    configs: dict[str, dict[str, object]] = {}
    runs: dict[str, _AgentRun] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="capacity is .* nearly on-policy")
        for algorithm in options.algorithms:
            for engine in (name for name in engines if name in DEVICES):
                name = run_name(algorithm, engine)
                try:
                    config = config_of(algorithm, engine, game, num_envs, threads, options)
                    run = _AgentRun(algorithm, engine, config)
                except InvalidArgumentError as error:
                    # Such as minibatches that do not divide the rollout.
                    result.absent[name] = str(error)
                    continue
                stack.callback(run.agent.env.close)
                configs[name] = dataclasses.asdict(config)
                runs[name] = run
        if not runs:
            raise EngineMissingError(f"nothing to train: {result.absent or 'no engine of cule'}")
        for run in runs.values():
            run.run_round()  # memory, kernels
            while not (run.agent.updates and run.agent.setup.graphs.are_captured):
                run.run_round()
            run.meter.forget()
        start = time.perf_counter()
        rounds = 0
        while rounds < options.rounds or time.perf_counter() < start + options.seconds:
            for name, run in runs.items():
                frames = run.run_round()
                result.add_round(name, frames, run.meter.wall_s, run.meter.cpu_s)
            rounds += 1
            if rounds == options.rounds:
                result.digest_steps = run.num_rounds
                for name, run in runs.items():
                    result.ram_digests[name] = digest_of(as_numpy(run.agent.env.ram))
        for name, run in runs.items():
            run.agent.check_finite()
            result.utilization[name] = run.meter.mean()
            configs[name]["updates"] = run.agent.updates
    return result, configs
