"""Ape-X DPG: deterministic policy gradients on the continuous action interface.

Distributed prioritised replay as in `cule.agents.apex`, with an actor that emits (x, y) on the unit
disc and fire, and a critic of these (Horgan et al. 2018, appendix D). The environment takes radius,
angle and fire; replay stores what was executed. Directions and fire have thresholds at 0.5, so the
reward is piecewise constant in the action, and exploration must be able to cross them: Gaussian
noise by a ladder of deviations over the consoles, and now and then any action at all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.apex import ActorErrors
from cule.agents.base import REPLAY_SEED, Agent, Progress, timed
from cule.agents.distributed import rank, weigh_over_ranks, world_size
from cule.agents.dqn import replay_gauges
from cule.agents.environment import storage_options
from cule.agents.options import AgentConfig, check_least, check_range
from cule.errors import InvalidArgumentError
from cule.nets import DeterministicActorCritic, soft_copy
from cule.replay import Batch, PrioritizedOptions, PrioritizedReplay


@dataclass(frozen=True, kw_only=True)
class ApexDPGConfig(AgentConfig):
    """Options of Ape-X DPG; the defaults follow the paper's continuous control, for Atari."""

    num_envs: int = 256
    """Consoles N of each process."""

    initialisation: str = "torch"
    """How weights start: orthogonal, he or torch."""

    n_step: int = 5
    """Steps n of a return."""

    memory: int = 1_000_000
    """Transitions of the replay memory of each process."""

    learning_starts: int = 50_000
    """Transitions in all memories before the first update."""

    collect_steps: int = 1
    """Steps K of all consoles between updates."""

    batch_size: int = 256
    """Samples B of an update of each process."""

    samples_per_insert: float = 1.0
    """Samples learned from for each step taken."""

    learning_rate: float = 1e-4
    """Of Adam, for actor and critic."""

    max_grad_norm: float = 40.0
    """Global norm that gradients are clipped to."""

    action_gradient_clip: float = 1.0
    """Elementwise clip of the critic's derivative by the action."""

    saturation_penalty: float = 0.01
    """Factor of the mean square of the actor's unbounded numbers, which would otherwise drift to
    where their squashed form has no gradient."""

    target_interval: int = 100
    """Updates between copies to the target networks."""

    alpha: float = 0.6
    """Exponent of priorities."""

    beta: float = 0.4
    """Exponent of importance weights."""

    uniform_mixture: float = 0.0
    """Probability that a prioritised draw is uniform instead; weights are those of the mixture."""

    sigma_low: float = 0.05
    """Deviation of the first console's noise, on x, y and fire."""

    sigma_high: float = 0.6
    """Deviation of the last console's noise."""

    random_action_probability: float = 0.01
    """Probability of a uniformly random action."""

    sync_steps: int = 100
    """Steps of a console between copies of the learner's weights to the actors."""

    max_num_frames_per_episode: int = 50_000
    """Emulated frames after which an episode is truncated."""

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        super().__post_init__()
        check_least(self, 1, "n_step", "memory", "learning_starts", "collect_steps", "batch_size")
        check_least(self, 1, "target_interval", "sync_steps")
        check_least(self, 0.0, "learning_rate", "max_grad_norm", "samples_per_insert")
        check_least(self, 0.0, "saturation_penalty")
        check_least(self, 1e-6, "sigma_low", "sigma_high", "action_gradient_clip")
        check_range(self, 0.0, 1.0, "alpha", "beta", "random_action_probability")
        check_range(self, 0.0, 1.0, "uniform_mixture")
        if self.compile:
            raise InvalidArgumentError("compile is True; Ape-X DPG allows False only")

    @property
    def continuous(self) -> bool:
        """Actions are (radius, angle, fire)."""
        return True


class ApexDPG(Agent):
    """The learner; see docs/agents/apex-dpg.md.

    Example:
        >>> from cule.agents import ApexDPG, ApexDPGConfig
        >>> config = ApexDPGConfig(game="pong", num_envs=8, memory=4000, learning_starts=64)
        >>> agent = ApexDPG(config)
        >>> [progress.steps for progress in agent.train(steps=24)]
        [8, 16, 24]
    """

    name: ClassVar[str] = "apex-dpg"
    config_class = ApexDPGConfig
    config: ApexDPGConfig

    network: DeterministicActorCritic
    replay: PrioritizedReplay
    choose: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
    learn_from: Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]

    def build(self) -> None:
        """Learner's, target and actors' networks; one optimiser, since they share no parameter."""
        config = self.config
        self.network = DeterministicActorCritic(
            self.obs_shape, torso=config.network, initialisation=config.initialisation
        ).to(self.device)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.actor = copy.deepcopy(self.network).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=self.learning_rate)
        self.actor_errors = ActorErrors(config.n_step)
        self.acted_steps = 0
        self.debt = 0.0
        self.sigma = algos.sigma_ladder(
            world_size() * self.num_envs,
            config.sigma_low,
            config.sigma_high,
            first=rank() * self.num_envs,
            count=self.num_envs,
        ).to(self.device)

    def capture(self) -> None:
        """Acting, and an update from a batch."""
        self.choose = self.captured(self._choose)
        self.learn_from = self.captured(self._learn_from)

    def make_replay(self) -> PrioritizedReplay:
        """The memory, of polar actions."""
        config = self.config
        shared = storage_options(
            config, self.num_envs, self.obs_shape, self.device, self.seed_of(REPLAY_SEED)
        )
        return PrioritizedReplay(
            PrioritizedOptions(
                **shared,
                action_shape=(3,),
                action_dtype=torch.float32,
                capacity=config.memory,
                n_step=config.n_step,
                alpha=config.alpha,
                beta=config.beta,
                uniform_mixture=config.uniform_mixture,
            )
        )

    def begin_buffer(self, frames: Tensor) -> None:
        """Make the memory and give it the first frames."""
        self.replay = self.make_replay()
        self.replay.start(frames)

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """The policy's actions, as radius, angle and fire; they are never random."""
        with self.autocast():
            raw = self.network.raw_actions(self.network.features(obs))
        return algos.polar_from_raw(raw)

    @torch.no_grad()
    def explore(self, action: Tensor) -> Tensor:
        """The policy's (x, y, fire) ``[N, 3]`` with noise."""
        noise = torch.randn(action.shape, generator=self.generator, device=self.device)
        noisy = algos.clip_to_disc(action + self.sigma.unsqueeze(-1) * noise)
        anything = algos.random_disc_actions(len(action), self.generator, self.device)
        chance = torch.rand(len(action), 1, generator=self.generator, device=self.device)
        return torch.where(chance < self.config.random_action_probability, anything, noisy)

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Actions (x, y, fire), and the values of the policy's and of these."""
        with self.autocast():
            features = self.actor.features(obs)
            chosen = algos.disc_from_raw(self.actor.raw_actions(features))
            best = self.actor.values(features, chosen)
            action = self.explore(chosen)
            return action, best, self.actor.values(features, action)

    @timed("collect")
    @torch.no_grad()
    def collect(self, num_steps: int) -> None:
        """Play steps into the memory, with priorities from the acting networks."""
        config = self.config
        for _ in range(num_steps):
            if self.acted_steps % config.sync_steps == 0:
                soft_copy(self.actor, self.network)
            self.acted_steps += 1
            action, best, taken = self.choose(self.replay.observe())
            errors = self.actor_errors.errors(best)
            if errors is not None:
                priorities = algos.priorities_from_errors(errors)
                self.replay.update_priorities(self.replay.newest_ids(), priorities)
            polar = algos.polar_from_disc(action)
            step = self.step_env(polar, self.replay.next_row())
            self.replay.append(polar, step, torch.zeros_like(best))
            self.actor_errors.add_step(taken, best, step, config)
            self.statistics.add(step)
        self.count_steps(num_steps)

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """As `Agent.train`; a round is `collect_steps` steps and the updates that they pay for."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.collect(config.collect_steps)
            if self.replay.num_valid * world_size() >= config.learning_starts:
                self.debt += config.samples_per_insert * config.collect_steps * self.num_envs
                while self.debt >= config.batch_size:
                    self.metrics = self.update()
                    self.debt -= config.batch_size
            yield Progress(self.steps, self.updates, self.metrics)

    def update(self) -> dict[str, Tensor]:
        """One update of critic and actor from one batch."""
        drawn = self.replay.sample(self.config.batch_size)
        batch = weigh_over_ranks(drawn, self.replay.num_valid, self.config.beta)
        errors, metrics = self.learn_from(batch)
        self.updates += 1
        self.replay.update_priorities(batch.ids, algos.priorities_from_errors(errors))
        if self.updates % self.config.target_interval == 0:
            soft_copy(self.target, self.network)
        return metrics

    def gauges(self) -> dict[str, float]:
        """How full the memory is, how far back it goes, and the largest priority."""
        return replay_gauges(self.replay, self.num_envs) if self._has_begun else {}

    def _learn_from(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Errors ``[B]``, and what is to be logged."""
        config = self.config
        with torch.no_grad(), self.autocast():
            next_features = self.target.features(batch.next_obs)
            next_action = algos.disc_from_raw(self.target.raw_actions(next_features))
            next_values = self.target.values(next_features, next_action)
            targets = batch.returns + batch.discounts * next_values
        with self.autocast():
            features = self.network.features(batch.obs)
            values = self.network.values(features, algos.disc_from_polar(batch.actions))
            raw = self.network.raw_actions(features)
            action = algos.disc_from_raw(raw)
            probe = action.detach().requires_grad_()
            probed = self.network.values(features.detach(), probe)
        (gradients,) = torch.autograd.grad(probed.sum(), probe)
        errors = targets - values
        critic_loss = 0.5 * (batch.weights * errors.square()).mean()
        actor_loss = algos.action_gradient_loss(action, gradients, config.action_gradient_clip)
        penalty = config.saturation_penalty * raw.square().mean()
        norm = self.learn(critic_loss + actor_loss + penalty, config.max_grad_norm)
        return errors.detach(), {
            "critic_loss": critic_loss.detach(),
            "value_mean": values.detach().mean(),
            "policy_value_mean": probed.detach().mean(),
            "error_mean": errors.detach().abs().mean(),
            "weight_min": batch.weights.amin(),
            "weight_zero_share": (batch.weights == 0).float().mean(),
            "radius_mean": action.detach()[:, :2].norm(dim=-1).mean(),
            "grad_norm": norm,
        }

    def extra_state(self, *, replay: bool) -> dict[str, Any]:
        """Copies of the network, what is owed and remembered, and if asked for the memory."""
        state: dict[str, Any] = {
            "target": self.target.state_dict(),
            "actor": self.actor.state_dict(),
            "debt": self.debt,
            "acted_steps": self.acted_steps,
            "actor_errors": self.actor_errors.state(),
        }
        if replay and self._has_begun:
            state["replay"] = self.replay.state_dict()
        return state

    def load_extra_state(self, state: Mapping[str, Any]) -> bool:
        """Take it back; without the memory new episodes begin, and fill a new one."""
        self.target.load_state_dict(state["target"])
        self.actor.load_state_dict(state["actor"])
        self.debt = state["debt"]
        if "replay" not in state:
            return False
        self.acted_steps = state["acted_steps"]
        self.actor_errors.load(state["actor_errors"], self.device)
        self.replay = self.make_replay()
        self.replay.load_state_dict(state["replay"])
        return True
