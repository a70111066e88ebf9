"""PPO on device tensors, in the style of CleanRL: one file, nothing from `cule.agents`.

Observations, actions and rewards are tensors on one device; with ``--device cuda`` no array
crosses to the CPU.

python examples/ppo.py --game pong --device cuda --num-envs 512
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.distributions import Categorical

import cule

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--game", default="pong")
parser.add_argument("--device", default="cpu")
parser.add_argument("--num-envs", type=int, default=32)
parser.add_argument("--num-steps", type=int, default=64, help="steps of a rollout")
parser.add_argument("--total-steps", type=int, default=2_000_000)
parser.add_argument("--lr", type=float, default=5e-4)
args = parser.parse_args()
gamma, gae_lambda, clip, entropy_weight, epochs, minibatches = 0.99, 0.95, 0.1, 0.01, 3, 4
N, T, device = args.num_envs, args.num_steps, torch.device(args.device)

torch.manual_seed(0)
env = cule.AtariVectorEnv(
    args.game,
    N,
    device=args.device,
    output="torch",
    preset="dqn",  # a lost life is reported as termination, and info has episode_return
    autoreset_mode="SameStep",
)


class Network(nn.Module):
    """The convolutions of Mnih et al. 2015, with a policy and a value."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()),
            *(nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU()),
        )
        self.policy = nn.Linear(512, len(env.action_set))
        self.value = nn.Linear(512, 1)

    def forward(self, obs: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        """Policy and value of uint8 observations ``[B, 4, 84, 84]``."""
        features = self.body(obs / 255)
        return Categorical(logits=self.policy(features)), self.value(features).squeeze(-1)


network = Network().to(device)
obs, info = env.reset(seed=0)  # uint8 [N, 4, 84, 84] on the device
optimizer = torch.optim.Adam(network.parameters(), lr=args.lr, eps=1e-5)

all_obs = torch.zeros(T, *obs.shape, dtype=torch.uint8, device=device)
all_actions = torch.zeros(T, N, dtype=torch.int64, device=device)
all_log_probs, all_rewards, all_dones, all_values, advantages = torch.zeros(5, T, N, device=device)

start = time.perf_counter()
for update in range(1, args.total_steps // (T * N) + 1):
    optimizer.param_groups[0]["lr"] = args.lr * (1 - (update - 1) * T * N / args.total_steps)
    with torch.no_grad():
        for t in range(T):
            policy, all_values[t] = network(obs)
            actions = policy.sample()
            all_obs[t], all_actions[t], all_log_probs[t] = obs, actions, policy.log_prob(actions)
            obs, all_rewards[t], terminated, truncated, info = env.step(actions)
            all_dones[t] = terminated | truncated
        next_value, advantage = network(obs)[1], torch.zeros(N, device=device)
        for t in reversed(range(T)):
            delta = all_rewards[t] + gamma * next_value * (1 - all_dones[t]) - all_values[t]
            advantage = delta + gamma * gae_lambda * (1 - all_dones[t]) * advantage
            advantages[t], next_value = advantage, all_values[t]
        returns = advantages + all_values

    for _ in range(epochs):
        for rows in torch.randperm(T * N, device=device).chunk(minibatches):
            policy, value = network(all_obs.flatten(0, 1)[rows])
            log_probs = policy.log_prob(all_actions.flatten()[rows])
            ratio = (log_probs - all_log_probs.flatten()[rows]).exp()
            a = advantages.flatten()[rows]
            a = (a - a.mean()) / (a.std() + 1e-8)
            policy_loss = -torch.min(a * ratio, a * ratio.clamp(1 - clip, 1 + clip)).mean()
            value_loss = 0.5 * (value - returns.flatten()[rows]).square().mean()
            loss = policy_loss + 0.5 * value_loss - entropy_weight * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            optimizer.step()

    if update % 10 == 1:  # the only place that waits for the device
        steps, seconds = update * T * N, time.perf_counter() - start
        score = float(info["episode_return"].float().mean())
        print(
            f"step {steps:>9,}  {steps / seconds:>7,.0f} steps/s  reward per step "
            f"{float(all_rewards.mean()):+.4f}  score of the running episodes {score:+.1f}"
        )
env.close()
