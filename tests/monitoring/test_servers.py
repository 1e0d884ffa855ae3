"""The servers of the tests: they start, answer, say why they do not, and are gone afterward."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.brokers.ports import free_port
from tests.monitoring import servers
from tests.monitoring.servers import ServerError, api, awaited, query, running_prometheus
from tests.programs import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.monitoring.fixtures import NewServer

pytestmark = pytest.mark.slow

NOTHING = {"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}
RULES = '{"groups": [{"name": "a", "interval": "1s", "rules": [{"alert": "A", "expr": "vector(1)"}]}]}'


def test_an_alert_of_prometheus_reaches_alertmanager(prometheus: NewServer, alertmanager: NewServer) -> None:
    to = alertmanager(NOTHING)
    url = prometheus(
        {
            "rule_files": ["rules.yml"],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [to.removeprefix("http://")]}]}]},
        },
        {"rules.yml": RULES},
    )
    assert awaited(lambda: query(url, 'ALERTS{alertname="A"}'))[0]["metric"]["alertstate"] == "firing"
    (alert,) = awaited(lambda: api(to, "/api/v2/alerts"))
    assert alert["labels"]["alertname"] == "A"
    assert [name.split()[2] for name, _ in servers.logs()] == ["alertmanager", "prometheus"]


def test_what_a_server_says_is_told_when_it_does_not_start(prometheus: NewServer) -> None:
    with pytest.raises(ServerError, match="no_such_key"):
        prometheus({"no_such_key": 1})
    assert servers.logs() == []


def test_a_server_stops_at_the_end_of_its_block(tmp_path: Path) -> None:
    with running_prometheus(tmp_path, {}) as url:
        assert query(url, "vector(7)")[0]["value"][1] == "7"
        with pytest.raises(ServerError, match="parse error"):
            query(url, "1 +")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/-/ready", timeout=5)


def test_a_port_that_is_taken_is_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_prometheus(tmp_path / "first", {}) as first:
        ports = iter((int(first.rsplit(":", 1)[1]), free_port()))
        monkeypatch.setattr(servers, "free_port", lambda: next(ports))
        with running_prometheus(tmp_path / "second", {}) as second:
            assert second != first
            assert query(second, "vector(1)")


def test_the_checkers_check(tmp_path: Path) -> None:
    (tmp_path / "own.tmpl").write_text('{{ define "own" }}{{ .CommonLabels.host }}{{ end }}')
    config = tmp_path / "alertmanager.yml"
    config.write_text(json.dumps({**NOTHING, "templates": [str(tmp_path / "*.tmpl")]}))
    done = subprocess.run([path_of("amtool"), "check-config", str(config)], capture_output=True, text=True, check=False)
    assert (done.returncode, "1 templates" in done.stdout) == (0, True), done.stdout + done.stderr
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES)
    subprocess.run([path_of("promtool"), "check", "rules", str(rules)], check=True, capture_output=True)
    rules.write_text(RULES.replace("vector(1)", "vector(1"))
    done = subprocess.run(
        [path_of("promtool"), "check", "rules", str(rules)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "unclosed left parenthesis" in done.stderr) == (1, True), done.stdout + done.stderr
