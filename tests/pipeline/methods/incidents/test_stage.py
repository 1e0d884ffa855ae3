"""The stage that joins, record by record: what it takes, what it refuses, and what it shows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.engine.stage import DeadLetter
from laggard.pipeline.core.records.outputs import RankingOutput, write_output
from laggard.pipeline.core.topics import ANOMALIES, INCIDENTS, Topics
from laggard.pipeline.methods.incidents import stage
from laggard.pipeline.methods.incidents.stage import Joining
from laggard.pipeline.scoring.answers import NOTHING_RANKED
from laggard.pipeline.scoring.observers import Observer
from tests.pipeline.methods.incidents.test_joiner import T0, anomaly, blame, ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pytest

    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.methods.incidents.stage import JoiningTask

TOPICS = Topics("t.")
JOINING = Joining()
JOINED = Partition(TOPICS.name(ANOMALIES), 0)


class Shown(Observer):
    """Remembers what is open, and how many were opened."""

    def __init__(self) -> None:
        self.open: dict[tuple[KeyedBy, str], list[str]] = {}
        self.opened = 0

    def joined(self, keyed_by: KeyedBy, key: str, incidents: Sequence[Incident], opened: int) -> None:
        self.open[keyed_by, key] = [each.id for each in incidents]
        self.opened += opened

    def parted(self, keys: Iterable[str]) -> None:
        for which in [which for which in self.open if which[1] in keys]:
            del self.open[which]


def task(**options: Any) -> JoiningTask:
    return JOINING.task(JOINED, **options)


def give(one: JoiningTask, *found: Any) -> list[Any]:
    """What comes out of outputs, or of records as they are."""
    told = []
    for each in found:
        if not isinstance(each, Incoming):
            sent = outgoing(each, TOPICS)
            each = Incoming(JOINED, one.position, sent.key, sent.value, sent.ts, sent.headers)  # noqa: PLW2901
        one.process(each)
        told += one.outputs
        one.outputs.clear()
    return told


def raw(value: bytes, key: str = "web-1", *headers: tuple[str, bytes]) -> Incoming:
    return Incoming(JOINED, 7, key, value, T0, headers)


def test_records_other_than_anomalies_are_skipped() -> None:
    one = task()
    (opened,) = give(one, anomaly(0, blame("hog")))
    ranking = RankingOutput.of(T0, "web-1", "slow", NOTHING_RANKED)
    assert give(one, opened, ranking, raw(write_output(ranking).encode())) == []
    assert give(one, raw(b"a later kind", "web-1", ("ce_type", b"laggard.later"))) == []
    assert (one.telemetry.records, one.telemetry.dead_letters) == (5, 0)


def test_an_anomaly_needs_no_header() -> None:
    (opened,) = give(task(), raw(write_output(anomaly(0, blame("hog"))).encode()))
    assert opened.change == "opened"


def test_what_cannot_be_read_is_refused() -> None:
    written = anomaly(0, blame("hog")).to_json()
    for value, key, reason in (
        (b"junk", "web-1", "t.anomalies[0]@7: expected"),
        (json.dumps({**written, "score": "?"}).encode(), "web-1", "t.anomalies[0]@7: field 'score': expected a number"),
        (json.dumps(written).encode(), "web-2", "t.anomalies[0]@7: expected the record's key 'web-2', got 'web-1'"),
    ):
        one = task()
        (letter,) = give(one, raw(value, key, ("ce_type", b"laggard.anomaly")))
        assert isinstance(letter, DeadLetter)
        assert (letter.operator, letter.reason[: len(reason)]) == (INCIDENTS, reason)
        assert (one.position, one.telemetry.dead_letters, len(one.states)) == (8, 1, 0)


def test_what_an_older_laggard_wrote_is_not_joined() -> None:
    """It says of no anomaly that it has ended."""
    written = {name: value for name, value in anomaly(0, blame("hog")).to_json().items() if name != "scope"}
    one = task()
    assert give(one, raw(json.dumps(written).encode())) == []
    assert len(one.states) == 0


def test_what_is_live_and_what_was_replayed_are_not_joined_and_what_is_live_is_counted_once() -> None:
    shown = Shown()
    one = task(observers=[shown])
    live, replayed = anomaly(0, blame("hog")), anomaly(1, blame("hog"), live=False)
    told = give(one, live, replayed)
    assert [(each.change, each.live) for each in told] == [("opened", True), ("opened", False)]
    assert (shown.open, shown.opened) == ({("host", "web-1"): [each.id for each in told]}, 1)
    give(one, ended(live, 60))
    assert (shown.open, shown.opened) == ({("host", "web-1"): [told[1].id]}, 1)


def test_the_incidents_of_a_key_that_is_given_up_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_MAX_KEYS", 1)
    shown = Shown()
    one = task(observers=[shown])
    (opened,) = give(one, anomaly(0, blame("hog")))
    begun, closed = give(one, replace(anomaly(5, blame("hog")), key="web-2"))
    assert (begun.key, begun.change) == ("web-2", "opened")
    assert (closed.id, closed.change, closed.ts) == (opened.id, "closed", opened.ts)
    assert shown.open["host", "web-1"] == []


def test_states_are_saved_often_and_are_what_they_were() -> None:
    one = task(snapshot_records=1000)
    found = [anomaly(20 * number, blame(f"p{number}", "descriptors")) for number in range(12)]
    give(one, *found)
    snapshots = one.states.take(one.position)
    assert len([each for each in snapshots if each.key]) == 1
    two = task()
    loaded = two.states.load(snapshots)
    assert not loaded.damaged
    assert list(loaded.saved) == ["web-1"]
    state = two.states.get("web-1")
    assert state is not None
    assert {each.key for each in state.open("host")} == {"web-1"}
    assert state.ts >= T0
    assert state.open("pool") == []


def test_the_end_counts_as_made_now_and_a_replay_does_not() -> None:
    one = task()
    live, replayed = anomaly(0, blame("hog")), anomaly(1, blame("hog"), live=False)
    made = []
    for each in (live, replayed, ended(live, 60)):
        sent = outgoing(each, TOPICS)
        made.append(one.process(Incoming(JOINED, one.position, sent.key, sent.value, sent.ts, sent.headers)))
    assert made == [True, False, True]
