"""From events to requests: boundaries, what is missing or odd, and how much is kept."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.events import EVENT, NO_TEXT, Events, Kind, Texts
from laggard.producers.trace.serving import EVENT_LOOP, LOST_EVENTS, NO_TIME, STILL_OPEN, THREAD_ENDED, TOO_LONG
from tests.producers.trace.rows import Rows, nanoseconds
from tests.producers.trace.simulated import Kernel, Run, Stage, Wait, WaitFor

if TYPE_CHECKING:
    from tests.producers.trace.simulated import Step


@pytest.mark.parametrize(
    ("said", "service"), [("shop", "shop"), ("", "php-fpm")], ids=["of its service", "else of its process"]
)
def test_a_request_says_what_it_was(said: str, service: str) -> None:
    rows = Rows("php-fpm")
    rows(1_000, 0, Kind.BEGIN, 1, text=f"{said}\tGET /orders/4711?page=2")
    rows(3_000, 0, Kind.END, 1)
    [request] = rows.analysed(Analysis(host="web-1", clock_offset_s=1_700_000_000.25))
    assert (request.service, request.name, request.host) == (service, "GET /orders/*", "web-1")
    assert request.ts == pytest.approx(1_700_000_000.250001, abs=1e-6)
    assert re.fullmatch(r"1-170000000025000\d{4}", request.request)
    assert (request.duration_s, request.times_s) == (2e-6, {"RU": 2e-6})
    assert request.critical_s == request.times_s
    assert request.notes == ()


@pytest.mark.parametrize("inner", [0, 5])
def test_a_request_inside_of_another_is_part_of_it(inner: int) -> None:
    rows = Rows("worker")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /outer")
    rows(20, 0, Kind.BEGIN, 1, inner, text="shop\tGET /inner")
    rows(30, 0, Kind.END, 1, inner)
    rows(40, 0, Kind.END, 1)
    rows(50, 0, Kind.BEGIN, 1, text="shop\tGET /next")
    rows(60, 0, Kind.END, 1)
    analysis = Analysis()
    assert [(each.name, each.duration_s) for each in rows.analysed(analysis)] == [
        ("GET /outer", 30e-9),
        ("GET /next", 10e-9),
    ]
    assert analysis.report.warnings == ()


def test_trap_8_requests_that_overlap_on_a_thread_are_an_event_loops() -> None:
    rows = Rows("node")
    for at, kind, number in (
        (10, Kind.BEGIN, 1),
        (20, Kind.BEGIN, 2),
        (30, Kind.END, 1),
        (40, Kind.BEGIN, 3),
        (50, Kind.END, 2),
        (60, Kind.END, 3),
    ):
        rows(at, 0, kind, 1, number, text="shop\tGET /")
    # This one was alone: it is judged, with a note, for the thread may serve others that are not reported.
    rows(100, 0, Kind.BEGIN, 1, 4, text="shop\tGET /alone")
    rows.call(110, 120, 0, 1, "epoll_wait", 232, result=1)
    rows(130, 0, Kind.END, 1, 4)
    analysis = Analysis()
    [request] = rows.analysed(analysis)
    assert request.name == "GET /alone"
    assert request.notes == ("event loop: its thread serves other requests at the same time",)
    assert analysis.report.discarded == {EVENT_LOOP: 3}
    assert analysis.report.warnings == (
        "requests discarded, since several overlap on one thread (an event loop), which the method does not support: 3",
    )


def test_trap_8_io_uring_is_said() -> None:
    rows = Rows("worker")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows.call(20, 30, 0, 1, "io_uring_enter", 426, 4, result=1)
    rows(40, 0, Kind.END, 1)
    assert rows.one().notes == ("io_uring: the kernel's asynchronous work is not traced",)


def test_writes_of_markers_are_not_part_of_the_request() -> None:
    rows = Rows("python")
    rows(5, 0, Kind.SYSCALL_ENTER, 1, 1, 3, text="write")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows(12, 0, Kind.SYSCALL_EXIT, 1, 1, 20, text="write")
    rows.call(20, 25, 0, 1, "read", 0, 4, result=20)
    rows(30, 0, Kind.SYSCALL_ENTER, 1, 1, 3, text="write")
    rows(40, 0, Kind.END, 1)
    rows(41, 0, Kind.SYSCALL_EXIT, 1, 1, 20, text="write")
    request = rows.one()
    assert request.syscalls == ("read",)
    assert nanoseconds(request.times_s) == {"RS": 17, "RU": 13}


def test_system_calls_of_all_threads_of_the_path_are_in_the_order_of_time() -> None:
    stage = Stage()
    steps: list[Step] = [
        Kernel(10, "openat"),
        WaitFor((Kernel(10, "pread64"), Run(10), Kernel(10, "lseek")), 5, 5, how="futex"),
        Kernel(10, "close"),
    ]
    stage.request(stage.actor("worker"), 2_000_000, steps)
    analysis = Analysis()
    [request] = [*analysis.feed(next(stage.batches())), *analysis.finish()]
    assert request.syscalls == ("openat", "futex", "pread64", "lseek", "futex", "close")


# What is missing or odd.


def test_requests_that_overlap_a_gap_are_not_judged_also_those_that_ended_in_it() -> None:
    rows = Rows("one", "two", "three")
    rows(100, 0, Kind.BEGIN, 1, text="shop\tGET /before")
    rows(200, 0, Kind.END, 1)
    rows(250, 1, Kind.BEGIN, 2, text="shop\tGET /inside")
    rows(350, 1, Kind.END, 2)
    rows(360, 2, Kind.BEGIN, 3, text="shop\tGET /across")
    # CPU 0 lost what happened from 300 to 500, and tells so when it goes on.
    rows(500, 0, Kind.LOST, -1, 300, 500, 77)
    rows(520, 2, Kind.END, 3)
    rows(600, 0, Kind.BEGIN, 1, text="shop\tGET /after")
    rows(700, 0, Kind.END, 1)
    analysis = Analysis()
    whole = rows.batch()
    # Also where the gap is reported a batch later.
    found = [
        *analysis.feed(Events(whole.events[:8], whole.texts)),
        *analysis.feed(Events(whole.events[8:], whole.texts)),
        *analysis.finish(),
    ]
    assert [each.name for each in found] == ["GET /before", "GET /after"]
    assert analysis.report.discarded == {LOST_EVENTS: 2}
    assert analysis.report.warnings == (
        "requests discarded, since events are missing during them: 2",
        "gaps with missing events: 1",
    )
    # What a thread did before it was seen again is not known; what it does then is.
    assert found[1].times_s == {"RU": 100e-9}
    # One who reads only the later request knows what share of the time before it is missing.
    assert [each.missing_ratio for each in found] == [0.0, pytest.approx(200 / 700)]


def test_a_gap_of_one_cpu_leaves_who_runs_on_another_known() -> None:
    rows = Rows("one", "two")
    rows(500, 0, Kind.LOST, 0, 300, 500, 77)
    rows(600, 1, Kind.BEGIN, 2, text="shop\tGET /")
    rows(700, 1, Kind.SWITCH, 2, 0, 0, 1)
    # It is woken by a thread of which it is not known what it does: the wait cannot be resolved, but is one.
    rows(750, 0, Kind.WAKE, 1, 2)
    rows(760, 1, Kind.SWITCH, 0, 2, text="two")
    rows(800, 1, Kind.END, 2)
    times, critical = rows.sets()
    assert times == {"RU": 140, "BT": 50, "BP": 10}
    assert critical == {"RU": 140, "UN": 50, "BP": 10}


def test_events_that_go_back_in_time_are_taken_as_of_the_same_time() -> None:
    rows = Rows("worker")
    rows(10_000, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows.call(20_000, 19_000, 0, 1, "read")
    rows(30_000, 0, Kind.END, 1)
    analysis = Analysis()
    [request] = rows.analysed(analysis)
    assert request.times_s == {"RU": 20e-6}
    assert analysis.report.warnings == ("events older than the one before, by up to 1.0 us, moved to its time: 1",)


def test_missing_switches_are_said_and_what_is_not_known_is_un() -> None:
    # Thread 1 is blocked as far as is known, and then does something: its wake-up and its switch are missing.
    rows = Rows("worker", "other")
    rows(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
    rows(50, 0, Kind.SWITCH, 1, 9, 0, 1, text="third")
    rows.call(100, 110, 0, 1, "read")
    rows(150, 0, Kind.END, 1)
    analysis = Analysis()
    [request] = rows.analysed(analysis)
    assert nanoseconds(request.times_s) == {"RU": 80, "UN": 50, "RS": 10}
    assert request.notes == ("36% of its time is unknown: events are missing",)
    assert analysis.report.out_of_step == 1
    assert analysis.report.warnings == (
        "runs of a thread without a recorded switch to it, so that its earlier state is unknown: 1",
    )


NO_BEGIN = "ends of requests without a begin, such as requests from before the trace: 1"


@pytest.mark.parametrize(
    ("events", "discarded", "warnings"),
    [
        pytest.param(
            [(10, 1, Kind.END, 2), (20, 0, Kind.BEGIN, 1)],
            *(STILL_OPEN, ("requests discarded, since they were still open at the end of the trace: 1", NO_BEGIN)),
            id="open at the end, and begun before the trace",
        ),
        pytest.param(
            [
                *((20, 0, Kind.BEGIN, 1), (30, 0, Kind.EXIT, 1), (40, 0, Kind.SWITCH, 1, 0, 0, 16)),
                # Its number is used again; the end that comes then is not that request's.
                *((50, 0, Kind.FORK, 5, 1, 1), (60, 0, Kind.SWITCH, 0, 1), (70, 0, Kind.END, 1)),
            ],
            *(THREAD_ENDED, ("requests discarded, since their thread ended first: 1", NO_BEGIN)),
            id="given up by a thread that ends",
        ),
        pytest.param(
            [(20, 0, Kind.BEGIN, 1), (20, 0, Kind.END, 1)],
            *(NO_TIME, ("requests discarded, since their duration is zero: 1",)),
            id="of no time",
        ),
    ],
)
def test_what_is_no_whole_request_is_counted(
    events: list[tuple[int, ...]], discarded: str, warnings: tuple[str, ...]
) -> None:
    rows = Rows("worker", "other")
    for ts, cpu, kind, *numbers in events:
        rows(ts, cpu, Kind(kind), *numbers)
    analysis = Analysis()
    assert rows.analysed(analysis) == []
    assert analysis.report.discarded == {discarded: 1}
    assert analysis.report.warnings == warnings


def test_nothing_comes_of_nothing() -> None:
    analysis = Analysis()
    assert analysis.feed(Events(np.empty(0, EVENT), Texts())) == []
    assert analysis.finish() == []
    assert analysis.report.warnings == ()


def test_batches_must_be_of_one_trace() -> None:
    analysis = Analysis()
    analysis.feed(Events(np.empty(0, EVENT), Texts()))
    with pytest.raises(ValueError, match="expected the texts of the batches before"):
        analysis.feed(Events(np.empty(0, EVENT), Texts()))


# How much is kept.


def long_trace(requests: int, *, stuck: bool) -> list[Events]:
    """Requests one after the other, each with a wait for another thread; one more thread may never end its own."""
    stage = Stage()
    at = 2_000_000
    if stuck:
        stage.emit(at, 900, Kind.SWITCH, 0, 901, text="stuck")
        stage.emit(at, 900, Kind.BEGIN, 901, text="shop\tGET /stuck")
    worker = stage.actor("worker")
    for _ in range(requests):
        steps: list[Step] = [Run(100), Kernel(100), WaitFor((Run(1_000), Wait("disk", 5_000, 100)), 10, 10), Kernel(50)]
        worker.busy.clear()
        at = stage.request(worker, at + 1_000, steps) + 1_000
        for actor in stage.actors:
            actor.busy.clear()
    return list(stage.batches(1_000))


def test_what_no_open_request_needs_is_dropped() -> None:
    analysis = Analysis()
    batches = long_trace(400, stuck=False)
    assert sum(len(analysis.feed(batch)) for batch in batches) + len(analysis.finish()) == 400
    kept = [machine.forget(-math.inf) for machine in analysis._machines.values()]  # type: ignore[arg-type]
    assert sum(kept) < 1_000


@pytest.mark.parametrize("bound", [{"kept": 2_000}, {"longest_s": 0.0005}])
def test_a_request_that_never_ends_is_given_up(bound: dict[str, float]) -> None:
    analysis = Analysis(**bound)  # type: ignore[arg-type]
    found = []
    for batch in long_trace(400, stuck=True):
        found += analysis.feed(batch)
    found += analysis.finish()
    assert len(found) == 400
    assert analysis.report.discarded == {TOO_LONG: 1}
    assert analysis.report.warnings == ("requests discarded, since they exceed the limit of duration or memory: 1",)


KINDS = [Kind.BEGIN, Kind.END, *Kind]
EVENTS = st.tuples(
    st.integers(0, 30),  # how much later, as of 20: so that many come at the same time and some go back
    st.integers(0, 2),
    st.sampled_from(KINDS),
    st.sampled_from([0, 4, 5, 6]),
    st.integers(-1, 4),
    st.sampled_from([-1, 0, 1, 2, 3, 4]),
    st.sampled_from([-115, -110, -2, 0, 1, 2]),
    st.sampled_from([0, 1, 2, 7]),
    st.integers(-1, 7),
)
TEXTS = ("futex", "flock", "/a", "eth0", "shop\tGET /", "poll", "close", "clone")


@given(st.lists(EVENTS, max_size=150), st.integers(1, 40))
def test_whatever_comes_times_sum_to_the_duration(events: list[tuple[int, ...]], size: int) -> None:
    rows = Rows()
    for text in TEXTS:
        rows.texts.place(text)
    ts = 1_000
    for later, *columns in events:
        ts += max(later - 20, -5)
        rows.rows.append((ts, *columns, NO_TEXT))
    analysis = Analysis(kept=50)
    found = []
    for at in range(0, len(rows.rows), size):
        found += analysis.feed(Events(np.array(rows.rows[at : at + size], EVENT), rows.texts))
    found += analysis.finish()
    for request in found:
        total = round(request.duration_s * 1e9)
        assert total > 0
        for times in (request.times_s, request.critical_s):
            assert sum(nanoseconds(times).values()) == total
            assert all(seconds > 0 for seconds in times.values())
        assert sum(round(each.time_s * 1e9) for each in request.spent) == total
        assert set(request.counts) == set(request.times_s)
        assert request.path[0].begin_s == 0.0
        assert request.path[-1].end_s == request.duration_s
        assert max(each.thread for each in request.path) == len(request.threads) - 1
    begun = sum(kind == Kind.BEGIN for _, _, kind, *_ in events)
    assert len(found) + sum(analysis.report.discarded.values()) <= begun
