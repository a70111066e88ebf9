"""What every learner is told, and how a dataclass of options becomes a command line.

Each algorithm has a frozen dataclass of its own that adds to `AgentConfig`; the sentence under a
field is its documentation, on the command line as well.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import math
import numbers
import os
import textwrap
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from cule.errors import InvalidArgumentError

Config = TypeVar("Config", bound="AgentConfig")

#: Largest values, far beyond any use, of options of any algorithm that nothing else bounds: with
#: more the memory does not do, or a reset, a round or the start of processes does not end.
MOST: Mapping[str, int] = {
    "batch_size": 100_000,
    "block_size": 1_000_000,
    "collect_steps": 100_000,
    "decorrelate_steps": 100_000,
    "laber_candidates": 1_000,
    "n_step": 10_000,
    "noise_groups": 10_000,
    "noop_max": 100_000,
    "num_actors": 1_024,
    "num_atoms": 10_000,
    "num_epochs": 1_000,
    "samples_per_insert": 100_000,
    "steps_per_update": 100_000,
    "torch_threads": 1_024,
}


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """Options that all algorithms share."""

    game: str = "pong"
    """Game to learn."""

    num_envs: int = 64
    """Consoles N of each process."""

    total_steps: int = 10_000_000
    """Agent steps of all consoles of all processes after which training ends."""

    seed: int = 0
    """Seed of weights, actions, replay and consoles."""

    device: str = "cpu"
    """Device of the network: cpu, cuda, cuda:1; with torchrun each process takes its own GPU."""

    env_device: str = ""
    """Device of the consoles; empty: that of the network."""

    kernel: str = "auto"
    """What executes games: auto, interpreter or compiled, as in `cule.EnvOptions`."""

    network: str = "nature"
    """Torso: nature, nature32, nips, small (for CPUs), impala, impala2, mlp; vector for RAM."""

    initialisation: str = "orthogonal"
    """How weights start: orthogonal, he or torch."""

    gamma: float = 0.99
    """Discount of one step."""

    reward_rule: str = "clip"
    """What is learned from: clip (to -1..1), sign or none. Logged returns are never clipped."""

    episodic_life: bool = False
    """A lost life sets the discount to 0; the game and the frame stack go on."""

    obs_type: str = "image"
    """What the network sees: image or ram."""

    img_size: int = 84
    """Rows and columns of an observation."""

    stack_num: int = 4
    """Frames S of an observation."""

    frameskip: int = 4
    """Emulated frames of a step."""

    repeat_action_probability: float = 0.0
    """Sticky actions: probability, drawn each frame, that the previous action stays."""

    full_action_space: bool = False
    """All 18 actions instead of those that the game uses."""

    max_num_frames_per_episode: int = 108_000
    """Emulated frames after which an episode is truncated."""

    noop_max: int = 30
    """A reset plays fewer than this many random no-op frames."""

    decorrelate_steps: int = 400
    """Each console first plays a random number of random steps up to this."""

    env_threads: int = 0
    """CPU threads that step the consoles; 0: as many as there are."""

    torch_threads: int = 0
    """CPU threads of torch; 0: torch decides."""

    lr_scale: str = "none"
    """Factor of the learning rate for N consoles of all processes: none, sqrt (of N/16), linear."""

    precision: str = "fp32"
    """fp32, tf32 (matrix products of GPUs) or bf16 (convolutions and matrix products)."""

    compile: bool = False
    """Compile the network with torch.compile."""

    cuda_graphs: bool = False
    """Replay acting and learning from CUDA graphs; one process, on a GPU."""

    deterministic: bool = False
    """Deterministic kernels only."""

    def __post_init__(self) -> None:
        """Check what can be checked without an environment."""
        check_types(self)
        check_most(self)
        check_least(self, 1, "num_envs", "stack_num", "frameskip", "img_size")
        check_least(self, 0, "total_steps", "decorrelate_steps", "torch_threads")
        check_range(self, 0, 2**30 - 1, "seed")
        check_range(self, 0.0, 1.0, "gamma", "repeat_action_probability")
        check_choice(self, "reward_rule", ("clip", "sign", "none"))
        check_choice(self, "lr_scale", ("none", "sqrt", "linear"))
        check_choice(self, "precision", ("fp32", "tf32", "bf16"))
        check_choice(self, "obs_type", ("image", "ram"))

    @property
    def continuous(self) -> bool:
        """Whether actions are (radius, angle, fire) instead of numbers of a list."""
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


#: By type, whether a value can stand for one of it.
_FITS: dict[type, Callable[[Any], bool]] = {
    bool: lambda value: isinstance(value, bool | np.bool_),
    int: lambda value: _is_number(value) and value == int(value),
    float: _is_number,
    str: lambda value: isinstance(value, str | os.PathLike),
}


def check_types(config: Any) -> None:
    """Give values the types of their fields, as the command line does: 1e6, numpy's numbers, paths.

    Refused are other types, and numbers that are not finite; infinite may only be a limit
    (`max_grad_norm`).
    """
    types_of = typing.get_type_hints(type(config))
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        kind, optional = _plain_type(types_of[item.name])
        if value is None and optional:
            continue
        is_limit = item.name == "max_grad_norm" and value == math.inf
        if _is_number(value) and not math.isfinite(value) and not is_limit:
            raise InvalidArgumentError(f"{item.name} is {value!r}; it must be a finite number")
        if not _FITS[kind](value):
            wanted = f"{kind.__name__} or None" if optional else kind.__name__
            raise InvalidArgumentError(f"{item.name} is {value!r}; it must be of type {wanted}")
        object.__setattr__(config, item.name, kind(value))


def check_least(config: Any, lowest: float, *names: str) -> None:
    """Refuse numbers below `lowest`."""
    for name in names:
        if getattr(config, name) < lowest:
            raise InvalidArgumentError(
                f"{name} is {getattr(config, name)!r}; it must be at least {lowest}"
            )


def check_most(config: Any) -> None:
    """Refuse numbers above `MOST`."""
    for name, most in MOST.items():
        if getattr(config, name, 0) > most:
            raise InvalidArgumentError(
                f"{name} is {getattr(config, name)!r}; it must be at most {most}"
            )


def check_range(config: Any, lowest: float, highest: float, *names: str) -> None:
    """Refuse numbers outside a range."""
    for name in names:
        if not lowest <= getattr(config, name) <= highest:
            raise InvalidArgumentError(
                f"{name} is {getattr(config, name)!r}; it must be from {lowest} to {highest}"
            )


def check_choice(config: Any, name: str, allowed: Sequence[str]) -> None:
    """Refuse a value that is none of the allowed ones."""
    if getattr(config, name) not in allowed:
        raise InvalidArgumentError(
            f"{name} is {getattr(config, name)!r}; it must be one of {', '.join(allowed)}"
        )


@functools.cache
def field_docs(config_class: type) -> Mapping[str, str]:
    """The sentence under each field of a dataclass and of those it inherits from."""
    docs: dict[str, str] = {}
    for base in reversed(config_class.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        (definition,) = tree.body
        assert isinstance(definition, ast.ClassDef)
        for before, after in zip(definition.body, definition.body[1:], strict=False):
            if (
                isinstance(before, ast.AnnAssign)
                and isinstance(before.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                docs[before.target.id] = " ".join(str(after.value.value).split())
    return docs


def add_arguments(
    parser: argparse._ActionsContainer, config_class: type, defaults: Mapping[str, Any]
) -> None:
    """Give a parser one option a field; what the user leaves out stays out of the result.

    Args:
        parser: Changed in place.
        config_class: A dataclass with documented fields.
        defaults: What the preset sets, for the help text.
    """
    types_of = typing.get_type_hints(config_class)
    docs = field_docs(config_class)
    for item in dataclasses.fields(config_class):
        kind, optional = _plain_type(types_of[item.name])
        default = defaults.get(item.name, item.default)
        text = f"{docs[item.name]} (default: {default})".replace("%", "%%")
        flag = "--" + item.name.replace("_", "-")
        keywords: dict[str, Any] = {
            "dest": item.name,
            "default": argparse.SUPPRESS,
            "help": text,
        }
        if kind is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, **keywords)
        else:
            convert = functools.partial(_convert, kind, optional)
            parser.add_argument(flag, type=convert, metavar=kind.__name__.upper(), **keywords)


def _plain_type(annotation: Any) -> tuple[type, bool]:
    """The type of an option, and whether it may be None."""
    if isinstance(annotation, types.UnionType):
        (kind,) = [part for part in typing.get_args(annotation) if part is not type(None)]
        return kind, True
    assert isinstance(annotation, type)
    return annotation, False


def _convert(kind: type, optional: bool, word: str) -> Any:
    """A word of the command line as a value; numbers may be written 1e6 or 10_000."""
    if optional and word.lower() == "none":
        return None
    try:
        if kind is int:
            number = float(word.replace("_", ""))
            if number != int(number):
                raise ValueError
            return int(number)
        return kind(word)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{word!r} is no {kind.__name__}") from None


def config_from(config_class: type[Config], values: Mapping[str, Any]) -> Config:
    """Make a config of named values.

    Raises:
        InvalidArgumentError: An unknown name, or a value outside what is allowed.
    """
    known = {item.name for item in dataclasses.fields(config_class)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise InvalidArgumentError(
            f"{config_class.__name__} has no option {', '.join(unknown)}; "
            f"it has {', '.join(sorted(known))}"
        )
    return config_class(**values)
