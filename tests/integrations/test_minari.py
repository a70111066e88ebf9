"""Export to Minari, and import from datasets of cule and of ale-py that Minari collected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")

import cule  # noqa: E402
from cule.datasets import DatasetError, Recorder, open_dataset  # noqa: E402
from cule.datasets.minari import export_minari, import_minari  # noqa: E402
from cule.datasets.playback import play  # noqa: E402

pytestmark = [
    pytest.mark.ale,
    # Minari's: about metadata that are left out, and folders that its collector leaves behind.
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minari's datasets of a test are its own."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def record(path: Path, *, masked: bool = False, seed: int = 3, **options: Any) -> Any:
    """Random play with short episodes of three trajectories, twice."""
    defaults: dict[str, Any] = {
        "max_num_frames_per_episode": 200,
        "repeat_action_probability": 0.25,
        "reward_clipping": False,
        "episode_info": True,
        "num_threads": 1,
    }
    env = cule.AtariVectorEnv("breakout", 3, **{**defaults, **options})
    recorder = Recorder(env, digest_every=10)
    rng = np.random.default_rng(seed)
    for number in range(2):
        recorder.reset(seed=seed + 10 * number)
        for step in range(130):
            recorder.step(rng.integers(4, size=3))
            if masked and step in (40, 90):
                recorder.reset(options={"reset_mask": np.array([True, False, step == 90])})
    recorder.save(path)
    env.close()
    return open_dataset(path)


def collect(env_id: str, *, episodes: int = 3, **options: Any) -> Any:
    """A dataset that Minari collected, of random play."""
    env = gymnasium.make(env_id, **options)
    collector = minari.DataCollector(env)
    env.action_space.seed(1)
    for seed in range(episodes):
        collector.reset(seed=None if seed == 0 else seed)  # the first one is Minari's choice
        for _ in range(120):
            _, _, terminated, truncated, _ = collector.step(env.action_space.sample())
            if terminated or truncated:
                break
    result = collector.create_dataset("test/collected-v0", eval_env=env_id)
    collector.close()
    return result


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
def test_an_export_has_what_the_dataset_has(
    tmp_path: Path, mode: str, masked: bool, data_format: str
) -> None:
    if data_format == "arrow":
        pytest.importorskip("pyarrow")
    dataset = record(tmp_path / "a.cule", masked=masked, autoreset_mode=mode)
    options = {"img_height": 21, "img_width": 16, "stack_num": 2}
    export_minari(
        dataset, "test/breakout-v0", num_envs=2, metadata={"data_format": data_format}, **options
    )
    loaded = minari.load_dataset("test/breakout-v0")
    assert loaded.total_episodes == len(dataset.episodes)
    assert loaded.observation_space.shape == (2, 21, 16)
    assert loaded.action_space.n == 4
    by_place = {}
    for step in dataset.replay(num_envs=6, **options):
        for index, trajectory in enumerate(step.trajectory.tolist()):
            by_place[trajectory, step.step] = [
                np.asarray(part)[index]
                for part in (
                    *(step.obs, step.action, step.reward, step.terminated, step.truncated),
                    step.next_obs,
                )
            ]
    found = []
    for episode in loaded.iterate_episodes():
        (place,) = [
            e
            for e in dataset.episodes
            if np.array_equal(by_place[e.trajectory, e.start][0], episode.observations[0])
            and [by_place[e.trajectory, t][1] for t in range(e.start, e.stop)]
            == episode.actions.tolist()
        ]
        found.append(place)
        rows = [by_place[place.trajectory, t] for t in range(place.start, place.stop)]
        obs = [row[0] for row in rows] + [rows[-1][5]]
        np.testing.assert_array_equal(episode.observations, obs)
        for name, column in (("rewards", 2), ("terminations", 3), ("truncations", 4)):
            np.testing.assert_array_equal(getattr(episode, name), [row[column] for row in rows])
        assert sum(episode.rewards) == place.episode_return
    assert sorted(found) == sorted(dataset.episodes)


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("clips", [False, True])
def test_an_export_comes_back(tmp_path: Path, mode: str, masked: bool, clips: bool) -> None:
    dataset = record(tmp_path / "a.cule", masked=masked, autoreset_mode=mode)
    export_minari(dataset, "test/a-v0", obs_type="ram", reward_clipping=clips)
    again = import_minari("test/a-v0", tmp_path / "b.cule", digest_every=7)
    assert again.episodes == dataset.episodes
    assert again.seeds == dataset.seeds
    assert again.options == dataset.options
    assert again.resets == dataset.resets

    def ram(source: Any) -> dict[tuple[int, int], bytes]:
        return {
            (trajectory, step.step): step.next_obs[index].tobytes()
            for step in source.replay(obs_type="ram")
            for index, trajectory in enumerate(step.trajectory.tolist())
            if step.valid[index]
        }

    assert ram(again) == ram(dataset)


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("ALE/Breakout-v5", {}),
        ("ALE/Seaquest-v5", {"obs_type": "ram", "full_action_space": True}),
        ("ALE/SpaceInvaders-v5", {"obs_type": "grayscale", "mode": 3, "difficulty": 1}),
        ("PongNoFrameskip-v4", {"max_num_frames_per_episode": 50}),
        ("cule/Breakout-v5", {"repeat_action_probability": 0.5}),
    ],
)
def test_datasets_that_minari_collected(
    tmp_path: Path, env_id: str, options: dict[str, Any]
) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    stored = collect(env_id, **options)
    dataset = import_minari(stored, tmp_path / "a.cule", digest_every=20)
    assert len(dataset.episodes) == 3
    assert len(dataset) == stored.total_steps
    keywords = {"obs_type": "ram"} if options.get("obs_type") != "ram" else {}
    for _ in dataset.replay(**keywords):
        pass  # the digests are compared
    if options.get("obs_type") == "ram":
        obs = [step.obs[0] for step in dataset.replay()]
        theirs = [row for e in stored.iterate_episodes() for row in e.observations[:-1]]
        np.testing.assert_array_equal(obs, theirs)
    else:  # what Minari keeps of these pictures is JPEG
        shape = stored.observation_space.shape
        step = next(iter(dataset.replay()))
        assert step.obs.shape == (1, 1, *shape)
        first = next(iter(stored.iterate_episodes())).observations[0]
        assert abs(step.obs[0, 0].astype(int) - first).mean() < 12


def test_an_export_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = record(tmp_path / "a.cule")

    def failing(log: Any, num_envs: int, options: Any) -> Any:
        for number, step in enumerate(play(log, num_envs, options)):
            if number == 60:
                raise cule.DigestMismatchError("as if it differed")
            yield step

    monkeypatch.setattr("cule.datasets.dataset.play", failing)
    with pytest.raises(cule.DigestMismatchError):
        export_minari(dataset, "test/a-v0", obs_type="ram")
    assert "test/a-v0" not in minari.list_local_datasets()
    monkeypatch.undo()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    export_minari(dataset, "test/a-v0", obs_type="ram")
    for words, message in (
        ({}, "dataset_id is 'test/a-v0'"),
        ({"metadata": {"jpeg_encoding": True}}, "metadata holds 'jpeg_encoding'"),
        ({"output": "torch"}, "output is 'torch'"),
    ):
        with pytest.raises(cule.InvalidArgumentError, match=message):
            export_minari(dataset, "test/a-v0", obs_type="ram", **words)
    assert minari.load_dataset("test/a-v0").total_episodes == len(dataset.episodes)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "test",
        "test/a-v0/",
        "test/a-v0/data",
        "./test/a-v0",
        "test/../test/a-v0",
        None,
        5,
        "/abs",
    ],
)
def test_an_export_deletes_nothing_else(tmp_path: Path, name: Any) -> None:
    dataset = record(tmp_path / "a.cule")
    export_minari(dataset, "test/a-v0", obs_type="ram")
    (tmp_path / "minari" / "keep").write_text("mine")
    if name == "/abs":  # the path of a folder, which is no id
        name = str(tmp_path / "minari")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(cule.InvalidArgumentError, match="dataset_id is"):
        export_minari(dataset, name, obs_type="ram")
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert minari.load_dataset("test/a-v0").total_episodes == len(dataset.episodes)


@pytest.mark.parametrize("change", ["rewards", "terminations", "actions", "seed", "observations"])
def test_an_import_notices_differences(tmp_path: Path, change: str) -> None:
    import ale_py
    import h5py

    gymnasium.register_envs(ale_py)
    stored = collect("ALE/Breakout-v5", obs_type="ram")
    with h5py.File(next((tmp_path / "minari").rglob("*.hdf5")), "a") as file:
        episode = file["episode_1"]
        if change == "seed":
            episode.attrs["seed"] = 12345
        elif change == "actions":
            episode["actions"][:] = 1
        elif change == "terminations":
            episode["terminations"][5] = True
        else:
            episode[change][3] += 1
    with pytest.raises(DatasetError, match=r"episode 1, step \d+: "):
        import_minari(stored, tmp_path / "a.cule")
    assert not (tmp_path / "a.cule").exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seeds", [-1], "a seed is -1"),
        ("seeds", [2**40], r"a seed is 1\d+"),
        ("seeds", [], r"a trajectory is 0"),
        ("episodes", [[-1, 0, 130]] * 9, "a trajectory is -1"),
        ("actions", 99, r"episode 0, step 0: actions\[0\] is 99"),
    ],
)
def test_a_damaged_export_is_a_dataset_error(
    tmp_path: Path, name: str, value: Any, message: str
) -> None:
    import h5py

    stored = export_minari(record(tmp_path / "a.cule"), "test/a-v0", obs_type="ram")
    if name == "actions":
        with h5py.File(next((tmp_path / "minari").rglob("*.hdf5")), "a") as file:
            file["episode_0/actions"][0] = value
    else:
        facts = {**json.loads(stored.storage.metadata["cule"]), name: value}
        stored.storage.update_metadata({"cule": json.dumps(facts)})
    with pytest.raises(DatasetError, match=message):
        import_minari("test/a-v0", tmp_path / "b.cule")
    assert not (tmp_path / "b.cule").exists()


def test_what_is_no_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cule.InvalidArgumentError, match="dataset is 'a'; open_dataset"):
        export_minari("a", "test/a-v0")  # type: ignore[arg-type]
    with pytest.raises(cule.InvalidArgumentError, match="source is 5; it must be a dataset of"):
        import_minari(5, tmp_path / "a.cule")


def test_what_cannot_be_imported(tmp_path: Path) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)

    def fails(stored: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=message):
            import_minari(stored, tmp_path / "a.cule")
        minari.delete_dataset("test/collected-v0")

    def collect_with(env: Any, **reset: Any) -> Any:
        collector = minari.DataCollector(env)
        for _ in range(2):
            collector.reset(**reset)
            for _ in range(5):
                collector.step(env.action_space.sample())
        return collector.create_dataset("test/collected-v0")

    fails(collect_with(gymnasium.make("CartPole-v1")), "of 'CartPole-v1'; it must be of ALE/")
    pong = gymnasium.make("ALE/Pong-v5", obs_type="ram")
    fails(collect_with(pong, options={"minari_autoseed": False}), "episode 0 has no seed")
    wrapped = gymnasium.wrappers.ClipReward(gymnasium.make("ALE/Pong-v5"), -1, 1)
    fails(collect_with(wrapped), "has wrappers")
    fails(collect_with(gymnasium.make("ALE/Pong-v5", frameskip=(2, 5))), "frameskip is")
    short = gymnasium.make("ALE/Pong-v5", max_episode_steps=4)
    fails(collect_with(short), "max_episode_steps 4")
    dataset = record(tmp_path / "b.cule")
    part = export_minari(dataset, "test/collected-v0", obs_type="ram")
    none = part.filter_episodes(lambda e: False)
    with pytest.raises(DatasetError, match="has no episodes"):
        import_minari(none, tmp_path / "a.cule")
    last = [i for i, e in enumerate(part.iterate_episodes()) if i == part.total_episodes - 1]
    fails(part.filter_episodes(lambda e: e.id in last), "is not preceded by the rest")
