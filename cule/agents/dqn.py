"""DQN and its extensions, each a switch; Rainbow is their sum.

Double targets (van Hasselt et al. 2016), dueling streams (Wang et al. 2016), n-step returns,
prioritised replay (Schaul et al. 2016) or large batches drawn from by error (LaBER, Lahire et al.
2022), distributions of returns (C51, Bellemare et al. 2017),
noisy networks (Fortunato et al. 2018); all on: Rainbow (Hessel et al. 2018).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.base import REPLAY_SEED, timed
from cule.agents.distributed import num_launched, rank, weigh_over_ranks, world_size
from cule.agents.environment import storage_options
from cule.agents.off_policy import OffPolicyAgent
from cule.agents.options import AgentConfig, check_choice, check_least, check_range
from cule.errors import InvalidArgumentError
from cule.nets import QNetwork, draw_noise, gather_actions
from cule.replay import Batch, PrioritizedOptions, PrioritizedReplay, ReplayOptions, UniformReplay


@dataclass(frozen=True, kw_only=True)
class DQNConfig(AgentConfig):
    """Options of DQN; the defaults are DQN with Adam, as in Dopamine, on 32 consoles."""

    num_envs: int = 32
    """Consoles N of each process."""

    initialisation: str = "torch"
    """How weights start: orthogonal, he or torch."""

    double: bool = False
    """The network that learns chooses the action that the target network values."""

    dueling: bool = False
    """A stream for the state's value and one for the advantages."""

    n_step: int = 1
    """Steps n of a return."""

    prioritized: bool = False
    """Replay in proportion to priorities."""

    num_atoms: int = 1
    """Atoms K of a distribution of returns; 1: plain values."""

    v_min: float = -10.0
    """Lowest atom."""

    v_max: float = 10.0
    """Highest atom."""

    noisy: bool = False
    """Noisy layers in place of epsilon."""

    noise_sigma0: float = 0.5
    """Start of the noise's scale."""

    noise_groups: int = 16
    """Groups of a batch with noise of their own."""

    memory: int = 1_000_000
    """Transitions of the replay memory of each process."""

    learning_starts: int = 20_000
    """Transitions in all memories before the first update."""

    collect_steps: int = 1
    """Steps K of all consoles between updates."""

    batch_size: int = 32
    """Samples B of an update of each process."""

    samples_per_insert: float = 8.0
    """Samples learned from for each step taken."""

    optimizer: str = "adam"
    """adam, or rmsprop (centred, decay 0.95)."""

    learning_rate: float = 6.25e-5
    """Of the optimiser."""

    optimizer_eps: float = 1.5e-4
    """Epsilon of the optimiser; of RMSProp it stands under the root, as in the published ones."""

    max_grad_norm: float = 0.0
    """Global norm that gradients are clipped to; 0: not clipped."""

    loss: str = "huber"
    """huber, or squared (half the squared error); distributions have their cross-entropy."""

    target_interval: int = 2000
    """Updates between copies to the target network."""

    target_tau: float = 1.0
    """Share of the way that the target network moves then; 1: a copy."""

    exploration: str = "schedule"
    """schedule: one epsilon that falls; ladder: one for each console, constant."""

    epsilon_start: float = 1.0
    """First epsilon of the schedule."""

    epsilon_end: float = 0.01
    """Last epsilon of the schedule."""

    epsilon_steps: int = 250_000
    """Steps over which epsilon falls."""

    ladder_base: float = 0.4
    """Epsilon of the ladder's first console."""

    ladder_exponent: float = 7.0
    """How far the ladder goes: the last epsilon is base to the power of 1 + this."""

    alpha: float = 0.5
    """Exponent of priorities."""

    beta_start: float = 0.4
    """Exponent of importance weights at the start."""

    beta_end: float = 1.0
    """And at the end of training."""

    uniform_mixture: float = 0.0
    """Probability that a prioritised draw is uniform instead; weights are those of the mixture."""

    laber: bool = False
    """Draw many candidates uniformly, and learn from those of large error now; no priorities."""

    laber_candidates: int = 4
    """Candidates m of LaBER for each sample of a batch."""

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        super().__post_init__()
        check_least(self, 1, "n_step", "num_atoms", "noise_groups", "memory", "collect_steps")
        check_least(self, 1, "batch_size", "learning_starts", "target_interval")
        check_least(
            self, 0.0, "samples_per_insert", "learning_rate", "optimizer_eps", "max_grad_norm"
        )
        check_range(self, 0.0, 1.0, "epsilon_start", "epsilon_end", "target_tau")
        check_range(self, 0.0, 1.0, "alpha", "beta_start", "beta_end", "uniform_mixture")
        check_choice(self, "optimizer", ("adam", "rmsprop"))
        check_choice(self, "loss", ("huber", "squared"))
        check_choice(self, "exploration", ("schedule", "ladder"))
        if not self.v_min < self.v_max:
            raise InvalidArgumentError(
                f"v_min is {self.v_min!r} and v_max {self.v_max!r}; v_min must be the smaller"
            )
        if self.uniform_mixture and not self.prioritized:
            raise InvalidArgumentError(
                f"uniform_mixture is {self.uniform_mixture!r} and prioritized False; a mixture is "
                "one of prioritised draws"
            )
        check_least(self, 1, "laber_candidates")
        if self.laber and self.prioritized:
            raise InvalidArgumentError(
                "laber is True and prioritized True; LaBER draws its candidates uniformly, so one "
                "of them must be False"
            )
        if self.learning_starts > self.memory * num_launched():
            raise InvalidArgumentError(
                f"learning_starts is {self.learning_starts}, more than the memory of "
                f"all processes holds ({self.memory} each, {num_launched()} of them)"
            )


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(DQNConfig):
    """Options of Rainbow; the defaults are those of DQN Zoo, on 32 consoles."""

    double: bool = True
    """The network that learns chooses the action that the target network values."""

    dueling: bool = True
    """A stream for the state's value and one for the advantages."""

    n_step: int = 3
    """Steps n of a return."""

    prioritized: bool = True
    """Replay in proportion to priorities."""

    num_atoms: int = 51
    """Atoms K of a distribution of returns; 1: plain values."""

    noisy: bool = True
    """Noisy layers in place of epsilon."""

    max_grad_norm: float = 10.0
    """Global norm that gradients are clipped to; 0: not clipped."""


class DQN(OffPolicyAgent):
    """The learner; see docs/agents/dqn.md.

    Example:
        >>> from cule.agents import DQN, DQNConfig
        >>> config = DQNConfig(game="pong", num_envs=8, memory=4000, learning_starts=64)
        >>> agent = DQN(config)
        >>> [progress.steps for progress in agent.train(steps=24)]
        [8, 16, 24]
    """

    name: ClassVar[str] = "dqn"
    config_class = DQNConfig
    config: DQNConfig
    eval_epsilon: ClassVar[float] = 0.001

    network: QNetwork
    target: QNetwork
    forward: Any
    acting_values: Callable[[Tensor], Tensor]

    # --- Set-up ---------------------------------------------------------------------------------

    def build(self) -> None:
        """Two networks and the optimiser; the memory comes with the first frames."""
        config = self.config
        self.network = QNetwork(
            self.obs_shape,
            self.num_actions,
            torso=config.network,
            initialisation=config.initialisation,
            dueling=config.dueling,
            noisy=config.noisy,
            num_atoms=config.num_atoms,
            noise_sigma0=config.noise_sigma0,
            noise_groups=config.noise_groups,
        ).to(self.device)
        self.target = copy.deepcopy(self.network).requires_grad_(False)
        self.optimizer = self.make_optimizer()
        self.support = torch.zeros(1, device=self.device)
        if config.num_atoms > 1:
            self.support = algos.atoms(config.v_min, config.v_max, config.num_atoms, self.device)

    def capture(self) -> None:
        """Values to act on, and an update from a batch."""
        self.acting_values = self.captured(self._acting_values)
        self.learn_from = self.captured(self._learn_from)

    def make_optimizer(self) -> torch.optim.Optimizer:
        """What the options ask for."""
        config, parameters = self.config, self.network.parameters()
        rate, eps = self.learning_rate, config.optimizer_eps
        if config.optimizer == "adam":
            return torch.optim.Adam(parameters, lr=rate, eps=eps)
        # torch adds epsilon to the root: the same where gradients are small.
        return torch.optim.RMSprop(parameters, lr=rate, alpha=0.95, eps=eps**0.5, centered=True)

    def make_replay(self) -> UniformReplay:
        """The memory that the options ask for."""
        config = self.config
        options: dict[str, Any] = {
            **storage_options(
                config, self.num_envs, self.obs_shape, self.device, self.seed_of(REPLAY_SEED)
            ),
            "capacity": config.memory,
            "n_step": config.n_step,
        }
        if config.prioritized:
            return PrioritizedReplay(
                PrioritizedOptions(
                    **options, alpha=config.alpha, uniform_mixture=config.uniform_mixture
                )
            )
        return UniformReplay(ReplayOptions(**options))

    # --- Collect ----------------------------------------------------------------------------------

    def q_values(self, network: Any, obs: Tensor) -> Tensor:
        """Action values ``[B, A]``, the means of distributions where there are any."""
        with self.autocast():
            out: Tensor = network(obs)
        return algos.expected_values(out, self.support) if self.config.num_atoms > 1 else out

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """The best actions, or with the protocol's small probability any."""
        epsilon = 0.0 if greedy else self.eval_epsilon
        return algos.epsilon_greedy(self.q_values(self.forward, obs), epsilon, generator)

    def epsilon(self) -> Tensor | float:
        """Exploration now: a number, or one for each console ``[N]``."""
        config = self.config
        if config.noisy:
            return 0.0
        if config.exploration == "ladder":
            return self._ladder
        position = self.steps / max(config.epsilon_steps, 1)
        return algos.linear_schedule(config.epsilon_start, config.epsilon_end, position)

    @functools.cached_property
    def _ladder(self) -> Tensor:
        # Kept: to copy it to the device is to wait for the device.
        return algos.epsilon_ladder(
            world_size() * self.num_envs,
            self.config.ladder_base,
            self.config.ladder_exponent,
            first=rank() * self.num_envs,
            count=self.num_envs,
        ).to(self.device)

    @timed("collect")
    @torch.no_grad()
    def collect(self, num_steps: int) -> None:
        """Play steps into the memory."""
        epsilon = self.epsilon()
        for _ in range(num_steps):
            q_values = self.acting_values(self.replay.observe())
            actions = algos.epsilon_greedy(q_values, epsilon, self.generator)
            step = self.step_env(actions, self.replay.next_frame())
            self.replay.append(actions, step)
            self.statistics.add(step)
        self.count_steps(num_steps)

    @torch.no_grad()
    def _acting_values(self, obs: Tensor) -> Tensor:
        if self.config.noisy:
            draw_noise(self.network, self.generator)
        return self.q_values(self.forward, obs)

    # --- Learn ------------------------------------------------------------------------------------

    def schedules(self) -> dict[str, Tensor | float]:
        """Exploration; its mean where consoles differ."""
        epsilon = self.epsilon()
        return {"epsilon": epsilon.mean() if isinstance(epsilon, Tensor) else epsilon}

    def sample(self) -> Batch:
        """Draw a batch, or LaBER's candidates; weights are over the largest of all processes."""
        config = self.config
        if not config.prioritized:
            candidates = config.laber_candidates if config.laber else 1
            plain: Batch = self.replay.sample(candidates * config.batch_size)
            return plain
        done = self.steps / max(config.total_steps, 1)
        beta = algos.linear_schedule(config.beta_start, config.beta_end, done)
        batch: Batch = self.replay.sample(config.batch_size, beta)
        return weigh_over_ranks(batch, self.replay.num_valid, beta)

    def _learn_from(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Errors ``[B]``, and what is to be logged."""
        config = self.config
        if config.noisy:
            draw_noise(self.network, self.generator)
            draw_noise(self.target, self.generator)
        if config.laber:
            batch = self._large_errors(batch)
        errors, losses, q_taken = self._losses(batch)
        loss = (batch.weights * losses).mean()
        norm = self.learn(loss, config.max_grad_norm)
        return errors, {
            "loss": loss.detach(),
            "q_mean": q_taken.mean(),
            "error_mean": errors.abs().mean(),
            "weight_min": batch.weights.amin(),
            "weight_zero_share": (batch.weights == 0).float().mean(),
            "grad_norm": norm,
        }

    @torch.no_grad()
    def _large_errors(self, candidates: Batch) -> Batch:
        """A batch of candidates, drawn in proportion to their errors under this network."""
        errors, _, _ = self._losses(candidates)
        index, weights = algos.draw_by_size(
            errors.abs() * candidates.weights, self.config.batch_size, self.generator
        )
        chosen = Batch(*(column[index] for column in candidates))
        return chosen._replace(weights=weights * chosen.weights)

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Errors, losses and values of the taken actions; ``[B]`` each."""
        if self.config.num_atoms == 1:
            return self._value_losses(batch)
        losses, q_taken = self._distribution_losses(batch)
        return losses.detach(), losses, q_taken

    def _value_losses(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Temporal differences, losses and values of the taken actions; ``[B]`` each."""
        with torch.no_grad():
            next_q = self.q_values(self.target, batch.next_obs)
            if self.config.double:
                online = self.q_values(self.forward, batch.next_obs)
                targets = algos.double_q_targets(batch.returns, batch.discounts, next_q, online)
            else:
                targets = algos.q_targets(batch.returns, batch.discounts, next_q)
        taken = gather_actions(self.q_values(self.forward, batch.obs), batch.actions)
        errors = targets - taken
        losses = algos.huber(errors) if self.config.loss == "huber" else 0.5 * errors.square()
        return errors.detach(), losses, taken.detach()

    def _distribution_losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross-entropies and values of the taken actions; ``[B]`` each."""
        with torch.no_grad(), self.autocast():
            next_logits = self.target(batch.next_obs)
            chooser = self.forward(batch.next_obs) if self.config.double else next_logits
            best = algos.expected_values(chooser, self.support).argmax(-1)
            targets = algos.project_distribution(
                gather_actions(next_logits, best).float().softmax(-1),
                batch.returns,
                batch.discounts,
                self.support,
            )
        with self.autocast():
            logits = gather_actions(self.forward(batch.obs), batch.actions).float()
        taken = (logits.detach().softmax(-1) * self.support).sum(-1)
        return algos.categorical_loss(logits, targets), taken


class Rainbow(DQN):
    """DQN with every extension; see docs/agents/dqn.md.

    Example:
        >>> from cule.agents import Rainbow, RainbowConfig
        >>> agent = Rainbow(RainbowConfig(game="pong", num_envs=8, memory=4000, learning_starts=64))
        >>> agent.network.num_atoms, agent.config.n_step
        (51, 3)
    """

    name: ClassVar[str] = "rainbow"
    config_class = RainbowConfig
    config: RainbowConfig
