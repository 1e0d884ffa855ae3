"""Pages of the ring buffer, written as the kernel does, and read as plainly as can be: the oracle of `locate`."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from laggard.producers.trace.ftrace.formats import Header

PAGE = 4096
HEADER = Header(commit=8, data=16, page=PAGE)
MOST_DELTA = (1 << 27) - 1
LOST, COUNTED = 1 << 31, 1 << 30


@dataclass
class Page:
    """One page while it is written.

    Attributes:
        stamp: nanoseconds, of its begin.
        lost: events that are missing before it; 0 for a flag without a number, None for none.

    """

    stamp: int
    lost: int | None = None
    data: bytearray = field(default_factory=bytearray)

    @property
    def room(self) -> int:
        return PAGE - HEADER.data - len(self.data)

    def event(self, delta: int, payload: bytes) -> None:
        """An event of whole words; those of more than 28 say their length in a word of its own."""
        assert len(payload) % 4 == 0
        assert payload
        words = len(payload) // 4
        if words <= 28:
            self._word(words, delta)
        else:
            self._word(0, delta)
            self.data += struct.pack("<I", len(payload) + 4)
        self.data += payload

    def extend(self, delta: int) -> None:
        self._word(30, delta & MOST_DELTA)
        self.data += struct.pack("<I", delta >> 27)

    def absolute(self, ts: int) -> None:
        ts &= (1 << 59) - 1
        self._word(31, ts & MOST_DELTA)
        self.data += struct.pack("<I", ts >> 27)

    def discarded(self, delta: int, words: int) -> None:
        """An event that was taken back: it keeps its room and its time, which is never 0."""
        self._word(29, max(delta, 1))
        self.data += struct.pack("<I", words * 4 + 4) + bytes(words * 4)

    def rest(self) -> None:
        """The rest of the page is unused, but counted as written."""
        self._word(29, 0)
        self.data += bytes(self.room)

    def written(self) -> bytes:
        commit = len(self.data)
        page = bytearray(PAGE)
        page[HEADER.data : HEADER.data + commit] = self.data
        if self.lost is not None:
            flags = LOST
            if self.lost and self.room >= 8:
                flags |= COUNTED
                struct.pack_into("<Q", page, HEADER.data + commit, self.lost)
            commit |= flags
        struct.pack_into("<QQ", page, 0, self.stamp, commit)
        return bytes(page)

    def _word(self, kind: int, delta: int) -> None:
        assert 0 <= delta <= MOST_DELTA
        self.data += struct.pack("<I", kind | delta << 5)


def stacked(pages: list[Page]) -> np.ndarray:
    return np.frombuffer(b"".join(page.written() for page in pages), np.uint8).reshape(-1, PAGE).copy()


def walked(page: bytes) -> list[tuple[int, bytes]]:
    """Time and payload of each event of a page, one after another."""
    ts, commit = struct.unpack_from("<QQ", page)
    at, end = HEADER.data, HEADER.data + (commit & MOST_DELTA)
    found = []
    while at < end:
        (word,) = struct.unpack_from("<I", page, at)
        kind, delta = word & 31, word >> 5
        following = struct.unpack_from("<I", page, at + 4)[0] if at + 8 <= PAGE else 0
        if kind == 29:
            if not delta:
                break
            ts, at = ts + delta, at + 4 + following
        elif kind == 30:
            ts, at = ts + (following << 27) + delta, at + 8
        elif kind == 31:
            ts, at = (following << 27) + delta | ts & 0x1F << 59, at + 8
        else:
            begin = at + (4 if kind else 8)
            size = kind * 4 or following - 4
            ts, at = ts + delta, begin + size
            found.append((ts, page[begin : begin + size]))
    return found
