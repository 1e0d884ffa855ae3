"""The API's answers about applications: on a bus as a worker has left it, and on one where something is lacking."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.engine.runner import Runner
from laggard.pipeline.core.records import Wish, encode
from laggard.pipeline.core.topics import APPLICATIONS
from laggard.pipeline.methods.applications.method import regression_stage
from laggard.pipeline.methods.applications.queries import application_now
from laggard.pipeline.scoring.observers import Observer
from laggard.pipeline.settings.general import BusSettings
from tests.pipeline.investigator.serving import Served, get, served
from tests.pipeline.investigator.shop import (
    DISKS,
    HOSTILE,
    INTERVALS,
    SETTINGS,
    SLOW_FROM,
    TOPICS,
    WAITS,
    drain,
    learned,
    outgoing,
)
from tests.pipeline.methods.applications.records import counted, measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.records.models import PredictionOutput


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learned(tmp_path_factory.mktemp("applications") / "bus.db")


@pytest.fixture(scope="module")
def page(bus: Path) -> Iterator[Served]:
    with served(bus, **SETTINGS) as page:
        yield page


def asked(page: Served, path: str, **parameters: Any) -> Any:
    return get(page, f"/applications{path}", **{"application": "shop"} | parameters)


def test_each_application_is_listed_with_its_models_and_whether_it_is_slow(page: Served) -> None:
    blog, shop = page.client.get("/api/v1/applications").json()["applications"]
    assert (blog["application"], blog["models"], blog["incidents"]) == ("blog", [], [])
    assert [each["performance"] for each in shop["models"]] == ["response_time_mean_s", "throughput_per_s"]
    assert shop["models"][0]["terms"] == [DISKS]
    (incident,) = shop["incidents"]
    assert incident["to"] is None
    assert "The mean response time of shop is" in incident["sentence"]


def test_of_an_empty_bus_it_is_told_what_to_type(tmp_path: Path) -> None:
    with served(tmp_path / "bus.db") as page:
        told = page.client.get("/api/v1/applications").json()
        assert told["applications"] == []
        assert "[[sources]]" in told["steps"][0]["do"]
        assert told["steps"][1]["do"] == "laggard up --set 'applications.hosts=shop=web-* db-1'"


def test_the_configuration_tells_hosts_in_tiers_parameters_and_what_is_measured(page: Served) -> None:
    told = asked(page, "/configuration")
    assert [(each["host"], each["tier"], each["metrics"]) for each in told["hosts"]] == [
        ("web-1", "web", 6),
        ("web-2", "web", 6),
        ("db-1", "db", 6),
    ]
    assert [(each["performance"], each["explained"]) for each in told["performance"]] == [
        ("response_time_mean_s", True),
        ("throughput_per_s", True),
    ]
    assert told["interval_s"] == 10.0
    assert time.time() - 120.0 < told["ts"] <= time.time()
    window = next(each for each in told["parameters"] if each["setting"] == "regression.window")
    assert (window["value"], window["place"]) == ("10", "default")
    assert told["steps"] == []


def test_the_configuration_tells_what_is_lacking(bus: Path) -> None:
    with served(bus, operators="gaussian") as page:
        lacks = [each["lacks"] for each in asked(page, "/configuration", application="blog")["steps"]]
    assert len(lacks) == 2
    assert lacks[0].startswith("no host serves it")
    assert lacks[1].startswith("these settings build no models")


def test_what_was_measured_is_told_beside_what_the_workers_models_said(page: Served) -> None:
    told = asked(page, "/tracking")
    assert told["own"]
    # The newest performance frame waits for the counters of its hosts.
    assert len(told["ts"]) == INTERVALS - 1
    (slow, throughput) = told["tracked"]
    assert (slow["performance"], throughput["performance"]) == ("response_time_mean_s", "throughput_per_s")
    assert slow["predicted"][:9] == [None] * 9  # before there is a model
    for value, predicted in zip(slow["value"][20:SLOW_FROM], slow["predicted"][20:SLOW_FROM], strict=True):
        assert predicted == pytest.approx(value, abs=0.05)
    assert slow["p_value"][SLOW_FROM] < 1e-6
    assert slow["r2"][-1] > 0.8
    changes = [
        each for each in told["rebuilt"] if each["reason"] == "changed" and each["performance"] == slow["performance"]
    ]
    assert changes[0]["ts"] == told["ts"][SLOW_FROM]
    assert told["slow"]
    assert "db-1 is short of disk throughput" in told["sentence"]


def test_the_predictions_are_those_that_a_worker_tells(page: Served) -> None:
    told: list[PredictionOutput] = []

    class Listening(Observer):
        def predicted(self, prediction: PredictionOutput) -> None:
            told.append(prediction)

    bus = page.reading.bus
    partition = bus.partition_of("laggard.applications", "shop")
    task = regression_stage(page.reading.settings).task(partition, observers=[Listening()])
    for record in bus.read(partition, 0, None, "shop"):
        task.process(record)
    tracked = asked(page, "/tracking")
    for each in tracked["tracked"]:
        expected = {one.ts: one.predicted for one in told if one.performance == each["performance"]}
        found = {ts: value for ts, value in zip(tracked["ts"], each["predicted"], strict=True) if value is not None}
        assert found == {ts: value for ts, value in expected.items() if math.isfinite(value)}
        assert len(found) >= INTERVALS - 11


def test_a_stretch_of_the_past_has_the_same_predictions(page: Served) -> None:
    whole = asked(page, "/tracking")
    begin, end = whole["ts"][30], whole["ts"][35]
    with served(Path(page.reading.settings[BusSettings].location), **SETTINGS) as other:  # which has nothing in memory
        part = asked(other, "/tracking", **{"from": begin, "to": end})
    assert part["ts"] == whole["ts"][30:36]
    assert part["tracked"][0]["predicted"] == whole["tracked"][0]["predicted"][30:36]
    assert part["own"]


def test_models_are_told_with_what_they_were_chosen_from(page: Served) -> None:
    told = asked(page, "/models")
    assert told["performance"] == ["response_time_mean_s", "throughput_per_s"]
    newest, *older = told["models"]
    assert newest["id"] == told["model"]
    assert newest["equation"].endswith(f" * {DISKS}")
    (term,) = newest["terms"]
    assert term["metric"]["description"] == "time that `postgres` on db-1 waited for disks"
    assert term["metric"]["resource_named"] == "disk"
    assert term["effect"].startswith("with 10 % more of it ")
    assert [each["metric"]["metric"] for each in told["candidates"] if each["chosen"]] == [DISKS]
    assert abs(told["candidates"][0]["r"]) > 0.99
    first = older[-1]
    assert first["reason"] == "first"
    assert first["changed"] == ""
    of_first = asked(page, "/models", model=first["id"])
    assert of_first["model"] == first["id"]
    assert WAITS in {each["metric"]["metric"] for each in of_first["candidates"]}


def test_a_metric_is_told_beside_the_performance_and_found_by_a_part_of_its_name(page: Served) -> None:
    told = asked(page, "/series", metric=DISKS)
    assert len(told["ts"]) == len(told["values"]) == len(told["measured"]) == INTERVALS - 1
    assert max(told["values"][:SLOW_FROM]) <= 0.05
    assert min(told["values"][SLOW_FROM:]) >= 0.4
    hostile = f"web-2/{HOSTILE}:cpu_wait_ratio"
    assert asked(page, "/series", metric=hostile)["metric"]["metric"] == hostile
    told = asked(page, "/metrics", like="postgres:io", most=3)
    assert told["metrics"][0]["metric"] == DISKS
    assert told["known"] == 18


def test_what_would_be_is_told_in_sentences(page: Served) -> None:
    told = asked(page, "/what-if", metric=DISKS, value=0.0)["sentences"]
    assert told[0].startswith("The mean response time of shop would be ")
    answer = page.client.get(
        "/api/v1/applications/what-if", params={"application": "shop", "metric": WAITS, "value": 0.5}
    )
    assert answer.status_code == 404
    assert DISKS in answer.json()["expected"]


def test_the_metrics_of_both_phases_are_placed_on_hosts_in_tiers(page: Served) -> None:
    told = asked(page, "/map")
    placed = {host["host"]: host for tier in told["tiers"] for host in tier["hosts"]}
    assert [tier["tier"] for tier in told["tiers"]] == ["web", "db"]
    assert [each["metric"]["metric"] for each in placed["db-1"]["phase_2"]] == [DISKS]
    assert placed["web-1"]["phase_2"] == []
    assert DISKS in {each["metric"]["metric"] for each in placed["db-1"]["phase_1"]}
    assert placed["db-1"]["suspects"][0]["metric"]["metric"] == DISKS
    assert told["slow"]
    of_throughput = asked(page, "/map", performance="throughput_per_s")
    assert of_throughput["model"]["performance"] == "throughput_per_s"


@pytest.mark.parametrize(
    ("path", "status", "error", "expected"),
    [
        ("/tracking?application=shpo", 404, "there are no records of application shpo", "one of shop"),
        ("/map?application=blog", 404, "there is no model of blog yet", "what its configuration says it lacks"),
        ("/models?application=shop&performance=errors_per_s", 404, "there is no model of performance errors_per_s",
         "one of response_time_mean_s, throughput_per_s"),
        ("/models?application=shop&model=x", 404, "there is no model 'x'", "the id of one since 'since'"),
        ("/series?application=shop&metric=db-1:io_delay_ratio", 404, "shop has no metric db-1:io_delay_ratio",
         f"one that is there; similar: {DISKS}, web-1/nginx:io_delay_ratio"),
        ("/tracking?application=shop&from=2&to=1", 400, "parameter 'from' is 2.0", "a time before 'to', 1.0"),
        ("/what-if?application=shop&metric=x&value=nan", 400, "parameter 'value' is nan", "a number"),
        ("/configuration", 400, "a parameter is missing",
         "Object missing required field `application`"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named(page: Served, path: str, status: int, error: str, expected: str) -> None:
    answer = page.client.get(f"/api/v1/applications{path}")
    assert (answer.status_code, answer.json()) == (status, {"error": error, "expected": expected})


def test_a_metric_is_pinned_banned_and_freed(tmp_path: Path) -> None:
    with served(learned(tmp_path / "bus.db", 12), **SETTINGS) as page:
        for wish in ("pin", "ban"):
            told = page.client.post(
                "/api/v1/applications/wishes", json={"application": "shop", "metric": WAITS, "wish": wish}
            )
            assert told.status_code == 201, told.text
            assert told.json()["metric"]["description"] == "time that some task on web-1 waited for a CPU"
            assert [(each["metric"]["metric"], each["wish"]) for each in asked(page, "/models")["waiting"]][-1] == (
                WAITS,
                wish,
            )
        bus, partition = page.reading.bus, page.reading.bus.partition_of("laggard.applications", "shop")
        end = bus.bounds(partition)[1]
        (record,) = bus.read(partition, end - 1)
        assert record.value == encode(Wish("shop", record.ts, WAITS, "ban"))
        # From the next interval on it holds: for the page as for the worker.
        now = time.time()
        later = [
            counted(0.0, {"web-1": {"pressure_cpu_some_ratio": 0.1}}),
            measured(1.0),
            counted(2.0, {"web-1": {"x": 1.0}}),
        ]
        bus.append([outgoing(replace(each, ts=now + 10.0 + number)) for number, each in enumerate(later)])
        assert asked(page, "/configuration")["banned"][0]["metric"] == WAITS
        state = application_now(bus, TOPICS, regression_stage(page.reading.settings), "shop")
        assert state is not None
        assert list(state.operator.banned) == [WAITS]


def test_a_wish_for_what_is_not_there_is_refused_with_what_is_near(page: Served) -> None:
    end = page.reading.bus.bounds(page.reading.bus.partition_of("laggard.applications", "shop"))[1]
    for wish, status, error, expected in [
        ({"application": "shop", "metric": "db1/postgres:io_delay_ratio", "wish": "pin"}, 404,
         "shop has no metric db1/postgres:io_delay_ratio among its 18", DISKS),
        ({"application": "nothing", "metric": WAITS, "wish": "pin"}, 404,
         "there are no records of application nothing", "one of"),
        ({"application": "shop", "metric": WAITS, "wish": "love"}, 400, "field 'wish' is wrong", "Invalid enum value"),
    ]:  # fmt: skip
        answer = page.client.post("/api/v1/applications/wishes", json=wish)
        assert answer.status_code == status, answer.text
        assert answer.json()["error"] == error
        assert expected in answer.json()["expected"]
    assert page.reading.bus.bounds(page.reading.bus.partition_of("laggard.applications", "shop"))[1] == end


def test_what_comes_meanwhile_is_followed(tmp_path: Path) -> None:
    """The page reads on where it was, and tells what a page says that has read all of it."""
    path = learned(tmp_path / "bus.db", 30)
    with served(path, **SETTINGS) as page:
        first = asked(page, "/tracking")
        draw, begin = random.Random(1), first["ts"][-1] + 10.0
        for number in range(5):
            ts, waits = begin + 10.0 * number, draw.uniform(0.02, 0.3)
            told = [
                counted(0.0, {"web-1": {"pressure_cpu_some_ratio": waits}}),
                measured(0.0, {"response_time_mean_s": 0.02 + 0.4 * waits}),
            ]
            page.reading.bus.append([outgoing(replace(each, ts=ts + 9.0 + at)) for at, each in enumerate(told)])
        second = asked(page, "/tracking")
        with served(path, **SETTINGS) as other:
            assert asked(other, "/tracking") == second
    assert len(second["ts"]) > len(first["ts"])
    known = [each for each in second["tracked"][0]["predicted"] if each is not None]
    assert all(math.isfinite(each) for each in known)


def test_the_sources_of_an_application_are_told(bus: Path) -> None:
    sources = """[{"kind": "prometheus", "application": "shop", "targets": ["http://web-1:8000/metrics"]},
                  {"kind": "log", "application": "blog", "paths": ["/var/log/nginx/access.log"], "format": "nginx"}]"""
    with served(bus, sources=sources, **SETTINGS) as page:
        (source,) = asked(page, "/configuration")["sources"]
        assert source == {
            "name": "prometheus",
            "kind": "prometheus",
            "reads": ["http://web-1:8000/metrics"],
            "interval_s": 10.0,
        }
        (source,) = asked(page, "/configuration", application="blog")["sources"]
        assert (source["kind"], source["reads"]) == ("log", ["/var/log/nginx/access.log"])


def test_on_a_bus_that_keeps_only_the_newest_snapshots_wishes_are_known_and_models_learned_anew(tmp_path: Path) -> None:
    """As on Kafka; five minutes an interval, so that the first of them is longer ago than anything is replayed."""
    path = learned(tmp_path / "bus.db", 60, 300.0)
    with served(path, **SETTINGS) as page:
        bus, name = page.reading.bus, TOPICS.name(APPLICATIONS)
        partition = bus.partition_of(name, "shop")
        before = asked(page, "/tracking")
        whole = list(bus.read(partition, 0, None))
        wish = Wish("shop", whole[0].ts, WAITS, "ban")
    other = tmp_path / "other.db"
    with EmbeddedBus(other) as bus:
        bus.create(TOPICS.specs())
        # The wish is the oldest of all records.
        bus.append(
            [
                Outgoing(name, "shop", encode(wish), wish.ts),
                *(Outgoing(name, one.key, one.value, one.ts) for one in whole),
            ]
        )
        stage = regression_stage(page.reading.settings)
        drain(Runner(bus, (stage,), TOPICS), bus, [stage.name], [name])
        end = bus.bounds(partition)[1]
        newest = bus.snapshots(stage.snapshots, partition)
        assert {each.key for each in newest} >= {"shop"}
        bus.reset(TOPICS.group(stage.name), [stage.snapshots], {partition: end}, newest)
    with served(other, **SETTINGS) as page:
        assert [each["metric"] for each in asked(page, "/configuration")["banned"]] == [WAITS]
        late = asked(page, "/tracking", **{"from": before["ts"][-3]})
        assert not late["own"]
        assert len(late["ts"]) == 3
        assert all(each is not None for each in late["tracked"][0]["predicted"])
        assert [each["metric"] for each in asked(page, "/configuration")["banned"]] == [WAITS]
