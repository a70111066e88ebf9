"""PPO of Stable-Baselines3 on a batch of environments. Needs ``pip install 'cule[sb3]'``.

python examples/sb3_ppo.py --steps 1000000
"""

from __future__ import annotations

import argparse

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from cule.wrappers.sb3 import SB3VecEnv

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--game", default="pong")
parser.add_argument("--num-envs", type=int, default=16)
parser.add_argument("--rollout-steps", type=int, default=128)
parser.add_argument("--steps", type=int, default=1_000_000)
parser.add_argument("--max-frames", type=int, default=108_000, help="frames of an episode")
args = parser.parse_args()

options = {"max_num_frames_per_episode": args.max_frames}
env = SB3VecEnv(args.game, args.num_envs, preset="baselines", **options)
env.seed(0)
model = PPO(
    "CnnPolicy",
    env,
    n_steps=args.rollout_steps,
    batch_size=256,
    n_epochs=4,
    learning_rate=2.5e-4,
    clip_range=0.1,
    ent_coef=0.01,
    verbose=1,
)
model.learn(args.steps)
env.close()

# Scores are of whole games, with rewards that are not clipped.
test_env = SB3VecEnv(args.game, 4, reward_clipping=False, **options)
mean, deviation = evaluate_policy(model, test_env, n_eval_episodes=4, warn=False)
print(f"score {mean:.1f} +- {deviation:.1f}")
test_env.close()
