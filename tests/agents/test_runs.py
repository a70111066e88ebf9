"""Training runs in a folder: rows, checkpoints, options that are refused, diverging."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cule.agents import (  # noqa: E402
    CheckpointError,
    DivergedError,
    RunOptions,
    start_run,
)
from cule.agents.run.checkpoint import (  # noqa: E402
    last_checkpoint,
    load_state,
    read_checkpoint,
    write_checkpoint,
)
from cule.agents.run.logs import RunLog, Table  # noqa: E402
from cule.errors import InvalidArgumentError  # noqa: E402
from cule.progress import ProgressBar, short_number, short_time  # noqa: E402
from tests.support.cases import long_except  # noqa: E402
from tests.support.catch import Catch  # noqa: E402
from tests.support.learners import SMALL, class_of, small_env, small_learner  # noqa: E402
from tests.support.small_runs import rows_of, start  # noqa: E402


def test_the_first_rounds_show_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cule.agents.run.run.INTERVAL_S", 0.0)
    agent = small_learner("a2c", total_steps=320)
    options = RunOptions(out=str(tmp_path), log_every=10**6, eval_episodes=0)
    run = start_run(type(agent), agent.config, options, env=Catch(16))
    assert run._bar is not None
    run._bar.stream, run._bar.is_terminal = io.StringIO(), True
    assert run.run()
    lines = run._bar.stream.getvalue().split("\r")
    assert "0.0% 0/320 steps | ? FPS | return no episode yet | ETA ?" in lines[1]
    assert len(lines) > 3
    assert "320/320 steps" in lines[-1]


@pytest.mark.parametrize(("log_every", "steps"), [(160, [160, 320, 400]), (1000, [400]), (0, [])])
def test_the_end_of_training_has_a_row(tmp_path: Path, log_every: int, steps: list[int]) -> None:
    config = small_learner("a2c", total_steps=400).config
    options = RunOptions(
        out=str(tmp_path), log_every=log_every, eval_episodes=0, progress_bar=False
    )
    assert start_run(type(small_learner("a2c")), config, options, env=Catch(16)).run()
    assert [int(row["steps"]) for row in rows_of(tmp_path)] == steps


class Poisoned(Catch):
    """Catch whose rewards stop being numbers."""

    after = 40

    def step_frames(self, actions: Any, out: Any = None) -> Any:
        step = super().step_frames(actions, out)
        self.after -= 1
        return step._replace(reward=step.reward * float("nan")) if self.after < 0 else step


def test_divergence_stops_with_the_last_good_checkpoint(tmp_path: Path) -> None:
    config = small_learner("a2c", total_steps=10_000).config
    options = RunOptions(
        out=str(tmp_path), log_every=160, checkpoint_every=320, eval_episodes=0, progress_bar=False
    )
    run = start_run(type(small_learner("a2c")), config, options, env=Poisoned(16))
    with pytest.raises(DivergedError, match=r"latest\.pt"):
        run.run()
    content = read_checkpoint(tmp_path / "checkpoints" / "latest.pt")
    assert content["steps"] == 640  # 40 steps of 16 environments
    assert all(torch.isfinite(value).all() for value in content["network"].values())


class Refusing(Catch):
    """Catch that does not take the 41st actions."""

    after = 40

    def step_frames(self, actions: Any, out: Any = None) -> Any:
        self.after -= 1
        if self.after < 0:
            self.spoil()
            raise InvalidArgumentError("actions are odd")
        return super().step_frames(actions, out)

    def spoil(self) -> None:
        """Nothing, where the network is not to blame."""


@pytest.mark.parametrize(("weight", "error"), [(math.nan, DivergedError), (0.0, ValueError)])
def test_refused_actions_of_a_broken_network_are_divergence(
    weight: float, error: type[Exception], tmp_path: Path
) -> None:
    config = small_learner("a2c", total_steps=10_000).config
    options = RunOptions(out=str(tmp_path), eval_episodes=0, progress_bar=False)
    run = start_run(type(small_learner("a2c")), config, options, env=Refusing(16))

    def spoil() -> None:
        next(run.agent.network.parameters()).data.fill_(weight)

    run.agent.env.spoil = spoil  # type: ignore[attr-defined]
    with pytest.raises(error, match="none yet" if error is DivergedError else "odd"):
        run.run()


@pytest.mark.parametrize(
    "options",
    [
        {"eval_episodes": 9},
        {"eval_protocol": "easy"},
        {"log_every": -1},
        {"target_score": math.nan},
        {"resume": "no"},
        {"out": b"runs"},
    ],
)
def test_options_are_refused_before_a_run(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options)).removeprefix("eval_")):
        RunOptions(**options)


class Unreachable(Catch):
    """Catch that cannot be begun."""

    def reset(self, *, seed: Any = None) -> Any:
        raise InvalidArgumentError("mode is odd")


@pytest.mark.parametrize(
    ("name", "env", "changes", "match"),
    [
        ("a2c", Unreachable, {}, "mode"),
        ("dqn", Catch, {"memory": 10**12}, "capacity"),
        ("vtrace", Catch, {"num_batches": 3}, "num_batches is 3; it must divide num_envs, 16"),
    ],
)
def test_a_run_that_is_refused_at_once_leaves_nothing(
    name: str, env: type[Catch], changes: dict[str, Any], match: str, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / "a"

    def be_refused() -> None:
        options = RunOptions(out=str(folder), progress_bar=False)
        config = dataclasses.replace(small_learner(name).config, **changes)
        with pytest.raises(ValueError, match=match):
            start_run(class_of(name), config, options, env=env(16)).run()

    be_refused()
    assert not folder.parent.exists()
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("of somebody")
    be_refused()
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    assert (folder / "config.json").read_text() == "of somebody"


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/self/status"])
def test_a_folder_that_cannot_be_made_is_refused_before_training(
    place: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match="is not a folder"):
        start("ppo", tmp_path / place)


def test_rows_and_files(tmp_path: Path) -> None:
    run = start("ppo", tmp_path)
    assert run.run()
    rows = rows_of(tmp_path)
    assert [int(row["steps"]) for row in rows] == [512, 768, 1024, 1280, 1792, 2048]
    for row in rows:
        assert int(row["frames"]) == 4 * int(row["steps"])
        assert all(math.isfinite(float(value)) for value in row.values()), row
    lines = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert lines[0]["config"]["algorithm"] == "ppo"
    assert len(lines) == 1 + len(rows)
    for line in lines[1:]:
        shares = [line[f"{part}_share"] for part in ("act", "emulate", "learn")]
        assert min(shares) > 0
        assert sum(shares) == pytest.approx(1.0)
    again = start("ppo", tmp_path, resume=True)
    assert again.run()
    assert rows_of(tmp_path) == rows
    text = (tmp_path / "progress.jsonl").read_text()
    assert [json.loads(line) for line in text.splitlines()] == lines
    assert json.loads((tmp_path / "config.json").read_text())["num_envs"] == 16
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoints" / "latest.pt"


@pytest.mark.parametrize("name", long_except(["dqn", "rainbow", "apex-dqn", "apex-dpg"], "rainbow"))
def test_rows_tell_of_errors_and_weights(name: str, tmp_path: Path) -> None:
    """Of the last update, from the batch that it was made from; and of truncated episodes."""
    options = {**SMALL[name].options, "total_steps": 640, "max_num_frames_per_episode": 12}
    config = class_of(name).config_class(**options)
    run_options = RunOptions(out=str(tmp_path), log_every=640, eval_episodes=0, progress_bar=False)
    run = start_run(class_of(name), config, run_options, env=small_env(name, limit=3))
    agent: Any = run.agent
    learn_from, seen = agent.learn_from, []

    def spoil_some(batch: Any) -> Any:
        weights = batch.weights.clone()
        weights[:3] = 0.0  # as of transitions that are no longer there
        errors, metrics = learn_from(batch._replace(weights=weights))
        seen.append((errors, weights, metrics))
        return errors, metrics

    agent.learn_from = spoil_some
    assert run.run()
    errors, weights, _ = seen[-1]
    (row,) = rows_of(tmp_path)
    assert float(row["error_mean"]) == pytest.approx(float(errors.abs().mean()), rel=1e-5)
    assert float(row["weight_zero_share"]) == pytest.approx(3 / len(weights))
    assert float(row["weight_min"]) == 0
    # Environments are cut off every 3rd of 40 steps; the balls of 4 would have landed.
    assert float(row["truncations"]) == float(row["episodes"]) == 16 * 13
    assert "gpu_bytes" not in row


def test_rows_tell_of_the_memory(tmp_path: Path) -> None:
    assert start("rainbow", tmp_path, steps=800).run()
    rows = rows_of(tmp_path)
    # 320 steps are 20 of 16 environments, of which the newest 3 have no full return yet.
    assert [float(row["replay_span"]) for row in rows] == [18.0, 38.0, 48.0]
    assert [float(row["replay_size"]) for row in rows] == [288.0, 608.0, 768.0]
    assert all(float(row["max_priority"]) >= 1.0 for row in rows)


def test_runs_are_not_mixed(tmp_path: Path) -> None:
    start("ppo", tmp_path, steps=640).run()
    with pytest.raises(CheckpointError, match="resume"):
        start("ppo", tmp_path)
    with pytest.raises(CheckpointError, match="a2c"):
        start("a2c", tmp_path, resume=True)
    with pytest.raises(CheckpointError, match="learning_rate"):
        start("ppo", tmp_path, resume=True, learning_rate=1.0)
    with pytest.raises(CheckpointError, match="num_actions of the checkpoint is 3; it must be 0"):
        start("ppo-continuous", tmp_path, resume=True)


def test_a_run_in_the_working_folder_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start("a2c", tmp_path / "run", steps=80).run()
    monkeypatch.chdir(tmp_path / "run")
    for folder in (Path(), Path("../run")):
        with pytest.raises(CheckpointError, match=r"another folder, such as '.*run-2'"):
            start("a2c", folder)


def test_a_damaged_row_of_progress_is_dropped(tmp_path: Path) -> None:
    assert start("a2c", tmp_path, steps=320).run()
    (tmp_path / "progress.csv").write_text("steps,train_s,wall_s\nabc,1,2\n320,3,x\n")
    assert start("a2c", tmp_path, steps=640, resume=True).run()
    assert [row["steps"] for row in rows_of(tmp_path)] == ["320", "640"]


def test_an_evaluation_of_which_columns_are_lost_is_made_again(tmp_path: Path) -> None:
    learner = small_learner("a2c", total_steps=320)
    for resume in (False, True):
        options = RunOptions(out=str(tmp_path), eval_episodes=10, progress_bar=False, resume=resume)
        envs: dict[str, Any] = {"env": Catch(16), "eval_env": lambda: Catch(10)}
        assert start_run(type(learner), learner.config, options, **envs).run()
        table = tmp_path / "evaluations.csv"
        (*_, last) = csv.DictReader(table.read_text().splitlines())
        assert last["protocol"]
        table.write_text("steps,mean\n320,1\n")


def test_kept_checkpoints_and_evaluations(tmp_path: Path) -> None:
    config = small_learner("a2c", total_steps=1280).config
    options = RunOptions(
        out=str(tmp_path),
        keep_every=640,
        eval_every=640,
        eval_episodes=10,
        target_score=-1.0,  # the worst score there is
        progress_bar=False,
    )
    run = start_run(
        type(small_learner("a2c")), config, options, env=Catch(16), eval_env=lambda: Catch(10)
    )
    assert run.run()
    names = {path.name for path in (tmp_path / "checkpoints").glob("*.pt")}
    assert names == {"latest.pt", "640.pt", "1280.pt"}
    with (tmp_path / "evaluations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["steps"]) for row in rows] == [640, 1280]
    assert [float(row["mean"]) for row in rows] == [r.mean for _, r in run.evaluations]
    assert json.loads((tmp_path / "time_to_score.json").read_text())["steps"] == 640
    # A run that is over and evaluated is not evaluated again.
    options = dataclasses.replace(options, resume=True)
    over = start_run(
        type(small_learner("a2c")), config, options, env=Catch(16), eval_env=lambda: Catch(10)
    )
    assert over.run()
    assert not over.evaluations
    with (tmp_path / "evaluations.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == rows
    assert json.loads((tmp_path / "time_to_score.json").read_text())["steps"] == 640
    # But by other rules it is; and what no evaluation reaches is not said to be reached.
    options = dataclasses.replace(options, eval_protocol="sticky", target_score=99.0)
    sticky = start_run(
        type(small_learner("a2c")), config, options, env=Catch(16), eval_env=lambda: Catch(10)
    )
    assert sticky.run()
    assert [steps for steps, _ in sticky.evaluations] == [1280]
    assert not (tmp_path / "time_to_score.json").exists()


def test_saved_and_loaded_learner_goes_on_alike(tmp_path: Path) -> None:
    agent = small_learner("vtrace", total_steps=2560)
    for _ in agent.train(steps=1280):
        pass
    agent.save(tmp_path / "a.pt")
    again = type(agent).load(tmp_path / "a.pt", Catch(32))
    assert again.config == agent.config
    pairs = zip(agent.train(), again.train(), strict=True)
    for ours, theirs in pairs:
        assert ours.steps == theirs.steps
        assert float(ours.metrics["value_loss"]) == float(theirs.metrics["value_loss"])
    with pytest.raises(CheckpointError, match="vtrace"):
        type(small_learner("ppo")).load(tmp_path / "a.pt", Catch(32))


def test_without_its_memory_a_run_fills_a_new_one(tmp_path: Path) -> None:
    agent = small_learner("dqn")
    for _ in agent.train(steps=1600):
        pass
    updates = agent.updates
    assert updates > 0
    agent.save(tmp_path / "a.pt", replay=False)
    losses = {name: float(value) for name, value in agent.metrics.items()}
    assert losses["loss"] > 0
    again = type(agent).load(tmp_path / "a.pt", Catch(16))
    for progress in again.train(steps=1840):
        shown = {name: float(progress.metrics[name]) for name in losses}
    assert shown == losses  # of the last update there was
    assert (again.steps, again.updates) == (1840, updates)  # 240 transitions: not enough yet
    for _ in again.train(steps=2400):
        pass
    assert again.updates > updates


def test_checkpoints_are_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "a.pt"
    content: dict[str, Any] = {"algorithm": "ppo", "version": "0", "config": {}, "obs_shape": [4]}
    content |= {"num_actions": 6, "steps": 1, "updates": 1, "network": {"w": torch.ones(3)}}
    write_checkpoint(path, content)

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_checkpoint(path, {"steps": 2})
    assert read_checkpoint(path)["steps"] == 1
    assert [p.name for p in path.parent.iterdir()] == ["a.pt"]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(path)
    torch.save([1, 2], path)
    with pytest.raises(CheckpointError, match="format"):
        read_checkpoint(path)
    with pytest.raises(FileNotFoundError):
        read_checkpoint(tmp_path / "missing.pt")


def test_a_line_of_json_has_no_nan(tmp_path: Path) -> None:
    log = RunLog(tmp_path, {})
    log.add("progress", {"steps": 10, "loss": math.nan, "mode": "a"})
    log.close()
    again = RunLog(tmp_path, {}, until_step=10)
    again.close()
    _, row = map(json.loads, (tmp_path / "progress.jsonl").read_text().splitlines())
    assert row == {"steps": 10, "loss": None, "mode": "a"}


def test_a_checkpoint_that_waits_is_the_newest(tmp_path: Path) -> None:
    start("ppo", tmp_path, steps=640).run()
    latest = tmp_path / "checkpoints" / "latest.pt"
    older = read_checkpoint(latest)
    start("ppo", tmp_path, steps=1280, resume=True).run()
    # Killed after the new one was written and before it took the place of the former.
    latest.rename(latest.with_name("next.pt"))
    assert start("ppo", tmp_path, steps=1280, resume=True).agent.steps == 1280
    write_checkpoint(latest, {k: v for k, v in older.items() if k != "format"})
    assert start("ppo", tmp_path, steps=1280, resume=True).agent.steps == 1280
    latest.with_name("next.pt").write_bytes(b"damaged")
    assert start("ppo", tmp_path, steps=1280, resume=True).agent.steps == older["steps"]


def test_options_newer_than_a_checkpoint_are_compared(tmp_path: Path) -> None:
    agent = small_learner("ppo")
    agent.save(tmp_path / "a.pt")
    content = read_checkpoint(tmp_path / "a.pt")
    del content["config"]["lr_scale"]
    load_state(small_learner("ppo"), content)
    with pytest.raises(CheckpointError, match="lr_scale = 'none'; here it is 'linear'"):
        load_state(small_learner("ppo", lr_scale="linear"), content)


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_a_checkpoint_of_a_gpu_goes_on_without_one(tmp_path: Path, name: str) -> None:
    agent = small_learner(name)
    for _ in agent.train(steps=512):
        pass
    agent.save(tmp_path / "a.pt")
    content = read_checkpoint(tmp_path / "a.pt")
    content["generator"] = torch.zeros(16, dtype=torch.uint8)  # as CUDA's
    for group in content["optimizer"]["param_groups"]:
        group |= {"lr": torch.tensor(1e-3), "capturable": True, "foreach": True}
    again = small_learner(name)
    load_state(again, content)
    for _ in again.train(steps=1024):
        pass
    assert again.steps == 1024
    again.check_finite()


def test_tables_drop_what_came_after_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table = Table(path, until_step=None)
    for step in (10, 20, 30):
        table.add({"steps": step, "loss": step / 10})
    table.add({"steps": 40, "loss": 4.0, "extra": 1})
    with path.open("a") as file:
        file.write("50,5.0")  # killed in the middle of a line
    table = Table(path, until_step=20)
    table.add({"steps": 25, "loss": 2.5})
    with path.open(newline="") as file:
        assert [(r["steps"], r["loss"]) for r in csv.DictReader(file)] == [
            ("10", "1.0"), ("20", "2.0"), ("25", "2.5"),
        ]  # fmt: skip


def test_progress_bar() -> None:
    stream = io.StringIO()
    bar = ProgressBar("pong ppo", 1_000_000, stream)
    bar.update(250_000, 12_345.0, float("nan"), 3725.0)
    bar.update(500_000, 12_345.0, -3.5, float("inf"))
    first, second = stream.getvalue().splitlines()
    assert (
        first
        == "pong ppo [#####...............]  25.0% 250k/1M steps | 12.3k FPS | return no episode yet | ETA 1:02:05"
    )
    assert "return -3.50" in second
    assert "ETA ?" in second
    assert (short_number(999), short_number(1.5e9), short_time(61)) == ("999", "1.5G", "0:01:01")
