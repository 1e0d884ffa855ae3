"""`laggard grafana check` and `diff`, and the data source that is found, against a stand-in for Grafana."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.cli.exits import FAILED
from tests.grafana.defined import DASHBOARDS, DEFINED, RULES

if TYPE_CHECKING:
    from tests.grafana.stand_in import StandIn

pytestmark = pytest.mark.slow


def test_check_says_what_is_missing_and_changes_nothing(grafana: StandIn, call: Any) -> None:
    code, out, _ = call(grafana, "check")
    assert code == FAILED
    assert not grafana.writes
    assert out.startswith(f"Grafana {grafana.version} at {grafana.url}\n")
    assert "Data source Prometheus (uid prom-1): sees laggard\n" in out
    assert out.count("  missing\n") == 1 + len(DASHBOARDS) + len(RULES) + len(DEFINED.groups)
    assert "The token has all the rights that laggard needs.\n" in out
    assert "Hint: Grafana sends no alerts yet" in out
    call(grafana, "publish")
    grafana.contact_points.append({"uid": "x", "name": "chat", "type": "slack", "settings": {"url": "[REDACTED]"}})
    code, out, _ = call(grafana, "check", "--json")
    found = json.loads(out)
    assert code == 0
    assert {thing["state"] for thing in found["things"]} == {"current"}
    newest_known = grafana.major >= 12
    assert [found["problems"], found["lacking"], len(found["hints"])] == [[], [], 0 if newest_known else 1]


def test_check_says_which_rights_are_missing(newest: StandIn, call: Any) -> None:
    call(newest, "publish")
    newest.permissions = {"dashboards:read": ["*"], "alert.rules:read": ["folders:*"], "alert.rules:write": ["*"]}
    code, out, _ = call(newest, "check")
    assert code == FAILED
    assert "The token may not: make the folder (folders:create), make dashboards (dashboards:create)" in out
    assert "alert rules (" not in out.partition("The token may not")[2]
    newest.denied.add("getAlertRules")
    code, _, err = call(newest, "check")
    assert code == FAILED
    assert "was to list the alert rules: the token may not" in err
    assert "The token may not: make the folder (folders:create), " in err
    newest.denied = {"getDataSources", "getAlertRules"}
    enough = ("folders:create", "dashboards:create", "dashboards:write", "datasources:query")
    of_annotations = ("annotations:read", "annotations:create", "annotations:write")
    newest.permissions = {right: ["*"] for right in ("dashboards:read", *enough, *of_annotations)}
    code, out, _ = call(newest, "check", "--no-alerts", "--set", "grafana.data_source=prom-1")
    assert (code, "The token has all the rights that laggard needs.\n" in out) == (0, True)
    newest.denied.clear()
    newest.permissions = ["not what is known"]
    code, out, _ = call(newest, "check")
    assert code == 0
    assert "Grafana does not report the token's permissions.\n" in out


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], 'it has no series up{job="laggard"}: does that Prometheus scrape laggard'),
        (
            [({"instance": "a"}, [(0.0, 1.0)]), ({"instance": "b"}, [(0.0, 0.0)])],
            "1 of 2 laggards could not be scraped",
        ),
    ],
)
def test_a_data_source_that_does_not_see_laggard(newest: StandIn, call: Any, answer: Any, said: str) -> None:
    newest.answer = lambda *_: answer
    code, out, _ = call(newest, "publish")
    assert code == 0
    assert f"Hint: {said}" in out
    code, out, _ = call(newest, "check")
    assert code == FAILED
    assert said in out


def test_the_data_source_is_found(newest: StandIn, call: Any) -> None:
    def asked(*arguments: str) -> set[str]:
        newest.rules.clear()
        code, _, err = call(newest, "publish", *arguments)
        assert code == 0, err
        return {q["datasourceUid"] for rule in newest.rules.values() for q in rule["data"]} - {"__expr__"}

    second = {"id": 3, "orgId": 1, "uid": "prom-2", "name": "Other", "type": "prometheus", "isDefault": False}
    newest.data_sources.append(second)
    assert asked() == {"prom-1"}
    assert asked("--set", "grafana.data_source=Other") == {"prom-2"}
    assert asked("--set", "grafana.data_source=prom-2") == {"prom-2"}
    newest.data_sources[0]["isDefault"] = False
    code, _, err = call(newest, "publish")
    assert code == FAILED
    assert "expected in grafana.data_source one of Other (uid prom-2), Prometheus (uid prom-1)" in err
    code, _, err = call(newest, "publish", "--set", "grafana.data_source=mine")
    assert "grafana.data_source is 'mine'; expected one of Other (uid prom-2), Prometheus (uid prom-1)" in err
    newest.denied.add("getDataSources")
    assert asked("--set", "grafana.data_source=prom-2") == {"prom-2"}
    code, _, err = call(newest, "publish")
    assert "the token may not list the data sources (right datasources:read); expected the uid" in err
    newest.denied.clear()
    newest.data_sources[:] = newest.data_sources[1:2]
    code, _, err = call(newest, "publish")
    assert code == FAILED
    assert "has no data source of the type Prometheus" in err


def test_diff_is_empty_where_nothing_differs(grafana: StandIn, call: Any) -> None:
    code, out, _ = call(grafana, "diff", "--json")
    assert code == FAILED
    things = json.loads(out)["things"]
    assert [thing["uid"] for thing in things if thing["kind"] == "dashboard"] == DASHBOARDS
    assert all(line[:1] != "-" or line.startswith("---") for thing in things for line in thing["diff"])
    call(grafana, "publish")
    assert call(grafana, "diff") == (0, "", "")
