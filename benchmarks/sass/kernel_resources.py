"""Registers, stack and spills of each CUDA kernel, as the compiler reports them.

Compiles csrc/cuda/*.cu for one architecture and writes `benchmarks/kernel_resources.json`; needs
nvcc and no GPU. Run from a checkout:

    python -m benchmarks.sass.kernel_resources
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "benchmarks" / "kernel_resources.json"
ARCHITECTURE = "sm_90"
#: As cmake/cuda.cmake has them.
FLAGS = (
    *("-std=c++17", "-O3", "-DNDEBUG", "-fmad=false", "--Werror=cross-execution-space-call"),
    *(f"-arch={ARCHITECTURE}", f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'csrc' / 'cuda' / 'device'}"),
)
#: In the names of the instruction loops.
_LOOP = "run_step_in_lanes"

#: The name of a kernel, in its source.
KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(")
_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_FUNCTION = re.compile(r"Function properties for (\w+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers.*?(?:, (\d+) bytes smem)?$")


def toolkit() -> str:
    """Release of nvcc."""
    text = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout
    return str(re.findall(r"release [\d.]+, V([\d.]+)", text)[0])


def measure() -> dict[str, Any]:
    """The record: the resources of every kernel."""
    kernels: dict[str, dict[str, int]] = {}
    for source in sorted((ROOT / "csrc" / "cuda").glob("*.cu")):
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "kernels.cubin"
            command = ["nvcc", *FLAGS, "-Xptxas", "-v", "-cubin", "-o", str(target)]
            done = subprocess.run(
                [*command, str(source)], check=True, capture_output=True, text=True
            )
        kernels |= _parse(done.stderr)
    return {"architecture": ARCHITECTURE, "nvcc": toolkit(), "kernels": kernels}


def _parse(text: str) -> dict[str, dict[str, int]]:
    """Kernels in the output of ptxas; of functions out of line, the instruction loops only."""
    kernels: dict[str, dict[str, int]] = {}
    name = ""
    function = ""
    for line in text.splitlines():
        if entry := _ENTRY.search(line):
            name = readable(entry[1])
            kernels[name] = {}
        elif properties := _FUNCTION.search(line):
            function = properties[1]
        elif found := _STACK.search(line):
            stack, stores, loads = (int(number) for number in found.groups())
            if _LOOP in function:
                kernels[name] |= {"loop_spill_store_bytes": stores, "loop_spill_load_bytes": loads}
            elif "stack_bytes" not in kernels[name]:  # the kernel's own line comes first
                kernels[name] |= {"stack_bytes": stack}
                kernels[name] |= {"spill_store_bytes": stores, "spill_load_bytes": loads}
        elif used := _USED.search(line):
            kernels[name]["registers"] = int(used[1])
            kernels[name]["static_shared_bytes"] = int(used[2] or 0)
    return kernels


def readable(symbol: str) -> str:
    """Name of a kernel, without namespaces and parameters."""
    text = subprocess.run(["c++filt", symbol], check=True, capture_output=True, text=True).stdout
    text = re.sub(r"cule::|\(anonymous namespace\)::|^void ", "", text.strip())
    return re.sub(r"\(.*$", "", text)


def main() -> None:
    """Write the record."""
    record = measure()
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    for name, numbers in record["kernels"].items():
        print(f"{name:40}", *(f"{key} {value}" for key, value in numbers.items()))


if __name__ == "__main__":
    main()
