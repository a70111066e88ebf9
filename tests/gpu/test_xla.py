"""The functions of xla() with environments on a GPU, against those of the CPU.

On the mock CUDA device JAX's device is the CPU, whose memory that is too.
"""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cule
from cule.games import rom_status
from tests.conftest import missing

jax = pytest.importorskip("jax", reason="JAX is not installed")

ROOT = Path(__file__).parents[2]
#: JAX's plugin for CUDA, where JAX does not find it by itself.
PLUGIN = Path(sys.prefix) / "jax-cuda"

ROMS = {status.rom_id for status in rom_status() if status.md5_ok}
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not ROMS, reason="no ROMs: install ale-py or set CULE_ROM_DIR"),
]

NUM_ENVS, STEPS = 5, 90
SHORT: dict[str, Any] = {"max_num_frames_per_episode": 120, "num_reset_states": 3}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"autoreset_mode": "SameStep", "final_info": True, "repeat_action_probability": 0.25},
    {"obs_type": "objects", "autoreset_mode": "SameStep"},
    {"obs_type": "ram", "episode_info": True},
    {"continuous": True, "grayscale": False, "img_height": 40, "img_width": 48},
]


@pytest.fixture(autouse=True)
def jax_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let JAX find the GPU; it keeps no memory for itself."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if missing("gpu") is not None:
        from cule.envs import xla_calls

        monkeypatch.setattr(xla_calls, "find_device", lambda _: jax.devices("cpu")[0])
    yield
    gc.collect()


@pytest.fixture
def closing() -> Iterator[Callable[[Any], Any]]:
    """Close environments after the test."""
    made: list[Any] = []

    def add(env: Any) -> Any:
        made.append(env)
        return env

    yield add
    for env in made:
        env.close()


def make_pair(closing: Callable[[Any], Any], game: Any, **options: Any) -> tuple[Any, Any]:
    options = {"resets": "cached", **SHORT, **options}
    ours = closing(cule.AtariVectorEnv(game, NUM_ENVS, device="cuda", **options))
    return ours, closing(cule.AtariVectorEnv(game, NUM_ENVS, **options))


def make_actions(env: Any, steps: int = STEPS) -> Any:
    """Of several steps, ``[steps, N, ...]``."""
    env.action_space.seed(1)
    return np.stack([env.action_space.sample() for _ in range(steps)])


def assert_equal(ours: Any, wanted: Any, ended: Any = None) -> None:
    """Results of JAX and of step(); what step() leaves open or out is zero."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            mask = wanted.get("_final_info") if key == "final_obs" else None
            assert_equal(ours[key], value, mask)
        for key in ours.keys() - wanted.keys():
            assert not any(np.any(leaf) for leaf in jax.tree.leaves(ours[key])), key
    elif isinstance(wanted, tuple):
        for mine, theirs in zip(ours, wanted, strict=True):
            assert_equal(mine, theirs)
    else:
        rows = slice(None) if ended is None else np.asarray(ended)
        np.testing.assert_array_equal(np.asarray(ours)[rows], np.asarray(wanted)[rows])
        assert np.asarray(ours).dtype == np.asarray(wanted).dtype


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_calls_are_step(closing: Callable[[Any], Any], options: Any) -> None:
    ours, theirs = make_pair(closing, "breakout", **options)
    handle, reset, step = ours.xla()
    handle, result = reset(handle, seed=7)
    assert_equal(result, theirs.reset(seed=7))
    num_ended = 0
    for row in make_actions(theirs):
        handle, result = step(handle, row)
        assert_equal(result, theirs.step(row))
        num_ended += int(np.sum(result[2] | result[3]))
    assert num_ended >= NUM_ENVS
    mask = np.array([True, False, True, False, False])
    handle, result = reset(handle, seed=3, reset_mask=mask)
    assert_equal(result, theirs.reset(seed=3, options={"reset_mask": mask}))
    # The environment is where the calls have left it.
    jax.block_until_ready(result)
    np.testing.assert_array_equal(ours.get_state().cpu(), theirs.get_state())


def test_a_loop_is_steps(closing: Callable[[Any], Any]) -> None:
    ours, theirs = make_pair(closing, "pong")
    handle, reset, step = ours.xla()
    handle, _ = jax.jit(reset)(handle, seed=2)
    theirs.reset(seed=2)
    actions = make_actions(theirs, 40)
    handle, results = jax.lax.scan(step, handle, actions)
    for number, row in enumerate(actions):
        assert_equal(jax.tree.map(lambda leaf, i=number: leaf[i], results), theirs.step(row))


def test_results_of_a_call_pass_a_barrier(closing: Callable[[Any], Any]) -> None:
    """Without it XLA 0.11 copies the call in a loop on a GPU, and steps twice."""
    env, _ = make_pair(closing, "pong")
    handle, _, step = env.xla()
    text = jax.jit(step).lower(handle, np.zeros(NUM_ENVS, np.int32)).as_text()
    (text,) = (part for part in text.split("func.func") if "@cule_cuda_step" in part)
    (name,) = re.findall(r"(%\w+):\d+ = stablehlo.custom_call @cule_cuda_step", text)
    uses = [line for line in text.splitlines() if re.search(rf"{name}#\d", line)]
    assert len(uses) == 1
    assert "optimization_barrier" in uses[0]


@pytest.mark.skipif(not PLUGIN.exists(), reason="make test-integrations installs the plugin")
def test_a_loop_compiles_for_a_gpu() -> None:
    """For an H100, by JAX's CUDA plugin, which needs none."""
    command = "tests.support.run_on_fake_cuda", "-m", "tests.support.compile_xla"
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "XLA_FLAGS": "--xla_gpu_autotune_level=0",
        "PYTHONPATH": str(PLUGIN),
    }
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True, text=True, cwd=ROOT, env=environment, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (call,) = done.stdout.splitlines()
    assert 'custom_call_target="cule_cuda_step"' in call
    assert "custom_call_has_side_effect=true" in call
    assert "output_to_operand_aliasing={{0}: (0, {})}" in call


def test_results_are_on_the_gpu(closing: Callable[[Any], Any]) -> None:
    env, _ = make_pair(closing, "pong")
    handle, reset, step = env.xla()
    handle, (obs, info) = reset(handle, seed=0)
    _, (after, reward, *_) = step(handle, np.zeros(NUM_ENVS, np.int32))
    wanted = "cpu" if missing("gpu") else "gpu"
    for array in (handle, obs, info["lives"], after, reward):
        assert {device.platform for device in array.devices()} == {wanted}


def test_several_games(closing: Callable[[Any], Any]) -> None:
    ours, theirs = make_pair(closing, [("pong", 2), ("breakout", 3)])
    handle, reset, step = ours.xla()
    handle, _ = reset(handle, seed=4)
    theirs.reset(seed=4)
    for row in make_actions(theirs, 20):
        handle, result = step(handle, row)
        assert_equal(result, theirs.step(row))
    handle, result = step(handle, jax.numpy.full(NUM_ENVS, 99))
    jax.block_until_ready(result)
    with pytest.raises(jax.errors.JaxRuntimeError, match="actions of an earlier step"):
        jax.block_until_ready(step(handle, np.zeros(NUM_ENVS, np.int32)))


def test_seeds_of_each_environment(closing: Callable[[Any], Any]) -> None:
    ours, theirs = make_pair(closing, "pong")
    handle, reset, _ = ours.xla()
    for seed in ([5, 1, 2**31 - 1, 0, 9], [4, -1, 4, -1, 4]):
        handle, result = reset(handle, seed=jax.numpy.asarray(seed, np.int32))
        assert_equal(result, theirs.reset(seed=seed))


def test_wrong_calls(closing: Callable[[Any], Any]) -> None:
    env, _ = make_pair(closing, "pong", autoreset_mode="Disabled")
    handle, reset, step = env.xla()
    still = np.zeros(NUM_ENVS, np.int32)
    with pytest.raises(jax.errors.JaxRuntimeError, match="call reset first"):
        jax.block_until_ready(step(handle, still))
    with pytest.raises(jax.errors.JaxRuntimeError, match="must reset every environment"):
        jax.block_until_ready(reset(handle, reset_mask=still == 0))
    handle, _ = reset(handle, seed=0)
    with pytest.raises(cule.ActionShapeError):
        step(handle, still[:2])
    handle, result = step(handle, still + 6)
    jax.block_until_ready(result)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"0\.\.5; it was taken as 0"):
        jax.block_until_ready(step(handle, still))

    def step_on(handle: Any) -> None:
        for _ in range(40):
            handle, result = step(handle, still)
            jax.block_until_ready(result)

    with pytest.raises(jax.errors.JaxRuntimeError, match="whose episode had ended"):
        step_on(handle)
    env.close()
    with pytest.raises(jax.errors.JaxRuntimeError, match="has been closed"):
        jax.block_until_ready(reset(handle))


def test_snapshots_are_those_of_a_cpu(closing: Callable[[Any], Any]) -> None:
    env, _ = make_pair(closing, "pong")
    with pytest.raises(cule.InvalidArgumentError, match="device is 'cuda:0'; with JAX"):
        env.xla_pure()


def test_a_gpu_that_jax_does_not_have(
    closing: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    env, _ = make_pair(closing, "pong")
    monkeypatch.setattr(jax, "local_devices", lambda **_: [])
    with pytest.raises(cule.MissingPackageError, match="JAX has no GPU 0"):
        env.xla()
    assert torch.cuda.is_available()
