"""Every query of every panel, variable, annotation and rule, asked of a real Prometheus that reads a real worker."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.grafana.rules import Expression, expressions
from tests.grafana.queries import FUNCTION, LABEL, Asked, asked, filled, metrics_of
from tests.grafana.scene import LABELS, Played, Script, Trouble, playing
from tests.monitoring.servers import api, query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.slow

SCRIPT = Script(
    lasts_s=16.0,
    troubles=(Trouble("web-1", "nginx", "hog", 2.0, 600.0, 1.3),),
    marks=((7.0, "web-1"),),
    junk_s=8.0,
)
SEEDS = {"web-1": 1, "db-1": 2, "cache-1": 3}

EVERYWHERE = {"environment": ".*", "cluster": ".*"}
HERE = LABELS
NOWHERE = {"environment": "nowhere", "cluster": ".*"}
MACROS = {"__range": "60s", "__range_s": "60", "__interval": "2s", "__rate_interval": "10s"}

EMPTY_BY_DESIGN: Mapping[str, str] = {}
"""Place of a query: why it has nothing to say in this scene."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with playing(tmp_path_factory.mktemp("scene"), SCRIPT, SEEDS) as scene:
        yield scene


def answers(played: Played, one: Asked, place: Mapping[str, str]) -> list[float]:
    """The values that Prometheus gives to a query, as Grafana asks it; names count as ones. Raises for a refusal."""
    host = "web-1" if one.place.startswith("host") else ".*"
    text = filled(one.expression, {**MACROS, **place, "host": host, "row": "nginx", "feature": ".*"})
    ends = f"{played.ends:.3f}"
    function = FUNCTION.fullmatch(text)
    if function and function[1] == "label_values":
        selector = LABEL.fullmatch(function[2])
        assert selector, one
        within = {"start": f"{played.begins:.3f}", "end": ends}
        found = api(played.url, f"/api/v1/label/{selector[2]}/values", **{"match[]": selector[1]}, **within)
        return [1.0 for _ in found["data"]]
    if one.instant:
        result = query(played.url, function[2] if function else text, time=ends)
        return [float(series["value"][1]) for series in result]
    between = {"query": text, "start": f"{played.begins:.3f}", "end": ends, "step": "1"}
    series = api(played.url, "/api/v1/query_range", **between)["data"]["result"]
    return [float(value) for each in series for _, value in each["values"]]


@pytest.mark.parametrize("one", list(asked()), ids=lambda one: one.place)
def test_it_has_an_answer(played: Played, one: Asked) -> None:
    for place in (EVERYWHERE, HERE):
        values = [value for value in answers(played, one, place) if not math.isnan(value)]
        assert bool(values) != (one.place in EMPTY_BY_DESIGN), EMPTY_BY_DESIGN.get(one.place, "it has none")


RULES = list(expressions(faster=120.0))
"""With times that fit into the scene."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.place)
def test_a_rule_has_an_answer(played: Played, rule: Expression) -> None:
    found = query(played.url, rule.text, time=f"{played.ends:.3f}")
    assert found or rule.empty


def test_the_incident_has_its_alert(played: Played) -> None:
    (rule,) = [rule for rule in RULES if rule.place == "LaggardAnomaly"]
    (alert,) = query(played.url, rule.text, time=f"{played.ends:.3f}")
    assert (alert["metric"]["host"], alert["metric"]["row"]) == ("web-1", "nginx")


def test_what_is_empty_by_design_is_still_asked() -> None:
    assert EMPTY_BY_DESIGN.keys() <= {one.place for one in asked()}


@pytest.mark.parametrize("one", [one for one in asked() if "$environment" in one.expression], ids=lambda one: one.place)
def test_elsewhere_it_has_none(played: Played, one: Asked) -> None:
    # A count of nothing is 0: see `or_zero`.
    assert all(value == 0.0 for value in answers(played, one, NOWHERE))


def test_every_metric_is_exported(played: Played) -> None:
    named = {name for one in asked() for name in metrics_of(one.expression)}
    named |= {name for rule in RULES for name in metrics_of(rule.text)}
    for name in sorted(named):
        assert query(played.url, f"last_over_time({name}[10m])"), f"nothing exports {name}"


def test_the_incident_is_told_with_what_stood_out(played: Played) -> None:
    (table,) = [one for one in asked() if one.place == "overview: Open incidents (table): A"]
    text = filled(table.expression, {**MACROS, **EVERYWHERE, "host": ".*"})
    (incident,) = query(played.url, text, time=f"{played.ends:.3f}")
    labels: dict[str, Any] = incident["metric"]
    assert labels == {
        **LABELS,
        "host": "web-1",
        "operator": "gaussian",
        "scope": "process",
        "row": "nginx",
        "feature": "cpu_user_ratio",
    }
    assert played.begins * 1000 <= float(incident["value"][1]) <= played.ends * 1000, json.dumps(incident)
