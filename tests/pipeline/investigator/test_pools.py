"""The API's answers about pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from laggard.pipeline.investigator.caching import Cache
from laggard.pipeline.methods.pools.series import BIN_S, DRAWN
from tests.pipeline.investigator.comparing import (
    FLAT,
    FLEET,
    HOSTILE,
    HOSTS,
    LEAKING,
    SMALL,
    THREADS,
    WORKERS,
    compared,
)
from tests.pipeline.investigator.serving import Served, get, refused, served
from tests.pipeline.methods.pools.test_pools_command import LEAKS_FROM, TICK_S, TICKS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("pools") / "bus.db"
    compared(path)
    with served(path) as page:
        yield page


def test_pools_are_told_the_worst_first(page: Served) -> None:
    told = get(page, "/pools")
    assert {each["pool"] for each in told["pools"]} == {FLAT, FLEET, HOSTILE, SMALL, THREADS}
    scores = [max((one["score"] for one in each["deviating"]), default=0.0) for each in told["pools"]]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 1.0
    hostile = next(each for each in told["pools"] if each["pool"] == HOSTILE)
    assert hostile["name"] == HOSTILE.replace("\u202e", "\\u202e")
    assert get(page, "/pools", most=1)["pools"] == told["pools"][:1]


def test_no_member_deviates_before_the_leak(page: Served) -> None:
    ts = get(page, "/pools/pool", pool=FLAT)["ts"] - (TICKS - LEAKS_FROM) * TICK_S
    (flat,) = [each for each in get(page, "/pools", at=ts)["pools"] if each["pool"] == FLAT]
    assert flat["deviating"] == []
    then = get(page, "/pools/pool", pool=FLAT, at=ts)
    assert then["ts"] <= ts
    assert then["sentences"] == ["No member behaves unlike the others."]


def test_only_of_a_moment_long_past_the_answer_stays_what_it_is(page: Served) -> None:
    ts = get(page, "/pools/pool", pool=FLAT)["ts"]
    with mock.patch.object(Cache, "get", autospec=True, side_effect=Cache.get) as kept:
        for clock, fixed in ((ts - 3600.0, False), (ts, False), (ts + 3600.0, True)):
            with mock.patch.object(page.reading, "clock", lambda now=clock: now):
                get(page, "/pools/pool", pool=FLAT, at=ts)
            assert kept.call_args.kwargs["fixed"] is fixed


def test_a_pool_is_told_from_its_top_down(page: Served) -> None:
    told = get(page, "/pools/pool", pool=FLEET)
    assert told["members"] == HOSTS * WORKERS
    assert [each["path"] for each in told["levels"]] == ["", "web-1"]
    assert any(each["rows"] == [LEAKING] and each["kind"] == "leak" for each in told["ranking"])
    assert told["features"][0] == "memory_rss_bytes"  # what tells most
    top, inside = told["levels"]
    assert {leaf["label"]: (leaf["path"], leaf["compared"]) for leaf in top["leaves"]} == {
        "web-0": ("web-0", False),
        "web-1": ("web-1", True),
        "web-2": ("web-2", False),
    }
    assert {leaf["path"] for leaf in inside["leaves"]} == {""}
    assert [leaf["name"] for leaf in inside["leaves"] if leaf["note"]] == ["worker-0"]


def test_places_are_those_of_a_drawing_without_crossings(page: Served) -> None:
    (level,) = get(page, "/pools/pool", pool=FLAT)["levels"]
    leaves, merges = level["leaves"], level["merges"]
    assert sorted(leaf["place"] for leaf in leaves) == list(range(len(leaves)))
    places = [each["place"] for each in (*leaves, *merges)]
    for number, merge in enumerate(merges, len(leaves)):
        assert places[number] == (places[merge["first"]] + places[merge["second"]]) / 2
        assert 0.0 <= merge["p_value"] <= 100.0
    assert level["highest"] == max(merge["height"] for merge in merges)
    assert merges[-1]["members"] == len(leaves)


def test_the_worst_members_series_stands_beside_the_others(page: Served) -> None:
    told = get(page, "/pools/series", pool=FLEET, level="web-1", member=LEAKING)
    assert (told["feature"], told["bin_s"], told["chosen"], told["others"]) == (
        "memory_rss_bytes", BIN_S, 1, WORKERS - 1,
    )  # fmt: skip
    assert {ts % BIN_S for ts in told["ts"]} == {BIN_S / 2}
    assert len(told["ts"]) == pytest.approx(TICKS * TICK_S / BIN_S, abs=1)
    (line,) = told["lines"]
    assert line["name"] == "worker-0"
    for low, median, high in zip(told["low"], told["median"], told["high"], strict=True):
        assert low <= median <= high
        assert median == pytest.approx(2.1e8, rel=0.01)
    assert line["values"][0] == pytest.approx(2.1e8, rel=0.01)
    assert line["values"][-1] > 1.5 * told["high"][-1]


def test_a_mean_is_that_of_its_two_minutes(page: Served) -> None:
    whole = get(page, "/pools/series", pool=FLAT, member="gunicorn[4713@99]", feature="cpu_user_ratio")
    ts = whole["ts"][3]
    part = get(
        page, "/pools/series", pool=FLAT, member="gunicorn[4713@99]", feature="cpu_user_ratio",
        **{"from": ts - BIN_S / 2, "to": ts + BIN_S / 2 - 0.001},
    )  # fmt: skip
    assert part["ts"] == [ts]
    assert part["lines"][0]["values"] == [whole["lines"][0]["values"][3]]


def test_without_a_level_it_is_about_the_top_that_is_compared(page: Served) -> None:
    told = get(page, "/pools/pool", pool=THREADS)
    assert [each["path"] for each in told["levels"]] == ["java[812@9931]"]
    (worst,) = told["ranking"]
    series = get(page, "/pools/series", pool=THREADS, member=worst["rows"][0])
    assert (series["level"], series["others"]) == ("java[812@9931]", 5)
    assert [each["name"] for each in series["lines"]] == ["exec-3"]


def test_two_leaves_name_their_cluster(page: Served) -> None:
    (level,) = get(page, "/pools/pool", pool=FLAT)["levels"]
    leaves = level["leaves"]
    number, merge = next((at, each) for at, each in enumerate(level["merges"]) if each["members"] == 2)
    first, second = leaves[merge["first"]]["label"], leaves[merge["second"]]["label"]
    told = get(page, "/pools/series", pool=FLAT, member=first, **{"with": second})
    assert {each["label"] for each in told["lines"]} == {first, second}
    assert told["merge"] == level["merges"][number]
    assert (told["chosen"], told["others"], told["all_members"]) == (2, len(leaves) - 2, False)
    every = get(page, "/pools/series", pool=FLAT)
    assert (every["chosen"], every["others"], every["all_members"]) == (len(leaves), len(leaves), True)
    assert len(every["lines"]) == DRAWN
    assert every["lines"][0]["label"] == "gunicorn[4713@99]"  # the farthest from the others


def test_a_group_stands_for_the_mean_of_its_members(page: Served) -> None:
    group = get(page, "/pools/series", pool=FLEET, member="web-0", feature="cpu_user_ratio")["lines"][0]
    members = [
        get(page, "/pools/series", pool=FLEET, level="web-0", member=f"web-0/worker-{number}", feature="cpu_user_ratio")
        for number in range(WORKERS)
    ]
    for at, value in enumerate(group["values"]):
        assert value == pytest.approx(sum(each["lines"][0]["values"][at] for each in members) / WORKERS)


def test_what_is_not_there_is_named(page: Served) -> None:
    status, error, expected = refused(page, "/pools/pool", pool="nobody")
    assert (status, error) == (404, "there are no records of pool nobody")
    assert expected.startswith("one of checkout") or FLAT in expected
    begins = get(page, "/pools/pool", pool=FLAT)["ts"] - TICKS * TICK_S
    status, error, expected = refused(page, "/pools/pool", pool=FLAT, at=begins - 3600)
    assert status == 404
    assert error.startswith(f"there are no records of pool {FLAT} at ")
    assert expected.startswith("a moment from ")
    assert refused(page, "/pools/series", pool=FLAT, member="gunicorn[1@1]")[:2] == (
        404, "nothing was measured of 'gunicorn[1@1]' then",
    )  # fmt: skip
    assert refused(page, "/pools/series", pool=FLAT, member="gunicorn[1@1]", **{"with": "x"})[:2] == (
        404, "no cluster of 'gunicorn[1@1]' and 'x' is there",
    )  # fmt: skip
    assert refused(page, "/pools/series", pool=FLAT, **{"from": 0, "to": 1e9})[0] == 400


def test_an_empty_bus_says_where_pools_come_from(tmp_path: Any) -> None:
    with served(tmp_path / "bus.db") as page:
        told = get(page, "/pools")
        assert told["pools"] == []
        assert "finds prefork workers by itself" in told["hint"]
        assert refused(page, "/pools/pool", pool="x")[2] == told["hint"]
