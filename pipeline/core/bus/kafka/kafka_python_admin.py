"""kafka-python's admin client, with additions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.consumer import IsolationLevel, OffsetFetchRequest

from laggard.pipeline.core.bus import Partition
from laggard.pipeline.core.bus.kafka.client import Offset
from laggard.pipeline.core.bus.kafka.topics import FoundTopic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DEAD: Final = {"Dead", "Empty"}


class Offsets(NamedTuple):
    """A group's committed offsets.

    Attributes:
        committed: the offsets of partitions with one.
        unstable: partitions with another offset in an open transaction.

    """

    committed: Mapping[Partition, Offset]
    unstable: frozenset[Partition]


class AdminClient(KafkaAdminClient):  # type: ignore[misc] # kafka-python has no types
    """kafka-python's admin client, with stable offsets, and without errors for existing topics and missing groups."""

    def create(self, topics: Mapping[str, Any]) -> None:
        """Create topics. One that another process creates at the same time is no error."""
        response = self.create_topics(dict(topics), raise_errors=False)
        for topic in response["topics"]:
            error = kafka_errors.for_code(topic["error_code"])
            if error not in (kafka_errors.NoError, kafka_errors.TopicAlreadyExistsError):
                raise error(topic["name"], topic.get("error_message") or "")

    def found(self, names: Sequence[str]) -> dict[str, FoundTopic | None]:
        """Return topics as they are; None for hidden ones. Missing ones are left out."""
        described = self.describe_topics(list(names))
        hidden = kafka_errors.TopicAuthorizationFailedError.errno
        known = [topic for topic in described if topic["error_code"] == 0]
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic["name"]) for topic in known]
        configs = {}
        for name, found in self.describe_configs(resources, config_filter="all").get("topic", {}).items():
            configs[name] = {key: config["value"] for key, config in found.items() if config["value"] is not None}
        return {topic["name"]: None for topic in described if topic["error_code"] == hidden} | {
            topic["name"]: FoundTopic(
                len(topic["partitions"]),
                min(len(partition["replica_nodes"]) for partition in topic["partitions"]),
                min(len(partition["isr_nodes"]) for partition in topic["partitions"]),
                sum(partition["leader_id"] < 0 for partition in topic["partitions"]),
                configs.get(topic["name"], {}),
            )
            for topic in known
        }

    def group(self, name: str) -> Mapping[str, Any]:
        """Return a group; a dead or missing one has an `error`, too."""
        found: Mapping[str, Any] = self.describe_groups([name])[name]
        if found["error"] is not None and found["group_state"] not in _DEAD:
            raise _error_of(found["error"])
        return found

    def offsets_of(
        self, specs: Mapping[TopicPartition, int], *, committed: bool = True
    ) -> Mapping[TopicPartition, Any]:
        """Return offsets of committed records, or of all written ones."""
        return self.list_partition_offsets(  # type: ignore[no-any-return]
            dict(specs),
            isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED,
            timeout_ms=self.config["request_timeout_ms"],
        )

    def committed(self, group: str, partitions: Sequence[Partition], stable: bool) -> Offsets:
        """Return the group's committed offsets."""
        return self._manager.run(self._committed, group, partitions, stable)  # type: ignore[no-any-return]

    async def _committed(self, group: str, partitions: Sequence[Partition], stable: bool) -> Offsets:
        group_request = OffsetFetchRequest.OffsetFetchRequestGroup
        numbers: dict[str, list[int]] = {}
        for partition in partitions:
            numbers.setdefault(partition.topic, []).append(partition.number)
        topics = [
            group_request.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
            for topic, indexes in numbers.items()
        ]
        plain = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in numbers.items()
        ]
        request = OffsetFetchRequest(
            group_id=group,
            topics=plain,
            groups=[group_request(group_id=group, topics=topics)],
            require_stable=stable,
            min_version=7,
            max_version=8,
        )
        coordinator = await self._find_coordinator_id(group)
        answer = await self._manager.send(request, node_id=coordinator)
        # From version 8 on the answer has several groups.
        answer = answer.groups[0] if answer.API_VERSION >= 8 else answer
        _raise_for(answer.error_code, group)
        committed, unstable = {}, set()
        for topic in answer.topics:
            for found in topic.partitions:
                partition = Partition(topic.name, found.partition_index)
                if found.error_code == kafka_errors.UnstableOffsetCommitError.errno:
                    unstable.add(partition)
                    continue
                _raise_for(found.error_code, topic.name)
                if found.committed_offset >= 0:
                    # confluent-kafka ends the text with a zero byte.
                    text = (found.metadata or "").removesuffix("\0")
                    committed[partition] = Offset(found.committed_offset, text)
        return Offsets(committed, frozenset(unstable))


def _error_of(text: str) -> Exception:
    """Return the error that kafka-python reports as text: `[Error 16] NotCoordinatorError: None`."""
    code = re.match(r"\[Error (\d+)\]", text)
    error: Exception = kafka_errors.for_code(int(code[1]))(text) if code else kafka_errors.KafkaError(text)
    return error


def _raise_for(code: int, about: str) -> None:
    error = kafka_errors.for_code(code)
    if error is not kafka_errors.NoError:
        raise error(about)
