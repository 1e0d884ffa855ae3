"""Stop or die anywhere and come back: what is on the bus in the end is what an undisturbed run leaves there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from laggard.operators.gaussian import Gaussian
from laggard.pipeline.core.engine.committer import Pace
from laggard.pipeline.core.engine.recovery import Recovery
from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.scoring.observers import Observer
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.scoring.wired import Wired
from tests.pipeline.core.engine.conftest import (
    INPUT,
    NEVER,
    WIRED,
    Result,
    append,
    drain,
    record,
    result,
    runner,
    stop,
    stream,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.operators.contract import Scores
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.core.bus import Incoming
    from laggard.pipeline.core.bus.embedded import EmbeddedBus
    from laggard.pipeline.core.records import Mark

LENGTH = 28
LONG = 50

PLAIN: dict[str, Any] = {}
EVICTING: dict[str, Any] = {"max_keys": 2}
FIVES: dict[str, Any] = {"pace": Pace(commit_s=0.0, commit_records=5, poll_records=5)}


def undisturbed(bus: EmbeddedBus, records: Sequence[Frame | Mark | bytes], **options: Any) -> Result:
    append(bus, records)
    one = runner(bus, **options)
    drain(one, bus)
    stop(one)
    return result(bus)


def test_the_stream_has_everything_in_it(bus: EmbeddedBus) -> None:
    append(bus, stream(LENGTH))
    one = runner(bus)
    drain(one, bus)
    (telemetry,) = one.telemetry.tasks()
    assert telemetry.records == LENGTH
    assert telemetry.duplicates > 0
    assert telemetry.late > 0
    assert telemetry.anomalies > 0
    assert telemetry.snapshots > 3
    reasons = b" ".join(dict(headers).get("laggard-reason", b"") for *_, headers in result(bus).outputs)
    for reason in (b"late", b"not scored", b"not learned", b"expected a MessagePack map"):
        assert reason in reasons


@pytest.mark.parametrize(
    ("length", "options", "clean"),
    [
        pytest.param(LENGTH, PLAIN, False, id="died"),
        pytest.param(LENGTH, PLAIN, True, id="stopped", marks=pytest.mark.slow),
        pytest.param(LENGTH, EVICTING, False, id="evicting-died"),
        pytest.param(LONG, PLAIN, False, id="long-died", marks=pytest.mark.slow),
        pytest.param(LONG, EVICTING, False, id="long-evicting-died", marks=pytest.mark.slow),
        pytest.param(LONG, EVICTING, True, id="long-evicting-stopped", marks=pytest.mark.slow),
        pytest.param(LONG, FIVES, False, id="long-fives-died", marks=pytest.mark.slow),
        pytest.param(LONG, FIVES, True, id="long-fives-stopped", marks=pytest.mark.slow),
    ],
)
def test_any_interruption_leaves_no_trace(
    new_bus: Callable[[], EmbeddedBus], length: int, options: dict[str, Any], *, clean: bool
) -> None:
    records = stream(length)
    want = undisturbed(new_bus(), records, **options)
    at_once = options.get("pace", Pace(0.0, 1, 1)).poll_records
    for steps in range(1, -(-length // at_once) + 2):
        with new_bus() as bus:
            append(bus, records)
            one = runner(bus, **options)
            for _ in range(steps):
                one.step(NEVER)
            if clean:
                stop(one)
            two = runner(bus, **options)
            drain(two, bus)
            stop(two)
            got = result(bus)
        assert got.outputs == want.outputs, steps
        assert got.states == want.states, steps
        assert got.committed == want.committed == length


def gaussian_records(ticks: int) -> list[Incoming]:
    """Frames whose rows come, go for longer than the context, and come back; now and then a value is missing."""
    noise = np.random.default_rng(1)
    features = [f"feature_{number}" for number in range(6)]
    records = []
    names: list[str] = []
    for tick in range(ticks):
        now = ["a[1]", "b[2]", "c[3]"] + ["d[4]"] * (not 20 <= tick < 60) + ["e[5]"] * (tick % 40 < 10)
        if now != names:
            names = now
            layout = make_layout(names, [name.partition("[")[0] for name in names], features)
        values = noise.normal(5.0, 1.0, (len(names), len(features)))
        values[noise.random(values.shape) < 0.05] = np.nan
        values[0] += 100.0 * (tick % 50 == 45)
        records.append(record(Frame("host", "h1", "process", 1000.0 + 5.0 * tick, tick, layout, values), tick))
    return records


@pytest.mark.slow
def test_gaussian_is_the_same_wherever_it_was_written_down_and_read_back() -> None:
    wired = Wired(
        "gaussian", COUNTERS, ("process",), lambda: Gaussian(context_s=100.0, minimum_features=2, spare_rows=5), 1, {}
    )
    records = gaussian_records(100)

    def through(cut: int) -> tuple[bytes, list[float]]:
        one = Task(wired, INPUT, snapshot_records=1000)
        scores = Scored()
        for each in records:
            if each.offset == cut:
                one.states.save_all(one.position)
                saved = one.states.take(one.position)
                one = Task(wired, INPUT, snapshot_records=1000)
                assert not one.states.load(saved).damaged
                one.states.loaded(one.position)
            one._observers = [scores]
            one.process(each)
        one.states.save_all(one.position)
        return one.states.take(one.position)[0].value, scores.seen

    want = through(-1)
    assert len(set(want[1])) > len(records) // 2
    for cut in range(1, len(records), 3):
        assert through(cut) == want, cut


class Scored(Observer):
    """Remembers scores alone."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:
        self.seen.append(scores.score)

    def received(self, frame: Frame) -> None:
        raise AssertionError("every frame is wanted")


def test_offsets_may_have_holes_up_to_where_was_committed(bus: EmbeddedBus) -> None:
    """As at the end of a transaction: what follows goes on behind them, though what is older is deleted meanwhile."""
    append(bus, stream(LENGTH))
    one = Recovery(bus, Task(WIRED, INPUT))
    assert one.advance(LENGTH + 2, lambda: False)
    assert one.position == LENGTH + 2
