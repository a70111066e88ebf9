"""Compare every game with ale-py, frame by frame, over an hour of emulated time.

    python -m tests.parity.long --out benchmarks/results/long_parity.csv
    python -m tests.parity.long --modes --frames 36000 --out benchmarks/results/modes_parity.csv

RAM, reward, lives and end of game are compared after every frame, the screen after every
`SCREEN_EVERY`-th. Random legal actions are held for random times; every other game has sticky
actions; both consoles are reset when a game ends. With ``--modes``, every mode of each game is
played, in the difficulties in turn. Writes a row for each: frames, episodes, score, and a digest of
all that was compared. What is in the file is not played again. Ends with an error at the first
difference. Needs ale-py.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import itertools
import random
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import cule
from cule.games import list_games, rom_status

FRAMES = 216_000  # an hour at 60 a second
SCREEN_EVERY = 300
MOST_FRAMES_HELD = 12
STICKY = 0.25
COLUMNS = (
    "game",
    "mode",
    "difficulty",
    "frames",
    "sticky",
    "episodes",
    "score",
    "digest",
    "seconds",
)


class Case(NamedTuple):
    """What is played."""

    game: str
    mode: int | None  # None: the default of both libraries
    difficulty: int | None
    sticky: float

    @property
    def seed(self) -> int:
        """Seed of the consoles and of the actions."""
        return zlib.crc32(f"{self.game}{'' if self.mode is None else self.mode}".encode()) % 2**30


def prepared(console: Any, path: Path, case: Case, seed: int) -> Any:
    """A console of either library with a ROM."""
    console.setInt("random_seed", seed)
    console.setFloat("repeat_action_probability", case.sticky)
    console.loadROM(path)
    if case.mode is not None:
        console.setMode(case.mode)
        console.setDifficulty(case.difficulty)
        console.reset_game()
    return console


def cases_of(game: str, path: Path, every_mode: bool) -> list[Case]:
    """The default mode of a game, or all modes, in its difficulties in turn."""
    import ale_py

    first = list_games().index(game)
    if not every_mode:
        return [Case(game, None, None, STICKY if first % 2 else 0.0)]
    console = ale_py.ALEInterface()
    console.loadROM(path)
    difficulties = itertools.cycle(console.getAvailableDifficulties())
    return [
        Case(game, mode, next(difficulties), STICKY if (first + i) % 2 else 0.0)
        for i, mode in enumerate(console.getAvailableModes())
    ]


def difference(ours: Any, theirs: Any, rewards: tuple[int, int], with_screen: bool) -> str:
    """What differs after a frame; empty: nothing."""
    if rewards[0] != rewards[1]:
        return f"reward {rewards}"
    if (ours.lives(), ours.game_over()) != (theirs.lives(), theirs.game_over()):
        return "lives or the end of the game"
    if ours.getRAM().tobytes() != theirs.getRAM().tobytes():
        return "RAM"
    if with_screen and (ours.getScreenRGB() != theirs.getScreenRGB()).any():
        return "the screen"
    return ""


def play(case: Case, path: Path, frames: int, seed: int) -> dict[str, Any]:
    """Play a case on both; the row of the record."""
    import ale_py

    began = time.monotonic()
    ours = prepared(cule.ALEInterface(), path, case, seed)
    theirs = prepared(ale_py.ALEInterface(), path, case, seed)
    rng = random.Random(seed)
    actions = list(ours.getLegalActionSet())
    digest, episodes, score, action, held = hashlib.sha256(), 0, 0, actions[0], 0
    for frame in range(1, frames + 1):
        if held == 0:
            action, held = rng.choice(actions), rng.randint(1, MOST_FRAMES_HELD)
        held -= 1
        rewards = ours.act(action), theirs.act(action)
        wrong = difference(ours, theirs, rewards, frame % SCREEN_EVERY == 0)
        if wrong:
            raise SystemExit(f"{case}, seed {seed}, frame {frame}: {wrong} differs")
        digest.update(ours.getRAM().tobytes() + repr((rewards[0], ours.lives())).encode())
        score += int(rewards[0])
        if ours.game_over():
            episodes += 1
            ours.reset_game()
            theirs.reset_game()
    return {
        **case._asdict(),
        "frames": frames,
        "episodes": episodes,
        "score": score,
        "digest": digest.hexdigest()[:32],
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Play what the command line asks for."""
    import ale_py

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("games", nargs="*", default=list_games())
    parser.add_argument("--frames", type=int, default=FRAMES)
    parser.add_argument("--seed", type=int, default=0, help="added to that of each game")
    parser.add_argument("--modes", action="store_true", help="every mode, not the default alone")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    paths = {status.rom_id: status.path for status in rom_status()}
    done = set()
    if args.out.exists():
        with args.out.open(newline="") as file:
            done = {(row["game"], row["mode"]) for row in csv.DictReader(file)}
    with args.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        for game in args.games:
            path = paths[game]
            if path is None:
                raise SystemExit(f"no ROM of {game}; cule info lists the folders")
            for case in cases_of(game, path, args.modes):
                mode = "" if case.mode is None else str(case.mode)
                if (game, mode) in done:
                    continue
                row = play(case, path, args.frames, args.seed + case.seed)
                writer.writerow(row)
                file.flush()
                counts = f"{row['frames']} frames, {row['episodes']} episodes"
                print(f"{game}, mode {mode or 'default'}: {counts}, no difference")


if __name__ == "__main__":
    main()
