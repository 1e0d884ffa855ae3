"""The marks on a bus: those that the worker has answered, and those that wait for it.

Repeated queries, as of a page, read only new records: a day of a cluster's answers takes seconds to read.
"""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.pipeline.core.records import Mark
from laggard.pipeline.core.records.outputs import RankingOutput, read_output
from laggard.pipeline.core.topics import ANOMALIES
from laggard.pipeline.history.series import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.bus import Bus, Partition
    from laggard.pipeline.core.topics import Topics
    from laggard.pipeline.scoring.wired import Wired

MOST_MARKS: Final = 10_000
"""The most marks of all hosts in memory, the newest ones."""

_PEEKED: Final = 64  # bytes of an output that contain its kind, its first field


@dataclass(frozen=True, slots=True)
class Marked:
    """A mark on the bus.

    Attributes:
        id: its id; see `mark_id`.
        host: the slow host.
        ts: the marked moment, seconds since the Unix epoch.
        note: the comment of the person or program.
        frame_ts: the time of the frame that the worker judged for it. The time of the mark if that is earlier, or if
            there is no such frame yet.

    """

    id: str
    host: str
    ts: float
    note: str
    frame_ts: float


class Marks:
    """The marks of all hosts. Safe to use from several threads.

    Parameters:
        bus: the bus.
        topics: the names of its topics.
        wired: the operator that answers the marks.

    """

    def __init__(self, bus: Bus, topics: Topics, wired: Wired) -> None:
        self._bus = bus
        self._input = topics.name(wired.topic)
        self._answers = topics.name(ANOMALIES)
        self._group = topics.group(wired.name)
        self._lock = threading.Lock()
        self._known: dict[str, Marked] = {}
        self._read: dict[Partition, int] = {}

    def of(self, host: str | None = None) -> list[Marked]:
        """Return the marks of a host, or of all hosts, newest first."""
        with self._lock:
            self._known |= {each.id: each for each in self._waiting() if each.id not in self._known}
            self._known |= {each.id: each for each in self._answered()}
            if len(self._known) > MOST_MARKS:
                newest = sorted(self._known.values(), key=lambda each: each.ts)[-MOST_MARKS:]
                self._known = {each.id: each for each in newest}
            wanted = [each for each in self._known.values() if host is None or each.host == host]
        return sorted(wanted, key=lambda each: (-each.ts, each.id))

    def _answered(self) -> Iterator[Marked]:
        """Yield the marks that the worker has processed, from its outputs."""
        for partition, start, end in self._news(self._answers):
            for record in Reader(self._bus, partition).stored(start, end):
                if RankingOutput.kind.encode() in record.value[:_PEEKED]:
                    output = read_output(record.value, partition.topic)
                    if isinstance(output, RankingOutput):
                        # In this order: the ranking's time is NaN if no frame was near the mark.
                        frame_ts = min(output.ts, output.ranking.ts)
                        yield _marked(output.host, output.ts, output.mark, frame_ts)

    def _waiting(self) -> Iterator[Marked]:
        """Yield the other marks, from the input."""
        for partition, start, end in self._news(self._input):
            waiting = max(start, self._bus.committed(self._group, partition))
            for _, record in Reader(self._bus, partition).forwards(waiting, end):
                if isinstance(record, Mark):
                    yield _marked(record.host, record.ts, record.note, record.ts)

    def _news(self, topic: str) -> Iterator[tuple[Partition, int, int]]:
        """Yield the unread offsets of each partition of a topic. They count as read when the next are requested."""
        for partition in self._bus.partitions(topic):
            oldest, end = self._bus.bounds(partition)
            yield partition, max(oldest, self._read.get(partition, 0)), end
            self._read[partition] = end


def mark_id(host: str, ts: float, note: str) -> str:
    """Return the id of a mark, which depends on the mark alone."""
    return f"{zlib.crc32(f'{host} {ts!r} {note}'.encode()):08x}"


def _marked(host: str, ts: float, note: str, frame_ts: float) -> Marked:
    return Marked(mark_id(host, ts, note), host, ts, note, frame_ts)
