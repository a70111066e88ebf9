"""Presets are what docs/agents/presets.md says of them, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from cule.agents import AGENTS, PRESETS, AgentConfig  # noqa: E402
from cule.agents.parts.envs import make_env  # noqa: E402
from cule.agents.run.evaluation import make_eval_env  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "agents" / "presets.md"


def tables() -> dict[str, dict[str, str]]:
    """Values by options, by presets."""
    found: dict[str, dict[str, str]] = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| (\w+) \| (\S+) \|", section, flags=re.MULTILINE)
        found[section.partition("\n")[0]] = dict(rows[1:])
    return found


def config_of(preset: str, **changes: object) -> AgentConfig:
    chosen = PRESETS[preset]
    return AGENTS[chosen.algorithm].config_class(**{**chosen.options, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("preset", tables())
def test_a_preset_has_the_values_of_its_source(preset: str) -> None:
    config = config_of(preset)
    table = tables()[preset]
    assert {name: str(getattr(config, name)) for name in table} == table
    assert len(table) >= 14


@pytest.mark.parametrize(
    "preset", ["ppo", "a2c", "pqn", "dqn-nature", "rainbow", "vtrace-lstm-impala"]
)
def test_presets_of_papers_end_a_return_with_a_life(preset: str) -> None:
    """FIRE follows where the wrappers of the published scores press it, in training and tests."""
    config = (
        config_of(preset, game="breakout", num_envs=2, memory=50_000)
        if preset
        in (
            "dqn-nature",
            "rainbow",
        )
        else config_of(preset, game="breakout", num_envs=2)
    )
    assert config.episodic_life
    presses = preset in ("ppo", "a2c", "pqn")
    for env in (make_env(config), make_eval_env(config, "noop", 2)):
        assert env.config.fire_after_life_loss == presses
        assert not env.config.episodic_life  # the episode continues
        env.close()


@pytest.mark.parametrize(
    "preset", ["vtrace", "vtrace-gpu", "vtrace-cpu", "vtrace-lstm", "vtrace-lstm-cpu", "a2c-cpu"]
)
def test_presets_whose_learning_rate_needs_it_add_epsilon_to_the_root(preset: str) -> None:
    """With 1e-5 under the root, `vtrace` does not learn Pong; see docs/agents/vtrace.md."""
    config = config_of(preset)
    assert config.rmsprop_eps == 1e-10  # type: ignore[attr-defined]
    assert type(config)().rmsprop_eps == 1e-5  # type: ignore[attr-defined]
