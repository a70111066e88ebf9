"""Ape-X DPG: deterministic policy gradients on the continuous action interface.

Acting with a copy of the weights and prioritised replay, as in `cule.agents.apex`, with an actor
that gives (x, y) on the unit disc and fire, and a critic of these (Horgan et al. 2018, appendix D).
The environment takes radius, angle and fire; replay stores what was executed. Directions and fire
have thresholds at 0.5, so the reward is piecewise constant in the action, and exploration must
cross them: Gaussian noise with a ladder of standard deviations over the environments, and rare
random actions. `ApexDPG.train` is the loop, and `minimise` the losses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from cule import algos
from cule.agents.parts import memory, optim, state
from cule.agents.parts.actor_errors import ActorErrors, concurrently
from cule.agents.parts.config import AgentConfig
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.graphs import separate_stream
from cule.agents.parts.learner import Learner, Metrics, Progress, progress_of
from cule.agents.parts.rollout import count_frames
from cule.agents.parts.setup import Network, Setup
from cule.errors import InvalidArgumentError, shown
from cule.nets import DeterministicActorCritic, soft_copy
from cule.option_fields import (
    Bounds,
    Fraction,
    GradNorm,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    require,
)
from cule.replay import Batch, PrioritizedOptions, PrioritizedReplay

#: Methods of a network; see `cule.nets.DeterministicActorCritic`.
CONTRACT = ("features", "raw_actions", "values")


@dataclass(frozen=True, kw_only=True)
class ApexDPGConfig(AgentConfig):
    """Options of Ape-X DPG; the defaults follow the paper's continuous control, for Atari."""

    num_envs: Positive = 256
    initialization: str = "torch"
    max_num_frames_per_episode: int = 50_000

    learning_rate: NonNegativeFloat = 1e-4
    """Learning rate of Adam for actor and critic."""

    max_grad_norm: GradNorm = 40.0

    n_step: Annotated[int, Bounds(1, 10_000)] = 5
    """Steps n of a return."""

    memory: Positive = 1_000_000
    """Capacity of the replay memory of each process in transitions."""

    learning_starts: Positive = 50_000
    """Transitions in the memories of all processes before the first update."""

    collect_steps: Annotated[int, Bounds(1, 100_000)] = 1
    """Steps of all environments between updates."""

    batch_size: Annotated[int, Bounds(1, 100_000)] = 256
    """Samples B per update of each process."""

    samples_per_insert: Annotated[float, Bounds(0, 100_000)] = 1.0
    """Samples to learn from per step of an environment."""

    target_interval: Positive = 100
    """Updates between copies of the weights to the target network."""

    sync_steps: Positive = 100
    """Steps of an environment between copies of the weights to the actors."""

    overlap: bool = False
    """Learn from batches of earlier steps while the next steps are played."""

    alpha: Fraction = 0.6
    """Exponent of the priorities."""

    beta: Fraction = 0.4
    """Exponent of the importance weights."""

    normalize_obs: bool = False
    """Normalize pixels by mean and standard deviation of the frames before the first update."""

    action_gradient_clip: PositiveFloat = 1.0
    """Elementwise clip of the derivative of the critic with respect to the action."""

    saturation_penalty: NonNegativeFloat = 0.01
    """Factor of the mean square of the actor's unbounded outputs, which keeps them where squashing
    has a gradient."""

    sigma_low: PositiveFloat = 0.05
    """Standard deviation of the noise of the first environment, on x, y and fire."""

    sigma_high: PositiveFloat = 0.6
    """Standard deviation of the noise of the last environment."""

    random_action_probability: Fraction = 0.01
    """Probability of a uniformly random action."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        memory.check_learning_starts(self)
        require(self, "in Ape-X DPG", compile=False)

    @property
    def continuous(self) -> bool:
        """Actions are (radius, angle, fire)."""
        return True


class ApexDPG(Learner):
    """Ape-X deterministic policy gradients; see docs/agents/apex-dpg.md.

    Attributes:
        target: The target network.
        actor: The copy of the network that acts.
        actor_errors: Errors that become first priorities.
        acted_steps: Steps of all environments so far, by which the copy is renewed.
        acting_stream: Stream of acting where it overlaps with learning, otherwise None.
        replay: The memory.
        credit: Counts the samples that are due.

    Example:
        >>> from cule.agents import ApexDPG, ApexDPGConfig
        >>> config = ApexDPGConfig(game="pong", num_envs=8, memory=8000, learning_starts=64)
        >>> agent = ApexDPG(config)
        >>> [progress.steps for progress in agent.train(steps=24)]
        [8, 16, 24]
    """

    name: ClassVar[str] = "apex-dpg"
    config_class: ClassVar[type[ApexDPGConfig]] = ApexDPGConfig
    replay: PrioritizedReplay

    network: Any  # with the methods of CONTRACT
    target: Any
    actor: Any

    def __init__(
        self, config: ApexDPGConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        self.config = config
        self.setup = setup = Setup(config, env, type(self))
        if setup.autoreset_mode != "SameStep":
            raise InvalidArgumentError(
                f"autoreset_mode of the environment is {shown(setup.autoreset_mode)}; for Ape-X it "
                "must be 'SameStep'"
            )
        self.env, self.device, self.num_envs = setup.env, setup.device, setup.num_envs
        self.obs_shape, self.num_actions = setup.obs_shape, setup.num_actions
        self.generator, self.statistics = setup.generator, setup.statistics
        self.steps, self.updates, self.has_begun = 0, 0, False
        self.metrics: Metrics = {}

        self.network = setup.make_network(network, self.make_network, {})
        missing = [name for name in CONTRACT if not hasattr(self.network, name)]
        if missing:
            raise InvalidArgumentError(
                f"the network, a {type(self.network).__name__}, has no {', '.join(missing)}; Ape-X "
                "DPG needs what cule.nets.DeterministicActorCritic has under these names"
            )
        self.target = memory.copy_network(self.network)
        self.actor = memory.copy_network(self.network)
        # One optimizer, since actor and critic share no parameter.
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(
            self.network.parameters(), lr=setup.learning_rate, fused=True
        )
        if config.cuda_graphs:
            optim.make_capturable(self.optimizer, self.device)
        self.credit = memory.Credit(config)
        self.actor_errors, self.acted_steps = ActorErrors(config.n_step), 0
        ladder = algos.sigma_ladder(setup.total_envs, config.sigma_low, config.sigma_high)
        self.sigma = setup.of_own_envs(ladder)

        # With cuda_graphs these calls are replayed. With overlap batches are drawn before.
        has_two_streams = config.overlap and self.device.type == "cuda"
        self.acting_stream = separate_stream(self.device) if has_two_streams else None
        capture = setup.graphs.capture
        self.learn_once: Callable[[], Metrics] = self.learn
        self.learn_from: Callable[[Batch], tuple[Tensor, dict[str, Tensor]]] = self.minimise
        if config.overlap:
            self.learn_from = capture(self.minimise, uses_generator=False)
        else:
            self.learn_once = capture(
                self.learn, draws=lambda: self.replay.generator, copies_results=False
            )
        self.choose: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]] = capture(
            self._choose, stream=self.acting_stream
        )

    def make_network(self) -> nn.Module:
        """Make the actor and the critic, on the CPU; see `cule.nets.DeterministicActorCritic`."""
        options = self.setup.network_options(normalize_obs=self.config.normalize_obs)
        return DeterministicActorCritic(self.obs_shape, **options)

    # --- The loop ---------------------------------------------------------------------------------

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """Train to `steps`, by default `total_steps`; yield after every `collect_steps` steps."""
        config = self.config
        self.begin()
        while self.steps < self.setup.stop_at(steps):
            if config.overlap:
                self._overlapped_round()
            else:
                self.collect()
                self.credit.add(self.replay, config.collect_steps * self.num_envs)
                for _ in range(self.credit.updates_due(self.replay)):
                    self.metrics = self.update()
            yield progress_of(self, self.metrics)

    def _overlapped_round(self) -> None:
        """Learn from batches of earlier steps while the next steps are played."""
        config = self.config
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

    def begin(self) -> None:
        """Reset the environments and start the memory, unless the run has begun or was resumed."""
        if not self.has_begun:
            frames = self.setup.reset(self.steps)
            self.replay = self.make_replay()
            self.replay.start(frames)
            self.has_begun = True

    def make_replay(self) -> PrioritizedReplay:
        """Make the memory, of polar actions."""
        config = self.config
        options = PrioritizedOptions(
            **self.setup.storage_options(self.network),
            capacity=config.memory,
            n_step=config.n_step,
            alpha=config.alpha,
            beta=config.beta,
            action_shape=(3,),
            action_dtype=torch.float32,
        )
        return PrioritizedReplay(options)

    def update(self) -> Metrics:
        """Update once from one batch."""
        metrics = self.learn_once()
        self.count_update()
        return metrics

    def count_update(self) -> None:
        """Count an update, and renew the target network where that is due."""
        self.updates += 1
        if self.updates % self.config.target_interval == 0:
            soft_copy(self.target, self.network)

    # --- Act --------------------------------------------------------------------------------------

    @torch.no_grad()
    def collect(self) -> None:
        """Play `collect_steps` steps of all environments into the memory."""
        with self.setup.timer.phase("collect"):
            for _ in range(self.config.collect_steps):
                self.play_step()
        self.steps += self.config.collect_steps * self.setup.total_envs

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
        action, best, taken = self.choose(self.replay.observe())
        actions = algos.polar_from_disc(action)
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
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Actions of the policy as radius, angle and fire; never random."""
        obs = self.setup.check_obs(obs)
        with self.setup.autocast():
            raw = self.network.raw_actions(self.network.features(obs))
        return algos.polar_from_raw(raw)

    @torch.no_grad()
    def explore(self, action: Tensor) -> Tensor:
        """Add noise to actions (x, y, fire) ``[N, 3]``."""
        noise = torch.randn(action.shape, generator=self.generator, device=self.device)
        noisy = algos.clip_to_disc(action + self.sigma.unsqueeze(-1) * noise)
        random = algos.random_disc_actions(len(action), self.generator, self.device)
        uniform = torch.rand(len(action), 1, generator=self.generator, device=self.device)
        return torch.where(uniform < self.config.random_action_probability, random, noisy)

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Exploring actions (x, y, fire), and the values of the policy's actions and of these."""
        with self.setup.autocast():
            features = self.actor.features(obs)
            chosen = algos.disc_from_raw(self.actor.raw_actions(features))
            best = self.actor.values(features, chosen)
            action = self.explore(chosen)
            return action, best, self.actor.values(features, action)

    # --- Learn ------------------------------------------------------------------------------------

    def learn(self) -> dict[str, Tensor]:
        """Draw a batch, learn from it, and set its priorities; return the metrics."""
        batch = self.sample()
        errors, metrics = self.learn_from(batch)
        memory.set_priorities(self.replay, batch.ids, errors)
        return metrics

    def sample(self) -> Batch:
        """Sample a batch; weights are normalized over all processes."""
        batch = self.replay.sample(self.config.batch_size)
        return memory.weigh_over_ranks(batch, self.replay, self.config.beta)

    def minimise(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Update from a batch; return errors ``[B]`` and metrics."""
        config = self.config
        with torch.no_grad(), self.setup.autocast():
            next_features = self.target.features(batch.next_obs)
            next_action = algos.disc_from_raw(self.target.raw_actions(next_features))
            next_values = self.target.values(next_features, next_action)
            targets = batch.returns + batch.discounts * next_values
        with self.setup.autocast():
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
        norm = self.setup.descend(critic_loss + actor_loss + penalty, self.optimizer)
        return errors.detach(), {
            "critic_loss": critic_loss.detach(),
            "value_mean": values.detach().mean(),
            "policy_value_mean": probed.detach().mean(),
            "radius_mean": action.detach()[:, :2].norm(dim=-1).mean(),
            "grad_norm": norm,
            **memory.metrics_of(batch, errors.detach()),
        }

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from."""
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
