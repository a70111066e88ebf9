"""Names of options in other libraries, and the names that they have here."""

from __future__ import annotations

import argparse
import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar, cast

_Callable = TypeVar("_Callable", bound=Callable[..., object])

#: Names in ALE's settings, EnvPool, Gymnasium's AtariPreprocessing, Stable-Baselines3 and CleanRL.
_ELSEWHERE = {
    "clip_reward": ("reward_clipping", "reward_rule"),
    "env_id": ("game",),
    "env_name": ("game",),
    "frame_skip": ("frameskip",),
    "frame_stack": ("stack_num",),
    "gray_scale": ("grayscale", "obs_type"),
    "grayscale": ("obs_type",),
    "grayscale_obs": ("grayscale", "obs_type"),
    "lr": ("learning_rate",),
    "max_episode_steps": ("max_num_frames_per_episode",),
    "num_stack": ("stack_num",),
    "reward_clip": ("reward_clipping", "reward_rule"),
    "rom_file": ("rom_path",),
    "screen_size": ("img_height", "img_size"),
    "sticky_actions": ("repeat_action_probability",),
    "task_id": ("game",),
    "terminal_on_life_loss": ("episodic_life",),
    "total_timesteps": ("total_steps",),
    "zero_discount_on_life_loss": ("life_loss_info", "episodic_life"),
}


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """The end of an error message about an unknown option: the name it has here, if there is one.

    Args:
        name: What was given.
        allowed: Names of options that exist.
    """
    known = list(allowed)
    meant = [other for other in _ELSEWHERE.get(name, ()) if other in known]
    meant = meant or difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(map(repr, meant))}?" if meant else ""


def check_keywords(function: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse keyword arguments that a function does not have.

    Raises:
        TypeError: There is one; the message suggests a name.
    """
    known = list(allowed)
    for name in given:
        if name not in known:
            hint = suggestion(name, known)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def suggests_names(init: _Callable) -> _Callable:
    """Let the error about an unknown keyword of a constructor suggest a name."""
    owner = init.__qualname__.partition(".")[0]
    names = tuple(inspect.signature(init).parameters)

    @functools.wraps(init)
    def checked(*args: object, **keywords: object) -> object:
        check_keywords(owner, keywords, names)
        return init(*args, **keywords)

    return cast(_Callable, checked)


class Parser(argparse.ArgumentParser):
    """A parser of a command line that takes whole names only, and suggests names."""

    def __init__(self, **keywords: object) -> None:
        """``argparse.ArgumentParser`` without abbreviations."""
        super().__init__(allow_abbrev=False, **keywords)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Print the message with the names that unknown options have here, and exit with 2."""
        if message.startswith("unrecognized arguments"):
            flags = [flag for action in self._actions for flag in action.option_strings]
            known = [flag[2:].replace("-", "_") for flag in flags if flag.startswith("--")]
            for word in message.split():
                if word.startswith("--"):
                    name = word[2:].partition("=")[0].replace("-", "_")
                    message += suggestion(name, known).replace("_", "-")
        super().error(message)
