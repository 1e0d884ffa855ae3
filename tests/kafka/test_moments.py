"""What the page asks of moments and series, of a history on a real broker, among another host's frames."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions, servers_of
from laggard.pipeline.core.records import Frame, encode
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.history.why import History
from laggard.pipeline.investigator.columns import Columns
from laggard.pipeline.investigator.moments import Moments
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.settings import Given
from laggard.pipeline.wiring import wire
from tests.pipeline.history.conftest import FEATURES, HOG, ROWS, START, TICK_S, WRONG, frames

if TYPE_CHECKING:
    from tests.brokers import Cluster

pytestmark = pytest.mark.slow

TICKS = 400
WRITES = "io_write_bytes_per_s"


def test_moments_and_series_are_the_same_on_kafka(broker: Cluster) -> None:
    topics = Topics(f"t{uuid.uuid4().hex[:8]}.")
    shift = time.time() - START - TICKS * TICK_S
    records = [
        replace(each, ts=each.ts + shift, key=host)
        for each in frames("web-1", range(TICKS))
        for host in ("web-1", "db-1")
        if isinstance(each, Frame)
    ]
    flags = {"operators": "gaussian", "gaussian.context": "40m"}
    wired = wire(read_settings(environ={}, flags=[Given(name, value, "test") for name, value in flags.items()]))[0]
    with KafkaBus(
        KafkaOptions(bootstrap=servers_of(broker.location), prefix=topics.prefix, request_timeout_s=60.0)
    ) as bus:
        bus.create(topics.specs(partitions=1))
        bus.append([Outgoing(topics.name(COUNTERS), each.key, encode(each), each.ts) for each in records])
        history = History(bus, topics, wired)
        moments, columns = Moments(history), Columns(history)
        assert columns.bounds("web-1") == pytest.approx((records[0].ts, records[-1].ts))
        for tick in (155, 157, 170, 155):
            found = moments.at("web-1", START + shift + tick * TICK_S)
            assert (found.ranking.rows[0].row == HOG) is (tick in WRONG)
        assert moments.at("db-1", None).why.frame.ts == records[-1].ts
        asked = {"begin": records[0].ts - 1.0, "end": records[-1].ts + 1.0, "points": 5000}
        until = time.monotonic() + 60
        while not (series := columns.thinned("web-1", "process", HOG, WRITES, **asked)).complete:  # type: ignore[arg-type]
            assert time.monotonic() < until
            time.sleep(0.1)
        place = ROWS.index(HOG), FEATURES.index(WRITES)
        told = {each.ts: each.values[place] for each in records if each.key == "web-1" and each.scope == "process"}
        points = zip(series.ts, series.values, strict=True)
        assert {ts: value for ts, value in points if value is not None} == told
