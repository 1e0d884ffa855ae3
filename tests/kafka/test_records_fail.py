"""Records that are gone, compacted or none: counted, said, dead-lettered; the partition goes on."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from kafka import KafkaAdminClient, TopicPartition

from laggard.pipeline.core.bus import Null, Partition
from laggard.pipeline.core.records import Decoder, Frame
from laggard.pipeline.core.sending.sender import Sender
from laggard.pipeline.core.sending.spool import Spool
from laggard.pipeline.core.topics import ANOMALIES, COUNTERS, DEAD_LETTERS
from tests.kafka.scene import CAUGHT_UP_S
from tests.kafka.stream import HOSTS, WIRED, committed, differences, expected, read_inputs, records
from tests.pipeline.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.brokers import Cluster
    from tests.kafka.conftest import NewScene
    from tests.kafka.scene import Scene

pytestmark = pytest.mark.slow

DELETED = re.compile(r"\[(\d+)\]: (\d+) records were deleted before they were read; going on without them")


def delete(scene: Scene, before: dict[int, int]) -> None:
    """Delete what is before these offsets of the input's partitions, as retention would."""
    topic = scene.topics.name(COUNTERS)
    with KafkaAdminClient(bootstrap_servers=scene.cluster.internal) as admin:
        admin.delete_records({TopicPartition(topic, number): offset for number, offset in before.items()})


@pytest.mark.parametrize("worker_is", ["away", "behind"])
def test_input_that_expires_before_it_is_read(broker: Cluster, new_scene: NewScene, worker_is: str) -> None:
    scene = new_scene(broker, partitions=2, kafka__session_timeout="20s")
    worker = scene.worker()
    worker.start()
    worker.await_ready()
    scene.send(800)
    scene.await_all()
    worker.stop() if worker_is == "away" else worker.pause()
    # A worker that is behind may have asked for more already: it is given what comes first, not what comes then.
    kept = {partition: scene.bus.bounds(partition)[1] + 100 for partition in scene.inputs}
    scene.send(20)
    scene.send(580)
    inputs = read_inputs(scene.bus, scene.topics)
    delete(scene, {partition.number: offset for partition, offset in kept.items()})
    worker.start() if worker_is == "away" else worker.resume()
    scene.await_all()
    deadline = time.monotonic() + 60  # it is looked at now and then, beside the work
    while len(told := dict(DELETED.findall(worker.said()))) < len(kept):
        assert time.monotonic() < deadline, f"it says {worker.said()}"
        time.sleep(0.1)
    missed = {partition: int(told[str(partition.number)]) for partition in kept}
    assert all(50 < count <= 100 for count in missed.values())
    assert worker_is == "behind" or set(missed.values()) == {100}
    assert worker.metric("laggard_missed_records_total") == len(WIRED) * sum(missed.values()), (
        "each operator misses them"
    )
    read = {
        partition: [one for one in records if not kept[partition] - missed[partition] <= one.offset < kept[partition]]
        for partition, records in inputs.items()
    }
    scene.check(expected(read, scene.topics))


@pytest.mark.timeout(240)
def test_a_snapshot_topic_that_is_compacted_down_to_its_newest_records(broker: Cluster, new_scene: NewScene) -> None:
    scene = new_scene(broker, partitions=1, snapshot__records=5)
    snapshots = Partition(scene.topics.name(scene.topics.snapshots(WIRED[0].snapshots)), 0)
    broker.tools.run(
        *("kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", snapshots.topic, "--add-config"),
        "segment.ms=1000,min.cleanable.dirty.ratio=0.001,min.compaction.lag.ms=0,delete.retention.ms=0",
    )
    worker = scene.worker()
    worker.start()
    worker.await_ready()
    scene.send(1600, per_s=500)  # in many commits, the last of which is small
    scene.await_all()
    worker.stop()
    written = scene.bus.bounds(snapshots)[1]
    deadline = time.monotonic() + 90  # the broker's cleaner comes when it wants
    while True:
        keys = [record.key for record in scene.bus.read(snapshots, 0)]
        # The newest segment, with what was saved in the end, is never compacted: what that is depends on the pace.
        if len(keys) <= written // 2:
            break
        assert time.monotonic() < deadline, f"{len(keys)} of {written} records of {len(set(keys))} keys are left"
        time.sleep(0.3)
    assert len(set(keys)) > HOSTS
    assert written > 6 * len(set(keys))
    scene.send(400)
    want = expected(read_inputs(scene.bus, scene.topics), scene.topics)
    # The states cannot come from anywhere else any more.
    delete(scene, {0: scene.bus.committed(scene.group, scene.inputs[0])})
    worker.start()
    worker.await_ready()
    scene.await_all()
    assert worker.metric("laggard_missed_records_total") == 0
    scene.check(want)


def test_two_agents_of_one_host_are_told(broker: Cluster, new_scene: NewScene, tmp_path: Path) -> None:
    scene = new_scene(broker, partitions=1, kafka__session_timeout="20s")  # it is told once
    worker = scene.worker()
    worker.start()
    topic = scene.topics.name(COUNTERS)
    decoder = Decoder()
    frames = [
        received
        for one in records(scene.topics, 0, 400, time.time() - 600)
        if one.key == "host-1" and isinstance(received := decoder.decode(one.value, "here"), Frame)
    ]
    agents = [Sender(Spool(tmp_path / f"spool-{at}", 1 << 20, 3600.0, topic), scene.bus) for at in range(2)]
    for number, frame in enumerate(frames):
        agent = agents[number % 2]
        agent.publish([frame])
        while agent.waiting:
            time.sleep(0.01)
    for agent in agents:
        agent.close()
    scene.await_all()
    assert worker.metric("laggard_namesakes_total") == 1
    assert worker.said().count("two agents publish as 'host-1' at once") == 1


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_an_input_that_is_created_anew_is_read_from_its_beginning(
    broker: Cluster, new_scene: NewScene, client: str
) -> None:
    scene = new_scene(broker, partitions=1, kafka__client=client)
    worker = scene.worker()
    worker.start()
    scene.send(800)
    scene.await_all()
    topic = scene.topics.name(COUNTERS)
    broker.tools.run("kafka-topics", "--delete", "--topic", topic)
    # Brokers learn of it a moment later; until then it would count as there.
    until(lambda: topic not in broker.tools.run("kafka-topics", "--list").split())
    scene.bus.close()
    scene.bus = scene._open()
    scene.create()
    scene.send(200)  # fewer than were committed before
    # The group's offset of the topic that was deleted may be there for some time: beyond the new one's end.
    deadline = time.monotonic() + CAUGHT_UP_S
    while worker.metric("laggard_records_total") < 1000 * len(WIRED):
        worker.check()
        assert time.monotonic() < deadline, worker.said()
        time.sleep(0.1)
    scene.await_all()
    worker.stop()
    assert scene.bus.committed(scene.group, scene.inputs[0]) == scene.bus.bounds(scene.inputs[0])[1]


@pytest.mark.parametrize("client", ["kafka-python", "librdkafka"])
def test_poisoned_records_are_dead_letters_and_the_partition_goes_on(
    broker: Cluster, new_scene: NewScene, client: str
) -> None:
    """Also those whose dead letter or anomaly no topic would take."""
    scene = new_scene(broker, partitions=1, kafka__client=client)
    topic = scene.topics.name(COUNTERS)
    worker = scene.worker()
    worker.start()
    scene.send(800)
    scene.await_all()
    (frame,) = [record.value for record in scene.bus.read(scene.inputs[0], 250, 251)]
    poisons: list[tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]] = [
        (b"host-1", b"\x00\xff garbage", []),
        (None, b"no key", []),
        (None, frame, []),
        (b"host-1", None, []),
        (None, None, [("a", None), ("a", b"\xff\xfe"), ("", b"")]),
        (b"\xff\xfe\x00", b"a key that is no text", []),
        (b"host-1", b"", []),
        (b"host-1", b"x" * 900_000, []),
        (b"another", frame, [("laggard-reason", b"forged")]),
        (b"host-2", json.dumps({"ts": 1.0, "host": "host-2", "rows": {}}).encode(), []),
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
        for key, value, headers in poisons:
            producer.produce(topic, value, key, headers=headers)
        assert producer.flush(60) == 0
        scene.send(20)
    send_what_no_topic_takes(scene, 900)
    scene.await_all()
    letters = list(scene.bus.read(scene.bus.partitions(scene.topics.name(DEAD_LETTERS))[0], 0))
    reasons = [dict(letter.headers)["laggard-reason"].decode() for letter in letters]
    assert all(reasons)
    assert not [reason for reason in reasons if "damaged" in reason]
    assert len(letters) >= 5 * len(poisons)
    # As it was received, so that it can be sent again.
    assert sum(letter.value == b"x" * 900_000 for letter in letters) == 5
    assert sum(isinstance(letter.value, Null) for letter in letters) == 10
    assert sum(reason.endswith("expected a record, got none (null)") for reason in reasons) == 10
    assert sum("at most an hour after the record's own" in reason for reason in reasons) > 150
    assert sum(letter.key.encode(errors="surrogateescape") == b"\xff\xfe\x00" for letter in letters) == 5
    worker.check()

    want = expected(read_inputs(scene.bus, scene.topics), scene.topics)
    scene.settle()
    got = committed(scene.bus, scene.topics)
    (letter,) = [one for told in got.outputs.values() for one in told if dict(one[1]).get("laggard-bytes")]
    assert letter[0] == LARGE[: len(letter[0])]
    assert [headers for _, headers, _ in got.outputs[ANOMALIES.name, "host-5"]]
    for outputs in (want.outputs, got.outputs):
        for place, told in outputs.items():  # the time of a record from far ahead is the broker's limit
            outputs[place] = [(value, headers, min(ts, AHEAD_MS)) for value, headers, ts in told]
    assert differences(got, want) == []


LARGE = bytes(30_000_000)
"""Compressed, it is small enough for the broker."""

AHEAD_MS = round((time.time() + 600) * 1000)


def send_what_no_topic_takes(scene: Scene, start: int) -> None:
    """A large record; and frames that are far ahead of the broker, dated by the producer with the time of sending."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": scene.cluster.bootstrap, "compression.type": "zstd", "message.max.bytes": 2 * len(LARGE)}
    )
    topic = scene.topics.name(COUNTERS)
    producer.produce(topic, LARGE, b"host-1")
    for one in records(scene.topics, start, start + 200, time.time() + 30 * 86_400):
        producer.produce(topic, one.value, one.key)
    assert producer.flush(60) == 0
