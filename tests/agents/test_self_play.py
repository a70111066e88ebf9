"""Self-play: seats as environments, opponents, matches, and the commands that use them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cule  # noqa: E402
from cule.agents import (  # noqa: E402
    DQN,
    PPO,
    DQNConfig,
    PPOConfig,
    RandomOpponent,
    RunOptions,
    SelfPlayEnv,
    start_run,
)
from cule.agents.run.checkpoint import load_state, read_checkpoint  # noqa: E402
from cule.agents.run.matches import Matches, play_matches  # noqa: E402
from cule.cli import main  # noqa: E402
from tests.support.cases import long_except  # noqa: E402

pytestmark = pytest.mark.ale

GAMES = [("pong", 2), ("warlords", 4)]

SMALL: dict[str, Any] = {
    "num_players": 2,
    "num_envs": 4,
    "num_steps": 8,
    "network": "small",
    "img_size": 42,
    "stack_num": 2,
    "decorrelate_steps": 0,
    "env_threads": 1,
}

WORDS = [
    *("ppo", "--game", "pong", "--num-players", "2", "--num-envs", "4", "--num-steps", "8"),
    *("--network", "small", "--img-size", "42", "--stack-num", "2", "--decorrelate-steps", "0"),
    *("--no-progress-bar", "--eval-episodes", "0"),
]


def make_games(game: str, players: int, **options: Any) -> cule.MultiAgentVectorEnv:
    """Three games with short episodes."""
    defaults = {"output": "torch", "autoreset_mode": "SameStep", "max_num_frames_per_episode": 600}
    return cule.MultiAgentVectorEnv(
        game, 3, num_players=players, num_threads=1, **{**defaults, **options}
    )


class Script:
    """An opponent that repeats a list of actions and remembers what it saw."""

    def __init__(self, num_actions: int) -> None:
        self.device = torch.device("cpu")
        self.actions = itertools.cycle(range(num_actions))
        self.seen: list[Any] = []

    def act(self, obs: Any, generator: Any) -> Any:
        self.seen.append(obs.clone())
        return torch.tensor(list(itertools.islice(self.actions, len(obs))))


# --- Environments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("game", "players"), GAMES)
@pytest.mark.parametrize("mode", long_except(["SameStep", "NextStep"], "NextStep"))
def test_every_seat_is_an_environment(game: str, players: int, mode: str) -> None:
    games, twin = (make_games(game, players, autoreset_mode=mode) for _ in range(2))
    env, random = SelfPlayEnv(games), torch.Generator().manual_seed(0)
    obs, _ = env.reset(seed=5)
    twin.reset(seed=5)
    assert obs.shape == (3 * players, 4, 84, 84)
    ended = 0
    for _ in range(200):
        actions = torch.randint(int(env.single_action_space.n), (3 * players,), generator=random)
        out = torch.zeros((3 * players, 84, 84), dtype=torch.uint8)
        step = env.step_frames(actions, out=out)
        expected = twin.step_frames(actions.reshape(3, players))
        assert step.frame is out
        for seat in range(players):
            for name in ("terminated", "truncated", "first", "episode_length"):
                assert torch.equal(getattr(step, name)[seat::players], getattr(expected, name))
            for name in ("reward", "life_lost", "episode_return"):
                theirs = getattr(expected, name)[:, seat]
                assert torch.equal(getattr(step, name)[seat::players], theirs)
            done = expected.terminated | expected.truncated  # elsewhere nothing is final
            for name, rows in (("frame", slice(None)), ("final_frame", done)):
                mine, theirs = getattr(step, name)[seat::players], getattr(expected, name)
                assert torch.equal(mine[rows, 6:], theirs[rows, 6:])
            assert (step.frame[seat::players, :6] == 255 * (seat + 1) // players).all()
        ended += int(step.truncated.sum())
    assert ended == 3 * players
    games.close()
    twin.close()


@pytest.mark.parametrize(("game", "players"), GAMES)
def test_an_opponent_has_every_second_seat(game: str, players: int) -> None:
    games, twin = (make_games(game, players) for _ in range(2))
    opponent = Script(len(games.action_set))
    env = SelfPlayEnv(games, opponent)
    env.reset(seed=5)
    twin.reset(seed=5)
    theirs = itertools.cycle(range(len(games.action_set)))
    own = [(m, p) for m in range(3) for p in range(players) if p % 2 == m % 2]
    others = [(m, p) for m in range(3) for p in range(players) if p % 2 != m % 2]
    assert env.num_envs == len(own)
    for number in range(40):
        plain = twin.observe()[0]
        actions = torch.tensor([number % 2 + 1] * len(own))
        joined = torch.zeros((3, players), dtype=torch.int64)
        for (m, p), action in zip(own, actions, strict=True):
            joined[m, p] = action
        for m, p in others:
            joined[m, p] = next(theirs)
        step, expected = env.step_frames(actions), twin.step_frames(joined)
        for index, (m, p) in enumerate(own):
            assert step.reward[index] == expected.reward[m, p]
            assert torch.equal(step.frame[index, 6:], expected.frame[m, 6:])
        for index, (m, p) in enumerate(others):
            seen = opponent.seen[-1][index]
            assert torch.equal(seen[:, 6:], plain[m, :, 6:])
            assert (seen[-1, :6] == 255 * (p + 1) // players).all()
    games.close()
    twin.close()


def test_blank_frames_of_a_stack_stay_blank() -> None:
    games = make_games("pong", 2)
    env = SelfPlayEnv(games)
    obs = torch.zeros((3, 4, 84, 84), dtype=torch.uint8)
    obs[:, 3] = 7
    seen = env.observations(obs)
    assert not seen[:, :3].any()
    assert (seen[:, 3, 6:] == 7).all()
    assert (seen[0, 3, :6] == 127).all()
    assert (seen[1, 3, :6] == 255).all()
    assert (obs[:, 3] == 7).all()
    games.close()


def test_margins() -> None:
    games = make_games("warlords", 4)
    env = SelfPlayEnv(games, Script(6), counts_margin=True)
    rewards = torch.tensor([[1.0, 2.0, 4.0, 8.0]] * 3)
    assert env._of_seats(rewards).tolist() == [-5, -5, 5, 5, -5, -5]
    plain = SelfPlayEnv(games)
    assert plain._of_seats(rewards).tolist() == [1, 2, 4, 8] * 3
    games.close()


def test_states_of_self_play_continue() -> None:
    games = make_games("pong", 2)
    env = SelfPlayEnv(games, RandomOpponent(len(games.action_set)))
    env.reset(seed=1)
    actions = torch.tensor([1, 2, 3])
    for _ in range(5):
        env.step_frames(actions)
    state = env.get_state()
    first = [env.step_frames(actions).frame.clone() for _ in range(20)]
    env.set_state(state)
    again = [env.step_frames(actions).frame.clone() for _ in range(20)]
    assert all(map(torch.equal, first, again))
    before = env.get_state()
    broken = state.clone()
    broken[:5000] = 255
    for wrong in (state[:-1], state.int(), None, broken, state.flip(0)):
        with pytest.raises(cule.InvalidStateError, match="states "):
            env.set_state(wrong)
        assert torch.equal(env.get_state(), before)
    games.close()


def test_games_that_do_not_fit() -> None:
    for options in ({"obs_type": "ram"}, {"grayscale": False}, {"output": "numpy"}):
        games = make_games("pong", 2, **options)
        with pytest.raises(cule.InvalidArgumentError, match="for self-play they must be"):
            SelfPlayEnv(games)
        games.close()


def test_games_of_another_kind() -> None:
    with pytest.raises(cule.CuleError, match=r"games is .*; it must be a MultiAgentVectorEnv"):
        SelfPlayEnv(cule.AtariVectorEnv("pong", 1, output="torch"))  # type: ignore[arg-type]
    games = cule.MultiAgentVectorEnv("pong", 2, output="torch", batch_size=1)
    with pytest.raises(cule.InvalidArgumentError, match="batch_size 1"):
        SelfPlayEnv(games)


def test_a_step_of_wrong_actions_is_not_played() -> None:
    """None is rounded or repeated, and frames go to memory of their shape and dtype alone."""
    games = make_games("pong", 2)
    env = SelfPlayEnv(games)
    env.reset(seed=1)
    before, right = env.get_state(), torch.ones(env.num_envs, dtype=torch.int64)
    actions: Any
    for actions in (right.float(), right.bool(), right[:1], right[0], None, [0], right[None]):
        with pytest.raises(cule.ActionShapeError, match="actions"):
            env.step_frames(actions)
    frame = games.single_observation_space.shape[-2:]
    out: Any
    for out in (torch.zeros(env.num_envs, *frame), torch.zeros(frame, dtype=torch.uint8), 3):
        with pytest.raises(cule.InvalidArgumentError, match="out is"):
            env.step_frames(right, out=out)
    assert torch.equal(env.get_state(), before)
    opposed = SelfPlayEnv(games, RandomOpponent(len(games.action_set)))
    opposed.reset(seed=1)
    state = opposed.get_state()
    with pytest.raises(cule.ActionRangeError):
        opposed.step_frames(torch.full((opposed.num_envs,), 99))
    assert torch.equal(opposed.get_state(), state)
    after = []
    for actions in (right, right.tolist(), right.numpy(), right.byte()):
        env.set_state(before)
        env.step_frames(actions)
        after.append(env.get_state())
    assert all(torch.equal(state, after[0]) for state in after)
    games.close()


def test_seeds_of_self_play() -> None:
    games = make_games("pong", 2)
    env = SelfPlayEnv(games)
    env.reset(seed=3)
    before = env.get_state()
    seed: Any
    for seed in (True, [1, 2], 1.5):
        with pytest.raises(cule.CuleError, match="seed is"):
            env.reset(seed=seed)
        assert torch.equal(env.get_state(), before)
    seed = np.int64(3)
    assert torch.equal(env.reset(seed=seed)[0], env.reset(seed=3)[0])
    games.close()


# --- Agents -----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("agent_class", "config"),
    [
        (PPO, PPOConfig(**SMALL, total_steps=96)),
        (
            DQN,
            DQNConfig(
                **{k: v for k, v in SMALL.items() if k != "num_steps"},
                total_steps=96,
                memory=8000,
                learning_starts=16,
            ),
        ),
    ],
)
def test_a_run_against_itself_goes_on_from_a_checkpoint(
    agent_class: Any, config: Any, tmp_path: Path
) -> None:
    whole, half, rest = agent_class(config), agent_class(config), agent_class(config)
    list(whole.train())
    list(half.train(steps=48))
    half.save(tmp_path / "half.pt")
    load_state(rest, read_checkpoint(tmp_path / "half.pt"))
    list(rest.train())
    assert whole.updates == rest.updates > 0
    for name, value in whole.network.state_dict().items():
        assert torch.equal(value, rest.network.state_dict()[name]), name
    for agent in (whole, half, rest):
        agent.env.close()


def test_matches_against_what_is_no_checkpoint() -> None:
    agent = PPO(PPOConfig(**SMALL))
    versus: Any = "random"
    with pytest.raises(cule.InvalidArgumentError, match="versus is 'random'"):
        play_matches(agent, versus, matches=10, num_games=2)
    agent.env.close()


def test_opponents_that_cannot_act() -> None:
    games = cule.MultiAgentVectorEnv("pong", 1, output="torch", autoreset_mode="SameStep")
    for opponent in ("random", 3):
        with pytest.raises(
            cule.InvalidArgumentError, match=f"opponent is {opponent!r}; it must be"
        ):
            SelfPlayEnv(games, opponent)  # type: ignore[arg-type]
    for count in (0, -1, 1.5):
        with pytest.raises(cule.InvalidArgumentError, match=f"num_actions is {count}"):
            RandomOpponent(count)  # type: ignore[arg-type]
    games.close()


@pytest.mark.usefixtures("short_episodes")
def test_evaluations_of_self_play_are_against_random_actions() -> None:
    agent = PPO(PPOConfig(**SMALL, total_steps=32))
    result = agent.evaluate(episodes=10)
    assert result.game == "pong with 2 players"
    assert result.human_normalized is None
    assert len(result.returns) == 10
    assert all(abs(score) <= 21 for score in result.returns)
    again = agent.evaluate(episodes=10)
    assert again == result
    agent.env.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 3}, "num_envs is 3; with num_players 2 it counts seats"),
        ({"num_players": 3, "num_envs": 6}, "num_players is 3"),
        ({"game": "pong,breakout"}, "it must be one game"),
        ({"obs_type": "ram", "network": "vector"}, "obs_type is 'ram'; with num_players 2"),
        ({"continuous": True}, "continuous is True; with num_players 2"),
        ({"rules": "mine.toml"}, "rules is 'mine.toml'; with num_players 2"),
        ({"game": "seaquest"}, "seaquest"),
    ],
)
def test_options_that_several_players_do_not_have(options: dict[str, Any], message: str) -> None:
    with pytest.raises(cule.CuleError, match=message):
        PPO(PPOConfig(**{**SMALL, **options}))


# --- Matches ----------------------------------------------------------------------------------------


def test_win_rates_and_their_intervals() -> None:
    result = Matches((5.0,) * 7 + (0.0,) * 2 + (-1.0,), (9,) * 10)
    assert (result.wins, result.draws, result.losses) == (7, 2, 1)
    assert result.win_rate == pytest.approx(0.8)
    assert result.win_rate_interval() == pytest.approx((0.4902, 0.9433), abs=1e-4)
    lost = Matches((-1.0,) * 10, (9,) * 10)
    assert lost.win_rate_interval() == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert result.row()["margin_mean"] == pytest.approx(3.4)


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.parametrize(("game", "players"), long_except(GAMES, GAMES[0]))
def test_matches_are_episodes_of_half_the_seats(game: str, players: int) -> None:
    agent = PPO(PPOConfig(**{**SMALL, "game": game, "num_players": players, "seed": 3}))
    result = play_matches(agent, None, matches=10, seed=2)
    assert len(result.margins) == len(result.lengths) == 10
    assert set(result.lengths) <= set(range(1, 101))
    assert play_matches(agent, None, matches=10, seed=2) == result
    if game == "pong":  # others have games without a point
        assert play_matches(agent, None, matches=10, seed=3) != result
    more = play_matches(agent, None, matches=11, seed=2, num_games=4)
    assert len(more.margins) == 12
    agent.env.close()


def test_a_policy_against_itself_wins_on_one_side_as_it_loses_on_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cule.agents.run.evaluation.FRAME_CAP", 1600)
    agent = PPO(PPOConfig(**{**SMALL, "noop_max": 1}))
    agent.save(tmp_path / "a.pt")
    versus = read_checkpoint(tmp_path / "a.pt")
    # The best actions of one policy from one start: only the side differs.
    result = play_matches(agent, versus, matches=10, protocol="as-trained", greedy=True)
    assert len(set(result.margins[::2])) == len(set(result.margins[1::2])) == 1
    assert result.margins[0] == -result.margins[1] != 0
    agent.env.close()


# --- Commands ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run against itself."""
    folder = tmp_path_factory.mktemp("runs") / "itself"
    assert main(["train", *WORDS, "--total-steps", "64", "--out", str(folder)]) == 0
    return folder


@pytest.mark.long
def test_training_against_a_checkpoint(trained: Path, tmp_path: Path) -> None:
    words = ["train", *WORDS, "--total-steps", "64", "--opponent", str(trained)]
    words += ["--eval-episodes", "10", "--out", str(tmp_path / "other"), "--seed", "1"]
    assert main(words) == 0
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    assert config["run"]["opponent"] == str(trained)
    rows = (tmp_path / "other" / "evaluations.csv").read_text().splitlines()
    assert len(rows) == 2
    # A resumed run keeps its opponent, which cannot be the run itself.
    again = ["train", "--resume", "--out", str(tmp_path / "other"), "--total-steps", "128"]
    assert main(again) == 0
    itself = ["train", *WORDS, "--out", str(trained), "--resume", "--opponent", str(trained)]
    assert main(itself) == 2


def test_the_opponent_of_a_run_in_python(tmp_path: Path) -> None:
    config = PPOConfig(**SMALL, total_steps=32)
    options = RunOptions(
        out=str(tmp_path / "run"), opponent="random", eval_episodes=0, progress_bar=False
    )
    run = start_run(PPO, config, options)
    assert isinstance(run.agent.env, SelfPlayEnv)
    assert isinstance(run.agent.env.opponent, RandomOpponent)
    assert run.agent.env.num_envs == run.agent.env.games.num_envs == 4
    assert run.run()
    games = make_games("pong", 2)
    with pytest.raises(cule.InvalidArgumentError, match="with env or eval_env it must be empty"):
        start_run(PPO, config, RunOptions(out=str(tmp_path / "b"), opponent="random"), env=games)
    games.close()
    run.agent.env.close()


@pytest.mark.long
@pytest.mark.parametrize("versus", ["random", "itself"])
def test_matches_from_the_command_line(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], versus: str
) -> None:
    other = "random" if versus == "random" else str(trained)
    out = tmp_path / "matches.json"
    words = ["eval", str(trained), "--versus", other, "--episodes", "10", "--json", str(out)]
    assert main(words) == 0
    text = capsys.readouterr().out
    (record,) = json.loads(out.read_text())
    assert f"won {record['wins']}, drawn {record['draws']}, lost {record['losses']}" in text
    assert len(record["margins"]) == record["matches"] == 10
    assert record["win_rate_low"] < record["win_rate"] < record["win_rate_high"]


def test_opponents_that_do_not_fit(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(words: list[str], message: str) -> None:
        assert main(words) != 0
        assert message in capsys.readouterr().err

    single = PPO(PPOConfig(**{**SMALL, "num_players": 1}))
    single.save(tmp_path / "single.pt")
    single.env.close()
    with_opponent = ["train", *WORDS, "--out", str(tmp_path / "run"), "--opponent"]
    fails([*with_opponent, str(tmp_path / "single.pt")], "with 1 players; it must play 'pong' with")
    fails([*with_opponent, str(tmp_path / "none.pt")], "none.pt")
    fails([*with_opponent, str(trained), "--num-players", "1"], "it must be 2 or 4")
    fails([*with_opponent, str(trained), "--game", "boxing"], "it must play 'boxing'")
    fails([*with_opponent, str(trained), "--img-size", "84"], "obs_shape of the checkpoint is")
    fails(["eval", str(tmp_path / "single.pt"), "--versus", "random"], "it must be 2 or 4")
    fails(["eval", str(trained), "--versus", "random", "--num-envs", "3"], "it must be even")
    fails(["eval", str(trained), "--versus", "random", "--episodes", "3"], "episodes is 3")
    fails(["eval", str(trained), "--episodes", "99999999999"], "episodes is 99999999999")
    fails(["eval", str(trained), "--versus", "random", "--num-envs", "-2"], "num_envs is -2")
    fails(["eval", str(trained), "--versus", "random", "--rom-path", "none.bin"], "none.bin")
    fails([*with_opponent, str(trained), "--cuda-graphs"], "cuda_graphs is True")
    fails(
        ["eval", str(trained), "--versus", "random", "--video", "a.mp4"],
        "with --versus it must be left out",
    )
    assert not (tmp_path / "run").exists()
