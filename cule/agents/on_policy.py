"""What A2C, V-trace, PPO and PQN share: acting into a rollout, and values of what follows.

A rollout is time-major; observations are stored one frame a step, and stacks are rebuilt where a
network reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cule import algos
from cule.agents.base import REPLAY_SEED, Agent, timed
from cule.agents.distributed import sum_over_ranks, world_size
from cule.agents.environment import storage_options
from cule.agents.options import AgentConfig, check_least
from cule.errors import InvalidArgumentError
from cule.nets import ActorCritic, PixelStatistics
from cule.replay import Rollout, TrajectoryBuffer, TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class RolloutConfig(AgentConfig):
    """Options that the algorithms with rollouts share."""

    forward_batch: int = 4096
    """Most observations in one pass of the network without gradients; bounds memory."""

    def __post_init__(self) -> None:
        """Check what is new here."""
        super().__post_init__()
        check_least(self, 1, "forward_batch")


@dataclass(frozen=True, kw_only=True)
class PolicyConfig(RolloutConfig):
    """Options that the algorithms with a policy and a value share."""

    normalize_obs: bool = False
    """The network sees pixels less their running mean, over their running deviation."""


class OnPolicyAgent(Agent):
    """Base of the learners with rollouts.

    Attributes:
        network: Logits and values; for PQN action values.
        buffer: The last steps of all consoles.
    """

    network: Any
    buffer: TrajectoryBuffer
    forward: Any
    choose: Callable[[Tensor], tuple[Tensor, dict[str, Tensor]]]
    play: Callable[[], None]

    def build(self) -> None:
        """Network and optimiser; the buffer comes with the first frames."""
        self.network = self.make_network().to(self.device)
        self.optimizer = self.make_optimizer()

    def capture(self) -> None:
        """Acting; each algorithm adds its learning.

        A graph holds whole steps where it can hold the environments.
        """
        plain, captured = self._choose, self.captured
        self.choose = plain if self.shares_device else captured(plain)
        self.play = captured(self._play) if self.shares_device else self._play

    def anneal(self) -> None:
        """Set the learning rate of the next round: down to 0 at `total_steps`, if it falls."""
        config = self.config
        if config.anneal_learning_rate:
            done = min(self.steps / max(config.total_steps, 1), 1.0)
            self.set_learning_rate(self.learning_rate * (1.0 - done))

    def make_network(self) -> Any:
        """A policy and a value."""
        config = self.config
        return ActorCritic(
            self.obs_shape,
            self.num_actions,
            torso=config.network,
            initialisation=config.initialisation,
            normalize_obs=config.normalize_obs,
        )

    @property
    def can_sync(self) -> bool:
        """Whether reading a number to decide costs nothing, and no graph would miss it."""
        return self.device.type == "cpu" and not self.config.cuda_graphs

    def make_optimizer(self) -> torch.optim.Optimizer:
        """The optimiser of the algorithm."""
        raise NotImplementedError

    def make_buffer(self) -> TrajectoryBuffer:
        """A buffer of the last `num_steps` steps."""
        return TrajectoryBuffer(TrajectoryOptions(**self.buffer_options()))

    def buffer_options(self) -> dict[str, Any]:
        """Options of the buffer."""
        shared = storage_options(
            self.config, self.num_envs, self.obs_shape, self.device, self.seed_of(REPLAY_SEED)
        )
        return {**shared, "num_steps": self.config.num_steps}

    def begin_buffer(self, frames: Tensor) -> None:
        """Make the buffer and give it the first frames."""
        self.buffer = self.make_buffer()
        self.buffer.start(frames)

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Actions drawn from the policy, or its most probable ones."""
        with self.autocast():
            logits, _ = self.forward(obs)
        return logits.argmax(-1) if greedy else algos.sample_categorical(logits, generator)

    @timed("collect")
    @torch.no_grad()
    def collect(self, num_steps: int) -> None:
        """Play steps with the current policy into the buffer."""
        for _ in range(num_steps):
            before = self.buffer.num_steps_done
            self.play()
            if self.buffer.num_steps_done == before:
                self.buffer.count_captured_step()
        self.count_steps(num_steps)

    @torch.no_grad()
    def _play(self) -> None:
        """One step of all consoles into the buffer."""
        obs = self.buffer.observe()
        actions, extras = self.choose(obs)
        if self.network.statistics is not None:
            update_statistics(self.network.statistics, obs)
        # The next row is another in each step, which a graph could not follow.
        row = None if self.config.cuda_graphs else self.buffer.next_frame()
        step = self.step_env(self.executed(actions), row)
        self.buffer.append(actions, step, **extras)
        self.statistics.add(step)

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions drawn from the policy ``[N]``, and what the buffer keeps beside them."""
        with self.autocast():
            logits, values = self.forward(obs)
        actions = algos.sample_categorical(logits, self.generator)
        return actions, {"log_probs": algos.log_prob(logits, actions), "values": values}

    def executed(self, actions: Tensor) -> Tensor:
        """What the environments are given for the actions that the buffer keeps."""
        return actions

    def values_from(self, output: Any) -> Tensor:
        """State values ``[B]`` from what the network returns."""
        values: Tensor = output[1]
        return values

    @torch.no_grad()
    def values_of(self, obs: Tensor) -> Tensor:
        """Values of observations ``[B, ...]``, in parts of `forward_batch`."""
        parts = []
        with self.autocast():
            for begin in range(0, len(obs), self.config.forward_batch):
                part = obs[begin : begin + self.config.forward_batch]
                parts.append(self.values_from(self.forward(part)))
        return torch.cat(parts)

    @torch.no_grad()
    def next_values(self, window: Rollout, values: Tensor) -> Tensor:
        """Values of what followed each step of a window; float32 ``[T, n]``.

        One pass for the newest observations, and one for the final observations of episodes that a
        time limit ended (only if there are any, where looking costs nothing).
        """
        last_values = self.values_of(window.bootstrap_obs)
        finals = torch.zeros_like(values)
        if not self.can_sync or bool((window.final_steps >= 0).any()):
            for obs, steps in zip(window.final_obs, window.final_steps, strict=True):
                index = steps.clamp(min=0).unsqueeze(0)
                kept = torch.where(steps >= 0, self.values_of(obs), finals.gather(0, index)[0])
                finals.scatter_(0, index, kept.unsqueeze(0))
        return algos.shift_values(values, last_values, finals, window.ended)

    def extra_state(self, *, replay: bool) -> dict[str, Any]:
        """The rollout, whose newest stacks and window the next round goes on from."""
        return {"buffer": self.buffer.state_dict()} if self._has_begun else {}

    def load_extra_state(self, state: Mapping[str, Any]) -> bool:
        """Take the rollout back."""
        if "buffer" not in state:
            return False
        self.buffer = self.make_buffer()
        self.buffer.load_state_dict(state["buffer"])
        return True


def check_minibatches(count: int, samples: int, product: str = "num_steps x num_envs") -> None:
    """Refuse minibatches that do not divide a rollout's samples, or what `product` names.

    Raises:
        InvalidArgumentError: They do not.
    """
    if samples % count:
        raise InvalidArgumentError(
            f"num_minibatches is {count}, which does not divide the {samples} of a rollout "
            f"({product})"
        )


@torch.no_grad()
def update_statistics(statistics: PixelStatistics, obs: Tensor) -> None:
    """Take the observations of all processes into the statistics of pixels."""
    if world_size() == 1:
        statistics.update(obs)
        return
    x = obs.float()
    mean, square = sum_over_ranks(torch.stack([x.mean(0), x.square().mean(0)])) / world_size()
    count = torch.full_like(statistics.count, len(x) * world_size())
    statistics.merge(mean, square - mean.square(), count)
