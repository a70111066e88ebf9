"""PPO: proximal policy optimisation with clipped ratios (Schulman et al. 2017).

`PPO.train` is the loop: play T steps of N environments, `learn` from them, repeat. `learn`
estimates advantages and runs epochs over shuffled minibatches; `minimise` is the loss of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from cule import algos, nets
from cule.agents.parts import optim, state
from cule.agents.parts.acting import GaussianPolicy, Policy
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.distributed import global_moments, local_moments
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.learner import Learner, Metrics, Progress, progress_of
from cule.agents.parts.rollout import ValueScale, count_frames, count_rollout, in_parts, next_values
from cule.agents.parts.setup import Network, Setup
from cule.errors import InvalidArgumentError
from cule.option_fields import Epochs, Fraction, NonNegativeFloat, Positive, PositiveFloat
from cule.replay import TrajectoryBuffer, TrajectoryOptions


@dataclass(frozen=True, kw_only=True)
class PPOConfig(AgentConfig):
    """Options of PPO; the defaults are those of CleanRL's ppo_atari.py."""

    num_envs: Positive = 8
    episodic_life: bool = True
    fire_after_life_loss: bool = True

    num_steps: Positive = 128
    """Steps T of a rollout."""

    learning_rate_schedule: Literal["constant", "linear"] = "linear"
    """constant, or linear: to 0 at `total_steps`."""

    adaptive_kl: PositiveFloat | None = None
    """Mean KL divergence of the updates of a rollout to which the learning rate adapts, in place of
    its schedule: it is multiplied by 1.5 after a rollout below half of it, and divided by 1.5 above
    twice. None: the learning rate has its schedule."""

    num_epochs: Epochs = 4
    """Passes over each rollout."""

    num_minibatches: Positive = 4
    """Minibatches of each epoch, with one update of the optimizer each."""

    adam_eps: NonNegativeFloat = 1e-5
    """Epsilon of Adam."""

    gae_lambda: Fraction = 0.95
    """Lambda of the advantages."""

    clip_range: NonNegativeFloat = 0.1
    """Maximum distance of a ratio from 1 before its gradient is clipped."""

    clip_range_end: NonNegativeFloat | None = None
    """Clip range at `total_steps`, towards which it changes linearly; none: it is constant."""

    clip_values: bool = True
    """Clip the change of values by the clip range as well, in units of the value loss."""

    normalize_values: bool = False
    """Learn values in units of the running standard deviation of returns, for games with large
    rewards that are not clipped."""

    normalize_advantages: bool = True
    """Normalize the advantages of each minibatch to mean 0 and standard deviation 1."""

    normalize_obs: bool = False
    """Normalize pixels by their running mean and standard deviation, updated after each rollout."""

    value_coef: NonNegativeFloat = 0.5
    """Factor of the value loss (half the mean squared error)."""

    entropy_coef: NonNegativeFloat = 0.01
    """Factor of the entropy."""

    entropy_coef_end: NonNegativeFloat | None = None
    """Factor of the entropy at `total_steps`, towards which it changes linearly; none: constant."""

    target_kl: NonNegativeFloat | None = None
    """Mean KL divergence of an epoch above which further epochs change nothing; none: no limit."""

    local_norm: bool = False
    """With several processes, normalize advantages over the minibatch of this process only."""

    continuous: bool = False
    """Use radius, angle and fire, sampled from a normal policy, instead of discrete actions."""

    initial_sigma: PositiveFloat = 1.0
    """Initial standard deviation of the continuous policy, before squashing."""

    forward_batch: Positive = 4096
    """Maximum number of observations in one forward pass without gradients; bounds memory."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        if self.adaptive_kl is not None:
            object.__setattr__(self, "learning_rate_schedule", "constant")
        if self.continuous and self.full_action_space:
            raise InvalidArgumentError(
                "continuous is True and full_action_space True; continuous actions have no list, "
                "so one of them must be False"
            )


class Samples(NamedTuple):
    """A minibatch of steps ``[B]``."""

    obs: Tensor
    actions: Tensor
    advantages: Tensor
    returns: Tensor
    old_log_probs: Tensor
    old_values: Tensor
    valid: Tensor


class PPO(Learner):
    """Proximal policy optimisation; see docs/agents/ppo.md.

    Example:
        >>> from cule.agents import PPO, PPOConfig
        >>> agent = PPO(PPOConfig(game="pong", num_envs=8, num_steps=16, total_steps=256))
        >>> [progress.steps for progress in agent.train()]
        [128, 256]
    """

    name: ClassVar[str] = "ppo"
    config_class: ClassVar[type[PPOConfig]] = PPOConfig
    value_shape: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self, config: PPOConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        self.config = config
        self.setup = setup = Setup(config, env, type(self))
        self.env, self.device, self.num_envs = setup.env, setup.device, setup.num_envs
        self.obs_shape, self.num_actions = setup.obs_shape, setup.num_actions
        self.generator, self.statistics = setup.generator, setup.statistics
        self.steps, self.updates, self.has_begun = 0, 0, False
        self.metrics: Metrics = {}

        actions = {"means": (3,)} if config.continuous else {"logits": (self.num_actions,)}
        outputs = {**actions, "values": self.value_shape}
        self.network = setup.make_network(network, self.make_network, outputs)
        self.policy = GaussianPolicy(self.network) if config.continuous else Policy()
        self.forward = setup.compiled(self.network)
        optim.check_minibatches(config.num_minibatches, config.num_steps * self.num_envs)
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(
            self.network.parameters(), lr=setup.learning_rate, eps=config.adam_eps, fused=True
        )
        reads_kl = config.target_kl is not None or config.adaptive_kl is not None
        if config.cuda_graphs or (reads_kl and self.device.type == "cuda"):
            optim.make_capturable(self.optimizer, self.device)  # state and rate change there
        self.value_scale = ValueScale().to(self.device)
        self.entropy_coef = torch.tensor(config.entropy_coef, device=self.device)
        self.clip_range = torch.tensor(config.clip_range, device=self.device)

        # With cuda_graphs these calls are replayed. Environments elsewhere cannot be captured.
        capture, is_near = setup.graphs.capture, setup.shares_device
        self.choose = self._choose if is_near else capture(self._choose)
        self.play: Callable[[], None] = capture(self._play) if is_near else self._play
        self.learn_once = capture(
            self.learn, draws=lambda: self.buffer.generator, copies_results=False
        )

    def make_network(self) -> nn.Module:
        """Make a policy, discrete or normal, and a value, on the CPU."""
        options = self.setup.network_options(normalize_obs=self.config.normalize_obs)
        if self.config.continuous:
            sigma = self.config.initial_sigma
            return nets.GaussianActorCritic(self.obs_shape, initial_sigma=sigma, **options)
        return nets.ActorCritic(self.obs_shape, self.num_actions, **options)

    # --- The loop ---------------------------------------------------------------------------------

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train to `steps`, by default `total_steps`; yield after every rollout."""
        config, setup = self.config, self.setup
        self.begin()
        while self.steps < setup.stop_at(steps):
            self.anneal()
            with setup.timer.phase("collect"):
                for _ in range(config.num_steps):
                    self.play_step()
            self.steps += config.num_steps * setup.total_envs
            self.metrics = self.learn_once()
            # Epochs beyond target_kl are left out where the host may read the device.
            stops = config.target_kl is not None and setup.can_sync
            epochs = int(self.metrics["epochs"]) if stops else config.num_epochs
            self.updates += epochs * config.num_minibatches
            count_rollout(self.network, self.buffer, config.forward_batch)
            rate = optim.learning_rate_of(self.optimizer)
            yield progress_of(self, {**self.metrics, "learning_rate": rate})

    def begin(self) -> None:
        """Reset the environments, unless the run has begun or was resumed."""
        if not self.has_begun:
            self.begin_buffer(self.setup.reset(self.steps))

    def begin_buffer(self, frames: Tensor) -> None:
        """Make the buffer, store the first frames, and begin the statistics of pixels."""
        self.buffer = self.make_buffer()
        self.buffer.start(frames)
        count_frames(self.network, frames)
        self.has_begun = True

    def make_buffer(self) -> TrajectoryBuffer:
        """Make the buffer of a rollout."""
        options = self.setup.storage_options(self.network)
        if self.config.continuous:
            extras = dict(GaussianPolicy.extras)
            options |= {"action_shape": (3,), "action_dtype": torch.float32, "extras": extras}
        return TrajectoryBuffer(TrajectoryOptions(**options, num_steps=self.config.num_steps))

    def anneal(self) -> None:
        """Set the scheduled numbers of the next rollout, in place, so that graphs read them."""
        config, position = self.config, self.steps / max(self.config.total_steps, 1)
        if config.learning_rate_schedule == "linear":
            rate = algos.linear_schedule(self.setup.learning_rate, 0.0, position)
            optim.set_learning_rate(self.optimizer, rate)
        for number, start, end in (
            (self.entropy_coef, config.entropy_coef, config.entropy_coef_end),
            (self.clip_range, config.clip_range, config.clip_range_end),
        ):
            if end is not None:
                number.fill_(algos.linear_schedule(start, end, position))

    # --- Act --------------------------------------------------------------------------------------

    @torch.no_grad()
    def play_step(self) -> None:
        """Play one step of all environments into the buffer."""
        before = self.buffer.num_steps_done
        self.play()
        if self.buffer.num_steps_done == before:  # a CUDA graph did it
            self.buffer.count_captured_step()

    @torch.no_grad()
    def _play(self) -> None:
        actions, extras = self.choose(self.buffer.observe())
        # A graph cannot follow the memory of the next frame, which changes every step.
        next_frame = None if self.config.cuda_graphs else self.buffer.next_frame()
        step = self.setup.step_env(self.policy.env_actions(actions), next_frame)
        self.buffer.append(actions, step, **extras)
        self.statistics.add(step)

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Actions ``[N]`` or ``[N, 3]``, and the extras that the buffer stores with them."""
        with self.setup.autocast():
            output, values = self.forward(obs)
        actions, extras = self.policy.sample(output, self.generator)
        return actions, {**extras, "values": self.value_scale.values(values)}

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Sample actions from the policy, or choose the most probable ones."""
        obs = self.setup.check_obs(obs)
        with self.setup.autocast():
            output, _ = self.forward(obs)
        actions = self.policy.best(output) if greedy else self.policy.sample(output, generator)[0]
        return self.policy.env_actions(actions)

    @torch.no_grad()
    def values_of(self, obs: Tensor) -> Tensor:
        """Values ``[B]`` of observations, `forward_batch` at a time."""
        with self.setup.autocast():
            outputs = in_parts(lambda x: self.forward(x)[1], obs, self.config.forward_batch)
        return self.value_scale.values(outputs)

    # --- Learn ------------------------------------------------------------------------------------

    def learn(self) -> dict[str, Tensor]:
        """Run all epochs over the rollout in the buffer; return the mean metrics of the updates."""
        config, setup, rollout = self.config, self.setup, self.buffer.rollout(with_obs=False)
        old_values = rollout.extras["values"]
        old_log_probs = self.policy.behaviour_log_probs(rollout)
        after = next_values(rollout, old_values, self.values_of, setup)
        advantages, returns = algos.gae(
            rollout.rewards, rollout.discounts, old_values, after, rollout.ended, config.gae_lambda
        )
        columns = (rollout.actions, advantages, returns, old_log_probs, old_values, rollout.valid)
        flat = [column.flatten(0, 1) for column in columns]
        early_stop = optim.EarlyStop(
            config.target_kl, config.num_minibatches, self.device, can_sync=setup.can_sync
        )
        for _ in range(config.num_epochs):
            epoch: dict[str, Tensor] = {}
            for index in self.buffer.minibatches(config.num_minibatches).unbind():
                samples = Samples(self.buffer.obs_at(index), *(column[index] for column in flat))
                optim.add_to(epoch, self.minimise(samples, early_stop.has_stopped))
            if early_stop.end_epoch(epoch):
                break
        metrics = early_stop.mean_metrics()
        if config.adaptive_kl is not None:
            optim.adapt_learning_rate(self.optimizer, metrics["approx_kl"], config.adaptive_kl)
        if config.normalize_values:
            moments = global_moments(returns, setup.only_valid(rollout.valid))
            self.value_scale.update(*moments, getattr(self.network, "value", None))
        return {
            **metrics,
            "explained_variance": algos.explained_variance(old_values, returns),
            "value_mean": old_values.mean(),
        }

    def minimise(self, samples: Samples, has_stopped: Tensor) -> dict[str, Tensor]:
        """Update from a minibatch, or change nothing if `has_stopped`; return the metrics."""
        config, setup, advantages = self.config, self.setup, samples.advantages
        used = setup.only_valid(samples.valid)
        with setup.autocast():
            output, values = self.forward(samples.obs)  # values in the units of value_scale
        log_probs, entropies = self.policy.log_probs_and_entropies(output, samples.actions)
        entropy = algos.mean_of(entropies, used)
        if config.normalize_advantages:
            moments = local_moments if config.local_norm else global_moments
            advantages = algos.normalize(advantages, *moments(advantages, used))
        surrogate = algos.ppo_policy_loss(
            log_probs, samples.old_log_probs, advantages, self.clip_range, used
        )
        value_loss = 0.5 * algos.value_loss(
            values,
            self.value_scale.outputs(samples.returns),
            self.value_scale.outputs(samples.old_values),
            self.clip_range if config.clip_values else None,
            used,
        )
        loss = surrogate.loss + config.value_coef * value_loss - self.entropy_coef * entropy
        may_skip = config.target_kl is not None and not setup.can_sync
        norm = setup.descend(loss, self.optimizer, has_stopped if may_skip else None)
        return {
            "policy_loss": surrogate.loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "approx_kl": surrogate.approx_kl,
            "clip_fraction": surrogate.clip_fraction,
            "grad_norm": norm,
        }

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from."""
        return state.with_rollout(self, value_scale=self.value_scale.state_dict())

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a buffer, new episodes begin."""
        state.load_with_rollout(self, saved)
        self.value_scale.load_state_dict(saved["extra"]["value_scale"])
