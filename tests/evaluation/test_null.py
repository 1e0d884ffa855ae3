"""The simulated machines, the bookkeeping, and the budget on a few of their days."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest
from scipy.stats import poisson

from laggard.pipeline.core.bus import Incoming, Partition
from laggard.pipeline.core.records import Frame, encode
from laggard.pipeline.core.records.outputs import Anomaly
from laggard.pipeline.manifest import read_settings
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.settings import parse_assignment
from laggard.pipeline.wiring import wire
from laggard.producers.host.processes import FEATURES
from tests.evaluation.null import Raw, Trace, Watcher, garwood, judge, simulate, tables
from tests.evaluation.simulated import (
    DAY_S,
    FAULTS,
    HOST_FEATURES,
    HOST_LAYOUT,
    START,
    Fault,
    Kind,
    Machine,
    drawn_faults,
)

TINY = Kind("tiny", 20, 30.0, 2, 60.0)


def test_a_machine_is_the_same_for_the_same_seed_and_complete() -> None:
    first, second = list(Machine(TINY, 0.2, 3).ticks()), list(Machine(TINY, 0.2, 3).ticks())
    assert len(first) == 576
    for one, other in zip(first, second, strict=True):
        assert one.layout.rows == other.layout.rows
        assert len(one.layout.rows) >= TINY.processes
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.host, other.host)
        assert one.values.shape == (len(one.layout.rows), len(FEATURES))
        assert one.host.shape == (1, len(HOST_FEATURES))
        assert not (one.values < 0.0).any()
    assert len({tick.layout.rows for tick in first}) > 20


def test_a_fault_changes_its_process_and_nothing_else_of_the_processes() -> None:
    process = int(np.flatnonzero(~Machine(TINY, 0.1, 3).kernel)[0])
    for kind in FAULTS:
        fault = Fault(kind, process, START + 3000.0, START + 3600.0, 0.5)
        differ = set()
        for one, other in zip(Machine(TINY, 0.1, 3).ticks(), Machine(TINY, 0.1, 3, (fault,)).ticks(), strict=True):
            rows = np.flatnonzero((np.nan_to_num(one.values) != np.nan_to_num(other.values)).any(axis=1))
            differ |= set(rows.tolist())
            assert fault.start <= one.ts <= fault.end or not rows.size
        assert differ == {process}


def test_troubles_are_in_processes_and_begin_after_half_a_day() -> None:
    machine = Machine(TINY, 3.0, 1)
    faults = drawn_faults(machine, 1)
    assert len(faults) == 12
    assert {fault.kind for fault in faults} == set(FAULTS)
    assert min(fault.start for fault in faults) >= START + DAY_S / 2
    assert not machine.kernel[[fault.process for fault in faults]].any()


@pytest.mark.slow
def test_what_is_judged_is_what_a_task_tells() -> None:
    settings = [parse_assignment("gaussian.false_alarms=40/day")]
    (wired, *_) = wire(read_settings(environ={}, flags=settings))
    task, watcher = Task(wired, Partition("laggard.counters", 0)), Watcher(settings)
    told: list[tuple[float, str]] = []
    for number, tick in enumerate(Machine(TINY, 0.5, 2).ticks()):
        for scope, layout, values in (("process", tick.layout, tick.values), ("host", HOST_LAYOUT, tick.host)):
            frame = Frame("host", "h", scope, tick.ts, 2 * number + (scope == "host"), layout, values)
            watcher.publish([frame])
            task.process(Incoming(task.partition, task.position, "h", encode(frame), tick.ts))
            # What lasts has an onset.
            told += [(tick.ts, scope) for each in task.outputs if isinstance(each, Anomaly) and isnan(each.onset_ts)]
            task.outputs.clear()
    verdict = judge(watcher.trace("tiny"), 40.0)
    assert told
    assert list(verdict.fired) == sorted(told)


def test_tables_count_incidents_and_days() -> None:
    ts = START + 60.0 * np.arange(2880.0)
    raw = np.full(2880, 5.0)
    raw[2000] = 400.0
    text = tables([Trace("one", START, 2.0, {"process": Raw(ts, raw), "host": Raw(ts, np.full(2880, 5.0))})], (1.0,))
    assert "| all | 0.50 (0.01 to 2.79) |" in text
    assert "| ... first hour | 0.00 (0.00 to 88.53) |" in text
    assert "| incidents from 08 to 12 h | 1 |" in text


def test_garwood_is_exact() -> None:
    assert garwood(0, 1.0) == pytest.approx((0.0, 3.689), abs=1e-3)
    assert garwood(10, 2.0) == pytest.approx((4.795 / 2, 18.39 / 2), abs=1e-3)


SMALL, MIDDLE = Kind("small", 50, 30.0, 2, 20.0), Kind("middle", 200, 30.0, 8, 60.0)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kinds", "days"),
    [pytest.param([SMALL], 2.0, marks=pytest.mark.slow), pytest.param([SMALL, MIDDLE], 5.0, marks=pytest.mark.long)],
    ids=["short", "long"],
)
def test_the_budget_is_kept_on_simulated_machines(kinds: list[Kind], days: float) -> None:
    traces = [simulate(kind, days, seed) for seed, kind in enumerate(kinds)]
    for budget in (1.0, 10.0):
        fired = sum(len(judge(trace, budget).fired) for trace in traces)
        wanted = len(kinds) * days * budget
        # One incident each may be spent at once.
        assert fired <= poisson.ppf(0.999, wanted + len(kinds)), (budget, fired)
        assert fired >= poisson.ppf(0.001, wanted / 5.0), (budget, fired)
