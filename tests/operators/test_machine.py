"""S1's machine: every transition of the text and no other, for any readings, at any ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.operators.cpu import Machine, State
from laggard.operators.cpu.machine import TRANSITIONS

from .conftest import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

N, H, D, W = State.NORMAL, State.HIGH, State.DIAGNOSIS, State.NORMAL_WAIT

THRESHOLD, DURATION_S = 0.85, 5.0

READINGS = st.one_of(
    st.sampled_from([0.0, 0.1, 0.84, math.nextafter(0.85, 0.0), 0.85, 0.9, 1.0]),
    st.sampled_from([math.nan, math.inf, -math.inf]),
    st.floats(-1.0, 2.0),
)
STEPS = st.one_of(
    st.sampled_from([1.0, 1.0, 1.0, 0.5, 5.0, 4.999999, 5.000001, 0.0]), st.floats(-10.0, 100.0), st.just(1e5)
)


@dataclass
class Plain:
    """The text, one row, one `if` for each of its sentences; times as the docstring of `Machine` says."""

    state: State = N
    ts: float = math.nan
    interval_s: float = math.nan
    since_s: float = 0.0
    silent_s: float = 0.0
    lows: int = 0

    def step(self, ts: float, reading: float) -> State:
        passed_s = 0.0 if math.isnan(self.ts) else max(ts - self.ts, 0.0)
        if passed_s > 60.0:
            passed_s = 60.0 if math.isnan(self.interval_s) else min(max(self.interval_s, 0.0), 60.0)
        self.interval_s, self.ts = ts - self.ts, ts
        high = self._high(reading, passed_s)
        if high is not None:
            self.since_s += passed_s
            self._iterate(passed_s, high=high, elapsed=self.since_s >= DURATION_S - 1e-6)
        return self.state

    def _high(self, reading: float, passed_s: float) -> bool | None:
        if math.isfinite(reading) or self.state == N:
            self.silent_s = 0.0
            return math.isfinite(reading) and reading >= THRESHOLD
        self.silent_s += passed_s
        return None if self.silent_s < DURATION_S - 1e-6 else False

    def _iterate(self, passed_s: float, *, high: bool, elapsed: bool) -> None:
        match self.state, high:
            # The text: "Normal state is promoted to High CPU at any iteration when CPU utilization exceeds ..."
            case State.NORMAL, True:
                self._enter(H, passed_s)
            # The text: "If CPU utilization returns below a threshold before the threshold number of seconds ..."
            case State.HIGH, False:
                self._enter(N, 0.0)
            # The text: "If CPU utilization remains above the threshold ... for the threshold number of seconds ..."
            case State.HIGH, True if elapsed:
                self.state = D
            # The text: "... Normal-Wait is realized when CPU utilization ... falls below the threshold value"
            case State.DIAGNOSIS, False:
                self._enter(W, 0.0)
                self.lows = 1
            # The text: "If the CPU utilization ... returns to high utilization before the time threshold expires ..."
            case State.NORMAL_WAIT, True:
                self._enter(D, passed_s)
            # The text: "If the CPU utilization ... remains below the threshold value for the threshold duration ..."
            case State.NORMAL_WAIT, False:
                self.lows += 1
                if elapsed and self.lows > 2:
                    self._enter(N, 0.0)

    def _enter(self, state: State, since_s: float) -> None:
        self.state, self.since_s = state, since_s
        if state == N:
            self.silent_s = 0.0


def states(readings: Sequence[float], interval_s: float = 1.0, start: float = 1e9) -> list[State]:
    machine = Machine(1, threshold=THRESHOLD, duration_s=DURATION_S)
    found = []
    for number, reading in enumerate(readings):
        machine.step(start + number * interval_s, [reading])
        found.append(State(machine.states[0]))
    return found


@given(st.lists(st.tuples(STEPS, st.lists(READINGS, min_size=3, max_size=3)), max_size=60))
def test_any_readings_at_any_ticks_go_through_the_states_as_the_text_has_them(
    ticks: list[tuple[float, list[float]]],
) -> None:
    machine = Machine(3, threshold=THRESHOLD, duration_s=DURATION_S)
    one_by_one = [Plain(), Plain(), Plain()]
    ts = 1e9
    for step_s, readings in ticks:
        ts += step_s
        before = machine.states.copy()
        changed = machine.step(ts, readings)
        expected = [each.step(ts, reading) for each, reading in zip(one_by_one, readings, strict=True)]
        assert machine.states.tolist() == expected
        assert changed.rows.tolist() == np.flatnonzero(machine.states != before).tolist()
        assert changed.before.tolist() == before[changed.rows].tolist()
        assert changed.after.tolist() == machine.states[changed.rows].tolist()
        moves = zip(changed.before.tolist(), changed.after.tolist(), strict=True)
        assert {(State(old), State(new)) for old, new in moves} <= TRANSITIONS
        assert machine.active == bool(machine.states.any())


@given(st.lists(st.tuples(STEPS, st.dictionaries(st.integers(0, 5), READINGS, max_size=6)), max_size=40))
def test_rows_that_come_and_go_do_not_disturb_the_others(ticks: list[tuple[float, dict[int, float]]]) -> None:
    machine, places = Machine(threshold=THRESHOLD, duration_s=DURATION_S), dict[int, int]()
    alone: dict[int, Plain] = {}
    ts = before = 1e9
    interval_s = math.nan
    machine.step(ts, [])
    for step_s, readings in ticks:
        ts += step_s
        machine.align(np.array([places.get(row, -1) for row in readings], np.intp))
        places = {row: place for place, row in enumerate(readings)}
        machine.step(ts, list(readings.values()))
        alone = {row: alone.get(row, Plain(ts=before, interval_s=interval_s)) for row in readings}
        assert machine.states.tolist() == [alone[row].step(ts, reading) for row, reading in readings.items()]
        interval_s, before = ts - before, ts


@given(st.lists(st.tuples(STEPS, st.lists(READINGS, min_size=2, max_size=2)), max_size=40), st.integers(0, 40))
def test_a_machine_that_is_written_down_and_read_back_goes_on_alike(
    ticks: list[tuple[float, list[float]]], cut: int
) -> None:
    whole, first = Machine(2), Machine(2)
    second, ts = Machine(), 1e9
    for number, (step_s, readings) in enumerate(ticks):
        ts += step_s
        whole.step(ts, readings)
        if number == cut:
            second.restore(first.snapshot())
            first = second
        first.step(ts, readings)
    assert plain(first.snapshot()) == plain(whole.snapshot())


def test_every_transition_of_the_text_is_made() -> None:
    readings = [0, 1, 0, *[1] * 5, 0, 1, *[0] * 6]
    assert states(readings) == [N, H, N, H, H, H, H, D, W, D, W, W, W, W, W, N]
    assert set(pairwise(states(readings))) - {(each, each) for each in State} == TRANSITIONS


NAN = math.nan


@pytest.mark.parametrize(
    ("readings", "interval_s", "expected"),
    [
        ([0.0, 0.85], 1.0, "NH"),
        ([0.0, math.nextafter(0.85, 0.0)], 1.0, "NN"),
        ([0, 1, *[NAN] * 5], 1.0, "NHHHHHN"),
        ([0, 1, 1, NAN, NAN, 1, 1, 1], 1.0, "NHHHHHHD"),
        ([0, 0, 1, 1], 600.0, "NNHD"),
    ],
    ids=[
        "high at the threshold",
        "not high below it",
        "without readings a state is kept for as long as the duration",
        "time without readings is no time of high use",
        "ticks that are far apart tell of a minute",
    ],
)
def test_readings_go_through_the_states(readings: list[float], interval_s: float, expected: str) -> None:
    assert states(readings, interval_s) == [{"N": N, "H": H, "D": D}[each] for each in expected]


def test_what_returns_from_normal_wait_begins_its_timer_anew() -> None:
    # Low for four seconds for sure, high for one, low for four, ...: never five in a row.
    readings = [0, *[1] * 5, *[0, 0, 0, 0, 0, 1] * 6, *[0] * 6]
    found = states(readings)
    assert found.index(D) == 5
    assert N not in found[6:-1]
    assert found[-1] == N


@pytest.mark.parametrize(("last_s", "state"), [(4.999998, H), (5.0, D), (5.1, D)])
def test_use_is_prolonged_from_five_seconds_on(last_s: float, state: State) -> None:
    machine = Machine(1)
    for ts, reading in ((0.0, 0.0), (2.0, 1.0), (last_s, 1.0)):
        machine.step(ts, [reading])
    assert machine.states[0] == state


@pytest.mark.parametrize("interval_s", [0.1, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("phase", [0.0, 0.13, 0.5, 0.92])
def test_use_that_begins_anywhere_between_two_ticks_is_told_within_a_second_of_the_published_five(
    interval_s: float, phase: float
) -> None:
    machine, begin, before = Machine(1), 7.0 + phase * interval_s, 0.0
    for tick in range(1, 2000):
        ts = tick * interval_s
        busy_s = min(max(ts - begin, 0.0), ts - before)
        machine.step(ts, [busy_s / (ts - before)])
        before = ts
        if machine.states[0] == D:
            break
    assert abs(ts - begin - DURATION_S) <= 1.0


@pytest.mark.parametrize("interval_s", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("offset_s", [0.0, 0.7, 2.5, 4.1])
def test_the_case_of_the_figure_is_one_event(interval_s: float, offset_s: float) -> None:
    """High from 50 to 170 s with dips of three seconds at 110 and 150 s, whenever the ticks fall."""
    second_s = 0.01
    use = np.zeros(30_000)
    use[5_000:17_000] = 1.0
    for dip_s in (110, 150):
        use[dip_s * 100 - 150 : dip_s * 100 + 150] = 0.0
    machine, found = Machine(1), []
    size = round(interval_s / second_s)
    for begin in range(round(offset_s / second_s), len(use) - size, size):
        changed = machine.step((begin + size) * second_s, [use[begin : begin + size].mean()])
        found += [State(after) for after in changed.after]
    assert found == [H, D, W, D, W, D, W, N]


@pytest.mark.parametrize(("interval_s", "expected"), [(1.0, [H, H, H, H, D, D]), (5.0, [H, D, D, D, D, D])])
def test_time_without_readings_is_no_time_of_high_use(interval_s: float, expected: list[State]) -> None:
    """After an hour in which the machine was suspended, say."""
    machine, found = Machine(1), []
    for tick in range(10):
        machine.step(tick * interval_s, [0.0])
    for tick in range(6):
        machine.step(3600.0 + tick * interval_s, [1.0])
        found.append(State(machine.states[0]))
    assert found == expected


def test_a_transition_tells_how_long_what_made_it_has_lasted() -> None:
    machine, told = Machine(1), []
    for tick, reading in enumerate([0, *[1] * 7, 0, 0, 1, *[0] * 7]):
        told += machine.step(1e9 + tick, [reading]).lasted_s.tolist()
    assert told == [1.0, 5.0, 0.0, 1.0, 0.0, 5.0]


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"threshold: expected a number above 0, got 0\.0"):
        Machine(threshold=0.0)
    with pytest.raises(ValueError, match="duration_s: expected a time above 0, got nan"):
        Machine(duration_s=math.nan)
    with pytest.raises(ValueError, match=r"expected readings of shape \(2,\), got \(3,\)"):
        Machine(2).step(0.0, [1.0, 1.0, 1.0])
    state = Machine(2).snapshot()
    with pytest.raises(ValueError, match="states: expected one of 0 to 3 per row"):
        Machine().restore(state | {"states": [0, 7]})
    with pytest.raises(ValueError, match=r"lasted_s: expected the shape \(2,\), got \(1,\)"):
        Machine().restore(state | {"lasted_s": [0.0]})
