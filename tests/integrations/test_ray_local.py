"""``--cluster local``: no service of Ray can be reached from another machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("ray", reason="ray is not installed; make test-integrations runs this")

#: Prints the addresses at which this process and those that it has started listen.
SCRIPT = """
import os
import re
from pathlib import Path

from cule.agents.cluster.connection import connect, disconnect, import_ray

assert connect("local")
ray = import_ray()
assert ray.get(ray.remote(lambda: 3).remote()) == 3

parents = {}
for path in Path("/proc").iterdir():
    if path.name.isdigit():
        try:
            status = (path / "stat").read_text()
        except OSError:
            continue
        parents[int(path.name)] = int(status.rpartition(")")[2].split()[1])


def is_own(pid):
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


sockets = set()
for pid in filter(is_own, parents):
    try:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            if found := re.fullmatch(r"socket:\\[(\\d+)\\]", os.readlink(file)):
                sockets.add(found[1])
    except OSError:
        continue
for name in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
        words = line.split()
        if words[9] in sockets and words[3] == "0A":  # listens
            print(words[1].partition(":")[0])
disconnect()
"""

#: 127.0.0.1, and the same in IPv6, as in /proc/net.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


@pytest.mark.skipif(sys.platform != "linux", reason="sockets are listed as on Linux")
def test_a_local_cluster_listens_on_this_machine_alone() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = done.stdout.split()
    assert len(found) >= 4
    assert set(found) <= LOOPBACK
