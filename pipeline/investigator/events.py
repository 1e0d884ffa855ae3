"""Marks and incidents of a host around a time, to show next to measurements."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.investigator.endpoint import Answer, Number, Seconds, Sentence

if TYPE_CHECKING:
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.history.why import History
    from laggard.pipeline.methods.incidents.ledger import Entry, Ledger


class MarkNear(Answer, frozen=True):
    """A mark: a person's report that something was slow."""

    id: Annotated[str, msgspec.Meta(description="the id of the mark")]
    ts: Seconds
    note: Annotated[str, msgspec.Meta(description="the comment of the person or program; may be empty")]


class OpenIncident(Answer, frozen=True):
    """An incident, and the time for which it was open."""

    id: Annotated[str, msgspec.Meta(description="the id of the incident: the same in all its records")]
    begin: Seconds = msgspec.field(name="from")
    until: Annotated[
        Number, msgspec.Meta(description="the end of the incident, seconds since the Unix epoch; null while it is open")
    ] = msgspec.field(name="to")
    sentence: Sentence
    operators: Annotated[list[str], msgspec.Meta(description="the operators that detected it, sorted by name")]


MOST_CACHED: Final = 2048
"""The most cached incidents, some 0.5 kB each; beyond, the least recently used ones are dropped."""


class Events:
    """Marks and incidents, to show next to other data. Safe to use from several threads.

    Parameters:
        history: reads the marks.
        ledger: reads the incidents.

    """

    def __init__(self, history: History, ledger: Ledger) -> None:
        self._history = history
        self._ledger = ledger
        self._lock = threading.Lock()
        self._told: OrderedDict[tuple[str, int], OpenIncident] = OrderedDict()

    def marks(self, host: str, begin: float, end: float) -> list[MarkNear]:
        """Return the marks of a host from one time to another, in seconds since the Unix epoch, newest first."""
        found = self._history.marks(host)
        return [MarkNear(each.id, each.ts, each.note) for each in found if begin <= each.ts <= end]

    def incidents_at(self, host: str, ts: float) -> list[OpenIncident]:
        """Return the incidents of a host that were open at a time, the one that opened last first."""
        return self.incidents(host, ts, ts)

    def incidents(self, host: str, begin: float, end: float) -> list[OpenIncident]:
        """Return the incidents of a host that were open at some time in a range, the one that opened last first."""
        return self.incidents_of("host", host, begin, end)

    def incidents_of(self, keyed_by: KeyedBy, key: str, begin: float, end: float) -> list[OpenIncident]:
        """Return the same for a host, an application, a pool or a service, by its name."""
        entries, _ = self._ledger.since(begin, key)
        found = (each for each in entries if each.fields.keyed_by == keyed_by and each.fields.opened_ts <= end)
        return [incident for each in found if (incident := self._of(each)) is not None]

    def _of(self, entry: Entry) -> OpenIncident | None:
        """Return an incident; None if it is no longer on the bus."""
        which = entry.fields.id, entry.fields.number
        with self._lock:
            open_incident = self._told.get(which)
        if open_incident is None:
            read = self._ledger.read([entry])
            if not read:
                return None
            (incident,) = read
            until = incident.until_ts if incident.change == "closed" else math.nan
            open_incident = OpenIncident(
                incident.id,
                incident.opened_ts,
                until if math.isfinite(until) else None,
                incident.sentence,
                sorted({each.operator for each in incident.evidence}),
            )
        with self._lock:
            self._told[which] = open_incident
            self._told.move_to_end(which)
            while len(self._told) > MOST_CACHED:
                self._told.popitem(last=False)
        return open_incident
