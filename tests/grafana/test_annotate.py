"""`laggard grafana annotate`: incidents and marks become annotations, once each, and incidents get their end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.bus import Incoming, Outgoing, Partition
from laggard.pipeline.bus.embedded import EmbeddedBus
from laggard.pipeline.bus.kafka.bus import KafkaBus
from laggard.pipeline.bus.kafka.options import KafkaOptions
from laggard.pipeline.grafana.annotate import Annotator
from laggard.pipeline.grafana.client import Grafana
from laggard.pipeline.grafana.connection import GrafanaError
from laggard.pipeline.grafana.ends import STEP_S, UNSEEN_S, Ends
from laggard.pipeline.grafana.notes import note_of
from laggard.pipeline.publishing import outgoing
from laggard.pipeline.records import RecordError
from laggard.pipeline.records.outputs import Anomaly, RankingOutput, anomaly_id
from laggard.pipeline.topics import ANNOTATIONS, ANOMALIES, Topics
from tests.grafana.stand_in import TOKEN, VERSIONS, StandIn, running
from tests.monitoring.servers import api, awaited, running_prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.bus import Bus
    from tests.brokers import Cluster

NOW = 1_795_300_000.0
DAY_S = 86_400.0
TOPICS = Topics("laggard.")
TOPIC = TOPICS.name(ANOMALIES)


def ranking(ts: float) -> Ranking:
    feature = FeatureScore("cpu_user_ratio", 0.5, 0.1, 0.01, 3.0)
    return Ranking(ts, 1.5, (RowScore("nginx[1@2]", "nginx", 3.0, (feature,), 60.0),), 3600.0, young=False)


def anomaly(number: int, ts: float, *, host: str = "web-1", live: bool = True, young: bool = False) -> Anomaly:
    return Anomaly(
        anomaly_id("gaussian", host, f"laggard.counters[0]@{number}"),
        "gaussian",
        {},
        "host",
        host,
        ts,
        1.5,
        ranking(ts),
        "`nginx` <b>uses</b> more",
        3600.0,
        young=young,
        live=live,
    )


def mark(ts: float, note: str = "checkout <hangs>") -> RankingOutput:
    return RankingOutput(ts, "web-1", note, ranking(ts), "`nginx` it is")


def incoming(record: Outgoing) -> Incoming:
    return Incoming(Partition(TOPIC, 0), 3, record.key, record.value, record.ts, record.headers)


@dataclass
class Metrics:
    """What Prometheus knows of incidents: host, scope, start and end; and when nobody could be scraped."""

    incidents: list[tuple[str, str, float, float]] = field(default_factory=list)
    away: tuple[float, float] = (0.0, 0.0)

    def answer(self, expr: str, start: float, end: float, step: float) -> Any:
        metric, matchers = re.fullmatch(r"(\w+)\{(.*)\}", expr).groups()  # type: ignore[union-attr]
        wanted = {name: json.loads(value) for name, value in re.findall(r'(\w+)=("(?:[^"\\]|\\.)*")', matchers)}
        assert wanted["operator"] == "gaussian"
        steps = [start + step * number for number in range(int((end - start) / step) + 1)] if step else [end]
        steps = [at for at in steps if not self.away[0] <= at < self.away[1]]
        for scope in ("process", "host"):
            if wanted.get("scope", scope) != scope:
                continue
            mine = [each for each in self.incidents if each[:2] == (wanted["host"], scope)]
            points = []
            for at in steps:
                opened = [began for _, _, began, ended in mine if began <= at < ended]
                if metric == "laggard_anomalies_open":
                    points.append((at, 1.0 if opened else 0.0))
                elif opened:
                    points.append((at, opened[0]))
            if points:
                yield {"host": wanted["host"], "operator": "gaussian", "scope": scope}, points


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Scene:
    """A bus with anomalies, a stand-in for Grafana, and an annotator that can die and come back."""

    def __init__(self, bus: Bus, grafana: StandIn, *, since_s: float = DAY_S, ends: bool = True) -> None:
        self.bus = bus
        self.grafana = grafana
        self.metrics = Metrics()
        self.clock = Clock()
        self.told: list[str] = []
        self._since_s = since_s
        self._with_ends = ends
        grafana.answer = self.metrics.answer
        self.start()

    def start(self) -> None:
        self._client = Grafana(self.grafana.url, TOKEN, sleep=self.clock.sleep)
        self.annotator = Annotator(
            self.bus,
            TOPICS,
            self._client,
            Ends(self._client, "prom-1") if self._with_ends else None,
            since_s=self._since_s,
            clock=self.clock,
            sleep=self.clock.sleep,
            told=lambda deed, key, ts: self.told.append(deed),
        )
        self.annotator.begin()

    def stop(self) -> None:
        self.annotator.close()
        self._client.close()

    def again(self) -> None:
        self.stop()
        self.start()

    def append(self, *outputs: Anomaly | RankingOutput) -> None:
        self.bus.append([outgoing(output, TOPICS) for output in outputs])

    def steps(self, seconds: float) -> None:
        """Let so much time pass."""
        until = self.clock.now + seconds
        self.annotator.step(0.0)
        while self.clock.now < until:
            self.clock.now += 5.0
            self.annotator.step(0.0)

    def settle(self) -> None:
        """What is there is read: the first polls only tell which partitions are ours."""
        for _ in range(4):
            self.annotator.step(0.0)

    @property
    def committed(self) -> int:
        return self.bus.committed(TOPICS.group(ANNOTATIONS), Partition(TOPIC, 0))

    @property
    def notes(self) -> list[dict[str, Any]]:
        return sorted(self.grafana.annotations.values(), key=lambda each: each["time"])


@pytest.fixture(params=VERSIONS)
def every_version(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    yield from scene_of(request.param, tmp_path)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    yield from scene_of("12.1", tmp_path)


def scene_of(version: str, folder: Path) -> Iterator[Scene]:
    with running(version) as grafana, EmbeddedBus(folder / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        scene = Scene(bus, grafana)
        yield scene
        scene.stop()


def test_what_an_annotation_says() -> None:
    found = note_of(incoming(outgoing(anomaly(1, NOW, host="web 1:a"), TOPICS)))
    assert found is not None
    identity = anomaly(1, NOW, host="web 1:a").id
    assert found.to_json() == {
        "time": round(1000 * NOW),
        "tags": [
            *("laggard", "incident", "web 1:a", "host:web 1:a"),
            *(f"anomaly:{identity}", "operator:gaussian", "open"),
        ],
        "text": "`nginx` &lt;b&gt;uses&lt;/b&gt; more<br/>laggard why --host 'web 1:a' --at 1795300000.000",
    }
    young = note_of(incoming(outgoing(anomaly(1, NOW, young=True), TOPICS)))
    assert young is not None
    assert "has not learned long enough yet" in young.text
    marked = note_of(incoming(outgoing(mark(NOW), TOPICS)))
    assert marked is not None
    assert marked.tags[:4] == ["laggard", "mark", "web-1", "host:web-1"]
    assert "open" not in marked.tags
    assert marked.text.startswith("checkout &lt;hangs&gt;<br/>`nginx` it is<br/>laggard why --host web-1 --at 17953")


def test_what_is_not_annotated() -> None:
    assert note_of(incoming(outgoing(anomaly(1, NOW, live=False), TOPICS))) is None
    later = Incoming(Partition(TOPIC, 0), 3, "web-1", b"{}", NOW, (("ce_type", b"laggard.incident"),))
    assert note_of(later) is None
    assert note_of(Incoming(Partition(TOPIC, 0), 3, "web-1", b"junk", NOW, ())) is None
    with pytest.raises(RecordError, match=r"laggard.anomalies\[0\]@3"):
        note_of(Incoming(Partition(TOPIC, 0), 3, "web-1", b"junk", NOW, (("ce_type", b"laggard.anomaly"),)))


def test_an_incident_becomes_a_region_and_a_mark_a_line(every_version: Scene) -> None:
    scene = every_version
    scene.append(anomaly(1, NOW), mark(NOW + 20))
    scene.metrics.incidents.append(("web-1", "process", NOW, NOW + 300))
    scene.settle()
    incident, line = scene.notes
    assert incident["time"] == incident["timeEnd"] == round(1000 * NOW)
    assert "open" in incident["tags"]
    assert (line["time"], line["tags"][:2]) == (round(1000 * (NOW + 20)), ["laggard", "mark"])
    scene.steps(280)
    assert "open" in scene.notes[0]["tags"]
    scene.steps(60)
    incident, line = scene.notes
    assert 0 <= incident["timeEnd"] / 1000 - (NOW + 300) <= STEP_S
    assert "open" not in incident["tags"]
    assert set(incident["tags"]) >= {"laggard", "incident", "web-1", "host:web-1", "operator:gaussian"}
    assert line["timeEnd"] == line["time"]
    assert scene.told == ["written", "written", "ended"]
    assert scene.annotator.open == {}
    assert scene.committed == 2


def test_started_again_it_writes_nothing_twice(scene: Scene) -> None:
    scene.append(anomaly(1, NOW), anomaly(2, NOW + 100), mark(NOW + 20))
    scene.settle()
    before = scene.grafana.state()
    scene.again()
    scene.settle()
    assert scene.grafana.state() == before
    assert scene.told == ["written"] * 3
    # Nothing was committed: all comes again.
    scene.stop()
    scene.bus.reset(TOPICS.group(ANNOTATIONS), [], {Partition(TOPIC, 0): 0})
    scene.start()
    scene.settle()
    assert scene.grafana.state() == before
    assert scene.told == ["written"] * 3 + ["there"] * 3
    assert len(scene.annotator.open) == 2


def test_what_was_open_when_it_stopped_is_ended_by_the_next(scene: Scene) -> None:
    scene.append(anomaly(1, NOW))
    scene.metrics.incidents.append(("web-1", "process", NOW, NOW + 3600))
    scene.settle()
    scene.stop()
    scene.clock.now = NOW + 3 * 3600
    scene.start()
    scene.settle()
    (incident,) = scene.notes
    assert 0 <= incident["timeEnd"] / 1000 - (NOW + 3600) <= STEP_S
    assert "open" not in incident["tags"]


def test_incidents_of_one_host_are_told_apart(scene: Scene) -> None:
    """Of processes and of the host itself at once, and one that begins before the other's end was seen."""
    scene.append(anomaly(1, NOW), anomaly(2, NOW + 10), anomaly(3, NOW + 105))
    scene.metrics.incidents += [
        ("web-1", "process", NOW, NOW + 100),
        ("web-1", "host", NOW + 10, NOW + 500),
        ("web-1", "process", NOW + 105, NOW + 900),
        ("web-2", "process", NOW + 1, NOW + 2),
    ]
    scene.steps(1000)
    ends = [each["timeEnd"] / 1000 for each in scene.notes]
    for end, expected in zip(ends, (NOW + 105, NOW + 500, NOW + 900), strict=True):
        assert -5 <= end - expected <= STEP_S


def test_while_no_worker_is_scraped_an_incident_stays_open(scene: Scene) -> None:
    scene.append(anomaly(1, NOW))
    scene.metrics.incidents.append(("web-1", "process", NOW, NOW + 5000))
    scene.metrics.away = (NOW + 100, NOW + 4000)
    scene.steps(4500)
    assert "open" in scene.notes[0]["tags"]
    scene.steps(600)
    assert 0 <= scene.notes[0]["timeEnd"] / 1000 - (NOW + 5000) <= STEP_S


def test_of_what_prometheus_never_saw_no_end_is_known(scene: Scene) -> None:
    scene.append(anomaly(1, NOW))
    scene.steps(UNSEEN_S - STEP_S)
    assert "open" in scene.notes[0]["tags"]
    scene.steps(3 * STEP_S)
    (incident,) = scene.notes
    assert incident["timeEnd"] == incident["time"]
    assert "open" not in incident["tags"]
    assert scene.told == ["written", "endless"]


def test_without_a_data_source_incidents_stay_open(tmp_path: Path) -> None:
    with running("12.1") as grafana, EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        scene = Scene(bus, grafana, ends=False)
        scene.append(anomaly(1, NOW))
        scene.steps(2 * UNSEEN_S)
        assert "open" in scene.notes[0]["tags"]
        assert ("POST", "/ds/query") not in grafana.calls
        scene.stop()


def test_where_the_ends_may_not_be_asked_annotations_are_written(scene: Scene, caplog: Any) -> None:
    scene.grafana.denied.add("queryMetricsWithExpressions")
    scene.append(anomaly(1, NOW), anomaly(2, NOW + 5))
    scene.steps(60)
    assert scene.told == ["written"] * 2
    assert caplog.text.count("the ends of incidents are not known") == 1


def test_while_grafana_is_away_nothing_is_lost(scene: Scene, caplog: Any) -> None:
    scene.append(*(anomaly(number, NOW + number) for number in range(20)))
    scene.grafana.fail(".*", 502, times=60)
    scene.steps(5)
    assert scene.notes == []
    assert scene.committed == 0
    scene.append(*(anomaly(number, NOW + number) for number in range(20, 30)))
    scene.steps(900)
    assert [each["time"] for each in scene.notes] == [round(1000 * (NOW + number)) for number in range(30)]
    assert scene.committed == 30
    assert caplog.text.count("trying again") == 1


@pytest.mark.parametrize("path", ["/annotations", "/annotations/.*", "/ds/query"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_it_dies_at_any_call_and_goes_on(scene: Scene, path: str, after: bool) -> None:
    """The call is done or not, the process ends before its commit, and the next one makes the same of it."""
    scene.metrics.incidents += [
        ("web-1", "process", NOW + 400 * number, NOW + 400 * number + 90) for number in range(3)
    ]
    scene.append(*(anomaly(number, NOW + 400 * number) for number in range(3)), mark(NOW + 50))
    for _ in range(12):
        scene.grafana.fail(path, 400, after=after)
        with contextlib.suppress(GrafanaError):
            scene.steps(100)
        scene.grafana.failures.clear()
        scene.again()
        scene.steps(30)
    assert [each["tags"][1] for each in scene.notes] == ["incident", "mark", "incident", "incident"]
    assert len({tag for each in scene.notes for tag in each["tags"] if tag.startswith("anomaly:")}) == 4
    for each in scene.notes:
        if "incident" in each["tags"]:
            assert 90 <= (each["timeEnd"] - each["time"]) / 1000 <= 90 + STEP_S
            assert "open" not in each["tags"]


def test_what_a_person_deletes_or_changes_is_let_go(scene: Scene) -> None:
    scene.append(anomaly(1, NOW), anomaly(2, NOW + 10))
    scene.metrics.incidents.append(("web-1", "process", NOW, NOW + 100))
    scene.settle()
    first, second = scene.notes
    del scene.grafana.annotations[first["id"]]
    scene.grafana.annotations[second["id"]]["tags"] = ["laggard", "incident", "open", "reviewed"]
    scene.again()
    scene.steps(2 * UNSEEN_S)
    assert scene.annotator.open == {}
    assert scene.notes[0]["tags"] == ["laggard", "incident", "open", "reviewed"]


def test_records_that_are_no_good_are_passed_over(scene: Scene, caplog: Any) -> None:
    good = outgoing(anomaly(1, NOW), TOPICS)
    scene.bus.append(
        [
            Outgoing(TOPIC, "web-1", b"\xff junk", NOW, good.headers),
            Outgoing(TOPIC, "web-1", b"[]", NOW, good.headers),
            Outgoing(TOPIC, "web-1", b"{}", NOW, ()),
            good,
        ]
    )
    scene.settle()
    assert scene.told == ["written"]
    assert scene.committed == 4
    assert caplog.text.count("passed over: laggard.anomalies[0]@") == 2


def test_a_long_name_fits_into_grafanas_columns(scene: Scene) -> None:
    scene.append(anomaly(1, NOW, host="h" * 250))
    scene.settle()
    assert scene.told == ["written"]


def test_what_the_token_may_not_is_said(scene: Scene) -> None:
    scene.append(anomaly(1, NOW))
    scene.grafana.denied.add("postAnnotation")
    with pytest.raises(GrafanaError, match="expected the right annotations:create"):
        scene.settle()
    assert scene.committed == 0


def test_the_first_start_begins_with_what_is_new(tmp_path: Path) -> None:
    with running("12.1") as grafana, EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        bus.append([outgoing(anomaly(number, NOW - 3600 * number), TOPICS) for number in (5, 4, 3, 2, 1)])
        scene = Scene(bus, grafana, since_s=2.5 * 3600)
        scene.settle()
        assert [each["time"] for each in scene.notes] == [round(1000 * (NOW - 3600 * ago)) for ago in (2, 1)]
        scene.stop()


def test_on_kafka(broker: Cluster) -> None:
    """Offsets are committed there as well, and two of them share the partitions."""
    topics = Topics("annotated.")
    options = KafkaOptions((broker.bootstrap,), prefix=topics.prefix, client="kafka-python")
    with running("12.1") as grafana, KafkaBus(options) as bus, Grafana(grafana.url, TOKEN) as client:
        bus.create(topics.specs([ANOMALIES], partitions=4))
        now = time.time()
        outputs = [anomaly(number, now - 10, host=f"web-{number}") for number in range(20)]
        bus.append([outgoing(output, topics) for output in outputs])
        both = [Annotator(bus, topics, client, None, since_s=3600.0) for _ in range(2)]
        for each in both:
            each.begin()
        try:
            deadline = time.monotonic() + 90
            while len(grafana.annotations) < 20 or committed(bus, topics) < 20:
                assert time.monotonic() < deadline, (len(grafana.annotations), committed(bus, topics))
                for each in both:
                    each.step(0.2)
        finally:
            for each in both:
                each.close()
        assert len({tuple(each["tags"]) for each in grafana.annotations.values()}) == 20


def committed(bus: Bus, topics: Topics) -> int:
    """Of all partitions together, from their beginning."""
    partitions = bus.partitions(topics.name(ANOMALIES))
    return sum(bus.committed(topics.group(ANNOTATIONS), partition) for partition in partitions)


class Target(ThreadingHTTPServer):
    """What Prometheus scrapes instead of a worker: it says what it is told to."""

    page = ""


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.server.page.encode())  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def target() -> Iterator[Target]:
    server = Target(("127.0.0.1", 0), Page)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_the_end_as_a_real_prometheus_knows_it(tmp_path: Path, target: Target) -> None:
    """Its real answers to the same queries, in the form in which Grafana hands them on."""
    labels = 'host="web-\\"1",operator="gaussian",scope="process"'
    scrape = {
        "job_name": "laggard",
        "scrape_interval": "1s",
        "static_configs": [{"targets": [f"127.0.0.1:{target.server_port}"]}],
    }
    began = round(time.time(), 3)
    opened = f'laggard_anomaly_start_timestamp_seconds{{{labels},row="nginx",feature="x"}} {began!r}\n'
    target.page = f"laggard_anomalies_open{{{labels}}} 1\n{opened}"
    with (
        running_prometheus(tmp_path / "prometheus", {"scrape_configs": [scrape]}) as prometheus,
        running("12.1") as grafana,
        EmbeddedBus(tmp_path / "laggard.db") as bus,
        Grafana(grafana.url, TOKEN) as client,
    ):

        def answer(expr: str, start: float, end: float, step: float) -> Any:
            span = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
            found = api(prometheus, "/api/v1/query_range", query=expr, **span)["data"]
            return [(each["metric"], [(at, float(value)) for at, value in each["values"]]) for each in found["result"]]

        grafana.answer = answer
        bus.create(TOPICS.specs())
        bus.append([outgoing(anomaly(1, began, host='web-"1'), TOPICS)])
        annotator = Annotator(bus, TOPICS, client, Ends(client, "prom-1", step_s=1.0), since_s=60.0)
        annotator.begin()

        def noted() -> dict[str, Any]:
            annotator.step(0.2)
            return next(iter(grafana.annotations.values()), {})

        def seen() -> bool:
            noted()
            return any(one.scope == "process" for one in annotator.open.values())

        awaited(seen)
        closed = time.time()
        target.page = f"laggard_anomalies_open{{{labels}}} 0\n"
        found = awaited(noted, lambda note: "open" not in note.get("tags", ["open"]))
        annotator.close()
    assert closed - 1.5 <= found["timeEnd"] / 1000 <= time.time()
    assert found["timeEnd"] / 1000 - closed <= 20


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    """As a process: until it is told to stop, and once more."""
    location = tmp_path / "laggard.db"
    with running("12.1") as grafana:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "LAGGARD_STATE": str(tmp_path),
            "LAGGARD_BUS_LOCATION": str(location),
            "LAGGARD_GRAFANA_URL": grafana.url,
            "LAGGARD_GRAFANA_TOKEN": TOKEN,
        }
        command = [sys.executable, "-m", "laggard.pipeline.cli", "grafana", "annotate", "--json"]
        empty = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert empty.returncode == 3
        now = time.time()
        grafana.answer = Metrics().answer
        with EmbeddedBus(location) as bus:
            bus.create(TOPICS.specs())
            bus.append([outgoing(anomaly(number, now - 60 + number), TOPICS) for number in range(3)])
            for ending, expected in ((signal.SIGTERM, 3), (signal.SIGINT, 1)):
                process = subprocess.Popen(
                    command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
                )
                assert process.stdout is not None
                told = [json.loads(process.stdout.readline()) for _ in range(expected)]
                process.send_signal(ending)
                _, err = process.communicate(timeout=60)
                assert (process.returncode, err) == (0, "")
                assert [each["done"] for each in told] == ["written"] * expected
                bus.append([outgoing(anomaly(9, now), TOPICS)])
        assert len(grafana.annotations) == 4
