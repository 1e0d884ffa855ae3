"""Requests in intervals, against the plainest way to count them."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.sources.access_log.intervals import EXACT, LONGEST_SILENCE, Durations, Intervals
from laggard.producers.sources.access_log.requests import Requests
from laggard.producers.sources.performance import ERRORS, MEAN, QUANTILES, STANDARD_DEVIATION, THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Sequence

NEVER = math.inf


def requests(*each: tuple[float, float, int]) -> Requests:
    ts, duration_s, status = (np.array(column) for column in zip(*each, strict=True)) if each else ([], [], [])
    return Requests(np.array(ts, float), np.array(duration_s, float), np.array(status, np.int16), 0, ())


def test_an_interval_holds_what_ended_from_its_begin_on_and_before_its_end() -> None:
    intervals = Intervals(10.0, 100.0, resumed=True)
    added = intervals.add(requests((100.0, 0.1, 200), (109.999, 0.3, 500), (110.0, 0.5, 404), (99.9, 9, 200)), NEVER)
    assert (added.late, added.ahead, added.last) == (1, 0, 11)
    (first,) = intervals.close(119.9)
    assert first.ts == 110.0
    assert first.features[THROUGHPUT] == 0.2
    assert first.features[ERRORS] == 0.1
    assert first.features[MEAN] == pytest.approx(0.2)
    assert first.features[STANDARD_DEVIATION] == pytest.approx(0.1)
    assert first.features["response_time_p50_s"] == pytest.approx(0.2)
    assert intervals.until == 110.0
    assert intervals.add(requests((105.0, 0.1, 200)), NEVER).late == 1
    assert [each.ts for each in intervals.close(130.0)] == [120.0, 130.0]


def test_an_interval_without_requests_has_no_response_time() -> None:
    intervals = Intervals(5.0, 3.0)  # the first begins at 5
    assert intervals.add(requests((4.0, 0.1, 200)), NEVER).late == 0  # it was not asked for
    (empty,) = intervals.close(10.0)
    assert (empty.ts, empty.features[THROUGHPUT], empty.features[ERRORS]) == (10.0, 0.0, 0.0)
    assert all(math.isnan(empty.features[name]) for name in (MEAN, STANDARD_DEVIATION, *QUANTILES))


def test_what_the_format_does_not_say_is_left_out() -> None:
    intervals = Intervals(1.0, 1.0, timed=False, statuses=False)
    intervals.add(requests((1.5, math.nan, 0)), NEVER)
    assert [each.features for each in intervals.close(2.0)] == [{THROUGHPUT: 1.0}]


def test_a_websocket_and_a_request_without_a_duration_have_no_response_time() -> None:
    intervals = Intervals(10.0, 0.0)
    intervals.add(requests((5.0, 3600.0, 101), (6.0, math.nan, 200), (7.0, 0.5, 200)), NEVER)
    (only,) = intervals.close(10.0)
    assert only.features[THROUGHPUT] == 0.3
    assert only.features[MEAN] == only.features["response_time_p99_s"] == 0.5


def test_a_request_of_the_far_future_closes_nothing_and_counts_nowhere() -> None:
    intervals = Intervals(10.0, 0.0)
    added = intervals.add(requests((5.0, 0.1, 200), (4e9, 0.1, 200)), 65.0)
    assert (added.late, added.ahead, added.last) == (0, 1, 0)
    assert [each.features[THROUGHPUT] for each in intervals.close(10.0)] == [0.1]


def test_a_long_silence_that_is_caught_up_with_is_one_interval() -> None:
    intervals = Intervals(10.0, 0.0)
    intervals.add(requests((5.0, 0.1, 200), (1e6, 0.2, 200)), NEVER)
    closed = list(intervals.close(1e6 + 20))
    assert [(each.ts, each.features[THROUGHPUT]) for each in closed] == [
        (10.0, 0.1),
        (1e6, 0.0),
        (1e6 + 10, 0.1),
        (1e6 + 20, 0.0),
    ]
    short = Intervals(1.0, 0.0)
    assert len(list(short.close(LONGEST_SILENCE))) == LONGEST_SILENCE


def test_what_is_skipped_is_not_told() -> None:
    intervals = Intervals(10.0, 0.0)
    intervals.add(requests((5.0, 0.1, 200), (57.0, 0.2, 200)), NEVER)
    intervals.skip(55.0)
    assert [(each.ts, each.features[THROUGHPUT]) for each in intervals.close(60.0)] == [(60.0, 0.1)]


LINES = st.lists(
    st.tuples(st.floats(0, 300), st.floats(0, 100) | st.just(math.nan), st.sampled_from([0, 101, 200, 404, 500, 503])),
    max_size=60,
)


@given(st.lists(LINES, max_size=4), st.sampled_from([1.0, 7.0, 10.0, 60.0]))
def test_the_features_are_those_of_the_plainest_count(
    batches: Sequence[Sequence[tuple[float, float, int]]], interval_s: float
) -> None:
    intervals = Intervals(interval_s, 0.0)
    plain: dict[float, list[tuple[float, float, int]]] = defaultdict(list)
    for batch in batches:
        intervals.add(requests(*batch), NEVER)
        for each in batch:
            plain[(each[0] // interval_s + 1) * interval_s].append(each)
    closed = {each.ts: each.features for each in intervals.close(301.0)}
    for ts, features in closed.items():
        found = plain.get(ts, [])
        assert features[THROUGHPUT] == len(found) / interval_s
        assert features[ERRORS] == sum(status >= 500 for _, _, status in found) / interval_s
        took = [duration_s for _, duration_s, status in found if status != 101 and not math.isnan(duration_s)]
        if took:
            assert features[MEAN] == pytest.approx(np.mean(took), abs=1e-9)
            assert features[STANDARD_DEVIATION] == pytest.approx(np.std(took), abs=1e-6)
            for name, quantile in QUANTILES.items():
                assert features[name] == np.quantile(took, quantile)


def test_beyond_the_bound_memory_stays_and_a_sample_gives_the_quantiles() -> None:
    values = np.random.default_rng(7).exponential(1.0, 3 * EXACT)
    found = Durations(seed=1)
    for piece in np.array_split(values, 97):  # in no order that the bound divides
        found.add(piece)
    features = found.features()
    assert found.sampled
    assert found._kept is not None
    assert len(found._kept) == EXACT
    # The mean and the deviation are those of all; a quantile's rank in a sample of a million is known to about 0.05 %.
    assert features[MEAN] == pytest.approx(values.mean(), rel=1e-12)
    assert features[STANDARD_DEVIATION] == pytest.approx(values.std(), rel=1e-9)
    for name, quantile in QUANTILES.items():
        rank = (values < features[name]).mean()
        assert abs(rank - quantile) < 4 * math.sqrt(quantile * (1 - quantile) / EXACT)


def test_the_sample_is_uniform() -> None:
    """Each place of the stream is kept equally often: chi-squared over 50 parts of 40 streams."""
    counts = np.zeros(50)
    for seed in range(40):
        found = Durations(seed, bound=100)
        for piece in np.array_split(np.arange(5000.0), 11):
            found.add(piece)
        assert found._kept is not None
        counts += np.histogram(found._kept, 50, (0, 5000))[0]
    expected = 40 * 100 / 50
    assert ((counts - expected) ** 2 / expected).sum() < 85.35  # the 99.9th percentile of chi-squared with 49


def test_the_same_lines_give_the_same_quantiles() -> None:
    values = np.random.default_rng(3).random(1000)

    def told() -> dict[str, float]:
        found = Durations(5, bound=64)
        found.add(values[:700])
        found.add(values[700:])
        return found.features()

    assert told() == told()
