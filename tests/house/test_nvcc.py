"""The core is host and device code: nvcc compiles it as it stands."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NVCC = shutil.which("nvcc")


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
def test_core_compiles_for_the_device(tmp_path: Path) -> None:
    """One console a thread, from actions to a drawn picture, becomes device code without a warning."""
    ptx = tmp_path / "core.ptx"
    done = subprocess.run(
        [
            str(NVCC),
            "-std=c++17",
            "-arch=sm_90",
            "-fmad=false",
            f"-I{ROOT / 'csrc'}",
            "-ptx",
            "-o",
            str(ptx),
            str(ROOT / "tests" / "cpp" / "core_on_device.cu"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    assert "step_console_kernel" in ptx.read_text()
