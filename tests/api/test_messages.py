"""Messages of errors: one short line, however large the value is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cule
from cule.errors import shown
from cule.roms import assemble, get_rom_path

#: Values that take up to 4 MB when Python writes them out.
LARGE: list[Any] = [
    "x" * 10**6,
    b"\x00" * 10**6,
    bytearray(10**6),
    memoryview(bytes(10**6)),
    list(range(10**5)),
    tuple(range(10**5)),
    [["y" * 1000] * 1000] * 2,
    {str(key): key for key in range(10**5)},
    {"k" * 10**6: 1},
    10**6000,
    -(10**6000),
    Path("p" * 10**6),
    "line\n" * 10**5,
]


#: Characters of a message with the names of all games.
MOST_CHARS = 2_000


def options_of_environments() -> list[str]:
    return sorted(set(cule.EnvOptions.__dataclass_fields__) - {"game", "num_envs"})


@pytest.mark.ale
@pytest.mark.parametrize("value", LARGE, ids=lambda value: type(value).__name__)
def test_messages_abbreviate_values(value: Any, tmp_path: Path) -> None:
    env = cule.AtariVectorEnv("pong", 2, num_threads=1)
    env.reset(seed=0)
    ale = cule.ALEInterface()
    ale.loadROM(get_rom_path("pong"))
    calls: list[Callable[[], object]] = [
        lambda: env.step(value),
        lambda: env.reset(seed=value),
        lambda: env.reset(options=value),
        lambda: env.reset(options={"reset_mask": value}),
        lambda: env.set_state(value),
        lambda: env.set_state(env.get_state(), value),
        lambda: env.get_state(value),
        lambda: env.step_frames([0, 0], out=value),
        lambda: cule.AtariVectorEnv(value, 2),
        lambda: cule.AtariVectorEnv("pong", value),
        lambda: cule.AtariEnv("pong", obs_type=value),
        lambda: cule.AtariEnv("pong", mode=value),
        lambda: ale.setInt(value, 1),
        lambda: ale.setString("rom_file", value),
        lambda: ale.loadROM(value),
        lambda: ale.restoreState(value),
        lambda: ale.getRAM(value),
        lambda: assemble(value if isinstance(value, str) else "x" * 10**6),
    ]
    for name in options_of_environments():
        calls.append(lambda name=name: cule.AtariVectorEnv("pong", 2, **{name: value}))
    messages = []
    for call in calls:
        try:
            call()
        except (cule.CuleError, TypeError, ValueError) as error:
            messages.append(str(error))
    for message in messages:
        assert len(message) <= MOST_CHARS, message[:300]
        assert "\n" not in message
    assert len(messages) >= len(calls) - 2
    env.close()


def test_values_are_written_by_one_function() -> None:
    """``{value!r}`` in a message would write out all of it."""
    allowed = {
        "cule/lazy.py",  # names of packages and attributes
        "cule/envs/gym_env.py",
        "cule/pettingzoo/__init__.py",
        "cule/replay/byte_locks.py",
    }
    folder = Path(cule.__file__).parent
    for path in folder.rglob("*.py"):
        if str(path.relative_to(folder.parent)) not in allowed:
            for line in path.read_text().splitlines():
                is_message = re.search(r"\b(is|has|holds|must be) \{[^{}]+!r\}", line)
                assert is_message is None, f"{path}: {line}"


@pytest.mark.parametrize("value", ["pong", 3, -2.5, [1, 2], None, (84, 84), "'", b"\x00"])
def test_short_values_are_written_as_python_does(value: object) -> None:
    assert shown(value) == repr(value)
