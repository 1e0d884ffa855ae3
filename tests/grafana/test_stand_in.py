"""The stand-in speaks: it notices whatever does not fit Grafana's OpenAPI documents, the library's own mistakes too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from grafana_api import GrafanaFace

from laggard.pipeline.grafana.client import Grafana
from tests.grafana.document import Document
from tests.grafana.stand_in import TOKEN, VERSIONS, StandIn

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTE = {"time": 1000, "tags": ["laggard"], "text": "slow"}


@pytest.fixture
def grafana() -> Iterator[StandIn]:
    stand_in = StandIn("12.1")
    yield stand_in
    stand_in.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "noticed"),
    [
        ("POST", "/annotations", NOTE, None, None),
        (
            "POST",
            "/annotations",
            {**NOTE, "timeEnd": None},
            None,
            "postAnnotation: timeEnd: None is not of type 'integer'",
        ),
        ("POST", "/annotations", {**NOTE, "time": 1.5}, None, "postAnnotation: time: 1.5 is not of type 'integer'"),
        ("POST", "/annotations", {**NOTE, "tag": "x"}, None, "postAnnotation: : Additional properties are not allowed"),
        ("POST", "/annotations", {"time": 1000, "tags": []}, None, "postAnnotation: : 'text' is a required property"),
        ("POST", "/annotations", NOTE, {"X-Grafana": "1"}, "postAnnotation: no header X-Grafana"),
        ("POST", "/annotation", NOTE, None, "POST /annotation: not in the document"),
        ("PUT", "/folders", {}, None, "PUT /folders: not in the document"),
        ("GET", "/annotations?tag=laggard&tags=x", None, None, "getAnnotations: no query parameter tag"),
        ("GET", "/annotations?tags=x&limit=many", None, None, "getAnnotations: query parameter limit is ['many']"),
        ("GET", "/folders/laggard", {"a": 1}, None, "getFolderByUID: expected no body"),
    ],
)
def test_what_does_not_fit_is_noticed(
    grafana: StandIn, *, method: str, path: str, body: Any, headers: Any, noticed: str | None
) -> None:
    with Grafana(grafana.url, TOKEN, sleep=lambda _: None) as client:
        client.ask(method, path, "be tried", body=body, headers=headers, absent=(400, 404, 500))
    assert [each[: len(noticed)] for each in grafana.violations[:1]] == [noticed] if noticed else not grafana.violations


def test_what_the_library_writes_of_an_annotation_does_not_fit(grafana: StandIn) -> None:
    """So laggard writes annotations through its client."""
    library = GrafanaFace(auth=TOKEN, host="127.0.0.1", port=int(grafana.url.rpartition(":")[2]))
    library.annotations.add_annotation(time_from=1000, tags=["laggard"], text="slow")
    library.api.s.close()
    assert [each.partition(": ")[2].partition(":")[0] for each in grafana.violations] == [
        "dashboardId",
        "panelId",
        "timeEnd",
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_documents_have_what_is_called(version: str) -> None:
    document = Document(version)
    known = {operation["operationId"] for _, _, operation in document.operations}
    assert known - {"getHealth"} <= {name for name in dir(StandIn) if not name.startswith("_")}
    assert all(responses["responses"] for _, _, responses in document.operations)
    rule = document.definitions["ProvisionedAlertRule"]
    assert ("keep_firing_for" in rule["properties"]) == (float(version) >= 12)
    assert {"title", "condition", "data"} <= set(rule["required"])
