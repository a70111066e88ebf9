"""Actor processes of Ape-X: they play, and hand transitions over through shared memory.

The learner's process holds an `ActorGroup`; `act_in_process` is what each actor runs. Between them:
the shared replay, one flat vector of weights with a version number, and a small table of counters.
Every number in these has one writer. Actors stop when told so, or when the learner is gone.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import warnings
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.multiprocessing as mp
from torch import Tensor, nn

from cule import algos
from cule.agents.base import ACTING_SEED, REPLAY_SEED
from cule.agents.environment import (
    EpisodeStatistics,
    FrameEnv,
    make_env,
    newest_frames,
    split_obs_shape,
    storage_options,
)
from cule.errors import CuleError
from cule.nets import QNetwork, gather_actions
from cule.replay import (
    Batch,
    ReplayWriter,
    SharedOptions,
    SharedPrioritizedReplay,
    TrajectoryBuffer,
    TrajectoryOptions,
)
from cule.replay.errors import DisconnectedError

if TYPE_CHECKING:
    from cule.agents.dqn import DQN

#: Makes the environments of an actor, from the config and the actor's number.
EnvFactory = Callable[[Any, int], FrameEnv]

#: Seconds between looks at shared numbers.
PAUSE_S = 0.002

#: Distance of the seeds of two actors.
ACTOR_SEED_STRIDE = 10_007

#: Steps of each console that actors may be ahead of what the learner has allowed.
SLACK_STEPS = 64


class ActorError(CuleError, RuntimeError):
    """All actor processes have ended."""


class Shared(NamedTuple):
    """What learner and actors share beside the replay; CPU tensors in shared memory."""

    weights: Tensor
    """Flat parameters, written by the learner; float32."""

    version: Tensor
    """Odd while the weights are being written, then even and higher; int64 scalar."""

    allowed: Tensor
    """Steps of each console that actors may take in all; int64 scalar."""

    stop: Tensor
    """1: end; int64 scalar."""

    statistics: Tensor
    """A row of `EpisodeStatistics.sums` for each actor, never set back; float64."""


def make_shared(num_weights: int, num_actors: int) -> Shared:
    """Everything zero."""
    tensors = (
        torch.zeros(num_weights),
        torch.zeros((), dtype=torch.int64),
        torch.zeros((), dtype=torch.int64),
        torch.zeros((), dtype=torch.int64),
        torch.zeros((num_actors, 4), dtype=torch.float64),
    )
    for tensor in tensors:
        tensor.share_memory_()  # type: ignore[no-untyped-call]
    return Shared(*tensors)


class ActorGroup:
    """The actor processes, from the learner's side; a context that ends them.

    Attributes:
        replay: The memory that they fill.
    """

    def __init__(
        self, config: Any, network: nn.Module, agent: DQN, env_factory: EnvFactory | None
    ) -> None:
        """Make the memory; processes start with the context.

        Args:
            config: An `ApexConfig`.
            network: Whose weights are sent.
            agent: Whose shapes the memory has, and whose steps so far seed the actors.
            env_factory: As for `cule.agents.ApexDQN`.
        """
        self.config = config
        options = storage_options(
            config, config.num_envs, agent.obs_shape, agent.device, agent.seed_of(REPLAY_SEED)
        )
        self.replay = SharedPrioritizedReplay(
            SharedOptions(
                **options,
                capacity=config.memory,
                n_step=config.n_step,
                alpha=config.alpha,
                uniform_mixture=config.uniform_mixture,
                num_writers=config.num_actors,
                block_size=config.block_size,
            )
        )
        parameters = [p.numel() for p in network.parameters()]
        self.shared = make_shared(sum(parameters), config.num_actors)
        self.shared.allowed.fill_(self._needed_at_start())
        self.send_weights(network)
        shapes = (agent.obs_shape, agent.num_actions)
        self._arguments = (config, env_factory, *shapes, agent.env_seed())
        self._processes: list[BaseProcess] = []
        self._reported: set[int] = set()
        self._published = 0
        self._seen = torch.zeros(4, dtype=torch.float64)

    def _needed_at_start(self) -> int:
        config = self.config
        consoles = config.num_actors * config.num_envs
        needed = -(-config.learning_starts // consoles) + 2 * config.block_size + SLACK_STEPS
        return int(needed)

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the processes, and free the memory."""
        self.shared.stop.fill_(1)
        for process in self._processes:
            process.join(timeout=10)
            if process.is_alive():
                process.terminate()
                process.join()
        self.replay.close()

    def send_weights(self, network: nn.Module) -> None:
        """Put the weights where actors read them."""
        flat = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
        self.shared.version.add_(1)
        self.shared.weights.copy_(flat)
        self.shared.version.add_(1)

    def allow(self, steps: int) -> None:
        """Let actors go on to a little beyond these steps of all consoles since they began."""
        consoles = self.config.num_actors * self.config.num_envs
        ahead = 2 * self.config.block_size + SLACK_STEPS
        allowed = max(steps // consoles + ahead, self._needed_at_start())
        self.shared.allowed.fill_(allowed)

    def wait_for_transitions(self) -> int:
        """Wait until actors have handed something over; how many transitions.

        Raises:
            ActorError: None lives, and nothing is left to take in.
        """
        while True:
            self.replay.poll()
            published = sum(status.num_published for status in self.replay.writers())
            if published > self._published:
                new, self._published = published - self._published, published
                return new
            self._check_actors()
            time.sleep(PAUSE_S)

    def _check_actors(self) -> None:
        """Report actors that have died, once each."""
        dead = {i for i, process in enumerate(self._processes) if not process.is_alive()}
        for index in sorted(dead - self._reported):
            warnings.warn(
                f"actor {index} has ended with status {self._processes[index].exitcode}; what it "
                "has handed over stays",
                RuntimeWarning,
                stacklevel=2,
            )
        self._reported |= dead
        if len(dead) == len(self._processes):
            raise ActorError(f"all {len(dead)} actor processes have ended")

    def new_statistics(self) -> Tensor:
        """Sums over episodes since the last call, as in `EpisodeStatistics`."""
        now = self.shared.statistics.sum(0)
        new, self._seen = now - self._seen, now
        return new


def _load_weights(network: nn.Module, shared: Shared) -> int:
    """Copy whole weights from shared memory; their version."""
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
    handle: Any,
    shared: Shared,
    config: Any,
    env_factory: EnvFactory | None,
    obs_shape: tuple[int, ...],
    num_actions: int,
    seed: int,
) -> None:
    """Play until told to stop; what an actor process runs.

    Args:
        index: Number of the actor.
        handle: Of the shared replay.
        shared: Weights and counters.
        config: An `ApexConfig`.
        env_factory: Makes the environments; None: the config's consoles.
        obs_shape: Of one observation.
        num_actions: A.
        seed: Of all actors; each adds its own.
    """
    torch.set_num_threads(1)
    # Ctrl-C reaches every process of a terminal; the learner saves first, and then says stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    learner = multiprocessing.parent_process()
    env: FrameEnv = make_env(config) if env_factory is None else env_factory(config, index)
    network = QNetwork(
        obs_shape,
        num_actions,
        torso=config.network,
        dueling=config.dueling,
    ).requires_grad_(False)

    def prioritize(batch: Batch) -> Tensor:
        taken = gather_actions(network(batch.obs), batch.actions)
        best = network(batch.next_obs).amax(-1)
        errors = batch.returns + batch.discounts * best - taken
        return algos.priorities_from_errors(errors)

    seed += ACTOR_SEED_STRIDE * (index + 1)
    generator = torch.Generator().manual_seed(seed + ACTING_SEED)
    first, total = index * config.num_envs, config.num_actors * config.num_envs
    epsilon = algos.epsilon_ladder(
        total, config.ladder_base, config.ladder_exponent, first=first, count=config.num_envs
    )
    stack, frame_shape = split_obs_shape(obs_shape)
    stacks = TrajectoryBuffer(
        TrajectoryOptions(
            num_envs=config.num_envs, obs_shape=frame_shape, stack=stack, num_steps=1, extras={}
        )
    )
    statistics = EpisodeStatistics(torch.device("cpu"))
    obs, _ = env.reset(seed=seed)
    frames = newest_frames(obs, obs_shape).clone()
    stacks.start(frames)
    steps, version = 0, -1
    with ReplayWriter(handle, index, prioritize) as explorer:
        explorer.start(frames)
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
                explorer.append(actions, step)
            except DisconnectedError:
                return  # the learner is gone
            stacks.append(actions, step)
            statistics.add(step)
            shared.statistics[index] = statistics.sums
            steps += 1
    env.close()
