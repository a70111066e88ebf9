"""The option `kernel` on a CPU: what executes programs; results never differ."""

from __future__ import annotations

import platform
import sys

import gymnasium
import numpy as np
import pytest

import cule
from cule import _core
from cule.envs.checks import to_numpy
from cule.envs.errors import SettingError
from tests.support.runs import draw_actions

KERNELS = ("auto", "interpreter", "compiled")
CAN_COMPILE = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")

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


@pytest.mark.skipif(not CAN_COMPILE, reason="programs are compiled on Linux only")
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
