"""Diagnoses of a real agent on a real broker: nothing of them is lost, and they hold back nothing."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary_event

from laggard.pipeline.core.bus import TopicSpec
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions, servers_of
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis
from tests.misbehaving.programs import burning_python, misbehaving
from tests.pipeline.core.records.conftest import VALIDATORS
from tests.pipeline.methods.diagnoses.test_diagnosing_live import agent as local_agent
from tests.pipeline.methods.diagnoses.test_diagnosing_live import check_closed

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from laggard.pipeline.core.bus import Incoming
    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from tests.brokers import Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    # kafka-python leaves sockets that were refused to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COUNTERS, DIAGNOSES = "looked.counters", "looked.diagnoses"
HOST = "watched"


def agent(cluster: Cluster, state: Path, pid: int) -> AbstractContextManager[subprocess.Popen[str]]:
    """An agent that publishes on these brokers and profiles this process alone."""
    on_brokers = {
        "LAGGARD_HOST": HOST,
        "LAGGARD_BUS_LOCATION": cluster.location,
        "LAGGARD_TOPICS_PREFIX": "looked.",
    }
    return local_agent(state, pid, **on_brokers)


def records(bus: KafkaBus, topic: str) -> list[Incoming]:
    return list(bus.read(bus.partition_of(topic, HOST), 0, key=HOST))


def await_that(something: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 120.0
    while not something():
        assert time.monotonic() < until, what
        time.sleep(0.2)


def test_diagnoses_wait_for_their_topic_and_outlive_the_agent(broker: Cluster, tmp_path: Path) -> None:
    options = KafkaOptions(bootstrap=servers_of(broker.location), request_timeout_s=2.0)
    with KafkaBus(options) as bus, misbehaving(burning_python()) as program:
        bus.create([TopicSpec(COUNTERS, 2)])
        with agent(broker, tmp_path, program.pid) as first:
            await_that((tmp_path / "diagnoses.jsonl").exists, "nothing is looked into")
            frames = len(records(bus, COUNTERS))
            await_that(lambda: len(records(bus, COUNTERS)) >= frames + 6, "frames wait for the topic of diagnoses")
            first.kill()
            assert first.stderr is not None
            assert DIAGNOSES in first.stderr.read()
        bus.create([TopicSpec(DIAGNOSES, 2)])

        def diagnoses() -> list[Diagnosis]:
            found = [read_diagnosis(each.value, "test") for each in records(bus, DIAGNOSES)]
            return [each for each in found if each.pid == program.pid]

        started = time.time()
        with agent(broker, tmp_path, program.pid) as second:
            await_that(lambda: len({each.id for each in diagnoses()}) >= 2, "the killed one's and the next one's")
            # On a busy machine the killed one may have left two, which are sent before this one works.
            await_that(lambda: any(each.phases[0].begin_ts > started for each in diagnoses()), "the next one's own")
            second.send_signal(signal.SIGTERM)
            assert second.wait(60) == 0
        told = diagnoses()
        assert program.process.poll() is None
        for record in records(bus, DIAGNOSES):
            document = json.loads(record.value)
            VALIDATORS["diagnosis"].validate(document)
            event = from_binary_event(KafkaMessage(dict(record.headers), record.key.encode(), record.value))
            assert event.get_type() == "laggard.diagnosis"
            assert event.get_data() == document
    check_closed(told)
