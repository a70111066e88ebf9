"""``cule train`` and ``cule eval``: words of a command line to runs and evaluations."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from cule.agents.distributed import leave_world, rank
from cule.agents.environment import FrameEnv
from cule.agents.errors import TrainingMemoryError
from cule.agents.evaluation import (
    MIN_EPISODES,
    PROTOCOLS,
    Evaluation,
    evaluate,
    make_eval_env,
)
from cule.agents.options import add_arguments, config_from
from cule.agents.presets import AGENTS, PRESETS, checkpoint_config, load_to_play
from cule.agents.runner import RunOptions, find_checkpoint, start_run
from cule.agents.scores import aggregate
from cule.agents.video import RecordedEnv, check_video_path
from cule.agents.weights import read_to_play
from cule.errors import CuleError, InvalidArgumentError


def train(words: Sequence[str]) -> int:
    """Run ``cule train ALGO ...``.

    Args:
        words: What follows ``train``.

    Returns:
        0: trained to the end, or stopped by a signal and saved.

    Raises:
        CuleError: A refused option, a folder that holds another run, too little memory, or training
            that diverged.
    """
    parser = argparse.ArgumentParser(prog="cule train", description="Train an agent.")
    parser.add_argument(
        "algorithm",
        choices=sorted(PRESETS),
        metavar="ALGO",
        help=f"an algorithm, or a preset of one: {', '.join(sorted(PRESETS))}",
    )
    first, _ = parser.parse_known_args(words[:1] or ["--help"])
    preset = PRESETS[first.algorithm]
    config_class = AGENTS[preset.algorithm].config_class
    parser.usage = f"cule train {first.algorithm} [options]"
    add_arguments(parser.add_argument_group("learning"), config_class, preset.options)
    run_group = parser.add_argument_group("the run")
    add_arguments(run_group, RunOptions, {})
    given = vars(parser.parse_args(words))
    given.pop("algorithm")
    run_names = {item.name for item in dataclasses.fields(RunOptions)}
    run_options = RunOptions(**{k: v for k, v in given.items() if k in run_names})
    chosen = {k: v for k, v in given.items() if k not in run_names}
    config = config_from(config_class, {**preset.options, **chosen})
    try:
        run = start_run(AGENTS[preset.algorithm], config, run_options)
        is_complete = run.run()
        is_first = rank() == 0
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, CuleError) or not _tells_of_memory(error):
            raise
        reason = str(error).partition("\n")[0] or "an allocation failed"
        raise TrainingMemoryError(
            f"num_envs is {config.num_envs}, and memory does not suffice: {reason}; fewer "
            "consoles, shorter rollouts or smaller batches need less"
        ) from None
    finally:
        leave_world()
    if is_first:
        if is_complete:
            print(f"trained for {run.agent.steps} steps; the run is in {run.folder}")
        else:
            print(f"stopped after {run.agent.steps} steps; go on with --resume")
    return 0


def _tells_of_memory(error: Exception) -> bool:
    """Whether an allocation failed; that of torch on a CPU has no error of its own."""
    kinds = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or "can't allocate memory" in str(error)


def evaluate_checkpoints(words: Sequence[str]) -> int:
    """Run ``cule eval CHECKPOINT ...``.

    Args:
        words: What follows ``eval``.

    Returns:
        0.

    Raises:
        CuleError: No checkpoint, a damaged one, or refused options.
    """
    parser = argparse.ArgumentParser(
        prog="cule eval",
        description="Play whole games with trained agents and report unclipped scores.",
    )
    parser.add_argument(
        "checkpoints",
        nargs="+",
        type=Path,
        metavar="CHECKPOINT",
        help="NAME.pt, weights NAME.safetensors, or a run's folder",
    )
    parser.add_argument(
        "--episodes", type=int, default=100, help=f"of each, at least {MIN_EPISODES}"
    )
    parser.add_argument("--protocol", choices=sorted(PROTOCOLS), default="noop")
    parser.add_argument("--seed", type=int, default=0, help="of consoles and actions")
    parser.add_argument("--greedy", action="store_true", help="the best actions, no randomness")
    parser.add_argument("--num-envs", type=int, default=0, help="consoles; 0: one an episode")
    parser.add_argument("--device", default="cpu", help="of network and consoles")
    parser.add_argument("--json", type=Path, help="file to write every score to")
    parser.add_argument(
        "--video", type=Path, help="file NAME.mp4 for the first console's episodes; one CHECKPOINT"
    )
    options = parser.parse_args(words)
    if options.video is not None:
        check_video_path(options.video)
        if len(options.checkpoints) > 1:
            raise InvalidArgumentError(
                f"video is {str(options.video)!r} and there are {len(options.checkpoints)} "
                "CHECKPOINTs; a video is of one"
            )
    if options.json is not None:  # before the games are played, not after
        options.json.parent.mkdir(parents=True, exist_ok=True)
    results = []
    for path in options.checkpoints:
        content = read_to_play(find_checkpoint(path))
        num_envs = options.num_envs or min(options.episodes, 128)
        config = checkpoint_config(content, device=options.device, env_device="")
        with contextlib.ExitStack() as opened:
            consoles = make_eval_env(config, options.protocol, num_envs)
            opened.callback(consoles.close)
            env: FrameEnv = consoles
            if options.video is not None:
                each = -(-options.episodes // num_envs)
                recorded = RecordedEnv(consoles, options.video, episodes=each)
                env = opened.enter_context(recorded)
            result = evaluate(
                agent := load_to_play(content, env, options.device),
                episodes=options.episodes,
                protocol=options.protocol,
                seed=options.seed,
                greedy=options.greedy,
                env=env,
            )
        results.append(result)
        _print_result(str(path), agent.name, agent.steps, result)
    _print_aggregates(results)
    if options.json is not None:
        records = [
            {
                "checkpoint": str(path),
                "game": r.game,
                **r.row(),
                "returns": r.returns,
                "lengths": r.lengths,
            }
            for path, r in zip(options.checkpoints, results, strict=True)
        ]
        options.json.write_text(json.dumps(records, indent=2) + "\n")
    return 0


def _print_result(path: str, name: str, steps: int, result: Evaluation) -> None:
    normalised = result.human_normalised
    human = "no human score" if normalised is None else f"human-normalised {normalised:.1%}"
    print(
        f"{path}: {result.game}, {name} after {steps} steps, protocol {result.protocol}: "
        f"mean {result.mean:.2f}, median {result.median:.2f}, std {result.std:.2f} over "
        f"{len(result.returns)} episodes; {human}"
    )
    sys.stdout.flush()


def _print_aggregates(results: Sequence[Evaluation]) -> None:
    """Aggregates of human-normalised scores, where there are several results."""
    scores: dict[str, list[float]] = {}
    for result in results:
        if result.human_normalised is not None:
            scores.setdefault(result.game, []).append(result.human_normalised)
    if sum(map(len, scores.values())) < 2:
        return
    print(f"human-normalised, {len(scores)} games, 95 % bootstrap intervals:")
    for name, (value, low, high) in aggregate(scores).items():
        print(f"  {name:<15} {value:8.3f}  [{low:.3f}, {high:.3f}]")
