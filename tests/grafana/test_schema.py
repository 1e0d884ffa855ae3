"""The dashboards' JSON against Grafana's own types of 10, 11 and 12, by the TypeScript compiler."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import npm
from tests.grafana.queries import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

SCHEMA = Path(__file__).parent / "schema"
VERSIONS = (10, 11, 12)


@pytest.fixture(scope="module")
def modules() -> Path:
    """The types and the compiler."""
    return npm.modules(SCHEMA)


def literals(documents: dict[str, Any]) -> str:
    """The parts of dashboards as constants of their types: of a literal, unknown fields are errors, too."""
    lines = ["import type { Annotation, Frame, Panels, Variable } from './typed';"]

    def constant(name: str, kind: str, value: Any) -> None:
        lines.append(f"export const {name}: {kind} = {json.dumps(value)};")

    for stem, document in documents.items():
        apart = {"panels", "annotations", "templating"}
        constant(stem, "Frame", {name: value for name, value in document.items() if name not in apart})
        for panel in document["panels"]:
            constant(f"{stem}_panel_{panel['id']}", f"Panels[{json.dumps(panel['type'])}]", panel)
        for number, annotation in enumerate(document["annotations"]["list"]):
            constant(f"{stem}_annotation_{number}", "Annotation", annotation)
        for variable in document["templating"]["list"]:
            constant(f"{stem}_variable_{variable['name']}", "Variable", variable)
    return "\n".join(lines)


@pytest.fixture
def compiled(modules: Path, tmp_path: Path) -> Callable[[dict[str, Any], int], str]:
    """What the compiler says about dashboards, by the types of a version of Grafana."""

    def compile_them(documents: dict[str, Any], version: int) -> str:
        folder = tmp_path / str(version)
        folder.mkdir()
        (folder / "node_modules").symlink_to(modules)
        shutil.copy(SCHEMA / "typed.ts", folder)
        (folder / "dashboards.ts").write_text(literals(documents), encoding="utf-8")
        types = f"./node_modules/schema-{version}"
        options = {
            "strict": True,
            "noEmit": True,
            "skipLibCheck": True,
            "lib": ["es2022"],
            "module": "esnext",
            "moduleResolution": "bundler",
            "types": [],
            "paths": {"@grafana/schema": [types], "@grafana/schema/*": [f"{types}/*"]},
        }
        (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["dashboards.ts"]}))
        done = subprocess.run(
            [*npm.node(), str(modules / "typescript/bin/tsc"), "--pretty", "false"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) == (not done.stdout), done.stderr
        return done.stdout

    return compile_them


def documents() -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}


@pytest.mark.timeout(600)  # the first time, the types have to be fetched
@pytest.mark.parametrize("version", VERSIONS)
def test_dashboards_are_of_grafanas_types(compiled: Callable[..., str], version: int) -> None:
    assert compiled(documents(), version) == ""


def _first(document: Any, kind: str) -> Any:
    return next(panel for panel in document["panels"] if panel["type"] == kind)


def _unknown_option(document: Any) -> None:
    _first(document, "timeseries")["options"]["legnd"] = {}


def _unknown_word(document: Any) -> None:
    _first(document, "timeseries")["options"]["legend"]["placement"] = "left"


def _unknown_override(document: Any) -> None:
    _first(document, "table")["fieldConfig"]["overrides"][0]["properties"][0]["id"] = "units"


def _unknown_field(document: Any) -> None:
    document["colour"] = "dark"


def _wrong_variable(document: Any) -> None:
    document["templating"]["list"][0]["hide"] = "no"


@pytest.mark.timeout(600)
def test_the_compiler_finds_what_is_wrong(compiled: Callable[..., str]) -> None:
    spoiling = (_unknown_option, _unknown_word, _unknown_override, _unknown_field, _wrong_variable)
    wrong = {f"{spoil.__name__}_": json.loads((FOLDER / "overview.json").read_text()) for spoil in spoiling}
    for spoil, document in zip(spoiling, wrong.values(), strict=True):
        spoil(document)
    said = compiled(wrong, 12)
    constants = literals(wrong).splitlines()
    found = [constants[int(line) - 1].split()[2] for line in re.findall(r"^dashboards\.ts\((\d+),", said, re.MULTILINE)]
    assert len(found) == len(spoiling), said
    assert all(any(name.startswith(stem) for name in found) for stem in wrong), said
