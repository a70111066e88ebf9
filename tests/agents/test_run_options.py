"""Options of runs: kept for a resumed run, the same in Python and on the command line; full disks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule.agents import AGENTS, PRESETS  # noqa: E402
from cule.agents.run.cli import parse_train  # noqa: E402
from cule.agents.sweeps import command  # noqa: E402
from cule.cli import main  # noqa: E402
from cule.errors import StorageError  # noqa: E402
from cule.files import replace_file  # noqa: E402
from tests.support.small_files import cule_with_small_files  # noqa: E402

SMALL = [
    *("--num-envs", "2", "--num-steps", "4", "--num-minibatches", "1", "--num-epochs", "1"),
    *("--network", "small", "--img-size", "42", "--stack-num", "1", "--decorrelate-steps", "0"),
    *("--eval-episodes", "0", "--no-progress-bar"),
]


def config_of(folder: Path) -> dict[str, Any]:
    """The options that a run has written."""
    content: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return content


@pytest.mark.ale
def test_a_resumed_run_needs_nothing_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    resume = ["train", "--resume", "--out", str(folder)]
    words = ["ppo-cpu", *SMALL, "--lr", "0.001", "--seed", "5", "--log-every", "8", "--game"]
    words += ["breakout", "--total-steps", "16", "--out", str(folder)]
    assert main(["train", *words]) == 0
    first = config_of(folder)
    assert (first["preset"], first["learning_rate"], first["run"]["log_every"]) == (
        *("ppo-cpu", 0.001, 8),
    )
    assert main([*resume, "--total-steps", "32"]) == 0
    assert config_of(folder) == {**first, "total_steps": 32}
    rows = (folder / "progress.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["8", "16", "24", "32"]
    assert main(["train", "ppo-cpu", *resume[1:], "--total-steps", "40"]) == 0

    capsys.readouterr()
    for given, words in (
        (["--gamma", "0.5"], "gamma is 0.5; the run in "),
        (["--gamma", "0.5"], "has 0.99"),
        (["--img-size", "84"], "img_size is 84"),
        (["--game", "pong"], "game is 'pong'"),
    ):
        assert main([*resume, *given]) == 2
        assert words in capsys.readouterr().err
    assert main(["train", "ppo", *resume[1:]]) == 2
    assert "ALGO is 'ppo'; the run" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", str(tmp_path / "none")]) == 2
    assert "no folder of a run" in capsys.readouterr().err
    typo = tmp_path / "typo"
    assert main(["train", "ppo-cpu", "--resume", "--out", str(typo)]) == 2
    assert "holds no run to resume" in capsys.readouterr().err
    assert not typo.exists()
    assert main(["train", "ppo-cpu", "--out", str(folder)]) == 2
    assert f"such as '{folder}-2'" in capsys.readouterr().err
    (folder / "config.json").write_text("{")
    assert main(resume) == 2
    assert "config.json does not hold the options of a run" in capsys.readouterr().err


@pytest.mark.ale
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train ppo --num-envs 0", "--num-envs: num_envs is 0; it must be at least 1"),
        ("train ppo --clip-range=nan", "--clip-range: clip_range is nan"),
        ("train ppo --lr -1", "--lr: learning_rate is -1.0"),
        ("train ppo --eval-episodes -1", "--eval-episodes: eval_episodes is -1; it must be 0, or"),
        ("train ppo --eval-episodes 9", "--eval-episodes: eval_episodes is 9; it must be 0, or"),
        ("train ppo --eval-protocol x", "--eval-protocol: eval_protocol is 'x'"),
        ("train ppo --eval-protocol machado", "--eval-protocol: protocol is 'machado'"),
        ("train ppo --env-threads -1", "--env-threads: env_threads is -1; it must be from 0 to"),
        ("train ppo --img-size 161", "--img-size: img_size is 161; it must be from 1 to 160"),
        ("train ppo --env-device meta", "--env-device: env_device is 'meta'"),
        ("train ppo --device meta --env-device cpu", "--device: device is 'meta'"),
        ("train ppo --env-device cuda:9", "--env-device: device is 'cuda:9'"),
        ("train ppo --device no --env-device cpu", "--device: device is 'no'"),
        (
            "train dqn --memory 1e15 --num-envs 1 --decorrelate-steps 0",
            "--memory: capacity is 1000000000000000",
        ),
        ("train ppo --seeds 1e30", "--seeds: seeds is 1000000000000000019884624838656"),
        ("train ppo --seeds 2 --seed 1073741823", "--seeds: seeds is 2 and seed 1073741823"),
        ("train iqn --munchausen-min -inf", "--munchausen-min: munchausen_min is -inf"),
        ("train iqn --v-min -1e308", "--v-min: v_min is -1e+308; it must be at least -1e+30"),
        ("eval no.pt --episodes 0", "--episodes: episodes is 0; it must be from 10 to"),
        ("eval no.pt --num-envs -1", "--num-envs: num_envs is -1; it must be at least 0"),
        ("plot no --goal -1e1", "RUN is 'no'"),
        ("plot no --goal nan", "--goal: goal is nan"),
        ("watch --seed 1e30", "--seed: seed is 1000000000000000019884624838656"),
    ],
)
def test_errors_name_the_flag(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert f"cule: {message}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "number"), [("-1e1", -10.0), ("-10_0", -100.0), ("-.5", -0.5), ("-2", -2.0)]
)
def test_numbers_below_zero_follow_a_flag(word: str, number: float) -> None:
    assert parse_train(["ppo", "--target-score", word])[2].target_score == number
    words = ["ppo-cpu", "--games", "pong", "--target-score", word]
    assert command._parse(words)[1].words[:2] == words[-2:]


@pytest.mark.ale
def test_a_preset_for_gpus_on_a_processor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "ppo-gpu", *SMALL, "--precision", "fp32", "--out", str(tmp_path / "run")]
    assert main([*words, "--total-steps", "8"]) == 0
    assert "ppo-gpu is for GPUs, and device is 'cpu'; ppo-cpu" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ppo-gpu", "ppo-gpu-16k", "vtrace-gpu"])
def test_presets_for_gpus_have_graphs_on_gpus(name: str) -> None:
    assert not parse_train([name])[1].cuda_graphs
    assert parse_train([name, "--device", "cuda:1"])[1].cuda_graphs
    assert not parse_train([name, "--device", "cuda", "--no-cuda-graphs"])[1].cuda_graphs


@pytest.mark.ale
def test_presets_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for preset in ("ppo", "ppo-cpu"):
        assert main(["train", preset, *SMALL, "--total-steps", "8"]) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["pong-ppo-0", "pong-ppo-cpu-0"]


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_defaults_are_those_of_python(name: str) -> None:
    assert PRESETS[name].algorithm == name
    # The published settings of V-trace need an epsilon that PyTorch adds to the root.
    assert PRESETS[name].options == ({"rmsprop_eps": 1e-10} if name.startswith("vtrace") else {})


def test_a_short_name_and_no_abbreviations(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--lr-sc", "sqrt"], ["--learning", "1"]):
        with pytest.raises(SystemExit):
            main(["train", "ppo", *words])
        assert f"unrecognized arguments: {words[0]}" in capsys.readouterr().err
    assert main(["train", "ppo", "--lr", "-1"]) == 2
    assert "learning_rate is -1.0" in capsys.readouterr().err


# --- Disks that are full ------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.ale
@pytest.mark.parametrize(
    ("limit", "file"), [(1_000, "config.json"), (20_000, "checkpoints/latest.pt|next.pt")]
)
def test_a_full_disk_ends_a_run_with_one_line(limit: int, file: str, tmp_path: Path) -> None:
    words = ["train", "ppo", *SMALL, "--total-steps", "8", "--out", str(tmp_path / "run")]
    done = cule_with_small_files(limit, words)
    lines = [line for line in done.stderr.splitlines() if "TensorBoard" not in line]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(f"cule: {tmp_path}/run/")
    assert any(name in lines[0] for name in file.split("|"))
    assert "cannot be written: File too large; " in lines[0]
    assert "bytes" in lines[0] or "MB" in lines[0] or "kB" in lines[0]
    assert not list((tmp_path / "run").rglob("*.part"))


def test_the_size_of_a_file_that_does_not_fit(tmp_path: Path) -> None:
    def write(file: Any) -> None:
        file.write(bytes(2_000_000))
        if hasattr(file, "name"):
            raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match=r"a\.pt cannot be written: No space left.*has 2 MB"):
        replace_file(tmp_path / "a.pt", write)
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.ale
def test_a_full_disk_ends_a_video_with_one_line(tmp_path: Path) -> None:
    """After the scores, and without a word of the encoder."""
    pytest.importorskip("imageio_ffmpeg")
    run, video = tmp_path / "run", tmp_path / "pong.mp4"
    assert main(["train", "ppo", *SMALL, "--total-steps", "8", "--out", str(run)]) == 0
    words = ["eval", str(run), "--episodes", "10", "--video", str(video)]
    done = cule_with_small_files(1_000, words)
    assert done.returncode == 2, done.stderr
    assert "10 episodes" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"cule: video is '{video}'; it could not be written: the encoder ")
    assert " of it written, and " in line
    assert not list(tmp_path.glob("*.mp4"))


@pytest.mark.long
@pytest.mark.ale
def test_scores_come_before_a_video(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A video that fails, at once or at its end, costs no score."""
    pytest.importorskip("imageio_ffmpeg")
    run, scores = tmp_path / "run", tmp_path / "scores.json"
    assert main(["train", "ppo", *SMALL, "--total-steps", "8", "--out", str(run)]) == 0

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    words = ["eval", str(run), "--episodes", "10", "--seed", "3", "--greedy"]
    words += ["--json", str(scores), "--video", str(tmp_path / "pong.mp4")]
    for name, broken in (("RecordedEnv._open", fail), ("is_complete", lambda _: False)):
        with monkeypatch.context() as patch:
            patch.setattr(f"cule.agents.run.video.{name}", broken)
            assert main(words) == 2
        printed = capsys.readouterr()
        assert "10 episodes" in printed.out
        assert "pong.mp4'; it could not be written" in printed.err
        (record,) = json.loads(scores.read_text())
        scores.unlink()
        assert {key: record[key] for key in ("seed", "greedy", "steps", "protocol")} == {
            "seed": 3,
            "greedy": True,
            "steps": 8,
            "protocol": "noop",
        }
