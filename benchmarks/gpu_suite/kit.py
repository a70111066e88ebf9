"""The kit that the GPU suite takes along to a machine without a network: ``make gpu-kit``.

A folder, `KIT`, with wheels (cule for CPython 3.12 and sm_90, and what the machine lacks), the
compiled kernels of 57 games in both variants, and ``kit.json``, which says what they were made of.
A kit whose sources are not those of the checkout is not used.

    python -m benchmarks.gpu_suite.kit --python python3.12 --nvrtc FOLDER
    python -m benchmarks.gpu_suite.kit --unpack FOLDER    # the kernels, to a cache
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.compile_games import VARIANTS, compile_games, wanted_kernel
from benchmarks.gpu_suite.device import ROOT, commit
from cule.bench.games import games_named
from cule.envs import translation
from cule.errors import DeviceError

KIT = ROOT / "build" / "gpu-kit"
KERNELS = "kernels.tar.xz"

#: Compute capability that the kit is for.
ARCHITECTURE = 90

#: CUDA of the compilers: that of the torch that the machine has.
CUDA = "13.0.88"

#: Packages that the machine lacks, with their versions in constraints.txt where they are there.
PACKAGES = ("gymnasium", "farama-notifications", "ale-py", "cloudpickle", "typing-extensions")

#: nvcc as Python packages, to build cule with. The run-time library has a number of its own.
COMPILERS = (
    *(f"nvidia-cuda-{name}=={CUDA}" for name in ("nvcc", "crt")),
    f"nvidia-nvvm=={CUDA}",
    "nvidia-cuda-runtime==13.0.*",
)


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
    """Read what a kit says of itself, or why it cannot be used by this interpreter."""
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


def wheels_of(folder: Path) -> list[str]:
    """The wheels of a kit."""
    return sorted(map(str, (folder / "wheels").glob("*.whl")))


def unpack(folder: Path, cache: Path) -> None:
    """Put the compiled kernels of a kit into a cache."""
    cache.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / KERNELS) as archive:
        archive.extractall(cache, filter="data")


def make_wheels(folder: Path, python: str) -> None:
    """Build cule for a Python, with an nvcc of Python packages, and fetch the other wheels."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    for old in wheels.glob("*.whl"):
        old.unlink()
    constraints = ["-c", str(ROOT / "constraints.txt")]
    environment = {**os.environ, "CULE_CUDA_ARCHITECTURES": str(ARCHITECTURE)}
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([python, "-m", "venv", scratch], check=True)
        build = f"{scratch}/bin/python"
        pip = [build, "-m", "pip"]
        tools = ("scikit-build-core", "pybind11", "cmake", "ninja")
        subprocess.run([*pip, "install", "-q", *constraints, *tools, *COMPILERS], check=True)
        environment["PATH"] = f"{scratch}/bin:{environment['PATH']}"
        into = ["-q", "--no-deps", "--wheel-dir", str(wheels)]
        options = ["--no-build-isolation", "-C", "cmake.define.CULE_CUDA=ON"]
        subprocess.run([*pip, "wheel", *into, *options, str(ROOT)], check=True, env=environment)
        fetch = [*pip, "wheel", *into, *constraints, "--only-binary", ":all:"]
        subprocess.run([*fetch, *PACKAGES], check=True)


def pack_kernels(folder: Path, games: list[str], jobs: int | None) -> int:
    """Compile the kernels of games, as far as the cache lacks them, and pack them; their number.

    Raises:
        DeviceError: The NVRTC that this process finds is not that of the machine.
    """
    version = "{}.{}".format(*translation.toolkit().version)
    if not CUDA.startswith(f"{version}."):
        raise DeviceError(f"NVRTC {version} was found; kernels of a kit are made with {CUDA}")
    for line in compile_games(games, list(VARIANTS), ARCHITECTURE, jobs):
        print(line, flush=True)
    wanted = [
        wanted_kernel(game, lanes, ARCHITECTURE) for game in games for lanes in VARIANTS.values()
    ]
    paths = {path for kernel in wanted for path in (kernel.path, kernel.shared_path)}
    with tarfile.open(folder / KERNELS, "w:xz", preset=6) as archive:
        for path in sorted(paths):
            archive.add(path, arcname=path.name)
    return len(paths)


def _pack_in_process(options: argparse.Namespace, packages: Path) -> None:
    """`pack_kernels` in a process that finds the NVRTC of a folder of packages."""
    words = ["--pack", "--out", str(options.out), "--games", *options.games]
    words += ["--jobs", str(options.jobs)] if options.jobs else []
    # Kept, so that a second kit is quick.
    cache = options.out.with_name(f"{options.out.name}-kernels")
    path = os.pathsep.join([str(packages), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "CULE_CACHE": str(cache)}
    command = [sys.executable, "-m", "benchmarks.gpu_suite.kit", *words]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)


def main() -> None:
    """Make the kit, or unpack its kernels."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=KIT)
    parser.add_argument("--python", default="python3.12", help="interpreter of the GPU's machine")
    parser.add_argument("--nvrtc", type=Path, help=f"folder of the packages of NVRTC {CUDA}")
    parser.add_argument("--games", nargs="+", default=["57"], help="names, or default, 57, all")
    parser.add_argument("--jobs", type=int, help="compilations at a time")
    parser.add_argument("--pack", action="store_true", help="compile and pack kernels, no more")
    parser.add_argument("--unpack", type=Path, metavar="FOLDER", help="unpack kernels, no more")
    options = parser.parse_args()
    options.out = folder = options.out.resolve()
    if options.unpack:
        return unpack(folder, options.unpack)
    folder.mkdir(parents=True, exist_ok=True)
    if options.pack:
        print(f"{pack_kernels(folder, list(games_named(options.games)), options.jobs)} kernels")
        return None
    begin = time.monotonic()
    make_wheels(folder, options.python)
    with tempfile.TemporaryDirectory() as scratch:
        packages = options.nvrtc or Path(scratch)
        if options.nvrtc is None:
            names = (f"nvidia-cuda-nvrtc=={CUDA}", f"nvidia-nvjitlink=={CUDA}")
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
            subprocess.run([*command, str(packages), *names], check=True)
        _pack_in_process(options, packages.resolve())
    about = {
        "python": _version_of(options.python),
        "commit": commit(),
        "sources": sources_digest(),
        "architecture": ARCHITECTURE,
        "nvrtc": CUDA,
        "seconds": round(time.monotonic() - begin),
    }
    (folder / "kit.json").write_text(json.dumps(about, indent=1) + "\n")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB, {about['seconds']} s")
    return None


def _version_of(python: str) -> str:
    test = "import sys; print('{}.{}'.format(*sys.version_info))"
    done = subprocess.run([python, "-c", test], capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
