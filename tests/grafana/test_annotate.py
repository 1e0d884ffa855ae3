"""`laggard grafana annotate`: incidents and marks become annotations, once each, and incidents get their end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from laggard.operators.ranking import Ranking
from laggard.pipeline.core.bus import Incoming, Outgoing, Partition
from laggard.pipeline.core.bus.embedded import EmbeddedBus
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from laggard.pipeline.core.engine.publishing import outgoing
from laggard.pipeline.core.records import RecordError
from laggard.pipeline.core.records.outputs import RankingOutput
from laggard.pipeline.core.topics import ANNOTATIONS, ANOMALIES, Topics
from laggard.pipeline.grafana.annotate import Annotator
from laggard.pipeline.grafana.client import Grafana
from laggard.pipeline.grafana.errors import GrafanaError
from laggard.pipeline.grafana.notes import note_of
from tests.grafana.stand_in import TOKEN, VERSIONS, StandIn, running
from tests.pipeline.methods.incidents.joined import closed, incident

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records.outputs import Incident
    from tests.brokers import Cluster

pytestmark = pytest.mark.slow

NOW = 1_795_300_000.0
DAY_S = 86_400.0
TOPICS = Topics("laggard.")
TOPIC = TOPICS.name(ANOMALIES)


def mark(ts: float, note: str = "checkout <hangs>") -> RankingOutput:
    return RankingOutput.of(ts, "web-1", note, Ranking(ts, 1.5, (), 3600.0, young=False), "`nginx` it is")


def incoming(record: Outgoing) -> Incoming:
    return Incoming(Partition(TOPIC, 0), 3, record.key, record.value, record.ts, record.headers)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Scene:
    """A bus with incidents, a stand-in for Grafana, and an annotator that can die and come back."""

    def __init__(self, bus: Bus, grafana: StandIn, *, since_s: float = DAY_S) -> None:
        self.bus = bus
        self.grafana = grafana
        self.clock = Clock()
        self.told: list[str] = []
        self._since_s = since_s
        self.start()

    def start(self) -> None:
        self._client = Grafana(self.grafana.url, TOKEN, sleep=self.clock.sleep)
        self.annotator = Annotator(
            self.bus,
            TOPICS,
            self._client,
            since_s=self._since_s,
            clock=self.clock,
            sleep=self.clock.sleep,
            report=lambda deed, key, ts: self.told.append(deed),
        )
        self.annotator.begin()

    def stop(self) -> None:
        self.annotator.close()
        self._client.close()

    def again(self) -> None:
        self.stop()
        self.start()

    def append(self, *outputs: Incident | RankingOutput) -> None:
        self.bus.append([outgoing(output, TOPICS) for output in outputs])

    def steps(self, seconds: float) -> None:
        """Let this time pass."""
        until = self.clock.now + seconds
        self.annotator.step(0.0)
        while self.clock.now < until:
            self.clock.now += 5.0
            self.annotator.step(0.0)

    def settle(self) -> None:
        """What is there is read: the first polls only tell which partitions are its own."""
        for _ in range(4):
            self.annotator.step(0.0)

    def reads(self, *outputs: Incident | RankingOutput) -> None:
        """These are told, and read."""
        self.append(*outputs)
        self.settle()

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
    said = note_of(incoming(outgoing(incident(1, NOW, host="web 1:a"), TOPICS)))
    assert said is not None
    found = said.to_json()
    own = found.pop("data")
    identity = incident(1, NOW, host="web 1:a").id
    assert found == {
        "time": round(1000 * NOW),
        "tags": [
            *("laggard", "incident", "web 1:a", "host:web 1:a"),
            *(f"incident:{identity}", "operator:gaussian", "open"),
        ],
        "text": f"`nginx` &lt;b&gt;uses&lt;/b&gt; more<br/>laggard incidents {identity[:8]}"
        "<br/>laggard why --host 'web 1:a' --at 1795300000.000",
    }
    assert own["laggard"]["number"] == 1
    young = note_of(incoming(outgoing(incident(1, NOW, young=True), TOPICS)))
    assert young is not None
    assert "The model is young" in young.text
    pool = replace(incident(1, NOW), keyed_by="pool", key="web-1/java exec")
    of_pool = note_of(incoming(outgoing(pool, TOPICS)))
    assert of_pool is not None
    assert "pool:web-1/java exec" in of_pool.tags
    assert of_pool.text.endswith("<br/>laggard pools 'web-1/java exec' --at 1795300000.000")
    service = replace(incident(1, NOW), keyed_by="service", key="wordpress")
    of_service = note_of(incoming(outgoing(service, TOPICS)))
    assert of_service is not None
    assert "service:wordpress" in of_service.tags
    assert of_service.text.endswith("<br/>laggard requests wordpress --at 1795300000.000")
    marked = note_of(incoming(outgoing(mark(NOW), TOPICS)))
    assert marked is not None
    assert marked.tags[:4] == ["laggard", "mark", "web-1", "host:web-1"]
    assert "open" not in marked.tags
    assert marked.text.startswith("checkout &lt;hangs&gt;<br/>`nginx` it is<br/>laggard why --host web-1 --at 17953")


def test_what_is_not_annotated() -> None:
    assert note_of(incoming(outgoing(incident(1, NOW, live=False), TOPICS))) is None
    for kind in (b"laggard.anomaly", b"laggard.progress", b"laggard.later"):
        assert note_of(Incoming(Partition(TOPIC, 0), 3, "web-1", b"{}", NOW, (("ce_type", kind),))) is None
    assert note_of(Incoming(Partition(TOPIC, 0), 3, "web-1", b"junk", NOW, ())) is None
    with pytest.raises(RecordError, match=r"laggard.anomalies\[0\]@3"):
        note_of(Incoming(Partition(TOPIC, 0), 3, "web-1", b"junk", NOW, (("ce_type", b"laggard.incident"),)))


def test_an_incident_becomes_a_region_and_a_mark_a_line(every_version: Scene) -> None:
    scene = every_version
    scene.reads(incident(1, NOW), mark(NOW + 20))
    region, line = scene.notes
    assert region["time"] == region["timeEnd"] == round(1000 * NOW)
    assert "open" in region["tags"]
    assert (line["time"], line["tags"][:2]) == (round(1000 * (NOW + 20)), ["laggard", "mark"])
    scene.reads(incident(1, NOW, "extended", nth=2, ts=NOW + 60, sentence="worse", operators=("gaussian", "cpu")))
    region = scene.notes[0]
    assert "open" in region["tags"]
    assert set(region["tags"]) >= {"operator:gaussian", "operator:cpu"}
    assert region["text"].startswith("worse<br/>")
    assert region["timeEnd"] == region["time"]
    scene.reads(closed(1, NOW, NOW + 300, nth=3))
    region, line = scene.notes
    assert region["timeEnd"] == round(1000 * (NOW + 300))
    assert "open" not in region["tags"]
    assert set(region["tags"]) >= {"laggard", "incident", "web-1", "host:web-1", "operator:gaussian", "operator:cpu"}
    assert line["timeEnd"] == line["time"]
    assert scene.told == ["written", "written", "changed", "ended"]
    assert scene.committed == 4


def test_started_again_it_writes_nothing_twice(scene: Scene) -> None:
    told: list[Incident | RankingOutput] = [incident(1, NOW), incident(2, NOW + 100), mark(NOW + 20)]
    told += [incident(1, NOW, "extended", nth=2, ts=NOW + 120, sentence="worse"), closed(2, NOW + 100, NOW + 200)]
    scene.reads(*told)
    before = scene.grafana.state()
    scene.again()
    scene.settle()
    assert scene.grafana.state() == before
    assert scene.told == ["written"] * 3 + ["changed", "ended"]
    # Nothing was committed: all comes again.
    scene.stop()
    scene.bus.reset(TOPICS.group(ANNOTATIONS), [], {Partition(TOPIC, 0): 0})
    scene.start()
    scene.settle()
    assert scene.grafana.state() == before
    assert scene.told[5:] == ["there"] * 5


def test_one_that_opened_before_the_first_start_is_annotated_when_it_changes(tmp_path: Path) -> None:
    with running("12.1") as grafana, EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        day_old = [incident(1, NOW - 7000), incident(2, NOW - 7000)]
        later = [incident(1, NOW - 7000, "extended", nth=2, ts=NOW - 100), closed(2, NOW - 7000, NOW - 500)]
        bus.append([outgoing(one, TOPICS) for one in (*day_old, *later)])
        scene = Scene(bus, grafana, since_s=3600.0)
        scene.settle()
        assert scene.told == ["written", "written"]
        assert [("open" in each["tags"], each["timeEnd"] - each["time"]) for each in scene.notes] == [
            (True, 0),
            (False, 6_500_000),
        ]
        scene.stop()


def test_what_was_joined_to_another_says_so(scene: Scene) -> None:
    goes_on = incident(1, NOW)
    scene.reads(incident(2, NOW + 1), closed(2, NOW + 1, NOW + 60, merged_into=goes_on.id))
    assert f"which is still open:<br/>laggard incidents {goes_on.id[:8]}<br/>" in scene.notes[0]["text"]
    assert scene.told == ["written", "ended"]


def test_an_end_before_its_beginning_is_none(scene: Scene) -> None:
    """By the clock of a host that was set back."""
    scene.reads(incident(1, NOW), closed(1, NOW, NOW - 50))
    assert scene.notes[0]["timeEnd"] == scene.notes[0]["time"]
    assert "open" not in scene.notes[0]["tags"]


def test_what_an_older_laggard_annotated_stays_a_line(scene: Scene) -> None:
    """Of anomalies, whose ends it asked of Prometheus."""
    tags = ["laggard", "incident", "web-1", "host:web-1", "anomaly:0d1e5e3a", "operator:gaussian"]
    scene.grafana.annotations[99] = {"id": 99, "time": 1, "timeEnd": 1, "tags": [*tags, "open"], "text": "old"}
    scene.reads(incident(1, NOW))
    scene.again()
    assert scene.grafana.annotations[99]["tags"] == tags
    assert scene.told == ["written", "endless"]
    assert "open" in scene.notes[1]["tags"]


def test_while_grafana_is_away_nothing_is_lost(scene: Scene, caplog: Any) -> None:
    scene.append(*(incident(number, NOW + number) for number in range(20)))
    scene.grafana.fail(".*", 502, times=60)
    scene.steps(5)
    assert scene.notes == []
    assert scene.committed == 0
    scene.append(*(incident(number, NOW + number) for number in range(20, 30)))
    scene.steps(900)
    assert [each["time"] for each in scene.notes] == [round(1000 * (NOW + number)) for number in range(30)]
    assert scene.committed == 30
    assert caplog.text.count("trying again") == 1


@pytest.mark.parametrize("path", ["/annotations", "/annotations/.*"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_it_dies_at_any_call_and_goes_on(scene: Scene, path: str, after: bool) -> None:
    """The call is done or not, the process ends before its commit, and the next one makes the same of it."""
    for number in range(3):
        opened = NOW + 400 * number
        worse = incident(number, opened, "extended", nth=2, ts=opened + 50, sentence="worse")
        scene.append(incident(number, opened), worse, closed(number, opened, opened + 90, nth=3))
    scene.append(mark(NOW + 50))
    for _ in range(12):
        scene.grafana.fail(path, 400, after=after)
        with contextlib.suppress(GrafanaError):
            scene.steps(100)
        scene.grafana.failures.clear()
        scene.again()
        scene.steps(30)
    assert [each["tags"][1] for each in scene.notes] == ["incident", "mark", "incident", "incident"]
    for each in scene.notes:
        if "incident" in each["tags"]:
            assert each["timeEnd"] - each["time"] == 90_000
            assert "open" not in each["tags"]


def test_what_a_person_deletes_stays_deleted(scene: Scene) -> None:
    scene.reads(incident(1, NOW), incident(2, NOW + 10))
    first, second = scene.notes
    del scene.grafana.annotations[first["id"]]
    scene.reads(incident(1, NOW, "extended", nth=2, ts=NOW + 60), closed(1, NOW, NOW + 90, nth=3))
    assert scene.notes == [second]
    assert scene.told[2:] == ["deleted", "deleted"]


def test_what_a_person_writes_stays(scene: Scene) -> None:
    """Its end is still laggard's, unless that was taken away too."""
    scene.reads(incident(1, NOW), incident(2, NOW + 10), incident(3, NOW + 20))
    first, second, third = (scene.grafana.annotations[each["id"]] for each in scene.notes)
    first["text"] += " It was the backup."
    first["tags"] = [*first["tags"], "reviewed"]
    second["data"] = None  # as a save in Grafana's pages may leave it
    third["tags"] = [tag for tag in third["tags"] if tag != "open"]
    scene.append(*(incident(n, NOW, "extended", nth=2, ts=NOW + 60, sentence="worse") for n in (1, 2, 3)))
    scene.reads(*(incident(n, NOW, "closed", nth=3, ts=NOW + 400, until_ts=NOW + 90) for n in (1, 2, 3)))
    assert scene.told[3:] == ["there", "there", "there", "ended", "ended", "there"]
    assert scene.notes[0]["text"].endswith(" It was the backup.")
    assert "reviewed" in scene.notes[0]["tags"]
    assert "worse" not in scene.notes[1]["text"]
    assert [each["timeEnd"] == round(1000 * (NOW + 90)) for each in scene.notes] == [True, True, False]


def test_records_that_are_not_incidents_are_skipped(scene: Scene, caplog: Any) -> None:
    good = outgoing(incident(1, NOW), TOPICS)
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
    assert caplog.text.count("skipped: laggard.anomalies[0]@") == 2


def test_a_long_name_fits_into_grafanas_columns(scene: Scene) -> None:
    scene.reads(incident(1, NOW, host="h" * 250))
    assert scene.told == ["written"]


def test_what_the_token_may_not_is_said(scene: Scene) -> None:
    scene.append(incident(1, NOW))
    scene.grafana.denied.add("postAnnotation")
    with pytest.raises(GrafanaError, match="expected the right annotations:create"):
        scene.settle()
    assert scene.committed == 0


def test_the_first_start_begins_with_what_is_new(tmp_path: Path) -> None:
    with running("12.1") as grafana, EmbeddedBus(tmp_path / "laggard.db") as bus:
        bus.create(TOPICS.specs())
        bus.append([outgoing(incident(number, NOW - 3600 * number), TOPICS) for number in (5, 4, 3, 2, 1)])
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
        outputs = [incident(number, now - 10, host=f"web-{number}") for number in range(20)]
        bus.append([outgoing(output, topics) for output in outputs])
        both = [Annotator(bus, topics, client, since_s=3600.0) for _ in range(2)]
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


def test_the_command(tmp_path: Path) -> None:
    """As a process: until it is told to stop, and then again."""
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
        with EmbeddedBus(location) as bus:
            bus.create(TOPICS.specs())
            bus.append([outgoing(incident(number, now - 60 + number), TOPICS) for number in range(3)])
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
                bus.append([outgoing(incident(9, now), TOPICS)])
        assert len(grafana.annotations) == 4
