"""Pages of the games for the site: facts and pictures of each game, made from the project's data.

`pages` returns the texts by file name, `pictures` the pictures; docs/hooks.py adds both to the
site, below ``games/``.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

import cule
from cule.envs.actions import Action
from cule.envs.png import encode_png
from cule.games import GameRules, load_games, load_multiplayer, load_roms
from cule.games.modifications import games_with_modifications, load_modifications
from cule.games.objects import games_with_objects, load_objects
from cule.zoo import PREFIX, Card, cards

ROOT = Path(__file__).parents[1]
#: Steps of random play before the picture is taken: most title screens have gone by then.
STEPS = 150

#: The reward of games in which it is not the change of the score.
REWARDS = {
    "adventure": "1 when the game is won.",
    "backgammon": "1 when the player has borne off all stones, -1 when the computer has.",
    "blackjack": "The change of the number of chips.",
    "boxing": "The change of the player's score minus that of the opponent.",
    "casino": "The change of the money.",
    "centipede": "The change of the score where it grows.",
    "crazy_climber": "The change of the score where it grows.",
    "double_dunk": "The change of the player's score minus that of the opponent.",
    "enduro": "1 for each car passed, -1 for each that passes the player.",
    "entombed": "The change of the depth that the game counts.",
    "fishing_derby": "The change of the player's score minus that of the opponent.",
    "freeway": "1 for each crossing.",
    "hangman": "1 for each word found, -1 for each not found.",
    "haunted_house": "-1 for each match, 100 for the escape with the urn.",
    "ice_hockey": "The change of the player's score minus that of the opponent, at most 1.",
    "journey_escape": "The change of the money, without the first 50,000.",
    "miniature_golf": "Par minus the strokes, after each hole.",
    "othello": "The change of the player's number of stones minus that of the computer.",
    "pong": "1 for each point of the player, -1 for each of the computer.",
    "robotank": "1 for each tank destroyed.",
    "skiing": "Minus the time that has passed on the clock, in hundredths of a second.",
    "superman": "When the game is won: 5,999 minus the seconds on the clock.",
    "surround": "The change of the player's score minus that of the opponent.",
    "tennis": "1 for each point or game of the player, -1 for each of the opponent.",
    "tic_tac_toe_3d": "1 for a game won, -1 for one lost.",
    "video_checkers": "1 for a game won, -1 for one lost.",
    "video_chess": "1 for a game won, -1 for one lost.",
    "video_cube": "1 for each face completed, minus 1 for each lost and when the time is up.",
    "word_zapper": "1 for each word completed.",
}


def pages() -> dict[str, str]:
    """Texts in Markdown by file name: ``index.md`` and one for each game."""
    return {"index.md": _index()} | {f"{game}.md": _page(game) for game in load_games()}


def pictures() -> dict[str, bytes]:
    """PNG files by name: ``GAME.png``, and ``GAME-objects.png`` with the boxes of its objects."""
    files = {f"{game}.png": screen for game, screen in _screens(tuple(load_games()), False).items()}
    for game, screen in _screens(games_with_objects(), True).items():
        files[f"{game}-objects.png"] = screen
    return files


def _screens(games: tuple[str, ...], boxes: bool) -> dict[str, bytes]:
    env = cule.AtariVectorEnv(
        [(game, 1) for game in games],
        num_envs=len(games),
        render_mode="rgb_array",
        render_boxes=boxes,
        full_action_space=True,
        obs_type="ram",
    )
    # The same seed and actions for a game, whatever else is in the batch.
    env.reset(seed=[1] * len(games))
    draws = [np.random.default_rng(sum(map(ord, game))) for game in games]
    for _ in range(STEPS):
        env.step(np.array([draw.integers(18) for draw in draws]))
    screens = env.render()
    env.close()
    assert screens is not None
    return {game: encode_png(screen) for game, screen in zip(games, screens, strict=True)}


# --- Text -----------------------------------------------------------------------------------------


def _index() -> str:
    rows = []
    for game, rules in load_games().items():
        objects = len(load_objects(game).slots) if game in games_with_objects() else ""
        changes = len(load_modifications(game)) if game in games_with_modifications() else ""
        speed = f"{_speeds()[game]:.1f}" if game in _speeds() else ""
        picture = f'<a href="{game}.html"><img src="{game}.png" width="80" alt=""></a>'
        name = f"[{_heading(rules)}]({game}.md)<br>`{game}`"
        if _cards(game):
            name += f"<br>[trained agents]({game}.md#trained-agents)"
        rows.append((picture, name, len(rules.minimal_actions), objects, changes, speed))
    columns = ("", "game", "actions", "objects", "modifications", "speed over ale-py")
    return f"""# Games

The {len(rows)} games for one player, after {STEPS} steps of random actions. Those for several
players are in [several players](../multiplayer.md). Modifications are those of one game; others fit
[all games](../modifications.md). The last column is the ratio of frames per second with two
threads, measured in the 57 games of most papers ([benchmarks](../benchmarks.md)).

{_table(columns, rows)}
"""


def _page(game: str) -> str:
    rules = load_games()[game]
    size = '{ width="320" style="image-rendering: pixelated" }'
    images = f"![The screen after {STEPS} steps of random actions]({game}.png){size}"
    if game in games_with_objects():
        images += f" ![The same with the boxes of its objects]({game}-objects.png){size}"
    notes = f"{rules.notes}\n" if rules.notes else ""
    return f"""# {_heading(rules)}

{images}

```python
env = cule.AtariVectorEnv("{game}", num_envs=64)
env = gymnasium.make("cule/{rules.title}-v5")
```

{_table(("", ""), _facts(game, rules))}

{_agents(game)}## Reward

{REWARDS.get(game, "The change of the score.")} This program computes it after every frame
([language](../own_roms.md)):

```python
{rules.step.strip()}
```

{notes}
{_objects(game)}{_modifications(game)}"""


def _facts(game: str, rules: GameRules) -> list[tuple[str, str]]:
    rom, names = load_roms()[game], [action.name for action in Action]
    rewards_of_others = _human_scores().get(game)
    facts = [
        ("actions", ", ".join(f"`{names[action]}`" for action in rules.minimal_actions)),
        ("modes", f"{_numbers(rules.modes)}; default {rules.default_mode}"),
        ("difficulties", _numbers(rules.difficulties)),
        ("lives", _lives(game)),
        ("controller", rom.console.controller_left),
        ("cartridge", f"{rom.size} bytes, {rom.bankswitch}, {rom.format}, MD5 `{rom.md5}`"),
        ("screen", f"160 x {rom.screen_height}"),
    ]
    if rewards_of_others:
        random, human, record = rewards_of_others
        known = f", world record of people {float(record):,.0f}" if record else ""
        facts.append(("scores", f"random {random}, human {human}{known}"))
    if game in load_multiplayer():
        modes = load_multiplayer()[game].modes
        players = [f"{count} in modes {_numbers(modes[count])}" for count in sorted(modes)]
        facts.append(("players", f"[several](../multiplayer.md): {'; '.join(players)}"))
    exact = f"{_compared()[game]:,} frames in all modes, no difference from ale-py"
    facts.append(("exactness", f"[{exact}](../exactness.md)"))
    if game in _speeds():
        facts.append(("speed", f"{_speeds()[game]:.1f} times ale-py, with two threads"))
    return facts


def _cards(game: str) -> dict[str, Card]:
    return {f"{PREFIX}{name}": card for name, card in cards().items() if card.game == game}


def _agents(game: str) -> str:
    if not _cards(game):
        return ""
    rows = [
        (f"`{name}`", *(f"{score.mean:,.1f}" for score in (card.noop, card.sticky)), card.minutes)
        for name, card in _cards(game).items()
    ]
    name = next(iter(_cards(game)))
    columns = ("agent", "score with no-ops", "with sticky actions", "minutes of training, one core")
    return f"""## Trained agents

[How to install them](../agents/zoo.md); `cule watch` shows one in a browser:

    cule watch {name}
    cule eval {name}

{_table(columns, rows)}

"""


def _objects(game: str) -> str:
    if game not in games_with_objects():
        return ""
    slots = load_objects(game).slots
    counts = Counter(slot.name for slot in slots)
    shown = {slot.name: "score, lives or timer" if slot.hud else "" for slot in slots}
    rows = [(f"`{name}`", counts[name], shown[name]) for name in counts]
    return f"""## Objects

With `obs_type="objects"` ([objects](../objects.md)); scores, lives and timers are objects, too.

{_table(("kind", "number", ""), rows)}

"""


def _modifications(game: str) -> str:
    if game not in games_with_modifications():
        return ""
    rows = [
        (
            f"`{change.name}`",
            change.about,
            ", ".join(
                f"`{name}` {span.start} to {span.stop - 1}, {change.defaults[name]}"
                for name, span in change.parameters.items()
            ),
        )
        for change in load_modifications(game).values()
    ]
    return f"""## Modifications

As `modifications="{next(iter(load_modifications(game)))}"`; parameters with their range and default
([modifications](../modifications.md)).

{_table(("name", "effect", "parameters"), rows)}
"""


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    cells = ([str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _heading(rules: GameRules) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])", " ", rules.title)


def _numbers(numbers: Sequence[int]) -> str:
    """Format ascending numbers, runs of three and more as "0 to 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(texts)


# --- Data -----------------------------------------------------------------------------------------


def _lives(game: str) -> str:
    lives = _first_lives()[game]
    return str(lives) if lives else "none"


@cache
def _first_lives() -> dict[str, int]:
    games = tuple(load_games())
    env = cule.AtariVectorEnv([(game, 1) for game in games], len(games), obs_type="ram")
    _, info = env.reset(seed=1)
    env.close()
    return dict(zip(games, info["lives"].tolist(), strict=True))


@cache
def _human_scores() -> dict[str, tuple[str, str, str]]:
    with (ROOT / "cule/agents/data/human_scores.csv").open(newline="") as file:
        rows = csv.DictReader(file)
        return {row["game"]: (row["random"], row["human"], row["record"]) for row in rows}


@cache
def _compared() -> Counter[str]:
    """Frames compared with ale-py by game."""
    frames: Counter[str] = Counter()
    for name in ("long_parity", "modes_parity"):
        with (ROOT / f"benchmarks/results/{name}.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                frames[row["game"]] += int(row["frames"])
    return frames


@cache
def _speeds() -> dict[str, float]:
    """Frames per second over those of ale-py, with two threads, by game."""
    record = json.loads((ROOT / "benchmarks/results/bench-57-games.json").read_text())
    return {
        row["cell"]["game"]: row["ratios"]["cule-cpu / ale"]["median"] for row in record["records"]
    }
