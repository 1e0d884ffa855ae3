"""The alerts of `alerts.py` in the forms of Prometheus and Grafana.

Plain data, for JSON or YAML: a rule file of Prometheus, a PrometheusRule of its Kubernetes operator, the groups of
Grafana's HTTP API and its provisioning file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.pipeline.grafana.alert import Alert, Recording
from laggard.pipeline.grafana.alerts import groups
from laggard.pipeline.grafana.labels import MEASURED, by, span
from laggard.pipeline.grafana.texts import GrafanaTemplates, PrometheusTemplates, Texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.grafana.alert import Group, Number

RUNBOOKS: Final = "https://github.com/laggard/laggard/blob/main/deploy/runbooks"
"""The address of the runbooks: `<this>/<name of the alert>.md`."""

GRAFANA: Final = "http://127.0.0.1:3000"
"""The address of Grafana in the Compose file, for links in Prometheus's alerts. Grafana itself knows its address."""

FOLDER_UID: Final = "laggard"
FOLDER: Final = "laggard"
"""The uid of Grafana's folder, and its title."""

DATA_SOURCE: Final = "prometheus"
"""The uid of the data source of Grafana's rules: that of the Compose file."""

EXPRESSION: Final = "__expr__"
"""Grafana's uid for its own expressions."""


class Expression(NamedTuple):
    """A PromQL expression that laggard publishes.

    Attributes:
        place: the place of the expression.
        text: the expression.
        empty: why it may have no result while all is well; empty if it must have one.

    """

    place: str
    text: str
    empty: str


def expressions(faster: float = 1.0) -> Iterator[Expression]:
    """Yield every expression of every rule, and the queries of the texts of alerts."""
    for group in groups(faster):
        for rule in group.rules:
            if isinstance(rule, Recording):
                yield Expression(rule.name, rule.expr, "")
                continue
            yield Expression(rule.name, rule.expr, "it gives what is wrong")
            for name, number in rule.numbers.items():
                opened = re.search("_(anomaly|incident)_", number.metric)
                reason = "there is such a series only while an incident is open" if opened else ""
                yield Expression(f"{rule.name}, {name}", _query_of(number), reason)


# Prometheus.


def prometheus_rules(
    faster: float = 1.0, *, grafana: str = GRAFANA, runbooks: str = RUNBOOKS, page: str = ""
) -> dict[str, Any]:
    """Return the rule file of Prometheus.

    Args:
        faster: divides all times in it.
        grafana: the address of Grafana.
        runbooks: the address of the runbooks.
        page: the address of laggard's own page; empty for no links to it.

    """
    write = Texts(PrometheusTemplates(), f"{grafana}/d/", runbooks, page)
    return {"groups": [_prometheus_group(group, write) for group in groups(faster)]}


def prometheus_rule_resource(grafana: str = GRAFANA, runbooks: str = RUNBOOKS, page: str = "") -> dict[str, Any]:
    """Return the rule file as a resource of the Prometheus Operator; see `prometheus_rules`."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "laggard", "labels": {"app.kubernetes.io/component": "rules"}},
        "spec": prometheus_rules(grafana=grafana, runbooks=runbooks, page=page),
    }


def _prometheus_group(group: Group, write: Texts) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": span(group.interval_s),
        "rules": [
            {"record": rule.name, "expr": rule.expr}
            if isinstance(rule, Recording)
            else {
                "alert": rule.name,
                "expr": rule.expr,
                "for": span(rule.wait_s) if rule.wait_s else "0s",
                "keep_firing_for": span(rule.keep_s),
                "labels": {"severity": rule.severity},
                "annotations": write.annotations(rule),
            }
            for rule in group.rules
        ],
    }


# Grafana.


def grafana_groups(data_source: str = DATA_SOURCE, *, runbooks: str = RUNBOOKS, page: str = "") -> list[dict[str, Any]]:
    """Return the groups of rules for Grafana's HTTP API (AlertRuleGroup of ProvisionedAlertRule).

    Args:
        data_source: the uid of the data source.
        runbooks: the address of the runbooks.
        page: the address of laggard's own page; empty for no links to it.

    """
    write = Texts(GrafanaTemplates(), '{{ reReplaceAll `/\\z` "" externalURL }}/d/', runbooks, page)
    return [
        {
            "title": group.name,
            "folderUid": FOLDER_UID,
            "interval": round(group.interval_s),
            "rules": [
                _grafana_rule(rule, group, data_source, write) for rule in group.rules if isinstance(rule, Alert)
            ],
        }
        for group in groups()
        if any(isinstance(rule, Alert) for rule in group.rules)
    ]


def grafana_provisioning(data_source: str = DATA_SOURCE, *, runbooks: str = RUNBOOKS, page: str = "") -> dict[str, Any]:
    """Return the file from which Grafana provisions the rules when it starts."""
    own = ("orgID", "folderUID", "ruleGroup", "keep_firing_for")
    return {
        "apiVersion": 1,
        "groups": [
            {
                "orgId": 1,
                "name": group["title"],
                "folder": FOLDER,
                "interval": span(group["interval"]),
                "rules": [
                    {name: value for name, value in rule.items() if name not in own}
                    | {"keepFiringFor": rule["keep_firing_for"]}
                    for rule in group["rules"]
                ],
            }
            for group in grafana_groups(data_source, runbooks=runbooks, page=page)
        ],
    }


def _grafana_rule(alert: Alert, group: Group, data_source: str, write: Texts) -> dict[str, Any]:
    queries = {MEASURED: alert.expr} | {name: _query_of(number) for name, number in alert.numbers.items()}
    return {
        "uid": re.sub(r"(?<=[a-z])(?=[A-Z])", "-", alert.name).lower(),
        "orgID": 1,
        "folderUID": FOLDER_UID,
        "ruleGroup": group.name,
        "title": alert.name,
        "condition": "fires",
        "data": [*_queries(queries, data_source, group.interval_s), _threshold(MEASURED)],
        # The results of the expression are faults, so no data means that all is well.
        "noDataState": "OK",
        "execErrState": "Error",
        "for": span(alert.wait_s) if alert.wait_s else "0s",
        "keep_firing_for": span(alert.keep_s),
        "annotations": write.annotations(alert),
        "labels": {"severity": alert.severity},
        "isPaused": False,
    }


def _queries(queries: dict[str, str], data_source: str, interval_s: float) -> Iterator[dict[str, Any]]:
    """Yield for each number a query and its reduction, which Grafana before 10.1 also needs for an instant query."""
    for name, expr in queries.items():
        query = f"query_{name}"
        yield {
            "refId": query,
            "queryType": "",
            "relativeTimeRange": {"from": 600, "to": 0},
            "datasourceUid": data_source,
            "model": {
                "refId": query,
                "datasource": {"type": "prometheus", "uid": data_source},
                "editorMode": "code",
                "expr": expr,
                "instant": True,
                "range": False,
                "intervalMs": round(1000 * interval_s),
                "maxDataPoints": 43200,
            },
        }
        yield _expression(name, {"type": "reduce", "expression": query, "reducer": "last"})


def _threshold(name: str) -> dict[str, Any]:
    """Return a condition that fires for any result of the expression, since no expression is below 0."""
    return _expression(
        "fires",
        {
            "type": "threshold",
            "expression": name,
            "conditions": [
                {
                    "type": "query",
                    "evaluator": {"type": "gt", "params": [-1]},
                    "operator": {"type": "and"},
                    "query": {"params": [name]},
                    "reducer": {"type": "last", "params": []},
                }
            ],
        },
    )


def _expression(name: str, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "refId": name,
        "queryType": "",
        "relativeTimeRange": {"from": 0, "to": 0},
        "datasourceUid": EXPRESSION,
        "model": {"refId": name, "datasource": {"type": EXPRESSION, "uid": EXPRESSION}, **model},
    }


def _query_of(number: Number) -> str:
    """Return the expression of a number for all series of an alert at once."""
    return " or ".join(f"max {by(number.labels)} ({number.form.format(metric)})" for metric in number.metrics)
