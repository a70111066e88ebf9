"""``cule watch --record``: what people play in the browser is a dataset that replays exactly."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from cule import AtariVectorEnv
from cule.cli import main
from cule.datasets import Recorder, command, open_dataset
from cule.watch.keys import KEYS, joystick_of
from cule.watch.policies import PlayOptions, open_random
from tests.support.served import LIMIT_S, serve

pytestmark = pytest.mark.ale


def open_env(game: str, num_envs: int) -> AtariVectorEnv:
    """Environments as of `cule watch`."""
    env, _ = open_random(PlayOptions(game=game, num_envs=num_envs))
    assert isinstance(env, AtariVectorEnv)
    return env


@pytest.mark.parametrize(("game", "num_envs"), [("breakout", 1), ("ms_pacman", 3)])
def test_play_over_http_is_played_again(game: str, num_envs: int, tmp_path: Path) -> None:
    path, env = tmp_path / "play.cule", open_env(game, num_envs)
    recorder, random = Recorder(env, digest_every=7), np.random.default_rng(2)
    rams, actions = [], []
    with serve(env, recorder=recorder, waits=True) as served:
        assert len(recorder) == 0
        for step in range(120):
            keys = [key for key in sorted(KEYS) if random.random() < 0.4]
            assert served.play(num_envs - 1, *keys).status == 200
            if step in (40, 41, 90):  # R, twice before the next step
                for _ in range(2):
                    before = served.frame().number
                    assert served.post("/reset", {"viewer": "viewer1"}).status == 200
                    served.frame(before)
            served.step()
            rams.append(np.array(env.ram))
            actions.append(joystick_of(env)(frozenset(keys)))
        assert len(recorder) == 120 * num_envs
        recorder.save(path)
    dataset = open_dataset(path)
    assert dataset.game == game
    assert dataset.seeds == tuple(range(num_envs))
    assert dataset.resets == tuple((num_envs - 1, step) for step in (40, 41, 90))
    steps = list(dataset.replay(num_envs=num_envs))
    assert len(steps) == 120
    for step, ram, action in zip(steps, rams, actions, strict=True):
        assert step.action.tolist() == [0] * (num_envs - 1) + [action]
        # After the last step of an episode the environment has the next one.
        kept = ~(step.terminated | step.truncated)
        assert np.array_equal(step.next_obs[kept].reshape(-1, 128), ram[kept])
    pictures = [step.obs.shape for step in dataset.replay(obs_type="image", num_envs=1)]
    assert pictures == [(1, 4, 84, 84)] * 120 * num_envs


def test_environments_wait_for_a_player() -> None:
    env = open_env("breakout", 2)
    recorder = Recorder(env)
    with serve(env, recorder=recorder, paused=False, waits=True) as served:
        first = served.frame().number
        assert served.session.picture(first, "other", 0.3) is None
        served.play(1, "fire")
        assert served.frame(first).number > first
        assert served.post("/release", {"viewer": "viewer1"}).status == 200
        served.session.pause(True)
        played = -1
        while played != (played := len(recorder)):  # a step may be under way
            time.sleep(0.1)
        assert played > 0
        assert served.post("/step", {}).status == 200  # no viewer plays
        assert served.session.picture(served.frame().number, "other", 0.3) is None
        assert len(recorder) == played
        assert served.state()["frames_per_s"] == 0.0


@contextlib.contextmanager
def recording(
    path: Path, *words: str
) -> Iterator[tuple[subprocess.Popen[str], http.client.HTTPConnection]]:
    """A process of `cule watch` that records, and a connection to it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cule.cli", "watch", "--port", "0", "--record", str(path), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        address = urlsplit(process.stdout.readline().split()[0])
        line = process.stdout.readline()
        assert line == f"recording to {path} while you play: click a screen\n"
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=LIMIT_S
        )
        with contextlib.closing(connection):
            yield process, connection
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str], kind: signal.Signals = signal.SIGINT) -> str:
    """Send a signal to a process; return what it prints then."""
    process.send_signal(kind)
    output, errors = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, errors) == (0, "")
    return output


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGHUP])  # Ctrl-C, and a closed terminal
def test_a_process_saves_when_it_ends(tmp_path: Path, kind: signal.Signals) -> None:
    path = tmp_path / "new" / "play.cule"
    with recording(path, "--game", "breakout", "--seed", "5") as (process, connection):
        number = 0
        message = json.dumps({"viewer": "a", "console": 0, "keys": ["fire", "right"]})
        while number < 30:
            for method, query, body in (
                ("POST", "/input", message),
                ("GET", f"/frame?after={number}&viewer=a", None),
            ):
                connection.request(method, query, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                response.read()
            number = int(response.headers["Cule-Frame"] or number)
        output = end(process, kind)
    dataset = open_dataset(path)
    assert f"{path}: {len(dataset):,} steps, 0 complete episodes" in output
    assert (dataset.seeds, dataset.options["frameskip"]) == ((5,), 1)
    actions = [int(step.action[0]) for step in dataset.replay()]
    assert len(actions) == len(dataset) >= 30
    assert actions[-1] == dataset.action_set.index("RIGHTFIRE")


def test_without_a_player_there_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "play.cule"
    with recording(path, "--game", "pong") as (process, _):
        assert f"no viewer has played; {path} is not written" in end(process)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*words: Any) -> str:
        assert main(["watch", "--port", "0", *map(str, words)]) == 2
        return capsys.readouterr().err

    path = tmp_path / "play.cule"
    text = refused("--record", path, "--game", "pong", "--num-players", "2")
    assert "num_players is 2; for a recording it must be a game of one player" in text
    path.write_text("mine")
    assert "play.cule', which exists; name another file" in refused("--record", path)
    assert path.read_text() == "mine"


def test_recordings_to_one_file_that_end_together_are_both_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, save = threading.Barrier(2, timeout=60), Recorder.save

    def save_together(self: Recorder, path: Any) -> None:
        together.wait()
        save(self, path)

    monkeypatch.setattr(Recorder, "save", save_together)

    def record(seed: int) -> None:
        with command.recording(open_env("pong", 1), tmp_path / "x.cule") as recorder:
            recorder.reset(seed=seed)
            recorder.step(np.zeros(1, int))

    threads = [threading.Thread(target=record, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {open_dataset(path).seeds for path in tmp_path.iterdir()} == {(1,), (2,)}
    together.abort()
    with pytest.raises(threading.BrokenBarrierError):
        record(3)
    assert len(list(tmp_path.iterdir())) == 2
