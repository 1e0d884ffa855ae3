"""How much counters grow: over resets, over what was not there, and of what no counter can be."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.sources.prometheus.page import Series, series
from laggard.producers.sources.prometheus.rates import increase, increases

A, B = series("a_total", {}), series("b_total", {})


def histogram(count: float, fast: float, total: float) -> dict[Series, float]:
    return {
        series("x_bucket", {"le": "0.1"}): fast,
        series("x_bucket", {"le": "+Inf"}): count,
        series("x_count", {}): count,
        series("x_sum", {}): total,
    }


@pytest.mark.parametrize(
    ("before", "now", "by"),
    [
        pytest.param({A: 3.0, B: 5.0}, {A: 10.0, B: 5.0}, {A: 7.0, B: 0.0}, id="what grew"),
        pytest.param({A: 10.0}, {A: 4.0}, {A: 4.0}, id="one that begins anew counts from nothing"),
        pytest.param({}, {A: 1000.0}, {}, id="one that was not there tells nothing yet"),
        pytest.param({A: 1.0}, {B: 5.0}, {}, id="nor does one beside another that is gone"),
        pytest.param({A: math.nan}, {A: 5.0}, {}, id="nor one that was no number"),
        # Started anew, it has counted more fast ones than before already, but fewer of all.
        pytest.param(
            histogram(100, 5, 80.0),
            histogram(40, 30, 4.0),
            histogram(40, 30, 4.0),
            id="all of a histogram begins anew together",
        ),
        pytest.param(
            histogram(100, 5, 10.0),
            histogram(200, 50, 20.0) | {series("x_bucket", {"le": "0.2"}): 60.0},
            {},
            id="a histogram with bounds that were not there tells nothing yet",
        ),
        pytest.param(histogram(1, 1, 5.0), histogram(2, 2, 3.0), histogram(1, 1, -2.0), id="a sum may fall"),
    ],
)
def test_how_much_counters_grew(before: dict[Series, float], now: dict[Series, float], by: dict[Series, float]) -> None:
    assert increases(before, now).by == by


def test_what_no_counter_can_be_is_left_out_with_its_histogram() -> None:
    wrong = histogram(200, 50, 20.0) | {series("x_bucket", {"le": "0.1"}): -1.0}
    found = increases(histogram(100, 5, 10.0) | {A: 1.0, B: 1.0}, wrong | {A: math.inf, B: 2.0})
    assert found.by == {B: 1.0}
    assert {one.name for one in found.impossible} == {"x_bucket", "a_total"}


COUNTS = st.lists(st.integers(0, 1000), min_size=1, max_size=12)


@given(COUNTS, st.sets(st.integers(0, 11)))
def test_whatever_is_counted_between_two_looks_counts_once(steps: list[int], resets: set[int]) -> None:
    """A counter that is looked at after each step, and begun anew before some of them, loses nothing."""
    value, values, counted = 0.0, [0.0], 0.0
    for at, step in enumerate(steps):
        begins_anew = at in resets and step < value  # else it cannot be seen
        value = step if begins_anew else value + step
        counted += step
        values.append(value)
    assert increase(values) == counted
    by_pairs = [increases({A: before}, {A: now}).by[A] for before, now in pairwise(values)]
    assert sum(by_pairs) == counted
    assert all(each >= 0 for each in by_pairs)
