"""Lines taken over from the frame before (csrc/tia/line_cache.hpp) are those that would be drawn.

`screens()` draws a frame's log from its start, without the cache; observations of full size and
one frame are drawn with it. RAM observations are made without it. What is pooled and resized again
only where lines were not taken over equals the pooled and resized whole.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Generator
from typing import NamedTuple

import numpy as np
import pytest

from cule import _core
from cule.envs.options import resolve_options
from cule.envs.plan import make_batch, plan_batch
from cule.games import load_games
from tests.kernels import Results
from tests.programs import core_game, image_of
from tests.property.runs import draw_actions, make

pytestmark = pytest.mark.ale

STEPS = 60
FULL_SIZE = {"img_height": 210, "img_width": 160, "stack_num": 1, "maxpool": False}

#: TIA registers that a line of `picture_program` may write, and some that depend on each other.
REGISTERS = (
    *("NUSIZ0", "NUSIZ1", "COLUP0", "COLUP1", "COLUPF", "COLUBK", "CTRLPF", "REFP0", "REFP1"),
    *("PF0", "PF1", "PF2", "RESP0", "RESP1", "RESM0", "RESM1", "RESBL", "AUDV0", "HMCLR"),
    *("GRP0", "GRP1", "ENAM0", "ENAM1", "ENABL", "VDELP0", "VDELP1"),
    *("HMP0", "HMP1", "HMM0", "HMM1", "HMBL", "VDELBL", "RESMP0", "RESMP1", "HMOVE", "CXCLR"),
)
TOGETHER = (("GRP0", "GRP1"), ("ENABL", "GRP1"), ("ENAM0", "RESMP0"), ("NUSIZ1", "GRP1"))
FRAME_CELLS = ("$80", "$81", "$82", "$83")


def picture_program(seed: int) -> bytes:
    """A program whose frames differ in little: four cells that change now and then.

    The cells move some objects before the picture, which is 30 lines of random writes to a few
    registers, four times over; few of their values come from the cells. The latches are kept in $90
    to $97.
    """
    rng = random.Random(seed)
    registers = [*rng.sample(REGISTERS, rng.randrange(1, 8)), *2 * rng.choice(TOGETHER)]
    lines = ["start: LDX #$FF", "TXS", "frame: LDA #2", "STA VSYNC", *["STA WSYNC"] * 3]
    lines += ["LDA #0", "STA VSYNC", "INC $80", "LDA $80", "AND #3", "BNE same", "INC $81"]
    lines += ["LDA $80", "AND #15", "BNE same", "LDA $82", "CLC", "ADC #$37", "STA $82"]
    lines += ["same: LDA $80", "AND #1", "STA $83", "LDX #37", "top: STA WSYNC", "DEX", "BNE top"]
    for motion in ("HMP0", "HMP1", "HMM0", "HMM1", "HMBL"):
        value = rng.choice(("#0", *FRAME_CELLS))
        lines += [f"LDA {value}", *["ASL"] * rng.choice((0, 4)), f"STA {motion}"]
    for delay in ("VDELP0", "VDELP1", "VDELBL"):
        lines += [f"LDA #{rng.randrange(2)}", f"STA {delay}"]
    for color in ("COLUP0", "COLUP1", "COLUPF", "COLUBK"):
        lines += [f"LDA #{rng.randrange(256)}", f"STA {color}"]
    lines += ["STA WSYNC", "STA HMOVE", *["NOP"] * 12, "STA HMCLR"]
    lines += ["LDA #0", "STA VBLANK", "LDY #4", "kernel:"]
    for _ in range(30):
        lines.append("STA WSYNC")
        for _ in range(rng.choice((0, 1, 2, 3, 5, 7))):
            if rng.random() < 0.03:
                lines.append(f"LDA {rng.choice(FRAME_CELLS)}")
            elif rng.random() < 0.8:
                lines.append(f"LDA #{rng.choice((0, 0, 0, 2, 255, rng.randrange(256)))}")
            lines.append(f"STA {rng.choice(registers)}")
            lines += ["NOP"] * rng.choice((0, 0, 1, 2))
    lines += ["DEY", "BEQ done", "JMP kernel", "done:"]
    for latch in range(8):
        lines += [f"LDA ${latch:02X}", f"STA ${0x90 + latch:02X}"]
    lines += ["LDX #105", "bottom: STA WSYNC", "DEX", "BNE bottom", "JMP frame"]
    return image_of("\n".join(lines))


def program_batch(game: _core.Game, **keywords: object) -> tuple[_core.Batch, Results]:
    """A console that runs a program, and where its results go."""
    options = resolve_options("pong", 1, {"num_threads": 1, "noop_max": 0, **keywords})
    plan = dataclasses.replace(plan_batch(options), games=(game,))
    batch = make_batch(plan, options)
    results = Results(options)
    batch.reset(None, np.array([1]), *results.arrays())
    return batch, results


def check_program(seed: int, frameskip: int, steps: int) -> None:
    """As `check`, for a random picture."""
    game = core_game(picture_program(seed))
    batch, results = program_batch(game, frameskip=frameskip, **FULL_SIZE)
    bare, bare_results = program_batch(game, frameskip=frameskip, obs_type="ram")
    console = np.arange(1)
    for step in range(steps):
        actions = np.zeros(1, np.int32)
        batch.step(actions, *results.arrays())
        bare.step(actions, *bare_results.arrays())
        where = f"program {seed}, frameskip {frameskip}, step {step}"
        assert np.array_equal(results.obs[:, 0], batch.screens("gray", console)), where
        assert np.array_equal(batch.ram(), bare.ram()), where
    batch.close()
    bare.close()


class Frame(NamedTuple):
    """What a step gives: gray levels ``[rows, columns]``, and whether the episode is over."""

    picture: np.ndarray
    is_end: bool


#: Takes actions; the first thing it gives is what a reset does.
Play = Generator[Frame, int, None]


def play_program(game: _core.Game, **keywords: object) -> Play:
    """A program on one console."""
    batch, results = program_batch(game, **keywords)
    while True:
        yield Frame(results.obs[0, 0].copy(), bool(results.flags[_core.FLAG_ENDED, 0]))
        batch.step(np.zeros(1, np.int32), *results.arrays())


def play_game(game: str, seed: int, **keywords: object) -> Play:
    """A game on one console."""
    env = make(game, 1, repeat_action_probability=0, **keywords)
    obs, _ = env.reset(seed=seed)
    action = yield Frame(obs[0, 0], is_end=False)
    while True:
        obs, _, terminated, truncated, _ = env.step(np.array([action % len(env.action_set)]))
        action = yield Frame(obs[0, 0], bool(terminated[0] | truncated[0]))


def check_pooled(observed: Play, frames: Play, frameskip: int, seed: int, steps: int) -> None:
    """Observations are what pooling and resizing whole frames gives, ends of episodes included.

    The frame that ends an episode is not observed: the one before it is pooled with the picture
    of the step before, if it would have been pooled at all.
    """
    pooled, is_end = next(frames).picture, False
    assert np.array_equal(next(observed).picture, _core.area_resize(pooled, 84, 84))
    for step, action in enumerate(draw_actions(seed, steps, 1)[:, 0].tolist()):
        ran = [frames.send(action)]
        while not is_end and len(ran) < frameskip and not ran[-1].is_end:
            ran.append(frames.send(action))
        if is_end:
            pooled = ran[0].picture  # the reset
        elif not ran[-1].is_end:
            pooled = np.maximum(ran[-2].picture, ran[-1].picture)
        elif len(ran) == frameskip:
            pooled = np.maximum(pooled, ran[-2].picture)
        ours, is_end = observed.send(action)
        where = f"frameskip {frameskip}, seed {seed}, step {step}"
        assert np.array_equal(ours, _core.area_resize(pooled, 84, 84)), where


def screen_height(game: str) -> int:
    """Rows of the picture."""
    env = make(game, 1, obs_type="ram")
    env.reset(seed=0)
    height = env.screens("gray").shape[1]
    env.close()
    return height


def check(game: str, steps: int, frameskip: int, seed: int) -> None:
    """Every observation is the screen, and nothing else differs from a run without pictures."""
    keywords = {"frameskip": frameskip, "max_num_frames_per_episode": 40 * frameskip}
    bare = make(game, 2, obs_type="ram", **keywords)
    bare.reset(seed=seed)
    env = make(game, 2, **{**FULL_SIZE, "img_height": screen_height(game)}, **keywords)
    env.reset(seed=seed)
    num_actions = len(env.action_set)
    for step, actions in enumerate(draw_actions(seed, steps, 2) % num_actions):
        obs, *results = env.step(actions)
        ram, *expected = bare.step(actions)
        where = f"{game}, frameskip {frameskip}, step {step}"
        goes_on = ~(results[1] | results[2])  # the last frames of an episode are not observed
        assert np.array_equal(obs[goes_on, 0], env.screens("gray")[goes_on]), where
        assert np.array_equal(env.ram, ram), where
        for one, other in zip(results[:3], expected[:3], strict=True):
            assert np.array_equal(one, other), where
    env.close()
    bare.close()


@pytest.mark.parametrize("game", sorted(load_games()))
def test_games(game: str) -> None:
    check(game, STEPS, frameskip=1, seed=1)
    check(game, STEPS, frameskip=3, seed=2)


@pytest.mark.slow
@pytest.mark.parametrize("game", sorted(load_games()))
def test_games_for_long(game: str) -> None:
    for frameskip in (1, 4):
        check(game, 1000, frameskip, seed=frameskip)


@pytest.mark.parametrize("seed", range(100))
def test_pictures_that_differ_in_little(seed: int) -> None:
    for frameskip in (1, 3):
        check_program(seed, frameskip, 80)


@pytest.mark.parametrize("seed", range(30))
def test_pooled_pictures(seed: int) -> None:
    game = core_game(picture_program(seed))
    for frameskip in (2, 3, 4):
        keywords = {"max_num_frames_per_episode": 24 * frameskip}
        check_pooled(
            play_program(game, frameskip=frameskip, stack_num=1, **keywords),
            play_program(game, frameskip=1, **FULL_SIZE, **keywords),
            frameskip,
            seed,
            60,
        )


#: Games whose pictures stand, scroll, flicker, stop short.
POOLED = ("pong", "riverraid", "alien", "asteroids", "journey_escape", "double_dunk", "air_raid")


@pytest.mark.parametrize("game", POOLED)
def test_pooled_games(game: str) -> None:
    full_size = {**FULL_SIZE, "img_height": screen_height(game)}
    for frameskip in (2, 4):
        keywords = {"max_num_frames_per_episode": 40 * frameskip}
        check_pooled(
            play_game(game, 1, frameskip=frameskip, stack_num=1, **keywords),
            play_game(game, 1, frameskip=1, **full_size, **keywords),
            frameskip,
            1,
            150,
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_pictures_that_differ_in_little(seed: int) -> None:
    for frameskip in (1, 2, 3):
        check_program(seed, frameskip, 200)
