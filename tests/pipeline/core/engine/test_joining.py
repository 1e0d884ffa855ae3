"""The stage that joins anomalies: exactly once, whatever ends it, and whoever runs the operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.core.engine.runner import TURN_S
from laggard.pipeline.core.records.outputs import Anomaly, Incident, Progress, read_output, write_output
from laggard.pipeline.core.topics import INCIDENTS
from laggard.pipeline.methods.incidents.joiner import Joiner
from tests.pipeline.core.engine.conftest import (
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
from tests.pipeline.methods.incidents.test_stage import JOINED, JOINING, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.pipeline.core.bus import Bus, Polled, Subscription
    from laggard.pipeline.core.bus.embedded import EmbeddedBus
    from laggard.pipeline.core.engine.runner import Runner
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.records import Frame, Mark
    from laggard.pipeline.core.records.outputs import Output

BOTH: tuple[Stage, ...] = (WIRED, JOINING)


def drain(one: Runner, bus: Bus, operator: str = "drift") -> None:
    """Run until all frames were scored, and all that came of them was joined."""
    for _ in range(20 * (bus.bounds(INPUT)[1] + 100)):
        done = all(
            bus.committed(TOPICS.group(name), partition) >= bus.bounds(partition)[1]
            for name, partition in ((operator, INPUT), (INCIDENTS, JOINED))
        )
        if done and not one.recovering():
            return
        one.step(NEVER)
    raise AssertionError("does not come to the end")


def published(bus: Bus) -> list[Output]:
    return [read_output(each.value, "here") for each in bus.read(JOINED, 0)]


def incidents(bus: Bus) -> list[Incident]:
    return [each for each in published(bus) if isinstance(each, Incident)]


def left(bus: Bus) -> tuple[list[tuple[str, bytes, Any]], dict[str, bytes]]:
    """The incidents, and the states."""
    states = {each.key: each.value for each in bus.snapshots(JOINING.snapshots, JOINED) if each.key}
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
    monkeypatch.setattr("laggard.pipeline.core.engine.runner.IDLE_S", 0.0)


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
    monkeypatch.setattr("laggard.pipeline.core.engine.runner.IDLE_S", 0.5)
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
