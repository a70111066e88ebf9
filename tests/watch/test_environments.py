"""Environments with a policy: scores and lives, new episodes, and the policy of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cule import AtariVectorEnv, MultiAgentVectorEnv
from cule.errors import CheckpointError, InvalidArgumentError, UnknownGameError
from cule.watch.environments import Environments
from cule.watch.keys import polar_action
from cule.watch.policies import PlayOptions, open_random, open_trained

pytestmark = pytest.mark.ale

STEPS = 60

SMALL_REPLAY = {"memory": 1000, "learning_starts": 100}


def test_numbers_are_the_environments() -> None:
    # Cut off so early that every console begins several episodes, at the same time.
    options: dict[str, Any] = {
        "max_num_frames_per_episode": 400,
        "noop_max": 1,
        "reward_clipping": False,
        "autoreset_mode": "SameStep",
        "num_threads": 1,
    }
    env, twin = (AtariVectorEnv("ms_pacman", 3, **options) for _ in range(2))
    twin.reset(seed=4)
    random = np.random.default_rng(0)
    actions = random.integers(twin.single_action_space.n, size=(260, 3))

    begun: list[Any] = []

    class Script:
        title = "a script"
        rows = iter(actions)

        def act(self, obs: Any) -> Any:
            return next(self.rows)

        def begin(self, starts: Any) -> None:
            begun.append(starts.copy())

    environments = Environments(env, Script(), seed=4)
    scores, last_scores, episodes = np.zeros(3, int), np.zeros(3, int), np.ones(3, int)
    for row in actions:
        environments.step({})
        _, reward, terminated, truncated, info = twin.step(row)
        scores += reward
        ended = terminated | truncated
        last_scores[ended], scores[ended] = scores[ended], 0
        episodes += ended
        board = environments.board()
        assert board.scores.tolist() == scores.tolist()
        assert board.last_scores.tolist() == last_scores.tolist()
        assert board.episodes.tolist() == episodes.tolist()
        assert board.lives.tolist() == info["lives"].tolist()
    assert episodes.min() > 2
    assert last_scores.all()
    assert np.sum(begun, axis=0).tolist() == (episodes - 1).tolist()
    env.close()
    twin.close()


def test_random_play_is_of_the_seed_and_of_all_actions() -> None:
    def states(seed: int) -> Any:
        same = {
            "game": "seaquest",
            "mode": 0,
            "difficulty": 1,
            "action_delay": 2,
            "modifications": "no_divers",
        }
        env, policy = open_random(PlayOptions(num_envs=2, seed=seed, **same))
        assert env.config.modifications == ("no_divers",)
        assert len(env.action_set) == 18
        assert env.config.frameskip == 1
        environments = Environments(env, policy, seed=seed)
        for _ in range(STEPS):
            environments.step({})
        rows = env.get_state()
        env.close()
        return rows

    assert np.array_equal(states(1), states(1))
    assert not np.array_equal(states(1), states(2))


# --- Checkpoints ----------------------------------------------------------------------------------


@pytest.fixture
def one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def save_learner(algorithm: str, folder: Path, **options: Any) -> Path:
    """A learner that has learned nothing yet, as a run leaves it."""
    from cule.agents import AGENTS

    agent_class = AGENTS[algorithm]
    config = agent_class.config_class(
        game="pong", num_envs=2, torch_threads=1, env_threads=1, decorrelate_steps=0, **options
    )
    agent = agent_class(config)
    path = folder / "checkpoints" / "latest.pt"
    agent.save(path)
    agent.env.close()
    return path


class SeenEnoughError(Exception):
    """Ends an evaluation early."""


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("algorithm", "protocol", "options"),
    [
        ("ppo", "noop", {"network": "small", "img_size": 42, "repeat_action_probability": 0.1}),
        ("rainbow", "sticky", {"network": "small", "img_size": 42, **SMALL_REPLAY}),
        ("apex-dpg", "as-trained", {"obs_type": "ram", "network": "vector", **SMALL_REPLAY}),
        ("ppo", "noop", {"obs_type": "ram", "network": "vector", "continuous": True}),
    ],
)
def test_a_checkpoint_plays_as_in_its_evaluation(
    algorithm: str, protocol: str, options: dict[str, Any], tmp_path: Path
) -> None:
    from cule.agents import AGENTS, evaluate
    from cule.agents.run.evaluation import make_eval_env

    path = save_learner(algorithm, tmp_path, **options)
    env, policy = open_trained(
        PlayOptions(checkpoint=tmp_path, num_envs=3, game="Pong", protocol=protocol, seed=5)
    )
    assert policy.title == f"{algorithm} after 0 steps"
    environments = Environments(env, policy, seed=5)
    ours = []
    for _ in range(STEPS):
        environments.step({})
        ours.append(env.ram.numpy().copy())

    agent = AGENTS[algorithm].load(path)
    config: Any = agent.config
    reference: Any = make_eval_env(config, protocol, 3)
    theirs: list[Any] = []

    def look(frames: Any) -> None:
        theirs.append(reference.ram.numpy().copy())
        if len(theirs) == STEPS:
            raise SeenEnoughError

    with pytest.raises(SeenEnoughError):
        evaluate(agent, env=reference, protocol=protocol, seed=5, on_frames=look)
    assert np.array_equal(ours, theirs)
    for each in (env, reference, agent.env):
        each.close()


@pytest.mark.usefixtures("one_thread")
def test_a_person_plays_with_a_continuous_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save_learner("apex-dpg", tmp_path, obs_type="ram", network="vector", **SMALL_REPLAY)
    env, policy = open_trained(PlayOptions(checkpoint=path, num_envs=2, greedy=True))
    taken: list[Any] = []
    step = env.step

    def record(actions: Any) -> Any:
        taken.append(actions.copy())
        return step(actions)

    monkeypatch.setattr(env, "step", record)
    environments = Environments(env, policy, seed=0)
    environments.step({1: frozenset({"up", "left"})})
    environments.reset({0})
    environments.step({0: frozenset({"fire"})})
    assert taken[0][1].tolist() == polar_action(frozenset({"up", "left"})).tolist()
    assert taken[1][0].tolist() == [0.0, 0.0, 1.0]
    assert taken[0][0].tolist() != taken[0][1].tolist()
    assert environments.board().episodes.tolist() == [2, 1]
    env.close()


@pytest.mark.usefixtures("one_thread")
def test_wrong_checkpoints_are_rejected(tmp_path: Path) -> None:
    def open_it(path: Path, **changes: Any) -> Any:
        return open_trained(PlayOptions(checkpoint=path, num_envs=2, **changes))

    with pytest.raises(InvalidArgumentError, match="folder without a run"):
        open_it(tmp_path)
    path = save_learner("ppo", tmp_path, network="small", img_size=42)
    with pytest.raises(InvalidArgumentError, match=r"game is 'breakout'; .* plays 'pong' alone"):
        open_it(path, game="breakout")
    with pytest.raises(UnknownGameError):
        open_it(path, game="pongg")
    with pytest.raises(InvalidArgumentError, match="protocol is 'easy'; it must be one of"):
        open_it(path, protocol="easy")
    path.write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="damaged"):
        open_it(path)
    with pytest.raises(FileNotFoundError):
        open_it(tmp_path / "missing.pt")


def test_two_people_play_the_seats_of_one_console() -> None:
    env, policy = open_random(PlayOptions(game="pong", num_envs=2), num_players=2)
    twin = MultiAgentVectorEnv("pong", 2, **env_options(env))
    twin.reset(seed=0)
    environments = Environments(env, policy, seed=0)
    random = np.random.default_rng(0)
    names = [action.name for action in env.action_set]
    keys = {2: frozenset({"up"}), 3: frozenset({"down", "fire"})}
    scores = np.zeros((2, 2), int)
    for _ in range(400):
        environments.step(keys)
        actions = random.integers(18, size=(2, 2))
        actions[1] = [names.index("UP"), names.index("DOWNFIRE")]
        _, reward, *_ = twin.step(actions)
        scores += reward
    np.testing.assert_array_equal(env.ram, twin.ram)
    assert scores.any()
    board = environments.board()
    assert board.scores.tolist() == scores.tolist()
    assert board.episodes.tolist() == [1, 1]
    environments.reset({1})
    assert environments.board().last_scores.tolist() == [[0, 0], scores[1].tolist()]
    assert environments.board().scores.tolist() == [scores[0].tolist(), [0, 0]]
    env.close()
    twin.close()


def env_options(env: MultiAgentVectorEnv) -> dict[str, Any]:
    """The options of `open_random` that decide what happens."""
    config = env.config
    names = ("autoreset_mode", "frameskip", "full_action_space", "obs_type", "num_players")
    return {name: getattr(config, name) for name in names}


@pytest.mark.usefixtures("one_thread")
def test_a_policy_of_self_play_has_the_seats_that_no_viewer_has(tmp_path: Path) -> None:
    path = save_learner("ppo", tmp_path, network="small", img_size=42, num_players=2)
    env, policy = open_trained(PlayOptions(checkpoint=path, num_envs=3))
    assert isinstance(env, MultiAgentVectorEnv)
    taken: list[Any] = []
    step = env.step

    def record(actions: Any) -> Any:
        taken.append(actions.copy())
        return step(actions)

    env.step = record  # type: ignore[method-assign]
    environments = Environments(env, policy, seed=0)
    for _ in range(30):
        environments.step({3: frozenset({"right"})})
    played = np.array(taken)
    assert played.shape == (30, 3, 2)
    right = [action.name for action in env.action_set].index("RIGHT")
    assert (played[:, 1, 1] == right).all()
    for seat in ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1)):
        assert len(set(played[:, seat[0], seat[1]])) > 1
    env.close()


def test_rules_are_for_one_player() -> None:
    with pytest.raises(InvalidArgumentError, match="with num_players 2 it must be left out"):
        open_random(PlayOptions(game="pong", num_envs=1, rules="x.toml"), num_players=2)
    with pytest.raises(InvalidArgumentError, match="num_players is 3"):
        open_random(PlayOptions(game="pong", num_envs=1), num_players=3)
