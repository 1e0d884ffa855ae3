"""Records that come again, and clocks that were set back."""

from __future__ import annotations

import numpy as np
import pytest

from laggard.pipeline.core.eventtime import REMEMBERED, SET_BACK_RECORDS, SET_BACK_S, Seen, Sequences, SetBack
from laggard.pipeline.core.records import UNNUMBERED, Frame, make_layout

NEWEST_TS = 1e6
BEHIND_TS = NEWEST_TS - SET_BACK_S - 100.0


def frame(ts: float, value: float, sequence: int = UNNUMBERED, row: str = "a") -> Frame:
    layout = make_layout([row], [row], ["cpu_user_ratio"])
    return Frame("host", "web-1", "process", ts, sequence, layout, np.array([[value]]))


def test_sequences_are_told_from_gaps() -> None:
    seen = Sequences()
    assert 0 not in seen
    for number in (3, 5, 9):
        seen.add(number)
    assert [number in seen for number in (2, 3, 4, 5, 9, 10)] == [False, True, False, True, True, False]
    seen.add(UNNUMBERED)
    assert UNNUMBERED not in seen
    assert seen.snapshot() == [3, 5, 9]


def test_what_is_too_old_to_be_remembered_was_here() -> None:
    seen = Sequences(range(10, 10 + 2 * REMEMBERED, 2))
    assert 9 in seen
    assert not seen.remembers(9)
    assert 11 not in seen
    seen.restart()
    assert 9 not in seen


def test_a_frame_is_known_by_its_number_or_by_its_values() -> None:
    seen = Seen()
    frames = [frame(5.0, 1.0), frame(5.0, 2.0), frame(5.0, 1.0, row="b"), frame(6.0, 1.0, 7), frame(5.0, 1.0, 8)]
    assert [seen.again(each) for each in frames] == [False] * 5
    assert [seen.again(each) for each in (*frames, frame(6.0, 3.0, 7))] == [True] * 6
    restored = Seen(seen.snapshot())
    assert all(restored.again(each) for each in frames)
    for number in range(REMEMBERED):
        assert not restored.again(frame(10.0 + number, 1.0))
    assert not restored.again(frames[0]), "it has been forgotten"


@pytest.mark.parametrize("ordered", [True, False])
def test_a_clock_was_set_back_after_enough_records_that_are_far_behind(ordered: bool) -> None:
    behind = SetBack(ordered=ordered)
    assert [behind.late(NEWEST_TS - SET_BACK_S, NEWEST_TS) for _ in range(SET_BACK_RECORDS)] == (
        ["late"] * SET_BACK_RECORDS
    ), "not far enough"
    judged = [behind.late(BEHIND_TS + number, NEWEST_TS) for number in range(SET_BACK_RECORDS)]
    assert judged == ["late"] * (SET_BACK_RECORDS - 1) + ["set_back"]
    behind.restart()
    assert behind.late(BEHIND_TS, NEWEST_TS) == "late"
    assert behind.count == 1


def test_old_records_in_any_order_are_no_clock_that_was_set_back_unless_they_come_of_many() -> None:
    one, many = SetBack(ordered=True), SetBack()
    for number in range(2 * SET_BACK_RECORDS):
        assert one.late(BEHIND_TS - number, NEWEST_TS) == "late"
    judged = [many.late(BEHIND_TS - number, NEWEST_TS) for number in range(SET_BACK_RECORDS)]
    assert judged[-1] == "set_back"


def test_it_counts_on_after_a_restart() -> None:
    behind = SetBack(ordered=True)
    for number in range(SET_BACK_RECORDS - 1):
        behind.late(BEHIND_TS + number, NEWEST_TS)
    assert SetBack(behind.count, behind.ts, ordered=True).late(BEHIND_TS + SET_BACK_RECORDS, NEWEST_TS) == "set_back"
