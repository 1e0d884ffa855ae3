"""A bus on which a test says who has which partition, and when a recovery may read on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import BusError, Fenced, Polled, Subscription
from tests.pipeline.core.engine.conftest import Refusing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Bus, Commit, Incoming, Partition


class SharedBus(Refusing):
    """Groups as Kafka has them, on an embedded bus: each partition is of the member that the test gives it to.

    Attributes:
        members: of all groups, in the order in which they came.
        replayed: how many records were read outside of a group, by partition.

    """

    def __init__(self, bus: Bus, share: float = 0.0, seed: int = 1) -> None:
        super().__init__(bus, share, seed)
        self.members: list[SharedSubscription] = []
        self.owners: dict[Partition, SharedSubscription | None] = {}
        self.replayed: Counter[Partition] = Counter()
        self.inner: Subscription | None = None
        self._gates: dict[Partition, threading.Event] = {}

    def give(self, partition: Partition, number: int | None) -> None:
        """Give a partition to the member of that number, or to none. Another member's part of it is void."""
        self.owners[partition] = None if number is None else self.members[number]

    def hold_up(self, partition: Partition) -> None:
        """Let no record of it be read outside of a group, until `let_go`."""
        self._gates[partition] = threading.Event()

    def let_go(self, partition: Partition) -> None:
        """Let them read again."""
        self._gates.pop(partition).set()

    def subscribe(self, group: str, topics: Sequence[str]) -> Subscription:
        self.may_refuse()
        if self.inner is None:
            self.inner = self._bus.subscribe(group, topics)
            self.inner.poll(0.0)
        self.members.append(SharedSubscription(self, self._bus))
        return self.members[-1]

    def read(
        self, partition: Partition, start: int, stop: int | None = None, key: str | None = None
    ) -> Iterator[Incoming]:
        for one in self._bus.read(partition, start, stop, key):
            if (gate := self._gates.get(partition)) is not None:
                gate.wait()
            self.may_refuse()
            self.replayed[partition] += 1
            yield one

    def snapshot_offsets(self, operator: str, partition: Partition) -> Mapping[str, int]:
        self.may_refuse()
        return self._bus.snapshot_offsets(operator, partition)


class SharedSubscription(Subscription):
    """One member.

    Attributes:
        polls: how often it polled.
        fences: for each commit to come, the partitions that it is told are not its own; see `Fenced`.

    """

    def __init__(self, shared: SharedBus, bus: Bus) -> None:
        self.polls = 0
        self.fences: list[frozenset[Partition] | None] = []
        self._shared = shared
        self._bus = bus
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()

    def poll(self, timeout_s: float, max_records: int = 500) -> Polled:
        self._shared.may_refuse()
        self.polls += 1
        mine = {partition for partition, owner in self._shared.owners.items() if owner is self}
        revoked, assigned = self._positions.keys() - mine, mine - self._positions.keys()
        if revoked or assigned:
            for partition in revoked:
                del self._positions[partition]
                self._paused.discard(partition)
            self._positions |= {partition: self.committed(partition) for partition in assigned}
            return Polled(frozenset(revoked), frozenset(assigned))
        records: list[Incoming] = []
        reading = sorted(self._positions.keys() - self._paused, reverse=self.polls % 2 == 0)
        for partition in reading:
            most = min(-(-max_records // len(reading)), max_records - len(records))
            records += islice(self._bus.read(partition, self._positions[partition]), most)
            if records and records[-1].partition == partition:
                self._positions[partition] = records[-1].offset + 1
        if not records:
            time.sleep(min(timeout_s, 0.002))
        return Polled(records=records)

    def seek(self, partition: Partition, offset: int) -> None:
        self._check(partition)
        self._positions[partition] = offset

    def pause(self, partition: Partition) -> None:
        self._check(partition)
        self._paused.add(partition)

    def resume(self, partition: Partition) -> None:
        self._check(partition)
        self._paused.discard(partition)

    def _check(self, partition: Partition) -> None:
        self._shared.may_refuse()
        if partition not in self._positions:
            raise BusError(f"{partition} is not assigned")

    def committed(self, partition: Partition) -> int:
        self._shared.may_refuse()
        assert self._shared.inner is not None
        return self._shared.inner.committed(partition)

    def commit(self, commit: Commit) -> None:
        self._shared.may_refuse()
        if self.fences:
            raise Fenced("another member has taken partitions over", self.fences.pop(0))
        owners = self._shared.owners
        if lost := frozenset(
            each for each in commit.offsets if owners[each] is not self or each not in self._positions
        ):
            raise Fenced("another member has taken partitions over", lost)
        assert self._shared.inner is not None
        self._shared.inner.commit(commit)

    def close(self) -> None:
        for partition, owner in self._shared.owners.items():
            if owner is self:
                self._shared.owners[partition] = None
        self._positions.clear()
