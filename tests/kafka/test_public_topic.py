"""The public topic as strangers read it: the broker's own console consumer, the schemas, the SDK of CloudEvents."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary_event
from kafka import KafkaConsumer

from deploy.generate.asyncapi import asyncapi_document
from laggard.pipeline.core.topics import ANOMALIES, DEAD_LETTERS
from tests.deploy.test_asyncapi import component, told
from tests.kafka.scene import Scene
from tests.pipeline.core.records.conftest import VALIDATORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.brokers import Cluster, Printed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MESSAGES = json.loads(asyncapi_document())["components"]["messages"]


@pytest.fixture(scope="module")
def scene(broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """After a worker has worked off a stream with spikes, marks and records that are none, twice."""
    with Scene(tmp_path_factory.mktemp("public"), broker, "public.", partitions=2) as scene:
        scene.send(2000)
        worker = scene.worker()
        worker.start()
        scene.await_all()
        scene.stop_workers()
        yield scene


def published(scene: Scene, topic: str) -> int:
    """How many committed records the topic has, as laggard reads it: other clients stop after as many."""
    return sum(1 for partition in scene.bus.partitions(topic) for _ in scene.bus.read(partition, 0))


@pytest.fixture(scope="module")
def printed(broker: Cluster, scene: Scene) -> list[Printed]:
    topic = scene.topics.name(ANOMALIES)
    return broker.tools.consume(topic, published(scene, topic))


def documents(printed: list[Printed]) -> Iterator[tuple[Printed, dict[str, str], dict[str, Any]]]:
    for one in printed:
        assert one.value is not None
        assert len({name for name, _ in one.headers}) == len(one.headers)
        yield one, dict(one.headers), json.loads(one.value)


def test_every_record_is_what_its_schema_says(printed: list[Printed]) -> None:
    kinds = set()
    for one, _, document in documents(printed):
        VALIDATORS[document["kind"]].validate(document)
        assert one.key == document["host"]
        assert one.ts == pytest.approx(document["ts"], abs=0.001)
        kinds.add(document["kind"])
    assert kinds == {"anomaly", "notice", "progress", "incident", "ranking"}


def test_every_record_is_a_cloud_event(printed: list[Printed]) -> None:
    for one, headers, document in documents(printed):
        told(MESSAGES[document["kind"]]["headers"]).validate(headers)
        component(document["kind"]).validate(document)
        assert one.key is not None
        assert one.value is not None
        raw = {name: value.encode() for name, value in headers.items()}
        event = from_binary_event(KafkaMessage(headers=raw, key=one.key.encode(), value=one.value.encode()))
        assert event.get_type() == f"laggard.{document['kind']}"
        assert event.get_data() == document
        occurred = event.get_time()
        assert occurred is not None
        assert occurred.timestamp() == pytest.approx(document["ts"], abs=1e-6)
        if document["kind"] == "anomaly":
            assert event.get_id() == document["id"]


def test_each_id_is_there_once(printed: list[Printed]) -> None:
    ids = [(headers["ce_source"], headers["ce_id"]) for _, headers, _ in documents(printed)]
    assert len(ids) == len(set(ids)) > 10


def test_a_dead_letter_says_why_it_is_one(broker: Cluster, scene: Scene) -> None:
    # Another client: the console consumer prints text, and these are any bytes.
    topic = scene.topics.name(DEAD_LETTERS)
    reader = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=None,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=60_000,
    )
    letters = list(islice(reader, published(scene, topic)))
    reader.close()
    assert letters
    for one in letters:
        headers = {name: value.decode() for name, value in one.headers}
        told(MESSAGES["dead_letter"]["headers"]).validate(headers)
        assert headers["laggard-topic"] == "public.counters"
        place = f"public.counters[{headers['laggard-partition']}]@{headers['laggard-offset']}"
        assert place in headers["laggard-reason"]
        assert one.key.startswith(b"host-")
