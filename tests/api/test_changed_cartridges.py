"""Modifications that change bytes of the cartridge: what plays where, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.cli import main
from cule.envs.options import resolve_options
from cule.envs.plan import plan_batch
from cule.errors import InvalidArgumentError, InvalidStateError, RulesError, UnsupportedRomError
from cule.games import resolve
from cule.games.modifications import modify_spec
from tests.support.api import rom_path

pytestmark = pytest.mark.ale

HEAD = '[[modifications]]\nname = "a"\nwhen = "rom"\n'
#: The lowest line of a waiting figure in Freeway is 0x18.
FEET = 0x780


def play(env: Any, steps: int = 40, seed: int | None = 5) -> np.ndarray:
    """Observations after a reset, unless there is no seed, and after each step, ``[T, N, ...]``."""
    random = np.random.default_rng(0)
    seen = [] if seed is None else [np.array(env.reset(seed=seed)[0])]
    for _ in range(steps):
        actions = random.integers(env.single_action_space.n, size=env.num_envs)
        seen.append(np.array(env.step(actions)[0]))
    return np.array(seen)


def freeway(num_envs: int, **options: Any) -> cule.AtariVectorEnv:
    options = {"num_threads": 1, "stack_num": 1, "noop_max": 0} | options
    return cule.AtariVectorEnv("freeway", num_envs, **options)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The ROM of Freeway with other chickens, as a file that is taken for the game's."""
    path = tmp_path / "freeway.bin"
    path.write_bytes(modify_spec(resolve("freeway"), ["people"])[0].rom)
    return path


@pytest.mark.filterwarnings("ignore:.*unknown ROM")
def test_it_plays_as_a_file_with_these_bytes(image: Path) -> None:
    """Freeway's console is that of an unknown ROM."""
    expected = play(freeway(2, rom_path=image))
    assert np.array_equal(play(freeway(2, modifications="people")), expected)
    assert not np.array_equal(play(freeway(2)), expected)
    frames = []
    for options in ({"rom_path": image}, {"modifications": "people"}):
        env = gymnasium.make("cule/Freeway-v5", **options)
        env.reset(seed=3)
        frames.append([env.step(0)[0] for _ in range(20)])
        ale = cule.ALEInterface()
        ale.setString("modifications", options.get("modifications", ""))
        ale.loadROM(options.get("rom_path", rom_path("freeway")))
        ale.reset_game()
        frames[-1] += [ale.getScreenRGB() for _ in range(20) if not ale.act(1)]
    assert np.array_equal(frames[0], frames[1])


@pytest.mark.parametrize("resets", ["exact", "cached"])
def test_environments_have_their_own(resets: str) -> None:
    options: dict[str, Any] = {"resets": resets, "num_reset_states": 2}
    names = ["people", None, "car_shape(kind=2)", "people", "people, stopped_lanes", "random_delay"]
    seen = play(freeway(6, modifications=names, **options))
    for index, name in enumerate(names):
        alone = freeway(6, modifications=name, **options)
        assert np.array_equal(play(alone)[:, index], seen[:, index]), name
    plan = plan_batch(resolve_options("freeway", 6, {"modifications": names}))
    assert plan.game_index.tolist() == [0, 1, 2, 0, 0, 1]
    assert plan.modifications.tolist() == [0, 0, 0, 0, 1, 1]
    assert len({game.rom for game in plan.games}) == 3


def test_several_games() -> None:
    names = [["people"], [], ["paddle_size", "unlimited_lives"], None]
    env = cule.AtariVectorEnv([("freeway", 2), ("breakout", 2)], modifications=names, noop_max=0)
    seen = play(env, 30)
    for index, (game, own) in enumerate(
        zip(["freeway"] * 2 + ["breakout"] * 2, names, strict=True)
    ):
        alone = cule.AtariVectorEnv(
            game, 4, modifications=own, noop_max=0, full_action_space=True
        )  # two games share the full set
        assert np.array_equal(play(alone, 30)[:, index], seen[:, index]), index


def test_copies_of_one_environment_continue() -> None:
    env = cule.AtariEnv("freeway", modifications="people, no_reward")
    env.reset(seed=0)
    for copied in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert np.array_equal(copied.step(1)[0], copy.deepcopy(env).step(1)[0])
        copied.reset(seed=0)


def test_episodes_draw_programs_of_one_cartridge() -> None:
    text = ["people", "stopped_lanes | original"]
    env = freeway(40, modifications=text)
    env.reset(seed=1)
    env.step(np.zeros(40, int))
    assert 10 < (env.ram[:, 33] == 100).sum() < 30
    with pytest.raises(InvalidArgumentError, match="alternatives differ in the bytes of the cart"):
        freeway(1, modifications="people | original")
    with pytest.raises(InvalidArgumentError, match="alternatives differ in the bytes of the cart"):
        gymnasium.make("cule/Freeway-v5", modifications="people | car_shape")
    same = play(freeway(2, modifications="people | people"))
    assert np.array_equal(same, play(freeway(2, modifications="people")))


def test_snapshots_are_of_one_cartridge() -> None:
    env = freeway(3, modifications=["people", None, "people"])
    play(env)
    saved = env.get_state([0])
    after = play(env, 20, None)[:, 0]
    env.set_state(saved, [2])
    other = freeway(1, modifications="people")
    other.reset(seed=1)
    other.set_state(saved)
    random = np.random.default_rng(0)
    for seen in after:
        actions = random.integers(3, size=3)
        assert np.array_equal(other.step(actions[:1])[0][0], seen)
    with pytest.raises(InvalidStateError, match="other modifications"):
        env.set_state(saved, [1])


def test_objects_are_those_of_the_game() -> None:
    env = freeway(1, modifications="people", obs_type="objects")
    assert np.array_equal(play(env), play(freeway(1, obs_type="objects")))


def test_the_list_shows_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mods", "show", "breakout", "paddle_size"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "runs      rom" in lines
    expected = "0x80, 0xc0, 0xe0, 0xf0, 0xf8, 0xfc, 0xfe, 0xff"
    assert f"0x07d6: 0xf0 -> size: {expected}" in lines
    assert main(["mods", "show", "gravitar", "reversed_gravity"]) == 0
    assert capsys.readouterr().out.endswith("\n\n0x05de: 0xf0 -> 0xd0\n0x060d: 0xf0 -> 0xd0\n")


def test_a_compiled_kernel_of_a_gpu_is_for_one_cartridge() -> None:
    for modifications, count in (
        ("people", 1),
        ([["people"], ["people"]], 1),
        (["people", None], 2),
    ):
        options = resolve_options("freeway", 2, {"modifications": modifications})
        options = dataclasses.replace(options, kernel="compiled", device="cuda:0")
        if count == 1:
            assert len(plan_batch(options).games) == 1
        else:
            with pytest.raises(InvalidArgumentError, match="must be 'auto' or 'interpreter'"):
                plan_batch(options)


def make_file(tmp_path: Path, rows: str, more: str = "") -> str:
    path = tmp_path / "mods.toml"
    path.write_text(f"{HEAD}{more}bytes = [{rows}]\n")
    return f"{path}:a"


def test_values_of_parameters(tmp_path: Path) -> None:
    spec = resolve("freeway")
    rows = '[0x780, 0x18, "feet"], [0x781, [0x30, 0x78], [255, { legs = [3, 4] }]]'
    more = "parameters = { feet = [0, 255, 9], legs = [-1, 0, 0] }\n"
    text = make_file(tmp_path, rows, more)
    for arguments, expected in (
        ("", [9, 255, 4]),
        ("(feet=200, legs=-1)", [200, 255, 3]),
    ):
        changed, programs = modify_spec(spec, [text + arguments, "stopped_lanes"])
        assert list(changed.rom[FEET : FEET + 3]) == expected
        rest = bytearray(changed.rom)
        rest[FEET : FEET + 3] = spec.rom[FEET : FEET + 3]
        assert rest == spec.rom
        assert changed.md5 != spec.md5
        assert programs == [("stopped_lanes",)]
    assert modify_spec(spec, ["stopped_lanes"])[0] is spec


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("[0x780, 0x19, 0]", r"a ROM with 0x19 at offset 0x0780; .*freeway\.bin has 0x18"),
        ("[0x800, 0x19, 0]", r"offset 0x0800; .* has no byte: its size is 2048"),
    ],
)
def test_another_rom(tmp_path: Path, row: str, message: str) -> None:
    text = make_file(tmp_path, row)
    for make in (
        lambda: freeway(1, modifications=text),
        lambda: gymnasium.make("cule/Freeway-v5", modifications=text),
    ):
        with pytest.raises(UnsupportedRomError, match=message):
            make()


def test_two_of_one_byte(tmp_path: Path) -> None:
    text = make_file(tmp_path, "[0x780, 0x18, 0]")
    with pytest.raises(InvalidArgumentError, match=r"'people' and .*both change .* offset 0x0780"):
        freeway(1, modifications=["people", text])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "bytes is empty"),
        ("3", r"holds 3; a row is \[offset, old, new\]"),
        ("[1, 2]", r"a row is \[offset, old, new\]"),
        ("[-1, 2, 3]", "has offset -1; allowed: 0..524287"),
        ("[524288, 2, 3]", "has offset 524288"),
        ("[true, 2, 3]", "has offset True"),
        ("[1, 256, 3]", "an old byte is in 0..255"),
        ('[1, "n", 3]', "an old byte is in 0..255"),
        ("[1, [2, 3], [4]]", "with 2 old and 1 new bytes"),
        ("[1, [], []]", "with 0 old and 0 new bytes"),
        ("[1, 2, 256]", "holds the new byte 256; it must be in 0..255"),
        ('[1, 2, "m"]', "holds the new byte 'm'"),
        ('[1, 2, "large"]', "holds the new byte 'large'"),
        ("[1, 2, { n = [1] }]", "a byte for each of its values"),
        ("[1, 2, { n = [1, 256] }]", "a byte for each of its values"),
        ("[1, 2, { n = [1, 2], large = [1] }]", "a byte for each of its values"),
        ("[1, 2, { n = 1 }]", "a byte for each of its values"),
        ("[1, 2, 3], [0, [0, 1], [1, 2]]", "has two rows of offset 0x0001"),
    ],
)
def test_wrong_rows(tmp_path: Path, rows: str, message: str) -> None:
    text = make_file(tmp_path, rows, "parameters = { n = [1, 2, 1], large = [1, 256, 1] }\n")
    with pytest.raises(RulesError, match=message):
        freeway(1, modifications=text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD, "'bytes' is missing"),
        (HEAD + "bytes = 3", "bytes is 3; it must be a list"),
        (HEAD + "bytes = [[1, 2, 3]]\nprogram = ''", "unknown key 'program'"),
        (HEAD + "bytes = [[1, 2, 3]]\nstate = {}", "unknown key 'state'"),
        (HEAD.replace("rom", "reset") + "program = ''\nbytes = []", "unknown key 'bytes'"),
    ],
)
def test_a_wrong_file(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "mods.toml").write_text(content)
    with pytest.raises(RulesError, match=message):
        freeway(1, modifications=f"{tmp_path / 'mods.toml'}:a")
