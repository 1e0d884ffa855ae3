"""The contract of a bus: the operations that both the embedded one and Kafka support.

A topic has partitions. A partition is a log of records with growing offsets. All records of one key are in one
partition, in the order they were appended. A *group* is the readers of one or more operators: one member at a time
reads a partition. A commit is one transaction of outputs, snapshots and input offsets: all of it, or none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType


class BusError(Exception):
    """An operation of a bus failed; the message has the bus, the operation and what to do."""


class BusUnavailable(BusError):  # noqa: N818 - named for what it says
    """The bus is locked, full or unreachable. Nothing was changed; the same call may succeed later."""


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int


class Fenced(BusError):  # noqa: N818 - the field's word
    """Another member owns the partitions or has committed since: this member's work on them since its commit is void.

    Attributes:
        partitions: the fenced ones, without which the same commit may be retried; None for all.

    """

    def __init__(self, reason: str, partitions: frozenset[Partition] | None = None) -> None:
        super().__init__(reason)
        self.partitions = partitions


class DamagedRecord(BusError):  # noqa: N818 - named for what it is
    """A stored record that differs from the appended one. A poll raises it once and continues after it.

    Attributes:
        partition: its partition.
        offset: its offset.

    """

    def __init__(self, partition: Partition, offset: int, reason: str) -> None:
        super().__init__(f"{partition.topic}[{partition.number}]@{offset} is damaged: {reason}")
        self.partition = partition
        self.offset = offset


class DamagedSnapshot(BusError):  # noqa: N818 - named for what it is
    """A stored snapshot that differs from the saved one; the message says which."""


class Refused(BusError):  # noqa: N818 - the field's word
    """A record that is never accepted: it is too large, or its key or time is invalid.

    This applies to at least one of several records, and nothing is committed. A network bus may already have appended
    some of the others.
    """


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """The specification of a topic.

    `retention_s` bounds the age of records, None for no bound. `compacted` keeps at least the newest one of each key.
    """

    name: str
    partitions: int = 1
    retention_s: float | None = None
    compacted: bool = False


class Null(bytes):
    """A missing value, as brokers may have: it differs from an empty one, but compares equal to it."""

    __slots__ = ()


NULL: Final = Null()

DEFAULT_RETENTION_S: Final = 48 * 3600.0
"""The default retention of an embedded bus, in seconds; topics may have their own."""

SNAPSHOTS: Final = "snapshots."
"""The part before the operator in the name of the topic of its snapshots, on a bus that stores them in a topic."""

MOST_AHEAD_S: Final = 3000.0
"""The most seconds that a record may be dated ahead of this machine's clock. More are reduced to that; the content has
its own time.

Brokers reject records that are dated an hour ahead of their clock (`message.timestamp.after.max.ms`).
"""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to append. `ts` is the event's time, seconds since the Unix epoch, which `offset_at` searches."""

    topic: str
    key: str
    value: bytes
    ts: float
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Incoming:
    """A record as read."""

    partition: Partition
    offset: int
    key: str
    value: bytes
    ts: float
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An operator's state of one key at an input position.

    `offset` is the first input offset that is *not* in the state: replay starts there. `ts` is the time of the last
    record in it.
    """

    operator: str
    partition: Partition
    key: str
    offset: int
    ts: float
    value: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction: the processed input up to `offsets` (exclusive), its outputs, and the states."""

    offsets: Mapping[Partition, int]
    outputs: Sequence[Outgoing] = ()
    snapshots: Sequence[Snapshot] = ()


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of a poll: first revoked partitions, then assigned ones, then records."""

    revoked: frozenset[Partition] = frozenset()
    assigned: frozenset[Partition] = frozenset()
    records: Sequence[Incoming] = field(default_factory=tuple)


class Subscription(ABC):
    """One member of a group."""

    @abstractmethod
    def poll(self, timeout_s: float, max_records: int = 500) -> Polled:
        """Wait at most `timeout_s` for records or changes of the assignment.

        Records of a partition come in order, from the position that `seek` set (after an assignment: the committed
        offset, or the beginning). Regular calls keep the membership alive. A poll that revokes or assigns partitions
        returns no records and does not wait, so that the caller can handle the change, and `seek`, first.
        """

    @abstractmethod
    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at this offset, or at the oldest record if it was deleted."""

    @abstractmethod
    def pause(self, partition: Partition) -> None:
        """Return no records of this partition until `resume`; `poll` still keeps the membership alive."""

    @abstractmethod
    def resume(self, partition: Partition) -> None:
        """Return records of this partition again, from where it was paused, or from a later `seek`."""

    @abstractmethod
    def committed(self, partition: Partition) -> int:
        """Return the group's committed offset, the first unprocessed one; before any commit 0 or the oldest one."""

    @abstractmethod
    def commit(self, commit: Commit) -> None:
        """Commit all of it in one transaction, or nothing.

        Raises:
            Fenced: partitions are not this member's any more; drop their states and continue to poll.
            BusUnavailable: nothing was committed; the same commit may be retried.

        """

    def position(self, partition: Partition) -> int | None:  # noqa: ARG002 - other logs contain only records
        """Return the read position after items that are not records; None if unknown, or just after the last record."""
        return None

    @property
    def joined(self) -> bool:
        """Whether the group has assigned this member its partitions, possibly none."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""


class Bus(ABC):
    """A set of topics. Safe to use from several threads; several processes may open the same one."""

    knows_keys: ClassVar[bool] = True
    """Whether `keys` works without reading the topic."""

    @abstractmethod
    def create(self, topics: Iterable[TopicSpec]) -> None:
        """Create missing topics. Existing ones do not change."""

    def require(self, topics: Iterable[str], operators: Iterable[str]) -> None:  # noqa: ARG002 - no topics here
        """Raise BusError unless there are these topics, and places for these operators' snapshots.

        It is called before the first commit, which would otherwise fail in the middle of the work.
        """
        for topic in topics:
            self.partitions(topic)

    @abstractmethod
    def append(self, records: Sequence[Outgoing]) -> None:
        """Append in order. When it returns, the records survive a crash of this process.

        Raises BusUnavailable for a temporary failure. A network bus cannot always know whether the records arrived. If
        they are appended again, there may be duplicates, which readers detect by the sequence number. After another
        BusError nothing was appended; a network bus may have appended some of several records. Raises Refused for a
        record that no retry helps.
        """

    @abstractmethod
    def partitions(self, topic: str) -> Sequence[Partition]:
        """Return all partitions of a topic. Raises BusError for one that does not exist."""

    @abstractmethod
    def partition_of(self, topic: str, key: str) -> Partition:
        """Return the partition of this key's records."""

    @abstractmethod
    def bounds(self, partition: Partition) -> tuple[int, int]:
        """Return the oldest available offset, and that of the next record."""

    def all_bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, int]]:
        """Return the bounds of several partitions."""
        return {partition: self.bounds(partition) for partition in partitions}

    @abstractmethod
    def offset_at(self, partition: Partition, ts: float) -> int:
        """Return the first offset whose record has this time or a later one; the end without one."""

    @abstractmethod
    def read(
        self, partition: Partition, start: int, stop: int | None = None, key: str | None = None
    ) -> Iterator[Incoming]:
        """Yield records from `start` (inclusive) to `stop` (exclusive, default: the end now), outside of any group.

        With `key` only the records of that key.
        """

    @abstractmethod
    def keys(self, topic: str) -> Sequence[str]:
        """Return the keys of the available records, sorted."""

    @abstractmethod
    def subscribe(self, group: str, topics: Sequence[str]) -> Subscription:
        """Become a member of the group."""

    @abstractmethod
    def committed(self, group: str, partition: Partition) -> int:
        """Return the offset that the group has committed, 0 without one."""

    @abstractmethod
    def snapshots(self, operator: str, partition: Partition, at_or_before: int | None = None) -> Sequence[Snapshot]:
        """Return the newest snapshot of each key; with `at_or_before`, the newest one with at most that offset.

        A bus that stores only the newest may return nothing for the past. Raises DamagedSnapshot or DamagedRecord for
        unreadable ones.
        """

    def snapshot_offsets(self, operator: str, partition: Partition) -> Mapping[str, int]:
        """Return the offset of the newest snapshot by key, for repeated checks that need no state."""
        return {snapshot.key: snapshot.offset for snapshot in self.snapshots(operator, partition)}

    @abstractmethod
    def reset(
        self,
        group: str,
        operators: Sequence[str],
        offsets: Mapping[Partition, int],
        snapshots: Sequence[Snapshot] = (),
    ) -> None:
        """Reset a group: delete these operators' snapshots of the partitions, then set the group's offsets.

        Given snapshots, of these partitions and operators, replace the old ones.

        No member may be working on them. A bus that knows its members raises BusError while there are any. On another
        bus they are fenced.
        """

    @abstractmethod
    def close(self) -> None:
        """Close everything that was opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
