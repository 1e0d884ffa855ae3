"""Periods of missing events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.trace.gaps import Gaps

_POINT = st.integers(0, 60)
_PERIODS = st.lists(st.tuples(_POINT, _POINT), max_size=12)


@given(_PERIODS, _PERIODS, _POINT, _POINT)
def test_each_missing_moment_counts_once(
    before: list[tuple[int, int]], after: list[tuple[int, int]], forgotten: int, end: int
) -> None:
    """Also where periods overlap, come in any order, or are partly forgotten."""
    gaps = Gaps()
    for begin, until in before:
        gaps.add(begin, until)
    missing = {moment for begin, until in before for moment in range(begin, until)}
    assert gaps.missing(forgotten, end) == len(missing & set(range(forgotten, end)))
    assert gaps.total(60) == len(missing)
    gaps.forget(forgotten)
    assert gaps.total(60) == len(missing)
    for begin, until in after:
        gaps.add(begin, until)
    missing |= {moment for begin, until in after for moment in range(max(begin, forgotten), until)}
    assert gaps.total(60) == len(missing)
