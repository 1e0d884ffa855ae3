"""Kafka buses of a test's own on a broker that others use too."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from laggard.pipeline.core.bus import TopicSpec
from laggard.pipeline.core.bus.kafka.bus import KafkaBus
from laggard.pipeline.core.bus.kafka.options import KafkaOptions

if TYPE_CHECKING:
    from laggard.pipeline.core.bus.kafka.options import Client
    from tests.brokers import Cluster

CLIENTS: tuple[Client, ...] = ("kafka-python", "librdkafka")


def kafka_options(cluster: Cluster, client: Client = "kafka-python", **more: Any) -> KafkaOptions:
    """For a bus with topics of its own. It waits as long as a broker takes on a machine that others load."""
    own: dict[str, Any] = {"bootstrap": tuple(cluster.bootstrap.split(",")), "client": client}
    own["request_timeout_s"] = 60.0
    return KafkaOptions(**{**own, "prefix": f"{uuid.uuid4().hex}.", **more})


def prepare(options: KafkaOptions, **topics: int) -> None:
    """Create topics with a number of partitions, and one for the snapshots of `operator`."""
    with KafkaBus(options) as bus:
        bus.create(
            [
                *(TopicSpec(options.prefix + name, partitions) for name, partitions in topics.items()),
                TopicSpec(f"{options.prefix}snapshots.operator", compacted=True),
            ]
        )
