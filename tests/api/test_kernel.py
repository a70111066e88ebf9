"""The option `kernel`: what executes programs, on the CPU and on a GPU; results never differ."""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule import _core
from cule.envs.arrays import to_numpy
from cule.envs.errors import SettingError
from tests.support.runs import draw_actions

KERNELS = ("auto", "interpreter", "compiled")
CAN_COMPILE = sys.platform == "linux" and platform.machine() == "x86_64"

pytestmark = pytest.mark.ale


def play(env: cule.AtariVectorEnv, steps: int = 30) -> list[np.ndarray]:
    """Observations of random steps."""
    observations = [env.reset(seed=4)[0]]
    for actions in draw_actions(1, steps, env.num_envs):
        observations.append(env.step(actions % env.single_action_space.n)[0])
    return [np.array(to_numpy(obs)) for obs in observations]


def assert_same(kernels: dict[str, list[np.ndarray]]) -> None:
    """Equality of the observations of every kernel."""
    first, *others = kernels.values()
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.skipif(not CAN_COMPILE, reason="programs are compiled on Linux on x86-64 only")
class TestOnACpu:
    def test_results_do_not_differ(self) -> None:
        played = {}
        for kernel in KERNELS:
            env = cule.AtariVectorEnv("ms_pacman", 3, kernel=kernel)
            played[kernel] = play(env)
            game = env._plan.games[0]
            assert game.is_translated == (kernel != "interpreter")
            assert (game.code_bytes > 0) == (kernel != "interpreter")
            env.close()
        assert_same(played)

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_gymnasium_ids(self, kernel: str) -> None:
        with gymnasium.make("cule/Pong-v5", kernel=kernel) as env:
            game = env.unwrapped.ale._rom.game
            assert game.is_translated == (kernel != "interpreter")
            env.reset(seed=1)
            env.step(2)
        envs = gymnasium.make_vec("cule/Pong-v5", 2, kernel=kernel)
        assert envs.config.kernel == kernel
        envs.close()

    def test_single_console(self) -> None:
        rewards = []
        for kernel in KERNELS:
            ale = cule.ALEInterface()
            assert ale.getString("kernel") == "auto"
            ale.setString("kernel", kernel)
            ale.setInt("random_seed", 3)
            ale.loadROM(cule.games.resolve("pong").rom_path)
            assert ale._rom.game.is_translated == (kernel != "interpreter")
            rewards.append([ale.act(action % 6) for action in range(200)])
            rewards[-1].extend(ale.getRAM().tolist())
        assert rewards[0] == rewards[1] == rewards[2]


def test_where_nothing_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    make = _core.Game

    def interpreted(spec: _core.GameSpec) -> _core.Game:
        spec.translates = False
        return make(spec)

    monkeypatch.setattr(_core, "Game", interpreted)
    for has_jit, reason in ((True, "memory become executable"), (False, "Linux on x86-64")):
        monkeypatch.setattr(_core, "HAS_JIT", has_jit)
        with pytest.raises(cule.DeviceError, match=f"kernel is 'compiled', but .*{reason}"):
            cule.AtariVectorEnv("pong", 1, kernel="compiled")
    for kernel in ("auto", "interpreter"):
        cule.AtariVectorEnv("pong", 1, kernel=kernel).close()


def test_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match="kernel is 'fast'; it must be one of 'auto', 'interp"):
        cule.AtariVectorEnv("pong", 1, kernel="fast")
    with pytest.raises(ValueError, match="kernel is None"):
        cule.AtariVectorEnv("pong", 1, kernel=None)
    with pytest.raises(ValueError, match="kernel is 'fast'"):
        cule.ALEInterface().setString("kernel", "fast")
    with pytest.raises(SettingError):
        cule.ALEInterface().setInt("kernel", 1)


class TestOnAGpu:
    """The kernels of the lockstep shim, on a fake GPU."""

    @pytest.fixture(autouse=True)
    def gpu(self) -> Iterator[None]:
        pytest.importorskip("torch")
        from tests.support.fake_cuda import fake_cuda

        with fake_cuda():
            yield

    @pytest.fixture
    def program(self, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A compiled kernel of pong; translations find it on disk."""
        from cule.envs import translation
        from tests.support import kernels

        env = self.make("interpreter")
        path = kernels.build_program(env._plan.games[0])
        env.close()
        monkeypatch.setattr(translation, "compiler", lambda: SimpleNamespace(version="13.0"))
        return path

    def make(self, kernel: str, **keywords: Any) -> cule.AtariVectorEnv:
        return cule.AtariVectorEnv(
            "pong", 3, device="cuda", num_reset_states=2, kernel=kernel, **keywords
        )

    def place(self, monkeypatch: pytest.MonkeyPatch, where: Callable[..., Path]) -> None:
        from cule.envs import cuda_batch, translation

        monkeypatch.setattr(translation, "compiled_path", where)
        monkeypatch.setattr(cuda_batch, "compiled_path", where)
        monkeypatch.setattr(cuda_batch, "compiler", translation.compiler)

    def test_a_kernel_on_disk_runs_at_once(
        self, program: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.place(monkeypatch, lambda *_: program)
        played = {}
        for kernel in KERNELS:
            env = self.make(kernel)
            assert env._batch._batch.has_program == (kernel != "interpreter")
            assert not env.is_compiling
            played[kernel] = play(env, 10)
        assert_same(played)

    def test_compiled_takes_over_between_steps(
        self, program: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from cule.envs import translation

        self.place(monkeypatch, lambda *_: Path("/nowhere/pong.cubin"))
        may_end = threading.Event()
        monkeypatch.setattr(translation, "translate", lambda *_: may_end.wait(60) and program)
        assert not self.make("auto")._batch._batch.has_program
        env = self.make("compiled")
        env.reset(seed=1)
        assert env.is_compiling
        env.step(np.zeros(3, np.int64))
        assert not env._batch._batch.has_program
        may_end.set()
        env._batch._translation.wait()
        env.step(np.zeros(3, np.int64))
        assert env._batch._batch.has_program
        assert not env.is_compiling
        assert_same({"compiled": play(env, 10), "auto": play(self.make("auto"), 10)})

    def test_without_a_compiler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from cule.envs import translation

        def compiler() -> None:
            raise cule.DeviceError("NVRTC was not found")

        monkeypatch.setattr(translation, "compiler", compiler)
        self.place(monkeypatch, translation.compiled_path)
        with pytest.raises(cule.DeviceError, match="NVRTC"):
            self.make("compiled")
        self.make("auto").reset(seed=0)

    def test_a_kernel_that_cannot_be_loaded_leaves_the_interpreter(
        self, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "pong.cubin").write_bytes(b"no machine code")
        self.place(monkeypatch, lambda *_: tmp_path / "pong.cubin")
        with pytest.warns(RuntimeWarning, match="interpreter kernel continues to run the game"):
            env = self.make("auto")
        assert not env._batch._batch.has_program
        env.reset(seed=0)

    def test_several_games(self) -> None:
        games = [("pong", 1), ("breakout", 1)]
        with pytest.raises(ValueError, match="kernel is 'compiled'; with several games on a GPU"):
            cule.AtariVectorEnv(games, 2, device="cuda", kernel="compiled")
