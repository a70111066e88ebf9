"""Compilers of kernels: nvcc, and the tested NVRTC and nvJitLink, which are in `.venv/nvrtc`."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path

from benchmarks.sass.disassembly import find_nvdisasm
from cule.envs import nvrtc

FOLDER = Path(sys.prefix) / "nvrtc"
#: The oldest that is supported, and the newest.
VERSIONS = ("13.0.88", "13.5.37")


def missing_compilers() -> str | None:
    """What is missing; None: nothing."""
    absent = [version for version in VERSIONS if not (FOLDER / version / "installed").exists()]
    if absent:
        return f"NVRTC {', '.join(absent)} is not in {FOLDER}"
    if shutil.which("nvcc") is None:
        return "nvcc is not on the path"
    try:
        find_nvdisasm()
    except FileNotFoundError as error:
        return str(error)
    return None


def toolkit_of(version: str) -> nvrtc.Toolkit:
    """NVRTC of a version, with nvJitLink of the same."""
    (path,) = (FOLDER / version).glob("nvidia/*/lib/libnvrtc.so.*[0-9]")
    (linker,) = path.parent.glob("libnvJitLink.so.*[0-9]")
    library = ctypes.CDLL(str(path))
    found = nvrtc._version_of(library)
    assert version.startswith("{}.{}.".format(*found))
    return nvrtc.Toolkit(str(path), str(linker), found, nvrtc._architectures_of(library))
