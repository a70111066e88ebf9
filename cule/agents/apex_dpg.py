"""Ape-X DPG: deterministic policy gradients on the continuous action interface.

Distributed prioritised replay as in `cule.agents.apex`, with an actor that emits (x, y) on the unit
disc and fire, and a critic of these (Horgan et al. 2018, appendix D). The environment takes radius,
angle and fire; replay stores what was executed. Directions and fire have thresholds at 0.5, so the
reward is piecewise constant in the action, and exploration must be able to cross them: Gaussian
noise by a ladder of deviations over the consoles, and now and then any action at all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.apex_acting import ApexActing
from cule.agents.base import REPLAY_SEED
from cule.agents.distributed import rank, weigh_over_ranks, world_size
from cule.agents.environment import storage_options
from cule.agents.options import AgentConfig, check_least, check_range
from cule.errors import InvalidArgumentError
from cule.nets import DeterministicActorCritic
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
    """Global norm that gradients are clipped to; 0: not clipped."""

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

    overlap: bool = False
    """Learn from batches of the steps so far while the next ones are played."""

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


class ApexDPG(ApexActing):
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
    target: DeterministicActorCritic
    replay: PrioritizedReplay
    choose: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]

    def build(self) -> None:
        """Learner's, target and actors' networks; one optimiser, since they share no parameter."""
        config = self.config
        self.network = DeterministicActorCritic(
            self.obs_shape, torso=config.network, initialisation=config.initialisation
        ).to(self.device)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.build_actor()
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=self.learning_rate)
        self.sigma = algos.sigma_ladder(
            world_size() * self.num_envs,
            config.sigma_low,
            config.sigma_high,
            first=rank() * self.num_envs,
            count=self.num_envs,
        ).to(self.device)

    def capture(self) -> None:
        """Acting, and an update from a batch."""
        self.choose = self.captured(self._choose, stream=self.acting_stream)
        self.learn_from = self.captured(self._learn_from, draws=False)

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

    def choose_actions(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `ApexActing`, as radius, angle and fire."""
        action, best, taken = self.choose(obs)
        return algos.polar_from_disc(action), taken, best

    def sample(self) -> Batch:
        """Draw a batch; weights are over the largest of all processes."""
        drawn = self.replay.sample(self.config.batch_size)
        return weigh_over_ranks(drawn, self.replay.num_valid, self.config.beta)

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
