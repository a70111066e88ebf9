"""Ape-X DQN: many actors, each with its own epsilon, and prioritised replay.

Double, dueling, n-step, squared loss (Horgan et al. 2018). Environments explore with a constant
ladder of epsilons; transitions enter the memory with priorities from the acting network.
Three forms:

* one process (``num_actors=0``): environments, memory and learner in one process; actors act with a
  copy of the weights that is renewed every `sync_steps` steps;
* `num_actors` actor processes on CPUs with `num_envs` environments each, one learner, and a memory
  that they share; see `cule.agents.training.actors`;
* with `cluster`, `num_actors` actors and `replay_shards` parts of the memory on the nodes of a Ray
  cluster; see `cule.agents.cluster`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from cule import algos
from cule.agents.agent import Network, Progress
from cule.agents.algorithms.apex_acting import ApexActingConfig, ApexAgent
from cule.agents.algorithms.dqn import DQN, DQNConfig
from cule.agents.algorithms.off_policy import OffPolicyAgent
from cule.agents.cluster.group import ClusterGroup
from cule.agents.training.actors import ActorGroup, EnvFactory
from cule.agents.training.distributed import num_launched
from cule.agents.training.environment import FrameEnv, make_env
from cule.agents.training.options import Bounds, Fraction, GradNorm, NonNegativeFloat, Positive
from cule.errors import InvalidArgumentError
from cule.nets import gather_actions


@dataclass(frozen=True, kw_only=True)
class ApexConfig(ApexActingConfig, DQNConfig):
    """Options of Ape-X DQN; the defaults are those of the paper, for 256 environments."""

    num_envs: Positive = 256
    """Environments N of this process, or of each actor process."""

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

    num_actors: Annotated[int, Bounds(0, 1_024)] = 0
    """Actor processes; 0: this process steps and learns."""

    block_size: Annotated[int, Bounds(1, 1_000_000)] = 100
    """Transitions per block that an actor publishes: in a process of one environment, in a cluster
    of all, rounded up to whole steps."""

    cluster: str = ""
    """Ray cluster for the actors: auto (that of this machine), HOST:PORT, or local (a new one on
    this machine); empty: processes of this machine."""

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
        if self.cluster and not self.replay_shards <= min(self.num_actors, self.batch_size):
            raise InvalidArgumentError(
                f"cluster is {self.cluster!r}, num_actors {self.num_actors}, replay_shards "
                f"{self.replay_shards} and batch_size {self.batch_size}; replay_shards must be at "
                "most num_actors and batch_size"
            )
        for name, alone in (("replay_shards", 1), ("actor_gpus", 0)):
            value = getattr(self, name)
            if not self.cluster and value != alone:
                raise InvalidArgumentError(f"{name} is {value}; without cluster it must be {alone}")
        if not self.num_actors:
            return
        if self.overlap:
            raise InvalidArgumentError(
                f"overlap is True and num_actors {self.num_actors}; actor processes always "
                "overlap with the learner, so overlap must be False"
            )
        if num_launched() > 1:
            raise InvalidArgumentError(
                f"num_actors is {self.num_actors} and there are {num_launched()} processes; actor "
                "processes need a single learner"
            )
        if self.normalize_obs:
            raise InvalidArgumentError(
                f"normalize_obs is True and num_actors {self.num_actors}; with actor processes it "
                "must be False"
            )
        if self.exploration != "ladder":
            raise InvalidArgumentError(
                f"exploration is {self.exploration!r}; with actor processes it must be 'ladder'"
            )
        if self.device != "cpu" and self.env_device not in ("", "cpu"):
            raise InvalidArgumentError(
                f"env_device is {self.env_device!r}; with actor processes it must be 'cpu'"
            )


class ApexDQN(ApexAgent, DQN):
    """Ape-X DQN; see docs/agents/apex.md.

    Example:
        >>> from cule.agents import ApexConfig, ApexDQN
        >>> config = ApexConfig(game="pong", num_envs=8, memory=8000, learning_starts=64)
        >>> agent = ApexDQN(config)
        >>> [progress.steps for progress in agent.train(steps=24)]
        [8, 16, 24]
    """

    name: ClassVar[str] = "apex-dqn"
    config_class = ApexConfig
    config: ApexConfig
    eval_epsilon: ClassVar[float] = 0.00164

    def __init__(
        self,
        config: ApexConfig,
        env: FrameEnv | None = None,
        env_factory: EnvFactory | None = None,
        *,
        network: Network | None = None,
    ) -> None:
        """Make the environments and the network.

        Args:
            config: Options.
            env: As for `Agent`; with actor processes only its spaces are used.
            env_factory: Makes the environments of an actor process from the config and the index of
                the actor; a function that can be pickled. By default those of the config.
            network: As for `Agent`; with actor processes it must be possible to pickle it.
        """
        if config.num_actors and env is None:
            env = make_env(dataclasses.replace(config, num_envs=config.num_players))
        super().__init__(config, env, network=network)
        self.env_factory = env_factory
        self.actor_group: ActorGroup | ClusterGroup | None = None

    @property
    def reads_blocks(self) -> bool:
        """As `Agent.reads_blocks`; not with actor processes, whose memory is on the host."""
        return super().reads_blocks and not self.config.num_actors

    @property
    def total_envs(self) -> int:
        """Environments of all processes, including actors."""
        config = self.config
        return config.num_actors * config.num_envs if config.num_actors else super().total_envs

    def build(self) -> None:
        """Make the networks of the learner and the actors, and the optimizer."""
        super().build()
        self.build_actor()

    def capture(self) -> None:
        """Capture the forward pass of acting and the update; exploration samples outside."""
        OffPolicyAgent.capture(self)  # not that of DQN, whose acting samples
        stream = self.acting_stream
        self.acting_values = self.captured(self._acting_values, uses_generator=False, stream=stream)

    @property
    def draws_in_update(self) -> bool:
        """Not with actor processes, whose memory is on the host."""
        return super().draws_in_update and not self.config.num_actors

    @torch.no_grad()
    def _acting_values(self, obs: Tensor) -> Tensor:
        return self.q_values(self.actor, obs)

    def choose_actions(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `ApexAgent.choose_actions`: epsilon-greedy."""
        q_values = self.acting_values(obs)
        actions = algos.epsilon_greedy(q_values, self.epsilon(), self.generator)
        return actions, gather_actions(q_values, actions), q_values.amax(-1)

    def gauges(self) -> dict[str, float]:
        """As `OffPolicyAgent.gauges`, with those of a cluster."""
        group = self.actor_group
        return {**super().gauges(), **(group.gauges() if group is not None else {})}

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train as `Agent.train`, in one process or with actor processes."""
        yield from (
            self._train_with_actors(steps) if self.config.num_actors else super().train(steps)
        )

    def _train_with_actors(self, steps: int | None) -> Iterator[Progress]:
        """Learn from the transitions of actor processes.

        A round waits for new transitions and makes the updates that are due for them. Actors wait
        when they are too far ahead of the learner.
        """
        config = self.config
        stop = config.total_steps if steps is None else steps
        with ClusterGroup(self) if config.cluster else ActorGroup(self) as actors:
            self.actor_group, self.replay = actors, actors.replay
            first = self.steps
            while self.steps < stop:
                new = actors.wait_for_transitions()
                self.steps += new
                self.statistics.sums += actors.new_statistics()
                self.add_credit(new)
                if self._has_enough():
                    self.anneal()
                    for _ in range(self.updates_due()):
                        self.metrics = self.update()
                    actors.send_weights(self.network)
                actors.allow(self.steps - first)
                yield self.progress(self.metrics)
