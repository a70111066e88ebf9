"""libcule, built once for all tests, and programs in C that are linked with it."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "c" / "random_play.c"
SANITIZERS = "-fsanitize=address,bounds,shift,signed-integer-overflow -fno-sanitize-recover=all"
STRICT = ("-std=c89", "-pedantic", "-Wall", "-Wextra", "-Werror")
#: Flags of the builds, not optimised, because compiling takes most of the time. "simulated" makes
#: AArch64 code, and executes it on this processor; "arm64" is built for AArch64.
KINDS = {
    "plain": "-O0",
    "sanitized": f"-O0 -g1 {SANITIZERS}",
    "simulated": f"-O1 -DCULE_ARM64 -include {ROOT / 'tests' / 'fuzz' / 'arm64_cpu.hpp'}",
    "arm64": "-O1",
}
#: Prefix of the names of a cross compiler's programs.
ARM64 = "aarch64-linux-gnu-"


def run(*words: str | Path, **variables: str) -> str:
    """What a program prints; it must succeed."""
    command = [str(word) for word in words]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-4000:]
    return done.stdout


def tool(name: str) -> str:
    """The path of a program, of this environment or of the system; without it the test is skipped."""
    path = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def install_library(kind: str = "plain") -> Path:
    """Build and install the library; the folder with lib and include."""
    folder = ROOT / "build" / "c_library" / kind
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        settings = {
            "CMAKE_MAKE_PROGRAM": tool("ninja"),
            "CMAKE_INSTALL_PREFIX": folder / "installed",
            "CMAKE_INSTALL_LIBDIR": "lib",
            "CMAKE_BUILD_TYPE": "Debug",
            "CMAKE_CXX_FLAGS_DEBUG": KINDS[kind],
            "CULE_C_LIBRARY": "ON",
            "CULE_LTO": "OFF",
        }
        if kind == "arm64":
            settings["CMAKE_SYSTEM_NAME"] = "Linux"
            settings["CMAKE_SYSTEM_PROCESSOR"] = "aarch64"
            settings["CMAKE_C_COMPILER"] = tool(f"{ARM64}gcc")
            settings["CMAKE_CXX_COMPILER"] = tool(f"{ARM64}g++")
        words = [f"-D{key}={value}" for key, value in settings.items()]
        run(tool("cmake"), "-S", ROOT, "-B", folder / "build", "-G", "Ninja", *words)
        run(tool("cmake"), "--build", folder / "build", "--target", "install")
    return folder / "installed"


def compile_example(compiler: str, installed: Path, folder: Path, *flags: str) -> Path:
    """Compile examples/c/random_play.c with the flags that pkg-config names."""
    words = run(
        tool("pkg-config"), "--cflags", "--libs", "cule",
        PKG_CONFIG_PATH=str(installed / "lib" / "pkgconfig"),
    ).split()  # fmt: skip
    program = folder / "random_play"
    own = [*STRICT, *flags, f"-Wl,-rpath,{installed / 'lib'}"]
    run(tool(compiler), *own, EXAMPLE, *words, "-o", program)
    return program


def ctypes_play() -> ModuleType:
    """The module examples/c/ctypes_play.py."""
    path = EXAMPLE.with_name("ctypes_play.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
