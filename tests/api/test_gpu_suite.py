"""``benchmarks/gpu_suite.sh`` on the mock CUDA device: its lines, how it ends, kit and report."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu_report import report
from benchmarks.gpu_suite import kit
from benchmarks.gpu_suite.lines import FIRST, LINES

ROOT = Path(__file__).parents[2]
FILES = {"summary.json", "suite.log", "results.tar.gz"}

NVIDIA_SMI = """#!/bin/sh
echo "Mock GPU, 580.00, 81559 MiB, 9.0"
"""

#: Runs the program, and writes a log as ``ncu --csv --page raw`` does.
NCU = """#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
log=$2
shift 2
"$@" || exit
cat >"$log" <<'END'
==PROF== Connected to process 1
"ID","Kernel Name","gpu__time_duration.sum","smsp__thread_inst_executed_per_inst_executed.ratio"
"","","us",""
"0","cule::step_consoles_kernel","1,012.5","5.8"
"1","cule::finish_step_kernel","3.5","20"
END
"""

SANITIZER = """#!/bin/sh
[ "$1 $2 $3" = "--error-exitcode 9 --tool" ] || exit 3
shift 4
"$@" || exit
echo "========= ERROR SUMMARY: 0 errors"
"""

#: Finds an error, ends when it is asked to, and hangs.
BAD_SANITIZER = """#!/bin/sh
case $4 in
  memcheck) echo "========= ERROR SUMMARY: 1 error"; exit 9 ;;
  racecheck) trap 'exit 0' TERM; echo waiting; while :; do sleep 0.1; done ;;
  initcheck) exec sleep 1000 ;;
  synccheck) exit 0 ;;
esac
"""

HANGING_SANITIZER = """#!/bin/sh
echo $$ >"$PID_FOLDER/$$"
echo one word
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
            "KIT": str(folder / "no-kit"),
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
            start_new_session=True,
        )

    def run(self, *words: str) -> tuple[int, str]:
        """Exit status and output."""
        process = self.start(*words)
        output, _ = process.communicate()
        return process.returncode, output

    def summary(self) -> Any:
        return json.loads((self.out / "summary.json").read_text())

    def commands(self) -> dict[str, Any]:
        """What the summary says of each command."""
        return {c["name"]: c for line in self.summary()["lines"] for c in line["commands"]}

    def work(self) -> Path:
        """The folder of intermediate files."""
        words = shlex.split(self.commands()["build"]["command"])
        return Path(words[words.index("--target") + 1]).parent

    def archived(self) -> set[str]:
        with tarfile.open(self.out / "results.tar.gz") as archive:
            return {name.partition("/")[2] for name in archive.getnames()}


@pytest.fixture
def gpu_suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


@pytest.fixture(scope="module")
def mock_device() -> None:
    """The mock device, compiled before the time of a run begins."""
    pytest.importorskip("torch")
    pytest.importorskip("pybind11")
    from tests.support import kernels

    kernels.module()


@pytest.mark.long
@pytest.mark.ale
@pytest.mark.usefixtures("mock_device")
def test_every_line(gpu_suite: Suite) -> None:
    """But for that of JAX, which is not installed here."""
    gpu_suite.add("ncu", NCU)
    gpu_suite.add("compute-sanitizer", SANITIZER)
    names = [name for name in LINES if name != "xla"]
    status, output = gpu_suite.run("--seconds", "3000", "--parts", *names)
    assert status == 0, output + (gpu_suite.out / "suite.log").read_text()
    assert "there is no kit" in output

    summary = gpu_suite.summary()
    assert (summary["status"], summary["dry_run"], summary["commit"]) == ("ok", True, "abc")
    assert (summary["device"]["driver"], summary["device"]["architecture"]) == ("580.00", "90")
    assert 0 < summary["seconds"] < summary["budget_s"] == 3000
    assert [line["name"] for line in summary["lines"]] == names
    log = (gpu_suite.out / "suite.log").read_text()
    for line in summary["lines"]:
        assert f"{line['name']}: ok, " in output
        for command in line["commands"]:
            assert (command["status"], command["exit_status"]) == ("ok", 0)
            assert f"$ {command['command']}\n" in log
    assert "Would install cule" in log
    assert log.count("ERROR SUMMARY: 0 errors") == 8
    assert "1 passed" in log
    assert {path.name for path in gpu_suite.out.iterdir()} == FILES
    assert {"summary.json", "suite.log", "resources.json", "pong/progress.jsonl"} <= (
        gpu_suite.archived()
    )
    assert not [name for name in gpu_suite.archived() if name.endswith((".pt", ".safetensors"))]
    assert not gpu_suite.work().exists()

    tables = report(gpu_suite.out)
    for kernel, what in (("interpreter", "3 games"), ("compiled", "pong")):
        assert f"| {kernel} | 1 | {what} | " in tables
    assert "| equal |" in tables
    assert "| pong | 3 | compiled, 1 lanes |" in tables
    assert "| compiled-2 | cule::step_consoles_kernel | 1.012 | 5.8 |" in tables
    assert "| training-2-pong | ppo on cule-cuda |" in tables
    assert "The games of JAXtari, constant actions" in tables
    assert "| 1 threads, emulation-2-pong |" in tables


@pytest.mark.long
@pytest.mark.usefixtures("mock_device")
def test_a_command_that_fails_and_commands_at_their_limit(gpu_suite: Suite) -> None:
    gpu_suite.add("compute-sanitizer", BAD_SANITIZER)
    status, output = gpu_suite.run("--seconds", "30", "--parts", "sanitizers")
    assert status == 1, output
    commands = gpu_suite.commands()
    for kernel in ("interpreter", "compiled"):
        failed = commands[f"memcheck-{kernel}"]
        assert (failed["status"], failed["exit_status"]) == ("failed", 9)
        assert failed["last_words"] == "========= ERROR SUMMARY: 1 error"
        # What ends well when it is asked to is ok.
        assert commands[f"racecheck-{kernel}"]["status"] == "ok"
        assert commands[f"initcheck-{kernel}"]["status"] == "stopped"
        assert commands[f"synccheck-{kernel}"]["status"] == "ok"
    assert "sanitizers: failed" in output
    assert gpu_suite.summary()["seconds"] < 30
    assert "memcheck-compiled (failed):\n\n```\n=" in report(gpu_suite.out)


@pytest.mark.long
@pytest.mark.usefixtures("mock_device")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_run_leaves_its_results(
    gpu_suite: Suite, tmp_path: Path, number: signal.Signals
) -> None:
    gpu_suite.add("compute-sanitizer", HANGING_SANITIZER)
    pids = tmp_path / "pids"
    pids.mkdir()
    gpu_suite.environment["PID_FOLDER"] = str(pids)
    process = gpu_suite.start("--seconds", "100", "--parts", "sanitizers", "cpu")
    while len(list(pids.iterdir())) < 4 or "synccheck" in str(gpu_suite.commands()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate()
    summary = gpu_suite.summary()
    assert [line["name"] for line in summary["lines"]] == ["install", "sanitizers"]
    assert {path.name for path in gpu_suite.out.iterdir()} >= FILES
    assert "Run" in report(gpu_suite.out)
    if number == signal.SIGKILL:
        shutil.rmtree(gpu_suite.work())
    if number == signal.SIGTERM:
        assert process.returncode == 128 + number
        assert summary["status"] == summary["lines"][-1]["status"] == "stopped"
        assert gpu_suite.commands()["memcheck-compiled"]["last_words"] == "one word"
    for path in pids.iterdir():
        if number == signal.SIGKILL:
            os.kill(int(path.name), signal.SIGKILL)
        else:
            with pytest.raises(ProcessLookupError):
                os.kill(int(path.name), 0)


def test_requests_that_are_refused(gpu_suite: Suite) -> None:
    status, output = gpu_suite.run("--parts", "fps", "speed")
    assert status == 2
    assert f"unknown line 'speed'; it must be one of {', '.join(LINES)}" in output
    assert not gpu_suite.out.exists()
    assert FIRST[0] == "install"


def test_without_a_gpu(gpu_suite: Suite) -> None:
    gpu_suite.add("nvidia-smi", "#!/bin/sh\nexit 9\n")
    status, output = gpu_suite.run("--parts", "fps")
    assert status == 1
    assert "no NVIDIA GPU" in output


def test_a_kit_is_used_only_with_its_sources_and_python(tmp_path: Path) -> None:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    about = {"python": python, "sources": kit.sources_digest(), "commit": "abc", "nvrtc": "13.0.88"}
    assert kit.find_kit(tmp_path) == f"there is no kit in {tmp_path}"
    for changes, expected in (
        ({"sources": "0"}, "the kit was made of other sources"),
        ({"python": "2.7"}, f"the kit is for Python 2.7, and this is {python}"),
        ({}, about),
    ):
        (tmp_path / "kit.json").write_text(json.dumps(about | changes))
        assert kit.find_kit(tmp_path) == expected


@pytest.mark.long
@pytest.mark.compilers
def test_kernels_of_a_kit_are_those_that_environments_ask_for(tmp_path: Path) -> None:
    """Compiled by processes of their own, packed, and unpacked into an empty cache."""
    from benchmarks.compile_games import VARIANTS
    from tests.support.compilers import FOLDER

    path = os.pathsep.join([str(FOLDER / "13.0.88"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "CULE_CACHE": str(tmp_path / "one")}
    make = [sys.executable, "-m", "benchmarks.gpu_suite.make_kit", "--pack", "--out"]
    done = subprocess.run(
        [*make, str(tmp_path), "--games", "pong", "--jobs", "1"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(" lanes")[0] for line in lines[:2]] == ["all games, 1", "all games, 2"]
    assert lines[-1] == "4 kernels"
    assert kit.unpack(tmp_path, tmp_path / "two") == 4

    ask = (
        "from benchmarks.compile_games import wanted_kernel\n"
        f"for lanes in {list(VARIANTS.values())}:\n"
        "    wanted = wanted_kernel('pong', lanes, 90)\n"
        "    print(wanted.path.is_file(), wanted.shared_path.is_file())\n"
    )
    environment["CULE_CACHE"] = str(tmp_path / "two")
    found = subprocess.run(
        [sys.executable, "-c", ask],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["True"] * 4
