"""The dashboards: current, whole, and fitting to each other. Their queries run in `test_queries`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.generate.dashboards.every import DASHBOARDS, rendered
from deploy.generate.dashboards.layout import as_json
from tests.grafana.queries import FOLDER, asked, metrics_of, panels_of, without_texts

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = list(DASHBOARDS)


@pytest.fixture(params=NAMES)
def document(request: pytest.FixtureRequest) -> Any:
    return json.loads((FOLDER / request.param).read_text())


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_file_is_current(name: str, golden: Callable[..., None]) -> None:
    golden(FOLDER / name, rendered()[name])


def test_no_other_file_is_there() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(NAMES)


def test_the_typed_sdk_reads_it_and_writes_the_same(document: Any) -> None:
    register_default_plugins()
    again = json.loads(as_json(Dashboard.from_json(document)))
    for annotation in document["annotations"]["list"]:
        for name in ("step", "titleFormat", "textFormat", "tagKeys"):  # which the SDK has no fields for
            annotation.pop(name, None)
    assert again == document


def test_it_loads_in_grafana_10(document: Any) -> None:
    assert document["schemaVersion"] <= 37, "Grafana 10.0 knows no later one"
    assert "id" not in document, "the number of a dashboard is Grafana's"


def test_panels_say_what_they_are_and_what_to_do(document: Any) -> None:
    panels = panels_of(document)
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"], panel
        if panel["type"] != "row":
            assert len(panel["description"]) > 30, panel["title"]
            assert panel["fieldConfig"]["defaults"].get("unit") or panel["type"] in {"table", "state-timeline"}


def test_panels_fill_the_grid_without_touching(document: Any) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels_of(document):
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    for y in range(max(y for _, y in taken) + 1):
        width = sum((x, y) in taken for x in range(24))
        assert width in {8, 24}, f"row {y} of the grid has {width} columns; a panel that is repeated has 8"


def test_scores_have_their_threshold_at_one(document: Any) -> None:
    for panel in panels_of(document):
        if panel["type"] == "timeseries" and re.match(
            r"max by \(.+?\) \(laggard_\w*score\b", panel["targets"][0]["expr"]
        ):
            steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
            assert [step["value"] for step in steps] == [None, 1]


def test_every_query_goes_to_the_chosen_source(document: Any) -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels_of(document):
        for target in panel.get("targets", ()):
            assert target["datasource"] == panel["datasource"] == chosen
    for variable in document["templating"]["list"]:
        assert variable["type"] == "datasource" or variable["datasource"] == chosen
    for annotation in document["annotations"]["list"]:
        assert annotation["datasource"] in (chosen, {"type": "grafana", "uid": "-- Grafana --"})


def test_every_query_is_bound_to_environment_and_cluster() -> None:
    for query in asked():
        wanted = {"environment", "cluster"}
        if "variable environment" in query.place:
            wanted = set()
        elif "variable cluster" in query.place:
            wanted = {"environment"}
        for selector in re.findall(r"\b(?:laggard|process|up)\b\w*(\{[^}]*\})?", without_texts(query.expression)):
            assert wanted <= set(re.findall(r"(\w+)=", selector)), query


def test_partitions_of_one_name_in_two_clusters_are_two() -> None:
    kept = [
        (query.place, set(labels.split(", ")))
        for query in asked()
        for labels in re.findall(r"max by \(([^)]*\bpartition)\)", query.expression)
    ]
    assert len(kept) > 5
    assert [place for place, labels in kept if not labels >= {"environment", "cluster"}] == []


def test_every_query_has_a_place_of_its_own() -> None:
    places = [query.place for query in asked()]
    assert len(set(places)) == len(places) > 80


def test_every_metric_is_one_of_those_that_are_exported() -> None:
    from laggard.pipeline.metrics.declared import METRICS  # noqa: PLC0415

    exported = {metric.exposed for metric in METRICS}
    histograms = [metric.exposed for metric in METRICS if metric.kind == "histogram"]
    exported |= {f"{name}_{end}" for name in histograms for end in ("bucket", "count", "sum")}
    exported |= {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"}
    for query in asked():
        assert metrics_of(query.expression), query
        assert metrics_of(query.expression) <= exported, query


def test_links_lead_to_what_is_there_and_keep_what_was_chosen() -> None:
    documents = [json.loads((FOLDER / name).read_text()) for name in NAMES]
    variables = {each["uid"]: {one["name"] for one in each["templating"]["list"]} for each in documents}
    urls = [url for each in documents for url in re.findall(r'"url": "([^"]+)"', json.dumps(each))]
    assert len(urls) >= 4
    for url in urls:
        parts = urlsplit(url)
        uid = parts.path.removeprefix("/d/")
        kept = set(re.findall(r"\$\{(\w+):queryparam\}", parts.query))
        given = {name.removeprefix("var-") for name, _ in parse_qsl(parts.query) if name.startswith("var-")}
        assert {"datasource", "environment", "cluster"} <= kept | given <= variables[uid], url
        assert "${__url_time_range}" in url or "from=${" in url, url
    for each in documents:
        (link,) = each["links"]
        assert (link["tags"], link["keepTime"], link["includeVars"]) == (each["tags"], True, True)


def test_links_of_tables_take_columns_that_are_there(document: Any) -> None:
    for panel in panels_of(document):
        renamed = {
            name
            for change in panel.get("transformations", ())
            if change["id"] == "organize"
            for name in change["options"]["renameByName"].values()
        }
        for column in re.findall(r"__data\.fields\.(\w+)", json.dumps(panel)):
            assert column in renamed, panel["title"]
        if panel["type"] == "table":
            overridden = {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]}
            assert overridden <= renamed
            assert {one["displayName"] for one in panel["options"]["sortBy"]} <= renamed
