"""``cule watch`` as a command: a process from start to Ctrl-C, and what it refuses."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from cule.cli import main
from cule.watch.session import Session
from tests.support.served import LIMIT_S, decode

#: A process in which torch cannot be imported.
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from cule.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.ale
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_process_serves_until_it_is_stopped(kind: signal.Signals) -> None:
    words = ["watch", "--game", "breakout", "--num-envs", "2", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_TORCH, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().split()[0]
        address = urlsplit(url)
        assert address.hostname == "127.0.0.1"
        connection = http.client.HTTPConnection(
            address.hostname, address.port or 80, timeout=LIMIT_S
        )
        number, shapes = -1, []
        while len(shapes) < 3:
            connection.request("GET", f"/frame?after={number}&viewer=a")
            response = connection.getresponse()
            png = response.read()
            if response.status == 204:  # no picture in a second: ask again
                continue
            shapes.append(decode(png).shape)
            number = int(response.headers["Cule-Frame"])
        assert shapes == [(210, 320, 3)] * 3
        process.send_signal(kind)
        _, errors = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    connection.close()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.ale
@pytest.mark.parametrize(
    ("words", "is_asked_for"),
    [
        ([], False),
        (["--host", "localhost"], False),
        (["--host", "0.0.0.0"], True),
        (["--token", "a good secret"], True),
        (["--host", "0.0.0.0", "--token", "a good secret"], True),
    ],
)
def test_other_machines_need_a_token(
    words: list[str],
    is_asked_for: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Session, "run", lambda self: None)
    assert main(["watch", "--num-envs", "1", "--port", "0", *words]) == 0
    *explanation, line = capsys.readouterr().out.splitlines()
    query = parse_qs(urlsplit(line.split()[0]).query)
    assert ("token" in query) == is_asked_for
    if "--token" in words:
        assert query["token"] == ["a good secret"]
    elif is_asked_for:
        assert len(query["token"][0]) >= 32
        assert "other machines can reach this address" in explanation[0]


def printed_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a rejected command prints."""
    assert main(["watch", *words]) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("cule: ")
    assert not printed.out
    return line


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--num-envs", "-1"], "num_envs is -1; it must be from 0 to 1024"),
        (["--record", "/dev/null"], "/dev/null cannot be written: it is no regular file"),
        (["--num-envs", "1025"], "num_envs is 1025"),
        (["--port", "-1"], "port is -1; it must be from 0 to 65535"),
        (["--port", "65536"], "port is 65536"),
        (["--seed", "-1"], "seed is -1"),
        (["--speed", "-1"], "speed is -1.0; it must be at least 0"),
        (["--speed", "nan"], "speed is nan"),
        (["--fps", "0"], "fps is 0.0; it must be above 0"),
        (["--fps", "inf"], "fps is inf"),
        (["--token", "short"], "token has 5 characters; it must have at least 8"),
        (["--protocol", "noop"], "protocol is 'noop'; it must be used with a CHECKPOINT"),
        (["--agent", "a:B"], "agent is 'a:B'; it must be used with a CHECKPOINT"),
        (["--greedy"], "greedy is True; it must be used with a CHECKPOINT"),
        (["run", "--mode", "1"], "mode is 1; it must be used without a CHECKPOINT"),
        (["run", "--difficulty", "0"], "difficulty is 0; it must be used without"),
        (["--game", "pongg"], "pongg"),
        (["--device", "tpu"], "device"),
    ],
)
def test_rejected_words(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in printed_error(words, capsys)


@pytest.mark.ale
def test_rejected_by_the_game_or_the_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert "mode is 77" in printed_error(["--mode", "77"], capsys)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = printed_error(["--port", port, "--num-envs", "1"], capsys)
    assert f"host is '127.0.0.1' and port {port}; cule cannot listen there: Address already" in line


def test_a_missing_rom_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("CULE_ROM_DIR", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pong" in printed_error([], capsys)


def test_only_a_checkpoint_needs_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "cule watch CHECKPOINT needs torch" in printed_error(["run"], capsys)


def test_words_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "playable by keyboard" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["watch", "--num-envs", "many"])
    assert caught.value.code == 2
    with pytest.raises(SystemExit) as caught:
        main(["watch", "--help"])
    assert caught.value.code == 0
