"""The interface between the bus and a Kafka client: members of groups, their transactions, and readers.

Everything above it is common code: partitioning, claims, fencing, the handling of errors. A client raises
`BusUnavailable` and `BusError` in the bus's words (`errors.explained`), `DamagedRecord`, and where documented the three
outcomes of `errors`. Each object is for one thread at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from laggard.pipeline.core.bus import Incoming, Partition, Polled
    from laggard.pipeline.core.bus.kafka.wire import Raw


class Offset(NamedTuple):
    """A committed offset with its metadata, a text that was committed with it."""

    offset: int
    metadata: str = ""


class Membership(NamedTuple):
    """The membership of a member that has joined, which transactions prove to the group's coordinator.

    Attributes:
        generation: a different one after each rebalance of the member.
        member: the id that the group gave it; a different one after a removal from the group.
        token: the value that the client itself needs.

    """

    generation: Hashable
    member: str
    token: object


class Member(Protocol):
    """One member of a group, with the assignor cooperative-sticky, read_committed and no commits of its own."""

    def poll(self, timeout_s: float, max_records: int) -> Polled:
        """Wait at most `timeout_s` for changes or records; both may come at once, and none without a broker.

        New partitions are paused and have no position until `seek` and `resume`. Lost ones are revoked. Retained ones
        still return records during a rebalance. Raises DamagedRecord once for an unparseable record, and continues
        after it.
        """

    def news(self) -> Polled:
        """Return the changes of rebalances since the last call of this or of `poll`, without waiting or records.

        After a call of `membership`, it reports every loss before the returned generation.
        """

    def position(self, partition: Partition) -> int | None:
        """Return the position after the records that `poll` returned and markers of transactions; None if unknown."""

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at this offset, or at the oldest record if it was deleted. Only for its own partitions."""

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Return no records of these; partitions of others are ignored."""

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Return records of these again, likewise."""

    def membership(self) -> Membership | None:
        """Return the present membership; None without one, or before the end of a rebalance.

        It always has a generation: the coordinator accepts offsets without one from any client.
        """

    def close(self) -> None:
        """Leave the group, and close everything; waits a few seconds at most and raises nothing."""


class Transactions(Protocol):
    """One initialized transactional id: its previous owner is fenced, and the open transaction of that is aborted."""

    @property
    def broken(self) -> bool:
        """Whether it cannot begin another transaction: close it and open another one under the same id."""

    def run(
        self,
        records: Sequence[Raw],
        offsets: Mapping[Partition, Offset],
        group: str,
        membership: Membership,
        timeout_s: float,
    ) -> None:
        """Commit records and offsets in one transaction; when it returns, both are committed.

        `timeout_s` is for sending them; a client may wait for the end of the transaction for another request timeout.

        Raises:
            Outdated: the membership is not valid any more. Nothing was committed.
            Displaced: another producer has the id now. No further commit succeeds.
            Unresolved: the end was requested, but its outcome is unknown.
            BusUnavailable: nothing was committed; retry.
            BusError: nothing was committed; a record or an offset was rejected for good.

        """

    def close(self) -> None:
        """Close everything without waiting for an open transaction; raises nothing."""


class Reader(Protocol):
    """Reads partitions outside of any group, read_committed."""

    def fetch(self, partition: Partition, position: int, timeout_s: float) -> tuple[Sequence[Incoming], int]:
        """Return records from this position on, and the position after them.

        The position also moves past markers of transactions, and past aborted or compacted records. If nothing comes
        within the time, it returns nothing and the same position. If the position is older than the oldest record,
        reading begins there. Raises DamagedRecord.
        """

    def rest(self) -> None:
        """Fetch nothing until the next call of `fetch`; raises nothing."""

    def close(self) -> None:
        """Close everything; raises nothing."""


class Client(Protocol):
    """A Kafka client. Its methods wait for a broker, and raise BusUnavailable after a few seconds without one."""

    def join(self, group: str, topics: Sequence[str], client_id: str) -> Member:
        """Join a group, under this client id."""

    def transactions(self, transactional_id: str) -> Transactions:
        """Take over the transactional id: fence its owner, and wait until the open transaction of that has ended."""

    def reader(self) -> Reader:
        """Open a reader."""
