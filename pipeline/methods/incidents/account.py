"""All records of one incident in the order of time: those of its anomalies with their scores, and the marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records import RecordError
from laggard.pipeline.core.records.outputs import Anomaly, Found, Incident, Progress, RankingOutput, read_output
from laggard.pipeline.core.topics import ANOMALIES
from laggard.pipeline.history.series import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Bus
    from laggard.pipeline.core.topics import Topics

MOST_RECORDS: Final = 20_000
"""The most records of the partition that are read, from before the incident on."""

MOST_RETURNED: Final = 1_000
"""The most records of anomalies that are returned: the oldest ones."""

BEFORE_S: Final = 900.0
"""Marks are returned from this time before the incident opened, in seconds ..."""

AFTER_S: Final = 900.0
"""... to this time after it was last observed."""

_KINDS: Final = {f"laggard.{kind.kind}".encode(): kind for kind in (Anomaly, Progress, Incident, RankingOutput)}


@dataclass(frozen=True, slots=True)
class Account:
    """The records of one incident.

    Attributes:
        records: the records of its anomalies, the oldest first.
        left_out: the number of further ones.
        newest: the newest record with a ranking, by anomaly.
        marks: the marks of its host around that time, the oldest first.

    """

    records: Sequence[Anomaly | Progress]
    left_out: int
    newest: Mapping[str, Found]
    marks: Sequence[RankingOutput]


def account(bus: Bus, topics: Topics, incident: Incident) -> Account:
    """Read the records of an incident.

    Args:
        bus: the bus.
        topics: the names of the topics.
        incident: its last record.

    """
    partition = bus.partition_of(topics.name(ANOMALIES), incident.key)
    begin = min([incident.opened_ts, *(each.opened_ts for each in incident.evidence)]) - BEFORE_S
    start, end = bus.offset_at(partition, begin), bus.bounds(partition)[1]
    records: list[Anomaly | Progress] = []
    newest: dict[str, Found] = {}
    marks: list[RankingOutput] = []
    for output in _outputs(Reader(bus, partition, incident.key), start, min(end, start + MOST_RECORDS), incident):
        if isinstance(output, RankingOutput):
            if incident.keyed_by == "host" and not output.ts > incident.until_ts + AFTER_S:
                marks.append(output)
        else:
            records.append(output)
            if output.ranking.rows:
                newest[output.id] = output
    records.sort(key=lambda each: (each.ts, each.number if isinstance(each, Progress) else 0))
    marks.sort(key=lambda each: each.ts)
    return Account(records[:MOST_RETURNED], max(len(records) - MOST_RETURNED, 0), newest, marks)


def _outputs(reader: Reader, start: int, stop: int, incident: Incident) -> Iterator[Anomaly | Progress | RankingOutput]:
    """Yield the marks, and the records of the incident's anomalies, until it has closed.

    Times do not bound these records: operators that catch up write old ones after new ones. But the records that close
    an incident come before its closing, which is its last record.
    """
    anomalies = {each.anomaly for each in incident.evidence}
    wanted, closed = [each.encode() for each in anomalies], incident.change == "closed"
    for record in reader.stored(start, stop):
        kind = _KINDS.get(dict(record.headers).get("ce_type", b""))
        if kind is None:
            continue
        if kind is Incident and not (closed and incident.id.encode() in record.value):
            continue
        if kind in {Anomaly, Progress} and not any(each in record.value for each in wanted):
            continue
        try:
            output = read_output(record.value, reader.partition.topic)
        except RecordError:
            continue
        if isinstance(output, Incident):
            if (output.id, output.number) == (incident.id, incident.number):
                return
        elif isinstance(output, RankingOutput) or (isinstance(output, Anomaly | Progress) and output.id in anomalies):
            yield output
