"""``cule train`` and ``cule eval`` on a real game, and what they refuse."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import os
import re
import signal
import subprocess
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from cule import AtariVectorEnv  # noqa: E402
from cule.agents import A2C, AGENTS, PRESETS, PPOConfig, VideoError  # noqa: E402
from cule.agents.run.checkpoint import read_checkpoint  # noqa: E402
from cule.agents.run.run import Run, RunOptions  # noqa: E402
from cule.agents.run.stop import TimeIsUp  # noqa: E402
from cule.agents.run.video import RecordedEnv, check_video_path, is_complete  # noqa: E402
from cule.cli import main  # noqa: E402
from cule.errors import CuleError, DivergedError, InvalidArgumentError  # noqa: E402
from cule.nets import TORSOS  # noqa: E402
from cule.option_fields import LARGEST, config_from, field_docs, options_of  # noqa: E402
from tests.support.cases import long_except  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import small_learner  # noqa: E402

SMALL = [
    "--num-envs",
    "4",
    "--num-steps",
    "8",
    "--num-minibatches",
    "2",
    "--network",
    "small",
    "--img-size",
    "42",
    "--decorrelate-steps",
    "10",
]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_are_configs(name: str) -> None:
    preset = PRESETS[name]
    config = config_from(AGENTS[preset.algorithm].config_class, preset.options)
    for key, value in preset.options.items():
        assert getattr(config, key) == value


def test_published_settings() -> None:
    def config(name: str) -> object:
        preset = PRESETS[name]
        return config_from(AGENTS[preset.algorithm].config_class, preset.options)

    expected = {
        "ppo": (8, 128, 4, 4, 2.5e-4),
        "ppo-cule": (256, 4, 4, 4, 5e-4),
        "ppo-gpu": (1024, 16, 3, 16, 1.5e-3),
        "ppo-gpu-16k": (16_384, 16, 2, 16, 1e-3),
    }
    names = ("num_envs", "num_steps", "num_epochs", "num_minibatches", "learning_rate")
    for name, values in expected.items():
        assert tuple(getattr(config(name), key) for key in names) == values, name
    names = ("num_envs", "num_batches", "num_steps", "steps_per_update", "learning_rate")
    assert tuple(getattr(config("vtrace"), key) for key in names) == (1200, 20, 20, 1, 6.5e-4)
    assert tuple(getattr(config("vtrace-gpu"), key) for key in names) == (4096, 16, 16, 1, 1.2e-3)
    names = (
        "batch_size",
        "samples_per_insert",
        "n_step",
        "target_interval",
        "learning_rate",
        "alpha",
    )
    assert tuple(getattr(config("rainbow"), key) for key in names) == (32, 8, 3, 2000, 6.25e-5, 0.5)
    assert tuple(getattr(config("apex-dqn"), key) for key in names) == (
        512, 0.78, 3, 2500, 6.25e-5, 0.6,
    )  # fmt: skip
    assert tuple(getattr(config("apex-dpg"), key) for key in names) == (256, 1, 5, 100, 1e-4, 0.6)


@pytest.mark.ale
@pytest.mark.usefixtures("short_episodes")
def test_train_resume_and_eval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "run")]
    words = ["train", "ppo", "--game", "pong", *SMALL, *out, "--log-every", "32", "--seed", "3"]
    assert main([*words, "--total-steps", "64", "--eval-episodes", "0"]) == 0
    printed = capsys.readouterr()
    assert "trained for 64 steps" in printed.out
    assert "pong ppo [" in printed.err
    assert main([*words, "--total-steps", "128", "--eval-episodes", "0"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*words, "--total-steps", "128", "--eval-episodes", "0", "--resume"]) == 0
    with (tmp_path / "run" / "progress.csv").open(newline="") as file:
        assert [int(row["steps"]) for row in csv.DictReader(file)] == [32, 64, 96, 128]

    # Any policy loses: 21 points to at most a few.
    scores = tmp_path / "found" / "scores.json"
    video = tmp_path / "films" / "pong.mp4"
    words = ["eval", str(tmp_path / "run"), "--episodes", "10", "--json", str(scores)]
    assert main([*words, "--video", str(video)]) == 0
    assert "10 episodes; human-normalized" in capsys.readouterr().out
    (record,) = json.loads(scores.read_text())
    assert record["game"] == "pong"
    assert all(-21 <= value <= 0 for value in record["returns"])
    check_video(video, record["lengths"][0])


@pytest.mark.ale
@pytest.mark.usefixtures("short_episodes")
def test_continuous_ppo_from_train_to_eval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    words = ["train", "ppo", "--continuous", "--game", "pong", *SMALL, "--out", str(run)]
    words += ["--log-every", "32", "--eval-episodes", "0", "--total-steps"]
    assert main([*words, "64"]) == 0
    assert main([*words, "128", "--resume"]) == 0
    assert "trained for 128 steps" in capsys.readouterr().out
    assert main(["eval", str(run), "--episodes", "10", "--greedy"]) == 0
    assert "ppo after 128 steps" in capsys.readouterr().out
    assert main([*words, "256", "--resume", "--no-continuous"]) == 2
    assert "continuous is False; the run in" in capsys.readouterr().err
    assert main([*words, "256", "--full-action-space"]) == 2
    assert "full_action_space True" in capsys.readouterr().err


@pytest.mark.ale
@pytest.mark.parametrize(("game", "frames_per_s"), [("pong", 60), ("klax", 50)])
def test_a_video_runs_as_fast_as_a_real_console(
    game: str, frames_per_s: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    rates = []

    def write(*_: Any, fps: float, **__: Any) -> Iterator[None]:
        rates.append(fps)
        while True:
            yield

    monkeypatch.setattr(imageio_ffmpeg, "write_frames", write)
    env = AtariVectorEnv(game, 1, autoreset_mode="SameStep", output="torch")
    with (
        contextlib.closing(env),
        RecordedEnv(env, tmp_path / "game.mp4", episodes=1) as recorded,
    ):
        recorded.reset(seed=1)
    assert rates == [frames_per_s / 4]


def test_a_video_that_is_not_whole_is_an_error(tmp_path: Path) -> None:
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")

    def cut_short(path: str, *_: Any, **__: Any) -> Iterator[None]:
        Path(path).write_bytes(b"ftyp")  # as where the disk is full at the end
        while True:
            yield

    target = tmp_path / "pong.mp4"
    target.write_bytes(b"an older film")
    env = AtariVectorEnv("pong", 1, autoreset_mode="SameStep", output="torch", noop_max=0)

    def play() -> None:
        with RecordedEnv(env, target, episodes=1) as recorded:
            recorded.reset(seed=1)
            for _ in range(5000):
                recorded.step_frames(torch.zeros(1, dtype=torch.int64))
            recorded.finish()

    with pytest.MonkeyPatch.context() as patch, contextlib.closing(env):
        patch.setattr(imageio_ffmpeg, "write_frames", cut_short)
        with pytest.raises(VideoError, match=r"pong\.mp4'; it could not be written"):
            play()
    assert [path.name for path in tmp_path.iterdir()] == ["pong.mp4"]
    assert target.read_bytes() == b"an older film"


def test_a_video_without_an_encoder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")

    def find() -> str:
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", find)
    with pytest.raises(VideoError, match=r"a\.mp4', and there is no encoder: No ffmpeg exe"):
        check_video_path(tmp_path / "a.mp4")


#: As imageio-ffmpeg raises it, where the encoder has closed the pipe.
CLOSED = OSError("[Errno 32] Broken pipe\n\nFFMPEG COMMAND:")
CLOSED.__context__ = BrokenPipeError()


@pytest.mark.parametrize("error", [CLOSED, IndexError("list index out of range")])
def test_an_encoder_that_stops(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_frames(*_: object, **__: object) -> Iterator[None]:
        yield
        raise error

    monkeypatch.setattr(pytest.importorskip("imageio_ffmpeg"), "write_frames", write_frames)
    env = AtariVectorEnv("pong", 1, autoreset_mode="SameStep", output="torch", noop_max=0)
    with contextlib.closing(env), RecordedEnv(env, tmp_path / "a.mp4", episodes=1) as recorded:
        recorded.reset(seed=1)
        with pytest.raises(VideoError, match="could not be written: the encoder stopped"):
            recorded.finish()


def test_a_video_keeps_the_link_and_mode_of_an_older_one(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    film, link = tmp_path / "film.mp4", tmp_path / "link.mp4"
    film.write_bytes(b"an older film")
    film.chmod(0o600)
    link.symlink_to(film)
    left = tmp_path / ".link.mp4.0000.part"  # by a writer that was killed
    left.touch()
    os.utime(left, (0, 0))
    env = AtariVectorEnv("pong", 1, autoreset_mode="SameStep", output="torch", noop_max=0)
    with contextlib.closing(env), RecordedEnv(env, link, episodes=1) as recorded:
        recorded.reset(seed=1)
        for _ in range(20):
            recorded.step_frames(torch.zeros(1, dtype=torch.int64))
        recorded.finish()
    assert {path.name for path in tmp_path.iterdir()} == {"film.mp4", "link.mp4"}
    assert link.is_symlink()
    assert film.stat().st_mode & 0o777 == 0o600
    assert is_complete(film.read_bytes())


def check_video(path: Path, length: int) -> None:
    """One episode of Pong: its size, pictures and colours."""
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    film = path.read_bytes()
    assert is_complete(film)
    for cut in (0, 4, 100, len(film) // 2, len(film) - 100, len(film) - 1):
        assert not is_complete(film[:cut])
    words = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path), "-f", "rawvideo"]
    decoded = subprocess.run([*words, "-pix_fmt", "rgb24", "-"], capture_output=True, check=True)
    assert b"640x420" in decoded.stderr
    assert b"15 fps" in decoded.stderr
    pictures = np.frombuffer(decoded.stdout, np.uint8).reshape(-1, 420, 640, 3)
    assert len(pictures) == length  # the last step shows the next game, and is not in it
    # The left score is orange, the right one green, the field brown; H.264 keeps colours nearly.
    game = pictures[len(pictures) // 2]
    assert np.abs(game[300, 20].astype(int) - (144, 72, 17)).max() < 12
    assert not np.array_equal(pictures[40], pictures[60])


@pytest.mark.ale
@pytest.mark.parametrize(
    ("name", "changes"),
    long_except(
        [*((name, {}) for name in sorted(AGENTS)), ("ppo", {"continuous": True})],
        ("ppo", {}),
    ),
)
def test_real_environments_are_resumed_exactly(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    # A life is lost and an episode is cut off within a few steps of Breakout.
    agent_class = AGENTS[name]
    options = {
        "game": "breakout",
        "num_envs": 4,
        "network": "small",
        "img_size": 42,
        "total_steps": 4 * 64,
        "max_num_frames_per_episode": 120,
        "episodic_life": True,
        **changes,
    }
    small = {
        "num_steps": 8,
        "sequence_length": 4,
        "num_minibatches": 2,
        "num_batches": 2,
        "memory": 4_000,
        "learning_starts": 40,
        "batch_size": 16,
        "samples_per_insert": 1.0,
    }
    options |= {
        key: value for key, value in small.items() if key in field_docs(agent_class.config_class)
    }
    agent = agent_class(agent_class.config_class(**options))
    for _ in agent.train(steps=4 * 32):
        pass
    agent.save(tmp_path / "a.pt")
    again = agent_class.load(tmp_path / "a.pt")
    for _ in agent.train():
        pass
    for _ in again.train():
        pass
    assert agent.steps == again.steps == 4 * 64
    assert agent.statistics.read() == again.statistics.read()
    for ours, theirs in zip(agent.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    agent.env.close()
    again.env.close()


def test_refused_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["train"], ["train", "sarsa"], ["train", "ppo", "--num-envs", "many"], ["eval"]):
        with pytest.raises(SystemExit):
            main(words)
    printed = capsys.readouterr()
    assert "usage: cule train" in printed.out + printed.err
    assert main(["train", "ppo", "--gamma", "2"]) == 2
    assert "gamma is 2.0; it must be from 0.0 to 1.0" in capsys.readouterr().err
    assert main(["train", "ppo", "--learning-rate", "nan"]) == 2
    assert "learning_rate is nan; it must be a finite number" in capsys.readouterr().err
    assert main(["train", "pqn", "--num-envs", "2", "--num-steps", "3"]) == 2
    assert "num_minibatches is 32, which does not divide the 6" in capsys.readouterr().err
    assert main(["eval", str(tmp_path)]) == 2
    assert "folder without a run" in capsys.readouterr().err
    for words in (["eval", "no/run"], ["watch", "no/run"]):
        assert main(words) == 2
        assert "'no/run'; there is no such file or folder" in capsys.readouterr().err
    (tmp_path / "a.pt").write_bytes(b"nonsense")
    assert main(["eval", str(tmp_path / "a.pt")]) == 2
    assert "damaged" in capsys.readouterr().err
    assert main(["eval", "a.pt", "--video", "pong.avi"]) == 2
    assert "it must be a file NAME.mp4" in capsys.readouterr().err
    assert main(["eval", "a.pt", "b.pt", "--video", "pong.mp4"]) == 2
    assert "there must be one" in capsys.readouterr().err


#: What the environment, the memory of the device or another option bounds, and what costs nothing
#: however large it is.
BOUNDED_ELSEWHERE = {
    *("num_envs", "max_num_frames_per_episode", "num_steps", "num_minibatches", "num_batches"),
    *("memory", "learning_starts", "seed"),
}
BOUNDED_FLOATS = {"samples_per_insert", "steps_per_update"}
FREE = {"total_steps", "forward_batch", "epsilon_steps", "target_interval", "sync_steps"}


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_absurd_numbers_are_refused(name: str) -> None:
    config_class = AGENTS[name].config_class
    kinds = typing.get_type_hints(config_class)
    whole = {field for field, kind in kinds.items() if kind is int}
    for field in (whole - BOUNDED_ELSEWHERE - FREE) | (kinds.keys() & BOUNDED_FLOATS):
        for value in (10**9, 10**12, 10**15):
            with pytest.raises(InvalidArgumentError, match=rf"^{field} is {value}.* it must be"):
                config_class(**{field: value})


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_numbers_that_torch_cannot_convert_are_refused(name: str) -> None:
    config_class = AGENTS[name].config_class
    huge = {int: 2**63, float: 1e308}
    for field, option in options_of(config_class).items():
        for value in (huge[option.kind], -huge[option.kind]) if option.kind in huge else ():
            with pytest.raises(InvalidArgumentError, match=rf"^{field} is -?\d.* it must be"):
                config_class(**{field: value})


def test_the_largest_learning_rate_can_be_converted() -> None:
    with contextlib.suppress(DivergedError):
        next(small_learner("ppo", learning_rate=LARGEST[float], lr_scale="linear").train())


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("dqn", "ladder_base", (-1, 5)),
        ("dqn", "ladder_exponent", (-3,)),
        ("dqn", "noise_sigma0", (-1,)),
        ("dqn", "epsilon_steps", (-5,)),
        ("ppo-rnd", "predictor_share", (0, -1, 2)),
        ("ppo-lstm", "stack_num", (0, 257)),
        ("vtrace-lstm", "stack_num", (0, 257)),
        *(
            (name, field, (-1,))
            for name in ("a2c", "ppo", "vtrace")
            for field in ("value_coef", "entropy_coef", "entropy_coef_end")
        ),
    ],
)
def test_numbers_without_a_meaning_are_refused(
    name: str, field: str, values: tuple[float, ...]
) -> None:
    for value in values:
        with pytest.raises(InvalidArgumentError, match=rf"^{field} is {value}.* it must be "):
            AGENTS[name].config_class(**{field: value})


@pytest.mark.parametrize(
    ("name", "changes", "value"),
    [
        *(("a2c", {"num_steps": value}, value) for value in (10**9, 10**15)),
        *(("dqn", {"memory": value}, value) for value in (10**9, 10**15)),
        ("ppo", {"num_minibatches": 10**12}, 10**12),
        ("vtrace", {"num_batches": 10**12}, 10**12),
    ],
)
def test_absurd_numbers_are_refused_when_a_run_begins(
    name: str, changes: dict[str, Any], value: int
) -> None:
    config = AGENTS[name].config_class(num_envs=16, network="mlp", **changes)
    env = Catch(16)
    env.single_observation_space.shape = (4, 84, 84)
    frames = torch.zeros(16, 4, 84, 84, dtype=torch.uint8)
    env.reset = lambda seed: (frames, {})  # type: ignore[method-assign, misc]
    with pytest.raises(CuleError, match=str(value)):
        next(AGENTS[name](config, env).train())


def test_too_little_memory_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(self: A2C) -> None:
        torch.zeros(2**60, dtype=torch.uint8)

    monkeypatch.setattr(A2C, "begin", take)
    words = ["train", "a2c", "--num-envs", "2", "--env-threads", "1", "--out", str(tmp_path / "a")]
    assert main(words) == 2
    printed = capsys.readouterr().err
    assert "num_envs is 2, and memory does not suffice" in printed
    assert str(2**60) in printed
    assert not list(tmp_path.iterdir())


def test_memory_that_runs_out_keeps_the_last_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    learn, updates = A2C.learn, 0

    def learn_until_memory_runs_out(self: A2C, *arguments: Any) -> Any:
        nonlocal updates
        updates += 1
        if updates == 4:
            torch.zeros(2**60, dtype=torch.uint8)
        return learn(self, *arguments)

    folder = tmp_path / "a"
    words = [
        *("train", "a2c", "--num-envs", "2", "--env-threads", "1", "--total-steps", "60"),
        *("--checkpoint-every", "10", "--eval-episodes", "0", "--out", str(folder)),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(A2C, "learn", learn_until_memory_runs_out)
        assert main(words) == 2
    assert "num_envs is 2, and memory does not suffice" in capsys.readouterr().err
    assert read_checkpoint(folder / "checkpoints" / "latest.pt")["updates"] == 3
    assert main([*words, "--resume"]) == 0
    assert read_checkpoint(folder / "checkpoints" / "latest.pt")["steps"] == 60


def test_help_tells_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["train", "vtrace-gpu", "--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for name in (*field_docs(AGENTS["vtrace"].config_class), *field_docs(RunOptions)):
        assert "--" + name.replace("_", "-") in printed
    assert "(default: 4096)" in printed


@pytest.mark.parametrize("name", long_except(sorted(AGENTS), "ppo"))
def test_help_names_the_networks_that_are_allowed(name: str) -> None:
    config_class = AGENTS[name].config_class
    sentence = field_docs(config_class)["network"]
    allowed = set()
    options = {"normalize_obs": False} if "normalize_obs" in field_docs(config_class) else {}
    kinds = (("images", (4, 84, 84), "uint8"), ("RAM", (128,), "uint8"))
    for torso, kind in itertools.product(TORSOS, (*kinds, ("objects", (4, 13, 6), "int16"))):
        config = config_class(num_envs=40, network=torso, **options)
        env = Catch(config.num_envs, continuous=config.continuous)
        space = env.single_observation_space
        what, space.shape, space.dtype = kind
        with contextlib.suppress(InvalidArgumentError):
            AGENTS[name](config, env)
            allowed.add((torso, what))
    assert set(re.findall(r"\w+", sentence)) & set(TORSOS) == {torso for torso, _ in allowed}
    for torso, what in allowed - {("mlp", what) for what in ("images", "RAM", "objects")}:
        special = {"vector": "RAM", "relations": "objects", "objects": "objects"}
        assert special.get(torso, "images") == what


@pytest.mark.ale
def test_networks_with_scales_of_their_own_refuse_normalized_objects() -> None:
    config = PPOConfig(
        game="pong", num_envs=2, obs_type="objects", network="relations", normalize_obs=True
    )
    with pytest.raises(InvalidArgumentError, match="normalize_obs must be False"):
        AGENTS["ppo"](config)


@pytest.mark.ale
def test_relations_know_the_kinds_of_objects() -> None:
    options = {"obs_type": "objects", "network": "relations", "decorrelate_steps": 0}
    agents = [
        AGENTS["ppo"](PPOConfig(game=game, num_envs=2, full_action_space=True, **options))
        for game in ("breakout", "pong", "breakout,pong")
    ]
    found = [agent.network.torso.body.weights.flatten().tolist() for agent in agents]
    for agent in agents:
        agent.setup.env.close()
    with AtariVectorEnv("breakout", 1, obs_type="objects") as env:
        names = [slot.name for slot in env.objects_layout.slots["breakout"]]
    assert names.count("block") == 108
    assert found[0] == pytest.approx([names.count(name) ** -0.5 for name in names])
    assert set(found[1]) == set(found[2]) == {1.0}


@pytest.mark.ale
@pytest.mark.parametrize(
    ("obs_type", "network", "shape"),
    [
        ("ram", "vector", (128,)),
        ("objects", "relations", (2, 5, 6)),
        ("objects", "objects", (2, 5, 6)),
    ],
)
@pytest.mark.parametrize("name", long_except(["ppo", "rainbow", "apex-dpg"], "ppo"))
def test_learners_read_ram_and_objects(
    name: str, obs_type: str, network: str, shape: tuple[int, ...]
) -> None:
    options = {"num_envs": 4, "obs_type": obs_type, "network": network, "decorrelate_steps": 0}
    if obs_type == "objects":
        options["stack_num"] = 2
    small = {
        "num_steps": 8,
        "memory": 4_000,
        "learning_starts": 40,
        "batch_size": 16,
        "samples_per_insert": 1.0,
    }
    config_class = AGENTS[name].config_class
    options |= {key: value for key, value in small.items() if key in field_docs(config_class)}
    agent = AGENTS[name](config_class(**options))
    assert agent.obs_shape == shape
    for _ in agent.train(steps=128):
        pass
    assert agent.updates > 0
    agent.check_finite()
    agent.env.close()


@pytest.mark.ale
@pytest.mark.parametrize(("kind", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_exit_status_of_a_training_that_was_stopped(
    kind: signal.Signals, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_round = Run._after_round

    def stopped(self: Run, *arguments: Any) -> None:
        after_round(self, *arguments)
        signal.raise_signal(kind)

    monkeypatch.setattr(Run, "_after_round", stopped)
    words = ["train", "ppo", "--game", "pong", *SMALL, "--out", str(tmp_path / "run")]
    assert main([*words, "--total-steps", "64", "--eval-episodes", "0"]) == status


@pytest.mark.ale
def test_a_training_that_was_stopped_in_its_first_round_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(self: Run) -> None:
        self._is_in_round = True
        raise TimeIsUp

    monkeypatch.setattr(Run, "_train", stopped)
    words = ["train", "ppo", "--game", "pong", *SMALL, "--out", str(tmp_path / "run")]
    assert main(words) == 0
    assert "nothing is saved, so start it anew" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


def test_the_help_begins_with_a_dozen_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "dqn", "--help"])
    text = capsys.readouterr().out
    first = text.partition("options to begin with:")[2].partition("algorithm:")[0]
    flags = re.findall(r"^  --([a-z-]+)", first, re.MULTILINE)
    assert len(flags) == 12
    assert {"game", "num-envs", "total-steps", "seed", "out"} <= set(flags)
    assert "--gamma" in text
