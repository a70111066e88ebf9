"""`cule.AtariVectorEnv` against `ale_py.vector_env.AtariVectorEnv`: everything that comes back.

A row of `CASES` is one environment, and every ninth is in the default selection. The runs marked `slow` play every game
of `THOROUGH_GAMES` with every set of options in `THOROUGH_OPTIONS`.
"""

from __future__ import annotations

import contextlib
import zlib
from typing import Any

import numpy as np
import pytest

import cule
from tests.support.cases import long_except
from tests.support.vector_pair import VectorPair, boundary_actions

pytestmark = pytest.mark.ale

NUM_ENVS = 3
THOROUGH_STEPS = 500

FULL_SIZE = {"img_height": 210, "img_width": 160}
SMALL = {"img_height": 96, "img_width": 72}
SAME = {"autoreset_mode": "SameStep"}
NEXT = {"autoreset_mode": "NextStep"}
STICKY = {"repeat_action_probability": 0.25}

#: Game, agent steps, options.
CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("pong", 60, {}),
    ("breakout", 120, {**SAME, "episodic_life": True}),
    ("breakout", 120, {**NEXT, "life_loss_info": True, "reward_clipping": False}),
    ("space_invaders", 60, {"frameskip": 3, "grayscale": False, "use_fire_reset": False}),
    ("ms_pacman", 80, {**STICKY, "full_action_space": True, "stack_num": 2}),
    ("seaquest", 80, {**SAME, **STICKY, "frameskip": 5, "maxpool": False}),
    ("qbert", 80, {**SMALL, "frameskip": 5, "episodic_life": True}),
    ("beam_rider", 40, {**FULL_SIZE, "stack_num": 1}),
    ("enduro", 60, {**SAME, "continuous": True}),
    ("kaboom", 80, {"continuous": True, "continuous_action_threshold": 0.2, **STICKY}),
    ("freeway", 60, {"frameskip": 1, "noop_max": 7, "grayscale": False, **SMALL}),
    ("assault", 60, {"max_num_frames_per_episode": 50}),
    ("asterix", 60, {**SAME, "max_num_frames_per_episode": 33, "maxpool": False}),
    ("boxing", 60, {**SAME, "frameskip": 1, "max_num_frames_per_episode": 20}),
    ("road_runner", 80, {"life_loss_info": True, **SAME, **STICKY, "reward_clipping": False}),
    ("demon_attack", 60, {"noop_max": 0, "reward_clipping": False}),
    ("frostbite", 80, {"noop_max": 1, "use_fire_reset": False, "frameskip": 2, **STICKY}),
    ("skiing", 40, {"full_action_space": True}),
    ("montezuma_revenge", 60, {**STICKY, "episodic_life": True, "life_loss_info": True}),
    ("air_raid", 60, {"noop_max": 15}),
    ("journey_escape", 80, {"img_height": 230, "img_width": 160, "grayscale": False, **SAME}),
    ("tic_tac_toe_3d", 60, {"grayscale": False, "max_num_frames_per_episode": 60}),
    ("tetris", 60, {"frameskip": 6, "stack_num": 5}),
    ("carnival", 60, {"img_height": 107, "img_width": 80}),
    ("elevator_action", 60, {**SAME, "img_height": 60, "img_width": 160}),
    ("surround", 60, {"img_height": 30, "img_width": 16, "frameskip": 8}),
    ("pitfall", 60, {"noop_max": 100}),
    ("riverraid", 150, {**NEXT, "episodic_life": True, "reward_clipping": False}),
    ("beam_rider", 60, {"img_height": 2, "img_width": 80, "grayscale": False, "maxpool": False}),
]

THOROUGH_GAMES = [
    "pong",
    "breakout",
    "space_invaders",
    "ms_pacman",
    "seaquest",
    "qbert",
    "beam_rider",
    "enduro",
    "kaboom",
    "freeway",
    "assault",
    "asterix",
    "road_runner",
    "demon_attack",
    "frostbite",
    "montezuma_revenge",
    "riverraid",
    "tennis",
    "journey_escape",
    "tic_tac_toe_3d",
    "tetris",
    "air_raid",
    "elevator_action",
    "skiing",
]

THOROUGH_OPTIONS: list[dict[str, Any]] = [
    {**NEXT},
    {**SAME},
    {**NEXT, "episodic_life": True, "reward_clipping": False},
    {**SAME, "episodic_life": True, **STICKY},
    {**SAME, "life_loss_info": True, "maxpool": False},
    {**NEXT, "life_loss_info": True, "grayscale": False, "use_fire_reset": False},
    {**NEXT, "frameskip": 1, **STICKY, "grayscale": False, **SMALL},
    {**SAME, "frameskip": 5, "noop_max": 0, "full_action_space": True},
    {**NEXT, **FULL_SIZE, "stack_num": 2},
    {**SAME, **FULL_SIZE, "grayscale": False, "stack_num": 1, "frameskip": 5},
    {**NEXT, "continuous": True, **STICKY},
    {**SAME, "continuous": True, "frameskip": 1, "continuous_action_threshold": 0.3},
    {**NEXT, "max_num_frames_per_episode": 101, "stack_num": 3},
    {**SAME, "max_num_frames_per_episode": 333, "frameskip": 5, "episodic_life": True},
]


def generator(*words: object) -> np.random.Generator:
    """A generator of its own for every case."""
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def native_size(game: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options, with the full size that the game really has (ale-py cannot enlarge)."""
    from cule.games import load_roms

    if options.get("img_height") == FULL_SIZE["img_height"]:
        return {**options, "img_height": load_roms()[game].screen_height}
    return options


@pytest.mark.parametrize(
    ("game", "steps", "options"),
    long_except(CASES, every=9),
    ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)],
)
def test_options(game: str, steps: int, options: dict[str, Any]) -> None:
    rng = generator(game, options)
    with VectorPair(game, NUM_ENVS, **options) as pair:
        pair.reset(seed=int(rng.integers(2**31 - NUM_ENVS)))
        pair.play(rng, steps // 2, hold=3)
        pair.reset()  # the streams go on
        pair.play(rng, steps - steps // 2)
        if "max_num_frames_per_episode" in options or options.get("episodic_life"):
            assert pair.num_ended or game in ("qbert", "montezuma_revenge")


#: In games with nine legal actions the vector environment of ale-py 0.12.1 takes the number of a
#: continuous action, 0 to 17, for an index into them: RIGHT becomes LEFT, and from 9 on step() never
#: returns. Here, as in ale-py's single environment, it is the action itself.
NINE_ACTION_GAMES = ("skiing", "lost_luggage")

THOROUGH_CASES = [
    (game, number)
    for number, options in enumerate(THOROUGH_OPTIONS)
    for game in THOROUGH_GAMES
    if not (options.get("continuous") and game in NINE_ACTION_GAMES)
]


@pytest.mark.slow
@pytest.mark.parametrize(("game", "number"), THOROUGH_CASES)
def test_thorough(game: str, number: int) -> None:
    options = native_size(game, THOROUGH_OPTIONS[number])
    rng = generator(game, number)
    with VectorPair(game, NUM_ENVS, **options) as pair:
        pair.reset(seed=int(rng.integers(2**31 - NUM_ENVS)))
        pair.play(rng, THOROUGH_STEPS, hold=1 + number % 3)


@pytest.mark.parametrize("game", NINE_ACTION_GAMES)
def test_continuous_actions_of_games_with_nine_actions(game: str) -> None:
    """Against the same actions as indices, illegal ones as no-op."""
    rng = generator(game)
    options: dict[str, Any] = {"resets": "exact", "num_threads": 1, "stack_num": 1}
    with (
        contextlib.closing(cule.AtariVectorEnv(game, 18, continuous=True, **options)) as analogue,
        contextlib.closing(
            cule.AtariVectorEnv(game, 18, full_action_space=True, **options)
        ) as discrete,
    ):
        assert np.array_equal(analogue.reset(seed=0)[0], discrete.reset(seed=0)[0])
        legal = [int(action) for action in discrete.action_set]
        for _ in range(40):
            horizontal, vertical = rng.integers(-1, 2, (2, 18))
            fires = rng.integers(0, 2, 18)
            meant = [
                int(cule.AtariEnv.map_action_idx(h, v, bool(fire)).value)
                for h, v, fire in zip(horizontal, vertical, fires, strict=True)
            ]
            radius = np.hypot(horizontal, vertical)
            angle = np.arctan2(vertical, horizontal)
            actions = np.stack([radius, angle, fires], axis=1).astype(np.float32)
            indices = np.array([legal.index(a) if a in legal else 0 for a in meant])
            assert np.array_equal(analogue.step(actions)[0], discrete.step(indices)[0])


@pytest.mark.parametrize(
    ("game", "threshold"),
    long_except(
        [("enduro", 0.5), ("breakout", 0.3), ("enduro", 0.3), ("breakout", 0.5)], ("enduro", 0.5)
    ),
)
def test_continuous_actions_at_the_threshold(game: str, threshold: float) -> None:
    """Rounded as in ale-py."""
    rng = generator(game, threshold)
    options = {"continuous": True, "continuous_action_threshold": threshold, "stack_num": 1}
    with VectorPair(game, 4, **options) as pair:
        pair.reset(seed=2)
        for _ in range(80):
            pair.step(boundary_actions(rng, 4, threshold))


@pytest.mark.parametrize("threshold", [-0.5, 0.0])
def test_continuous_actions_in_opposite_directions(threshold: float) -> None:
    """With a negative threshold both are pressed, and cancel."""
    rng = generator("opposite", threshold)
    options = {"continuous": True, "continuous_action_threshold": threshold, "stack_num": 1}
    with VectorPair("ms_pacman", 4, repeat_action_probability=0.0, **options) as pair:
        pair.reset(seed=2)
        for _ in range(80):
            angles = rng.uniform(-np.pi, np.pi, 4)
            columns = [rng.random(4), angles, rng.random(4)]
            pair.step(np.stack(columns, axis=1).astype(np.float32))


@pytest.mark.parametrize("mode", long_except(["NextStep", "SameStep"], "SameStep"))
@pytest.mark.parametrize("game", long_except(["breakout", "journey_escape"], "breakout"))
def test_partial_resets(game: str, mode: str) -> None:
    """Some consoles at a time, with and without seeds, also ones that wait for a reset."""
    rng = generator(game, mode)
    limit = 40  # frames
    options = {"autoreset_mode": mode, "max_num_frames_per_episode": limit, **STICKY}
    with VectorPair(game, 4, **options) as pair:
        pair.reset(seed=3)
        done = np.zeros(4, np.bool_)
        for round_number in range(8):
            pair.play(rng, int(rng.integers(0, 8)))
            done = pair.step(rng.integers(0, 3, 4))
            mask = done if round_number % 4 == 3 and done.any() else rng.random(4) < 0.5
            count = int(mask.sum())
            seeds = rng.integers(0, 1000, count)
            seeds[rng.random(count) < 0.3] = -1
            for_all = int(rng.integers(1000))
            seed = (None, for_all, seeds)[round_number % 3]
            pair.reset(seed=seed, options={"reset_mask": mask})
        assert pair.num_ended


@pytest.mark.parametrize(
    "seed",
    [
        np.array([5, 5, 2**31 - 1]),
        pytest.param(0, marks=pytest.mark.long),
        pytest.param(np.array([7, 0, 1]), marks=pytest.mark.long),
    ],
)
def test_seeds(seed: Any) -> None:
    rng = generator(str(seed))
    with VectorPair("adventure", NUM_ENVS, **STICKY) as pair:
        pair.reset(seed=seed)
        pair.play(rng, 10)
        pair.reset(seed=-1)
        pair.play(rng, 10)
        pair.reset(seed=seed)
        pair.play(rng, 10)


def history(env: Any, seed: int, batches: int, actions: np.ndarray) -> list[list[tuple[Any, ...]]]:
    """What each console returns when batches of those that finish first are stepped again."""
    results: list[list[tuple[Any, ...]]] = [[] for _ in range(actions.shape[1])]

    def keep(info: dict[str, Any], *values: Any) -> np.ndarray:
        columns = [*values, info["lives"], info["frame_number"], info["episode_frame_number"]]
        for row, console in enumerate(info["env_id"]):
            results[console].append(tuple(np.copy(column[row]) for column in columns))
        return np.copy(info["env_id"])

    obs, info = env.reset(seed=seed)
    ids = keep(info, obs, np.zeros(len(obs)), np.zeros(len(obs)), np.zeros(len(obs)))
    for _ in range(batches):
        env.send(np.array([actions[len(results[console]), console] for console in ids]))
        obs, reward, terminated, truncated, info = env.recv()
        ids = keep(info, obs, reward, terminated, truncated)
    return results


@pytest.mark.parametrize(
    ("num_envs", "batch_size"), long_except([(5, 2), (4, 3), (6, 1), (3, 3)], (5, 2))
)
def test_asynchronous_batches(num_envs: int, batch_size: int) -> None:
    """Which console finishes first is chance, but what each one returns is not."""
    batches = 120 // batch_size
    actions = generator(num_envs, batch_size).integers(0, 4, (batches + 2, num_envs))
    options = {"batch_size": batch_size, "max_num_frames_per_episode": 60, **STICKY}
    with VectorPair("breakout", num_envs, **options) as pair:
        expected = history(pair.reference, 11, batches, actions)
        got = history(pair.ours, 11, batches, actions)
    compared = 0
    for theirs, mine in zip(expected, got, strict=True):
        for before, after in zip(theirs, mine, strict=False):
            assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
            compared += 1
    assert compared >= num_envs + batches // 2
