"""Requests to the brokers other than reading and writing: topics, offsets, groups. Always through kafka-python."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.structs import OffsetAndMetadata

from laggard.pipeline.core.bus import BusError, BusUnavailable, Partition
from laggard.pipeline.core.bus.kafka.connection import connected, kafka_python, milliseconds
from laggard.pipeline.core.bus.kafka.errors import explained, location, named, unreachable
from laggard.pipeline.core.bus.kafka.kafka_python_admin import AdminClient
from laggard.pipeline.core.bus.kafka.topics import FoundTopic, configs_of, replication_of
from laggard.pipeline.core.bus.kafka.wire import MAX_RECORD_BYTES, OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from laggard.pipeline.core.bus import TopicSpec
    from laggard.pipeline.core.bus.kafka.client import Offset
    from laggard.pipeline.core.bus.kafka.kafka_python_admin import Offsets
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions

SETTLING_S: Final = 1.0
"""The time to wait for commits in progress, in seconds."""

_SETTLING_STEP_S: Final = 0.01
_RETRY_S: Final = 0.05

T = TypeVar("T")


class FoundCluster(NamedTuple):
    """The brokers of a cluster.

    Attributes:
        brokers: the number of brokers.
        version: the version of Kafka, derived from the requests that they support.

    """

    brokers: int
    version: str


class Admin:
    """Sends requests to the brokers. Safe to use from several threads; connects on first use.

    Every call takes a few seconds at most. It raises BusUnavailable if the brokers have not answered by then, and
    BusError if they reject it.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._connecting = threading.Lock()  # a lock of its own, so that `close` does not wait for a connection
        self._client: AdminClient | None = None
        self._closed = False

    # Topics.

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
        asked = f"create the topics {', '.join(missing)}"
        replication = self.replication()
        self._ask(
            asked,
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
        self._ask(asked, lambda client: client.wait_for_topics(missing, milliseconds(self._options.request_timeout_s)))

    def replication(self) -> int:
        """Return the number of replicas of a new topic."""
        if self._options.replication is not None:
            return self._options.replication
        cluster = self._ask("list the brokers", lambda client: client.describe_cluster())
        return replication_of(None, len(cluster["brokers"]))

    def describe(self, topics: Iterable[str]) -> dict[str, FoundTopic | None]:
        """Return the topics as they are; None for one that this user may not see. Missing ones are left out."""
        names = sorted(set(topics))
        asked = f"describe the topics {', '.join(names)}"
        return self._ask(asked, lambda client: client.found(names)) if names else {}

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

        return self._ask(f"look up the topics {', '.join(names)}", ask)

    def max_record_bytes(self, topic: str) -> int:
        """Return the largest record that the topic accepts; the documented limit if this user may not see it."""

        def ask(client: AdminClient) -> int:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, ["max.message.bytes"])
            found = client.describe_configs([resource], config_filter="all")["topic"].get(topic, {})
            return int(found["max.message.bytes"]["value"]) - OVERHEAD_BYTES if found else MAX_RECORD_BYTES

        try:
            return self._ask(f"look up the limits of {topic}", ask)
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

        return self._ask("describe the cluster", ask)

    def topic_operations(self, topics: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return this user's operations on each of these topics, in the words of Kafka: `READ`, `DESCRIBE_CONFIGS`."""
        names = sorted(set(topics))
        found = self._ask("ask for this user's rights", lambda client: client.describe_topics(names))
        return {topic["name"]: frozenset(topic.get("authorized_operations") or ()) for topic in found}

    def group_operations(self, group: str) -> frozenset[str] | None:
        """Return this user's operations on the group: none if that is hidden, None without a group."""

        def ask(client: AdminClient) -> frozenset[str] | None:
            found = client.group(group)
            operations = found.get("authorized_operations")
            return None if found["error"] is not None or not operations else frozenset(operations)

        try:
            return self._ask(f"ask for the rights to group {group}", ask)
        except BusUnavailable:
            raise
        except BusError:
            return frozenset()

    # Offsets.

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """Return the oldest available offset, and the one after the last committed record."""
        return self.all_bounds([partition])[partition]

    def all_bounds(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return the bounds of several partitions, in two requests."""
        if not partitions:
            return {}
        asked = f"look at {named(partitions)}"
        every = [TopicPartition(*partition) for partition in partitions]
        oldest, end = (
            self._ask(asked, lambda client, spec=spec: client.offsets_of(dict.fromkeys(every, spec)))  # type: ignore[misc]
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
        return {Partition(*at): (min(oldest[at].offset, end[at].offset), end[at].offset) for at in every}

    def settled_end(self, partition: Partition) -> int:
        """Return the end of committed records, after commits in progress.

        A transaction is reported as committed before all partitions know. The wait for an open one is `SETTLING_S`.
        """
        asked = f"look at {partition.topic}[{partition.number}]"
        at = {TopicPartition(*partition): OffsetSpec.LATEST}
        deadline = time.monotonic() + SETTLING_S
        (written,) = self._ask(asked, lambda client: client.offsets_of(at, committed=False)).values()
        while True:
            (end,) = self._ask(asked, lambda client: client.offsets_of(at)).values()
            if end.offset >= written.offset or time.monotonic() >= deadline:
                return int(end.offset)
            time.sleep(_SETTLING_STEP_S)

    def offset_at(self, partition: Partition, ts: float) -> int | None:
        """Return the first offset whose record has this time or a later one; None without one."""
        at = TopicPartition(*partition)
        spec = max(0, math.ceil(ts * 1000))
        asked = f"look for a time in {partition.topic}[{partition.number}]"
        found = self._ask(asked, lambda client: client.offsets_of({at: spec})[at].offset)
        return None if found < 0 else int(found)

    def offsets(self, group: str, partitions: Iterable[Partition], *, stable: bool = False) -> Offsets:
        """Return the group's committed offsets; with `stable`, without those that an open transaction may change."""
        wanted = list(partitions)
        return self._ask(f"read the offsets of group {group}", lambda client: client.committed(group, wanted, stable))

    def settled_offset(self, group: str, partition: Partition) -> Offset | None:
        """Return the group's committed offset, after commits in progress; None without one."""
        deadline = time.monotonic() + SETTLING_S
        while True:
            found = self.offsets(group, [partition], stable=True)
            if not found.unstable:
                return found.committed.get(partition)
            if time.monotonic() >= deadline:
                return self.offsets(group, [partition]).committed.get(partition)
            time.sleep(_SETTLING_STEP_S)

    def set_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commit these offsets for a group without members. Raises BusError if it has any."""

        def ask(client: AdminClient) -> None:
            wanted = {TopicPartition(*partition): OffsetAndMetadata(at, "", -1) for partition, at in offsets.items()}
            for partition, error in client.alter_group_offsets(group, wanted).items():
                if error is not kafka_errors.NoError:
                    raise error(partition.topic)

        try:
            self._ask(f"set the offsets of group {group}", ask)
        except BusError as error:
            if isinstance(error.__cause__, kafka_errors.UnknownMemberIdError):
                raise BusError(
                    f"{location(self._options)}: group {group} has members; stop the workers first"
                ) from None
            raise

    # Groups.

    def client_ids(self, group: str) -> frozenset[str]:
        """Return the client ids of the group's members that the brokers consider alive."""

        def ask(client: AdminClient) -> frozenset[str]:
            return frozenset(member["client_id"] for member in client.group(group)["members"])

        return self._ask(f"list the members of group {group}", ask)

    def reachable(self, timeout_s: float) -> bool:
        """Return whether a broker answers within this time."""
        try:
            self._ask("ask the brokers", lambda client: client.describe_topics([]), timeout_s)
        except BusError:
            return False
        return True

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        self._discard()

    # Requests.

    def _ask(self, asked: str, ask: Callable[[AdminClient], T], timeout_s: float | None = None) -> T:
        """Send a request, and retry it on temporary errors: a leader or a coordinator that moves."""
        deadline = time.monotonic() + (self._options.request_timeout_s if timeout_s is None else timeout_s)
        while True:
            try:
                return ask(self._connected(asked, deadline, explain=timeout_s is None))
            except BusError:
                raise
            except Exception as error:
                # The metadata that kafka-python has cached may be the cause.
                self._discard()
                raised = explained(error, asked, self._options)
                if not isinstance(raised, BusUnavailable) or time.monotonic() + _RETRY_S >= deadline:
                    raise raised from error
            time.sleep(_RETRY_S)

    def _connected(self, asked: str, deadline: float, *, explain: bool) -> AdminClient:
        with self._connecting:
            with self._lock:
                if self._closed:
                    raise self._shut(asked)
                if self._client is not None:
                    return self._client
            settings = kafka_python(self._options)
            settings["bootstrap_timeout_ms"] = milliseconds(max(_RETRY_S, deadline - time.monotonic()))
            try:
                client = connected(AdminClient, settings)
            except Exception as error:
                say = unreachable if explain else explained
                raise say(error, asked, self._options) from error
            if self._keep(client):
                return client
        client.close()
        raise self._shut(asked)

    def _keep(self, client: AdminClient) -> bool:
        with self._lock:
            if not self._closed:
                self._client = client
            return not self._closed

    def _shut(self, asked: str) -> BusError:
        return BusError(f"{location(self._options)}: cannot {asked}: the bus is closed")

    def _discard(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()
