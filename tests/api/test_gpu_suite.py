"""``benchmarks/gpu_suite.sh``: every part on the mock CUDA device, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ["build", "equality", "fps", "ncu", "fps-57", "fps-train", "sanitizer", "train"]

NVIDIA_SMI = """#!/bin/sh
echo "Mock GPU, 580.00, 81559 MiB, 9.0"
"""

#: Runs the program, and writes a log as ``ncu --csv`` does.
NCU = """#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
log=$2
shift 2
"$@" || exit
cat >"$log" <<'END'
==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Block Size","Grid Size","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","cule::step_consoles_kernel","(128, 1, 1)","(2, 1, 1)","Speed","Duration","us","12.5"
"0","1","cule::step_consoles_kernel","(128, 1, 1)","(2, 1, 1)","Speed","SM Frequency","Ghz","1.9"
"1","1","cule::finish_step_kernel","(128, 1, 1)","(4, 1, 1)","Speed","Duration","us","3.5"
END
"""

SANITIZER = """#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 9" ] || exit 3
shift 4
"$@" || exit
echo "========= ERROR SUMMARY: 0 errors"
"""

#: Finds an error, ends when it is asked to, and hangs.
BAD_SANITIZER = """#!/bin/sh
case $2 in
  memcheck) echo "========= ERROR SUMMARY: 1 error"; exit 9 ;;
  racecheck) trap 'exit 0' TERM; echo waiting; while :; do sleep 0.1; done ;;
  initcheck) exec sleep 1000 ;;
esac
"""

HANGING_SANITIZER = """#!/bin/sh
echo $$ >"$PID_FILE"
exec sleep 1000
"""


class Suite:
    """The suite with tools of its own on the path."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "results"
        self.tools = folder / "bin"
        self.tools.mkdir()
        self.environment = {
            **os.environ,
            "PATH": f"{self.tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHON": sys.executable,
            "COMMIT": "abc",
        }
        self.add("nvidia-smi", NVIDIA_SMI)

    def add(self, name: str, text: str) -> None:
        """Put a program on the path."""
        path = self.tools / name
        path.write_text(text)
        path.chmod(0o755)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = ["benchmarks/gpu_suite.sh", "--dry-run", str(self.out), *words]
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str]:
        """Exit status and output."""
        process = self.start(*words)
        output, _ = process.communicate()
        return process.returncode, output

    def record(self, part: str) -> Any:
        return json.loads((self.out / f"{part}.json").read_text())

    def archived(self) -> set[str]:
        with tarfile.open(self.out / "results.tar.gz") as archive:
            return set(archive.getnames())


@pytest.fixture
def gpu_suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def make_wheel(folder: Path) -> None:
    folder.mkdir()
    info = "sample-1.0.dist-info"
    with zipfile.ZipFile(folder / "sample-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.mark.ale
def test_every_part(gpu_suite: Suite, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pybind11")  # of the build
    gpu_suite.add("ncu", NCU)
    gpu_suite.add("compute-sanitizer", SANITIZER)
    make_wheel(tmp_path / "wheels")
    gpu_suite.environment["WHEELS"] = str(tmp_path / "wheels")
    status, output = gpu_suite.run()
    assert status == 0, output

    records = {part: gpu_suite.record(part) for part in PARTS}
    for part, record in records.items():
        assert f"{part}: ok, " in output
        assert (record["part"], record["status"], record["dry_run"]) == (part, "ok", True)
        assert (record["commit"], record["device"]["driver"]) == ("abc", "580.00")
        assert record["device"]["architecture"] == "90"
        assert record["torch"]
        assert record["limit_s"] == 480
        assert 0 < record["seconds"] < 480
        for command in record["commands"]:
            assert (command["status"], command["exit_status"]) == ("ok", 0)
            assert f"$ {command['command']}\n" in (gpu_suite.out / f"{part}.log").read_text()
        assert {f"results/{part}.json", f"results/{part}.log"} <= gpu_suite.archived()
    assert not [name for name in gpu_suite.archived() if name.endswith((".pt", ".safetensors"))]

    measured = {part: record["measured"] for part, record in records.items()}
    assert "Would install cule" in (gpu_suite.out / "build.log").read_text()
    assert "sample-1.0" in (gpu_suite.out / "build.log").read_text()
    assert {kernel["name"] for kernel in measured["build"]["kernels"]} >= {"finish_step_kernel"}
    assert "1 passed" in measured["build"]["tests"][-1]
    assert measured["equality"]["steps_compared"] == 6
    assert measured["equality"]["games_equal"] == 2
    kernels = {"cule-cuda@interpreter", "cule-cuda@compiled"}
    for cell in ("emulation-2-pong", "emulation-3-pong"):
        assert set(measured["fps"]["kernels"][cell]["frames_per_s"]) == kernels
        assert len(set(measured["fps"]["kernels"][cell]["digests_of_ram"].values())) == 1
    assert measured["fps-57"]["emulation-2-pong"]["frames_per_s"]["cule-cuda@interpreter"] > 0
    rates = measured["fps-train"]["training-2-pong"]["frames_per_s"]
    assert set(rates) == {"ppo on cule-cuda", "vtrace on cule-cuda"}
    assert min(rates.values()) > 0
    profiles = measured["ncu"]
    assert set(profiles) == {"interpreter-2", "compiled-2"}
    step, finish = profiles["compiled-2"]
    assert step["metrics"] == {"Duration": "12.5 us", "SM Frequency": "1.9 Ghz"}
    assert finish["kernel"] == "cule::finish_step_kernel"
    assert len(measured["sanitizer"]["summaries"]) == 3
    assert set(measured["train"]) == {"ppo-256", "ppo", "vtrace", "apex"}
    for training in measured["train"].values():
        assert training["progress"]["steps"] == 32
        assert training["progress"]["updates_per_s"] > 0
    assert [row["episodes"] for row in measured["train"]["ppo-256"]["evaluations"]] == ["10"]


def test_a_step_that_fails_and_steps_at_their_limit(gpu_suite: Suite) -> None:
    gpu_suite.add("compute-sanitizer", BAD_SANITIZER)
    status, output = gpu_suite.run("--limit-s", "16", "sanitizer")
    assert status == 1, output
    record = gpu_suite.record("sanitizer")
    commands = {c["name"]: c for c in record["commands"]}
    assert commands["memcheck"]["exit_status"] == 9
    states = {name: commands[name]["status"] for name in ("memcheck", "racecheck", "initcheck")}
    assert states == {"memcheck": "failed", "racecheck": "ok", "initcheck": "stopped"}
    assert record["status"] == "failed"
    assert record["measured"]["summaries"] == ["========= ERROR SUMMARY: 1 error"]
    assert "results/sanitizer.json" in gpu_suite.archived()


def test_a_signal_stops_the_suite(gpu_suite: Suite, tmp_path: Path) -> None:
    gpu_suite.add("compute-sanitizer", HANGING_SANITIZER)
    pid_file = tmp_path / "pid"
    gpu_suite.environment["PID_FILE"] = str(pid_file)
    process = gpu_suite.start("sanitizer", "train")
    while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
        assert process.poll() is None
        time.sleep(0.05)
    assert gpu_suite.record("sanitizer")["status"] == "running"
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    record = gpu_suite.record("sanitizer")
    assert record["status"] == record["commands"][-1]["status"] == "stopped"
    assert "results/sanitizer.json" in gpu_suite.archived()
    assert not (gpu_suite.out / "train.json").exists()


def test_nothing_follows_a_build_that_fails(gpu_suite: Suite, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "no.whl").write_text("")
    gpu_suite.environment["WHEELS"] = str(tmp_path / "wheels")
    status, output = gpu_suite.run("build")
    assert status == 1, output
    assert [c["name"] for c in gpu_suite.record("build")["commands"]] == ["install"]
    assert gpu_suite.record("build")["status"] == "failed"


def test_an_unknown_part(gpu_suite: Suite) -> None:
    status, output = gpu_suite.run("fps", "speed")
    assert status == 2
    assert f"unknown part 'speed'; it must be one of {', '.join(PARTS)}" in output
    assert not gpu_suite.out.exists()


def test_without_a_gpu(gpu_suite: Suite) -> None:
    gpu_suite.add("nvidia-smi", "#!/bin/sh\nexit 9\n")
    status, output = gpu_suite.run("fps")
    assert status == 1
    assert "no NVIDIA GPU" in output
