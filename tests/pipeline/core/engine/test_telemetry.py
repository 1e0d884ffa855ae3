from __future__ import annotations

from laggard.pipeline.core.bus import Partition
from laggard.pipeline.core.engine.telemetry import Distribution, Example, Telemetry


def test_durations_are_counted_by_size() -> None:
    times = Distribution([0.1, 1.0])
    for seconds in (0.0, 0.1, 0.10001, 1.0, 7.0, -3.0):
        times.add(seconds)
    times.add(0.5, 10)
    assert times.counts == [3, 12, 1]
    assert round(times.total, 5) == 13.20001


def test_the_newest_record_of_each_size_is_its_example() -> None:
    times = Distribution([0.1, 1.0])
    times.add(0.5)
    assert times.examples == [None, None, None]
    for key, seconds in (("a", 0.05), ("b", 3.0), ("c", -1.0), ("d", 2.0)):
        times.add_record(key, 1000.0, seconds)
    assert times.counts == [2, 1, 2]
    assert times.examples == [Example("c", 1000.0, 0.0), None, Example("d", 1000.0, 2.0)]


def test_counters_go_on_and_gauges_do_not_when_a_task_goes_and_comes_back() -> None:
    telemetry = Telemetry()
    task = telemetry.task("gaussian", Partition("counters", 3))
    task.records, task.keys, task.lag_records, task.state_bytes = 7, 2, 5, 100
    task.lost()
    again = telemetry.task("gaussian", Partition("counters", 3))
    assert again is task
    assert (again.records, again.keys, again.lag_records, again.state_bytes) == (7, 0, 0, 0)
    telemetry.task("gaussian", Partition("counters", 4))
    assert [(one.operator, one.topic, one.partition) for one in telemetry.tasks()] == [
        ("gaussian", "counters", 3),
        ("gaussian", "counters", 4),
    ]
