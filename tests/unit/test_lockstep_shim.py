"""The lockstep shim (tests/shim) runs kernels as CUDA does and notices what CUDA leaves undefined."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "cpp" / "lockstep_cases.cu"
NVCC = shutil.which("nvcc")

ORDERS = ("forward", "reverse", "random:1", "random:20")

#: Cases that compare results with plain loops; no order of the threads changes any of them.
RIGHT = (
    "after_failure",
    "atomics",
    "barriers",
    "counters",
    "divergent",
    "host_api",
    "partial_warps",
    "shared_memory",
    "shuffles",
    "two_host_threads",
    "votes",
)

#: Cases that break a rule, and what the shim says.
WRONG = {
    "above_shared": "a block wrote offset 100 of its 100 bytes of dynamic shared memory",
    "barriers": "threads of the block wait at different barriers",
    "below_shared": "a block wrote below the start of its 100 bytes of dynamic shared memory",
    "half_in_barrier": "deadlock: not all threads of the block come to the barrier",
    "intrinsic": "lanes named in the mask wait at different calls",
    "lane_goes": "this lane exits, but the mask of a waiting one names it",
    "lane_is_gone": "the mask names lanes that have exited",
    "lane_never_was": "the mask names lanes that have exited",
    "mask_without_self": "the mask does not name the calling lane",
    "masks_differ": "lanes wait in the same call with differing masks",
    "place": "lanes named in the mask wait at different calls",
    "ring": "deadlock: no thread can run",
    "shuffle": "a shuffle reads from a lane that the mask does not name",
    "stuck_masks": "deadlock: lanes wait with differing masks",
    "stuck_pair": "deadlock: lanes wait for each other at different calls",
    "throw": "a kernel threw: thrown by a kernel",
}

LOAD_AND_RUN = (
    "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).run_case(sys.argv[2].encode()))"
)


def compiler() -> list[str]:
    """How kernels are compiled with the shim in the place of CUDA."""
    found = shutil.which("g++")
    if found is None:
        pytest.skip("no g++")
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]
    include = [f"-I{ROOT / 'tests' / 'shim'}", f"-I{ROOT / 'csrc'}"]
    shim = [*include, "-include", "cuda_runtime.h", "-x", "c++"]
    return [found, "-std=c++17", "-O2", "-fPIC", "-pthread", *warnings, *shim]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the cases as a program and as a library."""
    folder = tmp_path_factory.mktemp("lockstep")
    command = compiler()
    compiled = folder / "cases.o"
    subprocess.run([*command, "-c", str(SOURCE), "-o", str(compiled)], check=True)
    for name, flag in (("cases", "-pie"), ("cases.so", "-shared")):
        link = [command[0], "-pthread", flag, str(compiled), "-o", str(folder / name)]
        subprocess.run(link, check=True)
    return folder


def run(built: Path, case: str, order: str = "forward") -> subprocess.CompletedProcess[str]:
    """Run one case in a process of its own."""
    command = [str(built / "cases"), case]
    environment = {**os.environ, "CULE_SHIM_ORDER": order}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_every_case_is_run(built: Path) -> None:
    listed = subprocess.run([str(built / "cases")], capture_output=True, text=True, check=True)
    assert sorted(listed.stdout.split()) == sorted(
        [*RIGHT, "order", *(f"wrong_{name}" for name in WRONG)]
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", RIGHT)
def test_results(built: Path, case: str, order: str) -> None:
    done = run(built, case, order)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", WRONG)
def test_broken_rule_ends_the_launch(built: Path, case: str) -> None:
    done = run(built, f"wrong_{case}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == f"cule shim: {WRONG[case]}"
    assert "\n  block (0, 0, 0)" in done.stdout


def test_message_names_lanes_and_places(built: Path) -> None:
    lines = run(built, "wrong_intrinsic").stdout.splitlines()[2:]
    for line, lanes, name in zip(
        lines, ("0x0000ffff", "0xffff0000"), ("__ballot_sync", "__any_sync"), strict=True
    ):
        assert line.startswith(f"  warp 0 lanes {lanes} wait in {name} with mask 0xffffffff at ")
        assert f"{SOURCE.name}:" in line


def test_order_of_threads(built: Path) -> None:
    seen = {order: [int(i) for i in run(built, "order", order).stdout.split()] for order in ORDERS}
    threads = list(range(120))
    assert seen["forward"] == threads
    assert seen["reverse"] == threads[::-1]
    assert sorted(seen["random:1"]) == threads
    assert len({tuple(threads) for threads in seen.values()}) == len(ORDERS)
    assert run(built, "order", "random:1").stdout.split() == [str(i) for i in seen["random:1"]]


@pytest.mark.parametrize("order", ["backward", "random", "random:", "random:x"])
def test_unknown_order_is_refused(built: Path, order: str) -> None:
    done = run(built, "order", order)
    assert done.returncode == 1
    assert f'CULE_SHIM_ORDER is "{order}"' in done.stdout


@pytest.mark.parametrize(
    ("case", "status"), [("votes", 0), ("after_failure", 0), ("wrong_ring", 1)]
)
def test_inside_a_python_process(built: Path, case: str, status: int) -> None:
    command = [sys.executable, "-c", LOAD_AND_RUN, str(built / "cases.so"), case]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr


@pytest.mark.long
def test_active_lanes_cannot_be_asked_for() -> None:
    command = [*compiler(), "-fsyntax-only", "-"]
    for text, is_fine in (("__ballot_sync(7u, 1)", True), ("__activemask()", False)):
        source = f"__global__ void kernel(unsigned* out) {{ *out = unsigned({text}); }}\n"
        done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == is_fine, done.stderr
        assert ("deleted function" in done.stderr) != is_fine


@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
def test_cases_are_cuda(tmp_path: Path) -> None:
    ptx = tmp_path / "cases.ptx"
    command = [str(NVCC), "-std=c++17", "-arch=sm_90", "-ptx", "-o", str(ptx), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    assert "wrong_kernel" in ptx.read_text()
