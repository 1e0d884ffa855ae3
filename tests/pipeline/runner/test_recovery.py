"""Stop or die anywhere and come back: what is on the bus in the end is what an undisturbed run leaves there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from laggard.pipeline.member import Pace
from tests.pipeline.runner.conftest import (
    NEVER,
    Result,
    append,
    drain,
    result,
    runner,
    stop,
    stream,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.pipeline.bus.embedded import EmbeddedBus
    from laggard.pipeline.records import Frame, Mark

LENGTH = 40
RECORDS = stream(LENGTH)

Variant = dict[str, Any]


def undisturbed(bus: EmbeddedBus, records: Sequence[Frame | Mark | bytes] = RECORDS, **options: Any) -> Result:
    append(bus, records)
    one = runner(bus, **options)
    drain(one, bus)
    stop(one)
    return result(bus)


def test_the_stream_has_everything_in_it(bus: EmbeddedBus) -> None:
    append(bus, RECORDS)
    one = runner(bus)
    drain(one, bus)
    (telemetry,) = one.telemetry.tasks()
    assert telemetry.records == LENGTH
    assert telemetry.duplicates > 1
    assert telemetry.late > 1
    assert telemetry.anomalies > 1
    assert telemetry.dead_letters > telemetry.late + 5
    assert telemetry.snapshots > 6
    reasons = b" ".join(dict(headers).get("laggard-reason", b"") for *_, headers in result(bus).outputs)
    for reason in (b"late", b"not scored", b"not learned", b"expected a MessagePack map"):
        assert reason in reasons


@pytest.mark.parametrize(
    "options", [{}, {"max_keys": 2}, {"pace": Pace(0.0, 5, 5)}], ids=["plain", "evicting", "fives"]
)
@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "died"])
def test_any_interruption_leaves_no_trace(
    new_bus: Callable[[], EmbeddedBus], options: dict[str, Any], *, clean: bool
) -> None:
    want = undisturbed(new_bus(), **options)
    records_at_once = options.get("pace", Pace(0.0, 1, 1)).poll_records
    for steps in range(1, LENGTH // records_at_once + 2):
        with new_bus() as other:
            append(other, RECORDS)
            one = runner(other, **options)
            for _ in range(steps):
                one.step(NEVER)
            if clean:
                stop(one)
            two = runner(other, **options)
            drain(two, other)
            stop(two)
            got = result(other)
        assert got.outputs == want.outputs, steps
        assert got.states == want.states, steps
        assert got.committed == want.committed
