"""The seam between the bus and a Kafka client: what a member of a group, its transactions and a reader do.

Everything above it is common code: partitioning, claims, fencing, what to do after which error. A client raises
`BusUnavailable` and `BusError` with the bus's words (`errors.explained`), `DamagedRecord`, and where it is said the
three outcomes of `errors`. Each object is used by one thread at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from laggard.pipeline.bus import Incoming, Partition, Polled
    from laggard.pipeline.bus.kafka.wire import Raw


class Offset(NamedTuple):
    """A committed offset with the text that was committed beside it."""

    offset: int
    metadata: str = ""


class Membership(NamedTuple):
    """That a member has joined, as transactions prove it to the group's coordinator.

    Attributes:
        generation: another one after each rebalance that the member took part in.
        member: the id that the group gave it; another one if it was taken out of the group meanwhile.
        token: what the client itself needs.

    """

    generation: Hashable
    member: str
    token: object


class Member(Protocol):
    """One member of a group, with the assignor cooperative-sticky, read_committed and no commits of its own."""

    def poll(self, timeout_s: float, max_records: int) -> Polled:
        """Wait at most so long for news or records; both may come at once, and none when there is no broker.

        Partitions that are new are paused and have no position until `seek` and `resume`. One that was lost is revoked.
        One that is kept goes on bringing records while the group rebalances. Raises DamagedRecord once for what cannot
        be parsed, and goes on after it.
        """

    def news(self) -> Polled:
        """What rebalances gave and took since the last call of this or of `poll`, without waiting and without records.

        Asked after `membership`, it tells of every loss before the generation that was given.
        """

    def position(self, partition: Partition) -> int | None:
        """Where it goes on after what `poll` has returned, behind markers of transactions; None if not known."""

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at this offset, or at the oldest record where it is gone. Only for partitions of its own."""

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Bring no records of these; those that are not its own are passed over."""

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Bring records of these again, likewise."""

    def membership(self) -> Membership | None:
        """The membership now, None while there is none or a rebalance has not ended.

        Never one without a generation: the coordinator takes offsets that come without one from anybody.
        """

    def close(self) -> None:
        """Leave the group, and give everything back; waits a few seconds at most and raises nothing."""


class Transactions(Protocol):
    """One transactional id, initialised: whoever had it before is fenced, and what it had open is aborted."""

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
        """Commit records and offsets in one transaction; when it returns, both are.

        `timeout_s` is for sending them; the end of the transaction is waited for as for any answer.

        Raises:
            Outdated: the group does not know the membership any more. Nothing was committed.
            Displaced: another one has the id now. Nothing more will be committed.
            Unresolved: the end was asked for, but nobody said whether it came.
            BusUnavailable: nothing was committed; try again.
            BusError: nothing was committed; a record or an offset was refused for good.

        """

    def close(self) -> None:
        """Give everything back without waiting for what is open; raises nothing."""


class Reader(Protocol):
    """Reads partitions outside of any group, read_committed."""

    def fetch(self, partition: Partition, position: int, timeout_s: float) -> tuple[Sequence[Incoming], int]:
        """Records from this position on, and the position after them.

        The position moves also over what is no record: markers of transactions, what was aborted or compacted away.
        Nothing and the same position when there is nothing within the time. Where the position is older than the oldest
        record, reading begins there. Raises DamagedRecord.
        """

    def rest(self) -> None:
        """Fetch nothing until the next call of `fetch`; raises nothing."""

    def close(self) -> None:
        """Give everything back; raises nothing."""


class Client(Protocol):
    """A Kafka client. What it opens waits for a broker, and raises BusUnavailable after a few seconds without one."""

    def join(self, group: str, topics: Sequence[str], client_id: str) -> Member:
        """Become a member, known to the brokers by this client id."""

    def transactions(self, transactional_id: str) -> Transactions:
        """Take the transactional id: fences whoever has it, and waits until what it had open is ended."""

    def reader(self) -> Reader:
        """Open a reader."""
