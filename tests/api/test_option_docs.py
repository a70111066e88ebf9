"""``help()`` shows every option: name, type, default, meaning, and what is allowed."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc

import pytest

import cule
from cule.bench.command import parser
from cule.bench.options import PRESETS
from cule.option_fields import field_docs, given_fields
from cule.replay import PrioritizedOptions, ReplayOptions, SharedOptions, TrajectoryOptions

CONFIGS = [cule.EnvOptions, ReplayOptions, PrioritizedOptions, SharedOptions, TrajectoryOptions]


@pytest.mark.parametrize(
    ("shown", "config"),
    [*((config, config) for config in CONFIGS), (cule.AtariVectorEnv, cule.EnvOptions)],
)
def test_help_has_every_option(shown: type, config: type) -> None:
    text = inspect.getdoc(shown) or ""
    words = " ".join(text.split())
    for item in dataclasses.fields(config):
        assert f"\n    {item.name}: {item.type}" in text, item.name
        assert field_docs(config)[item.name] in words, item.name
        if isinstance(item.default, bool | int | float | str):
            assert f"{item.name}: {item.type} = {item.default!r}" in text
        for word in item.metadata.get("allowed", ()):
            assert repr(word) in text
    assert "num_envs" in pydoc.render_doc(shown)


def test_ranges_are_told() -> None:
    text = " ".join((inspect.getdoc(cule.EnvOptions) or "").split())
    assert (
        "Emulated frames of a step; at most 256 on a GPU, where a step is one kernel. From 1"
        in text
    )
    text = " ".join((inspect.getdoc(PrioritizedOptions) or "").split())
    assert "1 corrects fully; `sample` can override it. From 0.0 to 1.0." in text
    assert "Steps n of a return. At least 1." in text


@pytest.mark.parametrize("name", ["num_reset_states", "final_info", "full_action_space"])
def test_options_say_where_they_have_no_effect(name: str) -> None:
    assert "without effect" in field_docs(cule.EnvOptions)[name]


def test_negative_seeds_are_documented() -> None:
    assert "Negative: as None." in (inspect.getdoc(cule.AtariVectorEnv.reset) or "")


@pytest.mark.ale
def test_a_preset_is_a_set_of_options_that_names_win_over() -> None:
    env = cule.AtariVectorEnv("pong", 1, preset="machado", frameskip=3)
    assert (env.config.frameskip, env.config.full_action_space) == (3, True)
    env.close()
    given = given_fields(parser(PRESETS["one-thread"]).parse_args(["--rounds", "3"]))
    del given["preset"]
    assert given == {"rounds": 3}
