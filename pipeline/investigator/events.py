"""Marks and incidents of a host round a time: what is drawn beside what was measured."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.incidents.past import past_incidents
from laggard.pipeline.investigator.endpoint import Answer, Number, Seconds
from laggard.pipeline.topics import ANOMALIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.bus import Bus
    from laggard.pipeline.history.why import History
    from laggard.pipeline.records.outputs import Incident
    from laggard.pipeline.topics import Topics


class MarkNear(Answer, frozen=True):
    """A mark: somebody said that it was slow."""

    id: str
    ts: Seconds
    note: str


class OpenIncident(Answer, frozen=True):
    """An incident, and from when to when it was open."""

    id: str
    begin: Seconds = msgspec.field(name="from")
    until: Annotated[Number, msgspec.Meta(description="seconds since the Unix epoch; null while it is open")] = (
        msgspec.field(name="to")
    )
    sentence: str


MOST_HOSTS: Final = 64
"""Of so many hosts incidents are kept until there is news of them."""


class Events:
    """The marks and incidents of hosts. Safe to use from several threads.

    Parameters:
        bus: where they are.
        topics: their names.
        history: reads the marks.

    """

    def __init__(self, bus: Bus, topics: Topics, history: History) -> None:
        self._bus = bus
        self._topics = topics
        self._history = history
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[int, float, Sequence[Incident]]] = OrderedDict()

    def marks(self, host: str, begin: float, end: float) -> list[MarkNear]:
        """Those of a host from one time to another, in seconds since the Unix epoch, the newest first."""
        found = self._history.marks(host)
        return [MarkNear(each.id, each.ts, each.note) for each in found if begin <= each.ts <= end]

    def incidents_at(self, host: str, ts: float) -> list[OpenIncident]:
        """Those of a host that were open at a time, the one that opened last first."""
        return self.incidents(host, ts, ts)

    def incidents(self, host: str, begin: float, end: float) -> list[OpenIncident]:
        """Those of a host that were open at some time from one time to another, the one that opened last first."""
        return [_told(each) for each in self._since(host, begin) if each.opened_ts <= end and _until(each) >= begin]

    def _since(self, host: str, begin: float) -> Sequence[Incident]:
        """Those that were open at a time or after it, and perhaps others: they are kept until there is news."""
        stop = self._bus.bounds(self._bus.partition_of(self._topics.name(ANOMALIES), host))[1]
        with self._lock:
            known = self._known.get(host)
        if known is None or known[0] != stop or known[1] > begin:
            known = stop, begin, past_incidents(self._bus, self._topics, begin, key=host).incidents
            with self._lock:
                self._known[host] = known
                self._known.move_to_end(host)
                while len(self._known) > MOST_HOSTS:
                    self._known.popitem(last=False)
        return known[2]


def _until(incident: Incident) -> float:
    return incident.until_ts if incident.change == "closed" else math.inf


def _told(incident: Incident) -> OpenIncident:
    until = _until(incident)
    return OpenIncident(incident.id, incident.opened_ts, until if math.isfinite(until) else None, incident.sentence)
