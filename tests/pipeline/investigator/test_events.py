"""Incidents as they are told beside something else."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest

from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.topics import Topics
from laggard.pipeline.investigator import events as module
from laggard.pipeline.investigator.events import Events
from laggard.pipeline.methods.incidents.ledger import Ledger
from tests.pipeline.methods.incidents.joined import closed, incident

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1_795_300_000.0
TOPICS = Topics()


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "bus.db") as bus:
        bus.create(TOPICS.specs())
        bus.append([outgoing(incident(number, NOW + 10 * number), TOPICS) for number in range(20)])
        bus.append([outgoing(incident(99, NOW, host="web-2"), TOPICS)])
        yield bus


def begun(bus: EmbeddedBus) -> tuple[Events, Ledger]:
    ledger = Ledger(bus, TOPICS)
    return Events(mock.Mock(), ledger), ledger


def test_those_of_a_host_are_told_that_were_open_at_the_time(bus: EmbeddedBus) -> None:
    events, _ = begun(bus)
    bus.append([outgoing(closed(3, NOW + 30, NOW + 35), TOPICS)])
    assert [each.begin for each in events.incidents("web-1", NOW + 25, NOW + 40)] == [
        NOW + 10 * n for n in (4, 3, 2, 1, 0)
    ]
    told = {each.begin: each.until for each in events.incidents_at("web-1", NOW + 33)}
    assert told == {NOW: None, NOW + 10: None, NOW + 20: None, NOW + 30: NOW + 35}
    assert len(events.incidents_at("web-1", NOW + 36)) == 3
    assert [each.begin for each in events.incidents_at("web-2", NOW + 1e6)] == [NOW]
    assert events.incidents_of("service", "web-1", NOW, NOW + 1e6) == []


def test_sentences_are_read_once_and_a_limited_number_is_cached(
    bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, ledger = begun(bus)
    monkeypatch.setattr(module, "MOST_CACHED", 5)
    with mock.patch.object(ledger, "read", wraps=ledger.read) as read:
        assert len(events.incidents_at("web-2", NOW)) == len(events.incidents_at("web-2", NOW)) == 1
        assert read.call_count == 1
        assert len(events.incidents("web-1", NOW, NOW + 1e6)) == 20
        assert len(events._told) == 5
        assert len(events.incidents_at("web-2", NOW)) == 1
        assert read.call_count == 22
