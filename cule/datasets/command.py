"""``cule record``: a dataset of random play, or of a checkpoint's."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cule.datasets.dataset import open_dataset
from cule.datasets.recorder import Recorder
from cule.envs import AtariVectorEnv
from cule.envs.checks import as_int
from cule.envs.options import MAX_ENVS, PRESETS
from cule.errors import InvalidArgumentError, shown
from cule.familiar_names import Parser
from cule.files import check_writable, format_bytes
from cule.option_fields import integer
from cule.progress import ProgressBar
from cule.watch.policies import MAX_SEED, Policy, open_requested
from cule.watch.signals import signals_call

#: Options that only one kind of play has.
_RANDOM = ("preset", "repeat_action_probability", "mode", "difficulty")
_TRAINED = ("protocol", "agent", "greedy")


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after ``cule record``.

    Raises:
        InvalidArgumentError: A number outside its range, or options that contradict each other.
    """
    parser = Parser(prog="cule record", description="Record a dataset: seeds and actions.")
    parser.add_argument(
        "checkpoint",
        nargs="?",
        type=Path,
        metavar="CHECKPOINT",
        help="policy: NAME.pt, weights NAME.safetensors, or a run's folder; "
        "default: random actions",
    )
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--game", help="game; default: that of the checkpoint")
    parser.add_argument("--num-envs", type=integer, default=8, help="environments (%(default)s)")
    parser.add_argument(
        "--steps", type=integer, default=100_000, help="of all environments together (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="environment i has SEED + i")
    parser.add_argument(
        "--digest-every", type=integer, default=1000, help="steps between digests (%(default)s)"
    )
    parser.add_argument("--device", default="cpu", help="of environments, network (%(default)s)")
    parser.add_argument("--rom-path", help="ROM file of a game of your own")
    parser.add_argument("--rules", help="TOML file with the rules of a game of your own")
    alone = parser.add_argument_group("without a checkpoint")
    alone.add_argument("--preset", choices=sorted(PRESETS), help="preset of the environments (ale)")
    alone.add_argument("--repeat-action-probability", type=float, help="sticky actions")
    alone.add_argument("--mode", type=int, help="the game's default")
    alone.add_argument("--difficulty", type=int, help="the game's default")
    trained = parser.add_argument_group("with a checkpoint")
    trained.add_argument("--protocol", help="as in cule eval: noop, sticky or as-trained (noop)")
    trained.add_argument("--agent", help="MODULE:CLASS of an agent of your own, with its network")
    trained.add_argument("--greedy", action="store_true", help="choose the best actions")
    options = parser.parse_args(words)
    as_int("num_envs", options.num_envs, 1, MAX_ENVS)
    as_int("steps", options.steps, 1)
    as_int("seed", options.seed, 0, MAX_SEED)
    has_checkpoint = options.checkpoint is not None
    for name in _RANDOM if has_checkpoint else _TRAINED:
        if getattr(options, name):
            raise InvalidArgumentError(
                f"{name} is {shown(getattr(options, name))}; it must be used "
                f"{'without' if has_checkpoint else 'with'} a CHECKPOINT"
            )
    if not has_checkpoint and options.game is None:
        raise InvalidArgumentError("game is None; give --game or a CHECKPOINT")
    if options.out.is_file():
        raise InvalidArgumentError(
            f"out is {shown(str(options.out))}, which exists; name another file"
        )
    check_writable(options.out)
    return options


def record(options: argparse.Namespace) -> int:
    """Run ``cule record`` with the result of `parse`; return 0, or 130 after SIGINT.

    SIGINT and SIGTERM end the recording after the current step, and what was recorded is saved.

    Raises:
        CuleError: The game, ROM, checkpoint or device is not available.
        StorageError: The file cannot be written.
    """
    env, policy = _open_random(options) if options.checkpoint is None else open_requested(options)
    stopped = threading.Event()
    with contextlib.closing(env), signals_call(stopped.set) as received:
        recorder = Recorder(env, digest_every=options.digest_every)
        obs, _ = recorder.reset(seed=options.seed)
        bar = ProgressBar(f"{env.config.game} recording", options.steps)
        for _ in bar.rounds(options.num_envs, env.config.frameskip):
            obs, *_ = recorder.step(policy.act(obs))
            if stopped.is_set():
                break
        recorder.save(options.out)
    if stopped.is_set():
        print("stopped; what was recorded is saved", file=sys.stderr)
    dataset = open_dataset(options.out)
    returns = [e.episode_return for e in dataset.episodes if e.terminated or e.truncated]
    mean = f", mean return {np.mean(returns):.1f}" if returns else ""
    print(
        f"{options.out}: {len(dataset):,} steps, {len(returns):,} complete episodes{mean}, "
        f"{format_bytes(options.out.stat().st_size)}"
    )
    return 130 if signal.SIGINT in received else 0


def _open_random(options: argparse.Namespace) -> tuple[AtariVectorEnv, Policy]:
    names = ("repeat_action_probability", "mode", "difficulty", "rom_path", "rules")
    given = {name: getattr(options, name) for name in names}
    env = AtariVectorEnv(
        options.game,
        options.num_envs,
        preset=options.preset or "ale",
        autoreset_mode="SameStep",
        episode_info=True,
        device=options.device,
        output="numpy",
        **{name: value for name, value in given.items() if value is not None},
    )
    rng, num_actions = np.random.default_rng(options.seed), len(env.action_set)
    return env, Policy("random actions", lambda _: rng.integers(num_actions, size=env.num_envs))
