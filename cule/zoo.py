"""Trained agents: ``zoo:NAME`` in place of a checkpoint, to play.

``cule/zoo.json`` holds a card for each: how it was trained, its scores, and the checksum of its
weights. The weights are in the package cule-zoo, the folder ``zoo`` of the repository.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib.util
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cule.errors import CheckpointError, InvalidArgumentError, MissingPackageError, shown
from cule.reading import MAX_ZOO_BYTES, read_file

#: Begins the name of an agent in place of a path.
PREFIX = "zoo:"


@dataclass(frozen=True)
class Score:
    """Mean of unclipped scores, with its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    episodes: int


@dataclass(frozen=True)
class Card:
    """How an agent was trained, and how it scores."""

    game: str
    """Id of the game."""

    command: str
    """How it was trained: options and seed."""

    version: str
    """Of cule that trained it."""

    commit: str
    """Of cule that trained it, in its repository."""

    steps: int
    """Agent steps of training; a step is four frames."""

    minutes: float
    """Minutes of training."""

    curve: Sequence[Sequence[float]]
    """Pairs of steps and the mean return of the training episodes that had ended last."""

    noop: Score
    """By protocol ``noop`` of `cule.agents.evaluate`, seed 0."""

    sticky: Score
    """By protocol ``sticky``, seed 0."""

    sha256: str
    """Of the file of weights."""

    license: str
    """Of the weights."""

    def text(self) -> str:
        """A line for each entry."""
        rows = dataclasses.asdict(self)
        for protocol in ("noop", "sticky"):
            score: Score = getattr(self, protocol)
            rows[protocol] = (
                f"{score.mean:,.2f}, 95 % interval {score.low:,.2f} to {score.high:,.2f}, over "
                f"{score.episodes} episodes"
            )
        returns = (f"{value:,.1f} at {steps / 1e6:.2f} M" for steps, value in self.curve)
        rows["curve"] = textwrap.fill(", ".join(returns), 90).replace("\n", "\n" + " " * 9)
        return "\n".join(f"{name:<8} {value}" for name, value in rows.items())


def cards() -> dict[str, Card]:
    """The agents, by name."""
    data = json.loads((resources.files("cule") / "zoo.json").read_text("utf-8"))
    return {
        name: Card(**{**card, "noop": Score(**card["noop"]), "sticky": Score(**card["sticky"])})
        for name, card in data.items()
    }


def find_card(name: str) -> Card:
    """The card of an agent.

    Raises:
        InvalidArgumentError: There is none of this name.
    """
    known = cards()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InvalidArgumentError(
            f"the zoo has no agent {shown(name)}; {hint}it has {', '.join(known)}"
        )
    return known[name]


def find_weights(name: str) -> Path:
    """The file of weights of an agent, after its checksum was compared.

    Raises:
        InvalidArgumentError: There is no agent of this name.
        MissingPackageError: cule-zoo is not installed.
        CheckpointError: The file is missing, or is another one.
    """
    card = find_card(name)
    spec = importlib.util.find_spec("cule_zoo")
    if spec is None or spec.origin is None:
        raise MissingPackageError(
            f"{PREFIX}{name}: its weights are in the package cule-zoo; in a clone of cule, "
            "pip install --no-deps ./zoo"
        )
    path = Path(spec.origin).with_name(f"{name}.safetensors")
    try:
        found = hashlib.sha256(read_file(path, MAX_ZOO_BYTES)).hexdigest()
    except FileNotFoundError:
        found = "none"
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{PREFIX}{name}: {path} cannot be read: {error}") from None
    if found != card.sha256:
        raise CheckpointError(
            f"{PREFIX}{name}: {path} has the SHA-256 {found}; that of the card is {card.sha256}, "
            "so cule and cule-zoo are of different versions, or the file is damaged"
        )
    return path
