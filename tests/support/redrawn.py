"""Observations made without reusing anything of earlier frames.

`DrawnAnew` runs one console without images (with sprites there is no line cache), draws every
frame of a step from its log, pools the last two and resizes them whole. `Watched` runs consoles with
observations as well and compares.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, NamedTuple

import numpy as np

from cule import _core
from cule.envs.options import resolve_options
from cule.envs.plan import BatchPlan, make_batch, plan_batch
from tests.support.kernels import Results

IMAGE_OPTIONS = ("img_height", "img_width", "grayscale", "stack_num", "maxpool", "frameskip")
SEEDS = np.array([3, 5, 8], np.int64)
NUM_ENVS = 3


def plan_of(games: tuple[_core.Game, _core.Game] | tuple[str, str], options: Any) -> BatchPlan:
    """Two consoles of the first game and one of the other; native games run with their defaults."""
    if isinstance(games[0], str):
        return plan_batch(options)
    index = np.array([0, 0, 1], np.int32)
    return dataclasses.replace(plan_batch(options), games=tuple(games), game_index=index)


class Saved(NamedTuple):
    """A console at some moment."""

    row: np.ndarray
    pooled: np.ndarray
    stack: np.ndarray
    is_end: bool


class DrawnAnew:
    """What the observations of one console of a batch have to be."""

    def __init__(self, plan: BatchPlan, console: int, options: Any, bare: dict[str, Any]) -> None:
        """`options`: of the batch; `bare`: those of its keywords that have to do with no images."""
        self.options = options
        one = slice(console, console + 1)
        own = dataclasses.replace(
            plan,
            games=(plan.games[plan.game_index[console]],),
            game_index=np.zeros(1, np.int32),
            modes=plan.modes[one],
            difficulties=plan.difficulties[one],
            action_delays=plan.action_delays[one],
            modifications=plan.modifications[one],
            num_modifications=plan.num_modifications[one],
        )
        alone = resolve_options("pong", 1, {**bare, "obs_type": "sprites", "frameskip": 1})
        self.batch = make_batch(own, alone)
        self.results = Results(own, alone)
        self.batch.reset(None, SEEDS[one].copy(), self.results.out)
        self.has_ended = False
        self.begin_episode()

    def begin_episode(self) -> None:
        """The picture after a reset, over an empty stack."""
        self.is_end = False
        self.pooled = self.picture()
        size = (self.options.img_height, self.options.img_width)
        self.stack = np.zeros((self.options.stack_num, *size, *self.pooled.shape[2:]), np.uint8)
        self.push()

    def picture(self) -> np.ndarray:
        """What is on the screen, drawn from the start of its log."""
        kind = "gray" if self.options.grayscale else "rgb"
        return self.batch.screens(kind, np.arange(1))[0]

    def push(self) -> None:
        """The pooled picture becomes the newest of the stack."""
        newest = _core.area_resize(self.pooled, *self.stack.shape[1:3])
        self.stack = np.concatenate([self.stack[1:], newest[None]])

    def frame(self, action: int) -> bool:
        """One frame; true: the episode is over."""
        self.batch.step(np.array([action], np.int32), self.results.out)
        return bool(self.results.flags[_core.FLAG_ENDED, 0])

    def step(self, action: int) -> None:
        """As a step of the batch. The frame that ends an episode is not observed."""
        if self.is_end:
            self.has_ended = self.frame(action)
            self.begin_episode()
            return
        count = self.options.frameskip
        wanted = range(max(count - (2 if self.options.maxpool else 1), 0), count)
        seen = []
        for number in range(count):
            self.is_end = self.frame(action)
            if self.is_end:
                break
            if number in wanted:
                seen.append(self.picture())
        if self.is_end:  # of the last two frames one is missing: the previous step's replaces it
            seen.append(self.pooled)
        self.pooled = np.max(seen, axis=0)
        self.push()
        self.has_ended = self.is_end
        self.final = self.stack
        if self.is_end and self.options.autoreset_mode.value == "SameStep":
            self.begin_episode()

    def start_over(self) -> None:
        """A reset in the middle of an episode; random streams go on."""
        self.batch.reset(None, np.array([-1]), self.results.out)
        self.has_ended = False
        self.begin_episode()

    def save(self) -> Saved:
        """Everything."""
        row = self.batch.get_state(np.arange(1))
        return Saved(row, self.pooled, self.stack, self.is_end)

    def restore(self, saved: Saved) -> None:
        """A moment of any console of the same game."""
        self.batch.set_state(saved.row, np.arange(1))
        self.pooled, self.stack, self.is_end = saved[1:]


class Watched:
    """Three consoles with observations, two of a game and one of another, and each drawn anew."""

    def __init__(
        self, games: tuple[_core.Game, _core.Game] | tuple[str, str], **keywords: Any
    ) -> None:
        """Reset; `keywords` as for `cule.AtariVectorEnv`."""
        names = games if isinstance(games[0], str) else ("pong", "pong")
        keywords = {"num_threads": 1, "noop_max": 2, "use_fire_reset": False, **keywords}
        self.options = resolve_options([(names[0], 2), (names[1], 1)], NUM_ENVS, keywords)
        self.is_same_step = self.options.autoreset_mode.value == "SameStep"
        plan = plan_of(games, self.options)
        bare = {name: keywords[name] for name in keywords if name not in IMAGE_OPTIONS}
        bare["full_action_space"] = plan.full_action_space
        self.batch = make_batch(plan, self.options)
        self.results = Results(plan, self.options)
        self.batch.reset(None, SEEDS, self.results.out)
        self.anew = [DrawnAnew(plan, k, self.options, bare) for k in range(NUM_ENVS)]
        self.num_actions = min(len(game.minimal_actions) for game in plan.games)
        self.kept: dict[int, list[tuple[np.ndarray, Saved]]] = {0: [], 1: []}  # by game

    def compare(self, where: str) -> None:
        """Equality of observations, RAM and ends."""
        ends = self.results.flags[_core.FLAG_ENDED]
        for k, anew in enumerate(self.anew):
            assert ends[k] == anew.has_ended, f"{where}, console {k}"
            same = np.array_equal(self.batch.ram()[k], anew.batch.ram()[0])
            assert same, f"{where}, console {k}: RAM"
            wrong = np.argwhere(self.results.obs[k] != anew.stack)
            assert not wrong.size, f"{where}, console {k}: {len(wrong)} bytes, first {wrong[:3]}"
            if ends[k] and self.is_same_step:
                assert np.array_equal(self.results.final_obs[k], anew.final), f"{where}, {k}, final"

    def step(self, actions: np.ndarray) -> None:
        """A step of both."""
        self.batch.step(actions, self.results.out)
        for anew, action in zip(self.anew, actions.tolist(), strict=True):
            anew.step(action)

    def keep(self, console: int) -> None:
        """A moment for `go_back`."""
        row = self.batch.get_state(np.array([console]))
        self.kept[console // 2].append((row, self.anew[console].save()))

    def go_back(self, console: int, rng: random.Random) -> None:
        """To a moment that was kept, of this console or of the other one of its game."""
        row, saved = rng.choice(self.kept[console // 2])
        self.batch.set_state(row, np.array([console]))
        self.anew[console].restore(saved)

    def start_over(self, console: int) -> None:
        """A reset of one console."""
        mask = np.arange(NUM_ENVS) == console
        self.batch.reset(mask, np.full(NUM_ENVS, -1), self.results.out)
        self.anew[console].start_over()

    def run(self, steps: int, seed: int, what: str) -> None:
        """Random steps; occasionally a snapshot is saved or restored, or an episode begins."""
        rng = random.Random(seed)
        self.compare(f"{what}, reset")
        actions = np.zeros(NUM_ENVS, np.int32)
        for step in range(steps):
            for k in range(NUM_ENVS):
                if rng.random() < 0.3:
                    actions[k] = rng.choice((0, rng.randrange(self.num_actions)))
                if rng.random() < 0.03:
                    self.keep(k)
                if rng.random() < 0.03 and self.kept[k // 2]:
                    self.go_back(k, rng)
                if rng.random() < 0.01:
                    self.start_over(k)
            self.step(actions)
            self.compare(f"{what}, step {step}")

    def close(self) -> None:
        """Free all batches."""
        for batch in (self.batch, *(anew.batch for anew in self.anew)):
            batch.close()
