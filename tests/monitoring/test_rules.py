"""The rules: what is committed is current, Prometheus takes it, every alert does what its tests say."""

from __future__ import annotations

import copy
import json
import math
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft4Validator

from laggard.pipeline.cli import laggard
from laggard.pipeline.grafana.alerts import Z, alerts, groups
from laggard.pipeline.grafana.labels import MEASURED, span
from laggard.pipeline.grafana.rules import (
    EXPRESSION,
    GRAFANA,
    RUNBOOKS,
    expressions,
    grafana_groups,
    grafana_provisioning,
    prometheus_rule_resource,
    prometheus_rules,
)
from laggard.pipeline.metrics.declared import METRICS
from tests.deploy.files import DEPLOY, documents
from tests.programs import path_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

RULES = DEPLOY / "prometheus/laggard.rules.yaml"
TESTS = DEPLOY / "prometheus/tests"
OPENAPI = sorted((Path(__file__).parents[1] / "grafana/openapi").glob("grafana-*.json"))
NAMES = [alert.name for alert in alerts()]
GENERATED = "# Generated from pipeline/grafana/alerts.py by `pytest --update-golden`.\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def written(document: Any) -> str:
    return GENERATED + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10**6, allow_unicode=True)


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("prometheus/laggard.rules.yaml", prometheus_rules),
        ("kubernetes/components/prometheus-operator/prometheusrule.yaml", prometheus_rule_resource),
        ("grafana/alerting/laggard.yaml", grafana_provisioning),
    ],
)
def test_the_files_are_current(path: str, document: Callable[[], Any], golden: Callable[[Path, str], None]) -> None:
    golden(DEPLOY / path, written(document()))
    assert documents((DEPLOY / path).read_text()) == [document()], "what is read is what was written"


# Prometheus.


def run_promtool(*arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run([path_of("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    code, said = run_promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert (code, f"{len(NAMES) + 7} rules found" in said) == (0, True), said
    fast = tmp_path / "fast.yaml"
    fast.write_text(json.dumps(prometheus_rules(1000.0)))
    code, said = run_promtool("check", "rules", "--lint=all", "--lint-fatal", fast)
    assert code == 0, said


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_alert_fires_keeps_firing_and_resolves(name: str) -> None:
    code, said = run_promtool("test", "rules", TESTS / f"{name}.yaml")
    assert code == 0, said


def test_every_alert_is_tested_before_it_fires_when_it_fires_and_when_it_has_ended() -> None:
    assert sorted(path.stem for path in TESTS.iterdir()) == sorted(NAMES)
    for name in NAMES:
        (document,) = documents((TESTS / f"{name}.yaml").read_text())
        asked = document["tests"][0]["alert_rule_test"]
        assert {each["alertname"] for each in asked} == {name}
        fires = "".join("x" if each["exp_alerts"] else "." for each in asked)
        assert re.fullmatch(r"\.+x{2,}\.+", fires), f"{name}: {fires}"


def _at_once(rule: dict[str, Any]) -> None:
    rule["for"] = "0s"


def _later(rule: dict[str, Any]) -> None:
    rule["for"] = "5h"


def _not_kept(rule: dict[str, Any]) -> None:
    del rule["keep_firing_for"]


def _kept_long(rule: dict[str, Any]) -> None:
    rule["keep_firing_for"] = "30d"


def _whoever_saw_it(rule: dict[str, Any]) -> None:
    rule["expr"] = re.sub(r"\n\s+and on \([^)]*\) laggard_false_alarms_budget_per_day", "", rule["expr"])


@pytest.mark.parametrize("change", [_at_once, _later, _not_kept, _kept_long, _whoever_saw_it])
def test_the_tests_of_the_alerts_can_fail(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    for rule in (rule for group in prometheus_rules()["groups"] for rule in group["rules"] if "alert" in rule):
        changed = copy.deepcopy(rule)
        change(changed)
        if changed == rule:
            continue
        name = rule["alert"]
        (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "changed", "rules": [changed]}]}))
        test = (TESTS / f"{name}.yaml").read_text().replace("../laggard.rules.yaml", "rules.yaml")
        (tmp_path / f"{name}.yaml").write_text(test)
        code, said = run_promtool("test", "rules", tmp_path / f"{name}.yaml")
        assert (code, f"alertname: {name}" in said) == (1, True), f"{name}: {said}"


PAGE = "https://laggard.example"

LED = """
rule_files: [rules.yaml]
evaluation_interval: 30s
tests:
  - interval: 1m
    input_series:
      - {series: 'laggard_incident_score{host="web-1", operator="gaussian", scope="process", row="a"}', values: 2x9}
      - {series: 'laggard_incident_start_timestamp_seconds{host="web-1", scope="process", row="a"}', values: 1200.4x9}
      - {series: 'laggard_false_alarms_budget_per_day{host="web-1", operator="gaussian"}', values: 1x9}
      - {series: 'laggard_incident_score{pool="a&at=1/ü", operator="covariance", scope="member", row="a"}', values: 2x9}
      - {series: 'laggard_false_alarms_budget_per_day{pool="a&at=1/ü", operator="covariance"}', values: 1x9}
    alert_rule_test:
      - alertname: LaggardIncident
        eval_time: 5m
        exp_alerts:
          - exp_labels: {severity: info, host: web-1, scope: process, row: a}
            exp_annotations: {page_url: "https://laggard.example/incidents?host=web-1&at=1201"}
          - exp_labels: {severity: info, pool: "a&at=1/ü", scope: member, row: a}
            exp_annotations: {page_url: "https://laggard.example/incidents?pool=a%26at%3D1%2F%C3%BC&at=now"}
      - alertname: LaggardDown
        eval_time: 9m
        exp_alerts:
          - exp_labels: {severity: critical, job: laggard}
            exp_annotations: {page_url: https://laggard.example/pipeline}
"""


def test_alerts_lead_to_the_page_where_it_is_said_to_be(tmp_path: Path) -> None:
    rules = prometheus_rules(page=PAGE)
    for rule in (rule for group in rules["groups"] for rule in group["rules"] if "alert" in rule):
        assert f"{PAGE}/" in rule["annotations"]["page_url"], rule["alert"]
        rule["annotations"] = {"page_url": rule["annotations"]["page_url"]}
    (tmp_path / "rules.yaml").write_text(json.dumps(rules))
    (tmp_path / "test.yaml").write_text(LED)
    code, said = run_promtool("test", "rules", tmp_path / "test.yaml")
    assert code == 0, said
    assert "page_url" not in json.dumps(prometheus_rules()), "which would lead nowhere"


@pytest.mark.parametrize("form", ["prometheus", "operator", "grafana"])
def test_the_command_prints_links_to_the_page(form: str) -> None:
    text = json.dumps(printed(form, "--set", f"serve.url={PAGE}/"))
    assert text.count("page_url") == text.count(f"{PAGE}/") == len(NAMES)


def printed(form: str, *more: str) -> Any:
    settings = ("--set", "grafana.url=https://grafana.example/g/", "--set", "grafana.data_source=mimir", *more)
    done = CliRunner().invoke(laggard, ["rules", "--for", form, *settings, "--runbooks", "https://books.example/"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_command_prints_them_with_links_to_what_there_is(tmp_path: Path) -> None:
    grafana, books = "https://grafana.example/g", "https://books.example"
    assert printed("prometheus") == prometheus_rules(grafana=grafana, runbooks=books)
    assert printed("operator") == prometheus_rule_resource(grafana, books)
    assert printed("grafana") == grafana_provisioning("mimir", runbooks=books)
    text = json.dumps(printed("prometheus"))
    assert RUNBOOKS not in text
    assert GRAFANA not in text
    assert text.count("https://grafana.example/g/d/") == text.count("https://books.example/Laggard") == len(NAMES)
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    assert run_promtool("check", "rules", path)[0] == 0


def test_the_page_names_every_alert_with_its_severity() -> None:
    page = (DEPLOY / "prometheus/README.md").read_text()
    rows = re.findall(r"^\| \[(\w+)\]\(\.\./runbooks/(\w+)\.md\) \| (\w+) \|", page, re.MULTILINE)
    assert rows == [(alert.name, alert.name, alert.severity) for alert in alerts()]


# What the definitions promise.


def test_incidents_never_page_and_every_alert_has_a_runbook() -> None:
    for alert in alerts():
        assert "Incident" not in alert.name or alert.severity in {"info", "warning"}
        assert (DEPLOY / f"runbooks/{alert.name}.md").is_file(), alert.name
    assert {path.stem for path in (DEPLOY / "runbooks").glob("Laggard*.md")} == set(NAMES)


def test_every_metric_of_an_expression_is_exported() -> None:
    exported = {f"{metric.exposed}{suffix}" for metric in METRICS for suffix in ("", "_bucket", "_sum", "_count")}
    for each in expressions():
        for metric in re.findall(r"(?<![\w:])laggard_\w+(?!:)\b", each.text):
            assert metric in exported, f"{each.place}: {metric}"


def test_expressions_are_those_of_all_forms() -> None:
    given = {each.text for each in expressions()}
    prometheus = {rule["expr"] for group in prometheus_rules()["groups"] for rule in group["rules"]}
    grafana = {
        query["model"]["expr"]
        for group in grafana_groups()
        for rule in group["rules"]
        for query in rule["data"]
        if query["datasourceUid"] != EXPRESSION
    }
    assert given == prometheus | grafana
    assert {each.place for each in expressions() if not each.empty} > {
        "host:laggard_score:max",
        "LaggardHostSilent, at",
    }


@pytest.mark.parametrize("per_day", [0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 24.0, 1000.0])
def test_a_week_over_the_budget_is_hardly_ever_chance(per_day: float) -> None:
    mean = 7.0 * per_day
    most = math.floor((math.sqrt(mean) + Z / 2.0) ** 2)
    assert 1.0 - at_most(most, mean) < 1e-4
    assert at_most(most, 3.0 * mean + 20.0) < 0.5, "three times the budget and 20 are found"


def at_most(count: int, mean: float) -> float:
    """The probability that a Poisson count is not greater."""
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count + 1))


@pytest.mark.parametrize(
    ("seconds", "said"), [(30, "30s"), (90, "1m30s"), (900, "15m"), (86_400 * 7, "7d"), (0.25, "250ms"), (0, "1ms")]
)
def test_spans_are_promql(seconds: float, said: str) -> None:
    assert span(seconds) == said


OF_NOW = {"LaggardIncident", "LaggardHostSaturated", "LaggardSourceUnreadable"}
"""Alerts whose expressions have no time."""


def test_faster_divides_every_time() -> None:
    slow, fast = groups(), groups(60.0)
    assert [group.interval_s for group in fast] == [group.interval_s / 60 for group in slow]
    for one, other in zip(alerts(), alerts(60.0), strict=True):
        assert (other.wait_s, other.keep_s) == (one.wait_s / 60, one.keep_s / 60)
        assert one.expr != other.expr or one.name in OF_NOW


# Grafana.


@cache
def grafana_rules() -> list[dict[str, Any]]:
    return [rule for group in grafana_groups() for rule in group["rules"]]


def test_grafana_has_the_same_alerts() -> None:
    taken = [rule for group in prometheus_rules()["groups"] for rule in group["rules"] if "alert" in rule]
    for rule, same in zip(grafana_rules(), taken, strict=True):
        assert (rule["title"], rule["labels"]) == (same["alert"], same["labels"])
        assert (rule["for"], rule["keep_firing_for"]) == (same["for"], same["keep_firing_for"])
        assert list(rule["annotations"]) == list(same["annotations"])
        asked = {query["refId"]: query["model"] for query in rule["data"]}
        assert asked[f"query_{MEASURED}"]["expr"] == same["expr"]
        assert asked[rule["condition"]]["expression"] == MEASURED
        assert asked[MEASURED]["expression"] == f"query_{MEASURED}"


def test_grafana_finds_every_number_that_a_text_tells() -> None:
    for rule in grafana_rules():
        known = {query["refId"] for query in rule["data"]}
        told = re.findall(r'index \.Values "(\w+)"', " ".join(rule["annotations"].values()))
        assert set(told) <= known
        assert "$" not in "".join(rule["annotations"].values()), "which a provisioning file takes for a variable"


def test_uids_and_intervals_are_what_grafana_takes() -> None:
    uids = [rule["uid"] for rule in grafana_rules()]
    assert len(set(uids)) == len(uids)
    assert all(re.fullmatch(r"[a-z0-9-]{1,40}", uid) for uid in uids), uids
    for group in grafana_groups():
        assert group["interval"] % 10 == 0
        for rule in group["rules"]:
            assert rule["for"] == "0s" or rule["for"].endswith(("m", "h", "d"))


@pytest.mark.parametrize("path", OPENAPI, ids=lambda path: path.stem)
def test_grafanas_own_document_describes_the_rules(path: Path) -> None:
    document = json.loads(path.read_text())
    schema = {"$ref": "#/definitions/AlertRuleGroup", "definitions": document["definitions"]}
    for group in grafana_groups():
        Draft4Validator(schema).validate(group)
        known = document["definitions"]["ProvisionedAlertRule"]["properties"]
        unknown = {name for rule in group["rules"] for name in rule if name not in known}
        assert unknown <= {"keep_firing_for"}, "which Grafana 11 and older pass over"


def test_there_are_documents_of_grafana() -> None:
    assert OPENAPI
