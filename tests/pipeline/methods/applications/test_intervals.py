"""Joining into intervals: which ticks an interval has, when it closes, what is late, and that a copy goes on alike."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.pipeline.core.engine.snapshots import decode_state, encode_state
from laggard.pipeline.core.records import Decoder
from laggard.pipeline.methods.applications import intervals as module
from laggard.pipeline.methods.applications import metrics, streams
from laggard.pipeline.methods.applications.intervals import Intervals
from laggard.pipeline.methods.applications.metrics import metric_parts
from tests.pipeline.methods.applications.records import NAN, SLOW, T0, counted, measured, tick

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.methods.applications.intervals import Interval


def give(intervals: Intervals, frames: Iterable[Frame]) -> list[Interval]:
    """What closes as these come; nothing may be late."""
    found: list[Interval] = []
    for frame in frames:
        if frame.scope == "performance":
            assert intervals.measure(frame, live=True) == "new"
        else:
            assert intervals.tick(frame) == "new"
        found += intervals.closed()
    return found


def values(interval: Interval) -> dict[str, float]:
    return dict(zip(interval.metrics.ids, interval.values.tolist(), strict=True))


def spans(found: Iterable[Interval]) -> list[tuple[float, float]]:
    return [(each.begin_ts - T0, each.ts - T0) for each in found]


def test_an_interval_has_the_mean_of_the_ticks_after_its_begin_up_to_its_end() -> None:
    frames = [
        measured(0),
        *(tick(ts, value) for ts, value in ((0, 100.0), (5, 1.0), (10, 3.0))),
        measured(10, performance={SLOW: 0.5}),
    ]
    intervals = Intervals()
    assert give(intervals, frames) == []
    (interval,) = give(intervals, [tick(15, 50.0)])
    assert spans([interval]) == [(0.0, 10.0)]
    assert interval.performance == {SLOW: 0.5}
    assert values(interval) == {"web-1:x_ratio": 2.0}


@pytest.mark.parametrize(
    ("scope", "rows", "means"),
    [
        (
            "host",
            [{"web-1": {"a": 1.0, "b": NAN}}, {"web-1": {"a": math.inf, "b": 4.0}}, {"web-1": {"a": 3.0, "b": NAN}}],
            {"web-1:a": 2.0, "web-1:b": 4.0},
        ),
        (
            "process",
            [
                {"web-1/a": {"y": 1.0}, "web-1/b": {"y": 10.0}},
                {"web-1/b": {"y": 20.0}, "web-1/c": {"y": 7.0}},
                {"web-1/b": {"y": 30.0}},
            ],
            {"web-1/a:y": 1.0, "web-1/b:y": 20.0, "web-1/c:y": 7.0},
        ),
    ],
    ids=["a counter", "a row"],
)
def test_what_is_not_there_at_every_tick_has_the_mean_of_those_at_which_it_is(
    scope: str, rows: list[dict[str, dict[str, float]]], means: dict[str, float]
) -> None:
    ticks = [counted(5.0 + number, row, scope=scope) for number, row in enumerate(rows)]
    (interval,) = give(Intervals(), [measured(0), *ticks, measured(10), counted(11, {"web-1": {}}, scope=scope)])
    assert values(interval) == means


def test_it_waits_for_every_host_that_was_heard_lately() -> None:
    intervals = Intervals()
    frames = [measured(0), tick(1, 1.0), tick(1, 1.0, "db-1"), measured(10), tick(10.5, 2.0), tick(11, 2.0)]
    assert give(intervals, frames) == []
    assert spans(give(intervals, [tick(11, 3.0, "db-1")])) == [(0.0, 10.0)]


def test_a_host_that_has_died_holds_it_up_for_the_grace_and_then_no_more() -> None:
    intervals = Intervals()
    give(intervals, [measured(0), tick(1, 1.0), tick(1, 1.0, "db-1"), measured(10)])
    closed = give(
        intervals,
        [
            each
            for ts in range(6, 60, 5)
            for each in (tick(ts, 1.0), *([measured(ts + 4)] * (ts % 10 == 6 and ts > 10)))
        ],
    )
    assert spans(closed) == [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0), (30.0, 40.0), (40.0, 50.0)]
    # Its last values stand for three of its ticks, of which there is no second one here.
    assert math.isnan(values(closed[1])["db-1:x_ratio"])
    # That is an interval where this is longer than ten seconds.
    intervals = Intervals()
    start = [measured(0), tick(1, 1.0), tick(1, 1.0, "db-1"), measured(60)]
    assert give(intervals, [*start, *(tick(ts, 1.0) for ts in range(2, 62))]) == []
    assert spans(give(intervals, [tick(62, 1.0)])) == [(0.0, 60.0)]


def test_the_performance_may_be_there_long_before_the_counters() -> None:
    performance = [measured(10.0 * n, performance={SLOW: float(n)}) for n in range(200)]
    intervals = Intervals()
    assert give(intervals, performance) == []
    closed = give(intervals, [tick(5.0 * n, float(n)) for n in range(1, 400)])
    assert spans(closed) == [(10.0 * n, 10.0 * n + 10.0) for n in range(199)]
    assert [values(each)["web-1:x_ratio"] for each in closed] == [2.0 * n + 1.5 for n in range(199)]


def test_a_host_without_a_tick_keeps_its_last_values_for_three_of_its_ticks() -> None:
    slow = [tick(20.0 * n, float(n), "db-1") for n in range(4)]  # the last one at 60
    fast = [tick(1.0 * n, 0.0) for n in range(151)]
    frames = sorted([*slow, *fast], key=lambda each: each.ts)
    closed = give(Intervals(), [*(measured(10.0 * n) for n in range(15)), *frames])
    kept = {each.ts - T0: values(each).get("db-1:x_ratio", NAN) for each in closed}
    assert kept == pytest.approx(
        {10.0: NAN, 20.0: 1.0, 30.0: 1.0, 40.0: 2.0, 50.0: 2.0, 60.0: 3.0}
        | dict.fromkeys((70.0, 80.0, 90.0, 100.0, 110.0, 120.0), 3.0)
        | dict.fromkeys((130.0, 140.0), NAN),
        nan_ok=True,
    )


def test_hosts_and_rows_come_and_go_and_names_are_one_object_while_they_stay() -> None:
    intervals = Intervals()
    first = give(intervals, [measured(0), tick(5, 1.0), measured(10), tick(15, 1.0), measured(20), tick(25, 1.0)])
    assert first[0].metrics is first[1].metrics
    more = {"web-1/nginx": {"y": 1.0}, "web-1/cron": {"y": 2.0}}
    (second,) = give(
        intervals, [counted(26, more, scope="process"), measured(30), tick(35, 1.0), counted(36, {}, scope="process")]
    )
    assert second.metrics.ids == ("web-1:x_ratio", "web-1/nginx:y", "web-1/cron:y")
    (third,) = give(intervals, [measured(40), tick(45, 1.0), counted(46, {}, scope="process")])
    assert third.metrics is second.metrics
    assert math.isnan(values(third)["web-1/cron:y"])


def test_metrics_that_are_gone_for_long_are_forgotten() -> None:
    intervals = Intervals()
    give(intervals, [measured(0), tick(5, 1.0, "gone"), measured(10), tick(15, 1.0)])
    last = None
    for number in range(2, 330):
        for interval in give(intervals, [measured(10.0 * number), tick(10.0 * number + 5, 1.0)]):
            last = interval
    assert last is not None
    assert last.metrics.ids == ("web-1:x_ratio",)


def test_an_interval_without_requests_is_one() -> None:
    frames = [measured(0), tick(5, 1.0), measured(10, {SLOW: NAN, "throughput_per_s": 0.0}), tick(11, 1.0)]
    (interval,) = give(Intervals(), frames)
    assert interval.performance["throughput_per_s"] == 0.0
    assert math.isnan(interval.performance[SLOW])
    assert values(interval) == {"web-1:x_ratio": 1.0}


# What comes twice, late or never.


def test_what_comes_again_is_a_duplicate() -> None:
    intervals = Intervals()
    frames = [measured(0, sequence=1), tick(5, 1.0, sequence=7), tick(6, 1.0), measured(10, sequence=2)]
    give(intervals, frames)
    assert [intervals.measure(frames[0], live=True), intervals.tick(frames[1]), intervals.tick(frames[2])] == [
        "duplicate"
    ] * 3
    (interval,) = give(intervals, [tick(11, 5.0)])
    assert values(interval) == {"web-1:x_ratio": 1.0}
    assert intervals.tick(frames[1]) == "duplicate"


def test_what_belongs_to_a_closed_interval_is_late_and_what_came_out_of_order_is_not() -> None:
    intervals = Intervals()
    (interval,) = give(intervals, [measured(0), tick(6, 3.0), tick(4, 1.0), measured(10), tick(11, 1.0)])
    assert values(interval) == {"web-1:x_ratio": 2.0}
    assert intervals.tick(tick(10, 1.0)) == "late"
    assert intervals.tick(tick(10.5, 1.0)) == "new"


def test_performance_whose_ticks_were_let_go_is_late_but_begins_the_next_interval() -> None:
    intervals = Intervals()
    give(intervals, [measured(0), measured(10), *(tick(ts, 1.0) for ts in range(5, 205, 5))])
    assert intervals.measure(measured(20), live=True) == "late"
    give(intervals, [measured(ts) for ts in range(140, 141)])
    assert spans(give(intervals, [measured(150), *(tick(ts, 1.0) for ts in range(205, 215, 5))])) == [(140.0, 150.0)]


def test_a_long_pause_of_the_performance_is_no_interval() -> None:
    intervals = Intervals()
    frames = [measured(0), measured(10), *(tick(ts, 1.0) for ts in range(5, 20, 5))]
    assert spans(give(intervals, frames)) == [(0.0, 10.0)]
    after = [measured(45), measured(55), *(tick(ts, 2.0) for ts in range(20, 70, 5))]
    assert spans(give(intervals, after)) == [(45.0, 55.0)]


def test_performance_that_is_no_newer_is_late_and_after_some_of_it_the_clock_was_set_back() -> None:
    intervals = Intervals()
    give(intervals, [measured(0), measured(10)])
    assert intervals.measure(measured(10, performance={SLOW: 3.0}), live=True) == "late"
    assert intervals.measure(measured(5), live=True) == "late"
    intervals = Intervals()
    give(intervals, [measured(100_000)])
    judged = [intervals.measure(measured(10.0 * n), live=True) for n in range(12)]
    assert judged == ["late"] * 11 + ["set_back"]


# Bounds.


@pytest.mark.parametrize(
    ("frames", "kept"),
    [
        ([tick(ts, 1.0) for ts in range(1000)], 1),
        ([measured(0), measured(30), *(tick(ts, 1.0) for ts in range(31, 1000))], 151),
    ],
    ids=["only the newest where nobody measures", "a minute or five intervals"],
)
def test_ticks_do_not_wait_for_ever(frames: list[Frame], kept: int) -> None:
    intervals = Intervals()
    give(intervals, frames)
    (stream,) = intervals.snapshot()["streams"]
    assert len(stream["ticks"]) == kept


def test_held_values_and_metrics_and_waiting_frames_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_WAITING_CELLS", 10)
    monkeypatch.setattr(metrics, "MAX_METRICS", 2)
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    intervals = Intervals()
    rows = {"web-1": {"a": 1.0, "b": 2.0, "c": 3.0}}
    assert give(intervals, [measured(0), *(counted(ts, rows) for ts in range(1, 8))]) == []
    (stream,) = intervals.snapshot()["streams"]
    assert len(stream["ticks"]) == 3
    (interval,) = give(intervals, [measured(7.5), counted(8, rows)])
    assert values(interval) == {"web-1:a": 1.0, "web-1:b": 2.0}
    assert intervals.places.left_out == 1
    assert spans(give(intervals, [measured(7.5 * n) for n in range(2, 7)])) == [(7.5, 15.0), (15.0, 22.5)]


def test_a_stream_silent_for_an_hour_is_forgotten_and_the_number_of_streams_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "MAX_STREAMS", 3)
    intervals = Intervals()
    give(intervals, [tick(float(n), 1.0, f"host-{n}") for n in range(5)])
    assert [each["hosts"] for each in intervals.snapshot()["streams"]] == [["host-2"], ["host-3"], ["host-4"]]
    give(intervals, [each for n in range(380) for each in (tick(10.0 * n + 5, 1.0), measured(10.0 * n))])
    assert [each["hosts"] for each in intervals.snapshot()["streams"]] == [["web-1"]]


# A copy goes on alike.


def stream_of(seed: int, length: int, *, late: bool = True) -> list[Frame]:
    """Ticks of hosts that come and go, out of order, twice and late; and performance that pauses, and may be late."""
    draw = random.Random(seed)
    frames: list[Frame] = []
    for number in range(length):
        ts = number + draw.choice((0.0, 0.0, 0.0, -1.5, -30.0))
        kind = draw.random()
        if kind < 0.15:
            frames.append(measured(ts if late else number, sequence=number, performance={SLOW: draw.random()}))
        elif kind < 0.2 and frames:
            frames.append(draw.choice(frames))
        elif kind < 0.6:
            frames.append(tick(ts, draw.choice((draw.random(), NAN)), f"host-{draw.randrange(3)}", sequence=number))
        else:
            host = f"host-{draw.randrange(2)}"
            rows = {f"{host}/p{n}": {"y": draw.random(), "z": draw.random()} for n in range(draw.randrange(4))}
            frames.append(counted(ts, rows, host=host, scope="process", sequence=number))
    return frames


def outcome(intervals: Intervals, number: int, frame: Frame) -> list[Any]:
    judged = intervals.measure(frame, live=True) if frame.scope == "performance" else intervals.tick(frame)
    return [
        judged,
        *((each.begin_ts, each.ts, each.metrics.ids, each.values.tobytes()) for each in intervals.closed()),
    ]


@pytest.mark.slow
@given(st.integers(0, 1 << 32), st.integers(1, 400))
def test_a_state_that_was_written_and_read_goes_on_bit_for_bit(seed: int, cut: int) -> None:
    frames = stream_of(seed, 400)
    whole, first = Intervals(), Intervals()
    expected = [outcome(whole, number, frame) for number, frame in enumerate(frames)]
    got = [outcome(first, number, frame) for number, frame in enumerate(frames[:cut])]
    second = Intervals()
    second.restore(decode_state(encode_state(first.snapshot()), "here"), Decoder(), "here")
    got += [outcome(second, number, frame) for number, frame in enumerate(frames[cut:], start=cut)]
    assert got == expected
    assert encode_state(second.snapshot()) == encode_state(whole.snapshot())


@given(st.integers(0, 1 << 32))
def test_intervals_follow_each_other_and_their_means_are_those_of_the_ticks_in_them(seed: int) -> None:
    """Against the plainest way: all ticks of a host that were taken, looked through for each interval."""
    taken: dict[str, list[Frame]] = {}
    intervals, last_ts = Intervals(), -math.inf
    for frame in stream_of(seed, 300, late=False):
        if frame.scope == "performance":
            intervals.measure(frame, live=True)
        elif intervals.tick(frame) == "new":
            taken.setdefault(f"{frame.scope} {frame.hosts[0]}", []).append(frame)
        for interval in intervals.closed():
            assert last_ts <= interval.begin_ts < interval.ts
            last_ts = interval.ts
            for metric, value in values(interval).items():
                parts = metric_parts(metric)
                scope = "process" if parts.name else "host"
                ticks = [
                    each
                    for each in taken.get(f"{scope} {parts.host}", ())
                    if interval.begin_ts < each.ts <= interval.ts
                ]
                if ticks:
                    there = [
                        float(each.values[each.layout.rows.index(parts.row), each.layout.features.index(parts.feature)])
                        for each in ticks
                        if parts.row in each.layout.rows
                    ]
                    there = [each for each in there if math.isfinite(each)]
                    assert value == pytest.approx(np.mean(there) if there else NAN, nan_ok=True)


@pytest.mark.parametrize(
    ("metric", "parts"),
    [
        ("web-1:cpu_busy_ratio", ("web-1", "web-1", "cpu_busy_ratio")),
        ("db-1/postgres:io_delay_ratio", ("db-1", "db-1/postgres", "io_delay_ratio")),
        ("web-1/kworker/0:1:cpu_user_ratio", ("web-1", "web-1/kworker/0:1", "cpu_user_ratio")),
        ('10.0.0.1:9100:node_disk_io{device="a:b"}', ("10.0.0.1:9100", "10.0.0.1:9100", 'node_disk_io{device="a:b"}')),
        ("web-1/a{b:x", ("web-1", "web-1/a{b", "x")),
    ],
)
def test_what_a_metric_is_of(metric: str, parts: tuple[str, str, str]) -> None:
    assert metric_parts(metric) == parts
