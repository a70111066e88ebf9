"""Every file of examples/ runs, in a short form."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases import long_except

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

#: File: arguments of its short form, and the modules that it needs in addition to cule's dependencies.
SHORT: dict[str, tuple[str, tuple[str, ...]]] = {
    "ale_py_histories.py": ("--num-envs 4 --steps 60", ("ale_py",)),
    "beam_search.py": ("--game pong --beam 4 --copies 2 --decisions 3 --lookahead 5", ()),
    "go_explore.py": ("--num-envs 32 --rounds 3 --steps 5 --out {folder}", ()),
    "gymnasium_loop.py": ("--steps 60", ()),
    "jax_scan.py": ("--candidates 4 --envs-each 2 --steps 20 --generations 2", ("jax",)),
    "offline.py": (
        "{folder}/pong.cule --method cql --epochs 1 --episodes 2 --max-frames 200",
        ("torch",),
    ),
    "openenv_server.py": ("--steps 20", ("openenv",)),
    "own_rom.py": ("--steps 50 --out {folder}", ()),
    "ppo.py": ("--num-envs 4 --num-steps 8 --total-steps 64", ("torch",)),
    "rllib_ppo.py": ("--num-envs 4 --batch 128 --iterations 1", ("ray", "torch")),
    "sb3_ppo.py": (
        "--num-envs 4 --rollout-steps 16 --steps 64 --max-frames 200",
        ("stable_baselines3",),
    ),
    "several_games.py": ("--each 2 --steps 60", ()),
    "shared_replay.py": (
        "--explorers 2 --capacity 4096 --learning-starts 256 --batch-size 8 --updates 3",
        ("torch",),
    ),
    "torchrl_dqn.py": ("--num-envs 4 --steps 192 --replay-size 100 --batch-size 32", ("torchrl",)),
}

#: Arguments of Python before an example, for a file that it needs.
BEFORE = {"offline.py": "-m cule.cli record --game pong --steps 600 --out {folder}/pong.cule"}

#: Examples that run in a second or two, without torch.
QUICK = ("beam_search.py", "go_explore.py", "gymnasium_loop.py", "own_rom.py", "several_games.py")

#: Libraries that warn when they are imported or used.
WARN = {"openenv", "ray", "stable_baselines3", "torchrl"}


def run(*words: str) -> str:
    """Run Python from the root of the repository; return what it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *words]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_has_a_short_form() -> None:
    assert sorted(SHORT) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.ale
@pytest.mark.parametrize("name", long_except(SHORT, *QUICK))
def test_example_runs(name: str, tmp_path: Path) -> None:
    arguments, needed = SHORT[name]
    for module in needed:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed; make test-integrations runs this")
    warnings = [] if WARN & set(needed) else ["-W", "error"]
    words = arguments.format(folder=tmp_path).split()
    if name in BEFORE:
        run(*BEFORE[name].format(folder=tmp_path).split())
    assert run(*warnings, str(EXAMPLES / name), *words)


@pytest.mark.long
def test_ppo_stays_on_its_device() -> None:
    """On the mock CUDA device, which refuses tensors of another one."""
    pytest.importorskip("torch")
    words = SHORT["ppo.py"][0].split()
    path = str(EXAMPLES / "ppo.py")
    code = (
        "import runpy, sys; "
        f"sys.argv = {[path, '--device', 'cuda', *words]!r}; "
        f"runpy.run_path({path!r}, run_name='__main__')"
    )
    out = run("-m", "tests.support.run_on_fake_cuda", "-c", code)
    assert "reward per step" in out
