"""Compare every game with ale-py, frame by frame, over an hour of emulated time.

    python -m tests.parity.long --out benchmarks/results/long_parity.csv

RAM, reward, lives and end of game are compared after every frame, the screen after every
`SCREEN_EVERY`-th. Random legal actions are held for random times; every other game has sticky
actions; both consoles are reset when a game ends. Writes a row for each game: frames, episodes,
score, and a digest of all that was compared. Games in the file are not played again. Ends with an
error at the first difference. Needs ale-py.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import random
import time
import zlib
from pathlib import Path
from typing import Any

import cule
from cule.games import list_games, rom_status

FRAMES = 216_000  # an hour at 60 a second
SCREEN_EVERY = 300
MOST_FRAMES_HELD = 12
STICKY = 0.25
COLUMNS = ("game", "frames", "sticky", "episodes", "score", "digest", "seconds")


def prepared(console: Any, path: Path, seed: int, sticky: float) -> Any:
    """A console of either library with a ROM."""
    console.setInt("random_seed", seed)
    console.setFloat("repeat_action_probability", sticky)
    console.loadROM(path)
    return console


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


def play(game: str, path: Path, sticky: float, frames: int, seed: int) -> dict[str, Any]:
    """Play a game on both; the row of the record."""
    import ale_py

    began = time.monotonic()
    ours = prepared(cule.ALEInterface(), path, seed, sticky)
    theirs = prepared(ale_py.ALEInterface(), path, seed, sticky)
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
            raise SystemExit(f"{game}, seed {seed}, frame {frame}: {wrong} differs")
        digest.update(ours.getRAM().tobytes() + repr((rewards[0], ours.lives())).encode())
        score += int(rewards[0])
        if ours.game_over():
            episodes += 1
            ours.reset_game()
            theirs.reset_game()
    return {
        "game": game,
        "frames": frames,
        "sticky": sticky,
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
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    paths = {status.rom_id: status.path for status in rom_status()}
    done = set()
    if args.out.exists():
        with args.out.open(newline="") as file:
            done = {row["game"] for row in csv.DictReader(file)}
    with args.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        for game in args.games:
            if game in done:
                continue
            path = paths[game]
            if path is None:
                raise SystemExit(f"no ROM of {game}; cule info lists the folders")
            sticky = STICKY if list_games().index(game) % 2 else 0.0
            row = play(
                game, path, sticky, args.frames, args.seed + zlib.crc32(game.encode()) % 2**30
            )
            writer.writerow(row)
            file.flush()
            print(f"{game}: {row['frames']} frames, {row['episodes']} episodes, no difference")


if __name__ == "__main__":
    main()
