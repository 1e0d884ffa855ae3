"""The outbox before a real embedded bus that is locked by somebody else for a while."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.pipeline.core.bus import BusError, TopicSpec
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.records import Decoder, Frame, Mark, RecordError, make_layout
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis
from laggard.pipeline.core.sending.outbox import Outbox
from tests.pipeline.core.records.test_diagnosis_json import DIAGNOSIS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAYOUT = make_layout(("a[1@1]",), ("a",), ("threads",))


def frame(sequence: int) -> Frame:
    return Frame("host", "web-1", "process", 1e9 + sequence, sequence, LAYOUT, np.full((1, 1), float(sequence)))


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "laggard.db", busy_timeout_s=0.02) as opened:
        opened.create([TopicSpec("counters")])
        yield opened


@contextmanager
def unavailable(path: Path) -> Iterator[None]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


def sequences(bus: EmbeddedBus) -> list[int]:
    decoder = Decoder()
    (partition,) = bus.partitions("counters")
    return [decoder.decode(record.value, "test").sequence for record in bus.read(partition, 0)]


def test_records_go_out_at_once(bus: EmbeddedBus) -> None:
    outbox = Outbox(bus, "counters")
    outbox.publish([frame(1), Mark("web-1", 1e9, sequence=2)])
    outbox.publish([])
    assert sequences(bus) == [1, 2]
    assert (outbox.waiting_bytes, outbox.dropped) == (0, 0)


def test_they_wait_in_order_while_the_bus_is_unavailable(
    bus: EmbeddedBus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = Outbox(bus, "counters")
    outbox.publish([frame(1)])
    with unavailable(tmp_path / "laggard.db"):
        outbox.publish([frame(2), frame(3)])
        outbox.publish([frame(4)])
        outbox.flush()
        assert outbox.waiting_bytes > 0
    assert sequences(bus) == [1]
    outbox.publish([frame(5)])
    assert sequences(bus) == [1, 2, 3, 4, 5]
    assert (outbox.waiting_bytes, outbox.dropped) == (0, 0)
    assert len(caplog.messages) == 2, "its beginning and its end are said, once"
    assert caplog.messages[1] == "the bus is available again; 0 records were dropped so far"


def test_what_waits_is_bounded_and_the_oldest_goes(bus: EmbeddedBus, tmp_path: Path) -> None:
    one = Outbox(bus, "counters")
    with unavailable(tmp_path / "laggard.db"):
        one.publish([frame(1)])
    size = one.waiting_bytes
    outbox = Outbox(bus, "counters", max_bytes=3 * size)
    with unavailable(tmp_path / "laggard.db"):
        for sequence in range(10):
            outbox.publish([frame(sequence)])
            assert outbox.waiting_bytes <= 3 * size
    outbox.flush()
    assert sequences(bus) == [7, 8, 9]
    assert outbox.dropped == 7


def test_records_that_the_bus_can_never_accept_are_dropped(bus: EmbeddedBus) -> None:
    outbox = Outbox(bus, "no such topic")
    with pytest.raises(BusError, match="no such topic"):
        outbox.publish([frame(1)])
    assert (outbox.waiting_bytes, outbox.dropped) == (0, 1)


def test_at_the_end_it_is_said_what_is_lost(bus: EmbeddedBus, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outbox = Outbox(bus, "counters")
    with unavailable(tmp_path / "laggard.db"):
        outbox.publish([frame(1), frame(2)])
        outbox.close()
    assert caplog.messages[-1] == "the bus is still unavailable; 2 records that waited for it are lost"
    outbox.close()
    assert sequences(bus) == [1, 2]
    assert caplog.messages[-1].startswith("the bus is available again")


def test_a_diagnosis_goes_out_as_the_event_that_subscribers_read(bus: EmbeddedBus) -> None:
    bus.create([TopicSpec("diagnoses")])
    Outbox(bus, "diagnoses").publish([DIAGNOSIS])
    (record,) = bus.read(bus.partitions("diagnoses")[0], 0)
    assert (record.key, record.ts) == (DIAGNOSIS.host, DIAGNOSIS.ts)
    assert dict(record.headers)["ce_type"] == b"laggard.diagnosis"
    assert read_diagnosis(record.value, "test") == DIAGNOSIS


def test_what_cannot_be_written_does_not_stand_in_the_way(bus: EmbeddedBus) -> None:
    bus.create([TopicSpec("diagnoses")])
    outbox = Outbox(bus, "diagnoses")
    with pytest.raises(RecordError, match="progress"):
        outbox.publish([replace(DIAGNOSIS, progress="begun")])  # type: ignore[arg-type] # what no type allows
    outbox.publish([DIAGNOSIS])
    assert (outbox.waiting, outbox.dropped) == (0, 0)
