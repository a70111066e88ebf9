"""Compare training: PPO of Stable-Baselines3 through SB3VecEnv, and PPO of cule.agents.

Both have the same options: 8 environments, rollouts of 128 steps, 4 epochs of 4 minibatches of 256,
the Nature network, Adam, and the same threads of torch and of environments. They run rollout by
rollout in interleaved rounds in one process, so results are ratios within one run. A round is a
rollout and its updates. Rates are per second of the clock, and per second of processor time, which
other work on the machine disturbs less. Both networks must have the same number of parameters, and
both must have changed them. Frames are emulated frames, four a step. `make test-integrations`
installs what this needs.

    .venv-integrations/bin/python benchmarks/sb3_ppo.py --rounds 9
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stable_baselines3
import torch
from torch import nn

from cule.agents import PPO, PPOConfig
from cule.bench.machine import conditions
from cule.wrappers.sb3 import SB3VecEnv

RECORD = Path(__file__).parent / "results" / "sb3_ppo.json"
NUM_ENVS, NUM_STEPS, FRAMESKIP = 8, 128, 4

#: A round: a rollout and the updates from it.
Round = Callable[[], object]


def stable_baselines(game: str, threads: int) -> tuple[Round, nn.Module]:
    """PPO of Stable-Baselines3."""
    env = SB3VecEnv(game, NUM_ENVS, preset="dqn", use_fire_reset=True, num_threads=threads)
    model = stable_baselines3.PPO(
        "CnnPolicy",
        env,
        n_steps=NUM_STEPS,
        batch_size=256,
        n_epochs=4,
        learning_rate=2.5e-4,
        clip_range=0.1,
        clip_range_vf=0.1,
        ent_coef=0.01,
        vf_coef=0.5,
        seed=0,
        device="cpu",
        policy_kwargs={"optimizer_kwargs": {"eps": 1e-5}},
    )
    return lambda: model.learn(NUM_ENVS * NUM_STEPS, reset_num_timesteps=False), model.policy


def ours(game: str, threads: int) -> tuple[Round, nn.Module]:
    """PPO of cule, the preset `ppo`."""
    config = PPOConfig(
        game=game,
        num_envs=NUM_ENVS,
        num_steps=NUM_STEPS,
        learning_rate_schedule="constant",
        decorrelate_steps=0,
        env_threads=threads,
        torch_threads=threads,
    )
    agent = PPO(config)
    progress = agent.train()
    return lambda: next(progress), agent.network


def measure(game: str, threads: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Frames per second of both in each round, by the clock and by processor time."""
    engines = {"sb3": stable_baselines(game, threads), "cule": ours(game, threads)}
    torch.set_num_threads(threads)
    before = {
        name: [parameter.detach().clone() for parameter in network.parameters()]
        for name, (_, network) in engines.items()
    }
    sizes = {name: sum(p.numel() for p in learned) for name, learned in before.items()}
    assert len(set(sizes.values())) == 1, sizes
    clocks = {"clock": time.perf_counter, "processor": time.process_time}
    rates: dict[str, dict[str, list[float]]] = {
        kind: {name: [] for name in engines} for kind in clocks
    }
    for number in range(rounds + 1):
        for name, (run, _) in engines.items():
            starts = {kind: clock() for kind, clock in clocks.items()}
            run()
            for kind, clock in clocks.items():
                seconds = clock() - starts[kind]
                if number:  # the first warms up
                    rates[kind][name].append(NUM_ENVS * NUM_STEPS * FRAMESKIP / seconds)
    for name, (_, network) in engines.items():
        pairs = zip(network.parameters(), before[name], strict=True)
        assert all(p.isfinite().all() and (p != old).any() for p, old in pairs), name
    return rates


def main() -> None:
    """Measure, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", default="pong,breakout")
    parser.add_argument("--threads", type=int, default=1, help="of torch, and of environments")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        **conditions(vars(arguments)),
        "versions": {
            "stable-baselines3": stable_baselines3.__version__,
            "torch": torch.__version__,
        },
        "frames_per_second": {},
    }
    for game in arguments.games.split(","):
        rates = measure(game, arguments.threads, arguments.rounds)
        record["frames_per_second"][game] = rates
        for kind, rows in rates.items():
            medians = {name: statistics.median(values) for name, values in rows.items()}
            ratio = statistics.median(a / b for a, b in zip(rows["cule"], rows["sb3"], strict=True))
            words = {name: f"{value:,.0f}" for name, value in medians.items()}
            print(game, kind, words, f"{ratio:.2f}")
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
