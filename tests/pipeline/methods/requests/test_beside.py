"""An incident of an application names what its traced requests wait for, and that of a service what its model says."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.topics import REQUESTS, Topics
from laggard.pipeline.methods.incidents.beside import Beside
from laggard.pipeline.methods.requests.beside import LONGEST_S, beside
from laggard.pipeline.methods.requests.stored import requests_on
from tests.pipeline.methods.incidents.joined import closed, incident
from tests.pipeline.methods.requests.told import LOCKED, normal, outlying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records.outputs import Incident
    from tests.pipeline.conftest import Called

TOPICS = Topics()
SHOP = "wordpress"


def of_model(ts: float, predicted: float = 0.031) -> Incident:
    """An incident of an application that is open."""
    measured = FeatureScore("response_time_mean_s", 0.122, predicted, math.nan, 3.0)
    ranking = Ranking(ts, 3.0, (RowScore(SHOP, SHOP, 3.0, (measured,), 60.0),), 60.0, young=False)
    sentence = "The mean response time of wordpress is 122 ms."
    return replace(incident(1, ts, host=SHOP, sentence=sentence, blame=None), keyed_by="application", ranking=ranking)


def of_requests(ts: float, until_ts: float) -> Incident:
    """An incident of the service, which has ended."""
    return replace(closed(2, ts, until_ts, host=SHOP), keyed_by="service")


@pytest.fixture
def begin() -> float:
    return math.floor(time.time()) - 1800.0


@pytest.fixture
def bus(tmp_path: Path, begin: float) -> Iterator[EmbeddedBus]:
    """A bus with 200 normal requests and 11 outliers of the service."""
    with EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        for request in normal(begin=begin):
            bus.append([Outgoing(TOPICS.name(REQUESTS), request.service, encode(request), request.ts)])
        for request, output in outlying(begin=begin):
            bus.append([Outgoing(TOPICS.name(REQUESTS), request.service, encode(request), request.ts)])
            bus.append([outgoing(output, TOPICS)])
        yield bus


def found(bus: Bus, one: Incident, now: float) -> Beside | None:
    return beside(bus, TOPICS, one, partial(requests_on, bus, TOPICS), now)


def test_an_application_has_the_waits_of_its_requests(bus: EmbeddedBus, begin: float) -> None:
    service = of_requests(begin + 20.0, begin + 120.0)
    bus.append([outgoing(service, TOPICS)])
    assert found(bus, of_model(begin), begin + 300.0) == Beside(
        "Traced requests",
        (
            "The counters of its hosts explain 31 ms of the mean response time of 122 ms.",
            "Outliers: 11 of its 211 traced requests, with a median of 122 ms; normal ones have 124 ms.",
            f"10 of them: {LOCKED}.",
        ),
        service.id,
    )


def test_only_requests_in_the_time_of_the_incident_count(bus: EmbeddedBus, begin: float) -> None:
    late = found(bus, of_model(begin + 150.0), begin + 300.0)
    assert late is not None
    assert late.sentences[1:] == ("None of its 50 traced requests is an outlier.",)
    assert late.incident == ""
    assert found(bus, of_model(begin - 2 * LONGEST_S), begin + 300.0) is None, "they came long after its beginning"
    assert found(bus, replace(of_model(begin), key="api"), begin + 300.0) is None
    assert found(bus, incident(3, begin, host=SHOP), begin + 300.0) is None, "a host has no requests of its own"


def test_a_prediction_that_is_unknown_is_left_out(bus: EmbeddedBus, begin: float) -> None:
    without = found(bus, of_model(begin, math.nan), begin + 300.0)
    assert without is not None
    assert without.sentences[0].startswith("Outliers: 11 of ")


def test_a_service_has_the_report_of_the_model_in_its_time(bus: EmbeddedBus, begin: float) -> None:
    service = of_requests(begin + 20.0, begin + 120.0)
    assert found(bus, service, begin + 300.0) is None
    model = of_model(begin)
    bus.append([outgoing(model, TOPICS)])
    assert found(bus, service, begin + 300.0) == Beside("Performance model", (model.sentence,), model.id)
    assert found(bus, replace(service, until_ts=begin + 30.0), begin + 300.0) is not None
    later = replace(incident(4, begin + 500.0, host=SHOP), keyed_by="application")
    assert found(bus, replace(service, opened_ts=begin + 20.0, key="api"), begin + 300.0) is None
    bus.append([outgoing(later, TOPICS)])
    again = found(bus, service, begin + 900.0)
    assert again is not None
    assert again.incident == model.id, "the other one opened after the end"


def test_the_command_shows_it(bus: EmbeddedBus, begin: float, laggard: Called) -> None:
    model, service = of_model(begin), of_requests(begin + 20.0, begin + 120.0)
    bus.append([outgoing(each, TOPICS) for each in (model, service)])
    code, out, _ = laggard("incidents", model.id, "--bus", str(bus.path))
    assert code == 0
    text = " ".join(out.split())
    assert f"Traced requests meanwhile (incident {service.id[:8]}): The counters of its hosts explain 31 ms" in text
    assert f"10 of them: {LOCKED}." in text
    code, out, _ = laggard("incidents", service.id, "--bus", str(bus.path))
    assert code == 0
    assert f"Performance model meanwhile (incident {model.id[:8]}): {model.sentence}" in " ".join(out.split())
