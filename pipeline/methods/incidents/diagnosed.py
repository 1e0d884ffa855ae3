"""The diagnoses on a bus: the newest ones, those of a moment, and those of an incident."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records import RecordError
from laggard.pipeline.core.records.diagnosis_json import read_diagnosis
from laggard.pipeline.core.topics import DIAGNOSES
from laggard.pipeline.history.series import Reader
from laggard.pipeline.methods.incidents.queries import blamed_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from laggard.pipeline.core.bus import Bus, Incoming
    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.core.topics import Topics

BEFORE_S: Final = 60.0
"""A diagnosis that ended within this time before a moment still concerns it, in seconds."""

LONGEST_S: Final = 900.0
"""The records of a diagnosis that concerns a moment are searched this long after it, in seconds."""

INCIDENT_S: Final = 3600.0
"""The longest part of an incident that is searched, from its beginning, in seconds."""

_STEP: Final = 16  # records: each of them may be large


class Recorded:
    """The diagnoses of one host.

    A later record of a diagnosis includes all earlier ones: only the last one of each is returned. Unreadable records
    are skipped.

    Parameters:
        bus: the bus.
        topics: the names of its topics.
        host: the host.

    """

    def __init__(self, bus: Bus, topics: Topics, host: str) -> None:
        self._host = host
        self._reader = Reader(bus, bus.partition_of(topics.name(DIAGNOSES), host), host)

    def newest(self) -> Iterator[Diagnosis]:
        """Yield all of them, the one with the newest record first."""
        bus, partition = self._reader.bus, self._reader.partition
        oldest, stop = bus.bounds(partition)
        known: set[str] = set()
        while stop > oldest:
            start = max(stop - _STEP, oldest)
            for each in self._read(reversed(list(self._reader.stored(start, stop)))):
                if each.id not in known:
                    known.add(each.id)
                    yield each
            stop = start

    def around(self, begin_ts: float, end_ts: float) -> list[Diagnosis]:
        """Return those that ran during an interval, or had ended shortly before it: see `BEFORE_S`.

        Each is its last record until `LONGEST_S` after the interval.

        Args:
            begin_ts: seconds since the Unix epoch.
            end_ts: seconds since the Unix epoch, not before `begin_ts`.

        """
        bus, partition = self._reader.bus, self._reader.partition
        start, stop = (bus.offset_at(partition, ts) for ts in (begin_ts - BEFORE_S, end_ts + LONGEST_S))
        found: dict[str, Diagnosis] = {}
        for each in self._read(self._reader.stored(start, stop)):
            if each.phases and overlaps(each, begin_ts - BEFORE_S, end_ts):
                found[each.id] = each
        return sorted(found.values(), key=lambda each: (each.phases[0].begin_ts, each.id))

    def _read(self, records: Iterable[Incoming]) -> Iterator[Diagnosis]:
        for record in records:
            place = f"{self._reader.partition.topic}[{self._reader.partition.number}]@{record.offset}"
            try:
                found = read_diagnosis(record.value, place)
            except RecordError:
                continue
            if found.host == self._host:
                yield found


def overlaps(diagnosis: Diagnosis, begin_ts: float, end_ts: float) -> bool:
    """Return whether any of its phases overlaps an interval."""
    return any(phase.begin_ts <= end_ts and phase.end_ts >= begin_ts for phase in diagnosis.phases)


def concerning(recorded: Recorded, ts: float, began_ts: float, blamed: Sequence[str]) -> list[Diagnosis]:
    """Return the diagnoses that concern a moment: of culprits since the onset, of other rows around the moment.

    Args:
        recorded: the diagnoses of the host.
        ts: the moment, seconds since the Unix epoch.
        began_ts: the onset; NaN if unknown. The search begins at most `LONGEST_S` before the moment.
        blamed: the rows of the culprits, the worst first. Their diagnoses come first, in this order. Of others, the one
            that ended last comes first.

    """
    begin_ts = max(began_ts, ts - LONGEST_S) if began_ts <= ts else ts
    found = [each for each in recorded.around(begin_ts, ts) if each.row in blamed or overlaps(each, ts - BEFORE_S, ts)]
    ranks = {row: rank for rank, row in enumerate(blamed)}
    return sorted(found, key=lambda each: (ranks.get(each.row, len(ranks)), -each.phases[-1].end_ts))


def during(bus: Bus, topics: Topics, incident: Incident) -> list[Diagnosis]:
    """Return the diagnoses during an incident (see `INCIDENT_S`), those of culprits first.

    For an application they are those of the blamed host. For a pool and a service there are none.
    """
    if (host := diagnosed_host(incident)) is None:
        return []
    begin_ts = end_ts = incident.opened_ts
    if incident.change != "closed":
        end_ts += INCIDENT_S
    elif incident.until_ts > begin_ts:
        end_ts = min(begin_ts + INCIDENT_S, incident.until_ts)
    blamed = blamed_rows(incident)
    return sorted(Recorded(bus, topics, host).around(begin_ts, end_ts), key=lambda each: each.row not in blamed)


def diagnosed_host(incident: Incident) -> str | None:
    """Return the host on which an incident is to be diagnosed; None if unknown."""
    if incident.keyed_by == "host":
        return incident.key
    if incident.keyed_by == "application" and incident.blame is not None:
        return incident.blame.name  # the name of an application's culprit is that of the host
    return None
