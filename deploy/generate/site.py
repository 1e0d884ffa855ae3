"""Hooks of MkDocs, which builds the documents as a site: `mkdocs build --strict --config-file deploy/mkdocs.yml`.

The documents' links lead to files of the repository, so that they work on a hosting site, too. On the site of MkDocs,
those that leave the documents become text with the file's path; with the setting `repo_url`, links to the file there.
Anchors are those of hosting sites.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "deploy/docs"

ADDED: Final = {
    "deploy/runbooks/*.md": "operations/runbooks/{name}",
    "deploy/prometheus/README.md": "operations/prometheus.md",
    "deploy/grafana/README.md": "operations/grafana.md",
    "deploy/grafana/pictures/*.png": "operations/pictures/{name}",
    "deploy/subscribers/README.md": "tasks/subscribers.md",
    ".github/SECURITY.md": "operations/reporting.md",
    "CHANGELOG.md": "changelog.md",
}
"""Documents beside the files that they explain, and their places on the site."""

ITEM: Final = re.compile(r"(?:[-*]|\d+\.) +")
LINK: Final = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def added() -> dict[str, Path]:
    """Return the documents of other folders, by their places on the site."""
    found = ((place, path) for pattern, place in ADDED.items() for path in sorted(ROOT.glob(pattern)))
    return {place.format(name=path.name): path for place, path in found}


def anchor(title: str, separator: str = "-") -> str:
    """Return the anchor of a heading, as hosting sites make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title.lower())
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", separator)


def relinked(markdown: str, source: Path, place: str, repository: str | None = None) -> str:
    """Return a document with links that work on the site.

    Args:
        markdown: the document.
        source: its file.
        place: its place on the site.
        repository: the address of the repository; None if it has none.
    """
    places = {path: name for name, path in added().items()}

    def link(found: re.Match[str]) -> str:
        text, path, fragment = found["text"], found["path"], found["anchor"] or ""
        target = (source.parent / path).resolve()
        if "://" in path or not target.exists():
            return found[0]
        inside = places.get(target)
        if inside is None and target.is_file() and target.is_relative_to(DOCS):
            inside = target.relative_to(DOCS).as_posix()
        if inside is not None:
            return f"[{text}]({os.path.relpath(inside, Path(place).parent)}{fragment})"
        name = target.relative_to(ROOT).as_posix()
        if repository:
            return f"[{text}]({repository.rstrip('/')}/blob/main/{name}{fragment})"
        return text if target.name in text else f"{text} (`{name}`)"

    return LINK.sub(link, markdown)


def indented(markdown: str) -> str:
    """Return a document whose list items are indented by four spaces, with their code, as MkDocs needs them.

    Hosting sites accept the width of the marker: `- ` or `1. `.
    """
    lines: list[str] = []
    width, fenced, item_fenced = 0, False, False
    for line in markdown.split("\n"):
        marker = None if fenced or item_fenced else ITEM.match(line)
        if marker:
            width = marker.end()
        elif width and line.startswith(" " * width):
            text = line[width:]
            if text.startswith("```"):
                item_fenced = not item_fenced
                line = ""  # noqa: PLW2901 -- the fence itself
            else:
                line = " " * (8 if item_fenced else 4) + text  # noqa: PLW2901 -- the same line, further in
        elif line and not item_fenced:
            width = width if lines and lines[-1] else 0
            fenced ^= line.startswith("```")
        lines.append(line)
    return "\n".join(lines)


# The hooks of MkDocs.


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings the anchors of hosting sites."""
    toc: dict[str, Any] = config.mdx_configs.setdefault("toc", {})
    toc["slugify"] = anchor
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents of other folders."""
    from mkdocs.structure.files import File  # noqa: PLC0415 -- only where MkDocs is installed

    for place, path in added().items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Adapt the links and lists of a document."""
    assert page.file.abs_src_path is not None
    source = Path(page.file.abs_src_path).resolve()
    return indented(relinked(markdown, source, page.file.src_uri, config.repo_url))
