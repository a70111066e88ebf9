"""PPO: proximal policy optimisation with clipped ratios (Schulman et al. 2017).

Collect T steps of N consoles, estimate advantages, then several epochs over shuffled minibatches.
On the continuous action interface the policy is normal over three unbounded numbers; the buffer
keeps these and the noise that made them, and the environments get their squashed, polar form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from cule import algos
from cule.agents.base import Progress
from cule.agents.distributed import global_moments, mean_over_ranks
from cule.agents.graphs import make_capturable
from cule.agents.on_policy import OnPolicyAgent, PolicyConfig, check_minibatches
from cule.agents.options import check_least, check_range
from cule.errors import InvalidArgumentError
from cule.nets import GaussianActorCritic
from cule.replay import Rollout

#: How strongly `prio` prefers consoles with large advantages.
PRIO_EXPONENT = 0.8


@dataclass(frozen=True, kw_only=True)
class PPOConfig(PolicyConfig):
    """Options of PPO; the defaults are those of public reference scripts."""

    num_steps: int = 128
    """Steps T of a rollout."""

    num_epochs: int = 4
    """Passes over each rollout."""

    num_minibatches: int = 4
    """Parts that a pass is cut into; an update of the optimiser each."""

    learning_rate: float = 2.5e-4
    """Of Adam, at the start."""

    anneal_learning_rate: bool = True
    """The learning rate falls linearly to 0 at the end."""

    adam_eps: float = 1e-5
    """Epsilon of Adam."""

    gae_lambda: float = 0.95
    """Lambda of the advantages."""

    clip_range: float = 0.1
    """How far a ratio may move from 1 before its gradient is cut."""

    clip_values: bool = True
    """Clip the change of values as well, by the same range."""

    value_coef: float = 0.5
    """Factor of the value loss (half the mean squared error)."""

    entropy_coef: float = 0.01
    """Factor of the entropy."""

    max_grad_norm: float = 0.5
    """Global norm that gradients are clipped to; 0: not clipped."""

    normalise_advantages: bool = True
    """Advantages of each minibatch get mean 0 and deviation 1."""

    target_kl: float | None = None
    """Mean divergence of an epoch above which those that follow change nothing; none: they do."""

    vtrace: bool = False
    """Advantages are computed anew before each minibatch, with the newest ratios clipped at 1."""

    prio: bool = False
    """Minibatches are whole consoles, drawn by the size of their advantages to the power of 0.8."""

    local_norm: bool = False
    """With several processes: normalise over this process's minibatch alone."""

    continuous: bool = False
    """Act with radius, angle and fire, drawn from a normal policy, instead of numbered actions."""

    initial_sigma: float = 1.0
    """Deviation of the continuous policy at the start, before squashing."""

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        super().__post_init__()
        check_least(self, 1, "num_steps", "num_epochs", "num_minibatches")
        check_least(self, 0.0, "learning_rate", "adam_eps", "clip_range", "max_grad_norm")
        check_range(self, 0.0, 1.0, "gae_lambda")
        check_least(self, 1e-6, "initial_sigma")
        if self.target_kl is not None:
            check_least(self, 0.0, "target_kl")
        if self.continuous and self.full_action_space:
            raise InvalidArgumentError(
                "continuous is True and full_action_space True; continuous actions are no list, so "
                "one of them must be False"
            )


class PPO(OnPolicyAgent):
    """The learner; see docs/agents/ppo.md.

    Example:
        >>> from cule.agents import PPO, PPOConfig
        >>> agent = PPO(PPOConfig(game="pong", num_envs=8, num_steps=16, total_steps=256))
        >>> [progress.steps for progress in agent.train()]
        [128, 256]
    """

    name: ClassVar[str] = "ppo"
    config_class = PPOConfig
    config: PPOConfig
    learn_from: Callable[..., tuple[dict[str, Tensor], Tensor]]

    def capture(self) -> None:
        """Acting, and an update from a minibatch."""
        super().capture()
        self.learn_from = self.captured(self._learn_from)

    def make_network(self) -> Any:
        """A policy over the actions, or a normal one, and a value."""
        config = self.config
        if not config.continuous:
            return super().make_network()
        return GaussianActorCritic(
            self.obs_shape,
            initial_sigma=config.initial_sigma,
            torso=config.network,
            initialisation=config.initialisation,
            normalize_obs=config.normalize_obs,
        )

    def buffer_options(self) -> dict[str, Any]:
        """As for all; of continuous actions the unbounded numbers, and the noise in them."""
        options = super().buffer_options()
        if self.config.continuous:
            options |= {"action_shape": (3,), "action_dtype": torch.float32}
            options["extras"] = {"noise": ((3,), torch.float32), "values": ((), torch.float32)}
        return options

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Adam."""
        config = self.config
        if config.prio:
            check_minibatches(config.num_minibatches, self.num_envs, "num_envs, with prio")
        check_minibatches(config.num_minibatches, config.num_steps * self.num_envs)
        optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self.learning_rate, eps=config.adam_eps
        )
        if config.target_kl is not None and self.device.type == "cuda":
            make_capturable(optimizer, self.device)  # what an update leaves out must be there
        return optimizer

    # --- The policy -------------------------------------------------------------------------------

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator, *, greedy: bool = False) -> Tensor:
        """Actions drawn from the policy, or its most probable ones (of the numbers squashed)."""
        if not self.config.continuous:
            return super().act(obs, generator, greedy=greedy)
        with self.autocast():
            means, _ = self.forward(obs)
        return algos.polar_from_raw(means if greedy else self._draw(means, generator)[0])

    @torch.no_grad()
    def _choose(self, obs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if not self.config.continuous:
            return super()._choose(obs)
        with self.autocast():
            means, values = self.forward(obs)
        raw, noise = self._draw(means, self.generator)
        return raw, {"noise": noise, "values": values}

    def _draw(self, means: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Unbounded numbers of a normal policy, and the standard noise in them; ``[N, 3]``."""
        noise = torch.randn(means.shape, generator=generator, device=self.device)
        return means + self.network.log_sigma.exp() * noise, noise

    def executed(self, actions: Tensor) -> Tensor:
        """Radius, angle and fire of unbounded numbers; the numbers of actions as they are."""
        return algos.polar_from_raw(actions) if self.config.continuous else actions

    @torch.no_grad()
    def old_log_probs(self, rollout: Rollout) -> Tensor:
        """Of the policy that acted ``[T, N]``; to be asked for before the first update."""
        if self.config.continuous:
            return algos.noise_log_prob(rollout.extras["noise"], self.network.log_sigma)
        return rollout.extras["log_probs"]

    def log_probs_and_entropy(self, policy: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities ``[B]`` and mean entropy, from the network's logits or means."""
        if self.config.continuous:
            log_sigma = self.network.log_sigma
            log_probs = algos.gaussian_log_prob(policy, log_sigma, actions)
            return log_probs, algos.gaussian_entropy(log_sigma)
        return algos.log_prob(policy, actions), algos.entropy(policy).mean()

    # --- Learn ------------------------------------------------------------------------------------

    def train(self, steps: int | None = None) -> Iterator[Progress]:
        """As `Agent.train`; a round is a rollout and its epochs."""
        config = self.config
        stop = config.total_steps if steps is None else steps
        self.begin()
        while self.steps < stop:
            self.anneal()
            self.collect(config.num_steps)
            self.metrics = self.update()
            yield Progress(self.steps, self.updates, self.metrics)

    def update(self) -> dict[str, Tensor]:
        """All epochs over the rollout that the buffer holds; the mean metrics of its updates."""
        config = self.config
        rollout = self.buffer.rollout(with_obs=False)
        old_values, old_log_probs = rollout.extras["values"], self.old_log_probs(rollout)
        next_values = self.next_values(rollout, old_values)
        log_ratios = torch.zeros_like(old_values)  # of the newest policy that has seen a sample
        advantages, returns = self.estimate(rollout, next_values, log_ratios)
        first_returns = returns
        sums: dict[str, Tensor] = {}
        early_stopped = torch.zeros((), dtype=torch.bool, device=self.device)
        for _ in range(config.num_epochs):
            epoch: dict[str, Tensor] = {}
            indices = None if config.prio else self.buffer.minibatches(config.num_minibatches)
            for k in range(config.num_minibatches):
                if config.vtrace:
                    advantages, returns = self.estimate(rollout, next_values, log_ratios)
                index = self.draw_consoles(advantages) if indices is None else indices[k]
                columns = (rollout.actions, advantages, returns, old_log_probs, old_values)
                metrics, new = self._minibatch(columns, index, early_stopped)
                log_ratios.view(-1)[index] = new
                add_to(epoch, metrics)
            add_to(
                sums,
                {name: torch.where(early_stopped, 0.0, value) for name, value in epoch.items()},
            )
            add_to(sums, {"applied": config.num_minibatches * (~early_stopped).float()})
            if config.target_kl is not None:
                kl = mean_over_ranks(epoch["approx_kl"] / config.num_minibatches)
                early_stopped = early_stopped | (kl > config.target_kl)
                if self.can_sync and bool(early_stopped):
                    break
        applied = sums.pop("applied")
        result = {name: value / applied for name, value in sums.items()}
        result["explained_variance"] = algos.explained_variance(old_values, first_returns)
        result["value_mean"] = old_values.mean()
        if config.target_kl is not None:
            result["epochs"] = applied / config.num_minibatches
        return result

    def estimate(
        self, rollout: Rollout, next_values: Tensor, log_ratios: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Advantages and returns ``[T, N]``; with `vtrace` for the policy of these ratios."""
        config, values = self.config, rollout.extras["values"]
        rewards, discounts = rollout.rewards, rollout.discounts
        if not config.vtrace:
            return algos.gae(
                rewards, discounts, values, next_values, rollout.ended, config.gae_lambda
            )
        targets = algos.vtrace(
            log_ratios,
            rewards,
            discounts,
            values,
            next_values,
            rollout.ended,
            trace_lambda=config.gae_lambda,
        ).targets
        return targets - values, targets

    def draw_consoles(self, advantages: Tensor) -> Tensor:
        """A minibatch of whole consoles: step times N plus console, int64 ``[B]``.

        Consoles are drawn in proportion to the sum of their absolute advantages to the power of
        0.8, one from each part of the total.
        """
        num_steps, n = advantages.shape
        # Of values that are no numbers any more any choice is as good; the loss will tell.
        sizes = advantages.abs().sum(0).nan_to_num(0.0, posinf=1e30).clamp(1e-6, 1e30)
        count = n // self.config.num_minibatches
        consoles, _ = algos.draw_by_size(sizes**PRIO_EXPONENT, count, self.generator)
        steps = torch.arange(num_steps, device=self.device)
        return (steps[:, None] * n + consoles).flatten()

    def _minibatch(
        self, columns: tuple[Tensor, ...], index: Tensor, early_stopped: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """One update from samples of a rollout: step times N plus console, int64 ``[B]``."""
        samples = [column.flatten(0, 1)[index] for column in columns]
        result = self.learn_from(self.buffer.obs_at(index), *samples, early_stopped)
        self.updates += 1
        return result

    def _learn_from(
        self,
        obs: Tensor,
        actions: Tensor,
        advantage: Tensor,
        returns: Tensor,
        old_log_probs: Tensor,
        old_values: Tensor,
        early_stopped: Tensor,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """One update from samples ``[B]``; what to log, and the log-ratios that it began with."""
        config = self.config
        with self.autocast():
            policy, values = self.forward(obs)
        log_probs, entropy = self.log_probs_and_entropy(policy, actions)
        if config.normalise_advantages:
            if config.local_norm:
                mean, std = advantage.mean(), advantage.std()
            else:
                mean, std = global_moments(advantage)
            advantage = algos.normalise(advantage, mean, std)
        surrogate = algos.ppo_policy_loss(log_probs, old_log_probs, advantage, config.clip_range)
        value_loss = 0.5 * algos.value_loss(
            values, returns, old_values, config.clip_range if config.clip_values else None
        )
        loss = surrogate.loss + config.value_coef * value_loss - config.entropy_coef * entropy
        may_stop = None if config.target_kl is None or self.can_sync else early_stopped
        norm = self.learn(loss, config.max_grad_norm, may_stop)
        metrics = {
            "policy_loss": surrogate.loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "approx_kl": surrogate.approx_kl,
            "clip_fraction": surrogate.clip_fraction,
            "grad_norm": norm,
        }
        return metrics, log_probs.detach() - old_log_probs


def add_to(sums: dict[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Add values to the sums of their names."""
    for name, value in values.items():
        sums[name] = sums[name] + value if name in sums else value
