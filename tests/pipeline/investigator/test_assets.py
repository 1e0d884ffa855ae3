"""What a browser is given: nothing inline, nothing from elsewhere, and others' work exactly as it was published."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.investigator.app import ASSETS, VIEWS
from tests import npm

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = ASSETS / "packages"
OWN = sorted(path for path in ASSETS.rglob("*") if path.is_file() and PACKAGES not in path.parents)
SCRIPTS = [path for path in OWN if path.suffix == ".js"]
RECORD = {"package.json", "package-lock.json"}

IMPORTED = re.compile(r"""(?:^|;)\s*(?:import|export)(?:[^"'();=]*?from)?\s*["']([^"']+)["']""", re.MULTILINE)
ADDRESS = re.compile(r"""(?:https?:)?//[\w.-]+\.\w+[^\s"'`)]*""")
COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.DOTALL | re.MULTILINE)
NAMESPACE = "http://www.w3.org/2000/svg"


def name_of(path: Path) -> str:
    return str(path.relative_to(ASSETS))


@pytest.mark.slow
def test_packages_are_what_npm_has() -> None:
    modules = npm.modules(PACKAGES)
    wanted = json.loads((PACKAGES / "package.json").read_text())["dependencies"]
    kept = {path.relative_to(PACKAGES) for path in PACKAGES.rglob("*") if path.is_file() and path.name not in RECORD}
    assert {path.parts[0] for path in kept} == set(wanted)
    for path in kept:
        (published,) = [
            found
            for place in ("", "dist")
            if (found := modules / path.parts[0] / place / path.relative_to(path.parts[0])).exists()
        ]
        assert (PACKAGES / path).read_bytes() == published.read_bytes(), f"{path} is not what npm has"


def test_packages_are_recorded_with_what_they_hold() -> None:
    wanted = json.loads((PACKAGES / "package.json").read_text())["dependencies"]
    locked = json.loads((PACKAGES / "package-lock.json").read_text())["packages"]
    for name, version in wanted.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), f"{name}: one version, not a range"
        assert locked[f"node_modules/{name}"]["version"] == version
        assert locked[f"node_modules/{name}"]["integrity"].startswith("sha512-")
        assert "Copyright" in (PACKAGES / name / "LICENSE").read_text()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside = ""
        self.scripted = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in {"script", "style"}:
            self.scripted += data.strip()


def test_the_document_holds_no_script_and_no_style() -> None:
    tags = Tags()
    tags.feed((ASSETS / "index.html").read_text())
    assert not tags.scripted
    assert "style" not in {tag for tag, _ in tags.found}
    sources = []
    for tag, attributes in tags.found:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag
        sources += [attributes[name] for name in ("src", "href") if name in attributes]
    assert len(sources) >= 4
    for source in sources:
        assert source
        assert (ASSETS / source.removeprefix("/assets/")).is_file(), source


def test_nothing_comes_from_elsewhere() -> None:
    for path in OWN:
        text = COMMENT.sub("", path.read_text()).replace(NAMESPACE, "")
        assert not ADDRESS.findall(text), name_of(path)
        if path.suffix == ".css":
            assert not re.search(r"@import|expression\(", text), name_of(path)
            urls = re.findall(r"url\([\"']?([^)]*)", text)
            assert all(found.startswith(("#", "data:", "/assets/")) for found in urls), name_of(path)


def test_scripts_turn_no_text_into_markup() -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|srcdoc|setHTML|unsafeHTML|unsafeSVG|unsafeStatic|document\.write|"
        r"\beval\(|new Function|javascript:|\bstyle=|setAttribute\(\s*[\"']style"
    )
    found = {name_of(path): re.findall(forbidden, COMMENT.sub("", path.read_text())) for path in SCRIPTS}
    assert {name: each for name, each in found.items() if each} == {}


def test_what_a_script_imports_is_there() -> None:
    for path in [*SCRIPTS, *PACKAGES.rglob("*.js")]:
        for name in IMPORTED.findall(COMMENT.sub("", path.read_text())):
            assert name.startswith("."), f"{name_of(path)}: {name}: a browser finds it by its path only"
            assert (path.parent / name).is_file(), f"{name_of(path)}: {name}"
    # They are seen.
    assert len(IMPORTED.findall((ASSETS / "main.js").read_text())) >= 6
    assert IMPORTED.findall((PACKAGES / "lit-html/directives/repeat.js").read_text()) == [
        *("../lit-html.js", "../directive.js", "../directive-helpers.js"),
    ]


def imported(path: Path) -> set[Path]:
    """What a script imports before it runs, and what that imports."""
    found: set[Path] = set()
    left = [path]
    while left:
        script = left.pop()
        names = IMPORTED.findall(COMMENT.sub("", script.read_text()))
        new = {(script.parent / name).resolve() for name in names} - found
        found |= new
        left += new
    return found


def test_all_that_the_first_view_needs_is_asked_for_at_once() -> None:
    main, first = ASSETS / "main.js", ASSETS / "views/now.js"
    needed = {f"/assets/{name_of(path)}" for path in {*imported(main), first, *imported(first)}}
    assert len(needed) > 20
    tags = Tags()
    tags.feed((ASSETS / "index.html").read_text())
    asked = [each["href"] for tag, each in tags.found if tag == "link" and each["rel"] == "modulepreload"]
    assert asked == sorted(needed), "the document's modulepreload links are those, in this order"


def test_the_server_knows_the_paths_of_all_views() -> None:
    state = (ASSETS / "state.js").read_text()
    paths = re.findall(r'\{ path: "([^"]+)", module: "([^"]+)"', state)
    assert tuple(path for path, _ in paths) == VIEWS
    assert all((ASSETS / f"views/{module}.js").is_file() for _, module in paths)
