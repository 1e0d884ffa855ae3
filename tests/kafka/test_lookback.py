"""Since when it has been so, in two days of history on a real broker, among other hosts' frames."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions, servers_of
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.history.lookback import began_before, grown
from laggard.pipeline.history.series import Reader
from tests.pipeline.history.test_lookback import HOUR_S, LEAKS, NOW, history, lookback

if TYPE_CHECKING:
    from tests.brokers import Cluster

pytestmark = pytest.mark.slow


def test_it_is_found_by_a_few_looks_on_kafka_too(broker: Cluster) -> None:
    topics = Topics(f"t{uuid.uuid4().hex[:8]}.")
    topic, now = topics.name(COUNTERS), time.time()
    with KafkaBus(
        KafkaOptions(bootstrap=servers_of(broker.location), prefix=topics.prefix, request_timeout_s=60.0)
    ) as bus:
        bus.create(topics.specs(partitions=1))
        recorded = [replace(each, ts=each.ts - NOW + now, key=host) for each in history() for host in ("web-1", "db-1")]
        bus.append([Outgoing(topic, each.key, encode(each), each.ts) for each in recorded])
        reader = Reader(bus, bus.partition_of(topic, "web-1"), "web-1")
        for row, hours, _ in LEAKS:
            found = grown(lookback(reader, row, moment=now))
            assert found is not None
            assert (now - found.ts) / HOUR_S == pytest.approx(hours, rel=0.1)
        ts, before = began_before(lookback(reader, "two levels", moment=now), now - HOUR_S)
        assert (now - ts) / HOUR_S == pytest.approx(8.0, rel=0.02)
        assert not before
