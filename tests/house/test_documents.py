"""The documentation: links have targets, Python snippets compile, and those of some pages run."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import cule
from cule.envs.options import PRESETS, EnvOptions
from cule.games import load_multiplayer
from cule.games.modifications import COMMON, games_with_modifications, load_modifications

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("benchmarks/**/*.md")]
)

#: Pages whose snippets do not run here, and what runs them instead.
ELSEWHERE = {
    "docs/frameworks.md": "needs other libraries: tests/integrations/test_frameworks_page.py",
}

#: Pages whose snippets take seconds: `make docs` and `make test-all` run them.
LONG = {
    "docs/agents/README.md",
    "docs/agents/own_networks.md",
    "docs/agents/self_play.md",
    "docs/exactness.md",
}

#: Replacements that make the snippets of a page small, and run those for a GPU on the CPU.
SMALLER = {
    "docs/agents/README.md": {
        "num_envs=64, total_steps=1_000_000": (
            "num_envs=2, num_steps=8, num_minibatches=2, total_steps=32, "
            "max_num_frames_per_episode=400, network='small'"
        ),
        "episodes=30": "episodes=10",
    },
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_have_targets(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^()\s]+)\)", text):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        path = page.parent / target if target else page
        assert path.exists(), link
        if anchor:
            headings = re.findall(r"^#+ +(.+)$", path.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}
            assert anchor in slugs, link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_snippets_compile(page: Path) -> None:
    for number, snippet in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    ):
        compile(textwrap.dedent(snippet), f"{page.name}, snippet {number + 1}", "exec")


def test_the_page_of_environments_has_every_option_and_preset() -> None:
    page = (ROOT / "docs" / "environments.md").read_text()
    rows = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("|"))
    for name in (*EnvOptions.__dataclass_fields__, *PRESETS):
        assert re.search(rf"`\"?{name}[\"=`]", rows), name


def snippets_of(page: Path) -> list[str]:
    """The Python of a page, in order."""
    text = page.read_text()
    for old, new in SMALLER.get(name_of(page), {}).items():
        assert old in text, f"{old!r} is not in {name_of(page)}"
        text = text.replace(old, new)
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.ale
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.long) if name_of(page) in LONG else page
        for page in PAGES
        if snippets_of(page)
    ],
    ids=name_of,
)
def test_python_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, with the same names; pytest makes warnings errors."""
    if name_of(page) in ELSEWHERE:
        pytest.skip(ELSEWHERE[name_of(page)])
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for number, snippet in enumerate(snippets_of(page)):
        exec(compile(snippet, f"{page.name}, snippet {number + 1}", "exec"), names)


def test_the_page_of_several_players_has_every_mode_and_name() -> None:
    rows = [
        row for row in rows_of("docs/multiplayer.md") if row[0].strip("`") in load_multiplayer()
    ]
    expected = [
        (game, players, modes, {e.name for e in facts.pettingzoo if e.num_players == players})
        for game, facts in load_multiplayer().items()
        for players, modes in facts.modes.items()
    ]
    documented = []
    for game, players, spans, names in rows:
        modes = []
        for span in spans.split(", "):
            first, _, last = span.partition(" to ")
            modes += range(int(first), int(last or first) + 1)
        found = set(re.findall(r"`(\w+)`", names))
        documented.append((game.strip("`"), int(players), tuple(modes), found))
    assert documented == expected


def test_the_page_of_modifications_has_all() -> None:
    names = {"every game": COMMON, **{f"`{game}`": game for game in games_with_modifications()}}
    expected = {
        cell: [f"`{one.usage()}`" for one in load_modifications(name).values()]
        for cell, name in names.items()
    }
    rows = {row[0]: re.findall(r"`[^`]+`", row[1]) for row in rows_of("docs/modifications.md")[2:]}
    assert rows == expected
    total, common = sum(map(len, expected.values())), len(load_modifications(COMMON))
    counts = f"{total} modifications: {common} of every game, and {total - common} of {len(names) - 1} games"
    assert counts in (ROOT / "docs/modifications.md").read_text()
    assert f"{total} modifications" in (ROOT / "README.md").read_text()


def rows_of(page: str) -> list[list[str]]:
    """Rows of the tables of a page, as cells."""
    lines = (ROOT / page).read_text().splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("|")
    ]


def errors() -> dict[str, type[Exception]]:
    """The public kinds of `CuleError`."""
    kinds = {name: getattr(cule, name) for name in cule.__all__}
    return {
        name: kind
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, cule.CuleError) and name != "CuleError"
    }


def test_the_page_of_errors_has_every_error_and_its_kinds() -> None:
    rows = {row[0].strip("`"): row[1] for row in rows_of("docs/errors.md") if len(row) == 4}
    for name, kind in errors().items():
        documented = set(re.findall(r"`([\w.]+)`", rows[name]))
        for built_in in documented:
            owner, _, attribute = built_in.rpartition(".")
            module = importlib.import_module(owner or "builtins")
            assert issubclass(kind, getattr(module, attribute)), f"{name}: {built_in}"
        assert documented, name
    assert rows.keys() - errors().keys() <= {"error", "---"}


@pytest.mark.ale
def test_the_page_of_faults_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "faults.md").read_text()
    rows = [row for row in re.findall(r"^\|.*\|$", text, re.MULTILINE) if "---" not in row]
    rows = [row for row in rows if not row.startswith("| fault |")]
    assert len(rows) > 30
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, name in named:
            assert re.search(rf"^ *def {name}\(", (ROOT / file).read_text(), re.MULTILINE), name


def test_the_page_of_dependencies_has_every_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    words = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        words += extra
    packages = {re.split(r"[\[<>=; ]", word)[0] for word in words} - {"cule"}
    rows = re.findall(
        r"^\| ([\w, -]+) \|", (ROOT / "docs/dependencies.md").read_text(), re.MULTILINE
    )
    named = {name for row in rows for name in row.split(", ")} - {"package"}
    not_ours = {"cmake", "ninja"}  # which scikit-build-core asks for
    assert named - not_ours == packages


def test_the_page_of_migrating_has_every_keyword() -> None:
    import ale_py.vector_env

    from cule.wrappers.envpool import Config

    sections = re.split(r"^## ", (ROOT / "docs" / "migrating.md").read_text(), flags=re.MULTILINE)
    ale = next(text for text in sections if text.startswith("From ale-py"))
    for name in inspect.signature(ale_py.vector_env.AtariVectorEnv).parameters:
        assert re.search(rf"^\|.*`{name}`.*\|", ale, re.MULTILINE), name
    envpool = next(text for text in sections if text.startswith("From EnvPool"))
    for name in Config.__dataclass_fields__:
        assert re.search(rf"^\|[^|]*`{name}`", envpool, re.MULTILINE), name
    only_here = ale.partition("Only here:")[2]
    for name in EnvOptions.__dataclass_fields__:
        assert f"`{name}`" in ale, name
        is_ours = name not in inspect.signature(ale_py.vector_env.AtariVectorEnv).parameters
        assert (f"`{name}`" in only_here) == is_ours, name


def public_names() -> list[str]:
    """Every name that users import, with its module."""
    names = [f"cule.{name}" for name in cule.__all__ if name != "__version__"]
    for package in ("cule.datasets", "cule.search", "cule.replay", "cule.agents"):
        names += [f"{package}.{name}" for name in importlib.import_module(package).__all__]
    # The adapters need their libraries: what they define is read from the source.
    for path in sorted((ROOT / "cule" / "wrappers").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        tree = ast.parse(path.read_text())
        if path.name == "__init__.py" and path.parent.name != "wrappers":
            exported = re.search(r"__all__ = \[(.*?)\]", path.read_text(), re.DOTALL)
            assert exported is not None
            package = module.removesuffix(".__init__")
            names += [f"{package}.{name}" for name in re.findall(r'"(\w+)"', exported[1])]
        elif path.parent.name == "wrappers" and path.name not in ("options.py", "packages.py"):
            definitions = [
                node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
            ]
            names += [f"{module}.{name}" for name in definitions if not name.startswith("_")]
    return names


def test_every_public_name_has_a_page() -> None:
    pytest.importorskip("torch")
    pages = "\n".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    documented = set(re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE))
    on_page_of_errors = {*errors(), "CuleError", "ShortReplayWarning"}
    missing = [
        name
        for name in public_names()
        if name not in documented and name.rpartition(".")[2] not in on_page_of_errors
    ]
    assert not missing, "add each to a page of docs/reference as a line '::: NAME'"
    assert "`ShortReplayWarning`" in (ROOT / "docs" / "errors.md").read_text()


def test_every_module_of_networks_and_losses_has_a_line() -> None:
    page = (ROOT / "docs" / "reference" / "networks.md").read_text()
    modules = {
        f"cule.{path.parent.name}.{path.stem}"
        for folder in ("nets", "algos")
        for path in (ROOT / "cule" / folder).glob("[a-z]*.py")
    }
    assert set(re.findall(r"^::: (\S+)$", page, re.MULTILINE)) == modules


def test_the_pages_of_commands_and_examples_have_all() -> None:
    commands = {row[0].split("`")[1].split()[1] for row in rows_of("docs/command_line.md")[2:14]}
    help_text = subprocess.run(
        [sys.executable, "-m", "cule.cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert commands == set(re.findall(r"^    ([a-z]+) ", help_text, re.MULTILINE))
    examples = {re.split(r"[\[\]]", row[0])[1] for row in rows_of("docs/examples.md")[2:]}
    folder = ROOT / "examples"
    programs = [path for path in folder.rglob("*") if path.suffix in (".py", ".c")]
    assert examples == {str(path.relative_to(folder)) for path in programs}


def test_navigation_has_every_page() -> None:
    config = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert f"- {page.relative_to(ROOT / 'docs')}\n" in config
