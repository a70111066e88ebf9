"""``cule bench`` on real environments: what it writes, keeps, skips and rejects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cule.bench import engines, plots, suite
from cule.cli import main
from cule.errors import DeviceError

#: As little as can be measured.
SMALL = [
    "--games",
    "pong",
    "--num-envs",
    "2",
    "--seconds",
    "0",
    "--rounds",
    "2",
    "--round-steps",
    "2",
]
CPU = ["--engines", "cule-cpu", "--no-memory", "--threads", "1"]
OURS = ("cule-cpu", "cule-cpu@async")


def read(folder: Path, key: str) -> Any:
    return json.loads((folder / "records" / f"{key}.json").read_text())


@pytest.fixture
def no_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without matplotlib."""
    monkeypatch.setattr(suite, "can_plot", lambda: False)


@pytest.mark.ale
def test_record_and_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = [*SMALL, "--engines", "cule-cpu,ale", "ale-async", "cule-cpu@async"]
    words += ["--load", "emulation,divergence", "--divergence-steps", "2"]
    assert main(["bench", *words, "--no-memory", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "[1/2] emulation, 2 environments, pong: cule-cpu" in printed
    assert "cule-cpu / ale" in (tmp_path / "table.txt").read_text()
    assert ("plot: " in printed) is plots.can_plot()

    record = read(tmp_path, "emulation-2-pong")
    pairs = {f"{name} / {other}" for name in OURS for other in ("ale", "ale-async")}
    assert set(record["runs"]) == {*OURS, "ale", "ale-async"}
    assert set(record["ratios"]) == {*pairs, "cule-cpu@async / cule-cpu"}
    assert list(read(tmp_path, "divergence-2-pong")["divergence_runs"]) == ["cule-cpu"]
    assert record["check"]["steps_equal_to_ale"] >= 12  # those that both have taken
    assert record["digest_after_steps"] == 12
    runs = record["runs"]
    assert runs["cule-cpu"]["digest_of_ram"]
    assert runs["cule-cpu"]["digest_of_observations"] == runs["ale"]["digest_of_observations"]
    assert runs["ale-async"]["digest_of_observations"] is None
    assert runs["cule-cpu@async"]["digest_of_observations"] is None
    assert all(len(run["frames_per_s"]["rounds"]) == record["rounds"] for run in runs.values())
    machine = record["settings"]["machine"]
    assert {"processor", "cpus", "gpu", "build", "versions"} <= set(machine)
    assert {"commit", "dirty"} == set(record["settings"]["source"]) - {"changes"}
    assert record["settings"]["options"]["round_steps"] == 2


@pytest.mark.ale
@pytest.mark.usefixtures("no_plots")
def test_a_preset_and_options_that_override_it(tmp_path: Path) -> None:
    words = ["bench", "--preset", "one-thread", *SMALL, "--no-memory", "--out", str(tmp_path)]
    assert main([*words, "--engines", "cule-cpu,ale"]) == 0
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["emulation-2-pong.json"]
    options = read(tmp_path, "emulation-2-pong")["settings"]["options"]
    assert (options["threads"], options["rounds"]) == (1, 2)


@pytest.mark.ale
@pytest.mark.usefixtures("no_plots")
def test_resume(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["bench", *SMALL, *CPU, "--load", "emulation", "--out", str(tmp_path)]
    assert main(words) == 0
    path = tmp_path / "records" / "emulation-2-pong.json"
    before = path.read_text()
    digest = json.loads(before)["runs"]["cule-cpu"]["digest_of_ram"]
    assert capsys.readouterr().out.count("matplotlib is not installed") == 1

    assert main(words) == 2
    assert "records of another run" in capsys.readouterr().err

    assert main([*words, "--resume", "--games", "pong,breakout"]) == 0
    printed = capsys.readouterr().out
    assert "[1/2] emulation, 2 environments, pong: found" in printed
    assert "[2/2] emulation, 2 environments, breakout: cule-cpu" in printed
    assert path.read_text() == before

    assert main([*words, "--resume", "--rounds", "3"]) == 0
    assert "measured again" in capsys.readouterr().out
    assert path.read_text() != before
    assert read(tmp_path, "emulation-2-pong")["runs"]["cule-cpu"]["digest_of_ram"] != digest

    # After the time limit, every cell is skipped.
    monkeypatch.setattr(suite.time, "monotonic", iter(range(0, 10**6, 1000)).__next__)
    assert main([*words, "--resume", "--rounds", "4", "--minutes", "1"]) == 1
    printed = capsys.readouterr().out
    assert "1 cells and the memory skipped after --minutes 1" in printed
    table = next(tmp_path.rglob("table.txt")).read_text()
    assert "left out after --minutes 1: 2 environments of pong" in table
    assert table in printed


@pytest.mark.ale
def test_interrupted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(suite, "measure", stop)
    words = ["bench", *SMALL, *CPU, "--load", "emulation", "--out", str(tmp_path)]
    assert main(words) == 130
    assert f"interrupted; to continue: --out {tmp_path} --resume" in capsys.readouterr().out


@pytest.mark.ale
@pytest.mark.usefixtures("no_plots")
def test_the_same_run_has_the_same_digests(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        words = ["bench", *SMALL, *CPU, "--load", "emulation,divergence"]
        assert main([*words, "--divergence-steps", "5", "--out", str(tmp_path / name)]) == 0
        emulation = read(tmp_path / name, "emulation-2-pong")["runs"]["cule-cpu"]
        divergence = read(tmp_path / name, "divergence-2-pong")["divergence_runs"]["cule-cpu"]
        found.append([emulation["digest_of_ram"], divergence["digest_of_ram"]])
    assert found[0] == found[1]
    assert len(divergence["step_s"]) == len(divergence["resetting_envs"]) == 5


@pytest.mark.ale
@pytest.mark.usefixtures("no_plots")
def test_kernels_give_the_same_results(tmp_path: Path) -> None:
    names = ["cule-cpu", "cule-cpu@interpreter", "cule-cpu@low_memory", "cule-cpu@2threads"]
    names += ["cule-cpu@compiled"] * (engines.unavailable_reason("cule-cpu@compiled") is None)
    words = ["bench", *SMALL, "--engines", *names, "--threads", "1", "--no-memory"]
    assert main([*words, "--load", "emulation", "--out", str(tmp_path)]) == 0
    record = read(tmp_path, "emulation-2-pong")
    assert list(record["runs"]) == names
    assert len({run["digest_of_ram"] for run in record["runs"].values()}) == 1
    assert "cule-cpu@interpreter / cule-cpu" in record["ratios"]


@pytest.mark.long
@pytest.mark.ale
@pytest.mark.usefixtures("no_plots")
def test_network_loads(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = [*SMALL, "--engines", "cule-cpu,ale", "--no-memory", "--threads", "1"]
    words += ["--load", "inference,training", "--rollout-steps", "2", "--algorithms", "a2c,ppo,dqn"]
    assert main(["bench", *words, "--out", str(tmp_path)]) == 0
    inference = read(tmp_path, "inference-2-pong")
    assert inference["check"]["steps_equal_to_ale"] == 14  # the warm-up of the network included
    assert "cule-cpu / ale" in inference["ratios"]
    training = read(tmp_path, "training-2-pong")
    assert set(training["runs"]) == {f"{name} on cule-cpu" for name in ("a2c", "ppo", "dqn")}
    steps = {config.get("num_steps") for config in training["agents"].values()}
    assert steps == {2, None}
    assert all(config["updates"] > 0 for config in training["agents"].values())
    assert all(run["digest_of_ram"] for run in training["runs"].values())
    text = (tmp_path / "table.txt").read_text()
    for load in ("inference", "training"):
        assert f"{load} by number of environments, medians of the games" in text
    replay_config = training["agents"]["dqn on cule-cpu"]
    assert plots.length_of(replay_config) == "8 samples per step, batches of 32"


@pytest.mark.ale
@pytest.mark.usefixtures("no_plots")
def test_memory_of_an_environment(tmp_path: Path) -> None:
    words = [*SMALL, "--engines", "cule-cpu", "--threads", "1", "--load", "emulation"]
    assert main(["bench", *words, "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "memory.json").read_text())
    assert record["game"] == "pong"
    # More than the stacked observation, which every environment has.
    assert record["bytes_per_env"]["cule-cpu"] > 84 * 84 * 4


@pytest.mark.ale
@pytest.mark.usefixtures("no_plots")
def test_an_unavailable_engine(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(config: engines.EngineConfig) -> engines.Engine:
        raise DeviceError("device is 'cuda', but there is none")

    kind = engines.EngineKind("cule, CUDA", "cule", "cule", refuse)
    monkeypatch.setitem(engines.ENGINES, "cule-cuda", kind)
    words = ["bench", *SMALL, *CPU, "--load", "emulation", "--out", str(tmp_path)]
    words[words.index("cule-cpu")] = "cule-cuda,cule-cpu"
    assert main(words) == 0
    assert "cule-cuda: not available: device is 'cuda', but there is none" in (
        capsys.readouterr().out
    )
    words[words.index("cule-cuda,cule-cpu")] = "cule-cuda"
    assert main(words) == 2
    assert "no engine is available" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--games", "pang"], "games has 'pang'"),
        (["--engines", "ale,cule"], "engines has 'cule'"),
        (["--load", "sleeping"], "load has 'sleeping'"),
        (["--num-envs", "4,0"], "num_envs has 0"),
        (["--preset", "57-games", "--resume"], "resume needs out"),
    ],
)
def test_invalid_words(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["bench", *words]) == 2
    assert message in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    for word in (
        "--preset",
        "--games",
        "--engines",
        "--num-envs",
        "--load",
        "--out",
        "--resume",
        "all",
    ):
        assert word in printed
    with pytest.raises(SystemExit) as caught:
        main(["bench", "--num-envs", "many"])
    assert caught.value.code == 2
