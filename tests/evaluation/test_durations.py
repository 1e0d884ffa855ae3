"""A few of the streams of `durations.py`: incidents last as long as their faults."""

from __future__ import annotations

import math

import pytest

from .durations import MINUTES, Fault, Open, main, rows_of, run, table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "minutes"),
    [
        ("pool, memory", 30.0),
        ("pool, busy, 30 s", 15.0),
        ("service, lock", 5.0),
        ("application, noisy, 10 s", 30.0),
        ("application, even, 60 s", 5.0),
    ],
)
def test_an_incident_is_open_until_the_minute_after_its_fault(name: str, minutes: float) -> None:
    (row,) = run(name, 1, (minutes,))
    assert (row.incidents, row.covered) == (1, 1.0)
    assert 0.0 < row.lag_s <= 60.0
    assert 0.0 <= row.until_s <= 30.0


def test_rows_report_gaps_and_incidents_that_end_early() -> None:
    fault = Fault(100.0, 200.0)
    (row,) = rows_of("x", [fault], [Open(110.0, 140.0, 130.0), Open(170.0, 190.0, 180.0)])
    assert (row.delay_s, row.incidents, row.lag_s, row.until_s) == (10.0, 2, -10.0, -20.0)
    assert row.covered == pytest.approx(50 / 90)
    (missed,) = rows_of("x", [fault], [])
    assert math.isnan(missed.delay_s)
    assert "0 of 1" in table([missed])


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "application, even, 60 s", "--seeds", "1"])
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(MINUTES)
