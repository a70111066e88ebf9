"""Modified games in ale-py: programs run by a plain evaluator, whose writes `setRAM` makes.

`Run` is one; changed cartridges are loaded from a file. ``tests/parity/modifications`` says how
long and with which actions each modification is played, and what has to hold then.
"""

from __future__ import annotations

import functools
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cule.games.language import Program, parse_modification
from cule.games.modifications import MOMENTS, Modification
from cule.games.tables import parse_document
from tests.support.ale_pair import load_ale_py
from tests.support.rule_evaluator import ProgramRunner

FOLDER = Path(__file__).parents[1] / "parity" / "modifications"

_MASK = 2**64 - 1
_MODIFICATION = 5  # Purpose of csrc/base/random.hpp
_DIRECTIONS = ("U", "R", "L", "D", "UR", "UL", "DR", "DL")
#: Actions by letters, as ALE numbers them.
_ACTIONS = ("N", "F", *_DIRECTIONS, *(f"{direction}F" for direction in _DIRECTIONS))


@functools.cache
def checks_of(game: str) -> Mapping[str, Any]:
    """What has to hold for the modifications of a game, by their names."""
    return parse_document(game, (FOLDER / f"{game}.toml").read_bytes())


def _mix(z: int) -> int:
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return z ^ z >> 31


def _draw(seed: int, number: int, step: int) -> int:
    """The 32 bits of ``counter_random``."""
    h = _mix(seed + 0x9E3779B97F4A7C15 & _MASK)
    h = _mix(h ^ (number << 32 | _MODIFICATION))
    return _mix(h + step * 0x9E3779B97F4A7C15 & _MASK) >> 32


def actions_of(policy: str, frames: int, minimal: Sequence[int], seed: int = 1) -> list[int]:
    """The actions of a policy: words from left to right.

    A letter and a number is an action for so many frames; ``@A3,B4`` repeats such words for ever;
    ``%n`` is n frames of random actions, held for 1 to 12 frames; ``*n`` random actions, held for 1
    to n, for ever, of those that may follow a colon.
    """
    rng = random.Random(seed)

    def held(word: str) -> list[int]:
        letters = word.rstrip("0123456789")
        return [_ACTIONS.index(letters)] * int(word[len(letters) :] or 1)

    actions: list[int] = []
    for word in policy.split():
        kind, rest = word[0], word[1:]
        if kind == "@":
            cycle = [action for part in rest.split(",") for action in held(part)]
            actions += cycle * (frames // len(cycle) + 1)
        elif kind in "*%":
            hold, _, names = rest.partition(":")
            pool = [_ACTIONS.index(name) for name in names.split(",")] if names else minimal
            most = int(hold or 12) if kind == "*" else 12
            end = frames if kind == "*" else len(actions) + int(hold)
            while len(actions) < end:
                actions += [rng.choice(pool)] * rng.randint(1, most)
            del actions[end:]
        else:
            actions += held(word)
    return (actions + [0] * frames)[:frames]


class Poking:
    """A program between the frames of an ale-py console, which it reads and writes."""

    cart_ram = b""

    def __init__(self, ale: Any, code: Program, state: Mapping[str, int], seed: int) -> None:
        self._ale, self._code, self._seed = ale, code, seed
        self.state = dict(state)
        self.ram: list[int] = []
        self._step = self._draws = 0

    def run(self, values: Mapping[str, int], when: str, frame: int, value: int) -> int:
        """Run it once on an action or reward, and return that."""
        self.ram = self._ale.getRAM().tolist()
        self._step = len(MOMENTS) * frame + list(MOMENTS).index(when)
        self._draws = 0
        name = MOMENTS[when]
        runner = ProgramRunner(self.state, self, {**values, name: value})
        runner.block(self._code.body)
        return runner.local_values[name]

    def poke(self, cell: int, value: int) -> None:
        self.ram[cell & 127] = value & 255
        self._ale.setRAM(cell & 127, value & 255)

    def rand(self, n: int) -> int:
        draw = _draw(self._seed, self._draws, self._step)
        self._draws += 1
        return draw * n >> 32 if n > 0 else 0


class Run:
    """An episode in ale-py, frame by frame.

    ram, pre: RAM after each frame, with and without what programs wrote. scr: the screens. act,
    rew: the actions and rewards, as programs leave them. lives: what ale-py says. over: the game
    has ended, and with it the run.
    """

    def __init__(
        self,
        game: str,
        actions: Sequence[int],
        modification: Modification | None = None,
        values: Mapping[str, int] | None = None,
        before: str = "",
        state: Mapping[str, int] | None = None,
        seed: int = 1,
        ale: Any = None,
    ) -> None:
        """Play.

        Args:
            game: Its id.
            actions: An action a frame.
            modification: Its program runs at the reset, or after each frame.
            values: Its parameters.
            before: A program that runs before it, after each frame.
            state: Names of that program that keep their values.
            seed: Of random draws.
            ale: A console with a cartridge, instead of ale-py's with that of the game.
        """
        ale = ale or load_game(game)
        ale.reset_game()
        programs: list[tuple[str, Poking, Mapping[str, int]]] = []
        if before:
            names = dict(state or {})
            code = parse_modification(game, tuple(names), (), "", before)
            programs.append(("every_frame", Poking(ale, code, names, seed), {}))
        if modification is not None:
            poking = Poking(ale, modification.code, modification.state, seed)
            programs.append((modification.when, poking, values or {}))

        def modified(when: str, frame: int, value: int) -> int:
            for moment, program, constants in programs:
                if moment == when:
                    value = program.run(constants, when, frame, value)
            return value

        modified("reset", 0, 0)
        pre, ram, rew, lives, self.scr, self.act = [], [], [], [], [], []
        for number, chosen in enumerate(actions, start=1):
            self.act.append(modified("before_frame", number, chosen))
            reward = ale.act(load_ale_py().Action(self.act[-1]))
            pre.append(ale.getRAM())
            rew.append(modified("every_frame", number, reward))
            ram.append(ale.getRAM())
            lives.append(ale.lives())
            self.scr.append(ale.getScreen())
            if ale.game_over():
                break
        self.over = ale.game_over()
        self.n = len(rew)
        self.pre, self.ram = np.array(pre, int), np.array(ram, int)
        self.rew, self.lives = np.array(rew), np.array(lives)


def load_game(game: str) -> Any:
    """A console of ale-py with a game, without sticky actions and skipped frames."""
    from ale_py import roms

    return switched_on(load_ale_py().ALEInterface(), Path(str(roms.get_rom_path(game))))


def load_image(ale: Any, game: str, image: bytes) -> Any:
    """The same of a console with an image that is taken for the game's by the name of its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{game}.bin"
        path.write_bytes(image)
        return switched_on(ale, path)


def switched_on(ale: Any, path: Path) -> Any:
    ale.setInt("random_seed", 1)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(str(path))
    return ale


# --- Names of the expressions in the files --------------------------------------------------------


def _const(t: Run, *cells: int, a: int = 0, z: int | None = None) -> bool:
    """Whether cells keep one value."""
    return all(len(set(t.ram[a:z, cell])) == 1 for cell in cells)


def _is(t: Run, value: int, *cells: int, a: int = 0, z: int | None = None) -> bool:
    """Whether cells have a value in all frames."""
    return all((t.ram[a:z, cell] == value).all() for cell in cells)


def _uniq(t: Run, cell: int, a: int = 0, z: int | None = None) -> list[int]:
    """The values of a cell."""
    return sorted(set(t.ram[a:z, cell].tolist()))


def _differs(b: Run, m: Run, y0: int = 0, y1: int = 210, x0: int = 0, x1: int = 160) -> list[bool]:
    """Whether a part of the screen differs, for each frame that both have."""
    pairs = zip(b.scr, m.scr, strict=False)
    return [not np.array_equal(p[y0:y1, x0:x1], q[y0:y1, x0:x1]) for p, q in pairs]


def _share(
    t: Run, colours: Any, y0: int = 0, y1: int = 210, x0: int = 0, x1: int = 160, a: int = 2,
    z: int | None = None,
) -> float:  # fmt: skip
    """Mean number of pixels of some colours in a part of the screen."""
    wanted = np.atleast_1d(colours)
    return float(np.mean([np.isin(s[y0:y1, x0:x1], wanted).sum() for s in t.scr[a:z]]))


def _cells_diff(b: Run, m: Run, *scratch: int) -> list[int]:
    """Cells that differ in some frame, without those that a game uses for many things."""
    n = min(b.n, m.n)
    found = np.flatnonzero((b.ram[:n] != m.ram[:n]).any(0)).tolist()
    return [cell for cell in found if cell not in scratch]


def _bbox(b: Run, m: Run) -> list[int] | None:
    """Rows and columns within which all differences of the screens are."""
    changed = np.any([p != q for p, q in zip(b.scr, m.scr, strict=False)], axis=0)
    ys, xs = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
    return [int(ys[0]), int(ys[-1]) + 1, int(xs[0]), int(xs[-1]) + 1] if len(ys) else None


#: What the expressions may call; `b` is the plain run, `m` the modified one, `P` the parameters.
NAMES: Mapping[str, Any] = {
    "np": np,
    "const": _const,
    "is_": _is,
    "uniq": _uniq,
    "share": _share,
    "cells_diff": _cells_diff,
    "bbox": _bbox,
    "frames_diff": lambda *a, **k: sum(_differs(*a, **k)),
    "first_diff": lambda b, m: [*_differs(b, m), True].index(True),
    "only": lambda b, m, cells, *scratch: (
        len(d := set(_cells_diff(b, m, *scratch))) > 0 and d <= set(cells)
    ),
    "drops": lambda t: int((np.diff(t.lives) < 0).sum()),
    "score": lambda t: int(t.rew.sum()),
}
