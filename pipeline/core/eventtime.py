"""Event time: duplicate records, late records, and clocks that were set back.

Time is that of the records alone, so that the same input gives the same output whenever it is processed.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final, Literal
from zlib import crc32

from laggard.pipeline.core.records import UNNUMBERED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.core.records import Frame

Arrival = Literal["new", "duplicate", "late", "set_back"]
"""The judgment of a record: `set_back` if many records were so late that the newest time must have been wrong."""

SET_BACK_S: Final = 3600.0
SET_BACK_RECORDS: Final = 12
"""After this many late records in a row, each more than `SET_BACK_S` older than the newest, the newest time counts as
wrong: the producer's clock was set back. Only a replay of old records looks the same."""

SILENT_S: Final = 3600.0
SILENT_TICKS: Final = 3.0
"""A stream has fallen silent after `SILENT_S`, and after this many of its ticks."""

FORGOTTEN_S: Final = 3600.0
"""A host is forgotten after this time without a frame: nothing waits for it any more."""

REMEMBERED: Final = 256
"""The number of records of a stream that are remembered. An agent sends fewer of one scope at once, and only those can
be duplicated."""


class SetBack:
    """Counts late records that indicate that their producer's clock was set back.

    Parameters:
        ordered: whether they come in the order of their times, so that an older one restarts the count.

    Attributes:
        count: the number of such records in a row.
        ts: the time of the last one, seconds since the Unix epoch; -inf without any.

    """

    __slots__ = ("_ordered", "count", "ts")

    def __init__(self, count: int = 0, ts: float = -math.inf, *, ordered: bool = False) -> None:
        self.count = count
        self.ts = ts
        self._ordered = ordered

    def late(self, ts: float, newest_ts: float) -> Literal["late", "set_back"]:
        """Judge a record that is older than the newest one."""
        if newest_ts - ts <= SET_BACK_S:
            return "late"
        self.count = self.count + 1 if not self._ordered or ts > self.ts else 1
        self.ts = ts
        return "set_back" if self.count >= SET_BACK_RECORDS else "late"

    def restart(self) -> None:
        """Restart the count, after a record that is not late."""
        self.count, self.ts = 0, -math.inf


class Sequences:
    """The last sequence numbers of a producer, to detect duplicates."""

    def __init__(self, seen: Iterable[int] = ()) -> None:
        self._seen = deque(seen, REMEMBERED)
        self._highest = max(self._seen, default=UNNUMBERED)

    def __contains__(self, sequence: int) -> bool:
        """Return whether the number was seen. Numbers too old to be remembered count as seen."""
        if sequence > self._highest or sequence == UNNUMBERED:
            return False
        return sequence in self._seen or (len(self._seen) == REMEMBERED and sequence < min(self._seen))

    def remembers(self, sequence: int) -> bool:
        """Return whether the number is among those that are remembered."""
        return sequence != UNNUMBERED and sequence in self._seen

    def add(self, sequence: int) -> None:
        """Remember a number."""
        if sequence != UNNUMBERED:
            self._seen.append(sequence)
            self._highest = max(self._highest, sequence)

    def restart(self) -> None:
        """Forget all numbers: the producer has restarted its count."""
        self._seen.clear()
        self._highest = UNNUMBERED

    def snapshot(self) -> list[int]:
        """Return the remembered numbers in the order of their arrival."""
        return list(self._seen)


class Seen:
    """The last frames of a stream, to detect duplicates in any order.

    A frame is identified by its time, number and names; without a number also by its values.
    """

    def __init__(self, seen: Iterable[Iterable[float]] = ()) -> None:
        self._order = deque((float(ts), int(sequence), int(content)) for ts, sequence, content in seen)
        self._known = set(self._order)

    def again(self, frame: Frame) -> bool:
        """Return whether the frame was seen, and remember it."""
        content = crc32(frame.layout.packed)
        if frame.sequence == UNNUMBERED:
            content = crc32(frame.values.tobytes(), content)
        one = (frame.ts, frame.sequence, content)
        if one in self._known:
            return True
        self._known.add(one)
        self._order.append(one)
        if len(self._order) > REMEMBERED:
            self._known.discard(self._order.popleft())
        return False

    def snapshot(self) -> list[list[float]]:
        """Return the remembered frames, oldest first."""
        return [list(one) for one in self._order]
