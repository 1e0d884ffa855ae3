"""When a notice opens, how bad it gets, and when it may end."""

from __future__ import annotations

import pytest

from laggard.operators.calibration import QUIET_S
from laggard.pipeline.alarms.courses import opening
from laggard.pipeline.alarms.notices import Notices, restored
from tests.pipeline.methods.incidents.joined import notice

OPEN = Notices().after(1000.0, 1.5)[1].opening(opening(notice(1, 1000.0)))


def test_what_is_calm_changes_nothing() -> None:
    nothing = Notices()
    assert nothing.after(1000.0, 1.0)[1] is nothing


def test_it_fires_once_and_again_after_a_calm_minute() -> None:
    found, notices = [], Notices()
    for ts, suspicion in ((0.0, 1.1), (5.0, 1.2), (10.0, 0.9), (15.0, 1.1), (20.0, 0.9), (20.0 + QUIET_S, 1.1)):
        fires, notices = notices.after(ts, suspicion)
        found.append(fires)
    assert found == [True, False, False, False, False, True]


@pytest.mark.parametrize(
    ("suspicion", "worst", "until_ts"), [(1.2, 1.5, 1005.0), (2.5, 2.5, 1005.0), (0.9, 1.5, 1000.0)]
)
def test_an_open_one_keeps_the_worst_and_when_it_was_last_suspicious(
    suspicion: float, worst: float, until_ts: float
) -> None:
    fires, notices = OPEN.after(1005.0, suspicion)
    assert notices.open is not None
    assert (fires, notices.opened, notices.open.score, notices.open.until_ts) == (False, 1, worst, until_ts)


def test_an_open_one_may_end_after_a_calm_minute() -> None:
    _, calm = OPEN.after(1005.0, 1.0)
    assert not calm.trigger.armed
    _, calm = calm.after(1005.0 + QUIET_S, 1.0)
    assert calm.trigger.armed
    assert calm.ended() == Notices(1, None, calm.trigger)


def test_it_is_read_as_it_was_written() -> None:
    assert repr(restored(OPEN.snapshot())) == repr(OPEN)
    assert restored(Notices().snapshot()) == Notices()
    assert OPEN.given_up() == Notices(1)
