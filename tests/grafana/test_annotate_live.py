"""Annotations of what a real worker finds and joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.bus.embedded import EmbeddedBus
from laggard.pipeline.grafana.annotate import Annotator
from laggard.pipeline.grafana.client import Grafana
from laggard.pipeline.topics import Topics
from tests.grafana.scene import Script, Trouble, playing
from tests.grafana.stand_in import TOKEN, running
from tests.monitoring.servers import awaited

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = Script(
    lasts_s=12.0,
    troubles=(Trouble("web-1", "nginx", "hog", 2.0, 600.0, 1.3),),
    held=(),
    marks=((7.0, "web-1"),),
    junk_s=600.0,
)


@pytest.mark.slow
def test_what_a_worker_joins_is_annotated_once(tmp_path: Path) -> None:
    """Operators see the process and its host at once: that is one incident."""
    with (
        playing(tmp_path, SCRIPT, {"web-1": 1}) as played,
        running("12.1") as grafana,
        EmbeddedBus(tmp_path / "laggard.db") as bus,
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
                within_s=60,
            )
        finally:
            annotator.close()
    marks = [note for note in found if "mark" in note["tags"]]
    assert [(mark["time"] / 1000, mark["tags"][2]) for mark in marks] == [(pytest.approx(played.begins + 7), "web-1")]
    # The application that the host serves has an incident of its own.
    incidents = [note for note in found if "incident" in note["tags"]]
    (incident,) = [note for note in incidents if "host:web-1" in note["tags"]]
    (of_application,) = [note for note in incidents if note is not incident]
    assert {"open", "application:shop", "operator:regression"} <= set(of_application["tags"])
    assert {"open", "operator:gaussian"} <= set(incident["tags"])
    assert played.begins + 2 <= incident["time"] / 1000 <= played.ends
    assert "nginx" in incident["text"]
    assert "laggard incidents " in incident["text"]
