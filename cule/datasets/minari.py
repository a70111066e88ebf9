"""Export to and import from Minari; needs ``cule[minari]``.

Minari stores what an environment returned; an action log stores what it was told. An export plays a
dataset and writes its episodes with the observations that you choose. An import takes the seeds and
actions of a Minari dataset, plays them, and compares rewards and ends with what Minari stored.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from cule.datasets.dataset import Dataset, Episode, open_dataset
from cule.datasets.recorder import Recorder
from cule.datasets.settings import LATER_OPTIONS, check_recorded, check_rom, lists_by_environment
from cule.envs import AtariVectorEnv
from cule.envs.checks import INT32_MAX, as_int, to_numpy
from cule.envs.options import full_screens
from cule.envs.requests import MAX_SEED
from cule.errors import DatasetError, InvalidActionError, InvalidArgumentError, shown
from cule.lazy import needs
from cule.reading import parse_json

with needs("cule[minari]"):
    import minari
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage import get_dataset_path

#: Key of the metadata that an export adds, from which an import knows the environment.
_KEY = "cule"

#: What makes the environments of the ids ``ALE/...`` and ``cule/...``.
_ENTRY_POINTS = ("ale_py.env:AtariEnv", "ale_py:AtariEnv", "cule.envs.gym_env:AtariEnv")

#: Keywords of `cule.AtariEnv` that `AtariVectorEnv` has under the same names.
_SAME = (
    "repeat_action_probability",
    "full_action_space",
    "mode",
    "difficulty",
    "action_delay",
    "modifications",
)

#: Keywords of Minari that an export decides.
_OURS = {"action_space", "observation_space", "jpeg_encoding", "env", "buffer", "dataset_id"}


# --- Export ---------------------------------------------------------------------------------------


def export_minari(
    dataset: Dataset,
    dataset_id: str,
    *,
    num_envs: int = 8,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> minari.MinariDataset:
    """Play a dataset and write its episodes as a Minari dataset.

    Args:
        dataset: What to export.
        dataset_id: Of the new dataset, as in ``atari/pong/random-v0``.
        num_envs: Trajectories that are played at a time. The observations of an episode are in
            memory until it has ended.
        metadata: Further keywords of ``minari.create_dataset_from_buffers``, such as ``author``,
            ``algorithm_name``, ``code_permalink`` and ``data_format``; not spaces and encoding.
        **options: As for `Dataset.replay`: observations such as ``obs_type="ram"``. Rewards are not
            clipped by default.

    Returns:
        The Minari dataset: observations ``[T + 1, ...]`` and actions ``[T]`` of each episode, not
        compressed as JPEG. The seed of a trajectory is that of its first episode.

    Raises:
        InvalidArgumentError: `dataset` is none, `dataset_id` exists or is no id, or `metadata` or
            `options` hold what an export decides; otherwise as `Dataset.replay`.
        ValueError, TypeError, AssertionError: From Minari, of keywords that it does not take.
        DatasetError, DigestMismatchError: As `Dataset.replay`. Nothing of an export that fails
            stays.
    """
    if not isinstance(dataset, Dataset):
        raise InvalidArgumentError(f"dataset is {shown(dataset)}; open_dataset returns one")
    given = dict(metadata or {})
    for name in _OURS & given.keys():
        raise InvalidArgumentError(f"metadata holds {shown(name)}, which an export decides")
    if options.get("output") not in (None, "numpy"):
        raise InvalidArgumentError(
            f"output is {shown(options['output'])}; an export needs 'numpy', or none"
        )
    folder = _new_folder(dataset_id)
    if not len(dataset):
        raise DatasetError("the dataset has no steps; Minari cannot store that")
    view = {"reward_clipping": False} | options | {"output": "numpy"}
    order: list[Episode] = []
    with contextlib.closing(dataset.replay(num_envs=num_envs, **view)) as steps:
        first = next(steps)
        try:
            exported = minari.create_dataset_from_buffers(
                dataset_id,
                _episodes(dataset, first, steps, order),  # written as they come
                **{
                    "description": f"{dataset.game}, played by cule {dataset.cule_version}",
                    "requirements": [f"cule=={dataset.cule_version}"],
                    **given,
                    "action_space": spaces.Discrete(len(dataset.action_set)),
                    "observation_space": _obs_space(first.obs),
                    "jpeg_encoding": False,
                },
            )
            facts = {
                "game": dataset.game,
                "rom_md5": dataset.rom_md5,
                "options": dict(dataset.options),
                "reward_clipping": bool(options.get("reward_clipping")),
                "seeds": dataset.seeds,
                "resets": dataset.resets,
                "episodes": [(e.trajectory, e.start, e.stop) for e in order],
            }
            exported.storage.update_metadata({_KEY: json.dumps(facts)})
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # there may be nothing yet
            raise
    return exported


def _new_folder(dataset_id: str) -> Path:
    """The folder that Minari makes for a new dataset.

    Raises:
        InvalidArgumentError: It is no id, or names what exists.
    """
    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError):
        raise InvalidArgumentError(
            f"dataset_id is {shown(dataset_id)}; it must be as in 'atari/pong/random-v0': words of "
            "letters, digits, - and _, and a version"
        ) from None
    folder = Path(get_dataset_path(dataset_id))
    if folder.exists():
        raise InvalidArgumentError(f"dataset_id is {shown(dataset_id)}, which Minari has already")
    return folder


def _obs_space(obs: Any) -> spaces.Box:
    """Space of one environment's observations, of which there is a batch."""
    limits = np.iinfo(obs.dtype)
    return spaces.Box(int(limits.min), int(limits.max), obs.shape[1:], obs.dtype)


def _episodes(
    dataset: Dataset, first: Any, steps: Iterator[Any], order: list[Episode]
) -> Iterator[EpisodeBuffer]:
    """The episodes as they end; `order` gets them as well."""
    waiting: dict[int, list[Episode]] = {}
    for episode in reversed(dataset.episodes):
        waiting.setdefault(episode.trajectory, []).append(episode)
    parts: dict[int, list[tuple[Any, ...]]] = {}
    for step in itertools.chain([first], steps):
        for index, trajectory in enumerate(step.trajectory.tolist()):
            left = waiting.get(trajectory)
            if not left or step.step < left[-1].start:
                continue  # a reset of NextStep autoreset
            part = parts.setdefault(trajectory, [])
            part.append(
                (
                    step.obs[index].copy(),
                    step.action[index],
                    float(step.reward[index]),
                    bool(step.terminated[index]),
                    bool(step.truncated[index]),
                )
            )
            if step.step + 1 < left[-1].stop:
                continue
            episode = left.pop()
            observations, actions, rewards, terminations, truncations = zip(*part, strict=True)
            del parts[trajectory]
            order.append(episode)
            yield EpisodeBuffer(
                id=len(order) - 1,
                seed=dataset.seeds[trajectory] if episode.start == 0 else None,
                observations=np.stack([*observations, step.next_obs[index]]),
                actions=np.array(actions, np.int64),
                rewards=list(rewards),
                terminations=list(terminations),
                truncations=list(truncations),
            )


# --- Import ---------------------------------------------------------------------------------------


def import_minari(
    source: minari.MinariDataset | str,
    path: str | os.PathLike[str],
    *,
    digest_every: int = 1000,
    rom_path: str | None = None,
) -> Dataset:
    """Make an action log of a Minari dataset, if playing its actions gives what it stored.

    Args:
        source: A dataset of `export_minari`, or one that Minari collected from an environment with
            an id ``ALE/...`` or ``cule/...``, without wrappers, in which every episode has a seed
            (as by default); or the id of one.
        path: Where to write the action log.
        digest_every: As for `Recorder`.
        rom_path: ROM file, if it is not found by itself.

    Returns:
        The dataset. Rewards and ends are equal in every step; so are the observations of datasets
        that Minari collected, unless it stored them as JPEG. Those of exports are not compared.

    Raises:
        InvalidArgumentError: `source` is neither a dataset nor an id.
        FileNotFoundError: From Minari: it has no dataset with this id.
        OSError, ValueError, KeyError: From Minari: its files are damaged.
        DatasetError: It cannot be played, or something differs; `path` is not written.
        StorageError: `path` cannot be written.
    """
    stored = minari.load_dataset(source) if isinstance(source, str) else source
    if not isinstance(stored, minari.MinariDataset):
        raise InvalidArgumentError(
            f"source is {shown(source)}; it must be a dataset of Minari, or the id of one"
        )
    if not _ids(stored):
        raise DatasetError("the dataset has no episodes")
    facts = _facts(stored.storage.metadata)
    if facts is None:
        env = _as_collected(stored.env_spec, stored.observation_space, rom_path)
    else:
        check_rom(facts.game, facts.rom_md5, {"rom_path": rom_path})
        env = AtariVectorEnv(
            facts.game, 1, num_threads=1, episode_info=True, rom_path=rom_path, **facts.options
        )
    with contextlib.closing(env):
        recorder = Recorder(env, digest_every=digest_every)
        if facts is None:
            _play_collected(recorder, stored)
        else:
            _play_export(recorder, stored, facts)
        recorder.save(path)
    return open_dataset(path)


def _play_collected(recorder: Recorder, stored: minari.MinariDataset) -> None:
    """Play episodes of a single Gymnasium environment, each from its seed."""
    is_jpeg = stored.storage.metadata.get("jpeg_encoding")
    has_obs = not is_jpeg or recorder.env.config.obs_type == "ram"
    seeds = [facts.get("seed") for facts in stored.storage.get_episode_metadata(_ids(stored))]
    for number, seed, episode in zip(_ids(stored), seeds, stored.iterate_episodes(), strict=True):
        if seed is None:
            raise DatasetError(
                f"episode {number} has no seed, so that its start is unknown; collect with seeds, "
                "as Minari does by default"
            )
        word = int(np.random.SeedSequence(int(seed)).generate_state(2)[1])
        if word > MAX_SEED:
            raise DatasetError(f"episode {number} has seed {seed}, the time of day in ale-py")
        obs, _ = recorder.reset(seed=np.array([word], np.uint32))
        _play_episode(recorder, obs, episode, f"episode {number}", has_obs=has_obs)


def _as_collected(spec: EnvSpec | None, space: Any, rom_path: str | None) -> AtariVectorEnv:
    """A batch of one that plays as the environment of a spec does."""
    if spec is None:
        raise DatasetError("the dataset does not say which environment it is of")
    if spec.entry_point not in _ENTRY_POINTS:
        raise DatasetError(f"the dataset is of {shown(spec.id)}; it must be of ALE/... or cule/...")
    wrappers = [wrapper.name for wrapper in spec.additional_wrappers]
    given = dict(spec.kwargs)
    unknown = {
        name: given[name]
        for name in ("continuous", "sound_obs", "rules", "rom_path")
        if given.get(name)
    }
    if wrappers or unknown or spec.max_episode_steps is not None:
        raise DatasetError(
            f"the environment has wrappers {wrappers}, options {unknown} and max_episode_steps "
            f"{spec.max_episode_steps}; it must have none"
        )
    frameskip = given.get("frameskip", 4)
    if not isinstance(frameskip, int):
        raise DatasetError(f"frameskip is {shown(frameskip)}; it must be an integer")
    obs_type = given.get("obs_type", "rgb")
    is_ram = obs_type == "ram"
    screens = {} if is_ram else full_screens(space.shape[0], grayscale=obs_type == "grayscale")
    return AtariVectorEnv(
        given["game"],
        1,
        frameskip=frameskip,
        max_num_frames_per_episode=given.get("max_num_frames_per_episode") or INT32_MAX,
        noop_max=0,
        use_fire_reset=False,
        reward_clipping=False,
        autoreset_mode="Disabled",  # each episode is a trajectory
        episode_info=True,
        num_threads=1,
        rom_path=rom_path,
        obs_type="ram" if is_ram else "image",
        **screens,
        **{name: given[name] for name in _SAME if name in given},
    )


class _Facts(NamedTuple):
    """Entries that `export_minari` adds to the metadata."""

    game: str
    rom_md5: str
    options: dict[str, Any]
    clips: bool
    seeds: list[int]
    resets: set[tuple[int, int]]
    places: list[tuple[int, int, int]]  # trajectory, start, stop; by index of Minari's episodes


def _facts(metadata: Mapping[str, Any]) -> _Facts | None:
    """The facts of an export; None where the dataset is none.

    Raises:
        DatasetError: They are damaged, or have no import.
    """
    if _KEY not in metadata:
        return None
    try:
        facts = parse_json(metadata[_KEY])
        seeds = [as_int("a seed", seed, 0, MAX_SEED) for seed in facts["seeds"]]
        places = [(int(row[0]), int(row[1]), int(row[2])) for row in facts["episodes"]]
        for trajectory, *_ in places:
            as_int("a trajectory", trajectory, 0, len(seeds) - 1)
        found = _Facts(
            str(facts["game"]),
            str(facts["rom_md5"]),
            LATER_OPTIONS | dict(facts["options"]),
            bool(facts["reward_clipping"]),
            seeds,
            {(int(row[0]), int(row[1])) for row in facts["resets"]},
            places,
        )
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise DatasetError(
            f"the metadata {shown(_KEY)} are not those of an export: {error}"
        ) from None
    check_recorded(found.options, [max(len(found.seeds), 1)])
    lists = lists_by_environment(found.options)
    if lists:
        raise DatasetError(f"{' and '.join(lists)} differ by trajectory, which has no import")
    return found


def _play_export(recorder: Recorder, stored: minari.MinariDataset, facts: _Facts) -> None:
    """Play trajectories of `export_minari`, each from its first episode on."""
    if max(_ids(stored)) >= len(facts.places):
        raise DatasetError(
            f"the dataset has {stored.storage.total_episodes} episodes, of which the export wrote "
            f"{len(facts.places)}; others cannot be imported with them"
        )
    current, at = -1, 0  # trajectory and step
    obs: Any = None
    for index in sorted(_ids(stored), key=facts.places.__getitem__):
        what, (trajectory, start, stop) = f"episode {index}", facts.places[index]
        if trajectory != current:
            seed = np.array([facts.seeds[trajectory]], np.uint32)
            obs, _ = recorder.reset(seed=seed)
            current, at = trajectory, 0
        if start == at + 1 and facts.options["autoreset_mode"] == "NextStep":
            obs, *_ = recorder.step(np.zeros(1, np.int64))  # which resets
            at += 1
        if start != at:
            raise DatasetError(f"{what} is not preceded by the rest of its trajectory")
        if (trajectory, at) in facts.resets:
            obs, _ = recorder.reset(options={"reset_mask": np.ones(1, bool)})
        (episode,) = stored.iterate_episodes([index])
        obs = _play_episode(recorder, obs, episode, what, clips=facts.clips)
        at = stop


def _play_episode(
    recorder: Recorder,
    obs: Any,
    episode: minari.EpisodeData,
    what: str,
    *,
    clips: bool = False,
    has_obs: bool = False,
) -> Any:
    """Play an episode from its first observation, compare it, and return the last observation."""
    last = len(episode) - 1
    for step, action in enumerate(episode.actions):
        where = f"{what}, step {step}"
        if has_obs:
            _compare_obs(obs, episode.observations[step], where)
        try:
            obs, rewards, terminated, truncated, info = recorder.step(np.array([action]))
        except InvalidActionError as error:
            raise DatasetError(f"{where}: {error}") from None
        raw = info.get("reward", rewards)  # as the recorder reads it
        reward = int(to_numpy(raw)[0])
        found = np.clip(reward, -1, 1) if clips else reward, terminated[0], truncated[0]
        wanted = episode.rewards[step], episode.terminations[step], episode.truncations[step]
        # A collector marks an episode that it has cut off as truncated.
        is_cut = step == last and not terminated[0]
        if found[:2] != wanted[:2] or (found[2] != wanted[2] and not (is_cut and wanted[2])):
            raise DatasetError(
                f"{where}: reward, terminated and truncated are {_words(found)}; "
                f"Minari has {_words(wanted)}"
            )
        if (terminated[0] or truncated[0]) and step < last:
            raise DatasetError(f"{where}: the episode ends here; Minari has {last + 1} steps")
    if has_obs:
        _compare_obs(obs, episode.observations[last + 1], f"{what}, step {last + 1}")
    return obs


def _compare_obs(obs: Any, stored: Any, where: str) -> None:
    if not np.array_equal(obs.reshape(stored.shape), stored):
        raise DatasetError(f"{where}: the observation differs from the stored one")


def _words(values: tuple[Any, ...]) -> str:
    return ", ".join(
        f"{float(value):g}" if i == 0 else str(bool(value)) for i, value in enumerate(values)
    )


def _ids(stored: minari.MinariDataset) -> list[int]:
    return [int(index) for index in stored.episode_indices]
