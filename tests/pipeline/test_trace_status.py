"""The status of a tracing in words: whether it is late, and what it missed."""

from __future__ import annotations

from dataclasses import replace

from laggard.pipeline.cli.trace_status import status_lines, summary
from laggard.pipeline.doctor.tracing import late_of
from laggard.pipeline.tracing import Figures

CALM = Figures(
    pid=7,
    began_ts=1000.0,
    ts=1060.0,
    what="PHP as blog",
    recording=True,
    events=790_000,
    events_per_s=7000.0,
    lag_s=0.6,
    cpu_s=6.0,
    priority="nice -10",
)
LOADED = replace(CALM, lost=210_000, lost_per_s=3000.0, recorded_ratio=0.74, lag_s=31.0)


def test_a_tracer_that_keeps_up() -> None:
    assert list(status_lines(CALM, 1060.5))[1:] == [
        "  events    7,000/s, 790,000 so far; 100 % of the time is recorded",
        "  lag       600 ms",
        "  requests  0.0/s, 0 so far",
        "  cost      10 % of one core, nice -10",
    ]
    assert late_of(CALM, 1060.5) is None


def test_a_tracer_that_does_not() -> None:
    lines = list(status_lines(LOADED, 1060.5))
    assert lines[1] == (
        "  events    7,000/s, 790,000 so far, 210,000 (21 %) lost, at present 30 %; 74 % of the time is recorded"
    )
    assert lines[2] == "  lag       31 s: it gets too little CPU time for these events"
    assert summary(LOADED).endswith("over 60 s (21 % of the events lost)")
    found = late_of(LOADED, 1060.5)
    assert found is not None
    assert found.level == "warning"
    assert "31 s behind; it lost 21 % of the events, and missed some in 26 % of the time" in found.found


def test_a_tracer_that_is_silent_is_late() -> None:
    """It waits for a CPU, so that it writes no figures either."""
    assert list(status_lines(CALM, 1080.0))[2] == "  lag       20.6 s: it gets too little CPU time for these events"
    assert late_of(CALM, 1080.0) is not None
