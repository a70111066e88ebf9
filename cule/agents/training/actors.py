"""Actor processes of Ape-X: they play, and publish transitions through shared memory.

The learner holds an `ActorGroup`; each actor runs `act_in_process`. They share the replay memory,
one flat vector of weights with a version number, and a small table of counters. Every number in
these has a single writer. Actors stop when they are told to, or when the learner has died.
"""

from __future__ import annotations

import copy
import multiprocessing
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.multiprocessing as mp
from torch import Tensor, nn

from cule import algos
from cule.agents.training.environment import (
    EpisodeStatistics,
    FrameEnv,
    make_env,
    make_stacks,
    newest_frames,
)
from cule.agents.training.seeds import ACTING_SEED, ACTOR_SEED_STRIDE
from cule.errors import CuleError, DisconnectedError, warn
from cule.nets import gather_actions
from cule.replay import Batch, ReplayWriter, SharedOptions, SharedPrioritizedReplay

if TYPE_CHECKING:
    from cule.agents.algorithms.apex import ApexConfig, ApexDQN
    from cule.replay.shared_memory import SharedHandle

#: Makes the environments of an actor from the config and the index of the actor.
EnvFactory = Callable[["ApexConfig", int], FrameEnv]

#: Seconds between two reads of shared counters.
PAUSE_S = 0.002

#: Steps of each environment that actors may be ahead of the learner, in addition to two blocks.
SLACK_STEPS = 64


class ActorError(CuleError, RuntimeError):
    """All actor processes have ended."""


class Shared(NamedTuple):
    """Data that learner and actors share in addition to the replay, in shared memory."""

    weights: Tensor
    """Flat parameters, written by the learner; float32."""

    version: Tensor
    """Odd while the weights are written, then even and larger; int64 scalar."""

    allowed: Tensor
    """Total steps of each environment that actors may take; int64 scalar."""

    stop: Tensor
    """1 tells actors to stop; int64 scalar."""

    statistics: Tensor
    """One row of `EpisodeStatistics.sums` per actor, which is never reset; float64."""


def make_shared(num_weights: int, num_actors: int) -> Shared:
    """Allocate the shared data, all zero."""
    tensors = (
        torch.zeros(num_weights),
        *(torch.zeros((), dtype=torch.int64) for _ in range(3)),
        torch.zeros((num_actors, 4), dtype=torch.float64),
    )
    for tensor in tensors:
        tensor.share_memory_()  # type: ignore[no-untyped-call]
    return Shared(*tensors)


class ActorGroup:
    """The actor processes, seen from the learner; a context that starts and ends them.

    Attributes:
        replay: The memory that they fill.
    """

    def __init__(self, agent: ApexDQN) -> None:
        """Make the memory; processes start when the context is entered."""
        config = self.config = agent.config
        options = agent.prioritized_options()
        options["num_envs"] = config.num_envs  # of an actor; those of the learner only have spaces
        self.replay = SharedPrioritizedReplay(
            SharedOptions(**options, num_writers=config.num_actors, block_size=config.block_size)
        )
        num_weights = sum(p.numel() for p in agent.network.parameters())
        self.shared = make_shared(num_weights, config.num_actors)
        self._total_envs = agent.total_envs
        self._steps_ahead = 2 * config.block_size + SLACK_STEPS
        self._first_allowed = -(-config.learning_starts // self._total_envs) + self._steps_ahead
        self.allow(0)
        self.send_weights(agent.network)
        network = copy.deepcopy(agent.network).cpu().requires_grad_(False)
        self._arguments = (config, agent.env_factory, network, agent.env_seed())
        self._processes: list[BaseProcess] = []
        self._reported: set[int] = set()
        self._published = 0
        self._seen = torch.zeros(4, dtype=torch.float64)

    def __enter__(self) -> ActorGroup:
        """Start the processes."""
        context = mp.get_context("spawn")
        handle = self.replay.handle()
        for index in range(self.config.num_actors):
            process = context.Process(
                target=act_in_process,
                args=(index, handle, self.shared, *self._arguments),
                daemon=True,
            )
            process.start()
            self._processes.append(process)
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes and free the memory."""
        self.shared.stop.fill_(1)
        for process in self._processes:
            process.join(timeout=10)
            if process.is_alive():
                process.terminate()
                process.join()
        self.replay.close()

    def send_weights(self, network: nn.Module) -> None:
        """Copy the weights to shared memory."""
        flat = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
        self.shared.version.add_(1)
        self.shared.weights.copy_(flat)
        self.shared.version.add_(1)

    def allow(self, steps: int) -> None:
        """Allow actors to go slightly beyond a total number of steps since they started."""
        allowed = max(steps // self._total_envs + self._steps_ahead, self._first_allowed)
        self.shared.allowed.fill_(allowed)

    def wait_for_transitions(self) -> int:
        """Wait until actors publish transitions; return their number."""
        while True:
            self.replay.poll()
            published = sum(status.num_published for status in self.replay.writers())
            if published > self._published:
                new, self._published = published - self._published, published
                return new
            self._check_actors()
            time.sleep(PAUSE_S)

    def _check_actors(self) -> None:
        """Warn of actors that have died, once each."""
        dead = {i for i, process in enumerate(self._processes) if not process.is_alive()}
        for index in sorted(dead - self._reported):
            warn(
                f"actor {index} has ended with status {self._processes[index].exitcode}; its "
                "published transitions remain",
                RuntimeWarning,
            )
        self._reported |= dead
        if len(dead) == len(self._processes):
            raise ActorError(f"all {len(dead)} actor processes have ended")

    def gauges(self) -> dict[str, float]:
        """No numbers of their own for a row of progress."""
        return {}

    def new_statistics(self) -> Tensor:
        """Sums over episodes since the last call, as in `EpisodeStatistics`."""
        now = self.shared.statistics.sum(0)
        new, self._seen = now - self._seen, now
        return new


def actor_seed(seed: int, index: int) -> int:
    """The seed of an actor from the one that all get."""
    return (seed + ACTOR_SEED_STRIDE * (index + 1)) % 2**30


def epsilons_of(config: ApexConfig, index: int) -> Tensor:
    """The part of an actor of the ladder of all environments; float32 ``[N]``."""
    first, total = index * config.num_envs, config.num_actors * config.num_envs
    ladder = algos.epsilon_ladder(total, config.ladder_base, config.ladder_exponent)
    return ladder[first : first + config.num_envs]


def _load_weights(network: nn.Module, shared: Shared) -> int:
    """Copy a consistent set of weights from shared memory; return its version."""
    while True:
        before = int(shared.version)
        flat = shared.weights.clone()
        if before % 2 == 0 and int(shared.version) == before:
            nn.utils.vector_to_parameters(flat, network.parameters())
            return before
        time.sleep(PAUSE_S)


@torch.no_grad()
def act_in_process(
    index: int,
    handle: SharedHandle,
    shared: Shared,
    config: ApexConfig,
    env_factory: EnvFactory | None,
    network: nn.Module,
    seed: int,
) -> None:
    """Play with copies of the network until told to stop; the main function of an actor process.

    All actors get the same `seed`, to which each adds its own offset.
    """
    torch.set_num_threads(1)
    # Ctrl-C reaches every process of a terminal; the learner saves first, and then stops actors.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    learner = multiprocessing.parent_process()
    env: FrameEnv = make_env(config) if env_factory is None else env_factory(config, index)

    def prioritize(batch: Batch) -> Tensor:
        taken = gather_actions(network(batch.obs), batch.actions)
        best = network(batch.next_obs).amax(-1)
        errors = batch.returns + batch.discounts * best - taken
        return algos.priorities_from_errors(errors)

    seed = actor_seed(seed, index)
    generator = torch.Generator().manual_seed(seed + ACTING_SEED)
    epsilon = epsilons_of(config, index)
    statistics = EpisodeStatistics(torch.device("cpu"))
    obs, _ = env.reset(seed=seed)
    frames = newest_frames(env, obs).clone()
    stacks = make_stacks(env, obs)
    steps, version = 0, -1
    with ReplayWriter(handle, index, prioritize) as writer:
        writer.start(frames)
        while not shared.stop:
            if steps >= int(shared.allowed):
                if learner is not None and not learner.is_alive():
                    return
                time.sleep(PAUSE_S)
                continue
            if steps % config.sync_steps == 0 and version != int(shared.version):
                version = _load_weights(network, shared)
            actions = algos.epsilon_greedy(network(stacks.observe()), epsilon, generator)
            step = env.step_frames(actions)
            try:
                writer.append(actions, step)
            except DisconnectedError:
                return  # the learner has died
            stacks.append(actions, step)
            statistics.add(step)
            shared.statistics[index] = statistics.sums
            steps += 1
    env.close()
