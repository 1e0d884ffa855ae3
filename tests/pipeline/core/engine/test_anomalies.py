"""Anomalies: what they open with, that they go with the state, and that nothing which is not live opens one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from laggard.operators.calibration import QUIET_S
from laggard.pipeline.alarms.anomalies import Anomalies, OpenAnomaly
from laggard.pipeline.core.engine.snapshots import BASE_KEY, decode_state, encode_state
from laggard.pipeline.core.engine.stage import REPLAY_HEADER
from laggard.pipeline.core.engine.telemetry import Telemetry
from laggard.pipeline.core.records import Frame, Mark
from laggard.pipeline.core.records.outputs import Anomaly
from laggard.pipeline.metrics.exporter import Exporter
from laggard.pipeline.scoring.observers import Observer
from laggard.pipeline.scoring.task import Task
from tests.pipeline.core.engine.conftest import INPUT, NEVER, WIRED, append, at, drain, frame, record, runner, stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from laggard.operators.contract import Scores
    from laggard.pipeline.core.bus import Snapshot
    from laggard.pipeline.core.bus.embedded import EmbeddedBus

CALM_TICKS = math.ceil(QUIET_S / 20.0) + 1  # a tick of these frames is 20 s
STEADY = [frame("h1", tick, 5.0) for tick in range(3)]
SPIKE = frame("h1", 3, 25.0)


class Seen(Observer):
    """Remembers what was scored last, and the marks."""

    def __init__(self) -> None:
        self.anomalies = Anomalies()
        self.score = math.nan
        self.marks: list[str] = []

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:
        self.anomalies, self.score = anomalies, scores.score

    def marked(self, operator: str, mark: Mark) -> None:
        self.marks.append(mark.note)


def new_task(**options: Any) -> tuple[Task, Seen]:
    seen = Seen()
    return Task(WIRED, INPUT, snapshot_records=1000, observers=[seen], **options), seen


def give(one: Task, records: Iterable[Frame | Mark], headers: tuple[tuple[str, bytes], ...] = ()) -> None:
    for offset, each in enumerate(records, start=one.position):
        one.process(replace(record(each, offset), headers=headers))


def test_an_anomaly_opens_and_closes() -> None:
    one, seen = new_task()
    give(one, STEADY)
    assert seen.anomalies == Anomalies(0, ())
    give(one, [SPIKE])
    (anomaly,) = [output for output in one.outputs if isinstance(output, Anomaly)]
    assert seen.anomalies == Anomalies(
        1, (OpenAnomaly(anomaly.id, at(3), True, "a[1]", "a", "cpu_ratio", 25.0, 8.0, 1.0),)
    )
    ticks = range(4, 4 + 40)
    give(one, [frame("h1", tick, 11.0) for tick in ticks[:CALM_TICKS]])
    assert seen.anomalies == Anomalies(1, ())
    give(one, [frame("h1", tick, 80.0) for tick in ticks[CALM_TICKS : CALM_TICKS + 1]])
    assert seen.anomalies.opened == 2
    assert [each.ts for each in seen.anomalies.live] == [at(4 + CALM_TICKS)]


def test_an_anomaly_that_goes_on_keeps_what_it_opened_with_and_its_worst_value() -> None:
    one, seen = new_task()
    give(one, [*STEADY, SPIKE])
    (opened,) = seen.anomalies.live
    give(one, [frame("h1", 4, 90.0), frame("h1", 5, 60.0)])
    assert seen.score > 1.0
    assert seen.anomalies == Anomalies(1, (opened._replace(value=90.0),))


def test_what_is_not_live_opens_nothing() -> None:
    one, seen = new_task(live=False)
    give(one, [*STEADY, SPIKE, Mark("h1", at(3), "slow", 10)])
    assert (seen.anomalies.opened, seen.anomalies.live, seen.marks) == (0, (), [])
    assert [output.live for output in one.outputs if isinstance(output, Anomaly)] == [False]
    one, seen = new_task()
    give(one, STEADY)
    give(one, [SPIKE, Mark("h1", at(3), "slow", 10)], ((REPLAY_HEADER, b""),))
    assert (seen.anomalies.opened, seen.anomalies.live, seen.marks) == (0, (), [])
    # The trigger has fired on it, and fires again only after it was calm.
    give(one, [frame("h1", 4, 90.0), Mark("h1", at(4), "slower", 11), Mark("h1", at(4), "slower", 11)])
    assert (seen.anomalies.opened, seen.anomalies.live, seen.marks) == (0, (), ["slower"])


def test_records_replayed_for_a_recovery_are_not_shown_but_open_what_they_opened() -> None:
    one, seen = new_task()
    records: list[Frame | Mark] = [*STEADY, SPIKE, Mark("h1", at(3), "slow", 10)]
    one.replay(record(each, offset) for offset, each in enumerate(records))
    assert (seen.anomalies, seen.marks) == (Anomalies(), [])
    give(one, [frame("h1", 4, 60.0)])
    assert (seen.anomalies.opened, [each.ts for each in seen.anomalies.live]) == (1, [at(3)])


def saved(one: Task) -> Sequence[Snapshot]:
    one.states.save_all(one.position)
    return one.states.take(one.position)


def loaded(snapshots: Sequence[Snapshot], position: int) -> tuple[Task, Seen]:
    one, seen = new_task()
    found = one.states.load(snapshots)
    assert (found.damaged, found.migrated) == ({}, 0)
    one.states.loaded(position)
    one.position = position
    return one, seen


@pytest.mark.parametrize("ticks", [3, 4, 5, 4 + CALM_TICKS])
def test_a_state_that_was_restored_has_the_same_anomalies(ticks: int) -> None:
    records = [*STEADY, SPIKE, *(frame("h1", tick, 11.0) for tick in range(4, 60))]
    whole, seen = new_task()
    give(whole, records[: ticks + 1])
    part, _ = new_task()
    give(part, records[:ticks])
    other, other_seen = loaded(saved(part), ticks)
    give(other, records[ticks : ticks + 1])
    assert other_seen.anomalies == seen.anomalies
    assert [one.value for one in saved(other)] == [one.value for one in saved(whole)]


def test_an_older_laggards_state_has_its_anomaly_open() -> None:
    """Before there were anomalies, a state said only that the trigger had fired."""
    one, _ = new_task()
    give(one, [*STEADY, SPIKE])

    def older(snapshot: Snapshot) -> Snapshot:
        if snapshot.key == BASE_KEY:
            return snapshot
        state = decode_state(snapshot.value, "here")
        assert state["streams"]["process"].pop("incidents")["opened"] == 1
        return replace(snapshot, value=encode_state(state))

    two, seen = loaded([older(each) for each in saved(one)], 4)
    give(two, [frame("h1", 4, 60.0)])
    assert [each[:6] for each in seen.anomalies.live] == [("", at(3), True, "", "", "")]
    give(two, [frame("h1", tick, 18.0) for tick in range(5, 5 + CALM_TICKS)])
    assert seen.anomalies == Anomalies(0, ())


def shown(exporter: Exporter) -> dict[str, tuple[dict[str, str], float]]:
    """The metrics of what an operator opens: labels and value, by their name."""
    registry = CollectorRegistry()
    registry.register(exporter)
    return {
        sample.name.removeprefix("laggard_"): (sample.labels, sample.value)
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
        if sample.name.startswith(("laggard_anomaly_", "laggard_anomalies_open"))
    }


@pytest.mark.parametrize("clean", [True, False])
def test_a_worker_that_takes_over_shows_the_anomaly_that_is_open(bus: EmbeddedBus, clean: bool) -> None:
    append(bus, [*STEADY, SPIKE])
    first = Exporter(Telemetry(), 3)
    one = runner(bus, observers=[first])
    drain(one, bus)
    before = shown(first)
    which = {"host": "h1", "operator": "drift", "scope": "process"}
    assert before["anomalies_open"] == (which, 1.0)
    assert before["anomaly_start_timestamp_seconds"] == ({**which, "row": "a", "feature": "cpu_ratio"}, at(3))
    if clean:
        stop(one)
    second = Exporter(Telemetry(), 3)
    two = runner(bus, observers=[second])
    two.step(NEVER)
    assert shown(second) == {}
    append(bus, [frame("h1", 4, 24.0)])
    drain(two, bus)
    after = shown(second)
    assert after.pop("anomaly_score")[1] < before.pop("anomaly_score")[1]
    assert after == before
    stop(two)
