"""Joining what hosts report about a pool: which tick a frame is of, when ticks close, bounds and states."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laggard.pipeline.core.engine.snapshots import decode_state, encode_state
from laggard.pipeline.core.eventtime import SET_BACK_RECORDS
from laggard.pipeline.core.records import RecordError
from laggard.pipeline.methods.pools import ticks as ticks_module
from laggard.pipeline.methods.pools.ticks import GRACE_S, SURE_TICKS, Tick, Ticks, Together
from tests.pipeline.methods.pools.records import NAN, T0, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.pipeline.core.records import Frame


def fed(ticks: Ticks, frames: Iterable[Frame]) -> list[Tick]:
    """The ticks that close as these frames come."""
    closed: list[Tick] = []
    for frame in frames:
        assert ticks.take(frame, live=True) == "new"
        closed += ticks.closed()
    return closed


def members(tick: Tick) -> dict[str, float]:
    layout, values = Together().joined(tick.parts)
    return dict(zip(layout.rows, values[:, 0].tolist(), strict=True))


def times(closed: Sequence[Tick]) -> list[float]:
    return [tick.ts - T0 for tick in closed]


def test_a_frame_of_all_members_is_a_tick_at_once_when_it_is_known_that_no_parts_follow() -> None:
    ticks = Ticks()
    frames = [told(5.0 * number, {"a": number, "b": 0}) for number in range(8)]
    closed_at = []
    for frame in frames:
        ticks.take(frame, live=True)
        closed_at.append([round((tick.ts - T0) / 5.0) for tick in ticks.closed()])
    # The first ones are seen to be whole by the next one each.
    assert closed_at == [[], [0], [1], [2, 3], [4], [5], [6], [7]]


def test_a_host_that_never_had_a_member_is_not_waited_for() -> None:
    ticks = Ticks()
    frames = [told(5.0 * number, {"a": number}, "web-1") for number in range(8)]
    nothing = [told(5.0 * number, {}, "db-1") for number in (0, 6)]
    closed = fed(ticks, sorted([*frames, *nothing], key=lambda each: each.ts))
    assert times(closed) == [5.0 * number for number in range(8)]
    assert [each["hosts"] for each in ticks.snapshot()["sources"]] == [["web-1"]]
    # One that had members says that they are gone, and counts.
    gone = [told(40.0 + 5.0 * number, {}, "web-1") for number in range(3)]
    assert [tick.parts[0].layout.rows for tick in fed(ticks, gone)] == [()] * 3


def test_parts_of_one_time_are_one_tick_that_is_live_if_all_are() -> None:
    ticks = Ticks()
    frames = [told(5.0 * number, {row: number}) for number in range(4) for row in "abc"]
    closed = fed(ticks, frames)
    assert times(closed) == [0.0, 5.0, 10.0]
    assert [members(tick) for tick in closed] == [dict.fromkeys("abc", float(number)) for number in range(3)]
    (last,) = ticks.rest()
    assert members(last) == dict.fromkeys("abc", 3.0)
    # Live is one that is so in all parts.
    ticks = Ticks()
    for live, row in ((True, "a"), (False, "b")):
        ticks.take(told(0.0, {row: 0}), live=live)
    (tick,) = ticks.rest()
    assert not tick.live


def test_a_part_behind_its_tick_is_late_and_from_then_on_parts_are_waited_for() -> None:
    ticks = Ticks()
    fed(ticks, [told(5.0 * number, {"a": 0}) for number in range(SURE_TICKS + 2)])
    ts = 5.0 * (SURE_TICKS + 1)
    assert ticks.take(told(ts, {"b": 0}), live=True) == "late"
    assert fed(ticks, [told(ts + 5.0, {"a": 0}), told(ts + 5.0, {"b": 0})]) == []
    (tick,) = fed(ticks, [told(ts + 10.0, {"a": 0})])
    assert set(members(tick)) == {"a", "b"}


def hosts(rounds: int, phases: dict[str, float], step: float = 5.0, jitter: float = 0.0, seed: int = 1) -> list[Frame]:
    """Frames of several hosts, each with a member of its own, in the order of their times."""
    draw = random.Random(seed)
    found = [
        (step * number + phase + jitter * draw.random(), host, number)
        for number in range(rounds)
        for host, phase in phases.items()
    ]
    return [told(ts, {f"{host}/w[1@1]": number}, host) for ts, host, number in sorted(found)]


@pytest.mark.parametrize(("jitter", "apart"), [(0.0, 0), (1.0, 1)])
def test_every_host_is_in_every_tick_whenever_they_read(jitter: float, apart: int) -> None:
    ticks = Ticks()
    closed = fed(ticks, hosts(50, {"a": 0.0, "b": 0.1, "c": 4.9}, jitter=jitter))
    found = [members(tick) for tick in closed[SURE_TICKS:]]
    assert len(found) >= 44
    assert {len(each) for each in found} == {3}
    # Those of one round stand together; where it is a matter of luck who is first, those of two.
    assert max(max(each.values()) - min(each.values()) for each in found) == apart
    assert times(closed) == sorted(set(times(closed)))


def test_a_tick_closes_as_soon_as_all_have_told() -> None:
    ticks = Ticks()
    fed(ticks, hosts(10, {"a": 0.0, "b": 1.0, "c": 2.0}))
    assert fed(ticks, [told(50.0, {"a/w": 1}, "a"), told(51.0, {"b/w": 1}, "b")]) == []
    (tick,) = fed(ticks, [told(52.0, {"c/w": 1}, "c")])
    assert (tick.ts, set(members(tick))) == (T0 + 52.0, {"a/w", "b/w", "c/w"})


def test_who_falls_silent_holds_the_others_up_once_and_is_not_there_then_until_it_comes_back() -> None:
    ticks = Ticks()
    fed(ticks, hosts(10, {"a": 0.0, "b": 1.0}))  # the last of b is of 46 s, its next one due at 51 s
    alone = [told(50.0 + 5.0 * number, {"a/w": number}, "a") for number in range(8)]
    told_at = {frame.ts - T0: times(fed(ticks, [frame])) for frame in alone}
    late = [ts for ts, closed in told_at.items() if closed]
    assert late[0] == 65.0  # the first that is later than that by more than the grace
    assert told_at[65.0] == [50.0, 55.0, 60.0, 65.0]
    assert [told_at[ts] for ts in late[1:]] == [[ts] for ts in late[1:]]
    closed = fed(ticks, [told(91.0, {"b/w": 0}, "b"), told(92.0, {"a/w": 0}, "a")])
    assert set(members(closed[-1])) == {"a/w", "b/w"}


def test_a_slow_host_sets_the_pace_and_of_a_quick_one_the_newest_counts() -> None:
    ticks = Ticks()
    quick = [told(float(number), {"a/w": number}, "a") for number in range(105)]
    slow = [told(20.0 * number + 0.5, {"b/w": 100 + number}, "b") for number in range(6)]
    closed = fed(ticks, sorted([*quick, *slow], key=lambda frame: frame.ts))
    both = [members(tick) for tick in closed if len(tick.parts) == 2]
    assert both[-1] == {"a/w": 100.0, "b/w": 105.0}


def test_what_is_late_and_what_comes_twice() -> None:
    ticks = Ticks()
    fed(ticks, hosts(10, {"a": 0.0, "b": 1.0}))
    assert ticks.take(told(45.0, {"a/w[1@1]": 9}, "a"), live=True) == "duplicate"
    assert ticks.take(told(44.0, {"a/w[1@1]": 9}, "a"), live=True) == "late"  # older than what a told last
    assert ticks.earliest_ts(told(44.0, {"a/w": 9}, "a")) == T0 + 45.0
    # Another one is late when its tick closed too long ago.
    assert ticks.take(told(46.0 - GRACE_S, {"c/w": 9}, "c"), live=True) == "late"
    assert ticks.take(told(46.5 - GRACE_S, {"c/w": 9}, "c"), live=True) == "new"
    assert [*ticks.closed()] == []


def test_a_clock_that_was_ahead_and_is_set_back_is_noticed() -> None:
    ticks = Ticks()
    fed(ticks, [told(1e6 + 5.0 * number, {"a": 0}) for number in range(5)])
    judged = [ticks.take(told(5.0 * number, {"a": 0}), live=True) for number in range(SET_BACK_RECORDS)]
    assert judged == ["late"] * (SET_BACK_RECORDS - 1) + ["set_back"]
    # One that is right in between is told from a clock.
    ticks = Ticks()
    fed(ticks, [told(1e6 + 5.0 * number, {"a": 0}) for number in range(5)])
    for number in range(2 * SET_BACK_RECORDS):
        assert ticks.take(told(5.0 * number, {"a": 0}), live=True) == "late"
        if number % 5 == 0:
            assert ticks.take(told(1e6 + 100.0 + number, {"a": 0}), live=True) == "new"


def test_bounds_hold_without_the_ones_that_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticks_module, "MAX_WAITING_CELLS", 5 * ticks_module.FRAME_CELLS)
    monkeypatch.setattr(ticks_module, "MAX_SOURCES", 3)
    ticks = Ticks()
    fed(ticks, hosts(6, {"a": 0.0, "b": 0.5}, step=60.0))
    closed = fed(ticks, [told(301.0 + number, {"a/w": number}, "a") for number in range(40)])
    assert len(closed) >= 30
    state = ticks.snapshot()
    assert all(len(each["waiting"]) <= 5 for each in state["sources"])
    fed(ticks, [told(400.0 + number, {"x": 0}, f"host-{number}") for number in range(9)])
    assert len(ticks.snapshot()["sources"]) == 3


def test_who_was_silent_for_an_hour_is_forgotten() -> None:
    ticks = Ticks()
    fed(ticks, hosts(5, {"a": 0.0, "b": 1.0}))
    fed(ticks, [told(100.0 + 60.0 * number, {"a/w": 0}, "a") for number in range(70)])
    assert [each["hosts"] for each in ticks.snapshot()["sources"]] == [["a"]]


@settings(max_examples=60)
@given(st.integers(0, 1 << 32))
def test_written_down_and_read_back_at_any_moment_it_goes_on_alike(seed: int) -> None:
    draw = random.Random(seed)
    phases = {host: 5.0 * draw.random() for host in "abc"[: draw.randrange(1, 4)]}
    frames = hosts(12, phases, jitter=2.0 * draw.random(), seed=seed)
    frames = [frame for frame in frames if draw.random() > 0.1]
    if draw.random() < 0.3:
        frames += [told(5.0 * number, {row: 1.0}) for number in range(4) for row in "xy"]
    frames += draw.choices(frames, k=3)
    draw.shuffle(frames[-6:])
    one, other = Ticks(), Ticks()
    for frame in frames:
        assert one.take(frame, live=True) == other.take(frame, live=True)
        first, second = list(one.closed()), list(other.closed())
        assert [(tick.ts, members(tick)) for tick in first] == [(tick.ts, members(tick)) for tick in second]
        if draw.random() < 0.2:
            state = decode_state(encode_state(other.snapshot()), "here")
            other = Ticks()
            other.restore(state, "here")
            assert msgpack.packb(encode_state(other.snapshot())) == msgpack.packb(encode_state(one.snapshot()))
    assert [tick.ts for tick in one.rest()] == [tick.ts for tick in other.rest()]


# Putting parts together.


def test_parts_are_one_matrix_of_all_rows_and_features() -> None:
    parts = Ticks()
    for frame in (
        told(0.0, {"a[1]": {"x": 1.0}}),
        told(0.0, {"b": {"y": 2.0, "x": 3.0}}),
        told(0.0, {"a[1]": {"y": 4.0}}),
        told(0.0, {"b": {"x": NAN, "y": 5.0}}),  # the last value counts
    ):
        parts.take(frame, live=True)
    (tick,) = parts.rest()
    together = Together()
    layout, values = together.joined(tick.parts)
    assert (layout.rows, layout.names, layout.features) == (("a[1]", "b"), ("a", "b"), ("x", "y"))
    np.testing.assert_array_equal(values, [[1.0, 4.0], [3.0, 5.0]])
    assert together.joined(tick.parts).layout is layout
    (part,) = tick.parts[:1]
    assert together.joined([part]) is part


def test_what_is_too_much_for_a_frame_is_refused() -> None:
    parts = Ticks()
    for host in "ab":
        parts.take(told(0.0, {f"{host}{number}": {f"{host}{number}": 1.0} for number in range(1500)}, host), live=True)
    (tick,) = parts.rest()
    with pytest.raises(RecordError, match="rows x features"):
        Together().joined(tick.parts)
