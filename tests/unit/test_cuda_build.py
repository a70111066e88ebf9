"""For which GPUs the CUDA back end is built: configurations of CMake, without a compilation."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CMAKE = Path(sys.executable).parent / "cmake"

pytestmark = pytest.mark.skipif(
    not CMAKE.exists() or importlib.util.find_spec("pybind11") is None,
    reason="needs cmake and pybind11 next to the interpreter",
)
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def configure(folder: Path, capabilities: Sequence[str], **variables: str) -> str:
    """What CMake says where nvidia-smi names these GPUs."""
    tools = folder / "tools"
    tools.mkdir()
    program = tools / "nvidia-smi"
    lines = "".join(f"echo {capability}\n" for capability in capabilities)
    program.write_text(f"#!/bin/sh\n{lines or 'echo No devices were found; exit 6'}")
    program.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CULE_")}
    environment["PATH"] = f"{tools}:{CMAKE.parent}:{os.environ['PATH']}"
    command = [CMAKE, "-S", ROOT, "-B", folder / "build", "-G", "Ninja"]
    command += [f"-DPython_EXECUTABLE={sys.executable}"]
    command += [f"-D{key}={value}" for key, value in variables.items()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_gpu_the_cpu_back_end_alone_is_built(tmp_path: Path) -> None:
    assert "No GPU here: the CPU back end alone is built" in configure(tmp_path, [])


@needs_nvcc
@pytest.mark.long
@pytest.mark.parametrize(
    ("capabilities", "built"),
    [
        (["9.0", "9.0", "8.6"], "90-real 86-real"),
        (["10.0"], "100-real"),
        (["99.0"], "120-virtual"),  # newer than nvcc
    ],
)
def test_for_the_gpus_of_this_machine(capabilities: list[str], built: str, tmp_path: Path) -> None:
    assert f"architectures {built}\n" in configure(tmp_path, capabilities)


@pytest.mark.long
@needs_nvcc
def test_for_all_or_for_some(tmp_path: Path) -> None:
    for name, variables, built in (
        ("all", {"CULE_CUDA": "ON"}, "75-real 80-real 86-real 89-real 90-real 100-real"),
        ("some", {"CULE_CUDA_ARCHITECTURES": "80-real;90"}, "80-real 90\n"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        assert f"architectures {built}" in configure(folder, ["9.0"], **variables)
