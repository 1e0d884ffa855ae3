"""Requests to the brokers on consumer groups: their offsets, members and rights."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import OffsetAndMetadata

from laggard.pipeline.core.bus import BusError, BusUnavailable
from laggard.pipeline.core.bus.kafka.errors import location
from laggard.pipeline.core.bus.kafka.topic_admin import SETTLING_S, SETTLING_STEP_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.bus.kafka.broker_requests import BrokerRequests
    from laggard.pipeline.core.bus.kafka.client import Offset
    from laggard.pipeline.core.bus.kafka.kafka_python_admin import AdminClient, Offsets


class GroupAdmin:
    """Returns the offsets, members and rights of groups, and sets offsets.

    Errors are those of `BrokerRequests`.
    """

    def __init__(self, requests: BrokerRequests) -> None:
        self._requests = requests
        self._options = requests.options

    def offsets(self, group: str, partitions: Iterable[Partition], *, stable: bool = False) -> Offsets:
        """Return the group's committed offsets; with `stable`, without those that an open transaction may change."""
        wanted = list(partitions)
        return self._requests.send(
            f"read the offsets of group {group}", lambda client: client.committed(group, wanted, stable)
        )

    def settled_offset(self, group: str, partition: Partition) -> Offset | None:
        """Return the group's committed offset, after commits in progress; None without one."""
        deadline = time.monotonic() + SETTLING_S
        while True:
            found = self.offsets(group, [partition], stable=True)
            if not found.unstable:
                return found.committed.get(partition)
            if time.monotonic() >= deadline:
                return self.offsets(group, [partition]).committed.get(partition)
            time.sleep(SETTLING_STEP_S)

    def set_offsets(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commit these offsets for a group without members. Raises BusError if it has any."""

        def ask(client: AdminClient) -> None:
            wanted = {TopicPartition(*partition): OffsetAndMetadata(at, "", -1) for partition, at in offsets.items()}
            for partition, error in client.alter_group_offsets(group, wanted).items():
                if error is not kafka_errors.NoError:
                    raise error(partition.topic)

        try:
            self._requests.send(f"set the offsets of group {group}", ask)
        except BusError as error:
            if isinstance(error.__cause__, kafka_errors.UnknownMemberIdError):
                raise BusError(
                    f"{location(self._options)}: group {group} has members; stop the workers first"
                ) from None
            raise

    def client_ids(self, group: str) -> frozenset[str]:
        """Return the client ids of the group's members that the brokers consider alive."""

        def ask(client: AdminClient) -> frozenset[str]:
            return frozenset(member["client_id"] for member in client.group(group)["members"])

        return self._requests.send(f"list the members of group {group}", ask)

    def group_operations(self, group: str) -> frozenset[str] | None:
        """Return this user's operations on the group: none if that is hidden, None without a group."""

        def ask(client: AdminClient) -> frozenset[str] | None:
            found = client.group(group)
            operations = found.get("authorized_operations")
            return None if found["error"] is not None or not operations else frozenset(operations)

        try:
            return self._requests.send(f"ask for the rights to group {group}", ask)
        except BusUnavailable:
            raise
        except BusError:
            return frozenset()
