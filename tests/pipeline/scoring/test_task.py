from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.core.bus import NULL
from laggard.pipeline.core.engine import saving, states
from laggard.pipeline.core.engine.loading import GIVEN_UP
from laggard.pipeline.core.engine.namesakes import RUN_HEADER
from laggard.pipeline.core.engine.snapshots import BASE_KEY, decode_state
from laggard.pipeline.core.engine.stage import DeadLetter
from laggard.pipeline.core.eventtime import REMEMBERED, SET_BACK_RECORDS
from laggard.pipeline.core.records import Frame, Mark, Request, encode
from laggard.pipeline.core.records.outputs import Anomaly, RankingOutput
from laggard.pipeline.scoring import narrator, task
from laggard.pipeline.scoring.observers import Observer
from laggard.producers.trace.overhead import own_frame
from tests.pipeline.core.engine.conftest import (
    INPUT,
    UNLEARNABLE,
    UNSCORABLE,
    WIRED,
    Drift,
    at,
    frame,
    new_task,
    record,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.operators.contract import Scores
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.core.bus import Incoming, Snapshot
    from laggard.pipeline.scoring.task import Task


class Seen(Observer):
    """Remembers."""

    def __init__(self) -> None:
        self.scores: list[tuple[str, str, float]] = []
        self.anomalies: list[Anomalies] = []
        self.others: list[str] = []
        self.marks: list[tuple[str, str]] = []
        self.gone: list[tuple[str, tuple[str, ...]]] = []

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:
        self.scores.append((operator, frame.scope, scores.score))
        self.anomalies.append(anomalies)

    def marked(self, operator: str, mark: Mark) -> None:
        self.marks.append((operator, mark.note))

    def lost(self, operator: str, keys: Iterable[str]) -> None:
        self.gone.append((operator, tuple(keys)))

    def received(self, frame: Frame) -> None:
        self.others.append(frame.scope)


def give(one: Task, records: Iterable[Frame | Mark]) -> Task:
    for offset, each in enumerate(records, start=one.position):
        one.process(record(each, offset))
    return one


def only(one: Task, kind: type) -> list[Any]:
    return [output for output in one.outputs if isinstance(output, kind)]


def reasons(one: Task) -> list[str]:
    return [letter.reason for letter in only(one, DeadLetter)]


def steady(ticks: int, host: str = "h1", start: int = 0) -> list[Frame]:
    return [frame(host, tick, 5.0) for tick in range(start, start + ticks)]


# Frames.


def test_each_frame_is_scored_before_it_is_learned() -> None:
    seen = Seen()
    give(new_task(observers=[seen]), [*steady(3), frame("h1", 3, 25.0), frame("h1", 4, 25.0)])
    assert [round(score, 2) for _, _, score in seen.scores] == [0.0, 0.0, 0.0, 2.0, 1.4]


def test_scopes_have_operators_of_their_own() -> None:
    seen = Seen()
    frames = [
        frame("h1", tick, value, scope=scope)
        for tick in range(3)
        for scope, value in (("process", 5.0), ("host", 50.0))
    ]
    one = give(new_task(observers=[seen]), frames)
    assert {score for _, _, score in seen.scores} == {0.0}
    assert len(one.states) == 1


def test_a_scope_that_is_not_wanted_is_only_shown() -> None:
    seen = Seen()
    one = give(new_task(observers=[seen]), [frame("h1", 1, 1.0, scope="agent")])
    assert seen.others == ["agent"]
    assert len(one.states) == 0
    assert not one.outputs


def test_an_observer_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Seen):
        def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:
            raise RuntimeError("no")

    seen = Seen()
    one = give(new_task(observers=[Failing(), seen]), steady(2))
    assert len(seen.scores) == 2
    assert not one.outputs
    assert "Failing cannot report the outcome of 'h1'" in caplog.text


def test_duplicates_and_late_frames() -> None:
    first, second, third = steady(3)
    one = give(new_task(), [first, third, first, third, second])
    assert one.telemetry.duplicates == 2
    assert one.telemetry.late == one.telemetry.dead_letters == 1
    assert reasons(one) == [f"t.counters[0]@4: late: expected a time of at least {at(2)}, got {at(1)}"]
    keyed = one.states.get("h1")
    assert keyed is not None
    assert keyed.records == 2


def by(run: str, tick: int, host: str = "h1") -> Incoming:
    return replace(record(frame(host, tick, 5.0), tick), headers=((RUN_HEADER, run.encode()),))


def test_two_agents_of_one_host_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    one = new_task()
    for tick in range(20):
        one.process(by("ab"[tick % 2], tick))
        one.process(by("only", 100 + tick, host="h2"))
    assert one.telemetry.namesakes == 1
    assert [line for line in caplog.messages if "two agents publish as 'h1' at once" in line] == caplog.messages


def test_who_traces_beside_an_agent_is_no_second_one() -> None:
    one = new_task()
    for tick in range(20):
        one.process(by("agent", 2 * tick))
        own = own_frame("h1", at(tick), {"trace_events": float(tick)})
        one.process(replace(record(own, 2 * tick + 1), headers=((RUN_HEADER, b"trace"),)))
    assert one.telemetry.namesakes == 0


@pytest.mark.parametrize("runs", ["aaabbbcccddd", "aabaabbbb", "abcdefghijkl"])
def test_an_agent_that_was_started_anew_is_no_second_one(runs: str) -> None:
    """Also when something of the old run comes late."""
    one = new_task()
    for tick, run in enumerate(runs):
        one.process(by(run, tick))
    assert one.telemetry.namesakes == 0


def test_a_replay_reports_no_second_agent_but_later_records_do(caplog: pytest.LogCaptureFixture) -> None:
    one = new_task()
    one.replay(by("ab"[tick % 2], tick) for tick in range(20))
    assert one.telemetry.namesakes == 0
    assert not caplog.messages
    for tick in range(20, 40):
        one.process(by("ab"[tick % 2], tick))
    assert one.telemetry.namesakes == 1


DAY_S = 86_400.0


def ahead(ticks: int) -> list[Frame]:
    """Frames by a clock that is a day ahead."""
    return [frame("h1", tick, 5.0, ts=at(tick) + DAY_S, sequence=10**6 + tick) for tick in range(ticks)]


def set_back(ticks: int) -> list[Frame]:
    """Frames by the same clock, set right."""
    return [frame("h1", tick, 5.0, sequence=10**7 + tick) for tick in range(3, 3 + ticks)]


def test_after_a_clock_was_set_back_a_stream_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    one = give(new_task(), [*ahead(3), *set_back(SET_BACK_RECORDS + 5)])
    assert one.telemetry.late == one.telemetry.dead_letters == SET_BACK_RECORDS - 1
    assert one.telemetry.clocks_set_back == 1
    assert "the clock of 'h1' was set back by 86160 s; the baseline of scope process is learned anew" in caplog.text
    assert f"late: expected a time of at least {at(2) + DAY_S}, got {at(13)}; 11 of 12 after" in reasons(one)[-1]
    keyed = one.states.get("h1")
    assert keyed is not None
    stream = keyed.streams["process"]
    assert stream.ts == at(SET_BACK_RECORDS + 7)
    assert isinstance(stream.operator, Drift)
    assert stream.operator.learned == 5


HALF = SET_BACK_RECORDS - 1
HOURS = [frame("h1", tick, 5.0, ts=3600.0 * tick) for tick in range(40)]


@pytest.mark.parametrize(
    ("frames", "clocks_set_back", "duplicates", "late"),
    [
        (
            # Its numbers go by the clock: they are less than all that are remembered, as those of duplicates are.
            [
                *ahead(2 * REMEMBERED),
                *(replace(each, sequence=each.sequence - 10**7) for each in set_back(SET_BACK_RECORDS)),
            ],
            1,
            0,
            HALF,
        ),
        ([*ahead(3), *set_back(HALF), ahead(4)[3], *set_back(2 * HALF)[HALF:]], 0, 0, 2 * HALF),
        ([*HOURS, *HOURS, *HOURS], 0, 80, 0),
    ],
    ids=["an agent started anew", "not late ones between those of now", "not what comes again from long ago"],
)
def test_a_clock_that_was_set_back_is_told_from_what_comes_late(
    frames: list[Frame], clocks_set_back: int, duplicates: int, late: int
) -> None:
    counted = give(new_task(), frames).telemetry
    assert (counted.clocks_set_back, counted.duplicates, counted.late) == (clocks_set_back, duplicates, late)


@pytest.mark.parametrize("stopped", range(1, SET_BACK_RECORDS + 2))
def test_a_clock_that_was_set_back_is_counted_on_after_a_restart(stopped: int) -> None:
    records = [*ahead(3), *set_back(SET_BACK_RECORDS + 5)]
    whole = give(new_task(), records)
    first = give(new_task(), records[: 3 + stopped])
    first.states.save_all(first.position)
    second = new_task()
    second.states.load(first.states.take(first.position))
    second.position = first.position
    second.states.loaded(first.position)
    give(second, records[first.position :])
    assert [*reasons(first), *reasons(second)] == reasons(whole)
    for one in (whole, second):
        one.states.save_all(one.position)
    assert second.states.take(second.position) == whole.states.take(whole.position)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("h2", encode(frame("h1", 1, 1.0)), "expected the record's key 'h2', got 'h1'"),
        ("h2", encode(Mark("h1", 1.0)), "expected the record's key 'h2', got 'h1'"),
        ("", encode(frame("h1", 1, 1.0)), "expected the record's key '', got 'h1'"),
        ("h1", encode(Request("h1", 1.0, "r", 1.0)), "expected a frame, a mark or feedback, got a request"),
        ("h1", b"", "expected a MessagePack map"),
        ("h1", b"\xff" * 100, "expected a MessagePack map"),
    ],
)
def test_what_cannot_be_used_is_a_dead_letter(key: str, value: bytes, reason: str) -> None:
    one = new_task()
    bad = replace(record(frame("h1", 1, 1.0), 7), key=key, value=value)
    one.process(bad)
    (letter,) = one.outputs
    assert isinstance(letter, DeadLetter)
    assert letter.record is bad
    assert letter.reason.startswith("t.counters[0]@7: ")
    assert reason in letter.reason
    assert one.position == 8
    assert one.telemetry.dead_letters == 1
    assert len(one.states) == 0


def test_what_is_dated_far_ahead_of_its_record_makes_nothing_late() -> None:
    one = new_task()
    sent_ts = at(1)
    for offset, (tick, ts) in enumerate([(0, at(0)), (1, sent_ts + 3601.0), (2, sent_ts + 3600.0)]):
        one.process(replace(record(frame("h1", tick, 5.0, ts=ts), offset), ts=sent_ts))
    (letter,) = only(one, DeadLetter)
    expected = f"a time of at most an hour after the record's own, {sent_ts!r}"
    assert letter.reason == f"t.counters[0]@1: expected {expected}, got {sent_ts + 3601.0!r}"
    assert one.telemetry.late == 0
    one.process(replace(record(Mark("h1", 4e9, "slow", 3), 3), ts=sent_ts))
    assert len(only(one, RankingOutput)) == 1, "a mark tells of any moment"


def test_no_value_is_not_an_empty_one() -> None:
    one = new_task()
    for offset, value in enumerate([NULL, b""]):
        one.process(replace(record(frame("h1", 0, 5.0), offset), value=value))
    assert [letter.reason for letter in only(one, DeadLetter)] == [
        "t.counters[0]@0: expected a record, got none (null)",
        "t.counters[0]@1: expected a MessagePack map, got no bytes",
    ]


@pytest.mark.parametrize("value", [b"", encode(frame("h2", 1, 1.0)), encode(Request("h1", 1.0, "r", 1.0))])
def test_of_several_operators_one_tells_what_none_can_use(value: bytes) -> None:
    other = task.Task(replace(WIRED, leads=False), INPUT)
    other.process(replace(record(frame("h1", 1, 1.0), 7), value=value))
    other.damaged_record(8, "damaged")
    assert (other.outputs, other.position) == ([], 9)


@pytest.mark.parametrize("value", [UNSCORABLE, UNLEARNABLE])
def test_a_frame_that_the_operator_refuses_leaves_the_state_unharmed(value: float) -> None:
    refused = frame("h1", 3, value)
    one = give(new_task(), [*steady(3), refused, *steady(3, start=4)])
    (letter,) = only(one, DeadLetter)
    assert letter.record.value == encode(refused)
    assert letter.record.offset == (3 if value == UNSCORABLE else 4), "it is learned when the next one comes"
    other = give(new_task(), [*steady(3), *steady(3, start=4)])
    assert state(one)["operator"]["learned"] == state(other)["operator"]["learned"] == 5
    assert state(one)["operator"]["mean"].tolist() == state(other)["operator"]["mean"].tolist()


def state(one: Task, key: str = "h1", scope: str = "process") -> dict[str, Any]:
    keyed = one.states.get(key)
    assert keyed is not None
    return keyed.streams[scope].snapshot()


# Anomalies.


def test_an_anomaly_says_all_that_it_has_to() -> None:
    one = give(new_task(), [*steady(3), frame("h1", 3, 55.0)])
    (anomaly,) = one.outputs
    assert isinstance(anomaly, Anomaly)
    assert (anomaly.operator, anomaly.keyed_by, anomaly.key, anomaly.ts) == ("drift", "host", "h1", at(3))
    assert anomaly.score == pytest.approx(5.0)
    assert anomaly.parameters == {"limit": 10.0}
    assert anomaly.ranking.rows[0].row == "a[1]"
    assert "`a`" in anomaly.sentence
    assert anomaly.live
    assert one.telemetry.anomalies == 1


def test_the_id_follows_from_the_position() -> None:
    records = [*steady(3), frame("h1", 3, 55.0)]
    one, same = (give(new_task(), records).outputs[0] for _ in range(2))
    other = give(new_task(), [*steady(4), frame("h1", 4, 55.0)]).outputs[0]
    assert isinstance(one, Anomaly)
    assert isinstance(same, Anomaly)
    assert isinstance(other, Anomaly)
    assert one.id == same.id != other.id


def test_an_anomaly_that_cannot_be_reported_is_still_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise ValueError("no words")

    monkeypatch.setattr(narrator, "sentence", refuse)
    one = give(new_task(), [*steady(3), frame("h1", 3, 55.0), frame("h1", 4, 5.0)])
    assert reasons(one) == ["t.counters[0]@3: an anomaly that cannot be reported: ValueError: no words"]
    assert state(one)["operator"]["learned"] == 4


# Marks.


def test_a_mark_is_answered_from_the_newest_frame() -> None:
    one = give(new_task(), [*steady(4), Mark("h1", at(3) + 7.0, "checkout hangs")])
    (output,) = one.outputs
    assert isinstance(output, RankingOutput)
    assert (output.host, output.ts, output.mark) == ("h1", at(3) + 7.0, "checkout hangs")
    assert output.ranking.ts == at(3)
    assert [row.row for row in output.ranking.rows] == ["a[1]", "b[2]"]


@pytest.mark.parametrize(
    ("records", "rows"),
    [
        ([Mark("h1", 5.0, "hm"), *steady(1), Mark("h2", 5.0)], [0, 0]),
        ([*steady(4), Mark("h1", at(3) + 120.5), Mark("h1", at(3) - 120.5), Mark("h1", at(3) + 119.5)], [0, 0, 2]),
        (
            [
                *(replace(each, ts=3600.0 * (1 + number)) for number, each in enumerate(steady(3))),
                Mark("h1", 3600.0 * 3 + 7000.0),
            ],
            [2],
        ),
        ([frame("h1", 1, 5.0, scope="host"), Mark("h1", at(1))], [0]),
    ],
    ids=["no frames", "none within two minutes", "two long ticks are not far", "none of processes"],
)
def test_a_mark_without_a_frame_of_processes_near_it_has_an_empty_answer(
    records: list[Frame | Mark], rows: list[int]
) -> None:
    one = give(new_task(), records)
    assert [len(output.ranking.rows) for output in only(one, RankingOutput)] == rows
    assert one.states.get("h2") is None, "a mark makes no state"


def test_a_numbered_mark_that_comes_twice_is_answered_once() -> None:
    mark = Mark("h1", at(1), "twice", 77)
    one = give(new_task(), [*steady(2), mark, mark, replace(mark, sequence=-1), replace(mark, sequence=-1)])
    assert len(one.outputs) == 3
    assert one.telemetry.duplicates == 1


# Snapshots.


def saved(one: Task) -> list[Snapshot]:
    return one.states.take(one.position)


def test_a_key_is_saved_every_n_of_its_records_and_keys_take_turns() -> None:
    hosts = [f"h{number}" for number in range(8)]
    one = new_task(snapshot_records=10)
    offsets: dict[str, list[int]] = {host: [] for host in hosts}
    for tick in range(30):
        give(one, [frame(host, tick, 5.0) for host in hosts])
        for snapshot in saved(one):
            if snapshot.key:
                offsets[snapshot.key].append(snapshot.offset)
                assert snapshot.ts == at(tick)
    for places in offsets.values():
        assert len(places) == 3
        assert {later - earlier for earlier, later in itertools.pairwise(places)} == {80}
    assert len({places[0] // 8 for places in offsets.values()}) > 3


def test_many_keys_are_saved_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "REPLAY_RECORDS", 40)
    monkeypatch.setattr(states, "FEWEST_RECORDS", 3)
    for hosts, every in ((2, 20), (3, 10), (4, 10), (8, 5), (40, 5)):
        one = new_task(snapshot_records=20)
        offsets: dict[str, list[int]] = {}
        for tick in range(85):
            give(one, [frame(f"h{number}", tick, 5.0) for number in range(hosts)])
            for snapshot in saved(one):
                offsets.setdefault(snapshot.key, []).append(snapshot.offset)
        del offsets[BASE_KEY]
        assert len(offsets) == hosts
        for places in offsets.values():
            # The first round is one of few keys.
            assert {later - earlier for earlier, later in itertools.pairwise(places[1:])} == {every * hosts}


def base(snapshots: list[Snapshot]) -> int:
    (one,) = (each for each in snapshots if each.key == BASE_KEY)
    return int(decode_state(one.value, "base")["base"])


def test_the_base_is_the_first_record_that_is_in_no_snapshot() -> None:
    one = give(new_task(snapshot_records=4), [frame("h1", 0, 5.0), *steady(5, "h2")])
    snapshots = saved(one)
    assert {each.key for each in snapshots} >= {"h2", ""}
    assert base(snapshots) == 0
    one.states.save_all(one.position)
    assert base(saved(one)) == one.position
    assert saved(one) == []


def test_a_silent_key_does_not_hold_the_base_back() -> None:
    one = give(new_task(snapshot_records=5), [frame("silent", 0, 5.0), frame("silent", 1, 5.0)])
    keys = []
    for tick in range(200):
        give(one, [frame("h1", tick, 5.0)])
        snapshots = saved(one)
        keys += [each.key for each in snapshots]
        if snapshots:
            last = base(snapshots)
    assert keys.count("silent") == 1
    assert one.position - last < 3 * 4 * 5


def test_the_key_heard_least_recently_is_given_up() -> None:
    one = give(
        new_task(max_keys=2), [frame("h1", 0, 5.0), frame("h2", 0, 5.0), frame("h1", 1, 5.0), frame("h3", 1, 5.0)]
    )
    assert one.states.get("h2") is None
    assert one.states.get("h1") is not None
    (gone,) = (each for each in saved(one) if each.key)
    assert (gone.key, gone.value, gone.offset) == ("h2", GIVEN_UP, 4)
    one.refresh()
    assert one.telemetry.keys_evicted == 1
    assert one.telemetry.keys == 2


def test_a_key_that_was_silent_for_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "FORGOTTEN_RECORDS", 30)
    one = give(new_task(snapshot_records=5), [frame("silent", 0, 5.0), frame("silent", 1, 5.0)])
    at_end: list[Snapshot] = []
    for tick in range(70):
        give(one, [frame("h1", tick, 5.0)])
        at_end += [each for each in saved(one) if each.key == "silent"]
    assert [(each.offset, each.value == GIVEN_UP) for each in at_end[-1:]] == [(62, True)]
    assert one.states.get("silent") is None
    give(one, [frame("silent", 2, 5.0)])
    back = one.states.get("silent")
    assert back is not None
    assert back.records == 1


def test_what_is_given_up_is_in_the_next_commit_and_nothing_of_it_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "MAX_TAKEN_BYTES", 1)
    one = give(new_task(max_keys=2), [frame("h1", 1, 5.0), frame("h2", 1, 5.0)])
    one.states.save_all(one.position)
    give(one, [frame("h3", 1, 5.0), frame("h4", 1, 5.0)])
    assert [(each.key, each.value) for each in saved(one)[:2]] == [("h1", GIVEN_UP), ("h2", GIVEN_UP)]
    assert [each.key for each in saved(one)] == []


def test_a_state_that_is_too_large_is_said_once_and_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(saving, "MAX_SNAPSHOT_BYTES", 10)
    one = give(new_task(snapshot_records=2), steady(20))
    assert saved(one) == []
    assert caplog.text.count("cannot be saved") == 1


def test_a_large_commit_takes_some_of_the_snapshots_and_the_base_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "MAX_TAKEN_BYTES", 1)
    one = give(new_task(), [frame(f"h{number}", 1, 5.0) for number in range(3)])
    one.states.save_all(one.position)
    assert [[each.key for each in saved(one)] for _ in range(4)] == [["h0"], ["h1"], ["h2", ""], []]


def test_replay_counts_nothing_and_gives_nothing() -> None:
    seen = Seen()
    one = new_task(observers=[seen])
    one.replay(record(each, offset) for offset, each in enumerate([*steady(3), frame("h1", 3, 55.0)]))
    assert not one.outputs
    assert not seen.scores
    assert one.telemetry.records == one.telemetry.anomalies == 0
    give(one, steady(1, start=4))
    assert one.telemetry.records == 1
    assert len(seen.scores) == 1
    assert state(one)["operator"]["learned"] == 4
