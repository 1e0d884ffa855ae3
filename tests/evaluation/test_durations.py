"""A few of the streams of `durations.py`: incidents last as long as their faults."""

from __future__ import annotations

import math

import pytest

from .durations import MINUTES, STREAMS, Fault, Open, main, rows_of, run, table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name", ["pool, memory", "pool, busy, 30 s", "service, lock", "application, noisy, 10 s", "application, even, 60 s"]
)
def test_an_incident_is_open_until_the_minute_after_its_fault(name: str) -> None:
    tick_s = STREAMS[name].tick_s
    found = [each for each in run(name, 1) if math.isfinite(each.delay_s)]
    assert len(found) == len(MINUTES)
    for row in found:
        if 60.0 * row.minutes < 5.0 * tick_s and name.startswith("pool"):
            continue  # it was opened at its end
        assert (row.incidents, row.covered) == (1, 1.0)
        assert 0.0 < row.lag_s <= max(60.0, tick_s)
        assert 0.0 <= row.until_s <= 30.0


def test_rows_tell_of_gaps_and_of_incidents_that_end_early() -> None:
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
