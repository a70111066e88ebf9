"""Snapshots of an earlier build: they are restored, and what follows is what followed then.

If this fails because the format has changed, raise its version (`kSnapshotMagic` in
csrc/batch/snapshot.hpp, `_MAGIC` in cule/envs/ale_state.py) and record new snapshots.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import cule
from roms_tools import record_snapshots
from roms_tools.record_snapshots import CASES, STEPS_AFTER, STEPS_BEFORE, TARGET
from tests.support.program_digests import TARGET as PROGRAMS
from tests.support.program_digests import program_digests

GOLDEN = json.loads(TARGET.read_text(encoding="utf-8"))["cases"]


def rows_of(name: str, env: Any) -> np.ndarray:
    state = np.frombuffer(record_snapshots.unpack(GOLDEN[name]["state"]), np.uint8)
    return state.reshape(env.num_envs, -1)


@pytest.mark.parametrize("name", CASES)
def test_environments_continue(name: str) -> None:
    env = CASES[name]()
    env.reset(seed=3)
    env.set_state(rows_of(name, env))
    assert record_snapshots.play(env, 2, STEPS_AFTER) == GOLDEN[name]["digest"]
    env.close()


@pytest.mark.parametrize("name", CASES)
def test_snapshots_are_the_recorded_ones(name: str) -> None:
    env = CASES[name]()
    env.reset(seed=1)
    record_snapshots.play(env, 1, STEPS_BEFORE)
    assert np.array_equal(env.get_state(), rows_of(name, env))
    env.close()


def test_programs_are_the_recorded_ones() -> None:
    """Other words would make another game of each, whose snapshots are refused."""
    assert program_digests() == json.loads(PROGRAMS.read_text(encoding="utf-8"))


def test_a_console_continues() -> None:
    console = record_snapshots.load_console()
    console.restoreState(cule.ALEState(record_snapshots.unpack(GOLDEN["console"]["state"])))
    assert record_snapshots.play_console(console, STEPS_AFTER) == GOLDEN["console"]["digest"]


def test_another_version_is_named() -> None:
    env = CASES["exact"]()
    env.reset(seed=1)
    states = env.get_state()
    before = states.copy()
    states[:, 3] = ord("2")
    for old in (states, states[:, :-104]):  # its rows may have another length
        with pytest.raises(cule.StateVersionError, match=r"this build reads version 4.*seed"):
            env.set_state(old)
    assert np.array_equal(env.get_state(), before)
    env.close()


def test_another_version_of_a_console_is_named() -> None:
    state = record_snapshots.unpack(GOLDEN["console"]["state"])
    with pytest.raises(cule.InvalidStateError, match=r"version of cule reads 4.*seed"):
        cule.ALEState(state.replace(b"cule-st4", b"cule-st7"))
