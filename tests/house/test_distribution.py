"""The conda recipe, the Dockerfile and the dev container agree with the project."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cule.games.tables import tomllib

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions() -> list[list[str]]:
    """The words of each instruction of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_the_recipe_is_of_this_version_and_its_dependencies() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    project = PROJECT["project"]
    assert recipe["context"]["version"] == project["version"]
    about = recipe["about"]
    assert (about["summary"], about["license"]) == (project["description"], project["license"])
    assert [about["license_file"]] == project["license-files"]
    assert (ROOT / "conda" / recipe["source"]["path"] / "pyproject.toml").is_file()

    def plain(lines: list[str]) -> set[str]:
        return {line.split(";")[0].replace(" ", "") for line in lines}

    needs = recipe["requirements"]
    assert plain(needs["run"]) == plain(project["dependencies"]) | {"python"}
    assert plain(needs["host"]) == plain(PROJECT["build-system"]["requires"]) | {"python", "pip"}
    assert plain(needs["run_constraints"]) == plain(project["optional-dependencies"]["roms"])
    scripts = [f"{name} = {place}" for name, place in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_images_are_pinned_by_digest_and_stages_exist() -> None:
    stages: list[str] = []
    for name, *words in instructions():
        if name == "FROM":
            image = words[0]
            assert image in stages or re.fullmatch(r"[\w./:-]+@sha256:[0-9a-f]{64}", image), image
            stages += words[2:]
        if name == "COPY" and words[0].startswith("--from="):
            assert words[0].removeprefix("--from=") in stages
    images = {words[1] for words in instructions() if words[0] == "FROM" and "@" in words[1]}
    assert len(images) == 1
    classifiers = PROJECT["project"]["classifiers"]
    version = next(iter(images)).split(":")[1].split("-")[0]
    assert f"Programming Language :: Python :: {version}" in classifiers


def test_the_image_runs_as_a_user() -> None:
    names = [words[0] for words in instructions()]
    assert "USER" in names
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert ["ENTRYPOINT", '["cule"]'] in instructions()


def test_the_dev_container_is_a_stage_of_the_dockerfile() -> None:
    folder = ROOT / ".devcontainer"
    container = json.loads((folder / "devcontainer.json").read_text())
    build = container["build"]
    assert (folder / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (folder / build["context"]).resolve() == ROOT
    assert ["AS", build["target"]] in [words[-2:] for words in instructions()]
    target = container["postCreateCommand"].removeprefix("make .venv/")
    assert f"\n$(VENV)/{target}:" in (ROOT / "Makefile").read_text()
