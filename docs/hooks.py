"""Hooks of MkDocs: the pages are read as they are in the repository, links out of docs/ included.

README.md is the first page. What pages link to outside docs/ is added under ``repository/``:
Markdown as pages, other files as they are. A link to a folder becomes its text. The pages of the
games are made by docs/game_pages.py, the figures of machines.md by docs/machine_page.py.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import game_pages
import machine_page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?\[[^\[\]]*\])\(([^()\s]+)\)")
FENCE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def site_path(path: str) -> str:
    """Where a file of the repository is in the site."""
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"repository/{path}"


def repository_path(path: str) -> str:
    """The inverse of `site_path`."""
    if path == "index.md":
        return "README.md"
    inside = path.removeprefix("repository/")
    return f"docs/{path}" if inside == path else inside


def target_of(page: str, link: str) -> str | None:
    """What a link of a page means, from the root of the repository; None: not a file in it."""
    if re.match(r"[a-z]+:|#", link):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def rewritten(page: str, text: str) -> tuple[str, set[str]]:
    """The text with links to where files are in the site, and the files linked to."""
    targets: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        link, _, anchor = match[2].partition("#")
        target = target_of(page, link) if link else None
        if target is None:
            return match[0]
        if (ROOT / target).is_dir():
            return match[1][1:-1]
        targets.add(target)
        start = posixpath.dirname(site_path(page)) or "."
        new = posixpath.relpath(site_path(target), start)
        return f"{match[1]}({new}{'#' if anchor else ''}{anchor})"

    # Every other part is code.
    parts = FENCE.split(text)
    for i in range(0, len(parts), 2):
        parts[i] = LINK.sub(replace, parts[i])
    return "".join(parts), targets


def on_files(files: Files, config: Any) -> Files:
    """Add the README and what is linked to, pages of pages included."""
    waiting = ["README.md"]
    waiting += [repository_path(file.src_uri) for file in files.documentation_pages()]
    # Pages of the navigation that no page may link to.
    waiting += ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md"]
    waiting += ["MAINTAINERS.md", "ROADMAP.md"]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not (ROOT / path).is_file():
            continue
        seen.add(path)
        uri = site_path(path)
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            waiting += rewritten(path, (ROOT / path).read_text())[1]
    for name, content in (game_pages.pages() | game_pages.pictures()).items():
        files.append(File.generated(config, f"games/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page, and add the figures of machines and a link to the games."""
    if page.file.src_uri == "index.md":
        markdown = markdown.replace(
            "a page for each game", "[a page for each game](docs/games/index.md)"
        )
    if machine_page.MARK in markdown:
        markdown = machine_page.markdown(markdown)
    return rewritten(repository_path(page.file.src_uri), markdown)[0]
