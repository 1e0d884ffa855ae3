"""What the page asks of requests: services, a plane, clusters beside normal ones, one's critical path."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.records.outputs import write_output
from laggard.pipeline.core.topics import ANOMALIES, REQUESTS, Topics
from laggard.pipeline.investigator.api import requests_path
from laggard.pipeline.methods.requests import analysis
from laggard.pipeline.methods.requests.method import analysis_functions as wired
from laggard.pipeline.methods.requests.queries import RequestsFound, Took, summaries
from tests.grafana.service import THREADS
from tests.monitoring.servers import awaited
from tests.pipeline.investigator.serving import get, refused, served
from tests.pipeline.investigator.traced import SECONDS, SERVICE, record
from tests.pipeline.methods.requests.told import LOCKED, outlying

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.pipeline.investigator.serving import Served

BEGIN = 1_790_000_000.0
NOW = BEGIN + SECONDS
TOPICS = Topics()


@contextmanager
def then(path: Path, now: float = NOW) -> Iterator[Served]:
    """The page, for which it is that time."""
    with served(path) as page:
        page.reading.clock = lambda: now
        yield page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """With 3,000 requests of five minutes. To be read only."""
    path = tmp_path_factory.mktemp("traced") / "bus.db"
    record(path, BEGIN)
    with then(path) as opened:
        yield opened


def of_clusters(page: Served) -> dict[str, dict[str, Any]]:
    return {each["cluster"]: each for each in get(page, "/requests/service", service=SERVICE)["clusters"]}


# Services.


def test_where_nothing_is_recorded_it_is_said_what_to_do(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db") as page:
        told = get(page, "/requests")
        assert (told["services"], told["silent"], told["newest"]) == ([], [], None)
        assert told["hint"].startswith("`laggard trace start --php` traces those of PHP on this machine, ")
        status, error, expected = refused(page, "/requests/service", service="shop")
        assert (status, error, expected) == (404, "there are no records of service 'shop'", told["hint"])


def test_services_are_told_with_durations_and_open_troubles_and_of_another_time_when_the_newest_came(
    page: Served,
) -> None:
    told = get(page, "/requests")
    assert (told["from"], told["to"], told["hint"]) == (NOW - 3600.0, NOW, "")
    (one,) = told["services"]
    (summary,) = summaries(page.reading.requests.stored.between(NOW - 3600.0, NOW))
    assert one["every"]["requests"] == 3000 == one["normal"]["requests"] + one["outlying"]["requests"]
    assert 40 <= one["outlying"]["requests"] <= 80
    assert one["every"] == summary.every._asdict()
    assert one["normal"]["p99_s"] < 0.2 < one["outlying"]["median_s"] <= one["every"]["longest_s"]
    (trouble,) = one["troubles"]
    assert trouble["to"] is None
    assert "like `812-" in trouble["sentence"]
    # Of another time it is said when the newest came.
    told = get(page, "/requests", to=BEGIN - 5000.0)
    assert (told["services"], told["silent"]) == ([], [SERVICE])
    assert told["newest"] == pytest.approx(NOW, abs=1.0)
    status, error, _ = refused(page, "/requests/service", service=SERVICE, to=BEGIN - 5000.0)
    assert (status, error) == (404, "no request of 'wordpress' began in this time")


def test_wrong_questions_are_named(page: Served) -> None:
    turned = refused(page, "/requests", **{"from": 5.0, "to": 3.0})
    assert turned == (400, "parameter 'from' is after 'to'", "at most 3.0")
    assert refused(page, "/requests", **{"from": "nan"})[:2] == (400, "parameter 'from' is wrong")
    assert refused(page, "/requests/list", service=SERVICE, sort="fastest")[0] == 400
    status, error, expected = refused(page, "/requests/cluster", service=SERVICE, cluster="x")
    assert (status, error) == (404, "no request of cluster 'x' began in this time")
    assert expected == f"one of {', '.join(sorted(of_clusters(page)))}"
    assert refused(page, "/requests/plane", service="shop")[2] == f"one of {SERVICE}"


def test_all_requests_are_in_the_histogram_and_the_threshold_tells_them_apart(page: Served) -> None:
    told = get(page, "/requests/service", service=SERVICE)
    bins, one = told["durations"], told["service"]
    assert sum(bins["normal"]) == one["normal"]["requests"]
    assert sum(bins["outlying"]) == one["outlying"]["requests"] == sum(each["requests"] for each in told["clusters"])
    assert len(bins["edges_s"]) == len(bins["normal"]) + 1 == len(bins["outlying"]) + 1
    assert bins["edges_s"] == sorted(bins["edges_s"])
    assert one["normal"]["longest_s"] < bins["threshold_s"] < one["outlying"]["median_s"]


# A list.


def test_requests_are_listed_in_the_order_and_with_the_text_that_is_asked_for(page: Served) -> None:
    slowest = get(page, "/requests/list", service=SERVICE, most=7)
    assert (slowest["found"], slowest["of"], len(slowest["requests"])) == (3000, 3000, 7)
    took = [each["duration_s"] for each in slowest["requests"]]
    assert took == sorted(took, reverse=True)
    newest = [each["ts"] for each in get(page, "/requests/list", service=SERVICE, sort="newest", most=5)["requests"]]
    assert newest == sorted(newest, reverse=True)
    unlike = [
        each["score"] for each in get(page, "/requests/list", service=SERVICE, sort="unlike", most=50)["requests"]
    ]
    scores = [each for each in unlike if each is not None]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) > 40
    normal = get(page, "/requests/list", service=SERVICE, only="normal", like="get /POST", most=1000)
    assert {(each["name"], each["outlying"], each["score"]) for each in normal["requests"]} == {
        ("GET /post", False, None)
    }
    outlying = get(page, "/requests/list", service=SERVICE, only="outlying", like="sidebar")
    assert {each["cluster"] for each in outlying["requests"]} == {"lock sidebar"}
    assert outlying["found"] == of_clusters(page)["lock sidebar"]["requests"]
    assert get(page, "/requests/list", service=SERVICE, only="alone")["requests"] == []
    assert get(page, "/requests/list", service=SERVICE, cluster="lock sidebar")["found"] == outlying["found"]


# The plane.


def placed(page: Served) -> Any:
    """The plane, once it is there."""
    return awaited(lambda: get(page, "/requests/plane", service=SERVICE), lambda told: not told["pending"], 120)


@pytest.mark.slow
def test_requests_are_placed_at_once_and_then_by_isomap(page: Served) -> None:
    first = get(page, "/requests/plane", service=SERVICE)
    assert first["way"] == ("principal" if first["pending"] else "isomap")
    told = placed(page)
    assert told["way"] == "isomap"
    assert told["normal"] + told["outlying"] == 3000
    assert told["requests"] == first["requests"]
    assert told["ts"] == sorted(told["ts"])
    counts = Counter(told["cluster"])
    assert counts.pop(-1) == analysis.MOST_NORMAL
    by_name = {told["clusters"][place]: count for place, count in counts.items()}
    assert by_name == {name: each["requests"] for name, each in of_clusters(page).items()}
    # Who waited for the lock is near to others that did, far from normal ones.
    spread = {}
    for place in (-1, told["clusters"].index("lock sidebar")):
        mine = [
            each
            for each, of in zip(zip(told["x_s"], told["y_s"], strict=True), told["cluster"], strict=True)
            if of == place
        ]
        spread[place] = [sum(axis) / len(mine) for axis in zip(*mine, strict=True)]
    normal, locked = spread.values()
    assert sum((a - b) ** 2 for a, b in zip(normal, locked, strict=True)) ** 0.5 > 0.25


def test_a_plane_is_made_anew_when_others_have_come_and_some_time_has_passed() -> None:
    told, now = RequestsFound(), 0.0
    for number in range(40):
        took_s = 0.1 + 0.001 * (number % 7)
        told.put(SERVICE, str(number), Took(BEGIN + number, took_s, "", "", {"RU": took_s, "RS": 0.01 * (number % 3)}))
    planes = analysis.Planes(wired(), lambda: now)

    def made(keys: int) -> analysis.Plane:
        wanted = list(told.took)[:keys]
        return awaited(lambda: planes.plane("about", told, wanted), lambda found: not found[1], 120)[0]

    assert made(30).drawn.normal == 30
    now = analysis.EVERY_S - 1.0
    assert made(40).drawn.normal == 30
    now = analysis.EVERY_S
    assert made(40).drawn.normal == 40
    assert made(40).way == "isomap"


# A cluster.


def test_a_cluster_is_shown_beside_normal_requests(page: Served) -> None:
    told = get(page, "/requests/cluster", service=SERVICE, cluster="connect refused")
    assert told["requests"] == told["compared"] == of_clusters(page)["connect refused"]["requests"]
    assert told["beside"] == 500
    assert told["sentence"].startswith("repeats connect() to 127.0.0.1:6379 that is refused, ")
    states = {each["state"]: each for each in told["states"]}
    assert states["BS"]["label"] == "waits for a timer"
    assert states["BS"]["time_s"] > 0.3
    assert (states["BS"]["usual_s"], states["BS"]["usual_count"]) == (0.0, 0.0)
    assert states["RU"]["time_s"] == pytest.approx(states["RU"]["usual_s"], rel=0.3)
    ngrams = {tuple(each["what"]): each for each in told["ngrams"]}
    connects = ngrams["connect",]
    assert connects["text"] == "connect (opens connections)"
    assert (connects["usual_count"], connects["share"], connects["usual_share"]) == (0.0, 1.0, 0.0)
    assert connects["count"] == states["BS"]["count"] > 10.0
    assert connects["statistic"] == pytest.approx(connects["count"] / 0.14)
    assert any(
        each["text"] == "kernel, in connect on 127.0.0.1:6379, which returns ECONNREFUSED" for each in told["spent"]
    )
    slowest = [each["duration_s"] for each in told["examples"]]
    assert slowest == sorted(slowest, reverse=True)
    assert {each["cluster"] for each in told["examples"]} == {"connect refused"}


def test_of_requests_that_have_gone_from_the_bus_what_was_said_is_shown(tmp_path: Path) -> None:
    with then(tmp_path / "bus.db", 1700000200.0) as page:
        page.reading.bus.create(TOPICS.specs())
        (kept, _), *_ = outlying()
        page.reading.bus.append([Outgoing(TOPICS.name(REQUESTS), kept.service, encode(kept), kept.ts)])
        for _, output in outlying():
            value = write_output(output).encode()
            page.reading.bus.append([Outgoing(TOPICS.name(ANOMALIES), output.service, value, output.ts)])
        told = get(page, "/requests/cluster", service=SERVICE, cluster="flock x.lock")
        assert (told["requests"], told["compared"], told["beside"], told["sentence"]) == (10, 1, 0, LOCKED)
        states = {each["state"]: (each["time_s"], each["usual_s"], each["count"]) for each in told["states"]}
        assert states["BT"] == (pytest.approx(0.106), 0.0, None)
        assert states["RU"] == (pytest.approx(0.012), 0.12, None)
        alone = get(page, "/requests/list", service=SERVICE, only="alone")["requests"]
        assert [(each["request"], each["odd"]) for each in alone] == [("slow-10", True)]
        assert get(page, "/requests/path", service=SERVICE, request="slow-3")["verdict"]["cause"] == LOCKED


# One request.


def test_the_path_of_a_request_leads_across_threads(page: Served) -> None:
    example = of_clusters(page)["lock sidebar"]["example"]
    told = get(page, "/requests/path", service=SERVICE, request=example)
    assert told["lanes"] == list(THREADS)
    assert (told["pieces"][0]["lane"], told["pieces"][0]["begin_s"]) == (0, 0.0)
    last = told["pieces"][-1]
    assert (last["lane"], last["state"], last["end_s"]) == (0, "RU", told["duration_s"])
    held = told["pieces"][-2]
    assert (held["lane"], held["state"], held["detail"]) == (2, "BD", "fsync /srv/blog/cache/sidebar")
    leads = [(each["source"], each["target"]) for each in told["leads"]]
    assert leads == [(0, 1), (1, 0)] * 6 + [(0, 2), (2, 0)]
    assert told["description"].startswith("The critical path: 27 pieces on 3 threads, php-fpm[812] then ")
    states = {each["state"]: each for each in told["states"]}
    assert sum(each["path_s"] for each in told["states"]) == pytest.approx(told["duration_s"])
    assert states["BD"]["detail"].startswith("fsync /srv/blog/cache/sidebar ")
    assert states["BT"]["usual_s"] < 0.1 < states["BT"]["own_s"]
    longest = told["spent"][0]
    assert (longest["call"], longest["on"], longest["by"], longest["pid"]) == (
        "flock",
        "/srv/blog/cache/sidebar",
        "worker",
        4711,
    )
    assert longest["text"] == "waits for a task, in flock on /srv/blog/cache/sidebar, by worker[4711]"
    assert told["verdict"]["cluster"] == "lock sidebar"
    assert len(told["others"]) == 10
    assert example not in {each["request"] for each in told["others"]}
    away = [abs(each["ts"] - told["ts"]) for each in told["others"]]
    assert away == sorted(away)


def test_which_request_is_meant_has_to_be_said(page: Served) -> None:
    told = "3,000 requests of 'wordpress' have an id that begins with '812-'"
    assert refused(page, "/requests/path", service=SERVICE, request="812-") == (404, told, "more of the id")
    normal = get(page, "/requests/path", service=SERVICE, request="812-29")
    assert (normal["request"], normal["verdict"], normal["others"]) == ("812-29", None, [])
    assert normal["pieces"]
    status, error, expected = refused(page, "/requests/path", service=SERVICE, request="nothing of the kind")
    assert (status, error) == (404, "no request of 'wordpress' with the id 'nothing of the kind' is recorded")
    assert expected.startswith("one such as 812-")


def test_one_of_long_ago_is_found_by_when_it_began(page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_path, "MOST_SEARCHED", 100)
    (old,) = get(page, "/requests/list", service=SERVICE, like="812-70", sort="newest", most=1)["requests"]
    late = {"service": SERVICE, "request": old["request"], "from": NOW + 3600.0, "to": NOW + 7200.0}
    assert refused(page, "/requests/path", **late)[0] == 404
    told = get(page, "/requests/path", **late, at=old["ts"])
    assert (told["ts"], told["duration_s"]) == (old["ts"], old["duration_s"])


def test_names_stay_what_they_are(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\u202e"
    (request, output), *_ = outlying()
    with then(tmp_path / "bus.db", request.ts + 60.0) as page:
        page.reading.bus.create(TOPICS.specs())
        value = encode(replace(request, name=hostile, request=hostile, threads=(hostile,) * 4))
        page.reading.bus.append([Outgoing(TOPICS.name(REQUESTS), request.service, value, request.ts)])
        told = replace(output, name=hostile, request=hostile, threads=(hostile,) * 4, cluster=hostile)
        value = write_output(told).encode()
        page.reading.bus.append([Outgoing(TOPICS.name(ANOMALIES), request.service, value, request.ts)])
        answer = page.client.get("/api/v1/requests/path", params={"service": request.service, "request": hostile})
        assert answer.headers["content-type"] == "application/json"
        found = answer.json()
        assert found["request"] == found["name"] == found["verdict"]["cluster"] == hostile
        assert found["lanes"][0] == "<script>alert(1)</script>\\u202e"
        assert get(page, "/requests/cluster", service=request.service, cluster=hostile)["requests"] == 1
