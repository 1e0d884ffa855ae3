"""The marks on a bus: those that the worker has answered, and those that wait for it.

Whoever asks again and again, as a page does, reads only what has come since: of a cluster a day of answers is seconds.
"""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from laggard.pipeline.history.series import Reader
from laggard.pipeline.records import Mark
from laggard.pipeline.records.outputs import RankingOutput, read_output
from laggard.pipeline.topics import ANOMALIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.bus import Bus, Partition
    from laggard.pipeline.scoring.wired import Wired
    from laggard.pipeline.topics import Topics

MOST_MARKS: Final = 10_000
"""The newest, of all hosts."""

_PEEKED: Final = 64  # bytes of an output that have its kind, which is its first field


@dataclass(frozen=True, slots=True)
class Marked:
    """A mark on the bus.

    Attributes:
        id: names it for as long as it is there.
        host: which was slow.
        ts: when, seconds since the Unix epoch.
        note: what the person or program said.
        frame_ts: the time of the frame that the worker judged for it; its own time where that is not known yet, or
            where the mark is about a moment before that frame.

    """

    id: str
    host: str
    ts: float
    note: str
    frame_ts: float


class Marks:
    """The marks of all hosts. Safe to use from several threads.

    Parameters:
        bus: where they are.
        topics: their names.
        wired: the operator that answers them.

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
        """Those of a host, or of all, newest first."""
        with self._lock:
            self._known |= {each.id: each for each in self._waiting() if each.id not in self._known}
            self._known |= {each.id: each for each in self._answered()}
            if len(self._known) > MOST_MARKS:
                newest = sorted(self._known.values(), key=lambda each: each.ts)[-MOST_MARKS:]
                self._known = {each.id: each for each in newest}
            wanted = [each for each in self._known.values() if host is None or each.host == host]
        return sorted(wanted, key=lambda each: (-each.ts, each.id))

    def _answered(self) -> Iterator[Marked]:
        """Those that the worker has processed, from what came of them."""
        for partition, start, end in self._news(self._answers):
            for record in Reader(self._bus, partition).stored(start, end):
                if RankingOutput.kind.encode() in record.value[:_PEEKED]:
                    output = read_output(record.value, partition.topic)
                    if isinstance(output, RankingOutput):
                        # In this order: the ranking's time is NaN where no frame was near the mark.
                        frame_ts = min(output.ts, output.ranking.ts)
                        yield _marked(output.host, output.ts, output.mark, frame_ts)

    def _waiting(self) -> Iterator[Marked]:
        """The others, from the input."""
        for partition, start, end in self._news(self._input):
            waiting = max(start, self._bus.committed(self._group, partition))
            for _, record in Reader(self._bus, partition).forwards(waiting, end):
                if isinstance(record, Mark):
                    yield _marked(record.host, record.ts, record.note, record.ts)

    def _news(self, topic: str) -> Iterator[tuple[Partition, int, int]]:
        """What was not read yet of each partition of a topic; it counts as read once the next one is asked for."""
        for partition in self._bus.partitions(topic):
            oldest, end = self._bus.bounds(partition)
            yield partition, max(oldest, self._read.get(partition, 0)), end
            self._read[partition] = end


def mark_id(host: str, ts: float, note: str) -> str:
    """What names a mark: it follows from the mark alone."""
    return f"{zlib.crc32(f'{host} {ts!r} {note}'.encode()):08x}"


def _marked(host: str, ts: float, note: str, frame_ts: float) -> Marked:
    return Marked(mark_id(host, ts, note), host, ts, note, frame_ts)
