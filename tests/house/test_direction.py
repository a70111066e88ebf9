"""Data flows one way: which room of the core, and which part of the package, may know which.

A new edge is a change of the tables below, and is argued for there.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CSRC = ROOT / "csrc"
PACKAGE = ROOT / "cule"

CORE = {"base", "cart", "cpu", "riot", "tia", "console", "game", "obs", "env"}

#: Room of csrc/: the other rooms it may include.
MAY_INCLUDE: dict[str, set[str]] = {
    "base": set(),
    "cart": {"base"},
    "cpu": {"base"},
    "riot": {"base"},
    "tia": {"base"},
    "game": {"base"},
    "console": {"base", "cart", "cpu", "riot", "tia"},
    "obs": {"base", "tia"},
    "env": {"base", "console", "game"},
    "batch": {"base", "console", "game", "obs", "env"},
    "jit": CORE,
    "warp": CORE,
    # rom_kernel: coverage gives it the places that a game reaches.
    "host": CORE | {"batch", "jit", "rom_kernel"},
    "cuda": CORE | {"batch", "warp"},
    "rom_kernel": CORE | {"cuda", "warp"},
    # Memories of learners know nothing of consoles.
    "replay": {"base"},
    # The interface for C. obs: its palettes.
    "capi": {"host", "obs"},
    # env, game and obs: single functions for Python.
    "bindings": {
        *("base", "batch", "host", "cuda", "rom_kernel", "env", "game", "obs", "replay"),
    },
}

#: Part of cule/: the other parts it may import. Single modules: errors, device, roms,
#: files, reading, lazy, tensor_files, pickles, option_fields, familiar_names, progress, signals, zoo.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "reading": {"errors"},
    "files": {"errors", "reading"},
    "lazy": {"errors"},
    "tensor_files": {"errors", "files", "pickles", "reading"},
    "pickles": {"errors", "reading"},
    "option_fields": {"errors", "familiar_names"},
    "familiar_names": {"errors"},
    "progress": set(),
    "signals": set(),
    "device": {"errors"},
    "games": {"errors", "files", "reading"},
    "envs": {
        *("errors", "files", "reading", "lazy", "option_fields", "familiar_names"),
        "device",
        *("games", "_core", "_cuda"),
    },
    # The learners: replay memories, networks and mathematics know nothing of environments.
    # The native module has what replay does on a processor.
    "replay": {
        *(
            "errors",
            "files",
            "device",
            "lazy",
            "tensor_files",
            "option_fields",
            "familiar_names",
            "kernels",
        ),
        "_core",
    },
    "nets": {"errors", "lazy"},
    "algos": {"errors", "lazy", "kernels"},
    # What they have of their own on a GPU, reached through device.
    "kernels": {"device"},
    # The package itself for its version, in checkpoints.
    "agents": {
        *("errors", "files", "reading", "lazy", "tensor_files", "option_fields", "progress"),
        *("signals", "familiar_names", "zoo", ""),
        *("games", "envs", "replay", "nets", "algos", "kernels"),
    },
    # What users see: the package's own names, games, and the learners where they are timed; envs
    # to compare launch geometries.
    "bench": {
        *("errors", "files", "reading", "option_fields", "familiar_names", "games", "envs", "nets"),
        *("algos", "agents", ""),
    },
    # Engines of bench; envs for launch geometries.
    "check": {
        *("errors", "files", "option_fields", "familiar_names", "device", "games", "envs"),
        *("bench", ""),
    },
    # The learners for their checkpoints, imported late; the native module for its palettes.
    "watch": {
        *("errors", "files", "option_fields", "familiar_names", "signals", "games", "envs"),
        *("agents", "_core"),
    },
    # Action logs of environments; watch for the policy of a checkpoint, imported late.
    "datasets": {
        "errors",
        "files",
        "reading",
        "option_fields",
        "familiar_names",
        "progress",
        "signals",
        "lazy",
        "device",
        "games",
        "envs",
        "watch",
        "",
    },
    # Archives of snapshots.
    "search": {"errors", "files", "reading", "envs"},
    # Adapters to other libraries.
    "wrappers": {"errors", "lazy", "option_fields", "familiar_names", "envs", "games", ""},
    "cli": {
        *("errors", "files", "familiar_names", "device", "games", "", "envs", "agents", "bench"),
        *("check", "watch", "datasets", "zoo"),
    },
    # The adapter to PettingZoo, a package for its two names.
    "pettingzoo": {"errors", "familiar_names", "envs", "games", "lazy"},
    "roms": {"errors", "games"},
    "zoo": {"errors", "reading"},
    "": {"errors", "envs", "lazy", "roms", "_core"},  # cule/__init__.py
}

#: Packages outside the standard library that the package may import, and where: None is everywhere.
OTHERS: dict[str, set[str] | None] = {
    "numpy": None,
    "gymnasium": {"agents", "datasets", "envs", "pettingzoo", "wrappers"},
    "tomllib": {"games"},
    "tomli": {"games"},
    # Engines that cule is compared with, and plots; all imported late.
    "ale_py": {"bench"},
    "envpool": {"bench"},
    # Weights, where it is installed; imported late.
    "safetensors": {"agents"},
    "matplotlib": {"agents", "bench"},
    # Libraries that the package is adapted to: each in a module that is imported by name.
    "dm_env": {"wrappers"},
    "jax": {"envs"},
    "fastapi": {"wrappers"},
    "minari": {"datasets"},
    "openenv": {"wrappers"},
    "pettingzoo": {"pettingzoo"},
    "pydantic": {"wrappers"},
    "ray": {"agents", "wrappers"},
    "stable_baselines3": {"wrappers"},
    "tensordict": {"wrappers"},
    "torchrl": {"wrappers"},
    "uvicorn": {"wrappers"},
}

#: Parts that need torch, and are imported only by those who ask for them.
LEARNERS = {"replay", "nets", "algos", "agents", "kernels", "tensor_files"}

#: Adapters that are imported by name and need torch.
TORCH_ADAPTERS = {"wrappers/objects.py", "wrappers/torchrl.py"}

#: Modules that exist for a GPU, and are imported only when a batch is made for one.
ON_GPU = {"envs/cuda_batch.py", "envs/device_memory.py", "envs/launch.py"}

#: Scripts outside the package, and the modules of the package that they may import.
SCRIPTS: dict[str, set[str]] = {
    # png: what the demonstration writes its picture with; launch: geometries that are compared;
    # translation, with options and plan for its games: what is compiled while the clock stands;
    # device: the kernels, whose resources the driver knows; games.objects and games.modifications:
    # what the report counts.
    "benchmarks": {
        *("cule", "cule.device", "cule.envs.launch", "cule.envs.png", "cule.replay"),
        *("cule.envs", "cule.envs.translation", "cule.envs.options", "cule.envs.plan"),
        *("cule.bench.engines", "cule.bench.games", "cule.bench.interleaved"),
        *("cule.bench.machine", "cule.bench.memory"),
        *("cule.check.equality", "cule.agents", "cule.wrappers.sb3", "cule.datasets"),
        *("cule.errors", "cule.games", "cule.pettingzoo", "cule.search"),
        *("cule.games.modifications", "cule.games.objects"),
    },
    "examples": {
        "cule",
        "cule.datasets",
        "cule.replay",
        "cule.roms",
        "cule.search",
        "cule.wrappers",
        "cule.wrappers.openenv",
        "cule.wrappers.sb3",
        "cule.wrappers.torchrl",
    },
    # games: what a record of ale-py is a record of; cule: of its snapshots, and of objects.
    "roms_tools": {"cule", "cule.games", "cule.games.objects"},
}


def core_files() -> list[Path]:
    """Every C++ file of the core and its back ends."""
    return sorted(
        path for path in CSRC.rglob("*") if path.suffix in (".hpp", ".cpp", ".cu", ".cuh")
    )


def python_files() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The part of the package that a file belongs to."""
    relative = path.relative_to(PACKAGE)
    first = relative.parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def imported_modules(tree: ast.AST) -> set[str]:
    """Dotted names of what a file imports, at any depth, torch's late import included."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            if node.module == "cule":
                names |= {f"cule.{alias.name}" for alias in node.names}
            else:
                names.add(node.module)
    return names


def test_the_tables_have_no_cycles() -> None:
    for table in (MAY_INCLUDE, {part: edges - {part} for part, edges in MAY_IMPORT.items()}):
        remaining = {room: edges & set(table) for room, edges in table.items()}
        while remaining:
            free = {room for room, edges in remaining.items() if not edges & set(remaining)}
            assert free, f"a cycle among {sorted(remaining)}"
            remaining = {room: edges for room, edges in remaining.items() if room not in free}


def included_files(path: Path) -> list[str]:
    """Files of csrc/ that a C++ file includes, as it names them."""
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)


def test_architecture_has_the_same_table() -> None:
    rows = re.findall(
        r"^\| `csrc/(\w+)` \|.*\| ([^|]+) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE
    )
    documented = {room: set(edges.split(", ")) - {"nothing"} for room, edges in rows}
    for edges in documented.values():
        if "core" in edges:
            edges.remove("core")
            edges |= CORE
    assert documented == MAY_INCLUDE


@pytest.mark.parametrize("path", core_files(), ids=lambda path: str(path.relative_to(CSRC)))
def test_includes(path: Path) -> None:
    room = path.relative_to(CSRC).parts[0]
    for included in included_files(path):
        assert (CSRC / included).is_file(), f"{included} is not named from csrc/"
        assert not included.endswith(".cpp")
        other = included.split("/")[0]
        assert other == room or other in MAY_INCLUDE[room], f"{room} may not include {included}"


def test_device_code_includes_nothing_of_the_host() -> None:
    """The accelerators of the CPU back end are out of sight of the core and of every kernel."""
    remaining = {
        str(path.relative_to(CSRC))
        for path in core_files()
        if path.relative_to(CSRC).parts[0] in CORE | {"cuda", "rom_kernel", "warp"}
    }
    assert {"cuda/step_kernel.hpp", "rom_kernel/program.hpp", "console/machine.hpp"} <= remaining
    reached: set[str] = set()
    while remaining:
        name = remaining.pop()
        reached.add(name)
        remaining |= set(included_files(CSRC / name)) - reached
    assert not {name for name in reached if name.startswith("host/")}


@pytest.mark.parametrize("path", core_files(), ids=lambda path: str(path.relative_to(CSRC)))
def test_only_bindings_know_python(path: Path) -> None:
    if path.relative_to(CSRC).parts[0] != "bindings":
        assert not re.search(r"#\s*include\s+[<\"](pybind11|Python\.h|torch)", path.read_text())


@pytest.mark.parametrize("path", core_files(), ids=lambda path: str(path.relative_to(CSRC)))
def test_device_conditions_are_in_platform_hpp_alone(path: Path) -> None:
    if path != CSRC / "base" / "platform.hpp":
        assert "__CUDA_ARCH__" not in path.read_text()
        assert "__CUDACC__" not in path.read_text()


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports(path: Path) -> None:
    part = part_of(path)
    for module in imported_modules(ast.parse(path.read_text())):
        first, _, rest = module.partition(".")
        if first == "cule":
            other = rest.split(".")[0]
            # Other names (`from cule import __version__`) are those of cule/__init__.py.
            is_module = (PACKAGE / other).is_dir() or (PACKAGE / f"{other}.py").is_file()
            other = other if is_module or other in ("_core", "_cuda") else ""
            assert other == part or other in MAY_IMPORT[part], f"{part} may not import {module}"
        elif first in OTHERS:
            allowed = OTHERS[first]
            assert allowed is None or part in allowed, f"{part} may not import {module}"
        else:
            assert first not in ("benchmarks", "roms_tools", "tests"), module


@pytest.mark.parametrize("folder", sorted(SCRIPTS))
def test_scripts_use_the_public_package(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        modules = imported_modules(ast.parse(path.read_text()))
        ours = {module for module in modules if module.split(".")[0] == "cule"}
        assert ours <= SCRIPTS[folder], path


def test_torch_is_imported_late_and_in_one_place_outside_the_learners() -> None:
    importers = []
    for path in python_files():
        if part_of(path) in LEARNERS:
            continue
        tree = ast.parse(path.read_text())
        if any(name.split(".")[0] == "torch" for name in imported_modules(tree)):
            name = path.relative_to(PACKAGE).as_posix()
            if name in ON_GPU | TORCH_ADAPTERS:
                continue
            if part_of(path) != "bench":  # measures whatever there is
                importers.append(name)
            top = {
                name
                for node in tree.body
                if isinstance(node, ast.Import | ast.ImportFrom)
                for name in imported_modules(node)
            }
            assert not any(name.startswith("torch") for name in top)
    assert set(importers) == {
        "device.py",
        "envs/checks.py",  # for its type
        "envs/host_memory.py",
        "envs/options.py",  # for its type
    }


def test_modules_for_a_gpu_are_imported_late() -> None:
    modules = {"cule." + name.removesuffix(".py").replace("/", ".") for name in ON_GPU}
    for path in python_files():
        if path.relative_to(PACKAGE).as_posix() in ON_GPU:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not imported_modules(node) & modules, path


def test_learners_are_imported_late() -> None:
    for path in python_files():
        if part_of(path) not in LEARNERS:
            tree = ast.parse(path.read_text())
            for node in tree.body:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names = {name.split(".")[1] for name in imported_modules(node) if "." in name}
                    assert not names & LEARNERS, path
