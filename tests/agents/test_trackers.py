"""Rows of runs in trackers of experiments, by name."""

from __future__ import annotations

import contextlib
import csv
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule.agents import A2C, A2CConfig, RunOptions, start_run  # noqa: E402
from cule.agents.run.logs import Row, TensorBoard, _boards, check_trackers  # noqa: E402
from cule.errors import InvalidArgumentError, MissingPackageError, StorageError  # noqa: E402
from tests.support.catch import Catch  # noqa: E402


class Recorder:
    """wandb and mlflow, as far as a run calls them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls.append((name, (arguments, keywords)))
            return self

        return call

    def named(self, name: str) -> list[Any]:
        return [call for found, call in self.calls if found == name]


def train(folder: Path, track: str, on_row: Callable[[str, Row], None] | None = None) -> None:
    config = A2CConfig(num_envs=8, network="mlp", total_steps=160)
    options = RunOptions(
        out=str(folder),
        log_every=40,
        eval_every=80,
        eval_episodes=10,
        progress_bar=False,
        track=track,
    )
    start_run(A2C, config, options, env=Catch(8), eval_env=lambda: Catch(8), on_row=on_row).run()


def test_trackers_get_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb, mlflow = Recorder(), Recorder()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    train(tmp_path / "run", "wandb, mlflow, wandb")
    ((_, made),) = wandb.named("init")
    assert made["project"] == "cule"
    assert made["name"] == "run"
    assert made["config"]["algorithm"] == "a2c"
    assert made["config"]["num_envs"] == 8
    ((_, begun),) = mlflow.named("start_run")
    assert begun == {"run_name": "run"}
    with (tmp_path / "run" / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "run" / "evaluations.csv").open() as file:
        evaluations = list(csv.DictReader(file))
    logged = wandb.named("log")
    assert logged == mlflow.named("log_metrics")
    assert len(logged) == len(rows) + len(evaluations) == 4 + 2
    of_progress = [(row, at) for (row,), at in logged if "progress/entropy" in row]
    for (row, at), wanted in zip(of_progress, rows, strict=True):
        assert at == {"step": int(wanted["steps"])}
        assert row["progress/entropy"] == pytest.approx(float(wanted["entropy"]))
        assert all(isinstance(value, float) for value in row.values())
    assert logged[-1][0][0]["evaluation/mean"] == pytest.approx(float(evaluations[-1]["mean"]))
    assert wandb.named("finish") == [((), {"exit_code": 0})]
    assert mlflow.named("end_run") == [(("FINISHED",), {})]


@pytest.mark.parametrize("status", ["KILLED", "FAILED"])
def test_trackers_know_how_a_run_ended(
    status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb, mlflow = Recorder(), Recorder()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)

    def on_row(group: str, row: Row) -> None:
        if status == "FAILED":
            raise ArithmeticError
        signal.raise_signal(signal.SIGINT)

    with contextlib.suppress(ArithmeticError):
        train(tmp_path / "run", "wandb, mlflow", on_row)
    assert wandb.named("finish") == [((), {"exit_code": 1})]
    assert mlflow.named("end_run") == [((status,), {})]


def test_wrong_names_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match=r"track is 'wand'; .* wandb, mlflow"):
        RunOptions(track="wand")
    monkeypatch.setitem(sys.modules, "wandb", None)  # not installed
    with pytest.raises(MissingPackageError, match="pip install wandb"):
        RunOptions(track="wandb")


def test_a_folder_with_the_name_of_a_package_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wandb", "mlflow", "tensorboard"):  # as in the folder of a run
        (tmp_path / name).mkdir()
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(MissingPackageError, match="pip install wandb"):
        check_trackers("wandb")
    sys.modules.pop("wandb", None)
    assert _boards(tmp_path / "board", None) == []


def test_a_tracker_that_fails_ends_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb, mlflow = Recorder(), Recorder()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)

    def log_params(params: dict[str, Any]) -> None:
        raise RuntimeError("no server\nat http://localhost:5000")

    mlflow.log_params = log_params  # type: ignore[attr-defined]
    with pytest.raises(StorageError, match=r"track is 'mlflow', .* failed: no server$"):
        train(tmp_path / "run", "wandb, mlflow")
    assert mlflow.named("end_run") == [(("FAILED",), {})]
    assert len(wandb.named("finish")) == 1
    assert not (tmp_path / "run").exists()


def test_the_board_hides_rows_that_are_not_in_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Recorder()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", board)
    TensorBoard(tmp_path, None)
    TensorBoard(tmp_path, 40)  # resumed
    assert [made["purge_step"] for _, made in board.named("SummaryWriter")] == [0, 41]


def test_no_tracker_by_default(tmp_path: Path) -> None:
    sys.modules.pop("wandb", None)
    train(tmp_path / "run", "")
    assert "wandb" not in sys.modules
    assert SimpleNamespace(**vars(RunOptions())).track == ""
