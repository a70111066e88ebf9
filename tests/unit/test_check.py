"""``cule check`` on a CPU, and the file of launch geometries."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path

import pytest

import cule
from cule.check import command, equality
from cule.check.command import CheckOptions
from cule.check.speed import measure
from cule.cli import main
from cule.errors import DeviceError, InvalidArgumentError, UnknownGameError

SMALL = ("--steps", "3", "--seconds", "0", "--num-envs", "2,3")


@pytest.fixture
def few_envs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two environments for each game that is compared: those of ale-py start slowly."""
    monkeypatch.setattr(command, "ENVS_PER_GAME", 2)


@pytest.mark.ale
def test_a_cpu(few_envs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "check.json"
    words = ["check", "--device", "cpu", "--games", "pong", "freeway", *SMALL, "--out", str(out)]
    assert main([*words, "--minutes", "20"]) == 0
    text = capsys.readouterr().out
    assert "compiled = interpreter of the CPU: 3 steps of 4 environments" in text
    assert "freeway = ale-py: 3 steps of 2 environments" in text
    assert "FAILED" not in text
    report = json.loads(out.read_text())
    assert [(row["num_envs"], row["kernel"]) for row in report["speed"]] == [
        (size, kernel) for size in (2, 3) for kernel in ("interpreter", "compiled")
    ]
    assert all(row["frames_per_s"] > 0 for row in report["speed"])
    assert report["machine"]["versions"]["cule"]


@pytest.mark.long
@pytest.mark.ale
def test_what_differs_from_ale_py_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real_play = equality.play

    def play(env: object, actions: object) -> list[equality.Results]:
        results = real_play(env, actions)
        if not hasattr(env, "get_state"):  # ale-py's
            results[2]["obs"][5, 0, 0, 0] += 1
        return results

    monkeypatch.setattr(equality, "play", play)
    words = ["check", "--device", "cpu", "--games", "pong", *SMALL]
    assert main([*words, "--out", str(tmp_path / "check.json")]) == 1
    text = capsys.readouterr().out
    assert "FAILED  pong = ale-py: first differences: {'pong': {'step': 3, 'env': 5" in text
    assert "ok      compiled = interpreter of the CPU" in text


@pytest.mark.ale
def test_what_is_missing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def resolve(device: str) -> str:
        raise DeviceError(f"device is {device!r}, but it is not there")

    monkeypatch.setattr(command, "resolve_device", resolve)
    out = tmp_path / "check.json"
    assert main(["check", "--device", "cuda", *SMALL, "--out", str(out)]) == 1
    assert "FAILED  device: device is 'cuda', but it is not there" in capsys.readouterr().out
    assert json.loads(out.read_text())["speed"] == []


@pytest.mark.ale
def test_an_ale_py_that_cannot_be_imported_fails(
    few_envs: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "ale_py.vector_env", None)
    words = ["check", "--device", "cpu", "--games", "pong", *SMALL, "--minutes", "20"]
    assert main([*words, "--out", str(tmp_path / "check.json")]) == 1
    assert "FAILED  pong = ale-py: import of ale_py.vector_env" in capsys.readouterr().out


def test_the_speed_is_that_of_the_given_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    asked = []

    def make(*_: object, device: str, **__: object) -> None:
        asked.append(device)
        raise DeviceError("it is not there")

    monkeypatch.setattr(cule, "AtariVectorEnv", make)
    with pytest.raises(DeviceError):
        measure("pong", "cuda:1", 256, "compiled", 0.0, lanes=8)
    assert asked == ["cuda:1"]


@pytest.mark.ale
def test_the_time_limit(few_envs: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", "--device", "cpu", "--games", "pong", *SMALL, "--minutes", "0"]
    assert main([*words, "--out", str(tmp_path / "check.json")]) == 1
    text = capsys.readouterr().out
    assert re.search(r"FAILED  speed: 0 of \d+ measured: 0.0 minutes were over", text)
    assert "FAILED  pong = ale-py: not compared: 0.0 minutes were over" in text


def test_options_that_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="steps is 0; it must be at least 1"):
        CheckOptions(steps=0)
    with pytest.raises(InvalidArgumentError, match="seconds is nan; it must be a finite number"):
        CheckOptions(seconds=float("nan"))
    with pytest.raises(InvalidArgumentError, match="num_envs has 0"):
        CheckOptions(num_envs=(4, 0))
    with pytest.raises(InvalidArgumentError, match="games is empty"):
        CheckOptions(games=())
    with pytest.raises(UnknownGameError, match="games has 'pongg'"):
        CheckOptions(games=("pongg",))


class TestGeometries:
    """The file of measured launch geometries."""

    @pytest.fixture(autouse=True)
    def device(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
        torch = pytest.importorskip("torch")
        monkeypatch.setenv("CULE_CACHE", str(tmp_path))
        self.name = "some GPU"
        monkeypatch.setattr(
            torch.cuda,
            "get_device_properties",
            lambda _: types.SimpleNamespace(name=self.name, multi_processor_count=100),
        )
        self.device = torch.device("cuda:0")
        return self.device

    def lanes(self, num_envs: int) -> int:
        from cule.envs.launch import choose_geometry

        return choose_geometry(num_envs, self.device).lanes_per_warp

    def test_the_nearest_size_counts(self) -> None:
        from cule.envs.launch import keep_lanes

        assert [self.lanes(n) for n in (1000, 1500, 3000, 6000)] == [1, 8, 16, 32]
        keep_lanes(self.device, {1024: 2, 4096: 16, 8192: 32})
        assert [self.lanes(n) for n in (1000, 1400, 4096, 5000, 6000, 8192)] == [
            2,
            2,
            16,
            16,
            32,
            32,
        ]
        # Measured for none of them.
        assert [self.lanes(n) for n in (500, 2000, 12000)] == [1, 16, 32]

    def test_other_devices_and_versions_have_their_own(self) -> None:
        from cule.envs.launch import keep_lanes

        keep_lanes(self.device, {1024: 2})
        self.name = "another GPU"
        assert self.lanes(1024) == 1
        keep_lanes(self.device, {1024: 8})
        assert self.lanes(1024) == 8
        self.name = "some GPU"
        assert self.lanes(1024) == 2

    @pytest.mark.parametrize(
        "content",
        [b"", b"\xff{", b"[]", b"{}", b'{"KEY": 3}', b'{"KEY": {"a": 2, "0": 4, "1024": 3}}'],
    )
    def test_a_bad_file_is_none(self, content: bytes) -> None:
        from cule.envs.launch import geometry_file, keep_lanes

        keep_lanes(self.device, {1024: 2})
        (key,) = json.loads(geometry_file().read_text())
        geometry_file().write_bytes(content.replace(b"KEY", key.encode()))
        assert self.lanes(1024) == 1
        keep_lanes(self.device, {1024: 4})
        assert self.lanes(1024) == 4
