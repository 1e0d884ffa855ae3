"""The hosts whose records are on a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.core.engine.snapshots import BASE_KEY
from laggard.pipeline.history.rebuilding import LATELY
from laggard.pipeline.history.series import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Bus, Partition


class NothingRecordedError(Exception):
    """No host is recorded."""


class UnknownHostError(Exception):
    """Nothing is recorded of this host; `hosts` are the recorded ones."""

    def __init__(self, host: str, hosts: Sequence[str]) -> None:
        super().__init__(f"there are no records of host {host!r}")
        self.host = host
        self.hosts = hosts


class Hosts:
    """The recorded hosts.

    Parameters:
        bus: the bus.
        topic: the topic of their records.
        snapshots: the name of the operator's snapshots.

    """

    def __init__(self, bus: Bus, topic: str, snapshots: str) -> None:
        self._bus = bus
        self._topic = topic
        self._snapshots = snapshots

    def choose(self, wanted: str | None, default: str) -> str:
        """Return the wanted host; if none is wanted, the default one or the only one.

        Raises:
            NothingRecordedError: no host is recorded.
            UnknownHostError: nothing is recorded of this host.

        """
        host = default if wanted is None else wanted
        if self.knows(host):
            return host
        hosts = self.all()
        if not hosts:
            raise NothingRecordedError
        if wanted is None and len(hosts) == 1:
            return hosts[0]
        raise UnknownHostError(host, hosts)

    def knows(self, host: str) -> bool:
        """Return whether a host is recorded; see `all`."""
        if self._bus.knows_keys:
            return host in self._bus.keys(self._topic)
        partition = self._bus.partition_of(self._topic, host)
        return host in self._lately(partition) or host in self._saved(partition)

    def all(self) -> Sequence[str]:
        """Return the recorded hosts, sorted.

        If the bus would have to be read from its beginning: those in the newest records, and those with a snapshot.
        """
        if self._bus.knows_keys:
            return self._bus.keys(self._topic)
        partitions = self._bus.partitions(self._topic)
        return sorted(set().union(*(self._lately(each) | self._saved(each) for each in partitions)))

    def _lately(self, partition: Partition) -> set[str]:
        return {record.key for record in Reader(self._bus, partition).newest(LATELY)}

    def _saved(self, partition: Partition) -> set[str]:
        return self._bus.snapshot_offsets(self._snapshots, partition).keys() - {BASE_KEY}
