"""All requests judged by each other: the noise of DBSCAN, the clusters of k-means, and what sets them apart."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.requests.outliers import noise
from laggard.operators.requests.results import Traced
from laggard.operators.requests.usual import profile
from laggard.operators.requests.whole import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from laggard.operators.requests.usual import Profile


def request(number: int, draw: random.Random) -> Traced:
    times_s = {"RU": 0.1 + 0.01 * draw.random(), "RS": 0.01 + 0.002 * draw.random()}
    counts = {"RU": float(draw.randrange(40, 44)), "RS": float(draw.randrange(40, 44))}
    calls = ["open", "read", "close"]
    if number % 50 == 49:  # a lock
        times_s["BT"], counts["BT"], calls = 0.4 + 0.01 * draw.random(), 60.0, ["open", "fcntl", "fcntl", "close"]
    elif number % 100 == 98:  # a disk
        times_s["BD"], counts["BD"], calls = 0.9 + 0.01 * draw.random(), 20.0, ["open", "pread64", "close"]
    return Traced(float(number), f"r{number}", sum(times_s.values()), counts, times_s, calls)


def requests(count: int = 600) -> Iterator[Traced]:
    draw = random.Random(4)
    return (request(number, draw) for number in range(count))


def test_outliers_are_the_noise_and_those_alike_are_of_one_cluster() -> None:
    found = whole(requests, eps_s=0.025, minimum_points=20)
    states = ("RU", "RS", "BT", "BD")
    points = np.array([[each.times_s.get(state, 0.0) for state in states] for each in requests()])
    assert list(found.outliers) == np.flatnonzero(noise(points, 0.025, 20)).tolist()
    assert list(found.outliers) == [number for number in range(600) if number % 50 == 49 or number % 100 == 98]
    assert {judged.cluster for number, judged in found.outliers.items() if number % 50 == 49} == {1}
    assert {judged.cluster for number, judged in found.outliers.items() if number % 100 == 98} == {2}
    lock, disk = found.clusters
    assert [(each.number, each.requests) for each in found.clusters] == [(1, 12), (2, 6)]
    assert (lock.began_ts, lock.newest_ts, lock.example) == (49.0, 599.0, "r599")
    assert lock.evidence.times_s["BT"] == pytest.approx(0.405, abs=0.005)
    assert ("fcntl",) in {each.what for each in lock.evidence.differences if each.kind == "ngram"}
    assert ("pread64",) in {each.what for each in disk.evidence.differences if each.kind == "ngram"}
    judged = found.outliers[49]
    assert judged.outlier
    assert (judged.odd, judged.young, judged.eps_s) == (False, False, 0.025)
    assert judged.score == pytest.approx(0.4 / 0.025, abs=1.0)
    assert judged.usual_s["RU"] == pytest.approx(0.105, abs=0.001)
    assert judged.evidence is not None
    assert judged.evidence.requests == 1


def test_without_eps_it_is_estimated() -> None:
    found = whole(requests, eps_s=None, minimum_points=20)
    eps_s = {each.eps_s for each in found.outliers.values()}
    assert len(eps_s) == 1
    assert set(whole(requests, eps_s=0.025, minimum_points=20).outliers) <= set(found.outliers)


@pytest.mark.parametrize(
    "given",
    [
        lambda: iter(()),
        lambda: requests(19),
        lambda: (Traced(float(number), f"r{number}", 0.1, {"RU": 1.0}, {"RU": 0.1}, ()) for number in range(50)),
        lambda: (Traced(float(number), f"r{number}", 0.1, {}, {}, ()) for number in range(50)),
    ],
    ids=["none", "few", "all-alike", "without-states"],
)
@pytest.mark.parametrize("eps_s", [0.025, None])
def test_where_nothing_can_be_said_nothing_is(given: Iterable[Traced], eps_s: float | None) -> None:
    assert whole(given, eps_s=eps_s, minimum_points=20) == ({}, ())  # type: ignore[arg-type]


def test_where_all_requests_are_outliers_no_baseline_is_known() -> None:
    found = whole(lambda: requests(100), eps_s=1e-9, minimum_points=2)
    assert len(found.outliers) == 100
    assert found.outliers[0].usual_s == {}
    assert found.outliers[0].score == float("inf")


def test_of_many_normal_requests_some_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    profiled: list[Traced] = []

    def counted(one: Traced) -> Profile:
        profiled.append(one)
        return profile(one)

    monkeypatch.setattr("laggard.operators.requests.whole.profile", counted)
    expected = whole(requests, eps_s=0.025, minimum_points=20)
    every = {int(one.ts) for one in profiled} - expected.outliers.keys()
    assert every == set(range(600)) - expected.outliers.keys()
    profiled.clear()
    monkeypatch.setattr("laggard.operators.requests.whole.MOST_PROFILED", 50)
    found = whole(requests, eps_s=0.025, minimum_points=20)
    assert 50 <= len({int(one.ts) for one in profiled} - found.outliers.keys()) < 60
    assert [each.requests for each in found.clusters] == [each.requests for each in expected.clusters]
