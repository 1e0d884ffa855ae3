"""Tracing as it goes: in order, a moment later, within the budget."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.events import Kind
from laggard.producers.trace.ftrace.instance import Instance
from laggard.producers.trace.ftrace.live import Live
from tests.producers.trace.ftrace.programs import TRACES, Waiting, waiting

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = TRACES

REQUESTS = r"""
import os, time
for number in range(40):
    try:
        open(word, "w").write("laggard begin 1 shop\tGET /cart")
        time.sleep(0.002)
        open(word, "w").write("laggard end 1")
    except OSError:
        pass
    time.sleep(0.02)
"""
BUSY = "import os\nwhile not os.path.exists(word): os.getppid()"
"""Until there is a file of that name."""


def run_until_done(program: Waiting, stop: threading.Event, word: str = "") -> None:
    try:
        program.go(word)
    finally:
        stop.set()


def test_requests_as_they_come() -> None:
    stop = threading.Event()
    with waiting(REQUESTS) as program, Live(events_per_s=1e7) as live:
        marker = live._session.instance.path / "trace_marker"
        thread = threading.Thread(target=run_until_done, args=(program, stop, str(marker)))
        thread.start()
        analysis = Analysis(host="web-1", clock_offset_s=live.wall_offset_s)
        requests, last, late = [], 0, []
        for batch in live.batches(stop):
            ts = batch.events["ts"]
            if len(ts):
                assert ts[0] >= last
                assert (np.diff(ts) >= 0).all()
                last = int(ts[-1])
                late.append(time.monotonic_ns() - last)
            requests += analysis.feed(batch)
        requests += analysis.finish()
        thread.join()
        cost = live.cost()
    ours = [request for request in requests if request.service == "shop"]
    # On a machine that makes more events than can be read in time, some are lost, and so are requests.
    assert cost.lost == 0 or cost.events_per_s > 50_000
    assert 0 < len(ours) <= 40
    assert cost.lost or len(ours) == 40
    assert {request.name for request in ours} == {"GET /cart"}
    assert cost.lost or all(request.times_s["BS"] + request.times_s["BP"] >= 0.002 for request in ours)
    assert all(abs(request.ts - time.time()) < 30 for request in ours)
    assert len(late) >= 2
    assert (cost.recorded_ratio == 1) == (cost.lost == 0)
    assert 0 < cost.lag_s < 30
    assert cost.events > 40 * 10
    assert 0.8 < cost.seconds < 60
    assert 0 < cost.cpu_s < cost.seconds


def test_lost_events_are_no_recorded_time(tmp_path: Path) -> None:
    """A reader that waits for a CPU is late, and what the kernel dropped meanwhile was not recorded."""
    stop = tmp_path / "stop"
    with waiting(BUSY) as program, Live(events_per_s=1e9, buffer_bytes=1) as live:
        thread = threading.Thread(target=program.go, args=(str(stop),))
        thread.start()
        batches = [live.take()]
        until = time.monotonic() + 60
        while not live._session.instance.overruns() and time.monotonic() < until:
            time.sleep(0.2)
        time.sleep(1.0)
        batches.append(live.take())
        late = live.cost()
        stop.touch()
        thread.join()
        batches.append(live.finish())
    assert late.lost > 0
    assert late.lag_s > 1.0
    assert late.recorded_ratio < 0.9
    gaps = [row for batch in batches for row in batch.events[batch.events["kind"] == Kind.LOST]]
    assert sum(int(row["b"] - row["a"]) for row in gaps) > 1e9
    analysis = Analysis(host="web-1")
    for batch in batches:
        analysis.feed(batch)
    assert analysis._missing_ratio(analysis._now) == pytest.approx(1 - late.recorded_ratio, abs=0.3)


def test_more_events_than_the_budget_allows(tmp_path: Path) -> None:
    stop = threading.Event()
    with waiting(BUSY) as program, Live(events_per_s=20_000) as live:
        thread = threading.Thread(target=run_until_done, args=(program, stop, str(tmp_path / "enough")))
        thread.start()
        switch = live._session.instance.path / "tracing_on"
        batches = []
        for batch in live.batches(stop):
            batches.append(batch)
            # It pauses when the budget of some seconds is spent.
            if switch.read_text() == "0\n":
                (tmp_path / "enough").touch()
        thread.join()
        assert (tmp_path / "enough").exists()
        assert live.cost().recorded_ratio < 1
        events = live.cost().events
        assert events == sum(
            int((~np.isin(batch.events["kind"], (Kind.LOST, Kind.PATH))).sum())
            - int(((batch.events["cpu"] < 0) | (batch.events["kind"] == Kind.OPENED)).sum())
            for batch in batches
        )
    assert events > 20_000


def test_a_pause_is_told_as_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = iter([True, False, False, True, True])
    with Live(events_per_s=1e7) as live:
        switched = []

        def switch(*, on: bool) -> None:
            switched.append(time.monotonic_ns())
            Instance.switch(live._session.instance, on=on)
            switched.append(time.monotonic_ns())

        monkeypatch.setattr(live._session.instance, "switch", switch)
        monkeypatch.setattr(live._budget, "spend", lambda events, passed_s: next(wanted))
        told = []
        for _ in range(5):
            time.sleep(0.05)
            told.append(live.take().events)
        told.append(live.finish().events)
        rows = np.concatenate(told)
        cost = live.cost()
    gaps = rows[rows["kind"] == Kind.LOST]
    assert [(gap["cpu"], gap["tid"]) for gap in gaps] == [(-1, -1)]
    (gap,) = gaps
    assert gap["ts"] == gap["b"]
    assert gap["b"] - gap["a"] > 0.1e9
    _, off, on, *_ = switched
    inside = rows[(rows["ts"] > off + 20e6) & (rows["ts"] < on) & (rows["cpu"] >= 0)]
    assert set(inside["kind"].tolist()) <= {Kind.PATH, Kind.OPENED}
    assert cost.recorded_ratio == pytest.approx(1 - (gap["b"] - gap["a"]) / 1e9 / cost.seconds, abs=0.02)
