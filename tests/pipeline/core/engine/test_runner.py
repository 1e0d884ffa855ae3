from __future__ import annotations

import logging
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from laggard.pipeline.core import backoff
from laggard.pipeline.core.bus import BusError, Commit, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.membership import EmbeddedSubscription
from laggard.pipeline.core.engine import runner as running
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.engine.snapshots import BASE_KEY, decode_state
from laggard.pipeline.core.records import Mark
from laggard.pipeline.core.topics import ANOMALIES, DEAD_LETTERS
from tests.pipeline.core.engine.conftest import (
    INPUT,
    NEVER,
    TOPICS,
    WIRED,
    Drift,
    Refusing,
    Result,
    append,
    at,
    drain,
    frame,
    result,
    runner,
    settle,
    stop,
    stream,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus

LENGTH = 40
RECORDS = stream(LENGTH)


@pytest.fixture
def want(new_bus: Callable[[], EmbeddedBus]) -> Result:
    """What an undisturbed run leaves."""
    bus = new_bus()
    append(bus, RECORDS)
    return through(bus)


def through(bus: Bus, **options: Any) -> Result:
    one = runner(bus, **options)
    drain(one, bus)
    stop(one)
    return result(bus)


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# Faults of the bus.


@pytest.mark.parametrize("seed", range(3))
def test_a_bus_that_refuses_at_random_changes_nothing(
    bus: EmbeddedBus, want: Result, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "FIRST_PAUSE_S", 1e-4)
    monkeypatch.setattr(backoff, "LONGEST_PAUSE_S", 1e-3)
    append(bus, RECORDS)
    refusing = Refusing(bus, 0.3, seed)
    one = runner(refusing, pace=Pace(0.0, 3, 3))
    for _ in range(12):
        one.step(NEVER)
    two = runner(refusing, pace=Pace(0.0, 3, 3))  # has to recover from it
    drain(two, bus)
    stop(two)
    assert two.telemetry.retries > 5
    got = result(bus)
    assert got.outputs == want.outputs
    assert got.states == want.states


def test_an_outage_is_said_once_and_its_end_too(bus: EmbeddedBus, caplog: pytest.LogCaptureFixture) -> None:
    append(bus, RECORDS)
    clock = Clock()
    refusing = Refusing(bus, 1.0)
    one = runner(refusing, clock=clock)
    paused = []
    for _ in range(8):
        one.step(NEVER)
        paused.append(one.recovering())
        clock.now += 10.0
    refusing._share = 0.0
    one.step(NEVER)
    assert [record.message for record in caplog.records] == [
        "drift waits for the bus: the disk is full",
        "drift goes on: the bus is there again",
    ]
    assert one.telemetry.retries == 8
    assert all(paused)


def test_a_pause_is_not_a_busy_wait(bus: EmbeddedBus) -> None:
    refusing = Refusing(bus, 1.0)
    one = runner(refusing)
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        one.step(NEVER)
    assert refusing.refused < 8


def test_a_clean_stop_does_not_wait_for_ever(
    bus: EmbeddedBus, want: Result, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running, "STOPPING_S", 0.1)
    append(bus, RECORDS)
    refusing = Refusing(bus, 0.0)
    one = runner(refusing, pace=Pace(1e9, 1000, 10))
    for _ in range(3):
        one.step(NEVER)
    refusing._share = 1.0
    stop(one)
    assert "drift stops without its last commit: the disk is full" in caplog.text
    assert through(bus) == want


def test_an_error_that_does_not_pass_is_raised_and_the_group_is_left(bus: EmbeddedBus) -> None:
    one = Runner(bus, [replace(WIRED, topic=replace(WIRED.topic, name="nowhere"))], TOPICS)
    with pytest.raises(BusError, match=r"t\.nowhere"):
        one.run(NEVER)


def test_a_damaged_record_is_a_dead_letter(bus: EmbeddedBus) -> None:
    append(bus, [frame("h1", tick, 5.0) for tick in range(4)])
    damage(bus, "UPDATE records SET value = x'28b52ffd00' WHERE id & 0xffffffffff = 2")
    one = runner(bus, pace=Pace(0.0, 100, 100))
    drain(one, bus)
    (letter,) = bus.read(Partition(TOPICS.name(DEAD_LETTERS), 0), 0)
    headers = dict(letter.headers)
    assert headers["laggard-offset"] == b"2"
    assert b"damaged" in headers["laggard-reason"]
    assert one.telemetry.tasks()[0].records == 4


def damage(bus: EmbeddedBus, statement: str) -> None:
    connection = sqlite3.connect(bus.path)
    with connection:
        assert connection.execute(statement).rowcount
    connection.close()


# Members.


@pytest.mark.slow
def test_the_newest_member_takes_over_and_gives_back(bus: EmbeddedBus, want: Result) -> None:
    append(bus, RECORDS)
    one = runner(bus, pace=Pace(0.0, 4, 2))
    for _ in range(6):
        one.step(NEVER)
    two = runner(bus)
    for _ in range(5):
        two.step(NEVER)
        one.step(NEVER)
    assert one.telemetry.tasks()[0].keys == 0
    assert not one.recovering()
    stop(two)
    drain(one, bus)
    stop(one)
    got = result(bus)
    assert got.outputs == want.outputs
    assert got.states == want.states


def test_a_commit_after_another_member_took_over_is_void(
    bus: EmbeddedBus, want: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(bus, RECORDS)
    one, two = runner(bus, pace=Pace(0.0, 5, 5)), runner(bus)
    for _ in range(3):
        one.step(NEVER)
    commit = EmbeddedSubscription.commit

    def too_late(subscription: EmbeddedSubscription, what: Commit) -> None:
        monkeypatch.undo()
        for _ in range(4):
            two.step(NEVER)
        commit(subscription, what)

    monkeypatch.setattr(EmbeddedSubscription, "commit", too_late)
    one.step(NEVER)
    assert one.telemetry.fenced == 1
    assert one.recovering()
    settle(one)
    stop(two)
    drain(one, bus)
    stop(one)
    got = result(bus)
    assert got.outputs == want.outputs
    assert got.states == want.states


class Counting(Drift):
    state_version: ClassVar[int] = 3


def test_operators_have_groups_and_states_of_their_own(bus: EmbeddedBus) -> None:
    other = replace(WIRED, name="counting", make=Counting, state_version=3, scopes=("host",))
    append(bus, RECORDS)
    one = runner(bus, [WIRED, other])
    drain(one, bus)
    drain(one, bus, "counting")
    stop(one)
    assert [task.operator for task in one.telemetry.tasks() if task.records == LENGTH] == ["drift", "counting"]
    both = [
        {one.key: set(decode_state(one.value, one.key)["streams"]) for one in bus.snapshots(name, INPUT) if one.key}
        for name in (WIRED.snapshots, other.snapshots)
    ]
    assert both == [
        {"h0": {"process", "host"}, "h1": {"process", "host"}, "h2": {"process", "host"}},
        {"h0": {"host"}, "h1": {"host"}},
    ]


def test_it_is_ready_when_it_has_recovered(bus: EmbeddedBus) -> None:
    append(bus, RECORDS)
    through(bus)
    one = runner(bus)
    assert one.recovering() == {"drift": 1}
    drain(one, bus)
    assert one.recovering() == {}


def test_run_stops_soon_when_it_is_told_to(bus: EmbeddedBus, want: Result) -> None:
    one = runner(bus, pace=Pace())
    told = threading.Event()
    thread = threading.Thread(target=one.run, args=(told,))
    thread.start()
    append(bus, RECORDS)
    until = time.monotonic() + 120
    while bus.committed(TOPICS.group("drift"), INPUT) < LENGTH and time.monotonic() < until:
        time.sleep(0.01)
    told.set()
    thread.join(30.0)
    assert not thread.is_alive()
    assert result(bus) == want


# Commits.


def test_what_comes_after_a_pause_is_committed_at_once_and_then_not_before_the_time(bus: EmbeddedBus) -> None:
    clock = Clock()
    one = runner(bus, pace=Pace(commit_s=0.2, commit_records=10, poll_records=1), clock=clock)
    settle(one)
    committed = []
    append(bus, [frame("h1", tick, 5.0) for tick in range(14)])
    for number in range(14):
        if number == 3:
            clock.now += 0.21
        one.step(NEVER)
        committed.append(bus.committed(TOPICS.group("drift"), INPUT))
    # One at once; three when the time has come; ten because they are many.
    assert committed == [1, 1, 1, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 14]


def test_everything_is_counted(bus: EmbeddedBus) -> None:
    append(bus, RECORDS)
    wall = Clock()
    wall.now = at(LENGTH)
    one = runner(bus, wall_clock=wall)
    drain(one, bus)
    stop(one)
    (task,) = one.telemetry.tasks()
    got = result(bus)
    assert (task.operator, task.topic, task.partition) == ("drift", "t.counters", 0)
    assert task.records == LENGTH
    assert task.record_bytes == sum(len(each.value) for each in bus.read(INPUT, 0))
    assert task.outputs == len(got.outputs)
    assert task.snapshots > len(got.states)
    assert task.snapshot_bytes > 0
    assert task.commits >= LENGTH
    assert sum(task.processing_seconds.counts) == LENGTH
    # A mark's time is the moment that it asks about.
    assert sum(task.latency_seconds.counts) == LENGTH - sum(isinstance(each, Mark) for each in RECORDS)
    example = task.latency_seconds.examples[-1]
    assert example is not None
    assert (example.key, example.ts) in {(each.key, each.ts) for each in bus.read(INPUT, 0)}
    assert sum(task.commit_duration_seconds.counts) == task.commits
    assert 0.0 < task.latency_seconds.total < LENGTH * 20.0 * LENGTH * 2


def test_gauges(bus: EmbeddedBus) -> None:
    append(bus, [frame(f"h{number % 2}", number, 5.0) for number in range(10)])
    one = runner(bus)
    lags = []
    settle(one)
    for _ in range(11):
        one.update_lag()
        lags.append(one.telemetry.tasks()[0].lag_records)
        one.step(NEVER)
    assert lags == list(range(10, -1, -1))
    (task,) = one.telemetry.tasks()
    assert task.keys == 2
    stop(one)
    assert (task.keys, task.state_bytes, task.lag_records) == (0, 0, 0)


def test_normal_operation_logs_nothing(bus: EmbeddedBus, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    append(bus, RECORDS)
    through(bus)
    assert not caplog.records


def test_outputs_are_cloud_events(bus: EmbeddedBus) -> None:
    append(bus, [*(frame("h1", tick, 5.0) for tick in range(3)), frame("h1", 3, 55.0), Mark("h1", at(3), "slow")])
    through(bus)
    anomaly, ranking = bus.read(Partition(TOPICS.name(ANOMALIES), 0), 0)
    headers = dict(anomaly.headers)
    assert headers.pop("ce_id").decode() in anomaly.value.decode()
    assert headers == {
        "ce_specversion": b"1.0",
        "ce_source": b"/laggard/drift",
        "ce_type": b"laggard.anomaly",
        "ce_time": b"1970-01-01T00:17:40.000000+00:00",
        "ce_dataschema": b"urn:laggard:anomaly:1",
        "content-type": b"application/json",
    }
    assert dict(ranking.headers)["ce_type"] == b"laggard.ranking"
    assert (anomaly.key, ranking.key) == ("h1", "h1")


# Snapshots and input that are not what they were.


def unreadable(bus: EmbeddedBus) -> None:
    damage(bus, "UPDATE snapshots SET value = x'28b52ffd00'")


def junk(key: str, bus: EmbeddedBus) -> None:
    (newest,) = (each for each in bus.snapshots(WIRED.snapshots, INPUT) if each.key == key)
    with closing(bus.subscribe(TOPICS.group("drift"), [INPUT.topic])) as other:
        other.poll(0.0)
        other.commit(Commit({}, (), [replace(newest, value=b"junk")]))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (unreadable, ("the snapshots cannot be read",)),
        *((partial(junk, key), ("a snapshot is unusable", f"'{key}'")) for key in ("h0", "h1", BASE_KEY)),
    ],
    ids=["all, for the bus", "that of h0", "that of h1", "the base"],
)
def test_snapshots_that_are_damaged_are_made_again_from_the_input(
    bus: EmbeddedBus,
    want: Result,
    spoil: Callable[[EmbeddedBus], None],
    told: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    append(bus, RECORDS)
    one = runner(bus)
    for _ in range(30):
        one.step(NEVER)
    spoil(bus)
    two = runner(bus)
    drain(two, bus)
    stop(two)
    for part in told:
        assert part in caplog.text
    got = result(bus)
    assert got.outputs == want.outputs
    assert got.states == want.states


def test_a_state_of_another_version_is_learned_again(
    bus: EmbeddedBus, caplog: pytest.LogCaptureFixture, want: Result
) -> None:
    append(bus, RECORDS)
    through(bus)
    newer = replace(WIRED, make=Counting, state_version=3)
    append(bus, [frame("h1", LENGTH, 5.0)])
    one = runner(bus, [newer])
    drain(one, bus)
    stop(one)
    assert "expected state version 3 of drift, got 1" in caplog.text
    assert one.telemetry.tasks()[0].snapshots_unusable == len(want.states)
    assert result(bus).outputs == want.outputs
    assert {each.key for each in bus.snapshots(newer.snapshots, INPUT) if each.key} == want.states.keys()


def test_input_that_was_deleted_before_it_could_be_replayed_is_counted(
    bus: EmbeddedBus, caplog: pytest.LogCaptureFixture
) -> None:
    append(bus, [frame("h1", tick, 5.0) for tick in range(10)])
    one = runner(bus, snapshot_records=1000)
    drain(one, bus)  # and dies
    delete_before(bus, 6)
    append(bus, [frame("h1", tick, 5.0) for tick in range(10, 12)])
    two = runner(bus, snapshot_records=1000)
    drain(two, bus)
    (task,) = two.telemetry.tasks()
    assert task.missed_records == 6
    assert task.records == 2
    assert "6 records that are in no snapshot were deleted" in caplog.text


@pytest.mark.parametrize("look", [Runner.update_lag, stop], ids=["now and then", "at last"])
def test_input_that_was_deleted_before_it_was_read_is_counted(
    bus: EmbeddedBus, caplog: pytest.LogCaptureFixture, look: Callable[[Runner], None]
) -> None:
    append(bus, [frame("h1", tick, 5.0) for tick in range(10)])
    one = runner(bus)
    settle(one)
    for _ in range(3):
        one.step(NEVER)
    stop(one)
    delete_before(bus, 8)
    two = runner(bus)
    drain(two, bus)
    look(two)
    (task,) = two.telemetry.tasks()
    assert (task.missed_records, task.records) == (5, 2)
    assert "5 records were deleted before they were read" in caplog.text


def delete_before(bus: EmbeddedBus, offset: int) -> None:
    """As retention does."""
    of_host = "key = (SELECT id FROM keys WHERE key = 'h1')"
    damage(bus, f"DELETE FROM records WHERE {of_host} AND id & 0xffffffffff < {offset}")


def test_deleted_input_that_is_in_a_snapshot_is_not_missed(bus: EmbeddedBus) -> None:
    append(bus, [frame("h1", tick, 5.0) for tick in range(10)])
    one = runner(bus)
    drain(one, bus)
    stop(one)
    delete_before(bus, 10)
    two = runner(bus)
    append(bus, [frame("h1", 10, 55.0)])
    drain(two, bus)
    (task,) = two.telemetry.tasks()
    assert (task.missed_records, task.records, task.anomalies) == (0, 1, 1)


def test_partitions_are_tasks_of_their_own(tmp_path: Path) -> None:
    def on_two_partitions(name: str, deaths: int) -> tuple[dict[str, list[bytes]], dict[str, bytes], int]:
        with EmbeddedBus(tmp_path / name) as bus:
            bus.create(TOPICS.specs(partitions=2))
            append(bus, RECORDS)
            inputs = bus.partitions(INPUT.topic)
            for _ in range(deaths):
                one = runner(bus)
                for _ in range(9):
                    one.step(NEVER)
            one = runner(bus)
            while one.recovering() or any(bus.committed("t.drift", each) < bus.bounds(each)[1] for each in inputs):
                one.step(NEVER)
            stop(one)
            outputs: dict[str, list[bytes]] = {}
            for topic in (ANOMALIES, DEAD_LETTERS):
                for partition in bus.partitions(TOPICS.name(topic)):
                    for each in bus.read(partition, 0):
                        outputs.setdefault(f"{topic.name} {each.key}", []).append(each.value)
            states = {
                each.key: each.value for number in inputs for each in bus.snapshots(WIRED.snapshots, number) if each.key
            }
            return outputs, states, len([task for task in one.telemetry.tasks() if task.topic == INPUT.topic])

    want = on_two_partitions("undisturbed.db", 0)
    assert want[1].keys() == {"h0", "h1", "h2"}
    assert want[2] == 2
    assert on_two_partitions("disturbed.db", 3) == want
