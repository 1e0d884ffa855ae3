"""Files that a Grafana reads when it starts: they fit the dashboards, the alert rules and each other."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.grafana.queries import FOLDER

PROVISIONING = FOLDER.parent / "provisioning"


def read(name: str) -> Any:
    return yaml.safe_load((PROVISIONING / name).read_text())


def test_dashboards_come_into_the_folder_of_the_rules() -> None:
    (provider,) = read("dashboards/laggard.yaml")["providers"]
    assert (provider["folder"], provider["folderUid"], provider["type"]) == ("laggard", "laggard", "file")
    uids = {json.loads(path.read_text())["uid"] for path in FOLDER.iterdir()}
    named = ("overview", "host", "applications", "pools", "requests", "pipeline")
    assert uids == {f"laggard-{name}" for name in named}
    for path in (FOLDER.parent / "alerting").glob("*.yaml"):
        for group in yaml.safe_load(path.read_text())["groups"]:
            assert group["folder"] == provider["folder"]


def test_the_rules_ask_the_source_that_is_provisioned() -> None:
    (source,) = read("datasources/prometheus.yaml")["datasources"]
    asked = {
        query["datasourceUid"]
        for path in (FOLDER.parent / "alerting").glob("*.yaml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
        for query in rule["data"]
    }
    assert asked == {source["uid"], "__expr__"}
    assert source["type"] == "prometheus"
