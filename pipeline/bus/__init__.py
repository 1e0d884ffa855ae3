"""The contract of a bus: what both the embedded one and Kafka can do, and nothing that only one of them can.

A topic has partitions; a partition is a log of records with growing offsets; all records of one key are in one
partition, in the order they were appended. A *group* is one operator's readers: each partition is read by one member
at a time. A commit is one transaction of outputs, snapshots and input offsets: all of it, or none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType


class BusError(Exception):
    """A bus could not do what was asked; the message says which bus, what was asked and what to do."""


class BusUnavailable(BusError):  # noqa: N818 - named for what it says
    """For now: locked, full or unreachable. Nothing was changed; the same call may succeed later."""


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int


class Fenced(BusError):  # noqa: N818 - the field's word
    """Another member owns the partitions or has committed since: this member's work on them since its commit is void.

    Attributes:
        partitions: which of the commit's; of the others the same commit may be tried again without them. None: all.

    """

    def __init__(self, reason: str, partitions: frozenset[Partition] | None = None) -> None:
        super().__init__(reason)
        self.partitions = partitions


class DamagedRecord(BusError):  # noqa: N818 - named for what it is
    """A stored record that no longer is what was appended. A poll tells it once and goes on after it.

    Attributes:
        partition: where it is.
        offset: its place there.

    """

    def __init__(self, partition: Partition, offset: int, reason: str) -> None:
        super().__init__(f"{partition.topic}[{partition.number}]@{offset} is damaged: {reason}")
        self.partition = partition
        self.offset = offset


class DamagedSnapshot(BusError):  # noqa: N818 - named for what it is
    """A stored snapshot that no longer is what was saved; the message says which."""


class Refused(BusError):  # noqa: N818 - the field's word
    """A record itself will never be taken, on whatever day: it is too large, or its key or time is none.

    Of several records at once, one at least is so, and nothing is committed; a bus on the network may have appended
    others of them already.
    """


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as laggard wants it.

    `retention_s` bounds the age of records, None for ever; `compacted` keeps at least the newest record of each key.
    """

    name: str
    partitions: int = 1
    retention_s: float | None = None
    compacted: bool = False


class Null(bytes):
    """No value, as a broker may have it: not the same as one without any bytes. It compares like that one."""

    __slots__ = ()


NULL: Final = Null()

SNAPSHOTS: Final = "snapshots."
"""The topic of an operator's snapshots is named so, and then as the operator, on a bus that keeps them in a topic."""

MOST_AHEAD_S: Final = 3000.0
"""A record that is dated further ahead of this machine's clock is brought near; what it is about says its own time.

Brokers refuse what is dated an hour ahead of theirs (`message.timestamp.after.max.ms`).
"""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to append. `ts` is the event's time, seconds since the Unix epoch, and what `offset_at` searches."""

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
    record that is.
    """

    operator: str
    partition: Partition
    key: str
    offset: int
    ts: float
    value: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """One transaction: the input is read up to `offsets` (exclusive), this came out of it, these are the states."""

    offsets: Mapping[Partition, int]
    outputs: Sequence[Outgoing] = ()
    snapshots: Sequence[Snapshot] = ()


@dataclass(frozen=True, slots=True)
class Polled:
    """What a poll brought: first partitions that are gone, then partitions that are new, then records."""

    revoked: frozenset[Partition] = frozenset()
    assigned: frozenset[Partition] = frozenset()
    records: Sequence[Incoming] = field(default_factory=tuple)


class Subscription(ABC):
    """One member of a group."""

    @abstractmethod
    def poll(self, timeout_s: float, max_records: int = 500) -> Polled:
        """Wait at most `timeout_s` for news.

        Records of a partition come in order, from the position that `seek` set (after an assignment: the committed
        offset, or the beginning). A call now and then keeps the membership alive. A poll that revokes or assigns
        partitions brings no records and does not wait, so that what it tells can be acted on, and `seek` called, first.
        """

    @abstractmethod
    def seek(self, partition: Partition, offset: int) -> None:
        """Read on from this offset, or from the oldest record where it has been deleted already."""

    @abstractmethod
    def pause(self, partition: Partition) -> None:
        """Bring no records of this partition until `resume`; `poll` goes on keeping the membership alive."""

    @abstractmethod
    def resume(self, partition: Partition) -> None:
        """Bring records of this partition again, from where it was paused or from where `seek` went meanwhile."""

    @abstractmethod
    def committed(self, partition: Partition) -> int:
        """The group's committed offset: the first one not yet processed; 0 where nothing was committed."""

    @abstractmethod
    def commit(self, commit: Commit) -> None:
        """Commit all of it in one transaction, or nothing.

        Raises:
            Fenced: partitions are not this member's any more; drop their states and go on polling.
            BusUnavailable: nothing was committed; the same commit may be tried again.

        """

    def position(self, partition: Partition) -> int | None:  # noqa: ARG002 - elsewhere there are records only
        """Where it reads on, behind what is no record; None where that is not known, or is the last record's end."""
        return None

    @property
    def joined(self) -> bool:
        """Whether the group has told this member what is its own, be it nothing: so far it has been asked only."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""


class Bus(ABC):
    """A set of topics. Safe to use from several threads; several processes may open the same one."""

    knows_keys: ClassVar[bool] = True
    """Whether `keys` answers without reading the topic."""

    @abstractmethod
    def create(self, topics: Iterable[TopicSpec]) -> None:
        """Create what is missing. What is there already stays as it is."""

    def require(self, topics: Iterable[str], operators: Iterable[str]) -> None:  # noqa: ARG002 - kept beside topics here
        """Raise BusError unless there are these topics, and places for these operators' snapshots.

        For whoever is about to commit to them: later it would be in the middle of the work.
        """
        for topic in topics:
            self.partitions(topic)

    @abstractmethod
    def append(self, records: Sequence[Outgoing]) -> None:
        """Append in order. When it returns, they survive a crash of this process.

        Raises BusUnavailable when it could not for now. A bus on the network cannot always know whether they arrived:
        appended again they may be there twice, and readers tell the second by its sequence number. What raises another
        BusError has appended nothing. Raises Refused for a record that no trying again helps.
        """

    @abstractmethod
    def partitions(self, topic: str) -> Sequence[Partition]:
        """All partitions of a topic. Raises BusError for one that does not exist."""

    @abstractmethod
    def partition_of(self, topic: str, key: str) -> Partition:
        """Where the records of this key are."""

    @abstractmethod
    def bounds(self, partition: Partition) -> tuple[int, int]:
        """The oldest offset still there and the one that the next record will get."""

    def all_bounds(self, partitions: Collection[Partition]) -> Mapping[Partition, tuple[int, int]]:
        """The bounds of several partitions."""
        return {partition: self.bounds(partition) for partition in partitions}

    @abstractmethod
    def offset_at(self, partition: Partition, ts: float) -> int:
        """The first offset whose record has this time or a later one; the end where there is none."""

    @abstractmethod
    def read(
        self, partition: Partition, start: int, stop: int | None = None, key: str | None = None
    ) -> Iterator[Incoming]:
        """Records from `start` (inclusive) to `stop` (exclusive, default: the end now), outside of any group.

        With `key` only the records of that key.
        """

    @abstractmethod
    def keys(self, topic: str) -> Sequence[str]:
        """The keys of the records that are still there, sorted."""

    @abstractmethod
    def subscribe(self, group: str, topics: Sequence[str]) -> Subscription:
        """Become a member of the group."""

    @abstractmethod
    def committed(self, group: str, partition: Partition) -> int:
        """The offset that the group has committed, 0 where there is none."""

    @abstractmethod
    def snapshots(self, operator: str, partition: Partition, at_or_before: int | None = None) -> Sequence[Snapshot]:
        """The newest snapshot of each key; with `at_or_before` the newest whose offset is not beyond that.

        A bus that keeps only the newest may answer a question about the past with nothing. Raises DamagedSnapshot or
        DamagedRecord for what cannot be read any more.
        """

    def snapshot_offsets(self, operator: str, partition: Partition) -> Mapping[str, int]:
        """By key, the offset of the newest snapshot: for whoever asks again and again and needs no state."""
        return {snapshot.key: snapshot.offset for snapshot in self.snapshots(operator, partition)}

    @abstractmethod
    def reset(
        self,
        group: str,
        operators: Sequence[str],
        offsets: Mapping[Partition, int],
        snapshots: Sequence[Snapshot] = (),
    ) -> None:
        """Let a group begin anew: forget these operators' snapshots of the partitions, then set the group's offsets.

        Where snapshots are given, which are of those partitions and operators, they are there instead of the old ones.

        Nobody may be working on them. A bus that knows its members refuses with BusError while there are some; on one
        that does not, those that there are will find themselves fenced.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back what was opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
