"""The stage that joins anomalies: exactly once, whatever ends it, and whoever runs the operators."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.bus import Incoming, Partition
from laggard.pipeline.engine.observers import Observer
from laggard.pipeline.engine.publishing import outgoing
from laggard.pipeline.engine.runner import TURN_S
from laggard.pipeline.engine.snapshots import decode_state
from laggard.pipeline.engine.stage import DeadLetter
from laggard.pipeline.engine.task import NOTHING_RANKED
from laggard.pipeline.incidents import joining
from laggard.pipeline.incidents.joiner import Joiner
from laggard.pipeline.incidents.joining import Joining, JoiningTask
from laggard.pipeline.records.outputs import Anomaly, Incident, Progress, RankingOutput, read_output, write_output
from laggard.pipeline.topics import ANOMALIES, INCIDENTS
from tests.pipeline.engine.conftest import (
    INPUT,
    NEVER,
    TOPICS,
    WIRED,
    Refusing,
    RefusingSubscription,
    append,
    frame,
    runner,
    settle,
    stop,
    stream,
)
from tests.pipeline.incidents.test_joiner import T0, anomaly, blame, ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from laggard.pipeline.bus import Bus, Polled, Subscription
    from laggard.pipeline.bus.embedded import EmbeddedBus
    from laggard.pipeline.engine.runner import Runner
    from laggard.pipeline.engine.stage import Stage
    from laggard.pipeline.records import Frame, Mark
    from laggard.pipeline.records.frame import KeyedBy
    from laggard.pipeline.records.outputs import Output

JOINING = Joining()
JOINED = Partition(TOPICS.name(ANOMALIES), 0)
BOTH: tuple[Stage, ...] = (WIRED, JOINING)


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


def drain(one: Runner, bus: Bus) -> None:
    """Run until all frames were scored, and all that came of them was joined."""
    for _ in range(20 * (bus.bounds(INPUT)[1] + 100)):
        done = all(
            bus.committed(TOPICS.group(name), partition) >= bus.bounds(partition)[1]
            for name, partition in (("drift", INPUT), (INCIDENTS, JOINED))
        )
        if done and not one.recovering():
            return
        one.step(NEVER)
    raise AssertionError("does not come to the end")


def published(bus: Bus) -> list[Output]:
    return [read_output(each.value, "here") for each in bus.read(JOINED, 0)]


def incidents(bus: Bus) -> list[Incident]:
    return [each for each in published(bus) if isinstance(each, Incident)]


def left(bus: Bus) -> tuple[list[tuple[str, bytes, Any]], dict[str, dict[str, Any]]]:
    """The incidents, and the states: without places in the topic, where incidents stand between anomalies."""
    states = {
        each.key: decode_state(each.value, each.key) | {"heard": None}
        for each in bus.snapshots(JOINING.snapshots, JOINED)
        if each.key
    }
    told = [(each.key, each.value, each.headers) for each in bus.read(JOINED, 0) if b'"kind":"incident"' in each.value]
    return told, states


TROUBLED: list[Frame | Mark | bytes] = [
    *stream(120, hosts=2),
    *(
        frame(host, tick, 5.0, scope=scope)
        for tick in range(120, 150)
        for host in ("h0", "h1")
        for scope in ("process", "host")
    ),
]
"""A stream with everything in it, and then ten minutes of calm, in which all anomalies end."""


STEADY: list[Frame | Mark | bytes] = [frame("h1", tick, 5.0) for tick in range(3)]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has nothing to read does not keep up the other one."""
    monkeypatch.setattr("laggard.pipeline.engine.runner.IDLE_S", 0.0)


def test_what_is_told_is_what_the_joiner_gives_for_the_topic(bus: EmbeddedBus) -> None:
    append(bus, TROUBLED)
    one = runner(bus, BOTH)
    drain(one, bus)
    want: list[str] = []
    joiners: dict[str, Joiner] = {}
    found = published(bus)
    for each in found:
        if isinstance(each, Anomaly | Progress):
            want += map(write_output, joiners.setdefault(each.key, Joiner()).take(each))
    assert [write_output(each) for each in found if isinstance(each, Incident)] == want
    assert {each.change for each in incidents(bus)} == {"opened", "extended", "closed"}
    counted = {each.operator: each for each in one.telemetry.tasks()}[INCIDENTS]
    assert (counted.records, counted.dead_letters, counted.outputs) == (len(found), 0, len(want))


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "died"])
def test_any_interruption_leaves_no_trace(new_bus: Callable[[], EmbeddedBus], clean: bool) -> None:
    first = new_bus()
    append(first, TROUBLED)
    undisturbed = runner(first, BOTH)
    drain(undisturbed, first)
    stop(undisturbed)
    want = left(first)
    assert len(want[0]) > 6
    for steps in range(1, len(TROUBLED), 12):
        with new_bus() as bus:
            append(bus, TROUBLED)
            one = runner(bus, BOTH)
            settle(one)
            for _ in range(steps):
                one.step(NEVER)
            if clean:
                stop(one)
            two = runner(bus, BOTH)
            drain(two, bus)
            stop(two)
            assert left(bus) == want, steps


def test_a_restart_neither_reopens_an_incident_nor_forgets_it(bus: EmbeddedBus) -> None:
    append(bus, [*STEADY, frame("h1", 3, 25.0)])
    first, second = Shown(), Shown()
    one = runner(bus, BOTH, observers=[first])
    drain(one, bus)
    (opened,) = incidents(bus)
    assert (first.open, first.opened) == ({("host", "h1"): [opened.id]}, 1)
    two = runner(bus, BOTH, observers=[second])
    settle(two)
    assert (second.open, second.opened) == ({("host", "h1"): [opened.id]}, 0), "shown, and not counted again"
    append(bus, [frame("h1", tick, 12.0) for tick in range(4, 25)])
    drain(two, bus)
    assert [(each.id, each.number, each.change) for each in incidents(bus)] == [
        (opened.id, 1, "opened"), (opened.id, 2, "closed"),
    ]  # fmt: skip
    assert (second.open, second.opened) == ({("host", "h1"): []}, 0)
    stop(two)
    assert second.open == {}


@pytest.mark.slow
def test_the_operator_and_what_joins_may_run_in_different_workers_that_die(new_bus: Callable[[], EmbeddedBus]) -> None:
    results = []
    for turns in ((1000, 1000), (3, 1000), (1000, 4), (7, 5)):
        bus = new_bus()
        append(bus, TROUBLED)
        workers = [runner(bus, [each]) for each in BOTH]
        for turn in range(1000):
            for number, (each, every) in enumerate(zip(BOTH, turns, strict=True)):
                if turn % every == every - 1:
                    workers[number] = runner(bus, [each])
                workers[number].step(NEVER)
            if bus.committed(TOPICS.group("drift"), INPUT) == len(TROUBLED):
                break
        last = runner(bus, BOTH)
        drain(last, bus)
        stop(last)
        results.append(left(bus))
    assert results.count(results[0]) == len(results)


class Waits(Refusing):
    """Notes for how long who has nothing would wait."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus, 0.0)
        self.timeouts_s: list[float] = []

    def subscribe(self, group: str, topics: Sequence[str]) -> Subscription:
        waits = self

        class Noting(RefusingSubscription):
            def poll(self, timeout_s: float, max_records: int = 500) -> Polled:
                waits.timeouts_s.append(timeout_s)
                return super().poll(0.0, max_records)

        return Noting(self, self._bus.subscribe(group, topics))


def test_who_has_nothing_to_read_does_not_keep_up_who_has(bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laggard.pipeline.engine.runner.IDLE_S", 0.5)
    waits = Waits(bus)
    one = runner(waits, BOTH)
    settle(one)
    append(bus, STEADY)
    one.step(NEVER)
    for _ in STEADY[1:]:
        waits.timeouts_s.clear()
        one.step(NEVER)
        assert waits.timeouts_s == [0.0, 0.0]
    one.step(NEVER)
    waits.timeouts_s.clear()
    one.step(NEVER)
    assert waits.timeouts_s == [TURN_S, TURN_S], "all is read, and each is asked often"
    alone = runner(waits, [WIRED])
    settle(alone)
    waits.timeouts_s.clear()
    alone.step(NEVER)
    assert waits.timeouts_s == [0.5]


# A task alone.


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


def test_what_is_no_anomaly_is_passed_over() -> None:
    one = task()
    (opened,) = give(one, anomaly(0, blame("hog")))
    ranking = RankingOutput(T0, "web-1", "slow", NOTHING_RANKED)
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


def test_what_is_live_and_what_was_replayed_are_not_joined() -> None:
    shown = Shown()
    live, replayed = anomaly(0, blame("hog")), anomaly(1, blame("hog"), live=False)
    told = give(task(observers=[shown]), live, replayed)
    assert [(each.change, each.live) for each in told] == [("opened", True), ("opened", False)]
    assert (shown.open, shown.opened) == ({("host", "web-1"): [each.id for each in told]}, 1)


def test_the_incidents_of_a_key_that_is_given_up_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "_MAX_KEYS", 1)
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
