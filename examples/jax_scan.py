"""A rollout as one compiled JAX function, with `jax.lax.scan`. Needs ``pip install 'cule[jax]'``.

The policy is a linear function of the RAM, improved by evolution: each of several candidates
plays its share of the environments.

python examples/jax_scan.py --generations 50
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp

import cule

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--game", default="breakout")
parser.add_argument("--candidates", type=int, default=16)
parser.add_argument("--envs-each", type=int, default=4)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--generations", type=int, default=20)
args = parser.parse_args()

num_envs = args.candidates * args.envs_each
env = cule.AtariVectorEnv(args.game, num_envs, obs_type="ram")
num_actions = len(env.action_set)
handle, reset, step = env.xla()


@jax.jit  # type: ignore[untyped-decorator]  # the library is optional
def play(handle: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns of all candidates; weights float32 [candidates, 128, num_actions]."""
    handle, (obs, _) = reset(handle, seed=0)

    def body(
        carry: tuple[jax.Array, jax.Array], _: None
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        handle, obs = carry
        ram = obs.reshape(args.candidates, args.envs_each, 128) / 255
        actions = jnp.einsum("cer,cra->cea", ram, weights).argmax(-1).reshape(-1)
        handle, (obs, reward, *_) = step(handle, actions)
        return (handle, obs), reward

    (handle, _), rewards = jax.lax.scan(body, (handle, obs), None, args.steps)
    return handle, rewards.reshape(args.steps, args.candidates, -1).sum(0).mean(-1)


key = jax.random.key(0)
mean = jnp.zeros((128, num_actions))
for generation in range(1, args.generations + 1):
    key, noise_key = jax.random.split(key)
    weights = mean + jax.random.normal(noise_key, (args.candidates, *mean.shape))
    handle, returns = play(handle, weights)
    best = jnp.argsort(returns)[-args.candidates // 4 :]
    mean = weights[best].mean(0)
    print(f"generation {generation}: mean {returns.mean():.2f}, best {returns.max():.2f}")
jax.block_until_ready(handle)
env.close()
