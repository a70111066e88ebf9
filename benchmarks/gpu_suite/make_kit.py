"""Make the kit of the GPU suite, on a machine without a GPU: ``make gpu-kit``.

Builds a wheel of cule with nvcc as a Python package, fetches the wheels that the GPU's machine
lacks, and compiles the kernels of 57 games in both variants with the NVRTC of its torch.

    python -m benchmarks.gpu_suite.make_kit --python python3.12
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from benchmarks.compile_games import VARIANTS, compile_games, wanted_kernel
from benchmarks.gpu_suite.device import ROOT, commit
from benchmarks.gpu_suite.kit import KERNELS, KIT, sources_digest
from cule.bench.games import games_named
from cule.envs import translation
from cule.errors import DeviceError

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
        # That of the packages, whatever this machine has.
        (nvcc,) = Path(scratch).glob("lib/python*/site-packages/nvidia/*/bin/nvcc")
        environment |= {"CUDACXX": str(nvcc), "CUDAFLAGS": f"-L{nvcc.parents[1] / 'lib'}"}
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
    command = [sys.executable, "-m", "benchmarks.gpu_suite.make_kit", *words]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)


def main() -> None:
    """Make the kit, or pack its kernels."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=KIT)
    parser.add_argument("--python", default="python3.12", help="interpreter of the GPU's machine")
    parser.add_argument("--nvrtc", type=Path, help=f"folder of the packages of NVRTC {CUDA}")
    parser.add_argument("--games", nargs="+", default=["57"], help="names, or default, 57, all")
    parser.add_argument("--jobs", type=int, help="compilations at a time")
    parser.add_argument("--pack", action="store_true", help="compile and pack kernels, no more")
    options = parser.parse_args()
    options.out = folder = options.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if options.pack:
        print(f"{pack_kernels(folder, list(games_named(options.games)), options.jobs)} kernels")
        return
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
    return


def _version_of(python: str) -> str:
    test = "import sys; print('{}.{}'.format(*sys.version_info))"
    done = subprocess.run([python, "-c", test], capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
