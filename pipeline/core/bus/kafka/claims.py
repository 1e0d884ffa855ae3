"""Claims of new partitions: before a member works on one, it makes sure that its predecessor cannot commit any more.

A member that died in a transaction would block all readers of its outputs, until the brokers abort that transaction by
its age. A suspended member could wake up and end it. So the metadata of each committed offset begins with the
transactional id of the member that committed it, which is also its client id. If no member of the group has that id any
more, the successor takes it over. That aborts the open transaction, and the old member commits no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.core.bus.kafka.commits import owner_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.bus.kafka.bus import KafkaBus
    from laggard.pipeline.core.bus.kafka.commits import Commits


def settled_offsets(
    bus: KafkaBus, commits: Commits, group: str, partitions: Collection[Partition]
) -> Mapping[Partition, int]:
    """Return the offset at which to continue each partition, once no other member can commit there any more.

    Partitions in which a living member is about to end a transaction are left out: call again. Before the first commit
    the offset is that of the oldest record.
    """
    # A dead member may have had the same id: that of a static member survives a restart.
    commits.take()
    found = bus.groups.offsets(group, partitions).committed
    owners = {owner_of(offset.metadata) for offset in found.values()} - {commits.identity}
    # Other programs may have written the metadata: only ids of this group are taken over.
    strangers = {owner for owner in owners if owner.startswith(f"{group}-")}
    if strangers:
        for dead in sorted(strangers - bus.groups.client_ids(group)):
            commits.fence(dead)
    stable = bus.groups.offsets(group, partitions, stable=True)
    return {
        partition: stable.committed[partition].offset
        if partition in stable.committed
        else bus.topics.bounds(partition)[0]
        for partition in partitions
        if partition not in stable.unstable
    }
