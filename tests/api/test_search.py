"""Archives of cells, branching, rollouts, and compressed snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cule
from cule.search import Archive, RandomActions, branch, frame_cells, ram_cells, rollout
from tests.support.ale_pair import load_ale_py
from tests.support.api import MakeEnv, rom_path
from tests.support.cases import long_except

pytestmark = pytest.mark.ale

#: Episodes that begin alike, and whose actions lead to the same state again.
SEARCH: dict[str, Any] = {
    "img_height": 11,
    "img_width": 8,
    "stack_num": 1,
    "reward_clipping": False,
    "noop_max": 0,
    "use_fire_reset": False,
    "repeat_action_probability": 0.0,
}


def explore(env: cule.AtariVectorEnv, rounds: int, steps: int) -> Archive:
    """An archive filled as `examples/go_explore.py` fills one."""
    archive, rng = Archive(env), np.random.default_rng(3)
    policy = RandomActions(env, mean_repeat=5, seed=4)
    obs, _ = env.reset(seed=0)
    archive.add(frame_cells(obs), scores=0, steps=0)
    for _ in range(rounds):
        starts = archive.choose(env.num_envs, rng)
        env.set_state(starts.states)
        scores, alive, actions = starts.scores.copy(), np.ones(env.num_envs, bool), []
        for t in range(steps):
            actions.append(policy())
            obs, rewards, terminated, truncated, _ = env.step(actions[-1])
            scores += np.asarray(rewards)
            alive &= ~np.asarray(terminated | truncated)
            cells, length = frame_cells(obs), starts.steps + t + 1
            archive.add(cells, scores, length, mask=alive, since=starts, actions=np.array(actions))
    return archive


def ale_after(game: str, actions: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """RAM of ale-py after these actions, four frames each, and its score before and after each."""
    ale = load_ale_py().ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("random_seed", 0)
    ale.loadROM(rom_path(game))
    ale.reset_game()
    actions_of = ale.getMinimalActionSet()
    rewards = [sum(ale.act(actions_of[action]) for _ in range(4)) for action in actions]
    return ale.getRAM(), np.cumsum([0, *rewards], dtype=float).tolist()


@pytest.mark.parametrize(
    "game", long_except(["seaquest", "asteroids", "montezuma_revenge"], "seaquest")
)
@pytest.mark.parametrize("resets", long_except(["exact", "cached"], "exact"))
def test_ways_of_an_archive_lead_to_its_snapshots_in_ale_py(
    make_env: MakeEnv, game: str, resets: str
) -> None:
    env = make_env(game, 16, resets=resets, **SEARCH)
    archive = explore(env, rounds=6, steps=10)
    assert len(archive) > 20
    assert archive.steps.max() > 20
    rows = [0, archive.best(), int(archive.steps.argmax()), len(archive) - 1]
    env.set_state(archive.starts(rows).states, range(4))
    for index, row in enumerate(rows):
        actions = archive.actions(row)
        assert len(actions) == archive.steps[row]
        ram, scores = ale_after(game, actions)
        np.testing.assert_array_equal(env.ram[index], ram)
        assert scores[-1] == archive.scores[row]


def test_a_cell_keeps_the_best_way(make_env: MakeEnv) -> None:
    env = make_env("breakout", 4, **SEARCH)
    env.reset(seed=0)
    archive = Archive(env)
    one, other = np.zeros((4, 2), np.uint8), np.full((4, 2), 9, np.uint8)
    assert archive.add(one, [1, 5, 5, 2], [3, 8, 7, 1]).tolist() == [2]
    assert archive.add(one, 5, 7).tolist() == []
    assert archive.add(one, 4, 1).tolist() == []
    assert archive.add(one, 5, [9, 9, 9, 6]).tolist() == [3]
    assert archive.add(one, 9, 9, mask=np.array([False, True, False, False])).tolist() == [1]
    assert archive.add(other, 2, 1, mask=np.zeros(4, bool)).tolist() == []
    assert archive.add(other, 2, 1).tolist() == [0]
    assert archive.scores.tolist() == [9, 2]
    assert archive.steps.tolist() == [9, 1]
    assert archive.cells.tolist() == [[0, 0], [9, 9]]
    assert archive.best() == 0
    assert repr(archive) == "Archive(2 cells, best score 9)"


def test_a_better_way_to_a_start_does_not_change_what_came_after(make_env: MakeEnv) -> None:
    env = make_env("breakout", 1, **SEARCH)
    env.reset(seed=0)
    archive = Archive(env)
    archive.add(np.zeros((1, 1), np.uint8), 0, 2, actions=np.array([[1], [2]]))
    starts = archive.starts([0])
    archive.add(np.zeros((1, 1), np.uint8), 1, 1, actions=np.array([[3]]))
    archive.add(np.ones((1, 1), np.uint8), 1, 3, since=starts, actions=np.array([[0]]))
    assert archive.actions(0).tolist() == [3]
    assert archive.actions(1).tolist() == [1, 2, 0]


def test_cells_that_were_visited_less_are_chosen_more(make_env: MakeEnv) -> None:
    env = make_env("breakout", 2, **SEARCH)
    env.reset(seed=0)
    archive, rng = Archive(env), np.random.default_rng(0)
    archive.add(np.array([[0], [1]], np.uint8), 0, 0)
    assert set(archive.choose(50, rng).rows) == {0, 1}
    assert archive.visits.sum() == 50
    archive._visits[:2] = [99, 0]
    counts = np.bincount(archive.choose(2_200, rng).rows)
    assert abs(counts[1] - 2_000) < 50  # 1 to 1 / sqrt(100)


def test_an_archive_in_a_file(make_env: MakeEnv, tmp_path: Path) -> None:
    env = make_env("seaquest", 8, resets="cached", **SEARCH)
    archive, path = explore(env, rounds=3, steps=5), tmp_path / "archive.npz"
    archive.save(path)
    again = Archive.load(path, env)
    for name in ("cells", "scores", "steps", "visits", "num_bytes"):
        np.testing.assert_array_equal(getattr(archive, name), getattr(again, name))
    for row in range(len(archive)):
        assert archive.actions(row).tolist() == again.actions(row).tolist()
    every = range(len(archive))
    np.testing.assert_array_equal(archive.starts(every).states, again.starts(every).states)
    more = np.full((8, 88), 255, np.uint8)
    assert len(again.add(more, 0, 0)) == 1  # a loaded archive grows
    with pytest.raises(cule.CapacityError, match="cells; capacity is max_cells=2"):
        Archive.load(path, env, max_cells=2)
    with pytest.raises(cule.InvalidStateError, match="has snapshots of"):
        Archive.load(path, make_env("seaquest", 8))
    with pytest.raises(FileNotFoundError):
        Archive.load(tmp_path / "none.npz", env)
    for wrong in (None, 3, ""):
        with pytest.raises(cule.InvalidArgumentError, match="it must be the path of a file"):
            Archive.load(wrong, env)  # type: ignore[arg-type]
    empty = tmp_path / "empty.npz"
    Archive(env).save(empty)
    assert len(Archive.load(empty, env)) == 0


HOSTILE: dict[str, Any] = {
    "version": np.array([1, 1]),
    "cells": np.zeros((2, 88)),
    "parents": np.array(3),
    "ways": np.zeros(2),
    "visits": np.array([-5, 0]),
    "many visits": np.array([2**63 - 1, 0]),
    "state_sizes": np.array([-5, 100]),
    "scores": np.array([np.nan, 0.0]),
    "steps": None,
}


@pytest.mark.parametrize("name", [*HOSTILE, "equal cells", "plain"])
def test_hostile_files_of_archives(make_env: MakeEnv, tmp_path: Path, name: str) -> None:
    env = make_env("seaquest", 2, **SEARCH)
    env.reset(seed=0)
    archive, path = Archive(env), tmp_path / "archive.npz"
    archive.add(np.array([[0] * 88, [1] * 88], np.uint8), 0, 0)
    archive.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    if name == "plain":
        with path.open("wb") as plain:
            np.save(plain, np.zeros(3))
    else:
        if name == "equal cells":
            arrays["cells"] = np.zeros((2, 88), np.uint8)
        elif HOSTILE[name] is None:
            del arrays[name]
        else:
            arrays[name.split()[-1]] = HOSTILE[name]
        np.savez(path, **arrays)
    with pytest.raises(cule.InvalidStateError, match=r"archive\.npz"):
        Archive.load(path, env)


@pytest.mark.parametrize("visits", [np.array([2**62]), np.array([127], np.int8)])
def test_visits_of_a_file_leave_room_for_more(
    make_env: MakeEnv, tmp_path: Path, visits: np.ndarray
) -> None:
    env = make_env("seaquest", 1, **SEARCH)
    env.reset(seed=0)
    archive, path = Archive(env), tmp_path / "archive.npz"
    archive.add(np.zeros((1, 88), np.uint8), 0, 0)
    archive.save(path)
    with np.load(path) as file:
        arrays = {**file, "visits": visits}
    np.savez(path, **arrays)
    again = Archive.load(path, env)
    assert again.choose(3, np.random.default_rng(0)).rows.tolist() == [0, 0, 0]
    assert again.visits.tolist() == [int(visits[0]) + 3]


@pytest.mark.parametrize("change", ["cut", "bits", "another", "ways", "version"])
def test_damaged_files_of_archives(make_env: MakeEnv, tmp_path: Path, change: str) -> None:
    env = make_env("breakout", 8, resets="cached", **SEARCH)
    path = tmp_path / "archive.npz"
    explore(env, rounds=2, steps=5).save(path)
    data = bytearray(path.read_bytes())
    with np.load(path) as file:
        arrays = dict(file)
    if change == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif change == "bits":
        data[len(data) // 2] ^= 16
        path.write_bytes(data)
    elif change == "another":
        np.savez(path, cells=np.zeros(3))
    else:
        key = {"ways": "parents", "version": "version"}[change]
        arrays[key] = arrays[key] + 1_000_000
        np.savez(path, **arrays)
    with pytest.raises(cule.InvalidStateError, match=r"archive\.npz"):
        Archive.load(path, env)


def test_bad_input_of_archives(make_env: MakeEnv) -> None:
    env = make_env("breakout", 2, **SEARCH)
    env.reset(seed=0)
    cells = np.array([[0], [1]], np.uint8)
    archive = Archive(env, max_cells=1)
    with pytest.raises(cule.InvalidArgumentError, match="empty archive"):
        archive.choose(1, np.random.default_rng(0))
    with pytest.raises(cule.InvalidArgumentError, match="empty archive"):
        archive.best()
    with pytest.raises(cule.CapacityError, match="0 cells and 2 new ones; capacity is max_cells=1"):
        archive.add(cells, 0, 0)
    assert len(archive) == 0
    archive = Archive(env)
    archive.add(cells, 0, 0)
    for bad, message in (
        ({"cells": cells[:1]}, r"cells has shape \(1, 1\); it must be \[2, K\]"),
        ({"cells": cells.astype(int)}, "of int64; it must be uint8"),
        ({"cells": np.zeros((2, 3), np.uint8)}, "has 3 bytes .* of this archive have 1"),
        ({"scores": [1, 2, 3]}, r"scores has shape \(3,\)"),
        ({"scores": [[1], [2, 3]]}, "scores is .* must be an array"),
        ({"steps": 1.5}, "steps has shape .* float64"),
        ({"actions": np.zeros(2, int)}, r"actions has shape \(2,\)"),
        ({"actions": np.full((1, 2), 300)}, r"actions are in 300\.\.300"),
        ({"mask": np.ones(3, bool)}, r"mask has shape \(3,\)"),
        ({"since": archive.starts([0])}, r"since\.ways has shape \(1,\)"),
        ({"since": 5}, "since is 5; it must be the result of starts"),
        ({"scores": [1, np.nan]}, "scores must be finite"),
        ({"steps": -1}, "steps at least 0"),
    ):
        with pytest.raises(cule.InvalidArgumentError, match=message):
            archive.add(**{"cells": cells, "scores": 9, "steps": 0, **bad})
    for rows in ([2], [-1], [0.5]):
        with pytest.raises(cule.InvalidArgumentError, match="rows"):
            archive.starts(rows)
    for none in ([], np.array([], np.int64)):
        with pytest.raises(
            cule.InvalidArgumentError, match=r"rows is .*; it must have at least one"
        ):
            archive.starts(none)
    assert archive.scores.tolist() == [0, 0]
    with pytest.raises(cule.InvalidArgumentError, match=r"rows has shape \(2,\)"):
        archive.actions([0, 1])  # type: ignore[arg-type]
    assert Archive(env).cells.shape == (0, 0)
    with pytest.raises(cule.InvalidArgumentError, match="env is 5; it must be an AtariVectorEnv"):
        Archive(5)  # type: ignore[arg-type]
    visits = archive.visits.tolist()
    for rng in (None, 3, np.random):
        with pytest.raises(
            cule.InvalidArgumentError, match=r"it must be a numpy\.random\.Generator"
        ):
            archive.choose(2, rng)  # type: ignore[arg-type]
    env.close()
    with pytest.raises(cule.ClosedError):
        archive.choose(2, np.random.default_rng(0))
    assert archive.visits.tolist() == visits


# --- Cells ------------------------------------------------------------------------------------------


def test_cells_of_frames(make_env: MakeEnv) -> None:
    obs = np.arange(256, dtype=np.uint8).reshape(2, 2, 8, 8)
    cells = frame_cells(obs)
    assert cells.shape == (2, 64)
    np.testing.assert_array_equal(cells[0], np.arange(64, 128) // 32)
    np.testing.assert_array_equal(frame_cells(obs, levels=256)[1], np.arange(192, 256))
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(frame_cells(torch.from_numpy(obs)), cells)
    assert frame_cells(obs[:0]).shape == (0, 64)
    for wrong in (obs[0], obs.astype(np.float32), [[1]], obs[:, :0]):
        with pytest.raises(cule.InvalidArgumentError, match="it must be uint8"):
            frame_cells(wrong)
    with pytest.raises(cule.InvalidArgumentError, match="levels is 1"):
        frame_cells(obs, levels=1)


def test_cells_of_ram() -> None:
    ram = np.arange(256, dtype=np.uint8).reshape(2, 128)
    assert ram_cells(ram, [3, 127]).tolist() == [[3, 127], [131, 255]]
    assert ram_cells(ram, [3, 127], [1, 16]).tolist() == [[3, 7], [131, 15]]
    for addresses, divisors, message in (
        ([128], None, "address is 128"),
        ([], None, "0 addresses"),
        ([1], [1, 2], "1 addresses and 2 divisors"),
        ([1], [0], "divisor is 0"),
        (1, None, "addresses is 1; it must be a list"),
        (None, None, "addresses is None; it must be a list"),
        ([1], 0, "divisors is 0; it must be a list"),
    ):
        with pytest.raises(cule.InvalidArgumentError, match=message):
            ram_cells(ram, addresses, divisors)
    with pytest.raises(cule.InvalidArgumentError, match=r"ram has shape \(2, 100\)"):
        ram_cells(ram[:, :100], [1])
    for wrong in (ram[0], 5):
        with pytest.raises(cule.InvalidArgumentError, match=r"it must be uint8 \[N, 128\]"):
            ram_cells(wrong, [1])


# --- Branches and rollouts --------------------------------------------------------------------------


@pytest.mark.parametrize("output", long_except(["numpy", "torch"], "torch"))
def test_branches_are_rolled_out_as_ale_py_plays_them(make_env: MakeEnv, output: str) -> None:
    if output == "torch":
        pytest.importorskip("torch")
    env = make_env("ms_pacman", 6, output=output, **SEARCH)
    env.reset(seed=0)
    rng = np.random.default_rng(1)
    before = rng.integers(9, size=(40, 6))
    for actions in before:
        env.step(actions)
    rows = branch(env, env.get_state([1, 4]))
    assert rows.tolist() == [0, 0, 0, 1, 1, 1]
    after = rng.integers(9, size=(30, 6))
    queue = iter(after)
    found = rollout(env, 30, lambda obs: next(queue), discount=0.5)
    for index in range(6):
        first = before[:, [1, 4][rows[index]]]
        history = np.concatenate([first, after[:, index]])
        ram, every_score = ale_after("ms_pacman", history)
        np.testing.assert_array_equal(np.asarray(env.ram)[index], ram)
        scores = every_score[40:]
        expected = sum(0.5**t * (scores[t + 1] - scores[t]) for t in range(30))
        assert found.returns[index] == expected
    assert found.steps.tolist() == [30] * 6
    assert not found.terminated.any()
    assert not found.truncated.any()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_rollouts_end_with_the_episode(make_env: MakeEnv, mode: str) -> None:
    env = make_env("breakout", 4, autoreset_mode=mode, max_num_frames_per_episode=400, **SEARCH)
    env.reset(seed=0)
    calls = []

    def policy(obs: Any) -> np.ndarray:
        assert obs.shape == (4, 1, 11, 8)
        calls.append(1)
        return np.array([1, 1, 0, 0])

    obs, _ = env.observe()
    found = rollout(env, 500, policy, obs=obs)
    assert found.truncated.all() or found.terminated[:2].all()
    assert found.truncated[2:].all()
    assert found.steps.tolist()[2:] == [100, 100]
    assert len(calls) == 100


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_rollouts_go_on_where_an_episode_has_ended(make_env: MakeEnv, mode: str) -> None:
    env = make_env("freeway", 3, autoreset_mode=mode, max_num_frames_per_episode=100, **SEARCH)
    env.reset(seed=0)
    for _ in range(10):
        env.step(np.zeros(3, int))
    env.reset(options={"reset_mask": np.array([True, False, False])})
    found = rollout(env, 100, RandomActions(env, seed=0))
    assert found.steps.tolist() == [25, 15, 15]
    assert found.truncated.all()


def test_bad_input_of_branches_and_rollouts(make_env: MakeEnv) -> None:
    env = make_env("breakout", 4, **SEARCH)
    env.reset(seed=0)
    states = env.get_state()
    for wrong in (states[:3], states[:0], states[0], None):
        with pytest.raises(cule.InvalidArgumentError, match="states has shape"):
            branch(env, wrong)
    before = env.get_state()
    damaged = states[:2].copy()
    damaged[1, 60] ^= 1
    with pytest.raises(cule.InvalidStateError):
        branch(env, damaged)
    np.testing.assert_array_equal(env.get_state(), before)
    policy = RandomActions(env, seed=0)
    for keywords in ({"steps": 0}, {"steps": 1, "discount": 1.5}):
        with pytest.raises(cule.InvalidArgumentError, match=r"is 0|is 1\.5"):
            rollout(env, policy=policy, **keywords)
    for wrong in (None, 5, env.unwrapped.action_space):
        for call in (RandomActions, lambda e: rollout(e, 1, policy), lambda e: branch(e, states)):
            with pytest.raises(TypeError, match="it must be an AtariVectorEnv") as error:
                call(wrong)
            assert isinstance(error.value, cule.CuleError)
    with pytest.raises(cule.InvalidArgumentError, match="policy is None; it must be a function"):
        rollout(env, 3, None)  # type: ignore[arg-type]
    for seed in (-1, 0.5, "a", 2**31):
        with pytest.raises(cule.InvalidArgumentError, match="seed is"):
            RandomActions(env, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(cule.InvalidArgumentError, match=r"mean_repeat is 0\.5"):
        RandomActions(env, mean_repeat=0.5)
    with pytest.raises(cule.InvalidArgumentError, match="continuous"):
        RandomActions(make_env("breakout", continuous=True))
    partial = make_env("breakout", 4, batch_size=1)
    obs, _ = partial.reset(seed=0)
    with pytest.raises(cule.InvalidArgumentError, match="env has batch_size 1; for rollout"):
        rollout(partial, 1, lambda obs: np.zeros(1, int), obs=obs)
    games = cule.MultiAgentVectorEnv("pong", 2, num_threads=1)
    with pytest.raises(cule.InvalidArgumentError, match="env has 2 players"):
        RandomActions(games)
    with pytest.raises(cule.InvalidArgumentError, match="env has 2 players"):
        rollout(games, 1, policy)
    games.close()


def test_random_actions_are_held(make_env: MakeEnv) -> None:
    env = make_env("ms_pacman", 50, **SEARCH)
    policy, same = (
        RandomActions(env, mean_repeat=10, seed=1),
        RandomActions(env, mean_repeat=10, seed=1),
    )
    drawn = np.array([policy() for _ in range(400)])
    np.testing.assert_array_equal(drawn, [same() for _ in range(400)])
    assert set(np.unique(drawn)) == set(range(9))
    policy().fill(100)
    assert policy().max() < 9
    changes = (drawn[1:] != drawn[:-1]).mean()
    assert abs(changes - 0.1 * 8 / 9) < 0.01


# --- Compressed snapshots ---------------------------------------------------------------------------


@pytest.mark.parametrize("game", ["pong", "seaquest", "montezuma_revenge", "turmoil"])
def test_packed_snapshots(make_env: MakeEnv, game: str) -> None:
    env = make_env(game, 3, resets="cached")
    env.reset(seed=0)
    for _ in range(50):
        env.step(np.random.default_rng(0).integers(env.single_action_space.n, size=3))
    states = env.get_state()
    packed = cule.pack_states(states)
    assert max(map(len, packed)) <= 12 << 10
    np.testing.assert_array_equal(cule.unpack_states(packed), states)
    env.set_state(cule.unpack_states(packed[2:]), [0])
    np.testing.assert_array_equal(env.ram[0], env.ram[2])


def test_bad_input_of_packed_snapshots(make_env: MakeEnv) -> None:
    env = make_env()
    env.reset(seed=0)
    states = env.get_state()
    for wrong in (states[0], states.astype(int), [1]):
        with pytest.raises(cule.InvalidArgumentError, match="states"):
            cule.pack_states(wrong)
    packed = cule.pack_states(states)
    with pytest.raises(cule.InvalidArgumentError, match="empty"):
        cule.unpack_states([])
    for entries in (None, packed[0], iter(packed)):
        with pytest.raises(
            cule.ArgumentTypeError, match=r"packed is .*; it must be a list of bytes"
        ):
            cule.unpack_states(entries)  # type: ignore[arg-type]
    for size in (0, -1, 2**70, "5", 2.5, True):
        with pytest.raises(cule.InvalidArgumentError, match="state_size is"):
            cule.unpack_states(packed, size)  # type: ignore[arg-type]
    other = cule.pack_states(states[:, :-1])
    for entries in ([b"no"], [packed[0][:-9]], [packed[0], other[0]], [3]):
        with pytest.raises(cule.InvalidStateError):
            cule.unpack_states(entries)
