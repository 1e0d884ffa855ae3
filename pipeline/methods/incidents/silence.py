"""Silent hosts, whose open incidents may have ended unobserved.

The operators detect a silent host after an hour (`eventtime.SILENT_S`), by the frames of other hosts of its partition.
For a host that is alone on its partition no time passes without its frames. So queries detect it by the clock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from laggard.pipeline.alarms.courses import JOINED_S
from laggard.pipeline.core.eventtime import SILENT_TICKS
from laggard.pipeline.core.records import Frame
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.history.rebuilding import LATELY
from laggard.pipeline.history.series import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.core.topics import Topics


def silent_hosts(bus: Bus, topics: Topics, incidents: Iterable[Incident], now: float) -> Mapping[str, float]:
    """Return the silent hosts of live open incidents.

    Args:
        bus: the bus.
        topics: the names of the topics.
        incidents: any incidents.
        now: seconds since the Unix epoch.

    Returns:
        The time of the last frame by host; NaN if there is none among the newest records of its partition.

    """
    hosts = {each.key for each in incidents if each.change != "closed" and each.live and each.keyed_by == "host"}
    return {host: since for host in hosts if (since := _silent_since(bus, topics, host, now)) is not None}


def _silent_since(bus: Bus, topics: Topics, host: str, now: float) -> float | None:
    """Return the time of the last frame, NaN if none is found; None if the host is not silent, or without records.

    A last frame within the time that an anomaly takes to end is no silence: the incident would be open anyway.
    """
    partition = bus.partition_of(topics.name(COUNTERS), host)
    oldest, end = bus.bounds(partition)
    if oldest == end:
        return None
    reader, start = Reader(bus, partition, host), max(oldest, end - LATELY)
    last = next(((offset, each.ts) for offset, each in reader.backwards(end) if isinstance(each, Frame)), None)
    if last is not None and last[0] >= start and now - last[1] <= JOINED_S:
        return None  # the usual case, which reads one frame, not hundreds
    newest: dict[str, float] = {}
    tick_s = 0.0
    for _, found in reader.forwards(start, end):
        if isinstance(found, Frame):
            tick_s = found.ts - newest.get(found.scope, found.ts)
            newest[found.scope] = found.ts
    newest_ts = max(newest.values(), default=math.nan)
    return None if now - newest_ts <= max(JOINED_S, SILENT_TICKS * tick_s) else newest_ts
