"""Names of options in other libraries, and the names that they have here."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NoReturn

from cule.errors import shown

#: Names in ALE's settings, EnvPool, Gymnasium's AtariPreprocessing, OpenAI Baselines,
#: Stable-Baselines3 and CleanRL.
_ELSEWHERE = {
    "anneal_lr": ("learning_rate_schedule",),
    "batch_size": ("num_minibatches",),
    "buffer_size": ("memory", "capacity"),
    "clip_coef": ("clip_range",),
    "clip_reward": ("reward_clipping", "reward_rule"),
    "clip_vloss": ("clip_values",),
    "cliprange": ("clip_range",),
    "ent_coef": ("entropy_coef",),
    "env": ("game",),
    "env_id": ("game",),
    "env_name": ("game",),
    "frame_skip": ("frameskip",),
    "frame_stack": ("stack_num",),
    "gray_scale": ("grayscale", "obs_type"),
    "grayscale": ("obs_type",),
    "grayscale_obs": ("grayscale", "obs_type"),
    "gradient_steps": ("samples_per_insert",),
    "img_height": ("img_size",),
    "img_size": ("img_height", "img_width"),
    "img_width": ("img_size",),
    "lam": ("gae_lambda",),
    "lr": ("learning_rate",),
    "max_episode_steps": ("max_num_frames_per_episode",),
    "n_envs": ("num_envs",),
    "n_epochs": ("num_epochs",),
    "n_steps": ("num_steps",),
    "nenvs": ("num_envs",),
    "nminibatches": ("num_minibatches",),
    "noptepochs": ("num_epochs",),
    "norm_adv": ("normalize_advantages",),
    "nsteps": ("num_steps",),
    "num_env": ("num_envs",),
    "num_stack": ("stack_num",),
    "num_timesteps": ("total_steps",),
    "reward_clip": ("reward_clipping", "reward_rule"),
    "rom_file": ("rom_path",),
    "screen_size": ("img_height", "img_size"),
    "sticky_actions": ("repeat_action_probability",),
    "target_network_frequency": ("target_interval",),
    "target_update_interval": ("target_interval",),
    "task_id": ("game",),
    "terminal_on_life_loss": ("episodic_life",),
    "timesteps": ("total_steps",),
    "total_timesteps": ("total_steps",),
    "train_freq": ("collect_steps",),
    "train_frequency": ("collect_steps",),
    "update_epochs": ("num_epochs",),
    "vf_coef": ("value_coef",),
    "zero_discount_on_life_loss": ("life_loss_info", "episodic_life"),
}

#: Further names of options on the command line.
SHORT_NAMES = {"learning_rate": ("lr",), "num_actors": ("actors",)}

#: Options of learners and runs, by the names that what they are passed to has for them.
_PASSED_ON = {"capacity": ("memory",), "device": ("env_device",), "protocol": ("eval_protocol",)}

#: Beginning of a number below 0, as Python reads it.
_NEGATIVE = re.compile(r"-(\.?\d|inf|nan)", re.IGNORECASE)


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
            raise TypeError(f"{function}() got an unexpected keyword argument {shown(name)}{hint}")


def with_flag(message: str, words: Sequence[str]) -> str:
    """An error message about an option, after its flag if that was typed.

    Args:
        message: As of the API: "num_envs is 0; ...".
        words: The words of the command line.
    """
    name = message.partition(" ")[0]
    names = (name, *SHORT_NAMES.get(name, ()), *_PASSED_ON.get(name, ()))
    flags = {f"--{each.replace('_', '-')}" for each in names}
    parts = [part for word in words for part in word.split("=", 1)]
    typed = [(flag, value) for flag, value in pairwise([*parts, ""]) if flag in flags]
    if not typed:
        return message
    flag, _ = max(typed, key=lambda pair: message.startswith(f"{name} is {shown(pair[1])}"))
    return f"{flag}: {message}"


class Parser(argparse.ArgumentParser):
    """A parser of a command line that takes whole names only, and suggests names."""

    def __init__(self, **keywords: object) -> None:
        """``argparse.ArgumentParser`` without abbreviations, and with all negative numbers."""
        super().__init__(allow_abbrev=False, **keywords)  # type: ignore[arg-type]
        self._negative_number_matcher = _NEGATIVE

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
