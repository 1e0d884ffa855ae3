"""What a member does before it works on a partition that it was given: it makes sure that its predecessor is gone.

A member that died in a transaction would hold up everybody who reads what it wrote, until the brokers abort that
transaction by its age. And one that only slept could wake up and end it. So the text beside each committed offset
begins with the transactional id of the member that committed it, which is its client id too: where no member of
the group has that id any more, the successor takes it. That aborts what was open, and the old one commits no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laggard.pipeline.bus.kafka.commits import owner_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from laggard.pipeline.bus import Partition
    from laggard.pipeline.bus.kafka.admin import Admin
    from laggard.pipeline.bus.kafka.commits import Commits


def settled_offsets(
    admin: Admin, commits: Commits, group: str, partitions: Collection[Partition]
) -> Mapping[Partition, int]:
    """Where to go on in each of the partitions, once nobody else can commit there any more.

    Partitions in which a living member is about to end a transaction are left out: ask again. Where nothing was
    committed yet it is the oldest record.
    """
    # One that died may have had this very id: a static member's is the same after a restart.
    commits.take()
    found = admin.offsets(group, partitions).committed
    owners = {owner_of(offset.metadata) for offset in found.values()} - {commits.identity}
    # The text is anybody's to write: nothing but this group's own ids is taken.
    strangers = {owner for owner in owners if owner.startswith(f"{group}-")}
    if strangers:
        for dead in sorted(strangers - admin.client_ids(group)):
            commits.fence(dead)
    stable = admin.offsets(group, partitions, stable=True)
    return {
        partition: stable.committed[partition].offset if partition in stable.committed else admin.bounds(partition)[0]
        for partition in partitions
        if partition not in stable.unstable
    }
