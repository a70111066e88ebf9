"""Builds the fuzz targets in C++ from the sources of the core, with sanitizers."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "fuzz"

#: Targets: programs with one ``LLVMFuzzerTestOneInput``.
TARGETS = ("rom", "translation", "snapshot", "rules", "batch")
SOURCES = (
    *(f"csrc/host/engine_{family}.cpp" for family in ("bank", "e0", "fe")),
    *(f"csrc/jit/{name}.cpp" for name in ("instructions", "operands", "translation", "translator")),
)
#: Sources of one target only.
OWN_SOURCES = dict.fromkeys(("snapshot", "batch"), ("csrc/host/batch.cpp",))
COMMON = ("-std=c++17", "-ffp-contract=off", "-pthread", "-fno-sanitize-recover=all")
INCLUDE = (f"-I{ROOT / 'csrc'}", f"-I{FOLDER}")


class Builder:
    """Compiles into a folder; each source once."""

    def __init__(self, folder: Path, compiler: Sequence[str], flags: Sequence[str]) -> None:
        """`flags` are for compiling and linking."""
        self.folder, self.command = folder, [*compiler, *COMMON, *flags]
        folder.mkdir(parents=True, exist_ok=True)

    def build(self, name: str, *others: str, link: Sequence[str] = ()) -> Path:
        """Build ``tests/fuzz/NAME.cpp`` with the core and `others`, files next to it."""
        own = [FOLDER / f"{file}.cpp" for file in (name, *others)]
        core = [ROOT / source for source in (*SOURCES, *OWN_SOURCES.get(name, ()))]
        objects = [str(self._compile(source)) for source in (*own, *core)]
        program = self.folder / name
        subprocess.run([*self.command, *objects, *link, "-o", str(program)], check=True)
        return program

    def _compile(self, source: Path) -> Path:
        compiled = self.folder / f"{source.parent.name}_{source.stem}.o"
        if not compiled.exists():
            words = [*self.command, *INCLUDE, "-c", str(source), "-o", str(compiled)]
            subprocess.run(words, check=True)
        return compiled
