"""Operators of one group: what they find has one order, that of the input, whoever runs them and whatever ends it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus import BusError, BusUnavailable, Commit
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.former import going_on
from laggard.pipeline.core.engine.snapshots import decode_state
from laggard.pipeline.core.engine.stage import DeadLetter
from laggard.pipeline.core.engine.standby import Standby
from laggard.pipeline.core.engine.tasks import Tasks, grouped
from laggard.pipeline.core.records import Decoder
from laggard.pipeline.core.records.outputs import Anomaly, read_output
from tests.pipeline.core.engine.conftest import (
    INPUT,
    NEVER,
    ONE_BY_ONE,
    TOPICS,
    WIRED,
    Refusing,
    append,
    frame,
    record,
    runner,
    settle,
    stop,
    stream,
)
from tests.pipeline.core.engine.test_joining import TROUBLED, left
from tests.pipeline.core.engine.test_joining import drain as drain_of
from tests.pipeline.core.engine.test_runner import delete_before
from tests.pipeline.methods.incidents.test_stage import JOINED, JOINING

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.bus import Bus, Partition
    from laggard.pipeline.core.bus.embedded import EmbeddedBus
    from laggard.pipeline.core.engine.stage import Stage

FIRST, SECOND = replace(WIRED, name="gaussian"), replace(WIRED, name="cpu", answers_marks=False, leads=False)
ALL: tuple[Stage, ...] = (FIRST, SECOND, JOINING)
GROUP = TOPICS.group("gaussian")
drain = partial(drain_of, operator=FIRST.name)
MANY_AT_ONCE = Pace(commit_s=0.0, commit_records=1000, poll_records=37)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laggard.pipeline.core.engine.runner.IDLE_S", 0.0)


def found(bus: Bus) -> list[tuple[str, str]]:
    """The operator and the id of each anomaly, in the order of the topic."""
    read = [read_output(each.value, "here") for each in bus.read(JOINED, 0)]
    return [(each.operator, each.id) for each in read if isinstance(each, Anomaly)]


def all_left(bus: Bus) -> object:
    """Outputs in their order, incidents, and the states of all."""
    outputs = [each.value for each in bus.read(JOINED, 0) if b'"kind":"incident"' not in each.value]
    states = {
        (each.name, saved.key): (saved.offset, saved.value)
        for each in (FIRST, SECOND)
        for saved in bus.snapshots(each.snapshots, INPUT)
        if saved.key
    }
    return outputs, states, left(bus)


def test_what_is_found_in_a_record_stands_together_whatever_is_committed_at_once(bus: EmbeddedBus) -> None:
    append(bus, TROUBLED)
    one = runner(bus, ALL, pace=MANY_AT_ONCE)
    drain(one, bus)
    anomalies = found(bus)
    assert len(anomalies) > 10
    assert [name for name, _ in anomalies] == ["gaussian", "cpu"] * (len(anomalies) // 2)
    counted = {each.operator: each for each in one.telemetry.tasks()}
    assert counted["gaussian"].records == counted["cpu"].records == len(TROUBLED)
    assert counted["gaussian"].outputs > counted["cpu"].outputs > 0, "one answers marks and tells dead letters, too"
    assert counted["gaussian"].snapshots > 0
    assert counted["gaussian"].lag_records == counted["cpu"].lag_records == 0


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "died"])
def test_incidents_and_states_are_the_same_whatever_interrupts(new_bus: Callable[[], EmbeddedBus], clean: bool) -> None:
    first = new_bus()
    append(first, TROUBLED)
    undisturbed = runner(first, ALL)
    drain(undisturbed, first)
    stop(undisturbed)
    want = all_left(first)
    for steps in range(1, len(TROUBLED), 12):
        with new_bus() as bus:
            append(bus, TROUBLED)
            one = runner(bus, ALL, pace=MANY_AT_ONCE if steps % 2 else ONE_BY_ONE)
            settle(one)
            for _ in range(steps):
                one.step(NEVER)
            if clean:
                stop(one)
            two = runner(bus, ALL)
            drain(two, bus)
            stop(two)
            assert all_left(bus) == want, steps


def test_who_joins_may_be_ahead_or_behind(new_bus: Callable[[], EmbeddedBus]) -> None:
    results = []
    for turns in ((1, 1), (1, 50), (50, 1)):
        bus = new_bus()
        append(bus, stream(60, hosts=2))
        workers = runner(bus, (FIRST, SECOND)), runner(bus, (JOINING,))
        for turn in range(600):
            for each, every in zip(workers, turns, strict=True):
                if turn % every == 0:
                    each.step(NEVER)
        for each in workers:
            stop(each)
        last = runner(bus, ALL)
        drain(last, bus)
        stop(last)
        results.append(all_left(bus))
    assert results.count(results[0]) == len(results)


def test_a_record_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    plain = Decoder.decode

    def counting(self: Decoder, value: bytes, place: str) -> object:
        decoded.append(place)
        return plain(self, value, place)

    monkeypatch.setattr(Decoder, "decode", counting)
    tasks = Tasks([FIRST.task(INPUT), SECOND.task(INPUT)])
    records = [record(frame("h1", tick, 5.0), tick) for tick in range(3)]
    for each in [*records, replace(records[0], offset=3, value=b"junk")]:
        tasks.process(each)
    assert decoded == [f"t.counters[0]@{offset}" for offset in range(4)]
    assert [task.position for task in tasks.each] == [4, 4]
    (letter,) = tasks.outputs
    assert isinstance(letter, DeadLetter)
    assert letter.operator == "gaussian", "one of them tells what nobody can use"


def test_a_damaged_record_is_skipped_by_all_tasks() -> None:
    tasks = Tasks([FIRST.task(INPUT), SECOND.task(INPUT)])
    tasks.damaged_record(7, "its bytes are not what they were")
    assert [task.position for task in tasks.each] == [8, 8]
    outputs, given = tasks.take()
    assert (len(outputs), given) == (1, (1, 0))
    assert tasks.take() == ([], (0, 0)), "it is not given again"


def test_operators_of_a_group_read_one_topic() -> None:
    assert grouped(ALL, TOPICS) == [(FIRST, SECOND), (JOINING,)]
    other = replace(SECOND, topic=JOINING.topic)
    with pytest.raises(ValueError, match=r"t\.hosts: expected stages that read one topic, got \['gaussian', 'cpu'\]"):
        grouped((FIRST, other), TOPICS)


# After an older laggard, with a group for each operator.


def former(bus: EmbeddedBus, positions: dict[str, int]) -> None:
    """What an older laggard left: offsets of a group for each operator, and snapshots."""
    for operator, position in positions.items():
        wired = FIRST if operator == "gaussian" else SECOND
        tasks = Tasks([wired.task(INPUT)])
        for each in bus.read(INPUT, 0, position):
            tasks.process(each)
        tasks.save_all()
        group = TOPICS.former_group(operator)
        assert group is not None
        member = bus.subscribe(group, [INPUT.topic])
        member.poll(0.1)
        member.commit(Commit({INPUT: position}, (), tasks.snapshots()))
        member.close()


def test_it_goes_on_where_the_furthest_of_an_older_laggard_was(
    bus: EmbeddedBus, caplog: pytest.LogCaptureFixture
) -> None:
    append(bus, TROUBLED)
    former(bus, {"gaussian": 90, "cpu": 100})
    one = runner(bus, (FIRST, SECOND))
    settle(one)
    (told,) = caplog.messages
    assert told == "hosts on t.counters[0] goes on at 100, where an older laggard was: one group runs gaussian, cpu now"
    while bus.committed(GROUP, INPUT) < len(TROUBLED):
        one.step(NEVER)
    stop(one)
    for wired in (FIRST, SECOND):
        task = wired.task(INPUT)
        for each in bus.read(INPUT, 0):
            task.process(each)
        task.states.save_all(task.position)
        want = {each.key: each.value for each in task.states.take(task.position) if each.key}
        assert {each.key: each.value for each in bus.snapshots(wired.snapshots, INPUT) if each.key} == want


@pytest.mark.parametrize(("committed", "expected"), [(0, 60), (7, 60), (8, 8), (100, 100)])
def test_only_a_group_that_has_not_begun_goes_on_elsewhere(bus: EmbeddedBus, committed: int, expected: int) -> None:
    append(bus, TROUBLED)
    former(bus, {"gaussian": 60})

    class Trimmed(Refusing):
        """A bus whose oldest records are gone: a group of Kafka that has not begun is where the rest begins."""

        def bounds(self, partition: Partition) -> tuple[int, int]:
            return 7, super().bounds(partition)[1]

    assert going_on(Trimmed(bus, 0.0), TOPICS, (FIRST, SECOND), INPUT, committed) == expected


def test_where_there_was_no_older_laggard_it_begins_at_the_beginning(bus: EmbeddedBus) -> None:
    append(bus, TROUBLED)
    assert going_on(bus, TOPICS, (FIRST, SECOND), INPUT, 0) == 0, "there was none"
    assert going_on(bus, TOPICS, (JOINING,), INPUT, 0) == 0, "its group is what it was"


def test_who_may_not_see_the_older_groups_begins_anew(bus: EmbeddedBus, caplog: pytest.LogCaptureFixture) -> None:
    class Forbidding(Refusing):
        """A bus on which groups of older versions may not be seen; at first it is away."""

        asked = 0

        def committed(self, group: str, partition: Partition) -> int:
            self.asked += 1
            raise BusUnavailable("later") if self.asked == 1 else BusError(f"you may not see {group}")

    append(bus, TROUBLED)
    former(bus, {"gaussian": 90})
    one = runner(Forbidding(bus, 0.0), (FIRST, SECOND))
    settle(one)
    assert caplog.messages == ["t.counters[0]: cannot read the offset of an older laggard: you may not see t.gaussian"]


def test_an_operator_that_is_new_in_its_group_has_missed_nothing(bus: EmbeddedBus) -> None:
    append(bus, [frame("h1", tick, 5.0) for tick in range(10)])
    one = runner(bus, (FIRST,))
    while bus.committed(GROUP, INPUT) < 10:
        one.step(NEVER)
    stop(one)
    delete_before(bus, 6)
    two = runner(bus, (FIRST, SECOND))
    settle(two)
    counted = {each.operator: each for each in two.telemetry.tasks()}
    assert (counted["gaussian"].missed_records, counted["cpu"].missed_records) == (0, 0)
    stop(two)
    assert [
        decode_state(each.value, each.key)["records"] for each in bus.snapshots(SECOND.snapshots, INPUT) if each.key
    ] == [4]


def test_all_states_are_kept_warm(bus: EmbeddedBus) -> None:
    append(bus, TROUBLED)
    member = bus.subscribe(GROUP, [INPUT.topic])
    member.poll(0.1)
    member.commit(Commit({INPUT: 50}))
    made: list[Tasks] = []

    def new_tasks(partition: Partition) -> Tasks:
        made.append(Tasks([FIRST.task(partition), SECOND.task(partition)]))
        return made[-1]

    warm = Standby(bus, GROUP, INPUT.topic, new_tasks, lambda _: False)
    warm.advance(lambda: False)
    assert [task.telemetry.standby_position for task in made[0].each] == [50, 50]
    taken = warm.take(INPUT)
    assert taken is not None
    assert taken.advance(60, lambda: False)
    taken.finish()
    assert [task.position for task in taken.tasks.each] == [60, 60]
    member.close()
