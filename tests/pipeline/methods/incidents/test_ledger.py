"""The ledger of incidents: whatever is asked in whatever order, it says what reading all of it anew says."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.topics import Topics
from laggard.pipeline.methods.incidents import ledger as module
from laggard.pipeline.methods.incidents import queries
from laggard.pipeline.methods.incidents.ledger import Ledger
from laggard.pipeline.methods.incidents.queries import past_incidents
from tests.pipeline.methods.incidents.joined import closed, incident

if TYPE_CHECKING:
    import pytest

NOW = 1_795_300_000.0
DAY_S = 86_400.0
TOPICS = Topics()

TOLD = st.tuples(
    st.integers(0, 12),
    st.sampled_from([0.1, 1.0, 5.0, 9.0, 20.0]),
    st.sampled_from(["opened", "closed"]),
    st.sampled_from(["web-1", "web-2", "web-3"]),
    st.booleans(),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(TOLD, st.sampled_from([0.5, 2.0, 10.0, math.inf])), max_size=25))
def test_it_says_what_reading_anew_says(deeds: list[tuple[int, float, str, str, bool] | float]) -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedBus(Path(folder) / "bus.db") as bus:
        bus.create(TOPICS.specs())
        ledger = Ledger(bus, TOPICS)
        for deed in [*deeds, 1.0]:
            if isinstance(deed, tuple):
                number, days, change, host, live = deed
                opened = NOW - days * DAY_S
                one = incident(number, opened, host=host, live=live)
                bus.append(
                    [outgoing(one if change == "opened" else closed(number, opened, opened + 60, host=host), TOPICS)]
                )
                continue
            since = NOW - deed * DAY_S
            anew = past_incidents(bus, TOPICS, since)
            entries, begins = ledger.since(since)
            # It may know of older ones, of which it has read before.
            said = ledger.read(entries)
            assert {(each.id, each.number) for each in said} >= {(each.id, each.number) for each in anew.incidents}
            assert [each.opened_ts for each in said] == sorted((each.opened_ts for each in said), reverse=True)
            assert all(each.live and (each.change != "closed" or each.until_ts >= since) for each in said)
            assert math.isnan(begins) or not math.isnan(anew.begins_ts)
            assert ledger.since(since, "web-2")[0] == [each for each in entries if each.key == "web-2"]


def test_only_what_is_new_is_read_again(bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch) -> None:
    bus.append([outgoing(incident(number, NOW + number), TOPICS) for number in range(50)])
    read: list[tuple[int, int]] = []
    tellings = queries.tellings

    def counted(reader: object, start: int, end: int) -> object:
        read.append((start, end))
        return tellings(reader, start, end)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "tellings", counted)
    ledger = Ledger(bus, TOPICS)
    assert len(ledger.since(NOW)[0]) == 50
    assert sum(end - start for start, end in read) == 50
    read.clear()
    bus.append([outgoing(closed(3, NOW + 3, NOW + 99), TOPICS)])
    known = ledger.known(incident(3, 0.0).id)
    assert known is not None
    (one,) = ledger.read([known])
    assert (one.change, one.number) == ("closed", 2)
    assert len(ledger.since(NOW + 9)[0]) == 50
    assert sum(end - start for start, end in read) == 1
    assert ledger.known("nothing") is None


def test_the_newest_are_kept_with_their_records_and_the_others_are_read(
    bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_CACHED", 3)
    ledger = Ledger(bus, TOPICS)
    for number in range(20):
        bus.append([outgoing(incident(number, NOW + number), TOPICS)])
    entries, _ = ledger.since(NOW)
    kept = [bool(each.fields.value) for each in entries]
    assert kept == sorted(kept, reverse=True)
    assert 3 <= sum(kept) <= 6
    assert [each.opened_ts for each in ledger.read(entries)] == [NOW + number for number in range(19, -1, -1)]


def test_it_is_bounded(bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 10)
    ledger = Ledger(bus, TOPICS)
    for number in range(30):
        bus.append([outgoing(incident(number, NOW + number), TOPICS)])
        entries, begins = ledger.since(NOW)
        assert len(entries) == min(number + 1, 10)
    assert [each.fields.opened_ts for each in entries] == [NOW + number for number in range(29, 19, -1)]
    assert begins == NOW + 20


def test_what_opened_long_before_is_read_only_when_it_is_asked_about(bus: EmbeddedBus) -> None:
    bus.append([outgoing(incident(number, NOW - queries.REACH_S + 60 * number), TOPICS) for number in (-1, 1, 2)])
    ledger = Ledger(bus, TOPICS)
    entries, begins = ledger.since(NOW)
    assert (len(entries), begins) == (2, NOW - queries.REACH_S + 60)
    entries, begins = ledger.since(-math.inf)
    assert (len(entries), math.isnan(begins)) == (3, True)
