"""Parts that A2C, V-trace, PPO and PQN share: rollouts, acting, and values of next observations.

Rollouts are time-major. Observations are stored one frame per step; stacks are rebuilt where a
network reads them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.agent import Agent
from cule.agents.algorithms.config import AgentConfig
from cule.agents.algorithms.optimisers import make_rmsprop
from cule.agents.algorithms.policies import Policy
from cule.agents.algorithms.schedules import learning_rate_of, set_learning_rate
from cule.agents.algorithms.value_scale import ValueScale
from cule.agents.training.checkpoint import Metrics
from cule.agents.training.distributed import update_statistics
from cule.agents.training.options import Fraction, NonNegativeFloat, Positive
from cule.errors import InvalidArgumentError
from cule.nets import ActorCritic
from cule.replay import Rollout, TrajectoryBuffer, TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class RolloutConfig(AgentConfig):
    """Options of the algorithms with rollouts."""

    num_steps: Positive = 128
    """Steps T of a rollout."""

    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """constant, or linear: to 0 at `total_steps`."""

    forward_batch: Positive = 4096
    """Maximum number of observations in one forward pass without gradients; bounds memory."""

    normalize_obs: bool = False
    """Normalise pixels by their running mean and standard deviation, updated after each rollout."""


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig(RolloutConfig):
    """Options of the algorithms with a policy and a value."""

    value_coef: float = 0.5
    """Factor of the value loss."""

    entropy_coef: float = 0.01
    """Factor of the entropy."""

    entropy_coef_end: float | None = None
    """Factor of the entropy at `total_steps`, towards which it changes linearly; none: it is
    constant."""


@dataclass(frozen=True, kw_only=True)
class RMSpropConfig(ActorCriticConfig):
    """Options of the actor-critic algorithms with RMSProp."""

    rmsprop_alpha: Fraction = 0.99
    """Decay of the squared gradients."""

    rmsprop_eps: NonNegativeFloat = 1e-5
    """Epsilon of RMSProp, which is added under the root, as in TensorFlow and publications."""


class RolloutAgent(Agent):
    """Base of the algorithms with rollouts.

    Attributes:
        buffer: The last steps of all environments.
    """

    config: RolloutConfig
    buffer: TrajectoryBuffer

    def build(self) -> None:
        """Make the network and the optimizer; `begin_buffer` makes the buffer."""
        self.network = self.new_network()
        self.optimizer = self.make_optimizer()

    @abstractmethod
    def make_optimizer(self) -> torch.optim.Optimizer:
        """Make the optimizer."""

    def buffer_options(self) -> TrajectoryOptions:
        """Options of the buffer."""
        return TrajectoryOptions(**self.storage_options(), num_steps=self.config.num_steps)

    def begin_buffer(self, frames: Tensor) -> None:
        """Make the buffer, store the first frames, and begin the statistics of pixels."""
        self.buffer = TrajectoryBuffer(self.buffer_options())
        self.buffer.start(frames)
        if self.pixel_statistics is not None:
            update_statistics(self.pixel_statistics, frames)

    def anneal(self) -> None:
        """Set the scheduled numbers of the next round."""
        if self.config.learning_rate_schedule == "linear":
            set_learning_rate(self.optimizer, self.scheduled(self.learning_rate, 0.0))

    def scheduled(self, start: float, end: float | None) -> float:
        """A number that changes linearly to `end` at `total_steps`; constant if that is None."""
        position = self.steps / max(self.config.total_steps, 1)
        return start if end is None else algos.linear_schedule(start, end, position)

    def schedules(self) -> Metrics:
        """The current learning rate."""
        return {"learning_rate": learning_rate_of(self.optimizer)}

    def round(self) -> None:
        """Collect a rollout, update from it, and then from its frames the statistics of pixels.

        Acting and learning so read the same statistics, and ratios of probabilities begin at 1.
        """
        self.anneal()
        self.collect(self.config.num_steps)
        self.metrics = self.update()
        self.update_pixel_statistics()

    def update_pixel_statistics(self) -> None:
        """Update the statistics of pixels, if there are any, with the frames of the rollout."""
        if self.pixel_statistics is not None:
            for frames in self.buffer.frames(self.config.forward_batch):
                update_statistics(self.pixel_statistics, frames)

    def update(self) -> Metrics:
        """Update from the rollout in the buffer; return the metrics."""
        metrics = self.learn_once()
        self.updates += self.updates_of(metrics)
        return metrics

    def updates_of(self, metrics: Metrics) -> int:
        """Updates of the optimizer that `update` has just made."""
        return 1

    @property
    def sampling_generator(self) -> torch.Generator:
        """That of the minibatches."""
        return self.buffer.generator

    @property
    def can_sync(self) -> bool:
        """Whether the host may read tensors to make decisions: on a CPU, outside of graphs."""
        return self.device.type == "cpu" and not self.config.cuda_graphs

    def only_valid(self, valid: Tensor) -> Tensor | None:
        """Which samples to learn from; None: all, as always with SameStep autoreset."""
        return valid if self.autoreset_mode == "NextStep" else None

    @abstractmethod
    def state_values(self, obs: Tensor) -> Tensor:
        """State values ``[B]`` of observations, in one forward pass."""

    @torch.no_grad()
    def values_of(self, obs: Tensor) -> Tensor:
        """State values ``[B]`` of observations, `forward_batch` at a time."""
        with self.autocast():
            size = self.config.forward_batch
            parts = (obs[begin : begin + size] for begin in range(0, len(obs), size))
            return torch.cat([self.state_values(part) for part in parts])

    @torch.no_grad()
    def next_values(self, rollout: Rollout, values: Tensor) -> Tensor:
        """Values of the observations that follow each step; float32 ``[T, n]``.

        One pass for the newest observations, and one for the final observations of truncated
        episodes. The latter is skipped if there are none and the host may read the device.
        """
        last_values = self.values_of(rollout.bootstrap_obs)
        if self.autoreset_mode == "NextStep":  # final observations are among the others
            return torch.cat([values[1:], last_values.unsqueeze(0)])
        finals = torch.zeros_like(values)
        if not self.can_sync or bool((rollout.final_steps >= 0).any()):
            for obs, steps in zip(rollout.final_obs, rollout.final_steps, strict=True):
                index = steps.clamp(min=0).unsqueeze(0)
                kept = torch.where(steps >= 0, self.values_of(obs), finals.gather(0, index)[0])
                finals.scatter_(0, index, kept.unsqueeze(0))
        return algos.shift_values(values, last_values, finals, rollout.ended)

    def extra_state(self, *, replay: bool) -> dict[str, object]:
        """The buffer, from whose newest stacks the next round continues."""
        return {"buffer": self.buffer.state_dict()} if self._has_begun else {}

    def load_extra_state(self, state: Mapping[str, object]) -> bool:
        """Restore the buffer."""
        if "buffer" not in state:
            return False
        self.buffer = TrajectoryBuffer(self.buffer_options())
        self.buffer.load_state_dict(cast("dict[str, object]", state["buffer"]))
        return True


class ActorCriticAgent(RolloutAgent):
    """Base of the algorithms with a policy and a value.

    Attributes:
        policy: Turns outputs of the network into actions.
        value_scale: Turns outputs of the network into values.
        entropy_coef: Current factor of the entropy; scalar on the device.
        choose: Acts on observations: `_choose`, captured where the environments cannot be.
        play: Plays one step: `_play`, captured where the environments can be.
    """

    config: ActorCriticConfig
    policy: Policy
    value_scale: ValueScale
    entropy_coef: Tensor
    choose: Callable[[Tensor], tuple[Tensor, dict[str, Tensor]]]
    play: Callable[[], None]

    def build(self) -> None:
        """Make network, optimizer and policy."""
        super().build()
        self.policy = Policy()
        self.value_scale = ValueScale().to(self.device)
        self.entropy_coef = torch.tensor(self.config.entropy_coef, device=self.device)

    def network_outputs(self) -> Mapping[str, tuple[int, ...]]:
        """Logits of the actions, and the value."""
        return {"logits": (self.num_actions,), "values": ()}

    def make_network(self) -> nn.Module:
        """Make a policy over the actions and a value; see `network_outputs`."""
        config = self.config
        return ActorCritic(
            self.obs_shape,
            self.num_actions,
            torso=config.network,
            initialisation=config.initialisation,
            normalize_obs=config.normalize_obs,
        )

    def anneal(self) -> None:
        """Set the scheduled numbers of the next round."""
        super().anneal()
        config = self.config
        if config.entropy_coef_end is not None:
            self.entropy_coef.fill_(self.scheduled(config.entropy_coef, config.entropy_coef_end))

    def extra_state(self, *, replay: bool) -> dict[str, object]:
        """The buffer, and the units of values."""
        return {
            **super().extra_state(replay=replay),
            "value_scale": self.value_scale.state_dict(),
        }

    def load_extra_state(self, state: Mapping[str, object]) -> bool:
        """Restore the state."""
        self.value_scale.load_state_dict(cast("dict[str, Tensor]", state["value_scale"]))
        return super().load_extra_state(state)

    def capture(self) -> None:
        """Capture the update and acting: whole steps, if the environments share the device."""
        super().capture()
        plain, captured = self._choose, self.captured
        self.choose = plain if self.shares_device else captured(plain)
        self.play = captured(self._play) if self.shares_device else self._play

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Sample actions from the policy, or choose the most probable ones."""
        with self.autocast():
            output, _ = self.forward(obs)
        actions = self.policy.best(output) if greedy else self.policy.sample(output, generator)[0]
        return self.policy.env_actions(actions)

    def play_step(self) -> None:
        """Play one step with the current policy."""
        before = self.buffer.num_steps_done
        self.play()
        if self.buffer.num_steps_done == before:
            self.buffer.count_captured_step()

    @torch.no_grad()
    def _play(self) -> None:
        obs = self.buffer.observe()
        actions, extras = self.choose(obs)
        # A graph cannot follow the memory of the next frame, which changes every step.
        next_frame = None if self.config.cuda_graphs else self.buffer.next_frame()
        step = self.step_env(self.policy.env_actions(actions), next_frame)
        self.buffer.append(actions, step, **extras)
        self.statistics.add(step)

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions ``[N]`` or ``[N, 3]``, and the extras that the buffer stores with them."""
        with self.autocast():
            output, values = self.forward(obs)
        actions, extras = self.policy.sample(output, self.generator)
        return actions, {**extras, "values": self.value_scale.values(values)}

    def state_values(self, obs: Tensor) -> Tensor:
        """As `RolloutAgent.state_values`."""
        return self.value_scale.values(self.forward(obs)[1])


class AdvantageAgent(ActorCriticAgent):
    """Base of A2C and V-trace: one update with RMSProp from each rollout.

    Attributes:
        loss_scale: Factor of the mean loss.
    """

    config: RMSpropConfig
    loss_scale = 1.0

    @abstractmethod
    def estimate(
        self, rollout: Rollout, values: Tensor, log_probs: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Advantages, value targets and metrics, from current values and log-probabilities."""

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Make RMSProp."""
        config = self.config
        return make_rmsprop(
            self.network.parameters(),
            learning_rate=self.learning_rate,
            alpha=config.rmsprop_alpha,
            eps=config.rmsprop_eps,
        )

    def next_rollout(self) -> Rollout:
        """The rollout that the next update learns from."""
        return self.buffer.rollout()

    def _learn_once(self) -> dict[str, Tensor]:
        """Update once from the last steps of the environments; return the metrics."""
        return self._learn_from(self.next_rollout())

    def _learn_from(self, rollout: Rollout) -> dict[str, Tensor]:
        """Update with policy gradient, squared value error and entropy."""
        config = self.config
        assert rollout.obs is not None
        with self.autocast():
            logits, values = self.forward(rollout.obs.flatten(0, 1))
        shape = rollout.rewards.shape
        values = values.view(shape)
        log_probs = algos.log_prob(logits, rollout.actions.flatten()).view(shape)
        advantages, targets, metrics = self.estimate(rollout, values.detach(), log_probs.detach())
        used = self.only_valid(rollout.valid)
        policy_loss = -algos.mean_of(advantages * log_probs, used)
        value_loss = algos.value_loss(values, targets, valid=used)
        entropy = algos.mean_of(algos.entropy(logits).view(shape), used)
        loss = policy_loss + config.value_coef * value_loss - self.entropy_coef * entropy
        norm = self.learn(loss * self.loss_scale)
        return {
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "value_mean": values.detach().mean(),
            "explained_variance": algos.explained_variance(values.detach(), targets),
            "grad_norm": norm,
            **metrics,
        }


def check_minibatches(count: int, samples: int, product: str = "num_steps x num_envs") -> None:
    """Require that minibatches divide the samples of a rollout."""
    if samples % count:
        raise InvalidArgumentError(
            f"num_minibatches is {count}, which does not divide the {samples} of a rollout "
            f"({product})"
        )
