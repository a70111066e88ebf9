"""DQN with TorchRL's collector, replay buffer and loss. Needs ``pip install 'cule[torchrl]'``.

python examples/torchrl_dqn.py --device cuda --num-envs 256
"""

from __future__ import annotations

import argparse

import torch
from tensordict.nn import TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import DuelingCnnDQNet, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, SoftUpdate

from cule.wrappers.torchrl import TorchRLEnv


class Pixels(nn.Module):
    """uint8 observations as float32 in [0, 1]."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Scale."""
        return obs / 255


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--game", default="pong")
parser.add_argument("--device", default="cpu")
parser.add_argument("--num-envs", type=int, default=16)
parser.add_argument("--steps", type=int, default=1_000_000)
parser.add_argument("--replay-size", type=int, default=20_000)
parser.add_argument("--batch-size", type=int, default=128)
args = parser.parse_args()

env = TorchRLEnv(args.game, args.num_envs, device=args.device, preset="baselines")
spec = env.action_spec_unbatched
network = nn.Sequential(Pixels(), DuelingCnnDQNet(spec.space.n))
actor = QValueActor(network, in_keys=["observation"], spec=spec).to(args.device)
actor(env.reset())  # makes the lazy layers
explore = EGreedyModule(spec, eps_end=0.05, annealing_num_steps=args.steps // 4)
collector = Collector(
    env,
    TensorDictSequential(actor, explore.to(args.device)),
    frames_per_batch=4 * args.num_envs,
    total_frames=args.steps,
)
replay = TensorDictReplayBuffer(
    storage=LazyTensorStorage(args.replay_size, device=args.device), batch_size=args.batch_size
)
loss_function = DQNLoss(actor, action_space="categorical", delay_value=True)
loss_function.make_value_estimator(gamma=0.99)
target = SoftUpdate(loss_function, eps=0.995)
optimizer = torch.optim.Adam(loss_function.parameters(), lr=1e-4)

steps = 0
for number, data in enumerate(collector):  # [num_envs, 4]
    steps += data.numel()
    explore.step(data.numel())
    replay.extend(data.reshape(-1))
    if len(replay) < args.batch_size:
        continue
    loss = loss_function(replay.sample())["loss"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    target.step()
    if number % 100 == 0 or steps >= args.steps:
        reward = float(data["next", "reward"].mean())
        print(f"step {steps:>9,}  loss {float(loss):.4f}  reward per step {reward:+.4f}")
collector.shutdown()
