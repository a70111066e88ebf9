"""`action_delay` against `ale_py.ALEInterface`, which is given each action so many frames later."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest

import cule
from cule.games import resolve
from tests.support.ale_pair import load_ale_py
from tests.support.cases import long_except

pytestmark = pytest.mark.ale

FIRE = 1
SKIP = 4
#: No random no-ops: what remains of a reset is `reset_game` and FIRE.
PLAIN: dict[str, Any] = {"noop_max": 0, "reward_clipping": False, "num_threads": 1}


class Late:
    """An `ale_py.ALEInterface` whose actions come late; no-ops come before the first."""

    def __init__(self, game: str, seed: int, delay: int, sticky: float = 0.0) -> None:
        ale_py = load_ale_py()
        self.ale, self.delay, self.pending = ale_py.ALEInterface(), delay, [0] * delay
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", sticky)
        self.ale.loadROM(str(ale_py.roms.get_rom_path(game)))

    def reset(self, presses_fire: bool = False) -> None:
        self.ale.reset_game()
        if presses_fire:
            self.ale.act(FIRE)
        self.pending = [0] * self.delay

    def act(self, action: int, frames: int = SKIP) -> int:
        """The sum of rewards, up to the end of the game."""
        total = 0
        for _ in range(frames):
            self.pending.append(action)
            total += self.ale.act(self.pending.pop(0))
            if self.ale.game_over():
                break
        return total

    def press(self, actions: Sequence[int]) -> int:
        """Actions at once, a step each; those that are pending wait."""
        return sum(self.ale.act(action) for action in np.repeat(actions, SKIP))


def assert_same(env: cule.AtariVectorEnv, index: int, late: Late) -> None:
    np.testing.assert_array_equal(env.ram[index], late.ale.getRAM())
    (screen,) = env.screens("rgb", [index])
    np.testing.assert_array_equal(screen, late.ale.getScreenRGB())


#: Game, delay of each environment, options.
CASES: list[tuple[str, list[int], dict[str, Any]]] = [
    ("breakout", [1, 3, 4, 9], {"use_fire_reset": True, "fire_after_life_loss": True}),
    ("pong", [0, 2, 5, 13], {"repeat_action_probability": 0.25}),
    ("kaboom", [4, 6, 8, 255], {"max_num_frames_per_episode": 333}),
    ("ms_pacman", [7, 1, 0, 10], {"full_action_space": True, "obs_type": "ram"}),
    ("space_invaders", [9, 2, 11, 1], {"repeat_action_probability": 0.5, "episodic_life": True}),
    ("boxing", [30, 3, 2, 1], {"obs_type": "sprites", "max_num_frames_per_episode": 70}),
]


@pytest.mark.parametrize(("game", "delays", "options"), long_except(CASES, CASES[0]))
def test_actions_come_late(game: str, delays: list[int], options: dict[str, Any]) -> None:
    options = {**PLAIN, "use_fire_reset": False, **options}
    env = cule.AtariVectorEnv(game, len(delays), action_delay=delays, **options)
    actions = env.action_set
    most_frames = options.get("max_num_frames_per_episode", 108_000)
    presses_fire = env.config.use_fire_reset and FIRE in actions
    sticky = options.get("repeat_action_probability", 0.0)
    references = [Late(game, 7 + index, delay, sticky) for index, delay in enumerate(delays)]
    for late in references:
        late.reset(presses_fire)
    env.reset(seed=7)
    frames, rng = np.zeros(len(delays), int), np.random.default_rng(3)
    ended = np.zeros(len(delays), bool)
    num_ended = 0
    for step in range(500):
        if step % 3 == 0:
            chosen = rng.integers(len(actions), size=len(delays))
        _, rewards, terminated, truncated, _ = env.step(chosen)
        for index, late in enumerate(references):
            if ended[index]:  # the reset of this step
                late.reset(presses_fire)
                frames[index] = 0
                assert rewards[index] == 0
            else:
                lives = late.ale.lives()
                count = min(SKIP, most_frames - frames[index])
                reward, lost = 0, False
                for _ in range(count):  # frame by frame, for where a life is lost
                    reward += late.act(actions[chosen[index]], 1)
                    frames[index] += 1
                    lost = 0 < late.ale.lives() < lives
                    if late.ale.game_over() or (lost and options.get("episodic_life")):
                        break
                if lost and options.get("fire_after_life_loss"):
                    reward += late.press([0, FIRE, actions[2]])
                    frames[index] += 3 * SKIP
                assert rewards[index] == reward, (step, index)
            if step % 5 == 0:
                assert_same(env, index, late)
        ended = terminated | truncated
        num_ended += int(ended.sum())
    for index, late in enumerate(references):
        assert_same(env, index, late)
    assert num_ended or game in ("pong", "ms_pacman")
    env.close()


@pytest.mark.parametrize("thought", long_except([1, 3, 6], 3))
def test_time_to_think(thought: int) -> None:
    """While an agent thinks for some frames, its previous action stays in effect."""
    env = cule.AtariVectorEnv(
        "seaquest", 1, frameskip=SKIP + thought, action_delay=thought, use_fire_reset=False, **PLAIN
    )
    env.reset(seed=5)
    late = Late("seaquest", 5, 0)
    late.reset()
    before, rng = 0, np.random.default_rng(0)
    for action in rng.integers(len(env.action_set), size=120):
        _, rewards, terminated, _, _ = env.step([action])
        pressed = env.action_set[action]
        wanted = late.act(before, thought) + late.act(pressed, SKIP)
        assert rewards[0] == wanted
        assert_same(env, 0, late)
        assert not terminated[0]
        before = pressed
    env.close()


def test_a_single_environment() -> None:
    env = gymnasium.make("cule/Breakout-v5", action_delay=5, frameskip=(2, 5)).unwrapped
    assert isinstance(env, cule.AtariEnv)
    late = Late("breakout", 0, 5, 0.25)
    rng, frames = np.random.default_rng(1), np.random.default_rng(0)
    restored: dict[int, Any] = {}
    for episode in range(2):
        env.reset(seed=9)
        late.ale.setInt("random_seed", env.ale.getInt("random_seed"))
        late.ale.loadROM(str(load_ale_py().roms.get_rom_path("breakout")))
        late.reset()
        frames.bit_generator.state = env.np_random.bit_generator.state
        for step in range(150):
            if episode == 1 and step % 40 == 20:  # the pending actions are part of both
                env = pickle.loads(pickle.dumps(env))
                restored[step] = env.clone_state(include_rng=True)
                env.step(0)
                env.restore_state(restored[step])
                env.np_random.bit_generator.state = frames.bit_generator.state
                assert env.clone_state(include_rng=True) == restored[step]
                assert env.ale.getRAM().tolist() == late.ale.getRAM().tolist()
            action = int(rng.integers(4))
            _, reward, *_ = env.step(action)
            pressed = env.ale.getMinimalActionSet()[action]
            assert reward == late.act(pressed, int(frames.integers(2, 5)))
            np.testing.assert_array_equal(env.ale.getRAM(), late.ale.getRAM())
            np.testing.assert_array_equal(env.ale.getScreenRGB(), late.ale.getScreenRGB())
        rng = np.random.default_rng(1)


def test_snapshots_hold_pending_actions() -> None:
    options: dict[str, Any] = {"action_delay": [0, 3, 9], "repeat_action_probability": 0.25}
    env, other = (cule.AtariVectorEnv("pong", 3, **options) for _ in range(2))
    env.reset(seed=0)
    rng = np.random.default_rng(2)
    actions = rng.integers(6, size=(80, 3))
    for row in actions[:40]:
        env.step(row)
    states = env.get_state()
    plain = cule.AtariVectorEnv("pong", 3)
    assert env.state_size == plain.state_size + 8 * 9
    seen = [env.step(row) for row in actions[40:]]
    order = [2, 0, 1]  # delays move with the snapshots
    other.reset(seed=4)
    other.set_state(states[order])
    for row, (obs, rewards, *_) in zip(actions[40:], seen, strict=True):
        found, found_rewards, *_ = other.step(row[order])
        np.testing.assert_array_equal(found, obs[order])
        np.testing.assert_array_equal(found_rewards, rewards[order])
    np.testing.assert_array_equal(other.get_state(), env.get_state()[order])
    for made in (env, other, plain):
        made.close()


@pytest.mark.parametrize("kind", ["continuous", "players"])
def test_a_delay_of_one_step_shifts_actions_by_one_step(kind: str) -> None:
    envs: list[Any] = []
    for delay in (SKIP, 0):
        options = {"action_delay": delay, "resets": "cached", "num_reset_states": 2}
        if kind == "continuous":
            envs.append(cule.AtariVectorEnv("kaboom", 3, continuous=True, **options))
        else:
            envs.append(cule.MultiAgentVectorEnv("joust", 3, **options))
    late, plain = envs
    plain.action_space.seed(0)
    before = np.zeros_like(plain.action_space.sample())
    for env in envs:
        env.reset(seed=1)
    for _ in range(100):
        actions = plain.action_space.sample()
        for mine, theirs in zip(late.step(actions)[:4], plain.step(before)[:4], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        before = actions
    for env in envs:
        env.close()


@pytest.mark.parametrize("delay", [-1, 256, [1], [0, 300], None, 1.5, "3"])
def test_what_is_no_delay(delay: Any) -> None:
    with pytest.raises(cule.CuleError, match="action_delay"):
        cule.AtariVectorEnv("pong", 2, action_delay=delay)
    if isinstance(delay, int):
        with pytest.raises(cule.InvalidArgumentError, match=r"action_delay is .* in 0\.\.255"):
            cule.AtariEnv("pong", action_delay=delay)
        ale = cule.ALEInterface()
        ale.setInt("action_delay", delay)
        with pytest.raises(cule.InvalidArgumentError, match=r"action_delay is .* in 0\.\.255"):
            ale.loadROM(resolve("pong").rom_path)
