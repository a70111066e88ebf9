"""Offline reinforcement learning from a dataset: behaviour cloning and conservative Q-learning.

A dataset holds seeds and actions, and is played again in every epoch; no observation is stored.
``bc`` imitates its actions. ``cql`` is Q-learning with a penalty for the values of other actions
(Kumar et al. 2020, "Conservative Q-Learning for Offline Reinforcement Learning", equation 4).

    cule record zoo:pong-pixels --steps 100000 --greedy --out pong.cule
    python examples/offline.py pong.cule --method cql
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, smooth_l1_loss

import cule
from cule.datasets import Transitions, open_dataset

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("dataset")
parser.add_argument("--method", choices=("bc", "cql"), default="bc")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--lr", type=float, default=5e-4)
parser.add_argument("--alpha", type=float, default=4.0, help="weight of the penalty of cql")
parser.add_argument("--copy-every", type=int, default=200, help="updates of the target of cql")
parser.add_argument("--episodes", type=int, default=32, help="of the test after an epoch")
parser.add_argument("--max-frames", type=int, default=108_000, help="of an episode of the test")
args = parser.parse_args()
gamma, pixels = 0.99, {"img_height": 42, "img_width": 42}

torch.manual_seed(0)
dataset = open_dataset(args.dataset)
returns = [episode.episode_return for episode in dataset.episodes]
print(dataset, f"mean return {np.mean(returns):.2f}" if returns else "without an episode")
options = {**dataset.options, **pixels, "max_num_frames_per_episode": args.max_frames}
env = cule.AtariVectorEnv(dataset.game, args.episodes, output="torch", **options)
stack = dataset.options["stack_num"]


def batches(seed: int) -> Iterator[Transitions]:
    """Play the dataset: every transition once, in random order within a window."""
    return dataset.transitions(args.batch_size, window=8192, seed=seed, framework="torch", **pixels)


def pixel_statistics() -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and standard deviation of every pixel, ``[S, 42, 42]``."""
    sums = torch.zeros(3, stack, 42, 42, dtype=torch.float64)
    for batch in batches(0):
        obs = batch.obs.double()
        sums += torch.stack([torch.ones_like(obs), obs, obs.square()]).sum(1)
    mean = sums[1] / sums[0]
    return mean.float(), (sums[2] / sums[0] - mean.square()).clamp(min=1).sqrt().float()


class Network(nn.Module):
    """Logits or values ``[B, A]`` of observations, uint8 ``[B, S, 42, 42]``."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.mean, self.std = pixel_statistics()
        self.layers = nn.Sequential(
            *(nn.Conv2d(stack, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(288, 256), nn.ReLU(), nn.Linear(256, len(env.action_set))),
        )

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Normalize the pixels and apply the layers."""
        outputs: torch.Tensor = self.layers((obs - self.mean) / self.std)
        return outputs


network = Network()
target = copy.deepcopy(network).requires_grad_(False)
optimizer = torch.optim.Adam(network.parameters(), args.lr)


def conservative_loss(outputs: torch.Tensor, batch: Transitions) -> torch.Tensor:
    """Return the error of Q-learning plus the penalty, whose softmax weighs all actions."""
    values = outputs.gather(1, batch.action[:, None])[:, 0]
    following = target(batch.next_obs).gather(1, network(batch.next_obs).argmax(1, keepdim=True))
    goals = batch.reward.sign() + gamma * ~batch.terminated * following[:, 0]
    penalty = outputs.logsumexp(1) - values
    loss: torch.Tensor = smooth_l1_loss(values, goals.detach()) + args.alpha * penalty.mean()
    return loss


@torch.no_grad()
def test_return() -> float:
    """Return the mean return of one episode of each environment, with the best actions."""
    obs, _ = env.reset(seed=1)
    total, playing = torch.zeros(args.episodes), torch.ones(args.episodes, dtype=torch.bool)
    while playing.any():
        obs, reward, terminated, truncated, _ = env.step(network(obs).argmax(1))
        total += reward * playing
        playing &= ~(terminated | truncated)
    return float(total.mean())


updates = 0
for epoch in range(args.epochs):
    losses = []
    for batch in batches(epoch):
        outputs = network(batch.obs)
        is_bc = args.method == "bc"
        loss = cross_entropy(outputs, batch.action) if is_bc else conservative_loss(outputs, batch)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
        updates += 1
        if updates % args.copy_every == 0:
            target.load_state_dict(network.state_dict())
    print(f"epoch {epoch}: loss {np.mean(losses):.4f}, return {test_return():.2f}", flush=True)
