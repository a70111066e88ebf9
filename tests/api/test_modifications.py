"""Modified games: which programs run in which environment, and what is refused."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule import _core
from cule.envs.errors import ArgumentTypeError
from cule.envs.options import modification_names
from cule.envs.plan import make_game
from cule.errors import InvalidArgumentError, InvalidStateError, RulesError
from cule.games import resolve
from cule.games.modifications import (
    compile_modifications,
    games_with_modifications,
    load_modifications,
    read_modifications,
)
from tests.support.api import rom_path

pytestmark = pytest.mark.ale

#: Draws at a reset and in each frame, counts frames, and has a value in each of its cells.
COUNTER = """
[[modifications]]
name = "first"
when = "reset"
program = "poke(100, 200 + rand(50))"

[[modifications]]
name = "counter"
when = "every_frame"
parameters = { step = [1, 9, 1] }
state = { count = -3 }
program = \"\"\"
count += step
poke(101, count)
poke(102 + (count < 0), rand(256))
\"\"\"
"""


def make(num_envs: int = 3, **options: Any) -> cule.AtariVectorEnv:
    """Pong, whose cells from 100 on are free, without pictures."""
    options = {"obs_type": "ram", "num_threads": 1, "noop_max": 0} | options
    return cule.AtariVectorEnv("pong", num_envs, **options)


def play(env: cule.AtariVectorEnv, steps: int, seed: int | None = 5) -> list[np.ndarray]:
    """RAM after a reset, unless there is no seed, and after each step."""
    random = np.random.default_rng(0)
    seen = [] if seed is None else [np.array(env.reset(seed=seed)[0])]
    for _ in range(steps):
        actions = random.integers(env.single_action_space.n, size=env.num_envs)
        seen.append(np.array(env.step(actions)[0]))
    return seen


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mods.toml"
    path.write_text(COUNTER)
    return str(path)


def test_environments_have_their_own(file: str) -> None:
    names: list[Any] = [None, f"{file}:counter", [f"{file}:first", f"{file}:counter(step=2)"]]
    kinds = [names[index % 3] for index in range(7)]
    modified, plain = play(make(7, modifications=kinds), 30), play(make(7), 30)
    for number, (ram, before) in enumerate(zip(modified, plain, strict=True)):
        frames = 1 + 4 * number  # a reset plays one frame, as FIRE is pressed
        assert np.array_equal(ram[::3], before[::3])
        assert (ram[1::3, 101] == (frames - 3) % 256).all()
        assert (ram[2::3, 101] == (2 * frames - 3) % 256).all()
        assert (ram[2::3, 100] >= 200).all()
    drawn = np.array(modified)[:, 1, 102]
    assert len(set(drawn.tolist())) > 25


def test_state_begins_anew_in_each_episode(file: str) -> None:
    for autoreset in ("NextStep", "SameStep"):
        env = make(1, modifications=f"{file}:counter", max_num_frames_per_episode=20,
                   autoreset_mode=autoreset)  # fmt: skip
        play(env, 0)
        for _ in range(40):
            ram = env.step([0])[0]
            assert ram[0, 101] == (int(env.episode_frames[0]) - 3) % 256


@pytest.mark.parametrize("resets", ["exact", "cached"])
def test_draws_are_the_environments_own(file: str, resets: str) -> None:
    options: dict[str, Any] = {"modifications": f"{file}:first,{file}:counter", "resets": resets,
                               "num_reset_states": 4, "max_num_frames_per_episode": 40}  # fmt: skip
    together = np.array(play(make(4, **options), 40))
    again = np.array(play(make(4, num_threads=2, **options), 40))
    assert np.array_equal(together, again)
    assert len({run.tobytes() for run in together.swapaxes(0, 1)}) == 4
    other = make(2, **options)
    other.reset(seed=[8, 5])  # the last and the first of those above
    assert np.array_equal(other.ram, together[0, [3, 0]])


@pytest.mark.parametrize("resets", ["exact", "cached"])
def test_snapshots_continue(file: str, resets: str) -> None:
    options = {"modifications": [f"{file}:counter", "lazy_enemy", []], "resets": resets}
    env = make(**options)
    play(env, 20)
    saved = env.get_state()
    after = play(env, 20, None)
    other = make(**options)
    other.reset(seed=99)
    other.set_state(saved)
    assert np.array_equal(play(other, 20, None), after)


def test_a_snapshot_brings_its_modification(file: str) -> None:
    for resets in ("exact", "cached"):
        env = make(2, modifications=[f"{file}:counter", None], resets=resets)
        before = play(env, 10)[-1][0, 101]
        env.set_state(env.get_state([0]), [1])
        ram = play(env, 1, None)[-1]
        assert (ram[:, 101] == (int(before) + 4) % 256).all()
        ram = play(env, 10, seed=5)[-1]
        assert ram[0, 101] == before != ram[1, 101]


@pytest.mark.parametrize("resets", ["exact", "cached"])
def test_each_episode_draws_one(file: str, resets: str) -> None:
    text = (
        f"{file}:counter(step=2) | {file}:counter(step=3) | original, frozen_enemy(y=90) | original"
    )
    options = {"resets": resets, "num_reset_states": 2, "max_num_frames_per_episode": 4,
               "autoreset_mode": "SameStep"}  # fmt: skip
    env = make(60, modifications=text, **options)
    env.reset(seed=3)
    plain = make(60, **options)
    plain.reset(seed=3)
    drawn = []
    for episode in range(30):
        is_frozen, counted = env.ram[:, 21] == 90, env.ram[:, 101].astype(int)
        assert set(counted) <= {(-3 + 2) % 256, (-3 + 3) % 256, int(plain.ram[0, 101])}
        drawn.append(np.stack([is_frozen, counted], axis=1))
        env.step(np.zeros(60, int))
        assert (env.episode_frames == 1).all(), episode
    kinds, counts = np.unique(np.concatenate(drawn), axis=0, return_counts=True)
    assert len(kinds) >= 4
    assert counts.min() > 1800 / 6 / 2
    assert len({run.tobytes() for run in np.stack(drawn, axis=1)}) == 60  # each draws its own
    again = make(60, modifications=text, num_threads=2, **options)
    again.reset(seed=3)
    assert np.array_equal(again.ram[:, 101], drawn[0][:, 1])


@pytest.mark.parametrize("folder", [".", "~"])
def test_resets_and_pickles_in_another_folder(
    file: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(file).parent)
    monkeypatch.setenv("HOME", str(Path(file).parent))
    name = f"{folder}/mods.toml:counter(step=2)"
    batches = [make(modifications=value) for value in (f"{name} | original", [None, name, [name]])]
    one = cule.AtariEnv("pong", obs_type="ram", modifications=name)
    monkeypatch.chdir("/")
    one.reset(seed=0)
    for env in (one, *batches):
        env.reset(seed=0)
        copied = pickle.loads(pickle.dumps(env))
        for _ in range(3):
            actions = 0 if env is one else np.zeros(3, np.int64)
            assert np.array_equal(env.step(actions)[0], copied.step(actions)[0])
        copied.reset(seed=1)


def test_too_many_alternatives() -> None:
    text = " | ".join(f"frozen_enemy(y={y})" for y in range(40, 80))
    make(1, modifications=text)
    with pytest.raises(InvalidArgumentError, match="1600 combinations, and at most 1000"):
        make(1, modifications=[text, text])


def test_snapshots_of_other_modifications_are_refused() -> None:
    plain, modified = make(1), make(1, modifications="lazy_enemy")
    play(plain, 3)
    play(modified, 3)
    for source, target in ((plain, modified), (modified, plain)):
        with pytest.raises(InvalidStateError, match="other modifications"):
            target.set_state(source.get_state())


def test_one_environment(file: str) -> None:
    """A frame of the counter program after each frame of an act, those of the console alone."""
    names = ["frozen_enemy(y=90)", f"{file}:counter(step=2)", f"{file}:first"]
    for modifications in (names, ", ".join(names)):
        env = gymnasium.make(
            "cule/Pong-v5", modifications=modifications, obs_type="ram", frameskip=3
        ).unwrapped
        assert isinstance(env, cule.AtariEnv)
        assert env.ale.getString("modifications") == ", ".join(names)
        ram, _ = env.reset(seed=4)
        assert ram[100] >= 200
        for step in range(1, 20):
            ram = env.step(0)[0]
            assert (ram[21], ram[101]) == (90, (2 * 3 * step - 3) % 256)
        state, copied = env.clone_state(include_rng=True), copy.deepcopy(env)
        after = [env.step(0)[0] for _ in range(9)]
        assert len({row[102] for row in after}) > 3
        assert np.array_equal([copied.step(0)[0] for _ in range(9)], after)
        env.restore_state(state)
        assert np.array_equal([env.step(0)[0] for _ in range(9)], after)
    with pytest.raises(InvalidArgumentError, match="'lazy'; pong has"):
        cule.AtariEnv("pong", modifications="lazy")
    ale = cule.ALEInterface()
    ale.loadROM(rom_path("pong"))
    with pytest.raises(InvalidStateError):
        ale.restoreState(state)


def test_several_games(file: str) -> None:
    games = [("pong", 2), ("breakout", 1)]
    text = f"{file}:counter"
    env = cule.AtariVectorEnv(games, modifications=[[], text, text], obs_type="ram", noop_max=0)
    ram = play(env, 10)[-1]
    assert (ram[1:, 101] == (1 + 4 * 10 - 3) % 256).all()
    with pytest.raises(InvalidArgumentError, match="'lazy_enemy'; breakout has"):
        cule.AtariVectorEnv(games, modifications="lazy_enemy")
    with pytest.raises(InvalidArgumentError, match="'lazy_enemy'; tetris has no_reward"):
        cule.AtariVectorEnv("tetris", 1, modifications="lazy_enemy")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("lazy", "'lazy'; pong has lazy_enemy, frozen_enemy"),
        ("frozen_enemy(y=29)", r"with y=29; it must be frozen_enemy\(y=30..200\)"),
        ("frozen_enemy(x=40)", r"it must be frozen_enemy\(y=30..200\)"),
        ("frozen_enemy(y=4.5)", r"it must be frozen_enemy\(y=30..200\)"),
        ("frozen_enemy(y=40, y=50)", r"it must be frozen_enemy\(y=30..200\)"),
        ("lazy_enemy(y=1)", "it must be lazy_enemy"),
        ("a\0.toml:b", "modifications is .*; it must be the path of a file"),
        ("frozen_enemy(y=40", "each must be a name"),
        ("", "each must be a name"),
        ([["lazy_enemy"]], "holds 1 lists; there must be one for each of the 3"),
        (["freeway_cars", None, None], "'freeway_cars'; pong has"),
    ],
)
def test_a_wrong_name_or_parameter(value: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make(modifications=value)


@pytest.mark.parametrize("value", [3, b"lazy_enemy", [3], [[3], None, None], [[["a"]], None, None]])
def test_a_wrong_type(value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="it must be None, a name, a list of names"):
        make(modifications=value)


def test_what_is_left_out_is_plain() -> None:
    for nothing in (None, [], [None, [], ()]):
        assert np.array_equal(play(make(modifications=nothing), 5), play(make(), 5))


ENTRY = '[[modifications]]\nname = "a"\nwhen = "every_frame"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "not a TOML file"),
        ("[modifications]\na = 1", "modifications is"),
        ("[[modifications]]\nname = 'a'", "'when' is missing"),
        (ENTRY + "program = ''\nother = 1", "unknown key 'other'; .*allowed: name, "),
        (ENTRY.replace('"a"', '"A b"') + "program = ''", "a name is made of a-z, 0-9 and _"),
        ((ENTRY + "program = ''\n") * 2, "two modifications have the same name"),
        (
            ENTRY.replace("every_frame", "often") + "program = ''",
            "reset, before_frame, every_frame",
        ),
        (ENTRY + "program = 'action = 0'", "'action' has a meaning of its own"),
        (ENTRY + "program = 'poke(3, action)'", "unknown name 'action'"),
        (ENTRY + "state = { reward = 1 }\nprogram = ''", "has a meaning of its own"),
        (ENTRY + "parameters = { n = [1, 2] }\nprogram = ''", "lowest, highest, default"),
        (ENTRY + "parameters = { n = [1, 2, 3] }\nprogram = ''", "lowest, highest, default"),
        (ENTRY + "parameters = { n = [false, 1, 1] }\nprogram = ''", "lowest, highest, default"),
        (
            ENTRY + "parameters = { n = [1, 2, 1] }\nstate = { n = 1 }\nprogram = ''",
            "both have 'n'",
        ),
        (ENTRY + "parameters = { n = [1, 2, 1] }\nprogram = 'n = 3'", "cannot be assigned"),
        (ENTRY + "state = { poke = 1 }\nprogram = ''", "has a meaning of its own"),
        (ENTRY + "program = 'while 1: pass'", "while is only allowed in mode_setup"),
        (ENTRY + "program = 'act(3)'", "no statement of the rule language"),
        (ENTRY + "program = 'poke(3)'", "needs 2 plain arguments"),
        (ENTRY + "program = 'poke(3, poke(1, 2))'", "poke is a statement and has no value"),
        (ENTRY + "program = 'poke(3, x)'", "unknown name 'x'"),
        (ENTRY + "program = 'poke(3, open(1))'", "unknown call 'open'; there are ram, .*rand"),
        (ENTRY + "program = 'poke(1, 1 < rand(3) < 2)'", "middle of a chained comparison"),
    ],
)
def test_a_wrong_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(RulesError, match=message):
        make(modifications=f"{path}:a")


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    with pytest.raises(RulesError, match="cannot read"):
        make(modifications=f"{path}:a")
    path.write_text(ENTRY + 'program = """\n' + "poke(1, ram(2) + 3)\n" * 3000 + '"""\n')
    with pytest.raises(RulesError, match="more than 8192 words when compiled"):
        make(modifications=f"{path}:a")
    path.write_text("#" * 2_000_000)
    with pytest.raises(RulesError, match="cannot read"):
        make(modifications=f"{path}:a")


def test_a_file_is_parsed_once(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def read(where: str, content: Any) -> Any:
        parsed.append(where)
        return read_modifications(where, content)

    monkeypatch.setattr("cule.games.modifications.read_modifications", read)
    make(modifications=" | ".join([f"{file}:counter"] * 900))
    assert parsed == [file]
    changed = COUNTER.replace("-3", "3")
    Path(file).write_text(changed)
    make(modifications=f"{file}:counter")
    assert parsed == [file, file]


def test_too_many_names(tmp_path: Path) -> None:
    path = tmp_path / "names.toml"
    path.write_text(
        ENTRY + f"state = {{ {', '.join(f'n{i} = 0' for i in range(17))} }}\nprogram = ''"
    )
    make(modifications=f"{path}:a")
    with pytest.raises(InvalidArgumentError, match="34 names, and there is room for 31"):
        make(modifications=[f"{path}:a"] * 2)


def test_native_code_checks_words() -> None:
    fields = resolve("pong").to_core_kwargs()
    words = list(compile_modifications("pong", (("lazy_enemy",), ("fast_ball",))))
    make_game(fields | {"modifications": words})
    for index, value in ((0, 0), (0, 10**9), (1, 2), (2, 10**6), (5, 99), (len(words) - 1, 47)):
        wrong = [*words[:index], value, *words[index + 1 :]]
        with pytest.raises(InvalidArgumentError, match="it must be compiled modifications"):
            make_game(fields | {"modifications": wrong})
    with pytest.raises(InvalidArgumentError, match="step_code is invalid"):
        make_game(fields | {"step_code": words[words[2] :]})
    game = make_game(fields | {"modifications": words})
    zeros = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="hold 3 and 1; they must be within 0 to 2 for pong"):
        _core.Batch([game], zeros, zeros, zeros, zeros, zeros + 3, zeros + 1, _core.BatchOptions())
    with pytest.raises(ValueError, match="hold 1 and 3; they must be within 0 to 2 for pong"):
        _core.Batch([game], zeros, zeros, zeros, zeros, zeros + 1, zeros + 3, _core.BatchOptions())
    _core.Batch([game], zeros, zeros, zeros, zeros, zeros + 1, zeros + 2, _core.BatchOptions())


def test_every_modification_says_what_it_does() -> None:
    for game in games_with_modifications():
        for name, modification in load_modifications(game).items():
            assert modification.about.endswith("."), (game, name)
            assert modification.checked, (game, name)


def test_names_between_commas() -> None:
    """Commas in parentheses belong to a name; a long text takes no longer than its length."""
    assert modification_names("a, b(1, 2),c(x=3)") == ("a", "b(1, 2)", "c(x=3)")
    assert modification_names(["a(1, 2) | b, c", "d"]) == ("a(1, 2) | b", "c", "d")
    assert len(modification_names("a(1,2), " * 200_000)) == 200_001
