"""Mutants of the emulated chips: one token of a header changed.

Comments, preprocessor lines, assertions at compile time and declarations of templates have none.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Folders of ``csrc`` that are mutated: the processor, the timer and the TIA.
FOLDERS = ("cpu", "riot", "tia")

OPERATORS = {
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "/",
    "&": "|", "|": "&", "^": "&", "<<": ">>", ">>": "<<",
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
    "&&": "||", "||": "&&",
    "+=": "-=", "-=": "+=", "&=": "|=", "|=": "&=", "^=": "|=", "<<=": ">>=", ">>=": "<<=",
}  # fmt: skip

# clang-format puts spaces around binary operators, and none inside the brackets of a template.
_OPERATOR = re.compile(r"(?<=[\w)\]] )(\S{1,3})(?= [\w(!~\-{'])")
_NUMBER = re.compile(r"(?<![\w.'])(0[xX][0-9A-Fa-f]+|\d+)(?=[uU]?(?:LL|ll)?\b)(?!\.)")
_NEGATION = re.compile(r"(?<=[\s(])[!~](?=[\w(])")
_ASSIGNMENT = re.compile(r"(?<=[;{] )[\w.\[\]]+ (=)(?= )|^ *[\w.\[\]]+ (=)(?= )")
_SKIPPED = re.compile(
    r"\s*(#|//|template\b|static_assert\b|namespace\b|using\b|struct\b|enum\b|friend\b)"
)


@dataclass(frozen=True)
class Mutant:
    """One token of a line that becomes another."""

    file: str  # under csrc
    line: int  # from 1
    column: int  # from 0
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The text of the file with the change."""
        lines = text.split("\n")
        line = lines[self.line - 1]
        end = self.column + len(self.old)
        if line[self.column : end] != self.old:
            raise ValueError(f"{self} is not in {self.file}")
        lines[self.line - 1] = line[: self.column] + self.new + line[end:]
        return "\n".join(lines)


def _changes(line: str) -> Iterator[tuple[int, str, str]]:
    """Column, old and new text of each change of a line of code."""
    for match in _OPERATOR.finditer(line):
        if match[1] in OPERATORS:
            yield match.start(1), match[1], OPERATORS[match[1]]
    for match in _ASSIGNMENT.finditer(line):
        yield match.end() - 1, "=", "|="
    for match in _NUMBER.finditer(line):
        yield match.start(1), match[1], str(int(match[1], 0) + 1)
    for match in _NEGATION.finditer(line):
        yield match.start(), match[0], " "


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a header, in the order of its text."""
    name = path.relative_to(ROOT / "csrc").as_posix()
    in_assertion = False
    for number, line in enumerate(path.read_text().split("\n"), 1):
        code = line.split("//")[0]
        in_assertion = in_assertion or code.lstrip().startswith("static_assert")
        if not (in_assertion or _SKIPPED.match(code)):
            for column, old, new in _changes(code):
                yield Mutant(name, number, column, old, new)
        if ";" in code:
            in_assertion = False


def all_mutants() -> list[Mutant]:
    """Those of every header of the folders."""
    paths = (path for folder in FOLDERS for path in (ROOT / "csrc" / folder).glob("*.hpp"))
    return [mutant for path in sorted(paths) for mutant in mutants_of(path)]


def sample(
    mutants: Sequence[Mutant], folders: Sequence[str], count: int, seed: int
) -> list[Mutant]:
    """Random mutants of each folder in turn, until there are `count` or all."""
    rng = random.Random(seed)
    of_folders = [[m for m in mutants if m.file.startswith(f"{name}/")] for name in folders]
    shuffled = [rng.sample(found, len(found)) for found in of_folders]
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*shuffled))
    return [mutant for mutant in in_turn if mutant is not None][:count]
