"""Find the events in pages of the kernel's ring buffer, and their times.

All pages are walked in parallel: the first event of each, the second of each, and so on. Each step is a few operations
of NumPy on as many lanes as there are pages. Source of the form: kernel/trace/ring_buffer.c and
include/linux/ring_buffer.h of Linux.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from laggard.producers.trace.ftrace.formats import Header

_PADDING, _TIME_EXTEND, _TIME_STAMP = 29, 30, 31  # lower ones: 0 for a length of its own, otherwise 1 to 28 words
_DELTA_BITS: Final = 27
_TOP_BITS: Final = np.uint64(0x1F << 59)  # those of a time that an absolute timestamp leaves out
_USED: Final = (1 << 27) - 1
_LOST, _LOST_COUNTED = 1 << 31, 1 << 30

LATEST_NS: Final = 1 << 61
"""73 years: no clock of a trace exceeds it, so a page or an event with a later time is damaged."""


class Missing(NamedTuple):
    """Events that the kernel had to drop before a page.

    Attributes:
        page: the page after the gap.
        begin_ns: the time of this page's first event; the last event before the gap is in another page.
        events: the number of lost events; 0 if the kernel does not report it.

    """

    page: int
    begin_ns: int
    events: int


class Located(NamedTuple):
    """The events of some pages, page by page.

    Attributes:
        words: all pages as 32-bit words.
        at: the index in `words` of each event's first word, shape (n,).
        length: the length of each event, in bytes.
        ts: the times in nanoseconds of the trace's clock, shape (n,).
        page: the page of each event, shape (n,).
        missing: the events that were lost before pages.
        damaged: the pages with an invalid event, which are read up to there.

    """

    words: NDArray[np.uint32]
    at: NDArray[np.int64]
    length: NDArray[np.int32]
    ts: NDArray[np.int64]
    page: NDArray[np.int32]
    missing: list[Missing]
    damaged: list[int]


def locate(pages: NDArray[np.uint8], header: Header) -> Located:
    """Find all events.

    Args:
        pages: the pages, shape (pages, bytes of a page), C-contiguous; of one CPU or of several.
        header: the header by `header_page`.

    """
    count, size = pages.shape
    if size % 8 or header.data % 4:
        raise ValueError(f"pages: expected pages of whole 8 bytes, got {size}, with data at {header.data}")
    words = pages.view("<u4").ravel()
    stamps = pages[:, :8].copy().view("<u8").ravel()
    commit = pages[:, header.commit : header.commit + 4].copy().view("<u4").ravel()
    room = size - header.data
    dated = stamps <= LATEST_NS
    cut = ((commit & _USED) > room) | ~dated
    used = np.where(dated, np.minimum(commit & _USED, room), 0)
    first = np.arange(count, dtype=np.int64) * (size // 4) + header.data // 4
    walked = _walk(words, first, first + used // 4, stamps)
    at, length, ts, page = walked.in_order(count)
    return Located(
        words,
        at,
        length,
        ts,
        page,
        _missing(pages, header, commit, stamps),
        sorted({*np.flatnonzero(cut).tolist(), *walked.damaged}),
    )


class _Walked(NamedTuple):
    """The results of each step."""

    at: list[NDArray[np.int64]]
    length: list[NDArray[np.int64]]
    ts: list[NDArray[np.uint64]]
    page: list[NDArray[np.int64]]
    damaged: list[int]

    def in_order(self, pages: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """Return them page by page: an event's place is the start of its page plus the number of its earlier events."""
        total = sum(len(step) for step in self.at)
        at, ts = np.empty(total, np.int64), np.empty(total, np.int64)
        length, page = np.empty(total, np.int32), np.empty(total, np.int32)
        if not total:
            return at, length, ts, page
        events = np.bincount(np.concatenate(self.page), minlength=pages)
        place = np.cumsum(events) - events
        for step_at, step_length, step_ts, step_page in zip(self.at, self.length, self.ts, self.page, strict=True):
            to = place[step_page]
            at[to], length[to], ts[to], page[to] = step_at, step_length, step_ts.view(np.int64), step_page
            place[step_page] += 1
        return at, length, ts, page


def _walk(
    words: NDArray[np.uint32], first: NDArray[np.int64], end: NDArray[np.int64], stamps: NDArray[np.uint64]
) -> _Walked:
    walked = _Walked([], [], [], [], [])
    page = np.flatnonzero(first < end)
    cursor, end, ts = first[page], end[page], stamps[page]
    last = len(words) - 1
    while len(page):
        head = words[cursor]
        kind = (head & 31).astype(np.int64)
        extra = words[np.minimum(cursor + 1, last)].astype(np.int64)
        delta = (head >> 5).astype(np.uint64)
        # In words after the header: from the kind, or from the next word, which counts itself.
        behind = np.where(kind == 0, (extra + 3) >> 2, kind)
        if (kind >= _PADDING).any():
            far = (extra.astype(np.uint64) << np.uint64(_DELTA_BITS)) + delta
            delta = np.where(kind == _TIME_EXTEND, far, delta)
            absolute = kind == _TIME_STAMP
            ts = np.where(absolute, far | (ts & _TOP_BITS), ts + delta)
            behind = np.where(kind >= _TIME_EXTEND, 1, behind)
            # A dropped event has its length; one without a time is the rest of the page.
            rest = (kind == _PADDING) & (delta == 0)
            behind = np.where(kind == _PADDING, np.where(rest, end - cursor - 1, (extra + 3) >> 2), behind)
        else:
            ts = ts + delta
        cursor_next = cursor + 1 + behind
        complete = (cursor_next <= end) & (behind > 0)
        complete |= (kind == _PADDING) & (cursor_next == end)
        event = (kind < _PADDING) & complete
        own_length = kind == 0
        if event.all():
            walked.at.append(cursor + 1 + own_length)
            walked.length.append((behind - own_length) * 4)
            walked.ts.append(ts)
            walked.page.append(page)
        elif event.any():
            walked.at.append((cursor + 1 + own_length)[event])
            walked.length.append(((behind - own_length) * 4)[event])
            walked.ts.append(ts[event])
            walked.page.append(page[event])
        if not complete.all():
            walked.damaged.extend(page[~complete].tolist())
        on = complete & (cursor_next < end)
        if on.all():
            cursor = cursor_next
        else:
            page, cursor, end, ts = page[on], cursor_next[on], end[on], ts[on]
    return walked


def _missing(
    pages: NDArray[np.uint8], header: Header, commit: NDArray[np.uint32], stamps: NDArray[np.uint64]
) -> list[Missing]:
    """Find missing events before pages by their commits, which also say whether the number follows the data."""
    found = []
    for page in np.flatnonzero((commit & _LOST > 0) & (stamps <= LATEST_NS)).tolist():
        behind = header.data + int(commit[page] & _USED)
        counted = int(commit[page]) & _LOST_COUNTED and behind + 8 <= pages.shape[1]
        count = int(pages[page, behind : behind + 8].copy().view("<u8")[0]) if counted else 0
        found.append(Missing(page, int(stamps[page]), min(count, LATEST_NS)))
    return found
