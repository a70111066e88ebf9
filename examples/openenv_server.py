"""Serve a game over OpenEnv, and play it from a client over the loopback interface.

python examples/openenv_server.py --game pong --steps 200
Other programs play the same server with openenv's clients while it runs: add --serve.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from openenv.core import GenericEnvClient

from cule.wrappers.openenv import make_app, serving


def play(address: str, steps: int) -> None:
    """Play at random, as a program on another machine would."""
    with GenericEnvClient(base_url=address).sync() as env:
        result, score, rng = env.reset(seed=0), 0.0, np.random.default_rng(0)
        for _ in range(steps):
            action = rng.choice(result.observation["legal_actions"])
            result = env.step({"action_id": int(action)})
            score += result.reward
            if result.done:
                result = env.reset()
        print(f"{steps} steps, {score:g} points, state {env.state()}")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--game", default="pong")
parser.add_argument("--port", type=int, default=0, help="0: any free port")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--serve", action="store_true", help="keep serving")
options = parser.parse_args()

with serving(make_app(options.game), port=options.port) as address:
    print(f"serving {options.game} at {address}", flush=True)
    play(address, options.steps)
    while options.serve:
        time.sleep(1)
