"""Ape-X DQN: many actors, each with its own epsilon, and prioritised replay.

Double, dueling, n-step, squared loss (Horgan et al. 2018). Environments explore with a constant
ladder of epsilons; transitions enter the memory with priorities from the acting network.

* One process (``num_actors=0``): actors act with a copy of the weights that is renewed every
  `sync_steps` steps, and their forward passes also give transitions their first priorities. Acting
  does not depend on the updates in between, so the two may overlap: a round with `overlap` samples
  the batches that are due and renews the copy if necessary, learns from the batches while the next
  steps are played into the memory, and then sets the priorities of the batches. On a GPU acting and
  learning run on two streams; on a CPU one after the other, in either order with the same results.
* With `cluster`, `num_actors` actors and `replay_shards` parts of the memory are Ray actors, on
  this machine or on the nodes of a cluster; see `cule.agents.cluster`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from cule import algos
from cule.agents.dqn import DQN, DQNConfig
from cule.agents.parts import memory
from cule.agents.parts.actor_errors import (
    ActorErrors,
    acting_stream,
    check_setup,
    learn_while_acting,
    observe,
    store_step,
)
from cule.agents.parts.distributed import num_launched
from cule.agents.parts.envs import AnyEnv, FrameEnv, make_env
from cule.agents.parts.learner import Progress, progress_of
from cule.agents.parts.setup import Network
from cule.errors import InvalidArgumentError, shown
from cule.nets import gather_actions
from cule.option_fields import Bounds, Fraction, GradNorm, NonNegativeFloat, Positive, require
from cule.replay import Batch

if TYPE_CHECKING:
    from cule.agents.cluster.group import ClusterGroup

#: Makes the environments of an actor from the config and the index of the actor.
EnvFactory: TypeAlias = Callable[["ApexConfig", int], FrameEnv]


@dataclass(frozen=True, kw_only=True)
class ApexConfig(DQNConfig):
    """Options of Ape-X DQN; the defaults are those of the paper, for 256 environments."""

    num_envs: Positive = 256
    """Environments N of this process, or of each actor of a cluster."""

    max_num_frames_per_episode: int = 50_000
    double: bool = True
    dueling: bool = True
    n_step: Annotated[int, Bounds(1, 10_000)] = 3

    prioritized: bool = True
    """Sample from replay in proportion to priorities; must be True."""

    memory: Positive = 2_000_000
    learning_starts: Positive = 50_000
    batch_size: Annotated[int, Bounds(1, 100_000)] = 512
    samples_per_insert: Annotated[float, Bounds(0, 100_000)] = 0.78
    learning_rate: NonNegativeFloat = 6.25e-5
    optimizer: Literal["adam", "rmsprop"] = "rmsprop"
    optimizer_eps: NonNegativeFloat = 1.5e-7
    max_grad_norm: GradNorm = 40.0
    loss: Literal["huber", "squared"] = "squared"
    target_interval: Positive = 2500
    exploration: Literal["schedule", "ladder"] = "ladder"
    alpha: Fraction = 0.6
    beta_end: Fraction = 0.4

    sync_steps: Positive = 100
    """Steps of an environment between copies of the weights to the actors."""

    overlap: bool = False
    """Learn from batches of earlier steps while the next steps are played; in one process."""

    num_actors: Annotated[int, Bounds(0, 1_024)] = 0
    """Actors of a cluster; 0: this process steps and learns."""

    block_size: Annotated[int, Bounds(1, 1_000_000)] = 100
    """Transitions per block that an actor sends, rounded up to whole steps of its environments."""

    cluster: str = ""
    """Ray cluster for the actors: auto (that of this machine), HOST:PORT, or local (a new one on
    this machine); empty: no actors."""

    replay_shards: Positive = 1
    """Parts of the memory in a cluster, each of a Ray actor; at most num_actors."""

    actor_gpus: Annotated[float, Bounds(0, 16)] = 0.0
    """GPUs of each actor in a cluster, such as 0.25; with 0 actors play on CPUs."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        if not self.prioritized or self.num_atoms != 1 or self.noisy:
            raise InvalidArgumentError(
                f"prioritized is {self.prioritized}, num_atoms {self.num_atoms} and noisy "
                f"{self.noisy}; in Ape-X they must be True, 1 and False"
            )
        if self.num_actors and not self.cluster:
            raise InvalidArgumentError(
                f"num_actors is {self.num_actors} and cluster is empty; actors are those of a Ray "
                "cluster: use --cluster local for this machine"
            )
        if self.cluster and not self.replay_shards <= min(self.num_actors, self.batch_size):
            raise InvalidArgumentError(
                f"cluster is {shown(self.cluster)}, num_actors {self.num_actors}, replay_shards "
                f"{self.replay_shards} and batch_size {self.batch_size}; replay_shards must be at "
                "most num_actors and batch_size"
            )
        if not self.cluster:
            require(self, "; without cluster", replay_shards=1, actor_gpus=0)
        if self.num_actors:
            self._check_actors()

    def _check_actors(self) -> None:
        reason = f" and num_actors {self.num_actors}; with actors"
        require(self, reason, overlap=False, normalize_obs=False, exploration="ladder")
        if num_launched() > 1:
            raise InvalidArgumentError(
                f"num_actors is {self.num_actors} and there are {num_launched()} processes; actors "
                "need a single learner"
            )
        if self.device != "cpu" and self.env_device not in ("", "cpu"):
            raise InvalidArgumentError(
                f"env_device is {shown(self.env_device)}; with actors it must be 'cpu'"
            )


class ApexDQN(DQN):
    """DQN with actors and first priorities of their own; see docs/agents/apex.md.

    Attributes:
        target: The target network.
        actor: The copy of the network that acts.
        actor_errors: Errors that become first priorities.
        acted_steps: Steps of all environments so far, by which the copy is renewed.
        acting_stream: Stream of acting where it overlaps with learning, otherwise None.
        replay: The memory.
        credit: Counts the samples that are due.
        actor_group: The actors of a cluster, while it trains with them.

    Example:
        >>> from cule.agents import ApexConfig, ApexDQN
        >>> config = ApexConfig(game="pong", num_envs=8, memory=8000, learning_starts=64)
        >>> agent = ApexDQN(config)
        >>> [progress.steps for progress in agent.train(steps=24)]
        [8, 16, 24]
    """

    name: ClassVar[str] = "apex-dqn"
    config_class: ClassVar[type[ApexConfig]] = ApexConfig
    eval_epsilon: ClassVar[float] = 0.00164
    config: ApexConfig
    replay: Any  # a PrioritizedReplay, or the shards of a cluster

    def __init__(
        self,
        config: ApexConfig,
        env: AnyEnv | None = None,
        env_factory: EnvFactory | None = None,
        *,
        network: Network | None = None,
    ) -> None:
        """Make the environments and the network.

        Args:
            config: Options.
            env: Environments to use instead of those of the config; with actors of a cluster only
                their spaces are used.
            env_factory: Makes the environments of an actor from the config and the index of the
                actor; a function that can be pickled. By default those of the config.
            network: Network to train instead of that of the config: a module, or what makes one;
                with actors it must be possible to pickle it.
        """
        self.env_factory = env_factory
        self.actor_group: ClusterGroup | None = None
        if config.num_actors and env is None:
            env = make_env(dataclasses.replace(config, num_envs=config.num_players))
        super().__init__(config, env, network=network)
        check_setup(self.setup)
        self.actor = memory.copy_network(self.network)
        self.actor_errors, self.acted_steps = ActorErrors(config.n_step), 0

    def capture_calls(self) -> None:
        """Let these calls be replayed, with cuda_graphs; exploration samples outside."""
        config, capture = self.config, self.setup.graphs.capture
        self.acting_stream = acting_stream(self.setup, overlap=config.overlap)
        # Batches are drawn by an update itself, unless they are drawn before, or elsewhere.
        if config.overlap or config.num_actors:
            self.learn_from = capture(self.minimise, uses_generator=False)
            self.beta = config.beta_start
        else:
            self.learn_once = capture(
                self.learn, draws=lambda: self.replay.generator, copies_results=False
            )
        self.acting_values = capture(
            self._acting_values, uses_generator=False, stream=self.acting_stream
        )

    # --- The loop ---------------------------------------------------------------------------------

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train to `steps`, by default `total_steps`; yield after every `collect_steps` steps."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        if config.num_actors:
            yield from self._train_with_actors(stop)
            return
        self.begin()
        while self.steps < stop:
            if config.overlap:
                self.anneal()
                learn_while_acting(self)
            else:
                memory.collect(self)
                self.credit.add(self.replay, config.collect_steps * self.num_envs)
                self.anneal()
                for _ in range(self.credit.updates_due(self.replay)):
                    self.metrics = self.learn_once()
                    self.count_update()
            epsilon = self.epsilon()
            mean = epsilon.mean() if isinstance(epsilon, Tensor) else epsilon
            yield progress_of(self, {**self.metrics, "epsilon": mean})

    def _train_with_actors(self, stop: int) -> Iterator[Progress]:
        """Learn from the transitions of the actors of a cluster.

        A round waits for new transitions and makes the updates that are due for them. Actors wait
        when they are too far ahead of the learner.
        """
        from cule.agents.cluster.group import ClusterGroup

        with ClusterGroup(self) as actors:
            self.actor_group, self.replay = actors, actors.replay
            while self.steps < stop:
                new = actors.wait_for_transitions()
                self.steps += new
                self.statistics.sums += actors.new_statistics()
                self.credit.add(self.replay, new)
                if self.credit.has_enough(self.replay):
                    self.anneal()
                    for _ in range(self.credit.updates_due(self.replay)):
                        self.metrics = self.learn_once()
                        self.count_update()
                    actors.send_weights(self.network)
                actors.request_blocks()
                yield progress_of(self, self.metrics)

    def memory_options(self) -> dict[str, Any]:
        """Keywords of `PrioritizedOptions`."""
        options = super().memory_options()
        return {**options, "pixel_blocks": options["pixel_blocks"] and not self.config.num_actors}

    # --- Act --------------------------------------------------------------------------------------

    @torch.no_grad()
    def play_step(self) -> None:
        """Play one step into the memory, with priorities from the acting network."""
        q_values = self.acting_values(observe(self))
        actions = algos.epsilon_greedy(q_values, self.epsilon(), self.generator)
        store_step(self, actions, gather_actions(q_values, actions), q_values.amax(-1))

    @torch.no_grad()
    def _acting_values(self, obs: Tensor) -> Tensor:
        return self.head.values(self.actor, obs, self.generator)

    def sample(self) -> Batch:
        """Sample a batch; weights are normalized over all processes."""
        if not self.config.num_actors:
            return super().sample()
        batch: Batch = self.replay.sample(self.config.batch_size, float(self.beta))
        return batch
