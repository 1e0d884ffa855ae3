"""Every query of every panel, variable, annotation and rule, asked of a real Prometheus that reads a real worker."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.topics import Topics
from laggard.pipeline.grafana.annotate import Annotator
from laggard.pipeline.grafana.client import Grafana
from laggard.pipeline.grafana.rules import expressions
from laggard.pipeline.metrics.declared import METRICS
from tests import npm
from tests.grafana.queries import FOLDER, FUNCTION, LABEL, Asked, asked, filled, metrics_of, panels_of
from tests.grafana.scene import APPLICATION, LABELS, SERVICE, THREADS, Played, Script, Trouble, playing
from tests.grafana.service import Held
from tests.grafana.stand_in import TOKEN, running
from tests.monitoring.servers import api, awaited, query

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.slow

SCRIPT = Script(
    lasts_s=26.0,
    troubles=(
        Trouble("web-1", "nginx", "hog", 2.0, 600.0, 1.5),  # three of four cores
        Trouble(THREADS, "java/http-nio-8080-exec-7", "busy", 1.0, 600.0, 1.0),
    ),
    held=(Held("lock", 11.0, 600.0, 0.3),),  # a tick of requests is 10 s, and the first one is not all live
    marks=((7.0, "web-1"),),
    junk_s=8.0,
)
SEEDS = {"web-1": 1, "db-1": 2, "cache-1": 3}

EVERYWHERE = {"environment": ".*", "cluster": ".*"}
HERE = LABELS
NOWHERE = {"environment": "nowhere", "cluster": ".*"}
MACROS = {"__range": "600s", "__range_s": "600", "__interval": "2s", "__rate_interval": "10s"}

EMPTY_BY_DESIGN: Mapping[str, str] = {}
"""Place of a query: why it has nothing to say in this scene."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with playing(tmp_path_factory.mktemp("scene"), SCRIPT, SEEDS) as scene:
        yield scene


def answers(played: Played, one: Asked, place: Mapping[str, str]) -> list[float]:
    """The values that Prometheus gives to a query, as Grafana asks it; names count as ones. Raises for a refusal."""
    host = "web-1" if one.place.startswith("host") else ".+"
    variables = {"host": host, "application": ".+", "pool": ".+", "service": ".+", "row": "nginx", "feature": ".*"}
    text = filled(one.expression, {**MACROS, **place, **variables})
    ends = f"{played.ends:.3f}"
    function = FUNCTION.fullmatch(text)
    if function and function[1] == "label_values":
        selector = LABEL.fullmatch(function[2])
        assert selector, one
        within = {"start": f"{played.started:.3f}", "end": ends}
        found = api(played.url, f"/api/v1/label/{selector[2]}/values", **{"match[]": selector[1]}, **within)
        return [1.0 for _ in found["data"]]
    if one.instant:
        result = query(played.url, function[2] if function else text, time=ends)
        return [float(series["value"][1]) for series in result]
    between = {"query": text, "start": f"{played.started:.3f}", "end": ends, "step": "1"}
    series = api(played.url, "/api/v1/query_range", **between)["data"]["result"]
    return [float(value) for each in series for _, value in each["values"]]


def test_each_has_an_answer(played: Played) -> None:
    for one in asked():
        for place in (EVERYWHERE, HERE):
            values = [value for value in answers(played, one, place) if not math.isnan(value)]
            assert bool(values) != (one.place in EMPTY_BY_DESIGN), EMPTY_BY_DESIGN.get(one.place, f"{one}: it has none")


RULES = list(expressions(faster=120.0))
"""With times that fit into the scene."""


def test_each_rule_has_an_answer(played: Played) -> None:
    for rule in RULES:
        assert query(played.url, rule.text, time=f"{played.ends:.3f}") or rule.empty, rule


@pytest.mark.parametrize(
    ("keyed_by", "labels"),
    [
        ("host", {"host": "web-1", "row": "nginx"}),
        ("application", {"application": APPLICATION, "row": "web-1", "resource": "cpu"}),
        ("pool", {"pool": THREADS, "scope": "member", "row": "java/http-nio-8080-exec-7"}),
        ("service", {"service": SERVICE, "scope": "request", "feature": "outlying_ratio"}),
    ],
)
def test_each_incident_has_its_alert(played: Played, keyed_by: str, labels: dict[str, str]) -> None:
    (rule,) = [rule for rule in RULES if rule.place == "LaggardIncident"]
    alerts = [alert["metric"] for alert in query(played.url, rule.text, time=f"{played.ends:.3f}")]
    found = [alert for alert in alerts if keyed_by in alert]
    assert any(alert.items() >= labels.items() for alert in found), found
    assert keyed_by == "host" or len(found) == 1, "of a host there may be others"


def test_what_is_empty_by_design_is_still_asked() -> None:
    assert EMPTY_BY_DESIGN.keys() <= {one.place for one in asked()}


def test_elsewhere_none_has_one(played: Played) -> None:
    for one in asked():
        if "$environment" in one.expression:
            # Not even 0: where no worker responds, nothing is known.
            assert not answers(played, one, NOWHERE), one


def test_every_metric_is_exported(played: Played) -> None:
    named = {name for one in asked() for name in metrics_of(one.expression)}
    named |= {name for rule in RULES for name in metrics_of(rule.text)}
    for name in sorted(named):
        if name.startswith("laggard_source_"):  # no `laggard measure` runs here
            assert name in {metric.exposed for metric in METRICS}
        else:
            assert query(played.url, f"last_over_time({name}[10m])"), f"nothing exports {name}"


@pytest.mark.parametrize(
    ("place", "labels"),
    [
        ("overview", {**LABELS, "host": "web-1", "scope": "process", "row": "nginx", "feature": "cpu_user_ratio"}),
        ("applications", {"application": APPLICATION, "row": "web-1", "resource": "cpu"}),
        ("requests", {"service": SERVICE, "row": "lock sidebar"}),
    ],
)
def test_the_incident_is_told_with_what_stood_out(played: Played, place: str, labels: dict[str, str]) -> None:
    (table,) = [one for one in asked() if one.place == f"{place}: Open incidents (table): A"]
    text = filled(table.expression, {**MACROS, **EVERYWHERE, "host": ".+", "application": ".+", "service": ".+"})
    found = query(played.url, text, time=f"{played.ends:.3f}")
    if place == "overview":  # what the host itself shows may be an incident as well
        found = [each for each in found if each["metric"]["scope"] == "process"]
    (incident,) = found
    assert incident["metric"].items() >= labels.items()
    if place == "overview":
        assert incident["metric"] == labels, "and with nothing else"
        assert played.begins * 1000 <= float(incident["value"][1]) <= played.ends * 1000, json.dumps(incident)


def test_the_member_that_deviates_is_told_with_how_and_by_what(played: Played) -> None:
    (table,) = [
        one for one in asked() if one.place.startswith("pools: Deviations at the end") and one.place.endswith(": A")
    ]
    text = filled(table.expression, {**MACROS, **EVERYWHERE, "pool": ".+"})
    found = query(played.url, text, time=f"{played.ends:.3f}")
    labels = {**LABELS, "pool": THREADS, "host": "web-1", "member": "java/http-nio-8080-exec-7"}
    (worst,) = [one for one in found if one["metric"].items() >= labels.items()]
    assert worst["metric"]["kind"] in {"busy", "spike"}
    assert worst["metric"]["feature"] == "cpu_user_ratio"
    assert float(worst["value"][1]) > 1.0


def test_what_a_worker_joins_is_annotated_once(played: Played) -> None:
    """Operators see the process and its host at once: that is one incident."""
    with (
        running("12.1") as grafana,
        EmbeddedBus(played.bus) as bus,
        Grafana(grafana.url, TOKEN) as client,
    ):
        annotator = Annotator(bus, Topics(), client, since_s=3600.0)
        annotator.begin()

        def notes() -> list[dict[str, Any]]:
            annotator.step(0.2)
            return sorted(grafana.annotations.values(), key=lambda each: each["time"])

        try:
            found = awaited(
                notes,
                lambda notes: (
                    {"mark", "host:web-1", "application:shop"} <= {tag for note in notes for tag in note["tags"]}
                ),
                within_s=120,
            )
        finally:
            annotator.close()
    marks = [note for note in found if "mark" in note["tags"]]
    assert [(mark["time"] / 1000, mark["tags"][2]) for mark in marks] == [(pytest.approx(played.begins + 7), "web-1")]
    # The application that the host serves has an incident of its own.
    incidents = [note for note in found if "incident" in note["tags"]]
    (of_application,) = [note for note in incidents if "application:shop" in note["tags"]]
    assert {"open", "operator:regression"} <= set(of_application["tags"])
    (incident,) = [note for note in incidents if "host:web-1" in note["tags"] and "operator:gaussian" in note["tags"]]
    assert "open" in incident["tags"]
    assert played.begins + 2 <= incident["time"] / 1000 <= played.ends
    assert "nginx" in incident["text"]
    assert "laggard incidents " in incident["text"]


LIBRARY = Path(__file__).parent / "library"


def table_frames(played: Played, panel: Mapping[str, Any], host: str) -> list[dict[str, Any]]:
    """What Grafana's data source Prometheus makes of the answers to a table's queries: a frame each."""
    frames = []
    for target in panel["targets"]:
        variables = {"host": host, "application": ".+", "pool": ".+", "service": ".+", "row": "nginx", "feature": ".*"}
        text = filled(target["expr"], {**MACROS, **EVERYWHERE, **variables})
        found = query(played.url, text, time=f"{played.ends:.3f}")
        labels = sorted({name for each in found for name in each["metric"]})
        frames.append(
            {
                "refId": target["refId"],
                "fields": [
                    {"name": "Time", "type": "time", "values": [1000 * each["value"][0] for each in found]},
                    *(
                        {"name": name, "type": "string", "values": [each["metric"].get(name, "") for each in found]}
                        for name in labels
                    ),
                    {
                        "name": f"Value #{target['refId']}",
                        "type": "number",
                        "values": [float(each["value"][1]) for each in found],
                    },
                ],
            }
        )
    return frames


@pytest.fixture(scope="module")
def drawn(played: Played) -> dict[str, Any]:
    """What Grafana's own library makes of all tables, by dashboard and title; and the units that it knows."""
    asking = {}
    for path in FOLDER.glob("*.json"):
        host = "web-1" if path.stem == "host" else ".+"
        for panel in panels_of(json.loads(path.read_text())):
            if panel["type"] == "table":
                title = f"{path.stem}: {panel['title'].partition(':')[0]}"
                asking[title] = {"panel": panel, "frames": table_frames(played, panel, host)}
    script = LIBRARY / "tables.cjs"
    modules = npm.modules(LIBRARY)
    done = subprocess.run(
        [*npm.node(), script],
        input=json.dumps(list(asking.values())),
        env={**os.environ, "NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr[-3000:]
    said = json.loads(done.stdout)
    return {"units": said["units"], **dict(zip(asking, said["tables"], strict=True))}


def shown(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """The texts of a table's cells, row by row and by the heads of their columns; of those that are seen."""
    heads = [column["name"] for column in table["columns"]]
    hidden = {column["name"] for column in table["columns"] if column["hidden"]}
    rows = [dict(zip(heads, (cell["text"] for cell in row.values()), strict=True)) for row in table["rows"]]
    return [{head: text for head, text in row.items() if head not in hidden} for row in rows]


@pytest.mark.timeout(600)  # the first time, the library has to be fetched
def test_grafana_makes_one_row_of_an_incident_and_writes_its_figures(drawn: dict[str, Any]) -> None:
    (row,) = [row for row in shown(drawn["overview: Open incidents"]) if row["Scope"] == "process"]
    assert list(row)[:6] == ["Environment", "Cluster", "Host", "Process", "Feature", "Scope"]
    assert list(row)[6:] == ["Onset", "Score", "Operators", "Value", "Baseline", "\u00b1", "Ratio"]
    assert list(row.values())[:4] == ["production", "north", "web-1", "nginx"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", row["Onset"])
    assert float(row["Value"]) == pytest.approx(3.17, abs=0.1)
    assert float(row["Baseline"]) < 0.1
    assert re.fullmatch(r"\d+\.\d \u00d7", row["Ratio"]), row["Ratio"]


def test_grafana_leads_from_an_incident_to_its_host_around_its_beginning(played: Played, drawn: dict[str, Any]) -> None:
    table = drawn["overview: Open incidents"]
    assert [column["name"] for column in table["columns"] if column["hidden"]] == ["from", "to"]
    (link,) = table["rows"][0]["host"]["links"]
    found = re.search(r"&var-host=web-1&from=(\d+)&to=(\d+)$", link)
    assert found, link
    assert int(found[1]) / 1000 < played.begins < int(found[2]) / 1000 <= played.ends


def test_grafana_makes_one_row_of_a_deviation_and_leads_to_its_pool_and_host(drawn: dict[str, Any]) -> None:
    table = drawn["pools: Deviations at the end of the time range"]
    member = "java/http-nio-8080-exec-7"
    (row,) = [row for row in shown(table) if row["Member"] == member]
    assert list(row)[:7] == ["Environment", "Cluster", "Pool", "Host", "Member", "Kind", "Feature"]
    assert list(row)[7:] == ["Score", "Since", "Value", "Baseline", "\u00b1", "Ratio"]
    assert (row["Pool"], row["Host"], row["Feature"]) == (THREADS, "web-1", "cpu_user_ratio")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", row["Since"])
    assert 3.0 * float(row["Baseline"]) < float(row["Value"]) <= 1.0
    (cells,) = [cells for cells in table["rows"] if cells["member"]["text"] == member]
    (to_host,), (to_pool,) = cells["host"]["links"], cells["pool"]["links"]
    assert to_host.startswith("/d/laggard-host?")
    assert "&var-host=web-1&" in to_host
    assert to_pool.startswith("/d/laggard-pools?")
    assert "&var-pool=web-1%2Fjava%2Fhttp-nio-8080-exec&" in to_pool
    of_overview = shown(drawn["overview: Pools"])
    assert [(row["Pool"], row["Members"]) for row in of_overview if row["Deviating"] == "1"] == [(THREADS, "12")]


def test_grafana_makes_one_row_of_each_host_feature_and_worker(drawn: dict[str, Any]) -> None:
    assert sorted(row["Host"] for row in shown(drawn["overview: Hosts"])) == sorted(SEEDS)
    ranked = shown(drawn["host: Culprits"])
    assert len({(row["Process"], row["Feature"], row["Scope"]) for row in ranked}) == len(ranked) > 10
    assert all(row["Value"] and row["Baseline"] and row["Score"] for row in ranked)
    (worker,) = shown(drawn["pipeline: Workers"])
    assert worker["Partitions"] == "7", (
        "one of gaussian, of cpu, of what re-keys, of models, of pools, of requests, and of what joins"
    )


def test_grafana_knows_every_unit(drawn: dict[str, Any]) -> None:
    used = {
        unit
        for path in FOLDER.glob("*.json")
        for found in re.findall(r'"unit": "([^"]+)"|"id": "unit",\s+"value": "([^"]+)"', path.read_text())
        for unit in found
    }
    assert {unit for unit in used if unit and not unit.startswith("suffix:")} <= set(drawn["units"])
