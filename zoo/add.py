"""Add an agent to the zoo: the weights of a run, and a card with its scores.

    python zoo/add.py NAME RUN --command "cule train ..." --commit 0123abcd

copies the newest weights into ``zoo/cule_zoo``, matrices as float16, plays 32 episodes by each
protocol with them, and writes the card into ``cule/zoo.json`` and ``docs/agents/zoo.md``.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import hashlib
import json
from pathlib import Path

from cule.agents import Evaluation, evaluate, load
from cule.agents.run.scores import human_normalized
from cule.agents.run.weights import read_weights, write_weights
from cule.games import game_id_of
from cule.zoo import Card, Score, cards

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "agents" / "zoo.md"
BEGIN, END = "<!-- written by zoo/add.py -->", "<!-- end -->"
EPISODES = 32

#: Most points of the curve of a card.
POINTS = 25


def score_of(found: Evaluation) -> Score:
    """The mean of scores; its interval is 1.96 standard errors on both sides."""
    count = len(found.returns)
    half = 1.96 * found.std / count**0.5
    numbers = (found.mean, found.mean - half, found.mean + half)
    return Score(*(round(number, 3) for number in numbers), count)


def read_rows(run: Path) -> list[dict[str, str]]:
    """Rows of progress that have a return: the last one, and at most `POINTS` in all."""
    with (run / "progress.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["episode_return"]]
    return rows[:: -max(1, -(-len(rows) // POINTS))][::-1]


def table() -> str:
    """The cards, as a table in Markdown."""
    lines = [
        "| agent | steps | minutes | no-ops | sticky actions | human-normalized |",
        "|---" * 6 + "|",
    ]
    for name, card in cards().items():
        scores = [
            f"{s.mean:,.1f} ({s.low:,.1f} to {s.high:,.1f})" for s in (card.noop, card.sticky)
        ]
        human = human_normalized(card.game, card.noop.mean)
        share = "" if human is None else f"{human:.0%}"
        cells = (f"`zoo:{name}`", f"{card.steps:,}", f"{card.minutes:.1f}", *scores, share)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_table() -> None:
    """Replace the table in the documentation."""
    begin, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{begin}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}")


def main() -> None:
    """Add one agent, in place of one with the same name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--command", required=True, help="that trained it")
    parser.add_argument("--commit", required=True, help="of cule that trained it")
    options = parser.parse_args()
    weights = max(options.run.rglob("*.safetensors"), key=lambda path: path.stat().st_mtime)
    state = read_weights(weights)
    for name, value in state["network"].items():
        if name.endswith(".weight"):
            state["network"][name] = value.half()
    path = ROOT / "zoo" / "cule_zoo" / f"{options.name}.safetensors"
    write_weights(path, state)
    agent = load(path)
    scores = [
        score_of(evaluate(agent, episodes=EPISODES, protocol=name)) for name in ("noop", "sticky")
    ]
    rows = read_rows(options.run)
    known = cards()
    known[options.name] = Card(
        game=game_id_of(agent.config.game),
        command=options.command,
        version=state["version"],
        commit=options.commit,
        steps=agent.steps,
        minutes=round(float(rows[-1]["train_s"]) / 60, 1),
        curve=tuple((int(row["steps"]), round(float(row["episode_return"]), 2)) for row in rows),
        noop=scores[0],
        sticky=scores[1],
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        license="Apache-2.0",
    )
    data = {name: dataclasses.asdict(known[name]) for name in sorted(known)}
    lines = (f"{json.dumps(name)}: {json.dumps(card)}" for name, card in data.items())
    (ROOT / "cule" / "zoo.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    write_table()
    print(known[options.name].text())


if __name__ == "__main__":
    main()
