"""Two gloo processes of a script on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path


def run_two_ranks(script: Path, words: list[str], folder: Path) -> None:
    """Run a script as ranks 0 and 1; their output is in `folder`, as ``0.txt`` and ``1.txt``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = []
    for rank in ("0", "1"):
        world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2"}
        env = {**os.environ, **world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, str(script), *words]
        with (folder / f"{rank}.txt").open("w") as log:
            processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
    for rank, process in enumerate(processes):
        assert process.wait(timeout=240) == 0, (folder / f"{rank}.txt").read_text()
