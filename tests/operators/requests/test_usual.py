"""What sets requests apart from normal ones: calls that fail tell it by how often they do, however fast they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.operators.requests.results import Named, Traced, Use
from laggard.operators.requests.troubles import signature
from laggard.operators.requests.usual import MOST_DIFFERENCES, MOST_KEYS, Moments, evidence, profile

if TYPE_CHECKING:
    from laggard.operators.requests.results import Difference

CONNECT = ("RS", "connect", "127.0.0.1:3306", "")


def summed(requests: int, tries: int, sleep_s: float, others: int = 0) -> Moments:
    """Of requests that compute, try to connect so often, sleep, and do many other things fast."""
    moments = Moments(1_000)
    for number in range(requests):
        uses = [Use((*CONNECT, "EINPROGRESS"), 0, tries, 2e-5 * tries), Use(("RU", "", "", "", ""), 0, 9, 5e-3)]
        uses += [Use(("RS", f"call{each}", "", "", ""), 0, 1 + each % 3, 1e-5) for each in range(others)]
        calls = ["connect"] * tries + [f"call{each}" for each in range(others)]
        if sleep_s:
            uses.append(Use(("BS", "nanosleep", "", "", ""), 0, tries, sleep_s))
        request = Traced(float(number), str(number), 5e-3 + sleep_s, {}, {"RU": 5e-3, "BS": sleep_s}, calls, uses)
        moments.add(request, profile(request))
    return moments


def of_connects(some: Moments, usual: Moments) -> list[Difference]:
    return [each for each in evidence(some, usual).differences if each.what[:4] == CONNECT]


def test_calls_that_fail_are_told_by_how_often_they_do_though_they_take_hardly_any_time() -> None:
    usual, some = summed(500, 1, 0.0), summed(20, 20, 0.04, others=3 * MOST_DIFFERENCES)
    (found,) = of_connects(some, usual)
    assert (found.count, found.usual_count) == (20.0, 1.0)
    assert found.time_s < 0.02 * 0.04
    assert found.statistic > 10.0


def test_calls_that_fail_as_often_as_usual_tell_nothing() -> None:
    usual, some = summed(500, 1, 0.0), summed(20, 1, 0.04)
    assert all(abs(each.statistic) < 1.0 for each in of_connects(some, usual))
    assert evidence(some, usual).differences[0].what[0] == "BS"


def test_calls_that_succeed_are_told_by_their_time_alone() -> None:
    usual, some = summed(500, 1, 0.0), summed(20, 1, 0.04, others=5)
    (found,) = (each for each in evidence(some, usual).differences if each.what[:2] == ("RS", "call4"))
    assert found.statistic == pytest.approx(0.0, abs=0.1)


def test_what_one_long_request_waited_for_is_known_beside_all_that_it_called() -> None:
    use = Use(("BF", "flock", "/srv/x.lock", "worker", ""), 812, 1, 0.5)
    calls = [f"call{number}" for number in range(MOST_KEYS)]
    request, moments = Traced(0.0, "long", 0.5, {"BF": 1.0}, {"BF": 0.5}, calls, [use]), Moments(1)
    moments.add(request, profile(request))
    assert moments.sums(("spent", *use.what)).time_s == 0.5
    assert moments.mean_s() == {"BF": 0.5}
    assert len(moments.keys()) <= MOST_KEYS


def test_what_explains_the_time_that_was_lost_is_told_though_most_of_the_time_is_usual() -> None:
    found = evidence(summed(20, 1, 0.15), summed(500, 1, 0.1))
    assert found.explained
    assert found.differences[0].what[0] == "BS"
    assert found.duration_s - found.usual_duration_s == pytest.approx(0.05)


def test_where_nothing_is_usual_yet_all_time_counts_as_lost() -> None:
    found = evidence(summed(20, 1, 0.15, others=5), Moments(1_000))
    assert [each.what[0] for each in found.differences[:2]] == ["BS", "BS"]
    assert found.explained


def test_a_signature_has_what_the_time_was_lost_on_and_nothing_of_who_lost_none() -> None:
    usual, slow = summed(500, 1, 0.1), Use(("BT", "fcntl", "/srv/x.lock", "", ""), 0, 1, 0.4)
    request = Traced(0.0, "slow", 0.505, {}, {"RU": 5e-3, "BS": 0.1, "BT": 0.4}, ["connect"], [slow])
    found = signature(profile(request), usual, lost_s=0.4)
    assert found["state"] == {("BT",): 1.0}
    assert found["call"] == {("BT", "fcntl"): 1.0}
    assert found["spent"] == {slow.what: 1.0}
    assert signature(profile(request), usual, lost_s=-0.1).keys() == {"did"}


def named(normal: dict[str, int], some: dict[str, int]) -> Named | None:
    """The name that distinguishes some requests, from the numbers of requests by name."""
    both = []
    for names in (normal, some):
        both.append(Moments(10_000))
        for name, requests in names.items():
            request = Traced(0.0, "r", 0.1, {"RU": 1.0}, {"RU": 0.1}, (), name=name)
            for _ in range(requests):
                both[-1].add(request, profile(request))
    return evidence(both[1], both[0]).named


def test_a_name_that_most_of_them_have_and_normal_ones_rarely_sets_requests_apart() -> None:
    normal = {"GET /": 900, "GET /cart": 98, "GET /opreset.php": 2, "": 500}
    assert named(normal, {"GET /opreset.php": 11, "GET /": 1}) == ("GET /opreset.php", 11, 12, 2, 1_000)
    assert named(normal, {"GET /new": 3, "": 90}) == ("GET /new", 3, 3, 0, 1_000)
    # What many have, what few of them share, what is of too few, and what nothing can be compared with.
    assert named(normal, {"GET /": 12}) is None
    assert named(normal, {"GET /opreset.php": 6, "GET /": 6}) is None
    assert named(normal, {"GET /opreset.php": 2}) is None
    assert named({"": 900, "GET /": 40}, {"GET /opreset.php": 12}) is None


def test_names_by_chance_set_no_requests_apart() -> None:
    chance = np.random.default_rng(19)
    pages = [f"GET /{number}" for number in range(200)]
    shares = 1.0 / np.arange(1.0, 201.0)
    shares /= shares.sum()

    def drawn(requests: int) -> dict[str, int]:
        return dict(zip(pages, chance.multinomial(requests, shares).tolist(), strict=True))

    normal = drawn(3_000)
    assert sum(named(normal, drawn(int(chance.integers(1, 12)))) is not None for _ in range(200)) == 0
