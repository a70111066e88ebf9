"""Names from ALE, Gymnasium and EnvPool lead to the names of this package."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import cule
from cule.cli import main
from tests.support.api import MakeEnv

pytestmark = pytest.mark.ale

IDS = {
    "ALE/MsPacman-v5": ("ms_pacman", "v5"),
    "cule/Pong": ("pong", "v5"),
    "Pong-v5": ("pong", "envpool"),
    "BreakoutNoFrameskip-v4": ("breakout", "baselines"),
    "ALE/SpaceInvaders-ram-v5": ("space_invaders", "v5"),
    "QbertDeterministic-v4": ("qbert", None),
}


@pytest.mark.parametrize("name", list(IDS))
@pytest.mark.parametrize("make", [lambda name: cule.AtariVectorEnv(name, 1), cule.AtariEnv])
def test_ids_of_environments_are_answered_with_the_game(
    name: str, make: Callable[[str], object]
) -> None:
    game, preset = IDS[name]
    with pytest.raises(cule.UnknownGameError, match=f"the game is '{game}'") as caught:
        make(name)
    assert (f"preset='{preset}'" in str(caught.value)) == (preset is not None)


@pytest.mark.parametrize(
    "words",
    [
        ("watch", "--game"),
        ("bench", "--games"),
        ("train", "ppo-cpu", "--game"),
    ],
)
def test_ids_on_the_command_line(
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if words[0] == "train":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert main([*words, "ALE/MsPacman-v5"]) == 2
    assert "the game is 'ms_pacman'" in capsys.readouterr().err


def test_games_of_a_benchmark_have_any_spelling() -> None:
    from cule.bench.games import games_named

    assert games_named(("MsPacman", "space-invaders", "pong")) == (
        *("ms_pacman", "space_invaders", "pong"),
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [("frame_skip", "frameskip"), ("gray_scale", "grayscale"), ("stack_nums", "stack_num")],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda **options: cule.AtariVectorEnv("pong", 1, **options),
        lambda **options: gymnasium.make_vec("cule/Pong-v5", 1, **options),
    ],
)
def test_options_of_many_environments(make: Callable[..., object], name: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"{name}.*did you mean '{meant}'"):
        make(**{name: 4})


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: cule.AtariEnv("pong", **options),
        lambda **options: gymnasium.make("cule/Pong-v5", **options),
    ],
)
def test_options_of_one_environment(make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"frame_skip.*did you mean 'frameskip'"):
        make(frame_skip=4)
    for name in ("gray_scale", "grayscale", "grayscale_obs"):
        with pytest.raises(TypeError, match=f"{name}'; did you mean 'obs_type'"):
            make(**{name: True})


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("train", "ppo", "--frame-skip", "4"), "did you mean 'frameskip'"),
        (("train", "ppo", "--total-timesteps=5"), "did you mean 'total-steps'"),
        (("watch", "--num-env", "4"), "did you mean 'num-envs'"),
        (("bench", "--game", "pong"), "did you mean 'games'"),
    ],
)
def test_options_on_the_command_line(
    words: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if words[0] == "train":
        pytest.importorskip("torch")
    with pytest.raises(SystemExit):
        main(words)
    assert hint in capsys.readouterr().err


def test_a_window_is_answered_with_the_viewers() -> None:
    with pytest.raises(cule.SettingError, match=r"cule watch.*render_mode='human'"):
        cule.ALEInterface().setBool("display_screen", True)


def test_every_documented_error_is_in_the_package() -> None:
    documented = set()
    root = Path(cule.__file__).parent
    parts = ("games", "envs", "replay", "nets", "algos", "agents", "wrappers")
    for path in (path for part in parts for path in (root / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                _, _, raises = text.partition("Raises:\n")
                # An error with a prefix, as jax.errors.JaxRuntimeError, is another library's.
                documented |= set(re.findall(r"(?<![.\w])[A-Z]\w+Error\b", raises))
    ours = documented - set(dir(builtins))
    ours -= {"MissingCompilerError"}  # of the GPU back end, which turns it into a warning
    assert {"ActionRangeError", "CallOrderError", "CapacityError"} <= ours
    assert {name for name in ours if not hasattr(cule, name)} == set()
    assert ours <= set(cule.__all__)


# --- What objects say of themselves -------------------------------------------------------------


def test_repr_of_environments(make_env: MakeEnv) -> None:
    text = repr(make_env("pong", 3, stack_num=2))
    assert text == (
        "AtariVectorEnv('pong', num_envs=3, obs=uint8 (2, 84, 84), actions=Discrete(6), "
        "device='cpu')"
    )
    assert "(('pong', 1), ('qbert', 2))" in repr(make_env([("pong", 1), ("qbert", 2)], 3))
    text = repr(cule.AtariEnv("pong"))
    assert "'pong'" in text
    assert "(210, 160, 3)" in text
    assert "device='cpu'" in text
    ale = cule.ALEInterface()
    assert repr(ale) == "ALEInterface(no ROM, device='cpu')"
    ale.loadROM(cule.roms.get_rom_path("pong"))
    assert repr(ale) == "ALEInterface('pong', device='cpu')"
    text = repr(make_env("pong", 3).config)
    assert "game='pong', num_envs=3" in text


def test_repr_and_length_of_replays() -> None:
    torch = pytest.importorskip("torch")
    from cule.replay import (
        PrioritizedOptions,
        PrioritizedReplay,
        ReplayOptions,
        SharedOptions,
        SharedPrioritizedReplay,
        TrajectoryBuffer,
        TrajectoryOptions,
        UniformReplay,
    )

    sizes = {"num_envs": 2, "obs_shape": (3,), "stack": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cule.ShortReplayWarning)
        replays = [
            UniformReplay(ReplayOptions(capacity=20, **sizes)),
            PrioritizedReplay(PrioritizedOptions(capacity=20, **sizes)),
        ]
    flags = torch.zeros((4, 2), dtype=torch.bool)
    for replay in replays:
        assert len(replay) == 0
        replay.start(torch.zeros((2, 3), dtype=torch.uint8))
        replay.append_block(
            frames=torch.zeros((4, 2, 3), dtype=torch.uint8),
            actions=torch.zeros((4, 2), dtype=torch.int64),
            rewards=torch.zeros((4, 2)),
            terminated=flags,
        )
        assert len(replay) == replay.num_valid == 8
        assert repr(replay) == (
            f"{type(replay).__name__}(8 of 20 transitions, num_envs=2, obs=uint8 (3,), stack=1, "
            "device='cpu')"
        )
    trajectory = TrajectoryBuffer(TrajectoryOptions(num_steps=5, **sizes))
    assert repr(trajectory) == (
        "TrajectoryBuffer(num_steps=5, num_envs=2, obs=uint8 (3,), stack=1, device='cpu')"
    )
    with SharedPrioritizedReplay(SharedOptions(capacity=512, **sizes)) as shared:
        assert len(shared) == 0
        assert repr(shared) == (
            "SharedPrioritizedReplay(0 transitions, num_writers=1, num_envs=2, obs=uint8 (3,), "
            "stack=1, device='cpu')"
        )


def test_lists_and_arrays_of_other_libraries_are_actions_and_seeds() -> None:
    class Foreign:
        """An array of another library, as numpy sees it."""

        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.array([2, 3])

    ours, theirs = (cule.AtariVectorEnv("pong", 2) for _ in range(2))
    obs, _ = ours.reset(seed=[5, 9])
    np.testing.assert_array_equal(obs, theirs.reset(seed=np.array([5, 9]))[0])
    for actions in ([2, 3], (2, 3), Foreign()):
        step = ours.step(actions)
        for one, other in zip(step[:4], theirs.step(np.array([2, 3]))[:4], strict=True):
            np.testing.assert_array_equal(one, other)
    continuous = cule.AtariVectorEnv("pong", 1, continuous=True)
    continuous.reset(seed=[1])
    continuous.step([[1.0, 0.5, 0.0]])


def test_environments_are_closed_by_with() -> None:
    with cule.AtariVectorEnv("pong", 2) as env:
        assert env.device == "cpu"
        env.reset(seed=0)
    with pytest.raises(cule.ClosedError):
        env.step([0, 0])


def test_a_list_of_games_has_the_number_of_environments() -> None:
    assert cule.AtariVectorEnv([("pong", 1), ("breakout", 2)]).num_envs == 3  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="needs num_envs"):
        cule.AtariVectorEnv("pong")  # type: ignore[call-arg]


def test_options_of_other_libraries_in_configs() -> None:
    pytest.importorskip("torch")
    from cule.agents import DQNConfig, PPOConfig

    for config, given, ours in (
        (PPOConfig, "lr", "learning_rate"),
        (PPOConfig, "clip_coef", "clip_range"),
        (PPOConfig, "batch_size", "num_minibatches"),
        (PPOConfig, "normalise_obs", "normalize_obs"),
        (DQNConfig, "buffer_size", "memory"),
        (DQNConfig, "timesteps", "total_steps"),
    ):
        with pytest.raises(TypeError, match=f"did you mean '{ours}'"):
            config(game="pong", **{given: 1})


@pytest.mark.parametrize(
    ("flag", "ours"),
    [
        ("--clip-coef", "clip-range"),
        ("--timesteps", "total-steps"),
        ("--n-epochs", "num-epochs"),
    ],
)
def test_flags_of_other_libraries(flag: str, ours: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(SystemExit):
        main(["train", "ppo-cpu", flag, "1"])
    assert f"did you mean '{ours}'" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["replay", "agents", "nets", "algos"])
def test_packages_that_need_torch_say_so(package: str) -> None:
    text = f"""
import sys
sys.modules["torch"] = None
import cule
try:
    from cule.{package} import *
except cule.MissingPackageError as error:
    assert "cule[train]" in str(error)
else:
    raise SystemExit(1)
"""
    subprocess.run([sys.executable, "-c", text], check=True)


def test_sources_without_the_native_module_say_so(tmp_path: Path) -> None:
    for name in ("__init__.py", "errors.py", "lazy.py"):
        target = tmp_path / "cule" / name
        target.parent.mkdir(exist_ok=True)
        target.write_text((Path(cule.__file__).parent / name).read_text())
    command = [sys.executable, "-S", "-c", "import cule"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "holds the sources of cule without its native module" in done.stderr
