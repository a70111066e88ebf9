"""Machine code of the kernels, executed in software, equals the CPU back end.

The oldest and the newest supported NVRTC compile the part that all games share and the parts of
games, and nvJitLink of the same version links them, as environments do (cule.envs.translation). The
linked kernel executes a step in benchmarks/sass; the lockstep shim runs the other kernels. Those
that nvcc compiles, the interpreter among them, execute a step without the shim.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from benchmarks.sass.disassembly import disassemble
from benchmarks.sass.kernel import Kernel
from benchmarks.sass.step_model import Modules, execute_step, executed
from cule import _core
from cule.envs import translation
from cule.envs.launch import Geometry
from tests.support.compilers import VERSIONS, toolkit_of
from tests.support.kernels import HookedLaunch, Pair, hooked_launches

pytestmark = [pytest.mark.ale, pytest.mark.compilers, pytest.mark.long]

ARCHITECTURE = 90
FIRST_STEPS = 150  # at most; before the step that is compared

#: Most bytes of stack that a thread of a linked kernel takes.
MOST_STACK_BYTES = 2592


def use_toolkit(version: str, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Let environments compile with one version, and keep what they compile in `cache`."""
    toolkit = toolkit_of(version)
    monkeypatch.setattr(translation, "toolkit", lambda: toolkit)
    monkeypatch.setenv("CULE_CACHE", str(cache))


def compare_step(
    game: str, lanes: int, consoles: int, folder: Path, *, is_linked: bool = True
) -> None:
    """Compile a kernel; compare a step of consoles that have played before."""
    pair = Pair(game, consoles, lanes=lanes, frameskip=4)
    cubin = folder / "linked.cubin"
    wanted = translation.Wanted(pair.plan.games[0], lanes, ARCHITECTURE)
    cubin.write_bytes(wanted.compile() if is_linked else wanted.compile_as_one())
    kernel = Kernel(disassemble(cubin, "cule_step"))
    module = kernel.code.module
    assert (len(module.starts) > 40) is is_linked  # functions, called across sections
    assert module.registers <= _core.LANE_PART_REGISTERS
    executed = 0

    def run(symbol: str, launch: HookedLaunch) -> bool:
        nonlocal executed
        if "step_consoles" not in symbol:
            return False
        parameters = ctypes.string_at(launch.parameters, launch.parameter_bytes)
        threads, blocks = tuple(launch.block), tuple(launch.grid)
        for block in range(blocks[0]):
            executed += kernel.run(parameters, (block, 0, 0), threads, blocks).total()
        return True

    rng = np.random.default_rng(1)
    pair.cpu.reset(None, pair.consoles, pair.expected.out)
    pair.cpu.decorrelate(FIRST_STEPS, 1, pair.expected.out)
    pair.kernels.set_state(pair.cpu.get_state(pair.consoles), pair.consoles)
    pair.step(pair.random_actions(rng))
    with hooked_launches(run):
        pair.step(pair.random_actions(rng))
    pair.compare_snapshots()
    pair.close()
    assert executed > 10_000 * consoles // lanes


@pytest.mark.parametrize("version", VERSIONS)
def test_several_lanes(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_toolkit(version, monkeypatch, tmp_path)
    compare_step("pong", 4, 8, tmp_path)
    compare_step("seaquest", 16, 16, tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
def test_one_lane(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_toolkit(version, monkeypatch, tmp_path)
    compare_step("pong", 1, 2, tmp_path)


def test_as_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where there is no nvJitLink."""
    use_toolkit(VERSIONS[0], monkeypatch, tmp_path)
    compare_step("pong", 16, 16, tmp_path, is_linked=False)


def test_kernels_of_nvcc(tmp_path: Path) -> None:
    """Steps of each cartridge family and of several players, with each kind of observations."""
    modules = Modules(tmp_path)
    for game, lanes, consoles, obs_type in (
        ("pong", 1, 2, "image"),
        ("seaquest", 16, 16, "sprites"),
        ("montezuma_revenge", 4, 8, "objects"),
        ("robotank", 2, 2, "ram"),
    ):
        execute_step(modules, game, consoles, Geometry(lanes, 4), False, obs_type)
    pair = Pair("joust", 4, lanes=2, frameskip=4, has_players=True)
    rng = np.random.default_rng(1)
    pair.reset(pair.consoles)
    pair.step(pair.random_actions(rng))
    with executed(modules):
        pair.step(pair.random_actions(rng))
    with executed(modules) as launches:
        snapshots = pair.compare_snapshots()
    pair.step(pair.random_actions(rng))
    with executed(modules) as more:
        pair.kernels.set_state(snapshots, pair.consoles)
    assert {name[:6] for name in (*launches, *more)} == {"gather", "check_", "scatte"}
    pair.cpu.set_state(snapshots, pair.consoles)
    pair.step(pair.random_actions(rng))
    pair.compare_snapshots()
    pair.close()
