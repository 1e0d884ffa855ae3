"""The diagnoses on a bus: the newest ones, those of a moment, and those of an incident."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.pipeline.history.series import Reader
from laggard.pipeline.incidents.queries import blamed_rows
from laggard.pipeline.records import RecordError
from laggard.pipeline.records.diagnosis_json import read_diagnosis
from laggard.pipeline.topics import DIAGNOSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from laggard.pipeline.bus import Bus, Incoming
    from laggard.pipeline.records.diagnosis import Diagnosis
    from laggard.pipeline.records.outputs import Incident
    from laggard.pipeline.topics import Topics

BEFORE_S: Final = 60.0
"""What ended so short before a moment has still to do with it."""

LONGEST_S: Final = 900.0
"""The records of a diagnosis that has to do with a moment are looked for so long behind it."""

INCIDENT_S: Final = 3600.0
"""Of an incident, so much from its beginning is looked through."""

_STEP: Final = 16  # records: each of them may be large


class Recorded:
    """The diagnoses of one host.

    A later record of a diagnosis has all that an earlier one has: of each only the last is given. What cannot be read
    is passed over.

    Parameters:
        bus: where they are.
        topics: their names.
        host: whose.

    """

    def __init__(self, bus: Bus, topics: Topics, host: str) -> None:
        self._host = host
        self._reader = Reader(bus, bus.partition_of(topics.name(DIAGNOSES), host), host)

    def newest(self) -> Iterator[Diagnosis]:
        """All of them, that which was told last first."""
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
        """Those that were under way in a stretch of time, or had ended shortly before it: see `BEFORE_S`.

        As they were at the end of it, or when they were told next.

        Args:
            begin_ts: seconds since the Unix epoch.
            end_ts: likewise, not before it.

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
    """Whether any phase of it was in a stretch of time."""
    return any(phase.begin_ts <= end_ts and phase.end_ts >= begin_ts for phase in diagnosis.phases)


def concerning(recorded: Recorded, ts: float, began_ts: float, blamed: Sequence[str]) -> list[Diagnosis]:
    """What has to do with a moment: of those who are blamed, since it has been so; of all others, about then.

    Args:
        recorded: of the host.
        ts: the moment, seconds since the Unix epoch.
        began_ts: since when it has been so; NaN where that is not known. No more than `LONGEST_S` before the moment
            is looked at.
        blamed: rows, the worst first. They come first, then those that were under way, that which lasted longest into
            the moment first.

    """
    begin_ts = max(began_ts, ts - LONGEST_S) if began_ts <= ts else ts
    found = [each for each in recorded.around(begin_ts, ts) if each.row in blamed or overlaps(each, ts - BEFORE_S, ts)]
    ranks = {row: rank for rank, row in enumerate(blamed)}
    return sorted(found, key=lambda each: (ranks.get(each.row, len(ranks)), -each.phases[-1].end_ts))


def during(bus: Bus, topics: Topics, incident: Incident) -> list[Diagnosis]:
    """What processes were doing while an incident lasted, see `INCIDENT_S`; those who are blamed come first.

    Of one of an application they are those of the host that is to blame; of a pool and of a service there are none.
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
    """The host on which an incident is to be looked into; None where none is known."""
    if incident.keyed_by == "host":
        return incident.key
    if incident.keyed_by == "application" and incident.blame is not None:
        return incident.blame.name  # of an application's blame the row is of the host, and the name is it
    return None
