"""Events in pages of the ring buffer: those of a plain reader, whatever is written, and words for what is damaged."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.trace.ftrace.formats import Header
from laggard.producers.trace.ftrace.pages import LATEST_NS, locate

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


DELTAS = st.one_of(st.integers(0, 5000), st.integers(0, MOST_DELTA))


@st.composite
def pages(draw: st.DrawFn) -> Page:
    page = Page(draw(st.integers(0, LATEST_NS)), draw(st.sampled_from([None, None, 0, 3])))
    for number in range(draw(st.integers(0, 60))):
        what = draw(st.sampled_from(["event"] * 6 + ["extend", "absolute", "discarded"]))
        words = draw(st.integers(1, 40))
        if page.room < words * 4 + 24:
            if draw(st.booleans()):
                page.rest()
            break
        if what == "event":
            page.event(draw(DELTAS), struct.pack("<I", number) * words)
        elif what == "extend":
            page.extend(draw(st.integers(0, 1 << 40)))
        elif what == "absolute":
            page.absolute(draw(st.integers(0, (1 << 59) - 1)))
        else:
            page.discarded(draw(DELTAS), words)
    return page


@pytest.mark.slow
@given(st.lists(pages(), min_size=1, max_size=6))
def test_what_a_plain_reader_finds(written: list[Page]) -> None:
    located = locate(stacked(written), HEADER)
    expected = [(number, *event) for number, page in enumerate(written) for event in walked(page.written())]
    raw = located.words.tobytes()
    found = [
        (page, ts, raw[at * 4 : at * 4 + length])
        for page, ts, at, length in zip(
            located.page.tolist(), located.ts.tolist(), located.at.tolist(), located.length.tolist(), strict=True
        )
    ]
    assert found == expected
    assert located.damaged == []
    lost = {number: page for number, page in enumerate(written) if page.lost is not None}
    assert [missing.page for missing in located.missing] == list(lost)
    for missing in located.missing:
        page = lost[missing.page]
        assert missing.begin_ns == page.stamp
        assert missing.events == (page.lost if page.room >= 8 else 0)


def test_an_empty_page_and_none() -> None:
    assert len(locate(stacked([Page(5)]), HEADER).at) == 0
    assert len(locate(np.zeros((0, PAGE), np.uint8), HEADER).at) == 0


def test_what_is_cut_off_is_read_up_to_there() -> None:
    whole, cut = Page(100), Page(200)
    for page in (whole, cut):
        for number in range(50):
            page.event(1, struct.pack("<I", number) * 8)
    raw = stacked([whole, cut])
    raw[1, 1000:] = 0
    located = locate(raw, HEADER)
    assert located.damaged == [1]
    # 36 bytes an event: the 27th ends at 988, of the 28th a part is there, which a length tells whole.
    assert np.bincount(located.page).tolist() == [50, 28]


@pytest.mark.parametrize("garbage", [struct.pack("<I", 28 | 5 << 5), bytes(16), struct.pack("<II", 0, 4096)])
def test_what_is_no_event_ends_its_page_alone(garbage: bytes) -> None:
    broken, whole = Page(100), Page(200)
    for page in (broken, whole):
        page.event(1, b"good")
    broken.data += garbage
    whole.event(1, b"more")
    located = locate(stacked([broken, whole]), HEADER)
    assert located.damaged == [0]
    assert located.page.tolist() == [0, 1, 1]


def test_a_commit_beyond_the_page() -> None:
    page = Page(1)
    page.event(1, b"good")
    page.rest()
    raw = stacked([page])
    raw[0, 8:16] = np.frombuffer(struct.pack("<Q", PAGE), np.uint8)
    located = locate(raw, HEADER)
    assert (located.damaged, len(located.at)) == ([0], 1)
