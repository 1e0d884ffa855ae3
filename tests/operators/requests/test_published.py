"""The whole method on few requests, and where it has nothing to say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from laggard.operators.requests.outliers import estimated_eps
from laggard.operators.requests.published import published
from laggard.operators.requests.representations import coded

CALLS = ["open", "read", "close"]


def alike(count: int) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(1)
    return chance.normal(0.1, 0.003, (count, 3)), chance.poisson(30.0, (count, 3)).astype(float)


def test_nothing_is_said_of_requests_that_are_alike() -> None:
    times_s, counts = alike(300)
    found = published(times_s, counts, coded([CALLS] * 300))
    assert not found.clusters.any()
    assert found.distinctions == ()
    assert (found.eps_s, found.threshold_s) == (0.025, math.inf)
    assert found.grams[-1] == ("open", "read", "close")


def test_two_troubles_are_two_clusters_which_differ_in_what_they_call() -> None:
    times_s, counts = alike(400)
    calls = [CALLS] * 400
    for cluster, (size, call) in enumerate([(12, "fcntl"), (8, "connect")]):
        rows = np.arange(100 * cluster, 100 * cluster + size)
        times_s[rows, cluster] += 0.4
        counts[rows, cluster] += 300.0
        for row in rows:
            calls[row] = ["open", *[call] * 9, "close"]
    found = published(times_s, counts, coded(calls))
    assert np.bincount(found.clusters).tolist() == [380, 12, 8]
    assert [found.grams[each.order[0]] for each in found.distinctions] == [("fcntl",), ("connect",)]
    normal = found.clusters == 0
    assert times_s[normal].sum(axis=1).max() < found.threshold_s < times_s[~normal].sum(axis=1).min()


def test_eps_is_estimated_where_none_is_given() -> None:
    times_s, counts = alike(300)
    times_s[7] += 1.0
    found = published(times_s, counts, coded([CALLS] * 300), eps_s=None, minimum_points=20)
    assert found.eps_s == estimated_eps(times_s, 20)
    assert np.flatnonzero(found.clusters).tolist() == [7]


def test_where_no_request_is_normal_nothing_is_compared() -> None:
    times_s, counts = alike(99)
    found = published(times_s, counts, coded([CALLS] * 99))
    assert found.clusters.all()
    assert (found.usual, found.distinctions) == (None, ())
    nothing = published(np.empty((0, 3)), np.empty((0, 3)), coded([]))
    assert (nothing.clusters.shape, nothing.grams, nothing.threshold_s) == ((0,), (), math.inf)


def test_rows_that_do_not_fit_are_refused() -> None:
    times_s, counts = alike(5)
    with pytest.raises(ValueError, match="5 rows of times, 5 of counts, 4 sequences: expected as many of each"):
        published(times_s, counts, coded([CALLS] * 4))
