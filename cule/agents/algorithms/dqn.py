"""DQN and its extensions, each with an option; Rainbow enables them all.

Double targets (van Hasselt et al. 2016), dueling networks (Wang et al. 2016), n-step returns,
prioritised replay (Schaul et al. 2016), distributions of returns (C51, Bellemare et al. 2017),
noisy networks (Fortunato et al. 2018); Rainbow (Hessel et al. 2018).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.algorithms.off_policy import OffPolicyAgent, ReplayConfig
from cule.agents.algorithms.optimisers import make_rmsprop
from cule.agents.training.options import Bounds, Fraction, GradNorm, NonNegativeFloat
from cule.errors import InvalidArgumentError
from cule.nets import QNetwork, gather_actions, sample_noise
from cule.replay import Batch, PrioritizedOptions, PrioritizedReplay, ReplayOptions, UniformReplay


@dataclass(frozen=True, kw_only=True)
class DQNConfig(ReplayConfig):
    """Options of DQN; the defaults are DQN with Adam, as in Dopamine, on 32 environments."""

    learning_rate: NonNegativeFloat = 6.25e-5
    max_grad_norm: GradNorm = 0.0

    double: bool = False
    """Choose the action that the target network values with the online network."""

    dueling: bool = False
    """Use separate streams for the state value and the advantages."""

    prioritized: bool = False
    """Sample from replay in proportion to priorities."""

    num_atoms: Annotated[int, Bounds(1, 10_000)] = 1
    """Atoms K of a distribution of returns; 1: scalar values."""

    v_min: float = -10.0
    """Lowest atom."""

    v_max: float = 10.0
    """Highest atom."""

    noisy: bool = False
    """Use noisy layers instead of epsilon."""

    noise_sigma0: float = 0.5
    """Initial scale of the noise."""

    noise_groups: Annotated[int, Bounds(1, 10_000)] = 16
    """Groups of a batch with independent noise."""

    optimizer: Literal["adam", "rmsprop"] = "adam"
    """Optimizer: adam, or rmsprop (centred, decay 0.95)."""

    optimizer_eps: NonNegativeFloat = 1.5e-4
    """Epsilon of the optimizer; for RMSProp it is added under the root, as in publications."""

    loss: Literal["huber", "squared"] = "huber"
    """Loss of scalar values: huber, or squared (half the squared error)."""

    target_tau: Fraction = 1.0
    """Fraction by which the target network moves at each copy; 1: a full copy."""

    exploration: Literal["schedule", "ladder"] = "schedule"
    """schedule: one epsilon that decreases; ladder: a constant epsilon per environment."""

    epsilon_start: Fraction = 1.0
    """First epsilon of the schedule."""

    epsilon_end: Fraction = 0.01
    """Last epsilon of the schedule."""

    epsilon_steps: int = 250_000
    """Steps over which epsilon decreases, from `learning_starts` on."""

    ladder_base: float = 0.4
    """Epsilon of the first environment of the ladder."""

    ladder_exponent: float = 7.0
    """Range of the ladder: the last epsilon is base to the power of 1 + exponent."""

    beta_start: Fraction = 0.4
    """Exponent of the importance weights at the start of training."""

    beta_end: Fraction = 1.0
    """Exponent of the importance weights at the end of training."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        if not self.v_min < self.v_max:
            raise InvalidArgumentError(
                f"v_min is {self.v_min!r} and v_max {self.v_max!r}; v_min must be the smaller"
            )


@dataclass(frozen=True, kw_only=True)
class RainbowConfig(DQNConfig):
    """Options of Rainbow; the defaults are those of DQN Zoo, on 32 environments."""

    episodic_life: bool = True
    double: bool = True
    dueling: bool = True
    n_step: Annotated[int, Bounds(1, 10_000)] = 3
    prioritized: bool = True
    num_atoms: Annotated[int, Bounds(1, 10_000)] = 51
    noisy: bool = True
    max_grad_norm: GradNorm = 10.0


class DQN(OffPolicyAgent):
    """Deep Q-learning with replay; see docs/agents/dqn.md.

    Example:
        >>> from cule.agents import DQN, DQNConfig
        >>> config = DQNConfig(game="pong", num_envs=8, memory=8000, learning_starts=64)
        >>> agent = DQN(config)
        >>> [progress.steps for progress in agent.train(steps=24)]
        [8, 16, 24]
    """

    name: ClassVar[str] = "dqn"
    config_class = DQNConfig
    config: DQNConfig
    eval_epsilon: ClassVar[float] = 0.001

    target: nn.Module
    acting_values: Callable[[Tensor], Tensor]

    # --- Set up -----------------------------------------------------------------------------------

    def build(self) -> None:
        """Make both networks and the optimizer; `begin_buffer` makes the memory."""
        config = self.config
        self.network = self.new_network()
        self.target = self.copy_network()
        self.target_tau = config.target_tau
        self.optimizer = self._make_optimizer()
        self.beta: float | Tensor = config.beta_start
        if config.cuda_graphs and self.draws_in_update:  # which graphs read
            self.beta = torch.tensor(config.beta_start, dtype=torch.float64, device=self.device)
        self.support = torch.zeros(1, device=self.device)
        if config.num_atoms > 1:
            self.support = algos.atoms(config.v_min, config.v_max, config.num_atoms, self.device)

    def network_outputs(self) -> Mapping[str, tuple[int, ...]]:
        """Action values, or with atoms the logits of their distributions."""
        atoms = self.config.num_atoms
        return {"action values": (self.num_actions, atoms) if atoms > 1 else (self.num_actions,)}

    def make_network(self) -> nn.Module:
        """Make action values, on the CPU; see `network_outputs`."""
        config = self.config
        return QNetwork(
            self.obs_shape,
            self.num_actions,
            torso=config.network,
            initialisation=config.initialisation,
            dueling=config.dueling,
            noisy=config.noisy,
            num_atoms=config.num_atoms,
            noise_sigma0=config.noise_sigma0,
            noise_groups=config.noise_groups,
            normalize_obs=config.normalize_obs,
        )

    def _make_optimizer(self) -> torch.optim.Optimizer:
        config, parameters = self.config, self.network.parameters()
        rate, eps = self.learning_rate, config.optimizer_eps
        if config.optimizer == "adam":
            return torch.optim.Adam(parameters, lr=rate, eps=eps, fused=True)
        return make_rmsprop(parameters, learning_rate=rate, alpha=0.95, eps=eps, centered=True)

    def make_replay(self) -> UniformReplay:
        """Make the memory, uniform or prioritised."""
        if not self.config.prioritized:
            return UniformReplay(ReplayOptions(**self.replay_options()))
        return PrioritizedReplay(PrioritizedOptions(**self.prioritized_options()))

    def capture(self) -> None:
        """Capture the forward pass of acting and the update."""
        super().capture()
        self.acting_values = self.captured(self._acting_values)

    # --- Act --------------------------------------------------------------------------------------

    def q_values(self, network: Callable[..., Tensor] | nn.Module, obs: Tensor) -> Tensor:
        """Action values ``[B, A]``: means, where the network gives distributions."""
        with self.autocast():
            out: Tensor = network(obs)
        return algos.expected_values(out, self.support) if self.config.num_atoms > 1 else out

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Choose the best actions, or with probability `eval_epsilon` random ones."""
        epsilon = 0.0 if greedy else self.eval_epsilon
        return algos.epsilon_greedy(self.q_values(self.forward, obs), epsilon, generator)

    def epsilon(self) -> Tensor | float:
        """Current epsilon: a number, or one per environment ``[N]``."""
        config = self.config
        if config.noisy:
            return 0.0
        if config.exploration == "ladder":
            return self._ladder
        position = (self.steps - config.learning_starts) / max(config.epsilon_steps, 1)
        return algos.linear_schedule(config.epsilon_start, config.epsilon_end, position)

    @functools.cached_property
    def _ladder(self) -> Tensor:
        # Cached: copying it to the device waits for the device.
        base, exponent = self.config.ladder_base, self.config.ladder_exponent
        return self.of_own_envs(algos.epsilon_ladder(self.total_envs, base, exponent))

    def play_step(self) -> None:
        """Play one step into the memory."""
        replay = self.local_replay
        q_values = self.acting_values(replay.observe())
        actions = algos.epsilon_greedy(q_values, self.epsilon(), self.generator)
        step = self.step_env(actions, replay.next_frame())
        replay.append(actions, step)
        self.statistics.add(step)

    @torch.no_grad()
    def _acting_values(self, obs: Tensor) -> Tensor:
        if self.config.noisy:
            sample_noise(self.network, self.generator)
        return self.q_values(self.forward, obs)

    # --- Learn ------------------------------------------------------------------------------------

    def schedules(self) -> dict[str, Tensor | float]:
        """Current epsilon, averaged over the environments, as a metric."""
        epsilon = self.epsilon()
        return {"epsilon": epsilon.mean() if isinstance(epsilon, Tensor) else epsilon}

    def sample(self) -> Batch:
        """Sample a batch; weights are normalised over all processes."""
        config, replay = self.config, self.replay
        if isinstance(replay, UniformReplay) and not isinstance(replay, PrioritizedReplay):
            return replay.sample(config.batch_size)
        if isinstance(replay, PrioritizedReplay):
            return self.weigh(replay.sample(config.batch_size, self.beta), self.beta)
        return replay.sample(config.batch_size, float(self.beta))  # on the host

    def anneal(self) -> None:
        """Set beta."""
        config = self.config
        done = self.steps / max(config.total_steps, 1)
        beta = algos.linear_schedule(config.beta_start, config.beta_end, done)
        if not isinstance(self.beta, Tensor):
            self.beta = beta
        elif config.beta_start != config.beta_end:
            self.beta.fill_(beta)

    def _learn_from(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Update from a batch; return errors ``[B]`` and metrics."""
        config = self.config
        if config.noisy:
            sample_noise(self.network, self.generator)
            sample_noise(self.target, self.generator)
        errors, losses, q_taken = self._losses(batch)
        loss = (batch.weights * losses).mean()
        norm = self.learn(loss)
        return errors, {
            "loss": loss.detach(),
            "q_mean": q_taken.mean(),
            "error_mean": errors.abs().mean(),
            "weight_min": batch.weights.amin(),
            "weight_zero_share": (batch.weights == 0).float().mean(),
            "grad_norm": norm,
        }

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
            online = self.q_values(self.forward, batch.next_obs) if self.config.double else next_q
            targets = algos.q_targets(batch.returns, batch.discounts, next_q, online)
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
    """DQN with all extensions; see docs/agents/dqn.md.

    Example:
        >>> from cule.agents import Rainbow, RainbowConfig
        >>> agent = Rainbow(RainbowConfig(game="pong", num_envs=8, memory=8000, learning_starts=64))
        >>> agent.network.num_atoms, agent.config.n_step
        (51, 3)
    """

    name: ClassVar[str] = "rainbow"
    config_class = RainbowConfig
    config: RainbowConfig
