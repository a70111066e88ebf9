"""``cule train`` and ``cule eval``: from the command line to runs and evaluations."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import torch

from cule.agents.parts.config import AgentConfig
from cule.agents.parts.distributed import leave_world, rank
from cule.agents.parts.envs import FrameEnv, make_games
from cule.agents.parts.learner import Learner
from cule.agents.run.checkpoint import (
    FREE_OPTIONS,
    PolicyState,
    find_checkpoint,
    last_checkpoint,
    run_path,
)
from cule.agents.run.evaluation import (
    MAX_EPISODES,
    MIN_EPISODES,
    Evaluation,
    ProtocolName,
    evaluate,
    make_eval_env,
    modifications_to_play,
    table_of_changes,
)
from cule.agents.run.folders import read_config
from cule.agents.run.logs import finite
from cule.agents.run.matches import play_matches, seats_with_opponent
from cule.agents.run.presets import (
    AGENTS,
    PRESETS,
    checkpoint_config,
    find_agent,
    load_to_play,
)
from cule.agents.run.run import Run, RunOptions, start_run
from cule.agents.run.scores import aggregate
from cule.agents.run.video import RecordedEnv, check_video_path
from cule.agents.run.weights import read_to_play
from cule.agents.self_play import SelfPlayEnv
from cule.errors import CuleError, InvalidArgumentError, TrainingMemoryError, shown
from cule.familiar_names import Parser
from cule.files import check_writable, replace_text
from cule.option_fields import (
    MAX_SEED,
    Bounds,
    NonNegative,
    add_arguments,
    config_from,
    options_of,
    parse_options,
    positional,
    validate,
)
from cule.progress import show_episodes

#: Options that come first in the help of ``cule train``.
_FIRST_OPTIONS = (
    "game", "num_envs", "total_steps", "seed", "device", "network", "learning_rate", "env_threads",
    "out", "resume", "eval_every", "target_score",
)  # fmt: skip


def train(words: Sequence[str]) -> int:
    """Run ``cule train ALGO ...``, or ``cule train --resume --out DIR``."""
    name, first_config, run_options = parse_train(words)
    if name.endswith("-gpu") and first_config.device == "cpu":
        other = f"; {name[:-4]}-cpu is for CPUs" if f"{name[:-4]}-cpu" in PRESETS else ""
        print(f"cule: {name} is for GPUs, and device is 'cpu'{other}", file=sys.stderr)
    finished: list[Evaluation] = []
    status = 0
    for seed in range(first_config.seed, first_config.seed + run_options.seeds):
        config = dataclasses.replace(first_config, seed=seed)
        out = run_options.out
        if run_options.seeds > 1 and out:
            out = str(run_path(str(Path(out) / f"seed-{seed}"), config, name))
        is_complete, run = _train_once(name, config, dataclasses.replace(run_options, out=out))
        if not is_complete:
            status = 130 if run.was_interrupted else 0
            break
        finished += [result for _, result in run.evaluations[-1:]]
    if len(finished) > 1:
        scores = {finished[0].game: [result.mean for result in finished]}
        found = aggregate(scores)["iqm"]
        print(
            f"{len(finished)} seeds: interquartile mean {found.value:.2f}, 95 % interval "
            f"[{found.low:.2f}, {found.high:.2f}]"
        )
    return status


def _train_once(name: str, config: AgentConfig, run_options: RunOptions) -> tuple[bool, Run]:
    """Train once; return whether the run is complete, and the run."""
    try:
        run = start_run(AGENTS[PRESETS[name].algorithm], config, run_options, preset=name)
        is_complete = run.run() and not run.was_stopped  # an evaluation may be missing
        is_first = rank() == 0
    except (MemoryError, RuntimeError) as error:
        # On a CPU torch has no error class for it.
        kinds = (MemoryError, torch.OutOfMemoryError)
        is_out_of_memory = isinstance(error, kinds) or "can't allocate memory" in str(error)
        if isinstance(error, CuleError) or not is_out_of_memory:
            raise
        reason = str(error).partition("\n")[0] or "an allocation failed"
        raise TrainingMemoryError(
            f"num_envs is {config.num_envs}, and memory does not suffice: {reason}; use fewer "
            "environments, shorter rollouts or smaller batches"
        ) from None
    finally:
        leave_world()
    if is_first:
        if is_complete:
            print(f"trained for {run.agent.steps} steps; the run is in {run.folder}")
        elif last_checkpoint(run.folder) is None:
            print("stopped before the first checkpoint; nothing is saved, so start it anew")
        else:
            print(f"stopped after {run.agent.steps} steps; continue with --resume")
    run.agent.setup.env.close()
    return is_complete, run


def parse_train(words: Sequence[str]) -> tuple[str, AgentConfig, RunOptions]:
    """The preset, the options of the algorithm, and those of the run."""
    parser = Parser(prog="cule train", description="Train an agent.")
    parser.add_argument(
        "algorithm",
        choices=sorted(PRESETS),
        metavar="ALGO",
        help=f"an algorithm or a preset of one: {', '.join(sorted(PRESETS))}; with --resume --out "
        "DIR by default that of the run",
    )
    if words and words[0].startswith("--") and "--resume" in words:
        words = [_preset_of_run(words), *words]
    parser.epilog = "cule train ALGO --help shows the options of ALGO."
    name = parser.parse_known_args(words[:1] or ["--help"])[0].algorithm
    parser.epilog = None
    preset = PRESETS[name]
    config_class = AGENTS[preset.algorithm].config_class
    parser.usage = f"cule train {name} [options]"
    first = dict.fromkeys(_FIRST_OPTIONS, parser.add_argument_group("options to begin with"))
    add_arguments(parser.add_argument_group("algorithm"), config_class, preset.options, first)
    add_arguments(parser.add_argument_group("run"), RunOptions, targets=first)
    given = vars(parser.parse_args(words))
    given.pop("algorithm")
    run_names = {item.name for item in dataclasses.fields(RunOptions)}
    run_given = {k: v for k, v in given.items() if k in run_names}
    chosen = {k: v for k, v in given.items() if k not in run_names}
    run_options = config_from(RunOptions, run_given)
    options = preset.options_on(str(chosen.get("device", config_class.device)))
    config = config_from(config_class, {**options, **chosen})
    folder = run_path(run_options.out, config, name)
    if run_options.seeds > 1 and run_options.resume:
        raise InvalidArgumentError(
            f"seeds is {run_options.seeds} and resume True; resume the run of one seed by --out"
        )
    saved = read_config(folder) if run_options.resume else None
    # Processes of torchrun are started anew with the same words, also before there is a run.
    if run_options.resume and saved is None and "TORCHELASTIC_RUN_ID" not in os.environ:
        raise InvalidArgumentError(
            f"out is {shown(str(folder))}, which holds no run to resume; leave --resume out to "
            "start one"
        )
    if saved is not None:
        _check_resumed(folder, saved, name, preset.algorithm, chosen)
        values = {k: v for k, v in saved.items() if k in options_of(config_class)}
        config = config_from(config_class, {**options, **values, **chosen})
        kept = {k: v for k, v in saved.get("run", {}).items() if k in run_names}
        run_options = config_from(RunOptions, {**kept, **run_given})
    if config.seed + run_options.seeds - 1 > MAX_SEED:
        raise InvalidArgumentError(
            f"seeds is {run_options.seeds} and seed {config.seed}; the last seed must be at most "
            f"{MAX_SEED}"
        )
    return name, config, run_options


def _preset_of_run(words: Sequence[str]) -> str:
    """The preset of the run that is resumed, from its folder."""
    parser = Parser(prog="cule train", add_help=False)
    parser.add_argument("--out", default="")
    out = parser.parse_known_args(words)[0].out
    saved = read_config(Path(out)) if out else None
    if saved is None:
        raise InvalidArgumentError(
            f"out is {shown(out)}, which is no folder of a run to resume; name ALGO, or the folder "
            "of a run with --out"
        )
    return str(saved.get("preset", saved["algorithm"]))


def _check_resumed(
    folder: Path,
    saved: Mapping[str, object],
    preset: str,
    algorithm: str,
    chosen: Mapping[str, object],
) -> None:
    """Refuse options that a resumed run cannot change."""
    was = str(saved.get("preset", preset))
    if saved["algorithm"] != algorithm or was != preset:
        raise InvalidArgumentError(
            f"ALGO is {shown(preset)}; the run in {folder} is of {shown(was)}, so leave ALGO out "
            "or name that"
        )
    for name, value in chosen.items():
        # num_envs may change with the number of processes, which the checkpoint knows.
        free = (*FREE_OPTIONS, "num_envs")
        if name in saved and name not in free and saved[name] != value:
            raise InvalidArgumentError(
                f"{name} is {shown(value)}; the run in {folder} has {shown(saved[name])}, and only "
                f"{', '.join(FREE_OPTIONS)} and options of the run may change"
            )


def evaluate_checkpoints(words: Sequence[str]) -> int:
    """Run ``cule eval CHECKPOINT ...``: episodes, or matches with ``--versus``."""
    parser = Parser(
        prog="cule eval",
        description="Play whole episodes with trained agents and report unclipped scores.",
    )
    options = parse_options(parser, EvalOptions, words)
    agent_class = None if options.agent is None else find_agent(options.agent)
    versus = None
    if options.versus not in (None, "random"):
        versus = read_to_play(find_checkpoint(Path(str(options.versus))))
    kinds: dict[Path, Mapping[str, str | None]] = {}
    if options.modifications is not None:  # names are refused before anything is played
        for path in options.checkpoints:
            config = _config_to_play(read_to_play(find_checkpoint(path)), options, agent_class)
            kinds[path] = modifications_to_play(config, options.modifications)
    records: list[dict[str, object]] = []
    results: list[Evaluation] = []
    for path in options.checkpoints:
        content = read_to_play(find_checkpoint(path))
        modified: dict[str, Evaluation] = {}
        for name, modifications in kinds.get(path, {"": None}).items():
            changes = {"modifications": modifications} if name else {}
            with contextlib.ExitStack() as stack:  # a video is finished after scores are written
                if options.versus is None:
                    played = _play_episodes(content, options, agent_class, stack, changes)
                    modified[name], record = played
                else:
                    record = _play_matches(content, versus, options)
                print(f"{path}{record.pop('line')}", flush=True)
                records.append({"checkpoint": str(path), **finite(record)})
                if options.json is not None:
                    replace_text(options.json, json.dumps(records, indent=2) + "\n")
        if options.modifications is None:
            results += modified.values()
        else:
            print(f"\n{table_of_changes(modified)}\n", flush=True)
    _print_aggregates(results)
    return 0


def _play_episodes(
    content: PolicyState,
    options: EvalOptions,
    agent_class: type[Learner] | None,
    stack: contextlib.ExitStack,
    changes: Mapping[str, str | None],
) -> tuple[Evaluation, dict[str, object]]:
    """Evaluate a checkpoint; return the result, and its record with a line to print.

    Leaving `stack` closes the environments and, without an error, finishes the video. `changes` are
    options of the environments other than in training.
    """
    num_envs = options.num_envs or min(options.episodes, 128)
    config = _config_to_play(content, options, agent_class, **changes)
    atari = make_eval_env(config, options.protocol, num_envs)
    stack.callback(atari.close)
    env: FrameEnv = atari
    each = -(-options.episodes // atari.num_envs)
    if options.video is not None:
        env = recorded = stack.enter_context(RecordedEnv(atari, options.video, episodes=each))
        stack.push(lambda kind, *_: recorded.finish() if kind is None else None)
    agent = load_to_play(content, env, options.device, agent_class)
    result = evaluate(
        agent,
        episodes=options.episodes,
        protocol=options.protocol,
        seed=options.seed,
        greedy=options.greedy,
        env=env,
        on_episodes=partial(show_episodes, total=each * atari.num_envs),
    )
    normalized = result.human_normalized
    human = "no human score" if normalized is None else f"human-normalized {normalized:.1%}"
    if result.record_normalized is not None:
        human += f", {result.record_normalized:.1%} of the human world record"
    modified = f" ({config.modifications})" if config.modifications else ""
    return result, {
        "line": f": {result.game}{modified}, {agent.name} after {agent.steps} steps, protocol "
        f"{result.protocol}: mean {result.mean:.2f}, median {result.median:.2f}, std "
        f"{result.std:.2f} over {len(result.returns)} episodes; {human}",
        "algorithm": agent.name,
        "game": result.game,
        "modifications": config.modifications,
        "steps": agent.steps,
        "seed": options.seed,
        "greedy": options.greedy,
        **result.row(),
        "returns": result.returns,
        "lengths": result.lengths,
    }


def _config_to_play(
    content: PolicyState,
    options: EvalOptions,
    agent_class: type[Learner] | None,
    **changes: str | None,
) -> AgentConfig:
    """The options of the environments, with those that are given in place of training's."""
    files = {name: getattr(options, name) for name in ("rom_path", "rules")}
    given = {**{name: path for name, path in files.items() if path is not None}, **changes}
    return checkpoint_config(content, agent_class, device=options.device, env_device="", **given)


def _play_matches(
    content: PolicyState, versus: PolicyState | None, options: EvalOptions
) -> dict[str, object]:
    """Play matches of a checkpoint; return the record, with a line to print."""
    if options.rom_path is not None:
        content["config"]["rom_path"] = options.rom_path
    config = checkpoint_config(content, device=options.device, env_device="")
    seats = seats_with_opponent(config)
    games = make_games(dataclasses.replace(config, num_envs=seats), seats)
    with contextlib.closing(games):  # only its spaces are used
        agent = load_to_play(content, SelfPlayEnv(games), options.device)
    result = play_matches(
        agent,
        versus,
        matches=options.episodes,
        protocol=options.protocol,
        seed=options.seed,
        greedy=options.greedy,
        num_games=options.num_envs,
    )
    low, high = result.win_rate_interval()
    row = result.row()
    return {
        "line": f" versus {options.versus}: {config.game}, {row['matches']} matches: won "
        f"{result.wins}, drawn {result.draws}, lost {result.losses}; win rate "
        f"{result.win_rate:.1%}, 95 % interval [{low:.1%}, {high:.1%}]; mean margin "
        f"{row['margin_mean']:.2f}",
        "versus": options.versus,
        "game": config.game,
        "protocol": options.protocol,
        "seed": options.seed,
        "greedy": options.greedy,
        **row,
        "margins": result.margins,
        "lengths": result.lengths,
    }


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """Options of ``cule eval``."""

    checkpoints: tuple[Path, ...] = positional("CHECKPOINT", ())
    """NAME.pt, weights NAME.safetensors, the folder of a run, or zoo:NAME of `cule zoo list`."""

    episodes: Annotated[int, Bounds(MIN_EPISODES, MAX_EPISODES)] = 100
    """Episodes of each, at least 10."""

    protocol: ProtocolName = "noop"
    """Protocol: noop, sticky, machado or as-trained; see docs/agents/evaluation.md."""

    seed: NonNegative = 0
    """Seed of environments and actions."""

    greedy: bool = False
    """Choose the best actions."""

    num_envs: NonNegative = 0
    """Environments; 0: one per episode, up to 128."""

    device: str = "cpu"
    """Device of network and environments."""

    agent: str | None = None
    """MODULE:CLASS of an agent of your own, with its network."""

    rom_path: str | None = None
    """ROM file of a game of your own; default: as trained."""

    rules: str | None = None
    """Rules file of a game of your own; default: as trained."""

    modifications: str | None = None
    """Modifications of the game: plays the original, then with these, or with each for all, and
    prints how the scores change; default: as trained."""

    json: Path | None = None
    """File to write every score to."""

    video: Path | None = None
    """File NAME.mp4 for the episodes of the first environment; one CHECKPOINT."""

    versus: str | None = None
    """CHECKPOINT of a policy against which matches of several players are played, or random for
    random actions; reports the win rate."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            InvalidArgumentError: One is not allowed, or two contradict each other.
            StorageError: A file cannot be written.
        """
        validate(self)
        refused = ("video", "agent", "rules", "modifications")
        for name in refused if self.versus is not None else ():
            if getattr(self, name) is not None:
                raise InvalidArgumentError(
                    f"{name} is {shown(str(getattr(self, name)))}; with --versus it must be "
                    "left out"
                )
        if self.video is not None:
            check_video_path(self.video)
            if self.modifications is not None:
                raise InvalidArgumentError(
                    f"modifications is {shown(self.modifications)}; with --video it must be left "
                    "out"
                )
            if len(self.checkpoints) > 1:
                raise InvalidArgumentError(
                    f"video is {shown(str(self.video))} and there are {len(self.checkpoints)} "
                    "CHECKPOINTs; there must be one"
                )
        if self.json is not None:  # fail before playing
            check_writable(self.json)


def _print_aggregates(results: Sequence[Evaluation]) -> None:
    """Print aggregates of human-normalized scores, if there are several results."""
    scores: dict[str, list[float]] = {}
    for result in results:
        if result.human_normalized is not None:
            scores.setdefault(result.game, []).append(result.human_normalized)
    if sum(map(len, scores.values())) < 2:
        return
    print(f"human-normalized, {len(scores)} games, 95 % bootstrap intervals:")
    for name, (value, low, high) in aggregate(scores).items():
        print(f"  {name:<15} {value:8.3f}  [{low:.3f}, {high:.3f}]")
