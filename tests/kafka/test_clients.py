"""The two Kafka clients: the same results from each of them, and from groups that use both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laggard.pipeline.core.bus.kafka.bus import client_of
from laggard.pipeline.core.bus.kafka.kafka_python import KafkaPython
from laggard.pipeline.core.bus.kafka.librdkafka import Librdkafka
from laggard.pipeline.core.bus.kafka.options import KafkaOptions
from tests.kafka.scene import Flow

if TYPE_CHECKING:
    from tests.brokers import Cluster
    from tests.kafka.conftest import NewScene

pytestmark = pytest.mark.slow

CLIENTS = ("kafka-python", "librdkafka")


def test_the_client_that_is_asked_for_is_used_and_librdkafka_where_it_is_installed() -> None:
    assert isinstance(client_of(KafkaOptions(client="kafka-python")), KafkaPython)
    assert isinstance(client_of(KafkaOptions(client="librdkafka")), Librdkafka)
    assert isinstance(client_of(KafkaOptions()), Librdkafka)


def test_members_of_one_group_may_use_different_clients(broker: Cluster, new_scene: NewScene) -> None:
    """They share the partitions, and each goes on from the states and offsets of the other.

    Anomalies, dead letters and states are, bit for bit, those of a task without any client.
    """
    scene = new_scene(broker, partitions=3)
    first, second = (scene.worker(kafka__client=client) for client in CLIENTS)
    first.start()
    first.await_ready()
    with Flow(scene, 1500, 250):
        second.start()
        second.await_ready()
        first.stop()
        first.start()
        first.await_ready()
        second.stop()
    scene.check()
