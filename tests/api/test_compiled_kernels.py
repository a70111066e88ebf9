"""Kernels compiled for a game, on a fake GPU: when they take over, and what may go wrong.

The lockstep shim runs them; g++ compiles in place of NVRTC.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cule
from cule.envs import kernel_cache, translation
from cule.envs.checks import to_numpy
from tests.api.test_kernel import KERNELS, assert_same, play
from tests.support.cases import long_except

pytestmark = pytest.mark.ale
INTERPRETED = "the interpreter kernel continues to run the game: "


@pytest.fixture(autouse=True)
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("torch")
    from tests.support.fake_cuda import fake_cuda

    monkeypatch.setenv("CULE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(translation, "_warned", set())
    # In this order: the fake has no toolkit.
    with fake_cuda(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation, "toolkit", lambda: SimpleNamespace(version=(13, 0)))
        yield
        while _made:
            _made.pop().close()


_made: list[cule.AtariVectorEnv] = []


def make(kernel: str = "auto", **keywords: Any) -> cule.AtariVectorEnv:
    options: dict[str, Any] = {"device": "cuda", "num_reset_states": 2, "kernel": kernel}
    _made.append(cule.AtariVectorEnv("pong", 3, **options | keywords))
    return _made[-1]


def has_program(env: cule.AtariVectorEnv) -> bool:
    return bool(env._batch._batch.has_program)


class Compiler:
    """Makes `code`, a kernel of pong, when it may end."""

    def __init__(self) -> None:
        from tests.support import kernels

        env = make("interpreter")
        path = kernels.build_program(env._plan.games[0], most=100)
        env.close()
        self.code: bytes | Exception = kernels.loadable(path)
        self.first: bytes | None = None
        self.has_published = threading.Event()
        self.may_end = threading.Event()
        self.calls = 0

    def compile(self, publish: Callable[[bytes], None]) -> bytes:
        self.calls += 1
        if self.first is not None:
            publish(self.first)
            self.has_published.set()
        assert self.may_end.wait(300)
        if isinstance(self.code, Exception):
            raise self.code
        return self.code

    def finish(self, env: cule.AtariVectorEnv) -> None:
        """Let it end. The next step takes what it has made."""
        assert env.is_compiling
        self.may_end.set()
        env._batch._translation.wait()
        self.may_end.clear()

    def finish_and_step(self, env: cule.AtariVectorEnv) -> None:
        env.reset(seed=0)
        self.finish(env)
        env.step(np.zeros(3, np.int64))


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    found = Compiler()
    monkeypatch.setattr(
        translation.Wanted, "compile", lambda wanted, publish: found.compile(publish)
    )
    return found


@pytest.fixture
def wanted(compiler: Compiler) -> translation.Wanted:
    """What these environments ask for."""
    env = make("interpreter")
    asked = translation.Wanted(env._plan.games[0], 1, 90)
    env.close()
    return asked


@pytest.mark.parametrize("kernel", long_except(["auto", "compiled"], "auto"))
def test_a_kernel_takes_over_between_steps(compiler: Compiler, kernel: str) -> None:
    env = make(kernel)
    env.reset(seed=1)
    env.step(np.zeros(3, np.int64))
    assert not has_program(env)
    compiler.finish(env)
    assert env.is_compiling
    assert not has_program(env)
    env.step(np.zeros(3, np.int64))
    assert has_program(env)
    assert not env.is_compiling


def test_the_switch_changes_no_result(compiler: Compiler) -> None:
    played = {}
    for kernel in ("interpreter", "auto"):
        env = make(kernel)
        observations = play(env, 5)
        if kernel == "auto":
            compiler.finish(env)
        for actions in np.random.default_rng(0).integers(0, 6, (10, 3)):
            observations.append(np.array(to_numpy(env.step(actions)[0])))
        assert has_program(env) == (kernel == "auto")
        played[kernel] = observations
        env.close()
    assert_same(played)


def test_a_kernel_on_disk_runs_at_once(compiler: Compiler) -> None:
    compiler.finish_and_step(make())
    played = {}
    for kernel in KERNELS:
        env = make(kernel)
        assert has_program(env) == (kernel != "interpreter")
        assert not env.is_compiling
        played[kernel] = play(env, 10)
    assert compiler.calls == 1
    assert_same(played)


def test_a_first_kernel_runs_until_the_whole_one_is_there(compiler: Compiler) -> None:
    def loaded() -> int:
        return kernels.pop_instruction_counts().modules

    from tests.support import kernels

    env = make()
    game = env._plan.games[0]
    compiler.finish_and_step(env)
    before = loaded()
    wanted = translation.Wanted(game, 1, 90)
    kernel_cache.discard(wanted.name, wanted.made_for)
    compiler.first = kernels.loadable(kernels.build_program(game, most=50))
    env = make()
    env.reset(seed=0)
    assert compiler.has_published.wait(300)
    env.step(np.zeros(3, np.int64))
    assert has_program(env)
    assert env.is_compiling
    assert loaded() == before + 1
    compiler.finish_and_step(env)
    assert not env.is_compiling
    assert loaded() == before + 1  # the whole one is that of the environment before


def test_not_during_a_capture(compiler: Compiler) -> None:
    import torch

    env = make()
    env.reset(seed=0)
    compiler.finish(env)
    actions = torch.zeros(3, dtype=torch.int64, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
        env.step(actions)
    assert not has_program(env)
    assert env.is_compiling
    torch.cuda.synchronize()
    env.step(actions)
    assert has_program(env)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def toolkit() -> None:
        raise translation.MissingCompilerError("NVRTC was not found")

    monkeypatch.setattr(translation, "toolkit", toolkit)
    with pytest.raises(cule.DeviceError, match="NVRTC"):
        make("compiled")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = make()
    assert not env.is_compiling
    env.reset(seed=0)


FAILURES = [
    cule.DeviceError("bad source"),
    OSError("disk full"),
    MemoryError(),
    ValueError("a bug"),
]


@pytest.mark.parametrize("kernel", long_except(["auto", "compiled"], "auto"))
@pytest.mark.parametrize(
    "failure",
    long_except(FAILURES, FAILURES[0]),
)
def test_a_failed_compilation_is_said_once(
    compiler: Compiler, failure: Exception, kernel: str
) -> None:
    compiler.code = failure
    reason = str(failure) or "MemoryError"
    with pytest.warns(RuntimeWarning, match=INTERPRETED + reason):
        compiler.finish_and_step(make(kernel))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = make(kernel)
        compiler.finish_and_step(again)
    assert not again.is_compiling
    assert not has_program(again)


@pytest.mark.usefixtures("compiler")
def test_sources_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_digest() -> str:
        raise OSError("no sources")

    monkeypatch.setattr(translation, "_sources_digest", no_digest)
    with pytest.warns(RuntimeWarning, match=INTERPRETED + "no sources"):
        env = make()
    env.reset(seed=0)
    assert not env.is_compiling


def test_a_cache_that_cannot_be_used(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel is compiled and runs; the next process compiles it again."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("CULE_CACHE", str(tmp_path / "file"))
    env = make()
    with pytest.warns(RuntimeWarning, match="cannot be (read|kept)") as said:
        compiler.finish_and_step(env)
    assert len(said) == 2
    assert has_program(env)


@pytest.mark.parametrize(
    "content", long_except([b"", b"{}\ncode", b"\x7fELF no header"], b"{}\ncode")
)
def test_a_damaged_file_is_made_again(
    compiler: Compiler, wanted: translation.Wanted, content: bytes
) -> None:
    path = kernel_cache.path_of(wanted.name, wanted.made_for)
    path.parent.mkdir()
    path.write_bytes(content)
    env = make()
    compiler.finish_and_step(env)
    assert has_program(env)
    assert wanted.load() == compiler.code


def test_a_file_that_cannot_be_loaded_is_made_again(
    compiler: Compiler, wanted: translation.Wanted
) -> None:
    wanted.store(b"code that the driver refuses")
    env = make()
    compiler.finish_and_step(env)
    assert has_program(env)
    assert compiler.calls == 1
    assert wanted.load() == compiler.code


def test_a_new_kernel_that_cannot_be_loaded(compiler: Compiler, wanted: translation.Wanted) -> None:
    compiler.code = b"code that the driver refuses"
    env = make()
    with pytest.warns(RuntimeWarning, match=f"{INTERPRETED}.*compiled kernel"):
        compiler.finish_and_step(env)
    env.step(np.zeros(3, np.int64))
    assert not has_program(env)
    assert not env.is_compiling
    assert compiler.calls == 1
    assert wanted.load() is None


def test_what_a_file_is_made_for(wanted: translation.Wanted) -> None:
    game = wanted.game
    paths = {
        kernel_cache.path_of(w.name, w.made_for)
        for lanes in (1, 2, 8)
        for architecture in (80, 90)
        for w in [translation.Wanted(game, lanes, architecture)]
    }
    assert len(paths) == 4  # 2 and 8 lanes have the same kernel


def test_several_games() -> None:
    games = [("pong", 1), ("breakout", 1)]
    with pytest.raises(ValueError, match="kernel is 'compiled'; with several games on a GPU"):
        cule.AtariVectorEnv(games, 2, device="cuda", kernel="compiled")
    env = cule.AtariVectorEnv(games, 2, device="cuda", num_reset_states=1)
    assert not env.is_compiling


def test_cule_info_names_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    from cule.envs.nvrtc import Toolkit

    kits = tuple(Toolkit(f"lib{n}", None, (n, 1), (90,)) for n in (12, 13))
    monkeypatch.setattr(translation, "find_toolkits", lambda: kits)
    monkeypatch.setattr(translation, "toolkit", lambda: kits[1])
    line = translation.describe_compilers()
    assert line == "13.1 (lib13), no nvJitLink; not used: 12.1 (lib12), no nvJitLink"
