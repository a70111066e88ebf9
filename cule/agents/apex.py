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
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.dqn import (
    DQNConfig,
    annealed_beta,
    make_head,
    make_q_network,
    make_q_optimizer,
    q_outputs,
)
from cule.agents.parts import memory, optim, state
from cule.agents.parts.actor_errors import ActorErrors, concurrently
from cule.agents.parts.distributed import num_launched
from cule.agents.parts.envs import AnyEnv, FrameEnv, make_env
from cule.agents.parts.graphs import separate_stream
from cule.agents.parts.learner import Learner, Metrics, Progress, progress_of
from cule.agents.parts.rollout import count_frames
from cule.agents.parts.setup import Network, Setup
from cule.errors import InvalidArgumentError, shown
from cule.nets import gather_actions, soft_copy
from cule.option_fields import Bounds, Fraction, GradNorm, NonNegativeFloat, Positive, require
from cule.replay import Batch, PrioritizedOptions, PrioritizedReplay

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
        require(self, "in Ape-X", prioritized=True, num_atoms=1, noisy=False)
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
            require(self, "without cluster", replay_shards=1, actor_gpus=0)
        if self.num_actors:
            self._check_actors()

    def _check_actors(self) -> None:
        where = f"with num_actors {self.num_actors}"
        require(self, where, overlap=False, normalize_obs=False, exploration="ladder")
        if num_launched() > 1:
            raise InvalidArgumentError(
                f"num_actors is {self.num_actors} and there are {num_launched()} processes; actors "
                "need a single learner"
            )
        if self.device != "cpu" and self.env_device not in ("", "cpu"):
            raise InvalidArgumentError(
                f"env_device is {shown(self.env_device)}; with actors it must be 'cpu'"
            )


class ApexDQN(Learner):
    """Ape-X DQN; see docs/agents/apex.md.

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
        self.config, self.env_factory = config, env_factory
        self.actor_group: ClusterGroup | None = None
        if config.num_actors and env is None:
            env = make_env(dataclasses.replace(config, num_envs=config.num_players))
        self.setup = setup = Setup(config, env, type(self))
        if setup.autoreset_mode != "SameStep":
            raise InvalidArgumentError(
                f"autoreset_mode of the environment is {shown(setup.autoreset_mode)}; for Ape-X it "
                "must be 'SameStep'"
            )
        if config.num_actors:
            setup.total_envs = config.num_actors * config.num_envs
        self.env, self.device, self.num_envs = setup.env, setup.device, setup.num_envs
        self.obs_shape, self.num_actions = setup.obs_shape, setup.num_actions
        self.generator, self.statistics = setup.generator, setup.statistics
        self.steps, self.updates, self.has_begun = 0, 0, False
        self.metrics: Metrics = {}

        self.head = make_head(config, setup)
        outputs = q_outputs(config, self.num_actions)
        self.network = setup.make_network(network, self.make_network, outputs)
        self.target = memory.copy_network(self.network)
        self.actor = memory.copy_network(self.network)
        self.forward = setup.compiled(self.network)
        self.optimizer = make_q_optimizer(config, self.network.parameters(), setup.learning_rate)
        if config.cuda_graphs:
            optim.make_capturable(self.optimizer, self.device)
        # Batches are drawn by an update itself, unless they are drawn before, or elsewhere.
        draws_in_update = not (config.overlap or config.num_actors)
        self.beta = memory.beta_on(config, self.device) if draws_in_update else config.beta_start
        self.credit = memory.Credit(config)
        self.actor_errors, self.acted_steps = ActorErrors(config.n_step), 0

        # With cuda_graphs these calls are replayed; exploration samples outside.
        has_two_streams = config.overlap and self.device.type == "cuda"
        self.acting_stream = separate_stream(self.device) if has_two_streams else None
        capture = setup.graphs.capture
        self.learn_once: Callable[[], Metrics] = self.learn
        self.learn_from: Callable[[Batch], tuple[Tensor, dict[str, Tensor]]] = self.minimise
        if draws_in_update:
            self.learn_once = capture(
                self.learn, draws=lambda: self.replay.generator, copies_results=False
            )
        else:
            self.learn_from = capture(self.minimise, uses_generator=False)
        self.acting_values: Callable[[Tensor], Tensor] = capture(
            self._acting_values, uses_generator=False, stream=self.acting_stream
        )

    def make_network(self) -> nn.Module:
        """Make action values, on the CPU."""
        return make_q_network(self.config, self.setup)

    # --- The loop ---------------------------------------------------------------------------------

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train to `steps`, by default `total_steps`; yield after every `collect_steps` steps."""
        config = self.config
        stop = self.setup.stop_at(steps)
        if config.num_actors:
            yield from self._train_with_actors(stop)
            return
        self.begin()
        while self.steps < stop:
            if config.overlap:
                self._overlapped_round()
            else:
                self.collect()
                self.credit.add(self.replay, config.collect_steps * self.num_envs)
                self.anneal()
                for _ in range(self.credit.updates_due(self.replay)):
                    self.metrics = self.update()
            epsilon = self.epsilon()
            mean = epsilon.mean() if isinstance(epsilon, Tensor) else epsilon
            yield progress_of(self, {**self.metrics, "epsilon": mean})

    def _overlapped_round(self) -> None:
        """Learn from batches of earlier steps while the next steps are played."""
        config = self.config
        self.anneal()
        batches = [self.sample() for _ in range(self.credit.updates_due(self.replay))]
        self.renew_actor(config.collect_steps)
        errors = []
        with concurrently(self.acting_stream) as acting:
            for batch in batches:
                batch_errors, self.metrics = self.learn_from(batch)
                self.count_update()
                errors.append(batch_errors)
            with acting:
                self.collect()
        for batch, batch_errors in zip(batches, errors, strict=True):
            memory.set_priorities(self.replay, batch.ids, batch_errors)
        self.credit.add(self.replay, config.collect_steps * self.num_envs)

    def _train_with_actors(self, stop: int) -> Iterator[Progress]:
        """Learn from the transitions of the actors of a cluster.

        A round waits for new transitions and makes the updates that are due for them. Actors wait
        when they are too far ahead of the learner.
        """
        self.epsilon()  # refuses a ladder of one environment
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
                        self.metrics = self.update()
                    actors.send_weights(self.network)
                actors.request_blocks()
                yield progress_of(self, self.metrics)

    def begin(self) -> None:
        """Reset the environments and start the memory, unless the run has begun or was resumed."""
        if not self.has_begun:
            frames = self.setup.reset(self.steps)
            self.replay = self.make_replay()
            self.replay.start(frames)
            self.has_begun = True

    def memory_options(self) -> dict[str, Any]:
        """Keywords of `PrioritizedOptions`."""
        config = self.config
        options = self.setup.storage_options(self.network)
        options |= {"capacity": config.memory, "n_step": config.n_step, "alpha": config.alpha}
        return {**options, "pixel_blocks": options["pixel_blocks"] and not config.num_actors}

    def make_replay(self) -> PrioritizedReplay:
        """Make the memory."""
        return PrioritizedReplay(PrioritizedOptions(**self.memory_options()))

    def anneal(self) -> None:
        """Set beta, in place where graphs read it."""
        self.beta = annealed_beta(self.beta, self.config, self.steps)

    def update(self) -> Metrics:
        """Update once from one batch."""
        metrics = self.learn_once()
        self.count_update()
        return metrics

    def count_update(self) -> None:
        """Count an update, and renew the target network where that is due."""
        self.updates += 1
        if self.updates % self.config.target_interval == 0:
            soft_copy(self.target, self.network, self.config.target_tau)

    # --- Act --------------------------------------------------------------------------------------

    @functools.cached_property
    def ladder(self) -> Tensor:
        """Epsilons of the ladder; float32 ``[N]`` on the device, made when they are first used."""
        return self.setup.of_own_envs(memory.ladder_of(self.config, self.setup.total_envs))

    @torch.no_grad()
    def collect(self) -> None:
        """Play `collect_steps` steps of all environments into the memory."""
        with self.setup.timer.phase("collect"):
            for _ in range(self.config.collect_steps):
                self.play_step()
        self.steps += self.config.collect_steps * self.setup.total_envs

    def epsilon(self) -> Tensor | float:
        """Current epsilon: a number, or one per environment ``[N]``."""
        config = self.config
        if config.exploration == "ladder":
            return self.ladder
        position = (self.steps - config.learning_starts) / max(config.epsilon_steps, 1)
        return algos.linear_schedule(config.epsilon_start, config.epsilon_end, position)

    def renew_actor(self, num_steps: int) -> None:
        """Copy the weights to the actor if that is due within a number of steps."""
        if -self.acted_steps % self.config.sync_steps < num_steps:
            soft_copy(self.actor, self.network)

    @torch.no_grad()
    def play_step(self) -> None:
        """Play one step into the memory, with priorities from the acting network."""
        if not self.config.overlap:
            self.renew_actor(1)
        self.acted_steps += 1
        q_values = self.acting_values(self.replay.observe())
        actions = algos.epsilon_greedy(q_values, self.epsilon(), self.generator)
        taken, best = gather_actions(q_values, actions), q_values.amax(-1)
        errors = self.actor_errors.errors(best)
        if errors is not None:
            memory.set_priorities(self.replay, self.replay.newest_ids(), errors)
        step = self.setup.step_env(actions, self.replay.next_frame())
        if self.updates == 0:
            count_frames(self.network, step.frame)
        # Priority 0: not sampled before a later acting pass gives its error.
        self.replay.append(actions, step, torch.zeros_like(best))
        self.actor_errors.add_step(taken, best, step, self.config)
        self.statistics.add(step)

    @torch.no_grad()
    def _acting_values(self, obs: Tensor) -> Tensor:
        return self.head.values(self.actor, obs, self.generator)

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Choose the best actions, or with probability `eval_epsilon` random ones."""
        epsilon = 0.0 if greedy else self.eval_epsilon
        values = self.head.values(self.forward, self.setup.check_obs(obs), generator)
        return algos.epsilon_greedy(values, epsilon, generator)

    # --- Learn ------------------------------------------------------------------------------------

    def learn(self) -> dict[str, Tensor]:
        """Draw a batch, learn from it, and set its priorities; return the metrics."""
        batch = self.sample()
        errors, metrics = self.learn_from(batch)
        memory.set_priorities(self.replay, batch.ids, errors)
        return metrics

    def sample(self) -> Batch:
        """Sample a batch; weights are normalized over all processes."""
        if self.config.num_actors:
            shards: memory.FilledReplay = self.replay
            return shards.sample(self.config.batch_size, float(self.beta))
        batch = self.replay.sample(self.config.batch_size, self.beta)
        return memory.weigh_over_ranks(batch, self.replay, self.beta)

    def minimise(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Update from a batch; return errors ``[B]`` and metrics."""
        errors, losses, q_taken = self.head.losses(self.forward, self.target, batch)
        loss = (batch.weights * losses).mean()
        norm = self.setup.descend(loss, self.optimizer)
        return errors, {
            "loss": loss.detach(),
            "q_mean": q_taken.mean(),
            "grad_norm": norm,
            **memory.metrics_of(batch, errors),
        }

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from; without the memory of a cluster."""
        return state.with_memory(
            self,
            replay=replay,
            actor=self.actor.state_dict(),
            acted_steps=self.acted_steps,
            actor_errors=self.actor_errors.state(),
        )

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a memory, new episodes fill a new one."""
        state.load_with_memory(self, saved)
        extra = saved["extra"]
        self.actor.load_state_dict(extra["actor"])
        if "replay" in extra:
            self.acted_steps = extra["acted_steps"]
            self.actor_errors.load(extra["actor_errors"], self.device)
