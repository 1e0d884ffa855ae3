"""Hosts that fall silent while something is wrong: it ends, is told not to have been seen to, and always in one way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from laggard.pipeline.core.engine import states
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.snapshots import decode_state
from laggard.pipeline.core.engine.states import SILENT_RECORDS
from laggard.pipeline.core.eventtime import SILENT_S, SILENT_TICKS
from laggard.pipeline.core.records.outputs import Anomaly, Progress
from tests.pipeline.core.engine.conftest import (
    INPUT,
    NEVER,
    ONE_BY_ONE,
    WIRED,
    append,
    frame,
    new_task,
    record,
    runner,
    stop,
    told,
)
from tests.pipeline.core.engine.test_joining import BOTH, drain, incidents, left
from tests.pipeline.methods.incidents.test_stage import JOINED

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.bus.embedded import EmbeddedBus
    from laggard.pipeline.core.engine.runner import Runner
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.scoring.task import Task

TICK_S = 400.0
T0 = 10_000.0
FEW = 5
"""So few records of each key are enough in tests of what a worker does."""


def tick(host: str, number: int, value: float = 5.0) -> Frame:
    return frame(host, number, value, ts=T0 + TICK_S * number)


def troubled(host: str) -> list[Frame]:
    """A host in trouble from its fourth tick on."""
    return [*(tick(host, number) for number in range(3)), tick(host, 3, 25.0)]


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "SILENT_RECORDS", FEW)
    monkeypatch.setattr("laggard.pipeline.core.engine.runner.IDLE_S", 0.0)


def others(count: int, every_s: float = TICK_S, *, host: str = "h2", ahead_s: float = 0.0) -> list[Frame]:
    """The frames of another host after a trouble, the first one a while after its last frame."""
    return [
        frame(host, 4 + number, 5.0, ts=T0 + 3.0 * TICK_S + ahead_s + every_s * (number + 1)) for number in range(count)
    ]


@pytest.mark.parametrize(("every_s", "before"), [(5.0, 719), (TICK_S, 2 * SILENT_RECORDS - 1)])
def test_what_a_host_left_open_ends_when_others_are_far_past_it(every_s: float, before: int) -> None:
    """By an hour, and by many records of each."""
    one = new_task()
    (anomaly,) = told(one, troubled("h1"))
    frames = others(1000, every_s)
    assert told(one, frames[:before]) == []
    assert [each.id for each in told(one, frames[before : before + 1])] == [anomaly.id]
    assert told(one, frames[before + 1 :]) == []


def test_it_is_told_not_to_have_been_seen_to_end() -> None:
    one = new_task()
    (anomaly,) = told(one, troubled("h1"))
    (ended,) = told(one, others(500))
    assert isinstance(ended, Progress)
    assert (ended.id, ended.change, ended.key, ended.number) == (anomaly.id, "ended", "h1", 1)
    # All times are the host's own: the clocks of others may be wrong.
    assert (ended.ts, ended.until_ts, ended.silent_since_ts) == (anomaly.ts, anomaly.ts, anomaly.ts)
    assert ended.sentence == (
        "Its end was not observed: there is no data on it after 1970-01-01 03:06:40 UTC. "
        "The most likely culprit was `a` (pid 1)."
    )


def test_what_goes_on_when_the_host_is_back_is_another_anomaly() -> None:
    one = new_task()
    first, *_ = told(one, troubled("h1"))
    told(one, others(500))
    (second,) = told(one, [tick("h1", 600, 90.0)])
    assert isinstance(second, Anomaly)
    assert second.id != first.id
    (ended,) = told(one, [tick("h1", 601, 35.0)])
    assert (ended.id, ended.change) == (second.id, "ended")
    assert math.isnan(ended.silent_since_ts)
    assert ended.sentence.startswith("Resolved within a second.")


def test_who_is_alone_ends_what_it_left_open_when_it_is_back() -> None:
    one = new_task()
    (first,) = told(one, troubled("h1"))
    ended, second = told(one, [tick("h1", 13, 90.0)])
    assert (ended.id, ended.change, ended.silent_since_ts) == (first.id, "ended", first.ts)
    assert isinstance(second, Anomaly)


def test_who_is_back_within_the_hour_has_not_fallen_silent() -> None:
    one = new_task()
    (first,) = told(one, troubled("h1"))
    back = [frame("h1", 4, 90.0, ts=first.ts + SILENT_S - 1.0)]
    (goes_on,) = told(one, back)
    assert (goes_on.id, goes_on.change) == (first.id, "extended")


def test_a_clock_that_is_far_ahead_silences_no_host() -> None:
    one = new_task()
    told(one, troubled("h1"))
    # The other host is a year ahead, and sends ten times as many records.
    wrong = iter(others(2000, 40.0, ahead_s=365 * 86_400.0))
    found = []
    for number in range(4, 40):
        found += told(one, [next(wrong) for _ in range(10)])
        found += told(one, [tick("h1", number, 25.0 + 40.0 * number)])
    assert {each.key for each in found} == {"h1"}
    assert {each.change for each in found} == {"extended"}


def test_a_host_with_long_ticks_is_waited_for() -> None:
    hours = [frame("h1", number, value, ts=T0 + 7200.0 * number) for number, value in enumerate((5.0, 5.0, 5.0, 25.0))]
    one = new_task()
    (first,) = told(one, hours)
    waited_s = SILENT_TICKS * 7200.0
    until = [frame("h2", number, 5.0, ts=first.ts + number * waited_s / 900.0) for number in range(900)]
    assert told(one, until) == []
    (ended,) = told(one, [frame("h2", 900, 5.0, ts=first.ts + waited_s)])
    assert (ended.id, ended.silent_since_ts) == (first.id, first.ts)


# A worker.


def trouble_among_others() -> list[Any]:
    """Three hosts: two fall silent in the middle of a trouble, at once, and one of them comes back, still in it."""
    begun = [each for three in zip(troubled("h1"), troubled("h3"), range(4), strict=True) for each in three[:2]]
    meanwhile = [tick("h2", number) for number in range(4, 40)]
    back = [tick("h1", 40, 90.0), tick("h2", 41), *(tick("h1", number, 35.0) for number in range(41, 46))]
    return [tick("h2", 0), *begun, *meanwhile, *back, *(tick("h2", number) for number in range(50, 54))]


def states_of(bus: Bus) -> dict[str, Any]:
    return {each.key: decode_state(each.value, each.key) for each in bus.snapshots(WIRED.snapshots, INPUT) if each.key}


def outcome(bus: EmbeddedBus) -> tuple[Any, Any]:
    """What operators told, and their states; the incidents, and theirs."""
    told = [(each.key, each.value) for each in bus.read(JOINED, 0) if b'"kind":"incident"' not in each.value]
    return (told, states_of(bus)), left(bus)


@pytest.mark.slow
@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("pace", [ONE_BY_ONE, Pace(commit_s=0.0, poll_records=7)], ids=["each record", "seven at once"])
@pytest.mark.parametrize("standby", [False, True], ids=["cold", "standby"])
def test_whoever_is_killed_and_whenever_the_same_ends(
    new_bus: Callable[[], EmbeddedBus], monkeypatch: pytest.MonkeyPatch, pace: Pace, standby: bool
) -> None:
    monkeypatch.setattr("laggard.pipeline.core.engine.recoverer.EVERY_S", 0.0)

    def begin(bus: Bus) -> Runner:
        return runner(bus, BOTH, pace, snapshot_records=1000, standby=standby)

    records = trouble_among_others()
    with new_bus() as bus:
        append(bus, records)
        undisturbed = begin(bus)
        drain(undisturbed, bus)
        stop(undisturbed)
        want = outcome(bus)
        closed = [each for each in incidents(bus) if each.change == "closed"]
        assert [(each.key, math.isnan(each.silent_since_ts)) for each in closed] == [
            ("h1", False), ("h3", False), ("h1", True),
        ]  # fmt: skip
    for kills in range(1, 60, 6 if pace is ONE_BY_ONE else 3):
        with new_bus() as bus:
            append(bus, records)
            one, two = begin(bus), begin(bus)
            for _ in range(kills):
                one.step(NEVER)
            if standby:
                two.step(NEVER)
            drain(two, bus)
            stop(two)
            assert outcome(bus) == want, kills


@pytest.mark.usefixtures("_few")
def test_the_incident_says_that_its_end_was_not_observed(bus: EmbeddedBus) -> None:
    append(bus, trouble_among_others()[:-11])
    one = runner(bus, BOTH)
    drain(one, bus)
    opened, _, closed, _ = incidents(bus)
    assert (closed.id, closed.change, closed.ts, closed.until_ts) == (opened.id, "closed", opened.ts, opened.ts)
    assert closed.silent_since_ts == opened.ts
    assert closed.sentence == (
        "On h1 something began at 1970-01-01 03:06:40 UTC. Its end was not observed: there is no data on it after "
        "1970-01-01 03:06:40 UTC. The most likely culprit was `a` (pid 1). "
        "Seen by drift (process); the worst score is 2."
    )


HOSTS = ("h1", "h2", "h3")
TURNS = st.lists(
    st.tuples(
        st.sampled_from(HOSTS), st.sampled_from([5.0, 40.0, 200.0]), st.integers(1, 16), st.sampled_from([60.0, 600.0])
    ),
    max_size=16,
)
"""Who sends what, how often, and how far apart in seconds."""


@pytest.mark.slow
@pytest.mark.usefixtures("_few")
@hypothesis_settings(max_examples=50)
@given(TURNS, st.lists(st.integers(0, 100), max_size=3))
def test_any_hosts_and_any_commits(turns: list[tuple[str, float, int, float]], cuts: list[int]) -> None:
    """A task that is saved and recovered at any records reports what an undisturbed one reports."""
    frames: list[Frame] = []
    ts = T0
    for host, value, count, every_s in turns:
        for _ in range(count):
            ts += every_s
            frames.append(frame(host, len(frames), value, ts=ts))
    records = [record(each, offset) for offset, each in enumerate(frames)]
    whole = new_task(snapshot_records=8)
    want = told(whole, frames)
    one, got = new_task(snapshot_records=8), []
    saved: dict[str, Any] = {}
    done = 0
    for cut in [*sorted(min(cut, len(frames)) for cut in cuts), len(frames)]:
        for each in records[done:cut]:
            one.process(each)
            # Of each commit the snapshots are there, whatever becomes of the worker.
            saved |= {snapshot.key: snapshot for snapshot in one.states.take(one.position)}
        got += one.outputs
        done = cut
        one = recovered(saved, records[:done])
    # NaN differs from itself; the text that Python has for it does not.
    assert repr(got) == repr(want)
    assert {key: repr(snapshot_of(one, key)) for key in one.states.keys()} == {  # noqa: SIM118 - no dictionary
        key: repr(snapshot_of(whole, key))
        for key in whole.states.keys()  # noqa: SIM118 - no dictionary
    }
    open_now = [each.id for host in HOSTS for each in courses(whole, host)]
    ended = [each.id for each in want if isinstance(each, Progress) and each.change == "ended"]
    assert sorted([*open_now, *ended]) == sorted(each.id for each in want if isinstance(each, Anomaly))


def recovered(saved: dict[str, Any], records: list[Any]) -> Task:
    """A task that begins with these snapshots and records."""
    one = new_task(snapshot_records=8)
    loaded = one.states.load(saved.values())
    for each in records[loaded.base or 0 :]:
        if each.offset >= loaded.saved.get(each.key, 0):
            one.replay([each])
        else:
            one.skip(each)
    one.states.loaded(len(records))
    one.position = len(records)
    return one


def snapshot_of(one: Task, key: str) -> dict[str, Any]:
    keyed = one.states.get(key)
    assert keyed is not None
    state = keyed.snapshot()
    for stream in state["streams"].values():
        stream["operator"] = {name: str(value) for name, value in stream["operator"].items()}
    return state


def courses(one: Task, host: str) -> tuple[Any, ...]:
    keyed = one.states.get(host)
    return () if keyed is None else keyed.streams["process"].courses
