"""Workflows and release files: YAML that parses, targets and files that exist, one version."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cule.games.tables import tomllib

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def load(path: Path) -> Any:
    """A YAML file. YAML 1.1 takes the key ``on`` for true."""
    return yaml.safe_load(path.read_text())


def name_of(path: Path) -> str:
    return path.name


def commands(workflow: Any) -> list[str]:
    """Lines that the steps of a workflow run."""
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return [line for step in steps if "run" in step for line in step["run"].splitlines()]


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=name_of)
def test_yaml_parses(path: Path) -> None:
    assert isinstance(load(path), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_workflow_is_complete(path: Path) -> None:
    workflow = load(path)
    assert workflow.keys() == {"name", True, "permissions", "jobs"} | (
        {"concurrency"} if path.name == "ci.yml" else set()
    )
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] > 0, name
        if "environment" in job:  # what leaves the repository: switched on by hand, without code
            gates = [
                job,
                *(workflow["jobs"][other] for other in [job["needs"]] if isinstance(other, str)),
            ]
            assert any(re.match(r"vars\.[A-Z]+ == 'true'", gate.get("if", "")) for gate in gates), (
                name
            )
            assert job["permissions"].keys() <= {"id-token", "pages"}, name
            assert not commands({"jobs": {name: job}}), name
        else:
            assert "permissions" not in job, name
            assert job["steps"][0]["uses"].startswith("actions/checkout@"), name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), (name, step)
            # By digest: a tag can be moved.
            assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=name_of)
def test_commands_name_what_exists(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text().replace("$(VENV)", ".venv")
    makefile = makefile.replace("$(INTEGRATIONS)", ".venv-integrations")
    rules = re.findall(r"^([\w./ -]+):", makefile, re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    for line in commands(load(path)):
        words = line.split()
        if words[0] == "make":
            assert set(words[1:]) <= targets, line
        for word in words:
            if re.match(r"(tests|benchmarks|examples)/|\.ci/|constraints", word):
                assert (ROOT / word).exists(), line


def test_ci_has_every_command_of_the_script() -> None:
    """.ci/run is one job; each of its commands is also a job of its own."""
    script = re.findall(r"^make .*$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    lines = commands(load(ROOT / ".github" / "workflows" / "ci.yml"))
    assert script
    assert {".ci/run", *script} <= set(lines)


def test_every_game_and_mode_is_played_for_long_at_night() -> None:
    lines = commands(load(ROOT / ".github" / "workflows" / "nightly.yml"))
    played = [line.split()[3:] for line in lines if " -m tests.parity.long " in line]
    assert ["--modes" in words for words in played] == [False, True]
    for words in played:  # no game is named: all are played, with other actions each night
        assert words[-6::2] == ["--frames", "--seed", "--out"]
        assert set(words[:-6]) <= {"--modes"}
        assert words[-3] == "$GITHUB_RUN_NUMBER"


def test_every_supported_python_is_tested_and_has_wheels() -> None:
    supported = [
        line.rpartition(" ")[2]
        for line in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", line)
    ]
    assert PROJECT["project"]["requires-python"] == f">={supported[0]}"
    ci = load(ROOT / ".github" / "workflows" / "ci.yml")
    assert ci["jobs"]["test"]["strategy"]["matrix"]["python"] == supported
    tags = [f"cp{version.replace('.', '')}-*" for version in supported]
    assert PROJECT["tool"]["cibuildwheel"]["build"] == tags


def test_nvcc_of_wheels_is_that_of_the_extra() -> None:
    words = PROJECT["tool"]["cibuildwheel"]["linux"]["before-build"].split()
    extra = PROJECT["project"]["optional-dependencies"]["cuda-build"]
    packages = {re.split(r"[<>=]", line)[0] for line in extra}
    assert {word for word in words if word.startswith("nvidia-")} == packages
    built_with = {re.split(r"[<>=]", line)[0] for line in PROJECT["build-system"]["requires"]}
    assert built_with <= set(words)


def test_one_version() -> None:
    version = PROJECT["project"]["version"]
    citation = load(ROOT / "CITATION.cff")
    assert citation["version"] == version
    changes = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## \[([\d.]+)\] - ([\d-]+)$", changes, re.MULTILINE)
    assert releases[0] == (version, str(citation["date-released"]))


def test_extras_are_in_the_quick_start() -> None:
    page = (ROOT / "docs" / "quick_start.md").read_text()
    table = " ".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    extras = set(PROJECT["project"]["optional-dependencies"])
    assert extras - {"cuda-build", "dev", "test"} <= set(re.findall(r"`([\w-]+)`", table))
