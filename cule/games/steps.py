"""Translates a ``mode_setup`` of numbered steps to a program of `cule.games.language`.

    1. wanted = 1 if mode == 0 else mode.
    2. While ram(0x99) != wanted: SELECT(10), ACT(0).
    3. If ram(0x99) != wanted: fail with an error.
    4. 20 times: ACT(0).
    5. SOFT_RESET.

Commas separate actions: SELECT(n), ACT(a), SOFT_RESET, ``name = value`` (or ``Set name = ...`` and
``remember name = ...``) and ``fail with an error``. In values, RAND is a random number and
``(a, b)[i]`` a choice. Lines after the steps can define further steps, with or without parameters:

    NEXT means: remember p = ram(0x30); while ram(0x30) == p: ACT(5), ACT(0).
    OPTION(bit, wanted) means: if wanted is not 0, while (ram(0) & bit) == 0: ACT(3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cule.errors import RulesError, shown
from cule.reading import MAX_PROGRAM_CHARS, MAX_STEPS_CHARS

_STEP = re.compile(r"\d+\.\s+(?P<step>.+)\.")
_MEANING = re.compile(r"(?P<name>[A-Z_]+)(\((?P<parameters>[^)]*)\))? means: (?P<steps>.+)\.")
_REPEATED = re.compile(r"(?P<count>\d+) times: (?P<actions>.+)")
_GUARDED = re.compile(r"(?P<word>while|if) (?P<condition>[^:]+): (?P<actions>.+)", re.IGNORECASE)
_IF_THEN = re.compile(r"if (?P<condition>[^,:]+), (?P<step>.+)", re.IGNORECASE)
_ASSIGNED = re.compile(r"((set|remember) )?(?P<name>\w+) = (?P<value>.+)", re.IGNORECASE)
_CALLED = re.compile(r"(?P<name>[A-Z_]+)(\((?P<arguments>.*)\))?")
_CHOSEN = re.compile(r"\((?P<values>[^()]+,[^()]+)\)\[(?P<index>[^\]]+)\]")

#: Actions that the language has, by their names here.
_ACTIONS = {"SELECT": "select", "ACT": "act", "SOFT_RESET": "soft_reset"}
_INDENT = "    "


def has_steps(text: str) -> bool:
    """Whether a text has numbered steps instead of a program."""
    return bool(re.match(r"\s*1\.\s", text))


def program_of(text: str, where: str) -> str:
    """The program of numbered steps, one per line.

    Raises:
        RulesError: A line is no step, or the steps that contain each other are too long.
    """
    if len(text) > MAX_STEPS_CHARS:
        raise RulesError(f"{where}: steps longer than {MAX_STEPS_CHARS} characters")
    lines: list[str] = []
    size = 0
    for line in _Reader(text, where).lines():
        size += len(line) + 1
        if size > MAX_PROGRAM_CHARS:
            raise RulesError(
                f"{where}: the program of its steps is longer than {MAX_PROGRAM_CHARS} characters"
            )
        lines.append(f"{line}\n")
    return "".join(lines)


class _Reader:
    def __init__(self, text: str, where: str) -> None:
        self._where = where
        self._steps: list[str] = []
        self._meanings: dict[str, tuple[list[str], str]] = {}  # parameters, steps
        self._counters = 0
        for line in filter(None, map(str.strip, text.splitlines())):
            if match := _STEP.fullmatch(line):
                self._steps.append(match["step"])
            elif match := _MEANING.fullmatch(line):
                self._meanings[match["name"]] = (_split(match["parameters"], ","), match["steps"])
            else:
                raise self._error(line)

    def lines(self) -> Iterator[str]:
        for step in self._steps:
            yield from self._step(step, {})

    def _step(self, step: str, meant: Mapping[str, str]) -> Iterator[str]:
        """Lines of a step; `meant` has the arguments of the defined step that contains it."""
        if match := _REPEATED.fullmatch(step):
            counter, self._counters = f"turn_{self._counters}", self._counters + 1
            yield f"{counter} = 0"
            yield f"while {counter} < {match['count']}:"
            yield from self._actions(match["actions"], meant)
            yield f"{_INDENT}{counter} = {counter} + 1"
        elif match := _IF_THEN.fullmatch(step):
            yield f"if {self._value(match['condition'], meant)}:"
            yield from (_INDENT + line for line in self._step(match["step"], meant))
        elif match := _GUARDED.fullmatch(step):
            yield f"{match['word'].lower()} {self._value(match['condition'], meant)}:"
            yield from self._actions(match["actions"], meant)
        else:
            yield from self._action(step, meant)

    def _actions(self, text: str, meant: Mapping[str, str]) -> Iterator[str]:
        for action in _split(text, ","):
            yield from (_INDENT + line for line in self._action(action, meant))

    def _action(self, action: str, meant: Mapping[str, str]) -> Iterator[str]:
        if action == "fail with an error":
            yield "fail()"
        elif match := _ASSIGNED.fullmatch(action):
            yield f"{match['name']} = {self._value(match['value'], meant)}"
        elif (match := _CALLED.fullmatch(action)) and match["name"] in self._meanings:
            # A step cannot contain itself: its meaning is unknown inside.
            parameters, steps = meaning = self._meanings.pop(match["name"])
            arguments = _split(match["arguments"], ",")
            if len(arguments) != len(parameters):
                raise self._error(action)
            inner = {p: f"({a})" for p, a in zip(parameters, arguments, strict=True)}
            for step in _split(steps, ";"):
                yield from self._step(step, inner)
            self._meanings[match["name"]] = meaning
        elif match and match["name"] in _ACTIONS:
            yield f"{_ACTIONS[match['name']]}({self._value(match['arguments'] or '', meant)})"
        else:
            raise self._error(action)

    def _value(self, text: str, meant: Mapping[str, str]) -> str:
        text = re.sub(r"\bis not (?=\d)", "!= ", text)
        text = re.sub(r"\bis (?=\d)", "== ", text)
        text = re.sub(r"\bRAND\b", "rand()", text)
        text = _CHOSEN.sub(_choice, text)
        value = re.sub(r"\b[A-Za-z_]\w*\b", lambda word: meant.get(word[0], word[0]), text)
        if len(value) > MAX_PROGRAM_CHARS:
            raise self._error(text)
        return value

    def _error(self, text: str) -> RulesError:
        named = "".join(f", {name}" for name in self._meanings)
        return RulesError(
            f"{self._where}: {shown(text)} is no step; there are 'While c: actions.', 'If c: "
            f"actions.', 'n times: actions.', SELECT(n), ACT(a), SOFT_RESET, 'name = value'{named}"
        )


def _choice(match: re.Match[str]) -> str:
    """``(a, b, c)[i]`` without a list."""
    *values, last = _split(match["values"], ",")
    tests = (f"({v}) if ({match['index']}) == {k} else " for k, v in enumerate(values))
    return f"({''.join(tests)}({last}))"


def _split(text: str | None, separator: str) -> list[str]:
    """Parts between separators outside parentheses."""
    parts, depth = [""], 0
    for character in text or "":
        depth += (character in "([") - (character in ")]")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
