"""Requests to the brokers on topics and their partitions."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec

from laggard.pipeline.core.bus import BusError, BusUnavailable, Partition
from laggard.pipeline.core.bus.kafka.connection import milliseconds
from laggard.pipeline.core.bus.kafka.errors import location, named
from laggard.pipeline.core.bus.kafka.topics import FoundTopic, configs_of, replication_of
from laggard.pipeline.core.bus.kafka.wire import MAX_RECORD_BYTES, OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from laggard.pipeline.core.bus import TopicSpec
    from laggard.pipeline.core.bus.kafka.broker_requests import BrokerRequests
    from laggard.pipeline.core.bus.kafka.kafka_python_admin import AdminClient

SETTLING_S: Final = 1.0
"""The time to wait for commits in progress, in seconds."""

SETTLING_STEP_S: Final = 0.01
"""The time between two looks at them, in seconds."""


class FoundCluster(NamedTuple):
    """The brokers of a cluster.

    Attributes:
        brokers: the number of brokers.
        version: the version of Kafka, derived from the requests that they support.

    """

    brokers: int
    version: str


class TopicAdmin:
    """Creates topics, and returns their settings and the bounds of their partitions.

    Errors are those of `BrokerRequests`.
    """

    def __init__(self, requests: BrokerRequests) -> None:
        self._requests = requests
        self._options = requests.options

    def create(self, specs: Iterable[TopicSpec]) -> None:
        """Create missing topics, and wait until they can be used."""
        wanted = {spec.name: spec for spec in reversed(list(specs))}
        for spec in wanted.values():
            if spec.partitions < 1:
                raise BusError(
                    f"{location(self._options)}: topic {spec.name}: expected at least 1 partition, "
                    f"got {spec.partitions}"
                )
        missing = sorted(wanted.keys() - self.partition_counts(wanted).keys())
        if not missing:
            return
        action = f"create the topics {', '.join(missing)}"
        replication = self.replication()
        self._requests.send(
            action,
            lambda client: client.create(
                {
                    name: {
                        "num_partitions": wanted[name].partitions,
                        "replication_factor": replication,
                        "configs": configs_of(wanted[name], replication),
                    }
                    for name in missing
                }
            ),
        )
        self._requests.send(
            action, lambda client: client.wait_for_topics(missing, milliseconds(self._options.request_timeout_s))
        )

    def replication(self) -> int:
        """Return the number of replicas of a new topic."""
        if self._options.replication is not None:
            return self._options.replication
        cluster = self._requests.send("list the brokers", lambda client: client.describe_cluster())
        return replication_of(None, len(cluster["brokers"]))

    def describe(self, topics: Iterable[str]) -> dict[str, FoundTopic | None]:
        """Return the topics as they are; None for one that this user may not see. Missing ones are left out."""
        names = sorted(set(topics))
        action = f"describe the topics {', '.join(names)}"
        return self._requests.send(action, lambda client: client.found(names)) if names else {}

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; missing ones are left out."""
        names = sorted(set(topics))
        if not names:
            return {}

        def ask(client: AdminClient) -> dict[str, int]:
            counts = {}
            for topic in client.describe_topics(names):
                error = kafka_errors.for_code(topic["error_code"])
                if error in (kafka_errors.UnknownTopicOrPartitionError, kafka_errors.InvalidTopicError):
                    continue
                if error is not kafka_errors.NoError:
                    raise error(topic["name"])
                counts[topic["name"]] = len(topic["partitions"])
            return counts

        return self._requests.send(f"look up the topics {', '.join(names)}", ask)

    def max_record_bytes(self, topic: str) -> int:
        """Return the largest record that the topic accepts; the documented limit if this user may not see it."""

        def ask(client: AdminClient) -> int:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, ["max.message.bytes"])
            found = client.describe_configs([resource], config_filter="all")["topic"].get(topic, {})
            return int(found["max.message.bytes"]["value"]) - OVERHEAD_BYTES if found else MAX_RECORD_BYTES

        try:
            return self._requests.send(f"look up the limits of {topic}", ask)
        except BusUnavailable:
            raise
        except BusError:
            return MAX_RECORD_BYTES

    def cluster(self) -> FoundCluster:
        """Return the brokers of the cluster."""

        def ask(client: AdminClient) -> FoundCluster:
            brokers = client.describe_cluster()["brokers"]
            data = client.get_broker_version_data(brokers[0]["broker_id"])
            return FoundCluster(len(brokers), data.broker_version_str)

        return self._requests.send("describe the cluster", ask)

    def topic_operations(self, topics: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return this user's operations on each of these topics, in the words of Kafka: `READ`, `DESCRIBE_CONFIGS`."""
        names = sorted(set(topics))
        found = self._requests.send("ask for this user's rights", lambda client: client.describe_topics(names))
        return {topic["name"]: frozenset(topic.get("authorized_operations") or ()) for topic in found}

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """Return the oldest available offset, and the one after the last committed record."""
        return self.all_bounds([partition])[partition]

    def all_bounds(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return the bounds of several partitions, in two requests."""
        if not partitions:
            return {}
        action = f"look at {named(partitions)}"
        every = [TopicPartition(*partition) for partition in partitions]
        oldest, end = (
            self._requests.send(action, lambda client, spec=spec: client.offsets_of(dict.fromkeys(every, spec)))  # type: ignore[misc]
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
        return {Partition(*at): (min(oldest[at].offset, end[at].offset), end[at].offset) for at in every}

    def settled_end(self, partition: Partition) -> int:
        """Return the end of committed records, after commits in progress.

        A transaction is reported as committed before all partitions know. The wait for an open one is `SETTLING_S`.
        """
        action = f"look at {partition.topic}[{partition.number}]"
        at = {TopicPartition(*partition): OffsetSpec.LATEST}
        deadline = time.monotonic() + SETTLING_S
        (written,) = self._requests.send(action, lambda client: client.offsets_of(at, committed=False)).values()
        while True:
            (end,) = self._requests.send(action, lambda client: client.offsets_of(at)).values()
            if end.offset >= written.offset or time.monotonic() >= deadline:
                return int(end.offset)
            time.sleep(SETTLING_STEP_S)

    def offset_at(self, partition: Partition, ts: float) -> int | None:
        """Return the first offset whose record has this time or a later one; None without one."""
        at = TopicPartition(*partition)
        spec = max(0, math.ceil(ts * 1000))
        action = f"look for a time in {partition.topic}[{partition.number}]"
        found = self._requests.send(action, lambda client: client.offsets_of({at: spec})[at].offset)
        return None if found < 0 else int(found)
