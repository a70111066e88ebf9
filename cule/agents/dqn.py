"""DQN and its extensions, each with an option; Rainbow enables them all, IQN has quantiles.

Double targets (van Hasselt et al. 2016), dueling networks (Wang et al. 2016), n-step returns,
prioritised replay (Schaul et al. 2016), distributions of returns (C51, Bellemare et al. 2017),
noisy networks (Fortunato et al. 2018); Rainbow (Hessel et al. 2018); IQN (Dabney et al. 2018).
`DQN.train` is the loop, `learn` an update, and `minimise` its loss.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.parts import memory, optim, state
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.heads import AtomHead, QuantileHead, ValueHead
from cule.agents.parts.learner import Learner, Metrics, Progress, progress_of
from cule.agents.parts.rollout import count_frames
from cule.agents.parts.setup import Network, Setup
from cule.errors import InvalidArgumentError, shown
from cule.nets import ImplicitQuantileNetwork, QNetwork, sample_noise, soft_copy
from cule.option_fields import (
    Bounds,
    Fraction,
    GradNorm,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    require,
)
from cule.replay import Batch, PrioritizedOptions, PrioritizedReplay, ReplayOptions, UniformReplay


@dataclass(frozen=True, kw_only=True)
class DQNConfig(AgentConfig):
    """Options of DQN; the defaults are DQN with Adam, as in Dopamine, on 32 environments."""

    num_envs: Positive = 32
    initialization: str = "torch"
    learning_rate: NonNegativeFloat = 6.25e-5
    max_grad_norm: GradNorm = 0.0

    n_step: Annotated[int, Bounds(1, 10_000)] = 1
    """Steps n of a return."""

    memory: Positive = 1_000_000
    """Capacity of the replay memory of each process in transitions."""

    learning_starts: Positive = 20_000
    """Transitions in the memories of all processes before the first update."""

    collect_steps: Annotated[int, Bounds(1, 100_000)] = 1
    """Steps of all environments between updates."""

    batch_size: Annotated[int, Bounds(1, 100_000)] = 32
    """Samples B per update of each process."""

    samples_per_insert: Annotated[float, Bounds(0, 100_000)] = 8.0
    """Samples to learn from per step of an environment."""

    target_interval: Positive = 2000
    """Updates between copies of the weights to the target network."""

    target_tau: Fraction = 1.0
    """Fraction by which the target network moves at each copy; 1: a full copy."""

    double: bool = False
    """Choose the action that the target network values with the online network."""

    dueling: bool = False
    """Use separate streams for the state value and the advantages."""

    prioritized: bool = False
    """Sample from replay in proportion to priorities."""

    alpha: Fraction = 0.5
    """Exponent of the priorities."""

    beta_start: Fraction = 0.4
    """Exponent of the importance weights at the start of training."""

    beta_end: Fraction = 1.0
    """Exponent of the importance weights at the end of training."""

    num_atoms: Annotated[int, Bounds(1, 10_000)] = 1
    """Atoms K of a distribution of returns; 1: scalar values."""

    v_min: float = -10.0
    """Lowest atom."""

    v_max: float = 10.0
    """Highest atom."""

    noisy: bool = False
    """Use noisy layers instead of epsilon; IQN has both, as BTR."""

    noise_sigma0: NonNegativeFloat = 0.5
    """Initial scale of the noise."""

    noise_groups: Annotated[int, Bounds(1, 10_000)] = 16
    """Groups of a batch with independent noise."""

    optimizer: Literal["adam", "rmsprop"] = "adam"
    """Optimizer: adam, or rmsprop (centred, decay 0.95)."""

    optimizer_eps: NonNegativeFloat = 1.5e-4
    """Epsilon of the optimizer; for RMSProp it is added under the root, as in publications."""

    loss: Literal["huber", "squared"] = "huber"
    """Loss of scalar values: huber, or squared (half the squared error)."""

    exploration: Literal["schedule", "ladder"] = "schedule"
    """schedule: one epsilon that decreases; ladder: a constant epsilon per environment, of which
    there must be at least 2."""

    epsilon_start: Fraction = 1.0
    """First epsilon of the schedule."""

    epsilon_end: Fraction = 0.01
    """Last epsilon of the schedule."""

    epsilon_steps: Annotated[int, Bounds(0)] = 250_000
    """Steps over which epsilon decreases, from `learning_starts` on."""

    ladder_base: Fraction = 0.4
    """Epsilon of the first environment of the ladder."""

    ladder_exponent: NonNegativeFloat = 7.0
    """Range of the ladder: the last epsilon is base to the power of 1 + exponent."""

    normalize_obs: bool = False
    """Normalize pixels by mean and standard deviation of the frames before the first update."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        memory.check_learning_starts(self)
        if not self.v_min < self.v_max:
            raise InvalidArgumentError(
                f"v_min is {shown(self.v_min)} and v_max {shown(self.v_max)}; v_min must be the "
                "smaller"
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


@dataclass(frozen=True, kw_only=True)
class IQNConfig(DQNConfig):
    """Options of IQN; the defaults are those of Dopamine, on 32 environments."""

    repeat_action_probability: float = 0.25
    noop_max: int = 1
    use_fire_reset: bool = False
    learning_rate: NonNegativeFloat = 5e-5
    optimizer_eps: NonNegativeFloat = 0.01 / 32
    n_step: Annotated[int, Bounds(1, 10_000)] = 3

    num_quantiles: Annotated[int, Bounds(1, 10_000)] = 64
    """Sampled fractions at which the network learns."""

    num_target_quantiles: Annotated[int, Bounds(1, 10_000)] = 64
    """Sampled fractions of the target network that it learns from."""

    num_acting_quantiles: Annotated[int, Bounds(1, 10_000)] = 32
    """Sampled fractions whose mean is the value of an action."""

    kappa: PositiveFloat = 1.0
    """Error up to which the loss is quadratic."""

    munchausen: Fraction = 0.0
    """Share alpha of the scaled log-probability that is added to rewards; 0: none, and targets are
    those of the best action."""

    munchausen_temperature: PositiveFloat = 0.03
    """Temperature tau of the policy, the softmax of the values divided by it."""

    munchausen_min: float = -1.0
    """Lowest scaled log-probability, tau log pi, at most 0."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        require(self, "with IQN", num_atoms=1, loss="huber")
        if self.munchausen:
            require(self, "with munchausen", double=False)
        if not self.munchausen_min <= 0:
            raise InvalidArgumentError(
                f"munchausen_min is {shown(self.munchausen_min)}; it must be at most 0"
            )


class DQN(Learner):
    """Q-learning with replay; see docs/agents/dqn.md.

    Attributes:
        target: The target network.
        replay: The memory, made with the first frames.
        credit: Counts the samples that are due.

    Example:
        >>> from cule.agents import DQN, DQNConfig
        >>> config = DQNConfig(game="pong", num_envs=8, memory=8000, learning_starts=64)
        >>> agent = DQN(config)
        >>> [progress.steps for progress in agent.train(steps=24)]
        [8, 16, 24]
    """

    name: ClassVar[str] = "dqn"
    config_class: ClassVar[type[DQNConfig]] = DQNConfig
    eval_epsilon: ClassVar[float] = 0.001
    replay: UniformReplay

    def __init__(
        self, config: DQNConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        self.config = config
        self.setup = setup = Setup(config, env, type(self))
        self.env, self.device, self.num_envs = setup.env, setup.device, setup.num_envs
        self.obs_shape, self.num_actions = setup.obs_shape, setup.num_actions
        self.generator, self.statistics = setup.generator, setup.statistics
        self.steps, self.updates, self.has_begun = 0, 0, False
        self.metrics: Metrics = {}

        self.head = make_head(config, setup)
        outputs = q_outputs(config, self.num_actions)
        self.network = setup.make_network(network, self.make_network, outputs)
        self.target = memory.copy_network(self.network)
        self.forward = setup.compiled(self.network)
        self.optimizer = make_q_optimizer(config, self.network.parameters(), setup.learning_rate)
        if config.cuda_graphs:
            optim.make_capturable(self.optimizer, self.device)
        self.beta = memory.beta_on(config, self.device)
        self.credit = memory.Credit(config)

        # With cuda_graphs these calls are replayed.
        self.acting_values: Callable[[Tensor], Tensor] = setup.graphs.capture(self._acting_values)
        self.learn_from: Callable[[Batch], tuple[Tensor, dict[str, Tensor]]] = self.minimise
        self.learn_once = setup.graphs.capture(
            self.learn, draws=lambda: self.replay.generator, copies_results=False
        )

    def make_network(self) -> nn.Module:
        """Make action values, distributions of them or quantiles, on the CPU."""
        return make_q_network(self.config, self.setup)

    # --- The loop ---------------------------------------------------------------------------------

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train to `steps`, by default `total_steps`; yield after every `collect_steps` steps."""
        config, setup = self.config, self.setup
        self.begin()
        while self.steps < setup.stop_at(steps):
            with setup.timer.phase("collect"):
                for _ in range(config.collect_steps):
                    self.play_step()
            self.steps += config.collect_steps * setup.total_envs
            self.credit.add(self.replay, config.collect_steps * self.num_envs)
            self.anneal()
            for _ in range(self.credit.updates_due(self.replay)):
                self.metrics = self.update()
            epsilon = self.epsilon()
            mean = epsilon.mean() if isinstance(epsilon, Tensor) else epsilon
            yield progress_of(self, {**self.metrics, "epsilon": mean})

    def begin(self) -> None:
        """Reset the environments and start the memory, unless the run has begun or was resumed."""
        if not self.has_begun:
            frames = self.setup.reset(self.steps)
            self.replay = self.make_replay()
            self.replay.start(frames)
            self.has_begun = True

    def make_replay(self) -> UniformReplay:
        """Make the memory, uniform or prioritised."""
        config = self.config
        options = self.setup.storage_options(self.network)
        options |= {"capacity": config.memory, "n_step": config.n_step}
        if config.prioritized:
            return PrioritizedReplay(PrioritizedOptions(**options, alpha=config.alpha))
        return UniformReplay(ReplayOptions(**options))

    def anneal(self) -> None:
        """Set beta, in place where graphs read it."""
        self.beta = annealed_beta(self.beta, self.config, self.steps)

    def update(self) -> Metrics:
        """Update once from one batch, and renew the target network where that is due."""
        metrics = self.learn_once()
        self.updates += 1
        if self.updates % self.config.target_interval == 0:
            soft_copy(self.target, self.network, self.config.target_tau)
        return metrics

    # --- Act --------------------------------------------------------------------------------------

    @functools.cached_property
    def ladder(self) -> Tensor:
        """Epsilons of the ladder; float32 ``[N]`` on the device, made when they are first used."""
        return self.setup.of_own_envs(memory.ladder_of(self.config, self.setup.total_envs))

    def epsilon(self) -> Tensor | float:
        """Current epsilon: a number, or one per environment ``[N]``."""
        config = self.config
        if config.noisy and not isinstance(config, IQNConfig):
            return 0.0
        if config.exploration == "ladder":
            return self.ladder
        position = (self.steps - config.learning_starts) / max(config.epsilon_steps, 1)
        return algos.linear_schedule(config.epsilon_start, config.epsilon_end, position)

    @torch.no_grad()
    def play_step(self) -> None:
        """Play one step of all environments into the memory."""
        q_values = self.acting_values(self.replay.observe())
        actions = algos.epsilon_greedy(q_values, self.epsilon(), self.generator)
        step = self.setup.step_env(actions, self.replay.next_frame())
        if self.updates == 0:
            count_frames(self.network, step.frame)
        self.replay.append(actions, step)
        self.statistics.add(step)

    @torch.no_grad()
    def _acting_values(self, obs: Tensor) -> Tensor:
        if self.config.noisy:
            sample_noise(self.network, self.generator)
        return self.head.values(self.forward, obs, self.generator)

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Choose the best actions, or with probability `eval_epsilon` random ones."""
        epsilon = 0.0 if greedy else self.eval_epsilon
        draws = None if greedy else generator
        values = self.head.values(self.forward, self.setup.check_obs(obs), draws)
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
        if isinstance(self.replay, PrioritizedReplay):
            batch = self.replay.sample(self.config.batch_size, self.beta)
            return memory.weigh_over_ranks(batch, self.replay, self.beta)
        return self.replay.sample(self.config.batch_size)

    def minimise(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Update from a batch; return errors ``[B]`` and metrics."""
        if self.config.noisy:
            sample_noise(self.network, self.generator)
            sample_noise(self.target, self.generator)
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
        """Everything that training continues from."""
        return state.with_memory(self, replay=replay)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a memory, new episodes fill a new one."""
        state.load_with_memory(self, saved)


class Rainbow(DQN):
    """DQN with all extensions; see docs/agents/dqn.md.

    Example:
        >>> from cule.agents import Rainbow, RainbowConfig
        >>> agent = Rainbow(RainbowConfig(game="pong", num_envs=8, memory=8000, learning_starts=64))
        >>> agent.network.num_atoms, agent.config.n_step
        (51, 3)
    """

    name: ClassVar[str] = "rainbow"
    config_class: ClassVar[type[DQNConfig]] = RainbowConfig


class IQN(DQN):
    """Implicit quantile networks; see docs/agents/dqn.md.

    Example:
        >>> from cule.agents import IQN, IQNConfig
        >>> agent = IQN(IQNConfig(game="pong", num_envs=8, memory=8000, learning_starts=64))
        >>> agent.config.num_quantiles, agent.config.n_step
        (64, 3)
    """

    name: ClassVar[str] = "iqn"
    config_class: ClassVar[type[DQNConfig]] = IQNConfig


# --- Parts that Ape-X has as well -----------------------------------------------------------------


def make_head(config: DQNConfig, setup: Setup) -> ValueHead:
    """Make what turns outputs of the network into values and losses."""
    if isinstance(config, IQNConfig):
        return QuantileHead(config, setup)
    return (AtomHead if config.num_atoms > 1 else ValueHead)(config, setup)


def q_outputs(config: DQNConfig, num_actions: int) -> dict[str, tuple[int, ...]]:
    """Shape of the outputs; a network of quantiles returns values without fractions."""
    atoms = config.num_atoms
    return {"action values": (num_actions, atoms) if atoms > 1 else (num_actions,)}


def make_q_network(config: DQNConfig, setup: Setup) -> nn.Module:
    """Make action values, distributions of them or quantiles, on the CPU."""
    options = setup.network_options(normalize_obs=config.normalize_obs)
    for name in ("dueling", "noisy", "noise_sigma0", "noise_groups"):
        options[name] = getattr(config, name)
    if isinstance(config, IQNConfig):
        return ImplicitQuantileNetwork(setup.obs_shape, setup.num_actions, **options)
    atoms = config.num_atoms
    return QNetwork(setup.obs_shape, setup.num_actions, num_atoms=atoms, **options)


def make_q_optimizer(
    config: DQNConfig, parameters: Iterable[nn.Parameter], rate: float
) -> torch.optim.Optimizer:
    """Make Adam, or centred RMSProp."""
    eps = config.optimizer_eps
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate, eps=eps, fused=True)
    return optim.make_rmsprop(parameters, learning_rate=rate, alpha=0.95, eps=eps, centered=True)


def annealed_beta(beta: float | Tensor, config: DQNConfig, steps: int) -> float | Tensor:
    """The exponent of importance weights after a number of steps; the same tensor if it is one."""
    position = steps / max(config.total_steps, 1)
    wanted = algos.linear_schedule(config.beta_start, config.beta_end, position)
    if not isinstance(beta, Tensor):
        return wanted
    if config.beta_start != config.beta_end:
        beta.fill_(wanted)
    return beta
