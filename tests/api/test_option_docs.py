"""``help()`` shows every option: name, type, default, meaning, and what is allowed."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc

import pytest

import cule
from cule.option_fields import field_docs
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
