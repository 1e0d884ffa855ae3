"""Upgrade from one group for each operator to one group for several: find the offset at which to continue."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from laggard.pipeline.core.bus import BusError, BusUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.bus import Bus, Partition
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.topics import Topics

_logger = logging.getLogger(__name__)


def former_groups(topics: Topics, stages: Sequence[Stage]) -> tuple[str, ...]:
    """Return the groups that ran these stages in older versions, without those of the same name."""
    return tuple(group for stage in stages if (group := topics.former_group(stage.name)))


def going_on(bus: Bus, topics: Topics, stages: Sequence[Stage], partition: Partition, committed: int) -> int:
    """Return the offset at which a group continues: its own or, before its first commit, the furthest former one.

    Results that slower former groups had not published are lost. Nothing is published twice.

    Args:
        bus: the bus with the offsets.
        topics: the names of the groups.
        stages: the stages of the group.
        partition: the partition.
        committed: the group's own offset; at most that of the oldest record before its first commit.

    Raises:
        BusUnavailable: call again later.

    """
    groups = former_groups(topics, stages)
    if not groups or committed > bus.bounds(partition)[0]:
        return committed
    try:
        furthest = max(bus.committed(group, partition) for group in groups)
    except BusUnavailable:
        raise
    except BusError as error:
        _logger.warning("%s[%d]: cannot read the offset of an older laggard: %s", *partition, error)
        return committed
    return max(furthest, committed)
