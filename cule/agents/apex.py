"""Ape-X DQN: many explorers, each with an epsilon of its own, and prioritised replay.

Double, dueling, n-step, squared loss (Horgan et al. 2018). Consoles explore by a ladder of epsilons
that stays as it is; transitions enter the memory with the priorities that the acting network gives
them. Two forms:

* one process (``num_actors=0``): consoles, memory and learner on one device; actors act with a copy
  of the weights that is renewed every `sync_steps` steps;
* actor processes on CPUs (``num_actors`` of them, `num_envs` consoles each), one learner, and a
  memory that they share; see `cule.agents.apex_actors`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.apex_acting import ApexActing
from cule.agents.apex_actors import ActorGroup, EnvFactory
from cule.agents.base import Progress
from cule.agents.distributed import num_launched, world_size
from cule.agents.dqn import DQN, DQNConfig
from cule.agents.environment import FrameEnv, make_env
from cule.agents.off_policy import replay_gauges
from cule.agents.options import check_least
from cule.errors import InvalidArgumentError
from cule.nets import gather_actions


@dataclass(frozen=True, kw_only=True)
class ApexConfig(DQNConfig):
    """Options of Ape-X DQN; the defaults are those of the paper, for 256 consoles."""

    num_envs: int = 256
    """Consoles N of each process that has some: of this one, or of each actor."""

    double: bool = True
    """The network that learns chooses the action that the target network values."""

    dueling: bool = True
    """A stream for the state's value and one for the advantages."""

    n_step: int = 3
    """Steps n of a return."""

    prioritized: bool = True
    """Replay in proportion to priorities; cannot be switched off here."""

    memory: int = 2_000_000
    """Transitions of the replay memory of each process."""

    learning_starts: int = 50_000
    """Transitions in all memories before the first update."""

    batch_size: int = 512
    """Samples B of an update of each process."""

    samples_per_insert: float = 0.78
    """Samples learned from for each step taken."""

    optimizer: str = "rmsprop"
    """adam, or rmsprop (centred, decay 0.95)."""

    optimizer_eps: float = 1.5e-7
    """Epsilon of the optimiser; of RMSProp it stands under the root, as in the published ones."""

    max_grad_norm: float = 40.0
    """Global norm that gradients are clipped to; 0: not clipped."""

    loss: str = "squared"
    """huber, or squared (half the squared error); distributions have their cross-entropy."""

    target_interval: int = 2500
    """Updates between copies to the target network."""

    exploration: str = "ladder"
    """schedule: one epsilon that falls; ladder: one for each console, constant."""

    alpha: float = 0.6
    """Exponent of priorities."""

    beta_end: float = 0.4
    """And at the end of training."""

    max_num_frames_per_episode: int = 50_000
    """Emulated frames after which an episode is truncated."""

    sync_steps: int = 100
    """Steps of a console between copies of the learner's weights to the actors."""

    overlap: bool = False
    """Learn from batches of the steps so far while the next ones are played; in one process."""

    num_actors: int = 0
    """Actor processes; 0: this process steps and learns."""

    block_size: int = 100
    """Transitions that an actor process hands over at once."""

    def __post_init__(self) -> None:
        """Check what is new here."""
        super().__post_init__()
        check_least(self, 1, "sync_steps", "block_size")
        check_least(self, 0, "num_actors")
        if not self.prioritized or self.num_atoms != 1 or self.noisy:
            raise InvalidArgumentError(
                "prioritized must be True, num_atoms 1 and noisy False in Ape-X; "
                f"they are {self.prioritized}, {self.num_atoms} and {self.noisy}"
            )
        if self.num_actors and self.overlap:
            raise InvalidArgumentError(
                f"overlap is True and num_actors {self.num_actors}; actor processes play beside "
                "the learner anyway, so overlap must be False"
            )
        if self.num_actors and num_launched() > 1:
            raise InvalidArgumentError(
                f"num_actors is {self.num_actors} and there are {num_launched()} processes; actor "
                "processes need a single learner"
            )
        if self.num_actors and self.exploration != "ladder":
            raise InvalidArgumentError(
                f"exploration is {self.exploration!r}; actor processes have 'ladder'"
            )
        if self.num_actors and self.device != "cpu" and self.env_device not in ("", "cpu"):
            raise InvalidArgumentError(
                f"env_device is {self.env_device!r}; actor processes have their consoles on 'cpu'"
            )


class ApexDQN(ApexActing, DQN):
    """The learner; see docs/agents/apex.md.

    Example:
        >>> from cule.agents import ApexConfig, ApexDQN
        >>> config = ApexConfig(game="pong", num_envs=8, memory=4000, learning_starts=64)
        >>> agent = ApexDQN(config)
        >>> [progress.steps for progress in agent.train(steps=24)]
        [8, 16, 24]
    """

    name: ClassVar[str] = "apex-dqn"
    config_class = ApexConfig
    config: ApexConfig
    eval_epsilon: ClassVar[float] = 0.00164

    def __init__(
        self, config: Any, env: FrameEnv | None = None, env_factory: EnvFactory | None = None
    ) -> None:
        """As `Agent`.

        Args:
            config: Options.
            env: As for `Agent`; with actor processes only its spaces are looked at.
            env_factory: Makes the environments of an actor process, from the config and the actor's
                number; a function that can be pickled. By default the config's consoles.
        """
        if config.num_actors and env is None:
            env = make_env(config, num_envs=1)
        super().__init__(config, env)
        self.env_factory = env_factory

    @property
    def total_envs(self) -> int:
        """Consoles of all processes, those of actors among them."""
        config = self.config
        return config.num_actors * config.num_envs if config.num_actors else super().total_envs

    def build(self) -> None:
        """As DQN, and the actors' copy of the network."""
        super().build()
        self.build_actor()

    def capture(self) -> None:
        """As DQN; exploration draws outside of graphs."""
        stream = self.acting_stream
        self.acting_values = self.captured(self._acting_values, draws=False, stream=stream)
        self.learn_from = self.captured(self._learn_from, draws=False)

    @torch.no_grad()
    def _acting_values(self, obs: Tensor) -> Tensor:
        return self.q_values(self.actor, obs)

    def choose_actions(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `ApexActing`: epsilon-greedy."""
        q_values = self.acting_values(obs)
        actions = algos.epsilon_greedy(q_values, self.epsilon(), self.generator)
        return actions, gather_actions(q_values, actions), q_values.amax(-1)

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """As `Agent.train`; a round is `collect_steps` steps and the updates that they pay for."""
        if not self.config.num_actors:
            yield from super().train(steps)
            return
        yield from self._train_with_actors(steps)

    def _train_with_actors(self, steps: int | None) -> Iterator[Progress]:
        """Learn from what actor processes hand over.

        A round waits for new transitions, and makes the updates that they pay for. The actors wait
        where they are further ahead than the learner's share allows.
        """
        config = self.config
        stop = config.total_steps if steps is None else steps
        with ActorGroup(config, self.network, self, self.env_factory) as actors:
            self.replay = actors.replay
            first = self.steps
            while self.steps < stop:
                new = actors.wait_for_transitions()
                self.steps += new
                self.statistics.sums += actors.new_statistics()
                self.add_credit(new)
                if self._has_enough():
                    for _ in range(self.updates_due()):
                        self.metrics = self.update()
                    actors.send_weights(self.network)
                actors.allow(self.steps - first)
                yield Progress(self.steps, self.updates, self.metrics)

    def gauges(self) -> dict[str, float]:
        """As DQN; with actor processes of the memory that they fill."""
        is_open = self._has_begun or (self.config.num_actors and hasattr(self, "replay"))
        return replay_gauges(self.replay, self.total_envs // world_size()) if is_open else {}

    def extra_state(self, *, replay: bool) -> dict[str, Any]:
        """As `ApexActing`; a memory shared with actors is not saved."""
        return super().extra_state(replay=replay and not self.config.num_actors)
