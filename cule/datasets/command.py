"""``cule record``: a dataset of random play, or of a checkpoint's."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np

from cule.datasets.dataset import open_dataset
from cule.datasets.recorder import Recorder
from cule.envs import AtariVectorEnv
from cule.envs.checks import to_numpy
from cule.envs.vector_env import BatchEnv
from cule.errors import InvalidArgumentError
from cule.familiar_names import Parser
from cule.files import check_new_file, format_bytes, writing
from cule.option_fields import Bounds, parse_options
from cule.progress import ProgressBar
from cule.reading import MAX_DATASET_STEPS
from cule.signals import signals_call
from cule.watch.policies import ALONE, PlayOptions, Policy, open_trained


@dataclass(frozen=True, kw_only=True)
class RecordOptions(PlayOptions):
    """Options of ``cule record``."""

    out: Path
    """File to write."""

    steps: Annotated[int, Bounds(1, MAX_DATASET_STEPS)] = 100_000
    """Steps of all environments together."""

    digest_every: int = 1000
    """Steps between digests."""

    preset: str | None = field(default=None, metadata=ALONE)
    """Preset of the environments; default: ale."""

    repeat_action_probability: float | None = field(default=None, metadata=ALONE)
    """Sticky actions."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            InvalidArgumentError: A number outside its range, or options that contradict each other.
            StorageError: The file cannot be written.
        """
        super().__post_init__()
        if self.checkpoint is None and self.game is None:
            raise InvalidArgumentError("game is None; give --game or a CHECKPOINT")
        check_new_file("out", self.out)


def parse(words: Sequence[str]) -> RecordOptions:
    """Parse the arguments after ``cule record``; errors are those of `RecordOptions`."""
    parser = Parser(prog="cule record", description="Record a dataset: seeds and actions.")
    return parse_options(parser, RecordOptions, words)


def record(options: RecordOptions) -> int:
    """Run ``cule record`` with the result of `parse`; return 0, or 130 after SIGINT.

    SIGINT, SIGTERM and SIGHUP end the recording after the current step, and what was recorded is
    saved.

    Raises:
        CuleError: The game, ROM, checkpoint or device is not available.
        StorageError: The file cannot be written.
    """
    env, policy = _open_random(options) if options.checkpoint is None else open_trained(options)
    stopped = threading.Event()
    with (
        contextlib.closing(env),
        signals_call(lambda _: stopped.set()) as received,
        recording(env, options.out, options.digest_every) as recorder,
    ):
        obs, _ = recorder.reset(seed=options.seed)
        bar = ProgressBar(f"{env.config.game} recording", options.steps)
        for _ in bar.rounds(options.num_envs, env.config.frameskip):
            obs, _, terminated, truncated, _ = recorder.step(policy.act(obs))
            policy.begin(to_numpy(terminated) | to_numpy(truncated))
            if stopped.is_set():
                break
    if stopped.is_set():
        print("stopped; what was recorded is saved", file=sys.stderr)
    return 130 if signal.SIGINT in received else 0


@contextlib.contextmanager
def recording(env: BatchEnv, path: Path, digest_every: int = 1000) -> Iterator[Recorder]:
    """Record environments, and write the dataset at the end, also after an error.

    Raises:
        InvalidArgumentError: They cannot be recorded.
        StorageError: The file cannot be written.
    """
    recorder = Recorder(env, digest_every=digest_every)
    try:
        yield recorder
    finally:
        if len(recorder):
            with signals_call(lambda _: None):  # a second Ctrl-C loses nothing
                path = _taken(path)
                try:
                    recorder.save(path)
                except BaseException:
                    path.unlink(missing_ok=True)
                    raise
            print(_summary(path))
    if not len(recorder):
        print(f"no viewer has played; {path} is not written")


def _taken(path: Path) -> Path:
    """A new empty file: the path, with a number where another process has made such a file."""

    def take(each: Path) -> bool:
        try:
            each.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    others = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in itertools.count(2))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return next(filter(take, itertools.chain([path], others)))


def _summary(path: Path) -> str:
    """Steps, episodes and size of a dataset, as a line."""
    dataset = open_dataset(path)
    returns = [e.episode_return for e in dataset.episodes if e.terminated or e.truncated]
    mean = f", mean return {np.mean(returns):.1f}" if returns else ""
    return (
        f"{path}: {len(dataset):,} steps, {len(returns):,} complete episodes{mean}, "
        f"{format_bytes(path.stat().st_size)}"
    )


def _open_random(options: RecordOptions) -> tuple[AtariVectorEnv, Policy]:
    names = (
        *("repeat_action_probability", "mode", "difficulty", "modifications"),
        *("action_delay", "rom_path", "rules"),
    )
    given = {name: getattr(options, name) for name in names}
    assert options.game is not None
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
