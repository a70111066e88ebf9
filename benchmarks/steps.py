"""A few steps of one game on a GPU, and nothing else: what a profiler or a sanitizer runs.

    python benchmarks/steps.py --game pong --num-envs 4096 --steps 100 --profiled 2

With ``--profiled``, further steps follow, between ``cudaProfilerStart`` and ``cudaProfilerStop``.
Fails if another kernel than that of ``--kernel`` runs.
"""

from __future__ import annotations

import argparse

import torch

import cule
from cule.bench.engines import check_kernel, load_kernel
from cule.envs.launch import use_geometry


def main() -> None:
    """Step the game that the command line asks for, with random actions."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--game", default="pong")
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--kernel", default="interpreter", help="as in `cule.EnvOptions`")
    parser.add_argument("--lanes", type=int, help="environments per warp, 1 to 32")
    parser.add_argument("--steps", type=int, default=100, help="before those that are profiled")
    parser.add_argument("--profiled", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    num_envs = options.num_envs
    with use_geometry(options.lanes):
        env = cule.AtariVectorEnv(options.game, num_envs, device="cuda", kernel=options.kernel)
    env.reset(seed=options.seed)
    random = torch.Generator("cuda")
    random.manual_seed(options.seed)
    high = len(env.action_set)

    def step() -> None:
        env.step(torch.randint(high, (num_envs,), generator=random, device="cuda"))

    load_kernel(env, torch.zeros(num_envs, dtype=torch.int64, device="cuda"))
    check_kernel(env, options.kernel)
    for _ in range(options.steps):
        step()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    for _ in range(options.profiled):
        step()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
    total, kernel = int(env.ram.long().sum()), env.running_kernel
    env.close()
    steps = options.steps + options.profiled
    print(f"{kernel}: {steps} steps of {num_envs} environments; RAM adds to {total}")


if __name__ == "__main__":
    main()
