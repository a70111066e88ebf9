"""libcule: it equals AtariVectorEnv byte for byte, and refuses what it must not take."""

from __future__ import annotations

import ctypes
import functools
import platform
import random
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cule
from cule.cli import main
from cule.envs.options import EnvOptions
from cule.games import list_games, resolve
from tests.support.api import rom_path
from tests.support.c_library import (
    ARM64,
    EXAMPLE,
    SANITIZERS,
    compile_example,
    ctypes_play,
    install_library,
    run,
    tool,
)

play = ctypes_play()

pytestmark = [
    pytest.mark.ale,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="libcule is built on Linux"),
]

NUM_ENVS, STEPS = 3, 250
GAMES = ["breakout", "ms_pacman", "montezuma_revenge", "pitfall", "pong", "private_eye"]
HEADER_BYTES = 32  # of a rules file
OBS_TYPES = ("image", "ram", "objects", "sprites")
AUTORESET = ("NextStep", "SameStep", "Disabled")


@pytest.fixture(scope="module")
def installed() -> Path:
    """The installed library."""
    return install_library()


@pytest.fixture(scope="module")
def library(installed: Path) -> Any:
    """The library through ctypes."""
    return play.Library(str(installed / "lib" / "libcule.so"))


def rules_of(game: str, folder: Path) -> Path:
    """The rules file of a game."""
    path = folder / f"{game}.rules"
    if not path.exists():
        assert main(["roms", "rules", game, "--out", str(path)]) == 0
    return path


@pytest.fixture
def make_batch(library: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Make a batch of a game with options by their names in Python."""
    batches = []

    def make(game: str = "pong", num_envs: int = NUM_ENVS, **keywords: Any) -> Any:
        options = library.default_options()
        for name, value in keywords.items():
            if name == "obs_type":
                options.obs_type = OBS_TYPES.index(value)
            elif name == "autoreset_mode":
                options.autoreset_mode = AUTORESET.index(value)
            elif name == "resets":
                options.cached_resets = value == "cached"
            else:
                setattr(options, name, value)
        rules = rules_of(game, tmp_path).read_bytes()
        handle = library.make_game(rom_path(game).read_bytes(), rules)
        try:
            batches.append(play.Batch(library, handle, num_envs, options))
        finally:
            library.destroy("game", handle)
        return batches[-1]

    yield make
    for batch in batches:
        batch.close()


# --- The examples ---------------------------------------------------------------------------------


@functools.cache
def expected_line(game: str) -> str:
    """What the examples print, computed with the package."""
    env = cule.AtariVectorEnv(
        game, NUM_ENVS, repeat_action_probability=0.25, autoreset_mode="SameStep"
    )
    state, checksum, total, episodes = 1, 1, 0, 0
    obs, info = env.reset(seed=0)
    reward, ended = np.zeros(NUM_ENVS), np.zeros((2, NUM_ENVS), bool)

    def add() -> None:
        nonlocal checksum
        for array in (obs, reward.astype(np.int32), info["lives"].astype(np.int32), *ended):
            checksum = zlib.adler32(np.ascontiguousarray(array), checksum)

    add()
    for _ in range(STEPS):
        actions = []
        for _ in range(NUM_ENVS):
            state = (state * 1664525 + 1013904223) % 2**32
            actions.append((state >> 16) % len(env.action_set))
        obs, reward, *ended, info = env.step(np.array(actions))
        add()
        total += int(reward.sum())
        episodes += int((ended[0] | ended[1]).sum())
    add()
    version = cule.__version__
    return f"libcule {version}: {episodes} episodes, reward {total}, checksum {checksum:08x}\n"


def arguments(game: str, folder: Path) -> list[str]:
    """The words after the name of an example."""
    return [str(rom_path(game)), str(rules_of(game, folder)), str(NUM_ENVS), str(STEPS)]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_example_in_c(compiler: str, installed: Path, tmp_path: Path) -> None:
    program = compile_example(compiler, installed, tmp_path)
    for game in GAMES:
        assert run(program, *arguments(game, tmp_path)) == expected_line(game)
    assert "no rules file" in failure(program, rom_path("pong"), rom_path("pong"), "1", "1")


def test_the_example_with_sanitizers(tmp_path: Path) -> None:
    """Leaks are found, too. Rules of any content are refused with a message, or are played."""
    program = compile_example("gcc", install_library("sanitized"), tmp_path, *SANITIZERS.split())
    for game in GAMES[:2]:
        assert run(program, *arguments(game, tmp_path)) == expected_line(game)
    rules, outcomes = rules_of("pong", tmp_path).read_bytes(), set()
    for seed in range(40):
        (tmp_path / "other.rules").write_bytes(with_other_words(rules, random.Random(seed)))
        words = [str(program), str(rom_path("pong")), str(tmp_path / "other.rules"), "1", "5"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        outcomes.add(done.returncode)
        assert done.returncode == 0 or done.stderr.startswith("random_play: "), done.stderr
        assert len(done.stderr.splitlines()) == done.returncode
    assert outcomes == {0, 1}


def with_other_words(rules: bytes, rng: random.Random) -> bytes:
    """Rules with one to three other words and the checksum that belongs to them."""
    words = np.frombuffer(rules[HEADER_BYTES:], np.int32).copy()
    for _ in range(rng.randint(1, 3)):
        # Most fields are before the programs.
        at = rng.randrange(rng.choice((40, len(words))))
        words[at] = rng.choice((-1, 0, 1, 2, 17, 40, 200, 8192, 2**31 - 1, -(2**31)))
    data, most = words.tobytes(), 2**64 - 1
    h = 0x9E3779B97F4A7C15
    for (word,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]):
        h = (h ^ word) * 0x9FB21C651E98DF25 & most
        h ^= h >> 32
    for byte in data[len(data) // 8 * 8 :]:
        h = (h ^ byte) * 0x100000001B3 & most
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        h = (h ^ h >> shift) * factor & most
    return rules[:16] + h.to_bytes(8, "little") + rules[24:HEADER_BYTES] + data


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this processor is simulated")
def test_machine_code_of_arm64(tmp_path: Path) -> None:
    """Games of all kinds of cartridges, in code for AArch64 that a simulator executes."""
    program = compile_example("gcc", install_library("simulated"), tmp_path)
    for game in (*GAMES, "pitfall2", "robotank"):
        assert run(program, *arguments(game, tmp_path)) == expected_line(game)


@pytest.mark.slow
def test_all_games_on_arm64(tmp_path: Path) -> None:
    """A library for AArch64 under QEMU."""
    qemu = [tool("qemu-aarch64"), "-L", "/usr/aarch64-linux-gnu"]
    program = compile_example(f"{ARM64}gcc", install_library("arm64"), tmp_path)
    for game in list_games():
        assert run(*qemu, program, *arguments(game, tmp_path)) == expected_line(game), game


def test_the_example_with_ctypes(installed: Path, tmp_path: Path) -> None:
    """In an interpreter without packages."""
    words = [sys.executable, "-I", "-S", EXAMPLE.with_name("ctypes_play.py")]
    words.append(installed / "lib" / "libcule.so")
    assert run(*words, *arguments("pong", tmp_path)) == expected_line("pong")


def failure(*words: str | Path) -> str:
    """What a program says that fails."""
    with pytest.raises(AssertionError) as failed:
        run(*words)
    return str(failed.value)


# --- What is installed ----------------------------------------------------------------------------


def test_symbols(installed: Path) -> None:
    """The functions of the header with their version, and nothing else; no Python."""
    library = installed / "lib" / "libcule.so"
    header = (installed / "include" / "cule.h").read_text()
    functions = set(re.findall(r"^CULE_API .*?(cule_\w+)\(", header, re.MULTILINE))
    assert len(functions) == 16
    lines = run(tool("nm"), "-D", "--defined-only", library).splitlines()
    assert {line.split()[-1] for line in lines} == {f"{name}@@CULE_1" for name in functions} | {
        "CULE_1"
    }
    assert "libcule.so.1" in run(tool("readelf"), "-d", library)
    assert "python" not in run(tool("ldd"), library)


def test_find_package(installed: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(example LANGUAGES C)\n"
        f"find_package(cule {cule.__version__} REQUIRED)\n"
        "add_executable(random_play random_play.c)\n"
        "target_link_libraries(random_play PRIVATE cule::cule)\n"
    )
    build, cmake = tmp_path / "build", tool("cmake")
    words = [f"-DCMAKE_PREFIX_PATH={installed}", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    run(cmake, "-S", tmp_path, "-B", build, "-G", "Ninja", *words)
    run(cmake, "--build", build)
    assert run(build / "random_play", *arguments("pong", tmp_path)) == expected_line("pong")


# --- Equal to the package -------------------------------------------------------------------------


def test_options_are_those_of_the_package(make_batch: Any, library: Any) -> None:
    options, known = library.default_options(), EnvOptions.__dataclass_fields__
    own = {"size", "mode", "difficulty", "obs_type", "autoreset_mode", "cached_resets"}
    for name, *_ in play.Options._fields_:
        if name in own:
            continue
        assert getattr(options, name) == known[name].default, name
        if "range" not in known[name].metadata or name == "thread_affinity_offset":
            continue
        low, high = known[name].metadata["range"]
        for value in (low - 1, high + 1):
            if abs(value) < 2**31:
                with pytest.raises(RuntimeError, match=rf"options->{name} is .* in {low:g}\.\."):
                    make_batch(**{name: value})


CASES: list[tuple[str, dict[str, Any]]] = [
    ("pong", {}),
    (
        "breakout",
        {
            "episodic_life": True,
            "grayscale": False,
            "img_height": 64,
            "img_width": 48,
            "stack_num": 2,
            "frameskip": 3,
            "repeat_action_probability": 1 / 3,
            "autoreset_mode": "SameStep",
        },
    ),
    ("ms_pacman", {"obs_type": "ram", "life_loss_info": True, "reward_clipping": False}),
    ("pong", {"obs_type": "objects", "autoreset_mode": "SameStep"}),
    ("pitfall", {"obs_type": "sprites", "max_sprites": 20, "full_action_space": True}),
    ("seaquest", {"resets": "cached", "num_reset_states": 3, "noop_max": 5, "maxpool": False}),
    ("space_invaders", {"mode": 3, "difficulty": 1, "use_fire_reset": False}),
    ("breakout", {"fire_after_life_loss": True, "episodic_life": True, "low_memory": True}),
    ("pong", {"action_delay": 9, "repeat_action_probability": 0.25}),
]


def assert_equal(batch: Any, results: Any) -> None:
    """Compare all results of a step in C and in Python."""
    obs, reward, terminated, truncated, info = results
    numbers = {name: np.array(array) for name, array in batch.numbers.items()}
    assert bytes(batch.obs) == obs.tobytes()
    assert np.array_equal(numbers["reward"], reward)
    for name in ("lives", "frame_number", "episode_frame_number", "episode_return"):
        assert np.array_equal(numbers[name], info[name]), name
    assert np.array_equal(numbers["episode_length"], info["episode_length"])
    assert np.array_equal(numbers["raw_reward"], info["reward"])
    assert np.array_equal(numbers["terminated"], terminated)
    assert np.array_equal(numbers["truncated"], truncated)
    if "final_obs" in info:
        final = np.frombuffer(batch.final_obs, np.uint8).reshape(batch.num_envs, -1)
        for env in np.flatnonzero(terminated | truncated):
            assert final[env].tobytes() == info["final_obs"][env].tobytes()


@pytest.mark.parametrize(("game", "keywords"), CASES)
def test_equal(game: str, keywords: dict[str, Any], make_batch: Any) -> None:
    keywords = {"max_num_frames_per_episode": 500, **keywords}
    env = cule.AtariVectorEnv(game, NUM_ENVS, episode_info=True, **keywords)
    batch = make_batch(game, **keywords)
    info, shape = batch.info, env.single_observation_space.shape
    assert (info.num_envs, info.num_actions) == (NUM_ENVS, len(env.action_set))
    assert tuple(info.obs_shape[: info.obs_dims]) == shape
    assert info.state_bytes == env.state_size
    actions = (ctypes.c_int32 * info.num_actions)()
    size = ctypes.c_size_t(info.num_actions)
    batch.library.call("cule_batch_actions", batch.handle, actions, size)
    assert tuple(actions) == env.action_set
    obs, given = env.reset(seed=5)
    batch.reset(5)
    zeros = np.zeros(NUM_ENVS)
    assert_equal(batch, (obs, zeros, zeros, zeros, given))
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(STEPS):
        chosen = rng.integers(info.num_actions, size=NUM_ENVS)
        results = env.step(chosen)
        batch.step(list(chosen))
        assert_equal(batch, results)
        ended, lost = (np.array(batch.numbers[name]) for name in ("ended", "life_lost"))
        is_reported = keywords.get("life_loss_info") or keywords.get("fire_after_life_loss")
        reported = ended | lost if is_reported else ended
        assert np.array_equal(reported, results[2] | results[3])
        ends += int(ended.sum())
    assert ends >= 2
    states = env.get_state()
    assert bytes(batch.get_state()) == states.tobytes()
    screen = np.empty((info.screen_height, 160, 3), np.uint8)
    ram = np.empty(128, np.uint8)
    for index in range(NUM_ENVS):
        pointer, size = ctypes.c_void_p(screen.ctypes.data), ctypes.c_size_t(screen.nbytes)
        batch.library.call("cule_get_screen", batch.handle, index, pointer, size)
        assert np.array_equal(screen, env.screens("rgb")[index])
        batch.library.call("cule_get_ram", batch.handle, index, ctypes.c_void_p(ram.ctypes.data))
        assert np.array_equal(ram, env.ram[index])


def test_snapshots(make_batch: Any) -> None:
    """Those of the package are restored, of chosen environments alone."""
    env, batch = cule.AtariVectorEnv("pong", NUM_ENVS), make_batch()
    env.reset(seed=7)
    for _ in range(30):
        env.step(np.full(NUM_ENVS, 2))
    batch.reset(0)
    before = np.frombuffer(batch.obs, np.uint8).reshape(NUM_ENVS, -1).copy()
    row, indices = env.get_state([2]).tobytes(), (ctypes.c_int32 * 1)(1)
    size = ctypes.c_size_t
    batch.library.call("cule_set_state", batch.handle, indices, size(1), row, size(len(row)))
    batch.call("cule_observe")
    after = np.frombuffer(batch.obs, np.uint8).reshape(NUM_ENVS, -1)
    assert np.array_equal(after[[0, 2]], before[[0, 2]])
    env.set_state(env.get_state([2]), [1])
    obs = env.step(np.ones(NUM_ENVS, int))[0]
    batch.step([1] * NUM_ENVS)
    assert np.array_equal(after[1], obs[1].reshape(-1))


# --- Refusals -------------------------------------------------------------------------------------


def test_refused_calls(make_batch: Any, library: Any) -> None:
    """Each names the argument; nothing has changed after them."""
    batch, fresh, size = make_batch(autoreset_mode="Disabled"), make_batch(), ctypes.c_size_t
    batch.reset(3)
    before = bytes(batch.get_state())
    handle, results, rows = batch.handle, ctypes.byref(batch.results), batch.get_state()
    actions, seeds = ctypes.c_int32 * NUM_ENVS, ctypes.c_int64 * NUM_ENVS
    wrong = play.Results(size=ctypes.sizeof(play.Results), obs=batch.results.obs, obs_bytes=7)
    empty = play.Results(size=ctypes.sizeof(play.Results))
    newer = (ctypes.c_uint8 * 256)(*bytes(batch.results), *[1] * 64)
    newer[0:8] = size(ctypes.sizeof(play.Results) + 64).value.to_bytes(8, "little")
    calls: list[tuple[str, str, tuple[object, ...]]] = [
        ("batch is NULL", "cule_step", (None, actions(), results)),
        ("actions is NULL", "cule_step", (handle, None, results)),
        ("results is NULL", "cule_step", (handle, actions(), None)),
        (r"actions\[1\] is 6; it must be in 0\.\.5", "cule_step", (handle, actions(0, 6), results)),
        (r"actions\[0\] is -1", "cule_step", (handle, actions(-1), results)),
        (r"results->obs_bytes is 7; .* 84672", "cule_observe", (handle, ctypes.byref(wrong))),
        ("results->obs is NULL", "cule_observe", (handle, ctypes.byref(empty))),
        ("results->size is 0", "cule_observe", (handle, ctypes.byref(play.Results()))),
        ("results has a field that", "cule_observe", (handle, newer)),
        (r"seeds\[2\] is -2", "cule_reset", (handle, None, seeds(0, 0, -2), results)),
        ("status 3: environment 0", "cule_step", (fresh.handle, actions(), results)),
        ("status 3: environment 0", "cule_observe", (fresh.handle, results)),
        ("status 3: .* 2", "cule_get_ram", (fresh.handle, 2, rows)),
        ("reset_mask leaves out", "cule_reset", (fresh.handle, b"\0\0\0", None, results)),
        ("states_bytes is 5", "cule_get_state", (handle, None, size(3), rows, size(5))),
        ("num_indices is 2", "cule_get_state", (handle, None, size(2), rows, size(5))),
        ("num_indices is 9223372036854775808; it must be at most", "cule_get_state",
         (handle, actions(), size(2**63), rows, size(0))),
        (r"indices\[0\] is 3", "cule_get_state",
         (handle, actions(3), size(1), rows, size(len(rows) // 3))),
        (r"states\[0\]: ", "cule_set_state",
         (handle, None, size(3), bytes(len(rows)), size(len(rows)))),
        ("index is -1", "cule_get_ram", (handle, -1, rows)),
        ("screen_bytes is 1", "cule_get_screen", (handle, 0, rows, size(1))),
        ("num_actions is 5", "cule_batch_actions", (handle, actions(), size(5))),
        ("info_out->size is 0", "cule_batch_info", (handle, ctypes.byref(play.Info()))),
        ("game is NULL", "cule_batch_create", (None, 1, None, ctypes.byref(ctypes.c_void_p()))),
    ]  # fmt: skip
    for message, name, given in calls:
        with pytest.raises(RuntimeError, match=message):
            library.call(name, *given)
    assert bytes(batch.get_state()) == before
    with pytest.raises(RuntimeError, match="mode is 7; it must be one of 0, 1"):
        make_batch(mode=7)
    with pytest.raises(RuntimeError, match="num_envs is 0"):
        make_batch(num_envs=0)
    with pytest.raises(RuntimeError, match="journey_escape has no table of objects"):
        make_batch("journey_escape", obs_type="objects")
    with pytest.raises(RuntimeError, match="img_height, img_width are 211, 84"):
        make_batch(img_height=211)


def test_an_older_structure(make_batch: Any, library: Any) -> None:
    """Fields that a program does not know have their defaults, and are not written."""
    info = play.Info(size=16, state_bytes=3)
    library.call("cule_batch_info", make_batch().handle, ctypes.byref(info))
    assert (info.size, info.num_envs, info.screen_height, info.state_bytes) == (16, NUM_ENVS, 0, 3)


def test_disabled_autoreset(make_batch: Any) -> None:
    batch = make_batch(autoreset_mode="Disabled", max_num_frames_per_episode=4)
    batch.reset(0)
    batch.step([0] * NUM_ENVS)
    assert list(batch.numbers["ended"]) == [1] * NUM_ENVS
    with pytest.raises(RuntimeError, match="status 3: the episode of environment 0 has ended"):
        batch.step([0] * NUM_ENVS)
    batch.call("cule_reset", b"\1\1\0", None)
    assert list(batch.numbers["first"]) == [1, 1, 0]
    with pytest.raises(RuntimeError, match="the episode of environment 2 has ended"):
        batch.step([0] * NUM_ENVS)


def test_damaged_rules(library: Any, tmp_path: Path) -> None:
    """Any bytes are refused with a reason, or are rules."""
    rom = resolve("pong").rom
    rules = rules_of("pong", tmp_path).read_bytes()

    def refused(data: bytes, image: bytes = rom) -> str:
        with pytest.raises(RuntimeError) as raised:
            library.make_game(image, data)
        return str(raised.value)

    assert "are 0 bytes that are no rules file" in refused(b"")
    assert "no rules file" in refused(rules[: HEADER_BYTES - 1])
    assert "version 9 of their format" in refused(rules[:8] + b"\x09" + rules[9:])
    for data in (rules[:-1], rules[:-4], rules + bytes(4), rules[:99] + b"?" + rules[100:]):
        assert "rules are damaged" in refused(data)
    assert "4096 bytes that are not the ROM of these rules (pong)" in refused(rules, bytes(4096))
    rng = random.Random(0)
    for _ in range(300):
        data = bytearray(rules)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        refused(bytes(data))
