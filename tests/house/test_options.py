"""The options are defined once: users see the signature that the dataclass defines."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path

import pytest
from gymnasium.vector import AutoresetMode

import cule
from cule.envs import options


def test_signature_is_the_dataclass() -> None:
    parameters = list(inspect.signature(cule.AtariVectorEnv).parameters.values())
    fields = dataclasses.fields(cule.EnvOptions)
    assert [parameter.name for parameter in parameters] == [field.name for field in fields]
    for parameter, field in zip(parameters, fields, strict=True):
        if parameter.name in ("game", "num_envs"):
            assert parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            assert field.default is dataclasses.MISSING
        else:
            assert parameter.kind is parameter.KEYWORD_ONLY
            assert parameter.default == field.default, parameter.name


def test_type_checkers_see_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mypy = pytest.importorskip("mypy.api", reason="mypy is not installed")
    monkeypatch.chdir(Path(cule.__file__).parents[1])
    lines = (
        "import cule",
        "cule.AtariVectorEnv('pong', 2, noop_max=3, mode=[0, 1])",
        "cule.AtariVectorEnv('pong', 2, noop_maximum=3)",
    )
    script = tmp_path / "script.py"
    script.write_text("\n".join(lines))
    report, errors, _ = mypy.run([str(script)])
    found = [line.split(":", 3) for line in report.splitlines() if ": error: " in line]
    assert [int(line) for _, line, *_ in found] == [3], report + errors
    assert "noop_maximum" in found[0][-1]


@pytest.mark.ale
def test_keywords_and_defaults_of_ale_py() -> None:
    from ale_py.vector_env import AtariVectorEnv

    ours = inspect.signature(cule.AtariVectorEnv).parameters
    for name, parameter in inspect.signature(AtariVectorEnv).parameters.items():
        assert ours[name].kind == parameter.kind, name
        assert ours[name].default == parameter.default, name


@pytest.mark.ale
def test_keywords_and_defaults_of_the_single_environment() -> None:
    import ale_py

    ours = inspect.signature(cule.AtariEnv).parameters
    theirs = inspect.signature(ale_py.AtariEnv).parameters
    assert list(ours) == [*theirs, "action_delay", "kernel", "modifications", "rom_path", "rules"]
    assert all(ours[name].default == theirs[name].default for name in theirs)


def test_every_option_has_a_sentence() -> None:
    tree = ast.parse(Path(inspect.getfile(options)).read_text())
    names = ("GameOptions", "EnvOptions")
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name in names]
    body = [part for node in classes for part in node.body[1:]]  # after the class docstring
    assert len(body) == 2 * len(dataclasses.fields(cule.EnvOptions))
    for declaration, sentence in zip(body[::2], body[1::2], strict=True):
        assert isinstance(declaration, ast.AnnAssign)
        assert isinstance(sentence, ast.Expr)
        assert isinstance(sentence.value, ast.Constant)
        assert str(sentence.value.value).rstrip().endswith(".")


#: Classes that describe options of `GameOptions` in other words, and which: those of other libraries
#: have their defaults, a learner and a command take other values.
DESCRIBED_ELSEWHERE = {
    "GymOptions": {"mode", "difficulty", "obs_type", "frameskip", "max_num_frames_per_episode"},
    "Config": {"num_envs", "mode", "difficulty"},  # of EnvPool
    "MultiAgentOptions": {"game", "mode", "noop_max"},
    "AgentConfig": {"action_delay", "game", "num_envs", "mode", "difficulty", "obs_type"},
    "ApexConfig": {"num_envs"},
    "StorageOptions": {"num_envs"},
    "BenchOptions": {"num_envs"},
    "CheckOptions": {"num_envs"},
    "PlayOptions": {"game", "num_envs", "mode", "difficulty", "action_delay", "modifications"},
    "WatchOptions": {"game", "num_envs"},
    "RecordOptions": {"repeat_action_probability"},
    "EvalOptions": {"num_envs", "modifications"},
}


def test_options_of_environments_are_described_once() -> None:
    shared = {field.name for field in dataclasses.fields(options.GameOptions)}
    found: dict[str, set[str]] = {}
    for path in sorted(Path(cule.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            for line, sentence in zip(node.body, node.body[1:], strict=False):
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    is_described = isinstance(sentence, ast.Expr)
                    if is_described and line.value is not None and line.target.id in shared:
                        found.setdefault(node.name, set()).add(line.target.id)
    assert found.pop("GameOptions") == shared
    assert found == DESCRIBED_ELSEWHERE


def test_defaults_of_shared_options_of_envpool_are_ours() -> None:
    from cule.wrappers.envpool.spec import _SHARED, Config

    theirs = {field.name: field.default for field in dataclasses.fields(Config)}
    ours = {field.name: field.default for field in dataclasses.fields(cule.EnvOptions)}
    assert {name: theirs[name] for name in _SHARED} == {name: ours[name] for name in _SHARED}
    assert len(_SHARED) == 10


def test_autoreset_modes_are_gymnasiums() -> None:
    assert [mode.value for mode in AutoresetMode] == ["NextStep", "SameStep", "Disabled"]
