"""The runbooks have the same headings, and their commands and queries are valid."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from typing import TYPE_CHECKING

import click
import pytest

from laggard.pipeline.cli import laggard
from laggard.pipeline.cli.times import parse_time
from laggard.pipeline.grafana.alerts import alerts
from laggard.pipeline.metrics.declared import METRICS
from tests.deploy.files import DEPLOY
from tests.programs import path_of

if TYPE_CHECKING:
    from pathlib import Path

RUNBOOKS = {alert.name: (DEPLOY / f"runbooks/{alert.name}.md").read_text() for alert in alerts()}
HEADINGS = ["What it means", "First checks", "What to do", "Silence", "When it is wrong"]
PLACES = {"HOST": "web-1", "TIME": "1700000000", "ROW": "python3", "ME": "me", "FILE": "/dev/null"}


def commands(program: str) -> list[tuple[str, str]]:
    """Runbook and command line, for each command that is indented, or marked as code."""
    found = []
    for name, text in RUNBOOKS.items():
        joined = text.replace("\\\n", " ")
        lines = re.findall(r"^ {4,}(\S.*)$", joined, re.MULTILINE) + re.findall(r"`([^`\n]+)`", joined)
        found += [(name, line) for line in lines if line.startswith(f"{program} ")]
    return found


def filled(line: str) -> list[str]:
    return [PLACES.get(word, word) for word in shlex.split(re.sub(rf"\b({'|'.join(PLACES)})\b", _place, line))]


def _place(found: re.Match[str]) -> str:
    return PLACES[found[1]]


@pytest.mark.parametrize("name", RUNBOOKS)
def test_all_runbooks_are_alike(name: str) -> None:
    text = RUNBOOKS[name]
    assert text.startswith(f"# {name}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    (severity,) = (alert.severity for alert in alerts() if alert.name == name)
    assert f"\n*{severity}*: " in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (DEPLOY / "runbooks" / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize(("name", "line"), commands("laggard"))
def test_commands_are_valid(name: str, line: str) -> None:
    words = filled(line)[1:]
    # Without its settings each command would keep a help option without `-h`, for all tests after this one.
    context = click.Context(laggard, **laggard.context_settings)
    command: click.Command = laggard
    while isinstance(command, click.Group):
        with context.scope(cleanup=False):
            called, found, words = command.resolve_command(context, words)
        assert found is not None, line
        command, context = found, click.Context(found, parent=context, info_name=called)
    context = command.make_context(context.info_name, list(words), parent=context.parent)
    if "--at" in words:
        assert parse_time(context.params["at"], time.time()) == 1_700_000_000.0


def test_there_are_such_commands() -> None:
    assert len(commands("laggard")) > 15
    for alert in alerts():
        if "host" in alert.labels:
            assert any(name == alert.name and "why --host HOST" in line for name, line in commands("laggard"))
        if "pool" in alert.labels:
            assert any(name == alert.name and "pools POOL" in line for name, line in commands("laggard"))
        if "service" in alert.labels:
            assert any(name == alert.name and "requests SERVICE" in line for name, line in commands("laggard"))


@pytest.mark.parametrize("name", RUNBOOKS)
def test_a_runbook_silences_its_alert(name: str) -> None:
    ((_, line),) = (each for each in commands("amtool") if each[0] == name)
    words = filled(line)
    assert words[:3] == ["amtool", "silence", "add"]
    (alert,) = (alert for alert in alerts() if alert.name == name)
    matchers = dict(re.split("=~?", word, maxsplit=1) for word in words[3:] if not word.startswith("--"))
    assert re.fullmatch(matchers.pop("alertname"), name)
    assert set(matchers) <= set(alert.labels)


def test_prometheus_takes_their_queries(tmp_path: Path) -> None:
    queries = [query for text in RUNBOOKS.values() for query in re.findall(r"```promql\n(.*?)```", text, re.DOTALL)]
    assert len(queries) > 5
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"groups": [{"name": "runbooks", "rules": recorded}]}))
    done = subprocess.run(
        [path_of("promtool"), "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    exported = {f"{metric.exposed}{suffix}" for metric in METRICS for suffix in ("", "_bucket")}
    named = set(re.findall(r"\blaggard_\w+", " ".join([*queries, *RUNBOOKS.values()])))
    assert named <= exported, named - exported
