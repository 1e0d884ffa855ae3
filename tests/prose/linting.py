"""The prose linter Vale over the texts of the project. The rules are in `styles`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.deploy.files import DOCUMENTS as EVERY_DOCUMENT
from tests.deploy.tools import PROSE, vale
from tests.prose import texts

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = PROSE.parents[1]
KINDS: Final = ("documents", "comments", "messages", "names")
LEVELS: Final = ("suggestion", "warning", "error")
ROOMS: Final = ("operators", "pipeline", "producers")
NOT_YET: Final = {
    "documents/deploy/docs/reference/": "American",
    "comments/pipeline/cli/models.py": "Units",
    "messages/deploy/": "Units",
    "messages/pipeline/": "American Future Terms Translated Units",
    "messages/producers/": "FirstPerson",
    "names/tests/prose/": "Future",
}
"""By where texts are, the rules whose errors are warnings there for now. Texts without any lose their line."""

DOCUMENTS: Final = [path for path in EVERY_DOCUMENT if path.name != "CHANGELOG.md"]
"""The changelog is left out: it also says what was."""

_PAGE: Final = ROOT / "pipeline/investigator/assets"


@dataclass(frozen=True, slots=True)
class Finding:
    """A place that a rule finds.

    Attributes:
        path: the file, from the root of the checkout.
        line: the number of the line.
        level: one of `LEVELS`.
        rule: the name of the rule.
        message: the advice.

    """

    path: str
    line: int
    level: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.level}: {self.message} ({self.rule})"


def lint(kind: str, at_least: str = "suggestion") -> list[Finding]:
    """Return the findings in the texts of a kind. Raises `MissingPartError` without Vale."""
    program = vale()
    with tempfile.TemporaryDirectory(prefix="laggard-prose-") as name:
        folder = Path(name)
        for path, text in _laid_out(kind):
            if text.strip():
                file = folder / kind / _laid_out_as(path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
        found = _run(program, folder, f"--minAlertLevel={at_least}", "--no-exit", "--output=JSON", kind)
    places = {f"{kind}/{_laid_out_as(path)}": str(path.relative_to(ROOT)) for path in _files(kind)}
    findings = [_finding(kind, places[name], alert) for name, alerts in sorted(found.items()) for alert in alerts]
    return [each for each in findings if LEVELS.index(each.level) >= LEVELS.index(at_least)]


def _finding(kind: str, path: str, alert: dict[str, Any]) -> Finding:
    rule, level = alert["Check"].partition(".")[2], alert["Severity"]
    for beginning, rules in NOT_YET.items():
        if f"{kind}/{path}".startswith(beginning) and level == "error" and rule in rules.split():
            level = "warning"
    return Finding(path, alert["Line"], level, rule, alert["Message"])


def measures(document: Path) -> dict[str, int]:
    """Return the numbers of a document: `words`, `sentences`, `syllables` and others. Raises likewise."""
    measured: dict[str, int] = _run(vale(), ROOT, "ls-metrics", str(document))
    return measured


def _laid_out_as(path: Path) -> str:
    name = str(path.relative_to(ROOT))
    return name if path.suffix == ".md" else f"{name}.md"


def _files(kind: str) -> list[Path]:
    if kind == "documents":
        return DOCUMENTS
    code = [path for room in (*ROOMS, "deploy") for path in (ROOT / room).rglob("*.py")]
    tests = list((ROOT / "tests").rglob("*.py"))
    match kind:
        case "comments":
            return sorted([*code, *tests])
        case "messages":
            scripts = (path for path in _PAGE.rglob("*.js") if "packages" not in path.parts)
            return sorted([*code, *scripts])
        case _:
            return sorted(path for path in tests if path.name.startswith("test_"))


def _laid_out(kind: str) -> Iterator[tuple[Path, str]]:
    extracted = {"comments": texts.comments, "messages": texts.messages, "names": texts.names}
    for path in _files(kind):
        yield path, extracted[kind](path) if kind in extracted else path.read_text(encoding="utf-8")


def _run(program: str, folder: Path, *arguments: str) -> Any:
    command = [program, f"--config={PROSE / '.vale.ini'}", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr or done.stdout
    return json.loads(done.stdout)
