"""The samples for Prometheus and Alertmanager: the servers take them, and every alert goes where it belongs."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.grafana.alerts import alerts
from laggard.pipeline.grafana.labels import JOB, PLACE
from tests.deploy.files import DEPLOY, documents
from tests.programs import path_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

ROUTE = DEPLOY / "alertmanager/alertmanager.yml"
TEMPLATES = DEPLOY / "alertmanager/laggard.tmpl"
RECEIVERS = {"info": "chat", "warning": "ticket", "critical": "page"}


def run(*command: str | Path) -> tuple[int, str]:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["prometheus/prometheus.yml", "compose/prometheus.yml"])
def test_prometheus_takes_the_configuration(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / name).read_text()
    (tmp_path / "laggard.rules.yaml").write_text((DEPLOY / "prometheus/laggard.rules.yaml").read_text())
    (tmp_path / "token").write_text("0123456789abcdef")
    # The files that it names are looked for, too.
    text = text.replace("/etc/prometheus/laggard.rules.yaml", "laggard.rules.yaml")
    text = re.sub(r"credentials_file: \S+", "credentials_file: token", text)
    path = tmp_path / "prometheus.yml"
    path.write_text(text)
    code, said = run(path_of("promtool"), "check", "config", path)
    assert (code, "1 rule files found" in said) == (0, True), said
    path.write_text(text.replace("scrape_interval", "scrape_interwal"))
    assert run(path_of("promtool"), "check", "config", path)[0]


def test_the_sample_scrapes_what_the_rules_ask_for() -> None:
    (document,) = documents((DEPLOY / "prometheus/prometheus.yml").read_text())
    (job,) = document["scrape_configs"]
    assert job["job_name"] == JOB
    assert set(job["static_configs"][0]["labels"]) == set(PLACE)


def test_alertmanager_takes_the_route() -> None:
    code, said = run(path_of("amtool"), "check-config", ROUTE)
    assert (code, "1 templates" in said) == (0, True), said


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)
def test_every_alert_goes_where_its_severity_belongs(alert: Any) -> None:
    labels = [f"alertname={alert.name}", f"severity={alert.severity}", "host=web-1"]
    code, said = run(path_of("amtool"), "config", "routes", "test", f"--config.file={ROUTE}", *labels)
    assert (code, said.split()[0]) == (0, RECEIVERS[alert.severity]), said


def test_what_is_not_laggards_is_left_alone() -> None:
    _, said = run(path_of("amtool"), "config", "routes", "show", f"--config.file={ROUTE}")
    assert said.count("Laggard.+") == 1


def test_inhibitions_name_alerts_and_labels_that_there_are() -> None:
    (document,) = documents(ROUTE.read_text())
    labels = {alert.name: set(alert.labels) for alert in alerts()}
    for rule in document["inhibit_rules"]:
        of = {}
        for side in ("source_matchers", "target_matchers"):
            patterns = [re.fullmatch(r'alertname(=~|=|!=)"(.*)"', each) for each in rule[side]]
            of[side] = {name for name in labels if all(each and _matches(name, *each.groups()) for each in patterns)}
            assert of[side], rule
        assert not of["source_matchers"] & of["target_matchers"], rule
        for name in of["source_matchers"]:
            assert set(rule["equal"]) <= labels[name], f"{name} would hold back what is not alike"


def _matches(name: str, operator: str, pattern: str) -> bool:
    found = re.fullmatch(pattern, name) is not None
    return not found if operator == "!=" else found


def test_templates_tell_all_that_an_alert_says(tmp_path: Path) -> None:
    annotations = {
        "summary": "process python3 on host web-1: descriptors reached 1.2k",
        "description": "It deviates from its baseline.",
        "why": "laggard why --host web-1 --at 1",
        "page_url": "https://l/incidents?host=web-1&at=1",
        "dashboard_url": "http://g/d/laggard-host?x=1&y=2",
        "runbook_url": "http://r/LaggardIncident.md",
    }
    one = {"status": "firing", "labels": {"host": "web-1"}, "annotations": annotations}
    data = {
        "status": "firing",
        "alerts": [one, {**one, "status": "resolved"}],
        "groupLabels": {"host": "web-1", "cluster": "eu-1"},
        "commonLabels": {"severity": "info"},
    }
    assert _rendered(data, "title", tmp_path) == "web-1 in eu-1"
    assert _rendered(data, "link", tmp_path) == annotations["page_url"]
    assert _rendered(data, "color", tmp_path) == "#439fe0"
    said = _rendered(data, "text", tmp_path)
    assert all(text in said for text in annotations.values()), said
    assert said.count(annotations["summary"]) == 2
    assert f"Resolved: {annotations['summary']}" in said
    for name in ("application", "pool", "service"):
        assert _rendered({**data, "groupLabels": {name: "checkout"}}, "title", tmp_path) == "checkout"
    without = {**one, "annotations": {name: text for name, text in annotations.items() if name != "page_url"}}
    assert _rendered({**data, "alerts": [without]}, "link", tmp_path) == annotations["dashboard_url"]
    assert "Page: " not in _rendered({**data, "alerts": [without]}, "text", tmp_path)
    over = {**data, "status": "resolved", "groupLabels": {"alertname": "LaggardDown"}}
    assert _rendered(over, "title", tmp_path) == "Resolved: laggard"
    assert _rendered(over, "color", tmp_path) == "good"


def _rendered(data: dict[str, Any], name: str, folder: Path) -> str:
    path = folder / "data.json"
    path.write_text(json.dumps(data))
    text = f'{{{{ template "laggard.{name}" . }}}}'
    options = [f"--template.glob={TEMPLATES}", f"--template.data={path}", f"--template.text={text}"]
    code, said = run(path_of("amtool"), "template", "render", *options)
    assert code == 0, said
    return said.rstrip("\n")
