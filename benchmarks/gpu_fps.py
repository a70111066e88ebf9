"""Emulated frames a second of the CUDA back end, by game, batch size and what is asked for.

Times whole steps with random actions on the device, between synchronisations, and reports the RAM
of all consoles as a digest, which the CPU back end gives for the same seeds (``--check``). One JSON
record a line; a cell that the file has already is not run again.

    python benchmarks/gpu_fps.py --games pong breakout --num-envs 4096 32768 --out fps.jsonl

With ``--schedules`` or ``--lanes`` every combination of them is a cell, in place of the geometry
that `cule.envs.launch.choose_geometry` chooses. The schedule "translated" is the game's own kernel
(`cule.envs.translation`), compiled before the clock runs.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import cule
from cule.bench.games import games_named
from cule.envs import translation
from cule.envs.launch import SCHEDULES, Geometry, choose_geometry
from cule.envs.options import resolve_options
from cule.envs.plan import plan_batch

#: What a step is asked for, as options of the environment.
LOADS: dict[str, dict[str, Any]] = {
    "emulation": {"obs_type": "ram"},
    "observation": {},
}
TRANSLATED = "translated"
FRAMESKIP = 4
ACTION_SETS = 16  # random actions made beforehand, used in turn


def make_env(
    game: str, num_envs: int, load: str, device: str, geometry: Geometry | None = None
) -> cule.AtariVectorEnv:
    """An environment as learners use it; on a GPU with a launch geometry."""
    if geometry is not None:
        wish = "1" if geometry.schedule == TRANSLATED else ""
        # The batch's own schedule is of no account once the game has a kernel of its own.
        plain = dataclasses.replace(geometry, schedule=SCHEDULES[0])
        chosen = plain if geometry.schedule == TRANSLATED else geometry
        with (
            mock.patch("cule.envs.cuda_batch.choose_geometry", return_value=chosen),
            mock.patch.dict(os.environ, {"CULE_TRANSLATION": wish}),
        ):
            return make_env(game, num_envs, load, device)
    return cule.AtariVectorEnv(
        game,
        num_envs,
        device=device,
        output="torch",
        resets="cached",
        autoreset_mode="SameStep",
        num_reset_states=8,
        **LOADS[load],
    )


def geometries(num_envs: int, schedules: list[str], lanes: list[int]) -> list[Geometry]:
    """What is to be timed: the chosen geometry, or all that were asked for."""
    chosen = choose_geometry(num_envs, torch.device("cuda"))
    pairs = itertools.product(schedules or [chosen.schedule], lanes or [chosen.lanes_per_warp])
    return [Geometry(n, chosen.warps_per_block, schedule) for schedule, n in pairs]


def digest(env: cule.AtariVectorEnv) -> str:
    """Of the RAM of all consoles."""
    return hashlib.sha256(np.ascontiguousarray(env.ram.cpu().numpy())).hexdigest()[:16]


def step(env: cule.AtariVectorEnv, actions: torch.Tensor, load: str) -> None:
    """One step; RAM, or the stacked observation."""
    if load == "emulation":
        env.step_frames(actions)
    else:
        env.step(actions)


def measure(
    game: str, num_envs: int, load: str, geometry: Geometry, steps: int, turns: int
) -> dict[str, Any]:
    """One cell of the table."""
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    if geometry.schedule == TRANSLATED:
        options = resolve_options(game, 1, {"num_reset_states": 1})
        major, minor = torch.cuda.get_device_capability()
        made_for = (geometry.lanes_per_warp, f"sm_{major}{minor}")
        translation.translate(plan_batch(options).games[0], *made_for)
    torch.cuda.empty_cache()
    free_before, _ = torch.cuda.mem_get_info()
    env = make_env(game, num_envs, load, "cuda", geometry)
    memory_bytes = torch.cuda.memory_allocated()
    generator = torch.Generator(device="cuda").manual_seed(0)
    actions = torch.randint(
        0, len(env.action_set), (ACTION_SETS, num_envs), device="cuda", generator=generator
    )
    env.reset(seed=0)
    for row in range(8):
        step(env, actions[row], load)
    torch.cuda.synchronize()
    first_digest = digest(env)
    set_up_s = time.perf_counter() - began
    seconds = []
    for turn in range(turns):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for row in range(steps):
            step(env, actions[(turn * steps + row) % ACTION_SETS], load)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    free_after, _ = torch.cuda.mem_get_info()
    rates = [num_envs * steps * FRAMESKIP / s for s in seconds]
    record = {
        "game": game,
        "num_envs": num_envs,
        "load": load,
        "schedule": geometry.schedule,
        "lanes_per_warp": geometry.lanes_per_warp,
        "frames_per_s_median": statistics.median(rates),
        "frames_per_s_least": min(rates),
        "frames_per_s_most": max(rates),
        "ms_per_step_median": 1e3 * statistics.median(seconds) / steps,
        "ms_per_frame_median": 1e3 * statistics.median(seconds) / steps / FRAMESKIP,
        "bytes_per_console": memory_bytes // num_envs,
        # With results, torch's reserve, and managed memory that was written to.
        "device_bytes_per_console": (free_before - free_after) // num_envs,
        "digest_after_8_steps": first_digest,
        "set_up_s": set_up_s,
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    env.close()
    return record


def cpu_digest(game: str, num_envs: int, load: str) -> str:
    """What the CPU back end has after the same eight steps."""
    env = make_env(game, num_envs, load, "cpu")
    generator = torch.Generator(device="cuda").manual_seed(0)
    shape = (ACTION_SETS, num_envs)
    actions = torch.randint(0, len(env.action_set), shape, device="cuda", generator=generator)
    env.reset(seed=0)
    for row in range(8):
        step(env, actions[row].cpu(), load)
    value = digest(env)
    env.close()
    return value


def print_table(records: list[dict[str, Any]]) -> None:
    """Median over games, for each load, batch size and geometry, in millions of frames a second."""
    table: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for r in records:
        key = (r["load"], r["num_envs"], r["schedule"], r["lanes_per_warp"])
        table.setdefault(key, []).append(r)
    for (load, num_envs, schedule, lanes), cell in sorted(table.items()):
        rates = sorted(r["frames_per_s_median"] / 1e6 for r in cell)
        frame = statistics.median(r["ms_per_frame_median"] for r in cell)
        print(
            f"{load:12} {num_envs:6} consoles, {schedule:11} {lanes:2} lanes, {len(cell):3} games: "
            f"median {statistics.median(rates):8.3f} M frames/s ({rates[0]:.3f} to "
            f"{rates[-1]:.3f}), {frame:.3f} ms a frame, {cell[0]['bytes_per_console']:,} bytes a "
            "console"
        )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--games", nargs="+", default=["default"], help="names, or default, 57, all"
    )
    parser.add_argument("--num-envs", nargs="+", type=int, default=[256, 1024, 4096, 16384])
    parser.add_argument("--loads", nargs="+", choices=list(LOADS), default=list(LOADS))
    parser.add_argument("--schedules", nargs="+", choices=(*SCHEDULES, TRANSLATED), default=[])
    parser.add_argument("--lanes", nargs="+", type=int, default=[], help="a warp")
    parser.add_argument("--steps", type=int, default=16, help="a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="compare RAM with the CPU back end")
    parser.add_argument("--out", type=Path, default=Path("gpu_fps.jsonl"))
    options = parser.parse_args()
    games = games_named(options.games)
    records = []
    if options.out.exists():
        records = [json.loads(line) for line in options.out.read_text().splitlines()]
    keys = ("game", "num_envs", "load", "schedule", "lanes_per_warp")
    done = {tuple(r[key] for key in keys) for r in records}
    cells = itertools.product(options.num_envs, games, options.loads)
    for num_envs, game, load in cells:
        for geometry in geometries(num_envs, options.schedules, options.lanes):
            cell = (game, num_envs, load, geometry.schedule, geometry.lanes_per_warp)
            if cell in done:
                continue
            try:
                record = measure(game, num_envs, load, geometry, options.steps, options.turns)
            except cule.DeviceError as error:  # no kernel of its own, or it does not fit
                print(*cell, f"left out: {error}", flush=True)
                continue
            if options.check:
                expected = cpu_digest(game, num_envs, load)
                assert record["digest_after_8_steps"] == expected, cell
                record["equals_cpu"] = True
            records.append(record)
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(*cell, f"{record['frames_per_s_median'] / 1e6:8.3f} M frames/s", flush=True)
    print_table(records)


if __name__ == "__main__":
    main()
