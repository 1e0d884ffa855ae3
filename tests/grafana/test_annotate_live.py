"""Annotations of what a real worker finds, with the ends that its own metrics tell a real Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.bus.embedded import EmbeddedBus
from laggard.pipeline.grafana.annotate import Annotator
from laggard.pipeline.grafana.client import Grafana
from laggard.pipeline.grafana.ends import Ends
from laggard.pipeline.topics import Topics
from tests.grafana.scene import Script, Trouble, playing
from tests.grafana.stand_in import TOKEN, running
from tests.monitoring.servers import api, awaited

if TYPE_CHECKING:
    from pathlib import Path

    from laggard.pipeline.grafana.notes import Open

SCRIPT = Script(
    lasts_s=12.0, troubles=(Trouble("web-1", "nginx", "hog", 2.0, 600.0, 1.3),), marks=((7.0, "web-1"),), junk_s=600.0
)


@pytest.mark.slow
def test_an_open_incident_is_known_by_its_time(tmp_path: Path) -> None:
    """The anomaly's time in the topic is the start that the metrics tell: only so its end can be found."""
    with (
        playing(tmp_path, SCRIPT, {"web-1": 1}) as played,
        running("12.1") as grafana,
        EmbeddedBus(tmp_path / "laggard.db") as bus,
        Grafana(grafana.url, TOKEN) as client,
    ):

        def answer(expr: str, start: float, end: float, step: float) -> Any:
            span = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
            found = api(played.url, "/api/v1/query_range", query=expr, **span)["data"]["result"]
            return [(each["metric"], [(at, float(value)) for at, value in each["values"]]) for each in found]

        grafana.answer = answer
        annotator = Annotator(bus, Topics(), client, Ends(client, "prom-1", step_s=1.0), since_s=3600.0)
        annotator.begin()

        def known() -> list[Open]:
            annotator.step(0.2)
            return [*annotator.open.values()]

        try:
            awaited(known, lambda found: bool(found) and all(one.scope for one in found), within_s=60)
        finally:
            annotator.close()
        notes = sorted(grafana.annotations.values(), key=lambda each: each["time"])
    assert {one.scope for one in annotator.open.values()} <= {"process", "host"}
    assert "process" in {one.scope for one in annotator.open.values()}
    marks = [note for note in notes if "mark" in note["tags"]]
    assert [(mark["time"] / 1000, mark["tags"][2]) for mark in marks] == [(pytest.approx(played.begins + 7), "web-1")]
    incidents = [note for note in notes if "incident" in note["tags"]]
    assert len(incidents) == len(annotator.open)
    assert all(played.begins + 2 <= note["time"] / 1000 <= played.ends for note in incidents)
    assert any("nginx" in note["text"] for note in incidents)
