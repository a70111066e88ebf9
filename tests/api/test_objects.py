"""Observations of objects: rows of numbers that tables of RAM expressions give."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule import _core
from cule.envs.errors import ArgumentTypeError
from cule.errors import InvalidArgumentError, InvalidStateError, RulesError
from cule.games.language import OBJECT_COLUMNS as COLUMNS
from cule.games.objects import compile_objects, games_with_objects, load_objects
from cule.games.tables import parse_document
from cule.watch.camera import Camera
from tests.support.cases import long_except

pytestmark = pytest.mark.ale


#: What a table sets first, and its kinds of objects: how many there are, and columns.
PythonTable = tuple[Any, list[tuple[int, dict[str, Any]]]]


def read_table(where: str, content: dict[str, Any]) -> PythonTable:
    kinds = [
        (kind["count"], {name: compile(kind.get(name) or "0", where, "eval") for name in COLUMNS})
        for kind in content["objects"]
    ]
    return compile(content.get("let", ""), where, "exec"), kinds


@functools.cache
def table_of(game: str) -> PythonTable:
    path = resources.files("cule.games") / "data" / "objects" / f"{game}.toml"
    return read_table(game, parse_document(game, path.read_bytes()))


def rows_of(game: str | PythonTable, ram: Any) -> Any:
    """The rows of a game by Python's own rules; int16 ``[K, 6]``."""
    let, kinds = table_of(game) if isinstance(game, str) else game
    cells = ram.tolist()
    names: dict[str, Any] = {
        "ram": lambda at: cells[at & 127],
        "bcd": lambda at: 10 * (cells[at & 127] >> 4) + (cells[at & 127] & 15),
        "table": lambda k, values: values[min(max(k, 0), len(values) - 1)],
    }
    exec(let, names)
    rows = []
    for count, columns in kinds:
        for number in range(count):
            names["i"] = number
            value = {name: int(eval(code, names)) for name, code in columns.items()}
            value["visible"] = int(value["visible"] != 0)
            rows.append([value[name] * value["visible"] for name in COLUMNS])
    return np.clip(rows, -(2**15), 2**15 - 1).astype(np.int16)


def actions_of(env: cule.AtariVectorEnv, steps: int) -> Any:
    generator = np.random.default_rng(7)
    return generator.integers(env.single_action_space.n, size=(steps, env.num_envs))


@pytest.mark.parametrize("game", long_except(games_with_objects(), every=4))
def test_rows_are_the_expressions(game: str) -> None:
    env = cule.AtariVectorEnv(game, 2, obs_type="objects", stack_num=3, num_threads=1)
    slots = env.objects_layout.slots[game]
    obs, _ = env.reset(seed=3)
    assert obs.dtype == np.int16
    assert obs.shape == (2, 3, len(slots), len(COLUMNS))
    assert not obs[:, :-1].any()  # as of images: nothing before the first frame
    seen = [rows_of(game, ram) for ram in env.ram]
    assert np.array_equal(obs[:, -1], seen)
    was_visible = False
    for step, actions in enumerate(actions_of(env, 150)):
        was_visible |= obs[..., COLUMNS.index("visible")].any()
        before = obs
        obs, _, terminated, truncated, _ = env.step(actions)
        if (terminated | truncated).any():
            break
        assert np.array_equal(obs[:, :-1], before[:, 1:])
        if step % 5 == 0:
            assert np.array_equal(obs[:, -1], [rows_of(game, ram) for ram in env.ram])
    assert was_visible
    words = load_objects(game).words
    for ram in np.random.default_rng(5).integers(256, size=(10, 128), dtype=np.uint8):
        assert np.array_equal(_core.objects_of(words, ram.tobytes()), rows_of(game, ram))


def random_expression(draw: random.Random, names: Sequence[str], depth: int = 3) -> str:
    """An expression whose values stay small."""
    if depth == 0 or draw.random() < 0.15:
        first = draw.choice(["", "i + ", "2 * i // 3 + "]) if "i" in names else ""
        cell = f"ram({first}{draw.randrange(128)})"
        return draw.choice([cell, cell, str(draw.randrange(-9, 99)), *names])
    a, b, c = (random_expression(draw, names, depth - 1) for _ in range(3))
    forms = [
        *(f"({a} {op} {b})" for op in ["+", "-", "&", "|", "^", "==", "!=", "<", "<=", ">", ">="]),
        *(f"({a} {op} {draw.randrange(1, 9)})" for op in ["*", "//", "%", ">>", "<<"]),
        *(f"({a} {op} {draw.randrange(200)})" for op in ["+", "-", "==", "<"]),
        *(f"({draw.randrange(200)} {op} {a})" for op in ["+", "-", "*", "&"]),
        f"({a} >> {draw.randrange(10)} & 1)",
        *[f"({a} and {b})", f"({a} or {b})", f"(not {a})", f"(-{a})", f"({a} < {b} < {c})"],
        f"({a} if {b} else {c})",
        f"table({a}, [5, -7, 40000])",
    ]
    return draw.choice(forms)


@pytest.mark.parametrize("seed", long_except(range(40), every=4))
def test_rows_of_random_tables(seed: int) -> None:
    """Names used once or often, conditions that rows share, constants: as Python has them."""
    draw = random.Random(seed)
    names: list[str] = []
    let = ""
    for name in ("a", "b", "c", "d")[: draw.randrange(5)]:
        let += f"{name} = {random_expression(draw, names)}\n"
        names.append(name)
    objects = []
    for count in (1, draw.randrange(1, 12), draw.randrange(30, 80)):
        kind = {name: random_expression(draw, [*names, "i"]) for name in COLUMNS}
        if draw.random() < 0.5:
            kind["visible"] = f"ram(7) < 250 and {kind['visible']}"
        objects.append({"name": "x", "count": count, **kind})
    content = {"let": let, "objects": objects}
    words, table = compile_objects("random", content).words, read_table("random", content)
    for ram in np.random.default_rng(seed).integers(256, size=(20, 128), dtype=np.uint8):
        assert np.array_equal(_core.objects_of(words, ram.tobytes()), rows_of(table, ram))


def _cells_of_rows(words: Sequence[int]) -> Iterator[np.ndarray]:
    """For the rows of each group, in order, the cells that they may read: bool ``[k, 128]``."""

    def bits(cells: Sequence[int]) -> np.ndarray:
        return np.unpackbits(np.array(cells, np.int32).view(np.uint8), bitorder="little") > 0

    at = 1  # csrc/game/objects.hpp
    for _ in range(words[0]):
        num_groups, of_kind = words[at], bits(words[at + 2 : at + 6])
        at += 6
        for group in range(at, at + 6 * num_groups, 6):
            cells = bits(words[group + 2 : group + 6])
            assert not (cells & ~of_kind).any()
            yield np.tile(cells, (words[group], 1))
        at += 6 * num_groups


@pytest.mark.parametrize("game", long_except(games_with_objects(), every=8))
def test_rows_depend_on_the_cells_of_their_group(game: str) -> None:
    """A step evaluates the rows of groups that read a changed cell, and no others."""
    words = load_objects(game).words
    reads = np.concatenate([*_cells_of_rows(words)])  # [K, 128]
    generator = np.random.default_rng(1)
    env = cule.AtariVectorEnv(game, 1, obs_type="ram", num_threads=1)
    played = env.reset(seed=0)[0][0]
    for ram in (played, *generator.integers(256, size=(3, 128), dtype=np.uint8)):
        before = _core.objects_of(words, ram.tobytes())
        for cell in range(128):
            other = ram.copy()
            other[cell] ^= generator.integers(1, 256, dtype=np.uint8)
            changed = (_core.objects_of(words, other.tobytes()) != before).any(axis=1)
            assert not (changed & ~reads[:, cell]).any()


def test_play_is_that_of_images() -> None:
    """What is observed changes nothing else, in every autoreset mode."""
    for mode in ("NextStep", "SameStep", "Disabled"):
        options = {"autoreset_mode": mode, "max_num_frames_per_episode": 200, "num_threads": 2}
        ours = cule.AtariVectorEnv("breakout", 3, obs_type="objects", **options)
        plain = cule.AtariVectorEnv("breakout", 3, **options)
        first, _ = ours.reset(seed=1)
        plain.reset(seed=1)
        ends = 0
        for actions in actions_of(ours, 120):
            result, wanted = ours.step(actions), plain.step(actions)
            assert all(np.array_equal(a, b) for a, b in zip(result[1:4], wanted[1:4], strict=True))
            assert np.array_equal(ours.ram, plain.ram)
            ended = result[2] | result[3]
            if ended.any() and mode == "SameStep":
                ends += 1
                final = result[4]["final_obs"]
                assert final.dtype == np.int16
                assert (final[ended, -2:].any(axis=(1, 2, 3))).all()
                assert not result[0][ended, :-1].any()
            if ended.any() and mode == "Disabled":
                mask = {"reset_mask": ended}
                ours.reset(options=mask)
                plain.reset(options=mask)
        assert ends or mode != "SameStep"
        assert first.base is not ours.step(actions)[0].base


def test_games_of_different_length_are_padded() -> None:
    games = [("pong", 2), ("breakout", 1)]
    env = cule.AtariVectorEnv(games, obs_type="objects", stack_num=1, num_threads=1)
    slots = env.objects_layout.slots
    most = max(map(len, slots.values()))
    obs, _ = env.reset(seed=0)
    assert obs.shape == (3, 1, most, 6)
    for game, index in (("pong", 0), ("pong", 1), ("breakout", 2)):
        count = len(slots[game])
        assert np.array_equal(obs[index, 0, :count], rows_of(game, env.ram[index]))
        assert not obs[index, 0, count:].any()
    for _ in range(20):  # without a stack a step writes over the rows that it compares with
        obs, *_ = env.step(env.action_space.sample())
        for index, game in enumerate(("pong", "pong", "breakout")):
            count = len(slots[game])
            assert np.array_equal(obs[index, 0, :count], rows_of(game, env.ram[index]))


def test_frames_and_snapshots() -> None:
    env = cule.AtariVectorEnv("pong", 2, obs_type="objects", num_threads=1)
    env.reset(seed=0)
    for actions in actions_of(env, 30):
        obs, *_ = env.step(actions)
    states = env.get_state()
    out = np.zeros((2, obs.shape[2], 6), np.int16)
    step = env.step_frames(np.zeros(2, int), out=out)
    assert step.frame is out
    assert np.array_equal(out, [rows_of("pong", ram) for ram in env.ram])
    back, _ = env.reset(options={"states": states})
    assert np.array_equal(back, obs)
    assert np.array_equal(env.step_frames(np.zeros(2, int)).frame, out)
    with pytest.raises(ArgumentTypeError, match="uint8; it must be a writable int16"):
        env.step_frames(np.zeros(2, int), out=out.view(np.uint8))
    images = cule.AtariVectorEnv("pong", 2, num_threads=1)
    images.reset(seed=0)
    with pytest.raises(InvalidStateError, match="obs_type='objects'"):
        images.reset(options={"states": states})


def test_one_environment_and_the_interface() -> None:
    env = gymnasium.make("cule/Freeway-v5", obs_type="objects")
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space
    for _ in range(20):
        obs, *_ = env.step(env.action_space.sample())
        ale = env.unwrapped.ale
        assert obs.dtype == np.int16
        assert np.array_equal(obs, rows_of("freeway", ale.getRAM()))
        assert np.array_equal(obs, ale.getObjects())
    with pytest.raises(InvalidArgumentError, match="'tetris' has no table of objects"):
        gymnasium.make("cule/Tetris-v5", obs_type="objects")


def test_objects_beside_images() -> None:
    """In ``info``, on rendered screens and on pictures of `cule watch`."""
    games = [("pong", 1), ("breakout", 2)]
    options = {"objects_info": True, "render_boxes": True, "render_mode": "rgb_array"}
    options |= {"autoreset_mode": "SameStep", "max_num_frames_per_episode": 60, "num_threads": 1}
    env = cule.AtariVectorEnv(games, **options)
    rows = cule.AtariVectorEnv(games, obs_type="objects", **options)
    info = env.reset(seed=0)[1]
    obs = rows.reset(seed=0)[0]
    for actions in actions_of(env, 40):
        assert info["objects"].dtype == np.int16
        assert np.array_equal(info["objects"], obs[:, -1])
        info = env.step(actions)[-1]
        obs = rows.step(actions)[0]
    screens = env.screens("rgb")
    for screen, rendered, table in zip(screens, env.render(), obs[:, -1], strict=True):
        outline = np.zeros((210, 160), bool)
        for x, y, w, h, visible, _ in table.tolist():
            for row in range(y, y + h):
                for column in range(x, x + w):
                    is_edge = row in (y, y + h - 1) or column in (x, x + w - 1)
                    if visible and is_edge and 0 <= row < 210 and 0 <= column < 160:
                        outline[row, column] = True
        assert outline.any()
        assert (rendered[outline] == 255).all()
        assert np.array_equal(rendered[~outline], screen[~outline])
    some = cule.AtariVectorEnv("pong", 4, batch_size=2, objects_info=True, num_threads=1)
    some.reset(seed=0)
    for _ in range(6):
        result = some.step(np.zeros(2, int))
        wanted = [rows_of("pong", some.ram[env_id]) for env_id in result[-1]["env_id"]]
        assert np.array_equal(result[-1]["objects"], wanted)
    plain, boxed = (
        Camera(cule_env, boxes=boxes).render(0)._pixels
        for cule_env in [cule.AtariVectorEnv("pong", 1, num_threads=1)]
        for boxes in (False, True)
        if cule_env.reset(seed=0)
    )
    assert set(np.unique(boxed[plain != boxed])) == {0x0E}


def test_several_players() -> None:
    """Rows are those of the RAM, whoever plays."""
    env = cule.MultiAgentVectorEnv("pong", 2, obs_type="objects", num_threads=1)
    env.reset(seed=0)
    for _ in range(20):
        obs, *_ = env.step(env.action_space.sample())
    assert np.array_equal(obs[:, -1], [rows_of("pong", ram) for ram in env.ram])


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'tetris' has no table of objects; there is"):
        cule.AtariVectorEnv("tetris", 1, objects_info=True)
    with pytest.raises(InvalidArgumentError, match="'tetris' has no table of objects; there is"):
        cule.AtariVectorEnv("tetris", 1, obs_type="objects")
    with pytest.raises(InvalidArgumentError, match="img_height is 42; with obs_type='objects'"):
        cule.AtariVectorEnv("pong", 1, obs_type="objects", img_height=42)
    with pytest.raises(InvalidArgumentError, match="for objects_layout it must be 'objects' or"):
        _ = cule.AtariVectorEnv("pong", 1, num_threads=1).objects_layout


def test_a_table_names_its_objects() -> None:
    slots = load_objects("freeway").slots
    assert [(slot.name, slot.number, slot.hud) for slot in slots if slot.name == "car"] == [
        ("car", number, False) for number in range(10)
    ]


KIND = {"name": "x", "count": 1, "x": "1", "y": "2", "w": "3", "h": "4", "visible": "1"}


@pytest.mark.parametrize(
    ("changes", "let", "message"),
    [
        ({"x": "ram(1, 2)"}, "", r"mine, line 1: ram\(1, 2\): needs 1 plain argument"),
        ({"x": "bcd1(3)"}, "", "unknown call 'bcd1'; there are ram, bcd, table"),
        ({"x": "y"}, "", "unknown name 'y'; set before this line: i"),
        ({"x": "table(1)"}, "", "needs an index and 1 to 256 constants"),
        ({"x": "table(1, [ram(1)])"}, "", "is not a constant"),
        ({"x": "[i for i in ()]"}, "", "ListComp .* is outside the rule language"),
        ({"count": 0}, "", r"mine: count is 0; allowed: 1\.\.2048"),
        ({"count": 3000}, "", "count is 3000"),
        ({"colour": 1}, "", "unknown key 'colour'"),
        ({}, "i = 3", "'i' has a meaning of its own"),
        ({}, "n = 1\nwhile n: n = 0", "while is only allowed in mode_setup"),
        ({}, "if ram(1): n = 1", "let holds something else than assignments"),
        ({}, "".join(f"n{k} = {k}\n" for k in range(33)), "room for 32"),
        ({}, "n = 1\nn = 2", "let assigns n twice"),
    ],
)
def test_wrong_tables(changes: dict[str, Any], let: str, message: str) -> None:
    content = {"let": let, "objects": [KIND | changes]}
    with pytest.raises(RulesError, match=message):
        compile_objects("mine", content)
