"""Files are old or new, never half, wherever their writer is killed or refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.support.cases import long_except
from tests.support.fault_calls import OPERATIONS

ROOT = Path(__file__).parents[2]

#: In the short form, of the operations that take long: every so many calls.
STRIDES = {"run": 11, "checkpoint": 2, "weights": 2, "rom-import": 3}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="calls are replaced with LD_PRELOAD"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The calls that fail, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None
    path = tmp_path_factory.mktemp("library") / "fault_calls.so"
    source = ROOT / "tests" / "support" / "fault_calls.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", path, source, "-ldl"], check=True)
    return path


def interrupt(library: Path, name: str, folder: Path, stride: int) -> list[str]:
    """What was left after each interruption."""
    if name == "weights":
        pytest.importorskip("safetensors")
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.fault_calls", name, folder, str(stride)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *left, calls = done.stdout.splitlines()
    assert int(calls.removeprefix("calls ")) >= 3
    return left


@pytest.mark.ale
@pytest.mark.parametrize("name", long_except(OPERATIONS, "rom-import"))
def test_a_sample_of_calls(library: Path, name: str, tmp_path: Path) -> None:
    left = interrupt(library, name, tmp_path / "folder", STRIDES.get(name, 1))
    assert {"old", "new"} <= set(left)


@pytest.mark.slow
@pytest.mark.ale
@pytest.mark.parametrize("name", STRIDES)
def test_every_call(library: Path, name: str, tmp_path: Path) -> None:
    assert {"old", "new"} <= set(interrupt(library, name, tmp_path / "folder", 1))
