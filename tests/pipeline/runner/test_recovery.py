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
        pytest.param(LENGTH, PLAIN, True, id="stopped"),
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
