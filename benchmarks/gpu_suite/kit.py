"""Kit of the GPU suite for a machine without a network: ``make gpu-kit``.

The folder `KIT` has wheels (cule for one Python and sm_90, and packages that the machine lacks),
compiled kernels, and ``kit.json``, which says what they were made of. Only the standard library is
imported here: nothing else may be installed yet.

    python -m benchmarks.gpu_suite.kit FOLDER    # unpack the kernels of a kit, to CULE_CACHE
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

from benchmarks.gpu_suite.device import ROOT

KIT = ROOT / "build" / "gpu-kit"
KERNELS = "kernels.tar.xz"


def sources_digest() -> str:
    """Hash of the files that cule is built of."""
    state = hashlib.sha256()
    files = [ROOT / "CMakeLists.txt", ROOT / "pyproject.toml"]
    for folder, patterns in (("csrc", ("*.?pp", "*.cu")), ("cule", ("*.py", "*.pyi", "*.toml"))):
        files += [path for pattern in patterns for path in (ROOT / folder).rglob(pattern)]
    for path in sorted(files):
        state.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return state.hexdigest()


def find_kit(folder: Path) -> dict[str, Any] | str:
    """Return the description of a kit, or why this interpreter cannot use it."""
    try:
        about: dict[str, Any] = json.loads((folder / "kit.json").read_text())
    except OSError:
        return f"there is no kit in {folder}"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if about["python"] != python:
        return f"the kit is for Python {about['python']}, and this is {python}"
    if about["sources"] != sources_digest():
        return "the kit was made of other sources"
    return about


def unpack(folder: Path, cache: Path) -> int:
    """Put the compiled kernels of a kit into a cache; their number."""
    cache.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / KERNELS) as archive:
        archive.extractall(cache, filter="data")
        return len(archive.getnames())


if __name__ == "__main__":
    print(f"{unpack(Path(sys.argv[1]), Path(os.environ['CULE_CACHE']))} files of kernels unpacked")
