"""Marks and incidents of a host round a time: what is drawn beside what was measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import msgspec

from laggard.pipeline.incidents.past import past_incidents
from laggard.pipeline.investigator.endpoint import Answer, Number, Seconds

if TYPE_CHECKING:
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


class Events:
    """The marks and incidents of hosts.

    Parameters:
        bus: where they are.
        topics: their names.
        history: reads the marks.

    """

    def __init__(self, bus: Bus, topics: Topics, history: History) -> None:
        self._bus = bus
        self._topics = topics
        self._history = history

    def marks(self, host: str, begin: float, end: float) -> list[MarkNear]:
        """Those of a host from one time to another, in seconds since the Unix epoch, the newest first."""
        found = self._history.marks(host)
        return [MarkNear(each.id, each.ts, each.note) for each in found if begin <= each.ts <= end]

    def incidents_at(self, host: str, ts: float) -> list[OpenIncident]:
        """Those of a host that were open at a time, the one that opened last first."""
        return self.incidents(host, ts, ts)

    def incidents(self, host: str, begin: float, end: float) -> list[OpenIncident]:
        """Those of a host that were open at some time from one time to another, the one that opened last first."""
        found = past_incidents(self._bus, self._topics, begin, key=host).incidents
        return [_told(each) for each in found if each.opened_ts <= end]


def _told(incident: Incident) -> OpenIncident:
    until = incident.until_ts if incident.change == "closed" else math.inf
    return OpenIncident(incident.id, incident.opened_ts, until if math.isfinite(until) else None, incident.sentence)
