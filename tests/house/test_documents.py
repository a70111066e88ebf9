"""The documentation: links have targets, Python snippets compile, and those of some pages run."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from cule.envs.options import PRESETS, EnvOptions

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("benchmarks/**/*.md")]
)


#: Pages whose snippets run, one after the other.
RUNNING = ("agents/own_networks.md", "environments.md", "own_roms.md", "replay.md")


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


@pytest.mark.ale
def test_the_examples_of_the_readme_run_without_a_warning() -> None:
    """On the CPU with fewer environments and a smaller replay; pytest makes warnings errors."""
    pytest.importorskip("torch")
    page = (ROOT / "README.md").read_text()
    snippets = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(snippets) == 2
    for snippet in snippets:
        small = snippet.replace('"cuda"', '"cpu"')
        small = small.replace("512", "16").replace("1_000_000", "32_000")
        exec(compile(small, "README.md", "exec"), {})


@pytest.mark.ale
@pytest.mark.parametrize("name", RUNNING)
def test_python_snippets_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    page = (ROOT / "docs" / name).read_text()
    snippets = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert snippets
    for number, snippet in enumerate(snippets):
        exec(compile(snippet, f"{name}, snippet {number + 1}", "exec"), names)
