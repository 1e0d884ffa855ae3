"""The transactions of a member, and their outcomes.

A transaction whose end was requested but not answered may be committed or not. The next use of the transactional id
finds out: taking the id again completes or aborts the open transaction. Then the group's offsets either have the
metadata of this transaction or not.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.bus import BusUnavailable
from laggard.pipeline.core.bus.kafka.client import Offset
from laggard.pipeline.core.bus.kafka.errors import Displaced, Unresolved, location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.pipeline.core.bus import Commit, Partition
    from laggard.pipeline.core.bus.kafka.client import Client, Membership, Transactions
    from laggard.pipeline.core.bus.kafka.group_admin import GroupAdmin
    from laggard.pipeline.core.bus.kafka.options import KafkaOptions
    from laggard.pipeline.core.bus.kafka.wire import Raw

SLOWEST_BYTES_PER_S: Final = 4e6
"""The least throughput of brokers that the time limit of a large transaction allows for."""


def owner_of(metadata: str) -> str:
    """Return the transactional id that committed an offset with this metadata."""
    return metadata.partition(" ")[0]


class Commits:
    """The transactions of one member of a group; for one thread at a time.

    Args:
        options: the time limits.
        client: opens transactions.
        groups: reads the group's offsets.
        group: the group.
        identity: the transactional id.

    Attributes:
        identity: the transactional id; it is the first word of the metadata of each committed offset.
        session: the number of times that the id was taken. Another member's claim fences one session, not the next.

    """

    def __init__(self, options: KafkaOptions, client: Client, groups: GroupAdmin, group: str, identity: str) -> None:
        self.identity = identity
        self._options = options
        self._client = client
        self._groups = groups
        self._group = group
        self.session = 0
        self._texts: dict[Partition, str] = {}  # the metadata of the last offset that was committed here
        self._open: Transactions | None = None
        self._unresolved: tuple[str, frozenset[Partition]] | None = None

    @property
    def unresolved(self) -> bool:
        """Whether the outcome of the last transaction is unknown."""
        return self._unresolved is not None

    def resolve(self) -> bool:
        """Find and return whether the last transaction was committed.

        Raises BusUnavailable if this cannot be found out now.
        """
        if self._unresolved is None:
            raise AssertionError("every outcome is known")
        text, partitions = self._unresolved
        self.take()
        committed = self._groups.offsets(self._group, partitions).committed
        self._unresolved = None
        found = any(offset.metadata == text for offset in committed.values())
        if found:
            self._texts |= dict.fromkeys(partitions, text)
        return found

    def run(self, records: Sequence[Raw], offsets: Mapping[Partition, int], membership: Membership) -> None:
        """Commit all of it in one transaction; when it returns, it is committed.

        Raises:
            Outdated, Displaced: as `Transactions.run` does.
            BusUnavailable: not committed; or unknown, then `unresolved` is set.
            BusError: not committed.

        """
        transactions = self.take()
        size = sum(record.size for record in records)
        text = f"{self.identity} {uuid.uuid4().hex}"
        try:
            transactions.run(
                records,
                {partition: Offset(offset, text) for partition, offset in offsets.items()},
                self._group,
                membership,
                min(self._options.transaction_timeout_s, self._options.request_timeout_s + size / SLOWEST_BYTES_PER_S),
            )
        except Unresolved as error:
            self._drop()
            self._unresolved = (text, frozenset(offsets))
            if self.resolve():
                return
            raise BusUnavailable(
                f"{location(self._options)}: a transaction of group {self._group} was not committed: {error}"
            ) from error
        except Displaced:
            self._drop()
            raise
        except Exception:
            if transactions.broken:
                self._drop()
            raise
        self._texts |= dict.fromkeys(offsets, text)

    def is_last(self, partition: Partition, offset: Offset) -> bool:
        """Return whether this is the last offset that was committed here, without a later one of another member."""
        return offset.metadata == self._texts.get(partition)

    def fence(self, identity: str) -> None:
        """Take over another member's transactional id, for good: its open transaction is aborted."""
        self._client.transactions(identity).close()

    def take(self) -> Transactions:
        """Take the transactional id if it is not taken: its earlier owner is fenced, its open transaction ended."""
        if self._open is None:
            self._open = self._client.transactions(self.identity)
            self.session += 1
        return self._open

    def _drop(self) -> None:
        transactions, self._open = self._open, None
        if transactions is not None:
            transactions.close()

    def close(self) -> None:
        """Close everything."""
        with suppress(Exception):
            self._drop()


def is_rest(commit: Commit, ended: Commit) -> bool:
    """Return whether this is the commit that has ended, or the rest of it after some of its partitions were lost."""
    if not commit.offsets:
        return commit == ended
    return commit.offsets.items() <= ended.offsets.items()
