"""Events in pages of the ring buffer: those of a plain reader, whatever is written, and words for what is damaged."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.trace.ftrace.pages import locate
from tests.producers.trace.ftrace.writing import HEADER, MOST_DELTA, PAGE, Page, stacked, walked

DELTAS = st.one_of(st.integers(0, 5000), st.integers(0, MOST_DELTA))


@st.composite
def pages(draw: st.DrawFn) -> Page:
    page = Page(draw(st.integers(0, 1 << 62)), draw(st.sampled_from([None, None, 0, 3])))
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
