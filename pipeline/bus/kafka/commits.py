"""A member's transactions, and what is known of their outcomes.

A transaction whose end was asked for but not answered may be committed or not. The next thing that the member does
with its transactional id finds out: taking the id anew completes or aborts what was open, and then the group's offsets
either carry the text of that very transaction or they do not.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from laggard.pipeline.bus import BusUnavailable
from laggard.pipeline.bus.kafka.client import Offset
from laggard.pipeline.bus.kafka.errors import Displaced, Unresolved, location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.pipeline.bus import Partition
    from laggard.pipeline.bus.kafka.admin import Admin
    from laggard.pipeline.bus.kafka.client import Client, Membership, Transactions
    from laggard.pipeline.bus.kafka.options import KafkaOptions
    from laggard.pipeline.bus.kafka.wire import Raw

SLOWEST_BYTES_PER_S: Final = 4e6
"""A large transaction is given more time than a small one, down to brokers that take so little."""


def owner_of(metadata: str) -> str:
    """The transactional id that committed an offset with this text."""
    return metadata.partition(" ")[0]


class Commits:
    """The transactions of one member of a group; for one thread at a time.

    Args:
        options: how long things may take.
        client: opens transactions.
        admin: reads the group's offsets.
        group: the group.
        identity: the transactional id.

    Attributes:
        identity: the transactional id; it is the first word of the text beside each offset that is committed.
        session: how often the transactional id was taken. Another member's claim fences one session, not the next.

    """

    def __init__(self, options: KafkaOptions, client: Client, admin: Admin, group: str, identity: str) -> None:
        self.identity = identity
        self._options = options
        self._client = client
        self._admin = admin
        self._group = group
        self.session = 0
        self._texts: dict[Partition, str] = {}  # beside the last offset that was committed here
        self._open: Transactions | None = None
        self._unresolved: tuple[str, frozenset[Partition]] | None = None

    @property
    def unresolved(self) -> bool:
        """Whether the outcome of the last transaction is not known."""
        return self._unresolved is not None

    def resolve(self) -> bool:
        """Find the outcome of the last transaction: whether it was committed.

        Raises BusUnavailable when it cannot be found out for now.
        """
        if self._unresolved is None:
            raise AssertionError("every outcome is known")
        text, partitions = self._unresolved
        self.take()
        committed = self._admin.offsets(self._group, partitions).committed
        self._unresolved = None
        found = any(offset.metadata == text for offset in committed.values())
        if found:
            self._texts |= dict.fromkeys(partitions, text)
        return found

    def run(self, records: Sequence[Raw], offsets: Mapping[Partition, int], membership: Membership) -> None:
        """Commit all of it in one transaction; when it returns, it is.

        Raises:
            Outdated, Displaced: as `Transactions.run` does.
            BusUnavailable: not committed; or not known for now, then `unresolved` is set.
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
        """Whether this is what was committed here last, so that nobody else has committed since."""
        return offset.metadata == self._texts.get(partition)

    def fence(self, identity: str) -> None:
        """Take another member's transactional id from it, for good: what it has open is aborted."""
        self._client.transactions(identity).close()

    def take(self) -> Transactions:
        """Hold the transactional id: whoever had it before is fenced, what was open under it is ended."""
        if self._open is None:
            self._open = self._client.transactions(self.identity)
            self.session += 1
        return self._open

    def _drop(self) -> None:
        transactions, self._open = self._open, None
        if transactions is not None:
            transactions.close()

    def close(self) -> None:
        """Give everything back."""
        with suppress(Exception):
            self._drop()
