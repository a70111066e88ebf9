"""PPO with random network distillation, for games whose rewards are far apart (Burda et al. 2018).

`RNDPPO` is `PPO` with a second reward: how novel the frame is that follows a step. Its value has a
head and a discount of its own, and is not cut at the end of an episode, after which novel frames
are as novel as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import torch
from torch import Tensor

from cule import algos
from cule.agents.parts import optim, state
from cule.agents.parts.distributed import global_moments, update_statistics
from cule.agents.parts.envs import AnyEnv
from cule.agents.parts.rollout import ValueScale, in_parts, next_values
from cule.agents.parts.setup import Network
from cule.agents.ppo import PPO, PPOConfig, Samples
from cule.kernels import linear_recurrence
from cule.nets import OBJECT_TORSOS
from cule.nets.novelty import CuriousActorCritic, Novelty
from cule.option_fields import Bounds, Fraction, NonNegativeFloat, Positive, require
from cule.replay import TrajectoryBuffer, TrajectoryOptions

#: Added to the seed of a run for the weights of the two networks of novelty.
NOVELTY_SEED = 9


@dataclass(frozen=True, kw_only=True)
class RNDPPOConfig(PPOConfig):
    """Options of PPO with random network distillation; the defaults are CleanRL's.

    Its ppo_rnd_envpool.py has them. `value_coef` weighs the mean of both value losses.
    """

    num_envs: Positive = 128
    learning_rate: float = 1e-4
    gamma: Fraction = 0.999
    entropy_coef: float = 0.001
    value_coef: float = 1.0

    extrinsic_coef: NonNegativeFloat = 2.0
    """Factor of the advantages of rewards."""

    intrinsic_coef: NonNegativeFloat = 1.0
    """Factor of the advantages of novelty."""

    intrinsic_gamma: Fraction = 0.99
    """Discount of novelty."""

    predictor_share: Annotated[float, Bounds(1e-6, 1.0)] = 0.25
    """Share of the samples of a minibatch from which the predictor learns."""

    def __post_init__(self) -> None:
        """Validate the options."""
        super().__post_init__()
        require(self, "with ppo-rnd", continuous=False, normalize_values=False)


class RNDPPO(PPO):
    """PPO with random network distillation; see docs/agents/ppo.md.

    Example:
        >>> from cule.agents import RNDPPO, RNDPPOConfig
        >>> config = RNDPPOConfig(game="venture", num_envs=8, num_steps=16, total_steps=256)
        >>> [progress.steps for progress in RNDPPO(config).train()]
        [128, 256]

    Attributes:
        novelty: The errors of a predictor.
        novelty_scale: Units of the discounted sums of novelty, by whose deviation it is divided.
        novelty_sums: These sums up to the last step; float32 ``[N]``.
    """

    name: ClassVar[str] = "ppo-rnd"
    config_class: ClassVar[type[RNDPPOConfig]] = RNDPPOConfig
    value_shape: ClassVar[tuple[int, ...]] = (2,)
    config: RNDPPOConfig

    def __init__(
        self, config: RNDPPOConfig, env: AnyEnv | None = None, *, network: Network | None = None
    ) -> None:
        """Make environments and network; yours replace those of the config (own_networks.md)."""
        super().__init__(config, env, network=network)
        novelty = self.setup.make_network(None, self.make_novelty, {})
        self.novelty = cast(Novelty, novelty)
        self.novelty_scale = ValueScale().to(self.device)
        self.novelty_sums = torch.zeros(self.num_envs, device=self.device)
        self.predictor_optimizer = torch.optim.Adam(
            self.novelty.predictor.parameters(),
            lr=self.setup.learning_rate,
            eps=config.adam_eps,
            fused=True,
        )
        if config.cuda_graphs:
            optim.make_capturable(self.predictor_optimizer, self.device)

    def make_network(self) -> CuriousActorCritic:
        """Make a policy and two values, on the CPU."""
        options = self.setup.network_options(normalize_obs=self.config.normalize_obs)
        return CuriousActorCritic(self.obs_shape, self.num_actions, **options)

    def make_novelty(self) -> Novelty:
        """Make both networks of novelty, on the CPU."""
        torch.manual_seed(self.config.seed + NOVELTY_SEED)
        # Those of objects read what is visible, which normalized numbers do not tell.
        torso = self.config.network
        return Novelty(self.obs_shape, torso="mlp" if torso in OBJECT_TORSOS else torso)

    def make_buffer(self) -> TrajectoryBuffer:
        """Make the buffer of a rollout, with both values of each step."""
        options = self.setup.storage_options(self.network) | {"pixel_blocks": False}
        extras = {"log_probs": ((), torch.float32), "values": (self.value_shape, torch.float32)}
        return TrajectoryBuffer(
            TrajectoryOptions(**options, num_steps=self.config.num_steps, extras=extras)
        )

    # --- Learn ------------------------------------------------------------------------------------

    def learn(self) -> dict[str, Tensor]:
        """Run all epochs over the rollout in the buffer; return the mean metrics of the updates."""
        config, setup, rollout = self.config, self.setup, self.buffer.rollout(with_obs=False)
        old_values = rollout.extras["values"]
        rewards, novelties = old_values.unbind(-1)
        after = next_values(rollout, rewards, lambda obs: self.values_of(obs)[:, 0], setup)
        advantages, returns = algos.gae(
            rollout.rewards, rollout.discounts, rewards, after, rollout.ended, config.gae_lambda
        )
        last = self.values_of(rollout.bootstrap_obs)[None, :, 1]
        of_novelty, novelty_returns = algos.gae(
            self.intrinsic_rewards(rollout.bootstrap_obs),
            torch.full_like(rollout.discounts, config.intrinsic_gamma),
            novelties,
            torch.cat([novelties[1:], last]),
            torch.zeros_like(rollout.ended),
            config.gae_lambda,
        )
        advantages = config.extrinsic_coef * advantages + config.intrinsic_coef * of_novelty
        returns = torch.stack([returns, novelty_returns], -1)
        log_probs = rollout.extras["log_probs"]
        columns = (rollout.actions, advantages, returns, log_probs, old_values, rollout.valid)
        flat = [column.flatten(0, 1) for column in columns]
        early_stop = optim.EarlyStop(
            config.target_kl, config.num_minibatches, self.device, can_sync=setup.can_sync
        )
        for _ in range(config.num_epochs):
            epoch: dict[str, Tensor] = {}
            for index in self.buffer.minibatches(config.num_minibatches).unbind():
                samples = Samples(self.buffer.obs_at(index), *(column[index] for column in flat))
                metrics = self.minimise(samples, early_stop.has_stopped)
                optim.add_to(epoch, {**metrics, "novelty_loss": self.learn_frames(samples.obs)})
            if early_stop.end_epoch(epoch):
                break
        metrics = early_stop.mean_metrics()
        if config.adaptive_kl is not None:
            optim.adapt_learning_rate(self.optimizer, metrics["approx_kl"], config.adaptive_kl)
        return {
            **metrics,
            "explained_variance": algos.explained_variance(rewards, returns[..., 0]),
            "novelty_explained_variance": algos.explained_variance(novelties, novelty_returns),
            "value_mean": rewards.mean(),
        }

    @torch.no_grad()
    def intrinsic_rewards(self, last_obs: Tensor) -> Tensor:
        """Novelty of the frames that follow each step, float32 ``[T, N]``; updates its units.

        It is divided by the running standard deviation of its discounted sums; `last_obs` are the
        observations after the last step.
        """
        config, n = self.config, self.num_envs
        for frames in self.buffer.frames(config.forward_batch):
            update_statistics(self.novelty.statistics, frames)
        following = torch.arange(n, n * config.num_steps, device=self.device)
        with self.setup.autocast():
            parts = torch.split(following, config.forward_batch)
            errors = [self.novelty(self.buffer.obs_at(part)) for part in parts]
            errors.append(in_parts(self.novelty, last_obs, config.forward_batch))
        novelty = torch.cat(errors).view(config.num_steps, n)
        sums = novelty.clone()
        sums[0] += config.intrinsic_gamma * self.novelty_sums
        decay = torch.full_like(sums, config.intrinsic_gamma)
        sums = linear_recurrence(sums.flip(0), decay).flip(0)
        self.novelty_sums.copy_(sums[-1])
        self.novelty_scale.update(*global_moments(sums), None)
        return novelty / self.novelty_scale.std

    def learn_frames(self, obs: Tensor) -> Tensor:
        """Update the predictor from a share of observations ``[B, ...]`` in random order."""
        count = max(round(len(obs) * self.config.predictor_share), 1)
        with self.setup.autocast():
            loss: Tensor = self.novelty(obs[:count]).mean()
        self.setup.descend(loss, self.predictor_optimizer)
        return loss.detach()

    # --- State ------------------------------------------------------------------------------------

    def state_dict(self, *, replay: bool = True) -> dict[str, Any]:
        """Everything that training continues from."""
        saved = super().state_dict(replay=replay)
        saved["extra"] |= {
            "novelty": self.novelty.state_dict(),
            "novelty_scale": self.novelty_scale.state_dict(),
            "novelty_sums": self.novelty_sums,
            "predictor_optimizer": self.predictor_optimizer.state_dict(),
        }
        return saved

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`; without a buffer, new episodes begin."""
        super().load_state_dict(saved)
        extra = saved["extra"]
        self.novelty.load_state_dict(extra["novelty"])
        self.novelty_scale.load_state_dict(extra["novelty_scale"])
        self.novelty_sums.copy_(extra["novelty_sums"])
        state.load_optimizer(self, self.predictor_optimizer, extra["predictor_optimizer"])
