"""PPO of RLlib, on its new API stack. Needs ``pip install 'cule[ray]'``.

python examples/rllib_ppo.py --iterations 100 --runners 2
"""

from __future__ import annotations

import argparse

from ray.rllib.algorithms.ppo import PPOConfig

from cule.wrappers import rllib

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--game", default="pong")
parser.add_argument("--num-envs", type=int, default=16, help="environments of each runner")
parser.add_argument("--runners", type=int, default=0, help="processes; 0: in this one")
parser.add_argument("--batch", type=int, default=2_048, help="steps of an iteration")
parser.add_argument("--iterations", type=int, default=100)
args = parser.parse_args()

name = rllib.register(args.game, preset="baselines", img_height=42, img_width=42)
config = (
    PPOConfig()
    .environment(name)
    .env_runners(
        num_env_runners=args.runners,
        num_envs_per_env_runner=args.num_envs,
        gym_env_vectorize_mode="vector_entry_point",
    )
    .training(
        train_batch_size_per_learner=args.batch,
        minibatch_size=min(256, args.batch),
        num_epochs=2,
        lr=2.5e-4,
        clip_param=0.1,
        entropy_coeff=0.01,
    )
)
algorithm = config.build_algo()
for iteration in range(1, args.iterations + 1):
    result = algorithm.train()["env_runners"]
    steps = result["num_env_steps_sampled_lifetime"]
    print(f"iteration {iteration}: {steps:,.0f} steps, return {result.get('episode_return_mean')}")
algorithm.stop()
