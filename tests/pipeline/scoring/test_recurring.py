"""Work that comes again: it is reported twice, and is normal the third time; its other behavior is still reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from laggard.pipeline.core.records import Frame, make_layout
from laggard.pipeline.core.records.outputs import Anomaly
from laggard.pipeline.scoring.task import Task
from tests.pipeline.core.engine.conftest import INPUT, told
from tests.pipeline.scoring.test_lasting import BEGIN, USUAL, WIRED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOUR_S: Final = 3600.0
NAMES: Final = ("nginx", "report", "dump")
FEATURES: Final = ("cpu_user_ratio", "io_write_bytes_per_s", "memory_rss_bytes")
JOB: Final = np.array([[0.8, 2e7, 2e8]])


def frames(
    period_s: float, lengths_s: Sequence[float], times: Sequence[float], tick_s: float = 15.0
) -> Iterator[Frame]:
    """A machine on which a new process of one name runs once in each period, for `lengths_s`, with `times` the job."""
    random = np.random.default_rng(1)
    begins = [(number + 0.5) * period_s + random.uniform(-60.0, 60.0) for number in range(len(lengths_s))]
    for tick in range(int(len(lengths_s) * period_s / tick_s)):
        at, names, rows = tick * tick_s, list(NAMES), [f"{name}[{place}]" for place, name in enumerate(NAMES)]
        values = random.normal(USUAL, USUAL * [0.1, 0.1, 2e-4])
        for number, (begin, length_s, more) in enumerate(zip(begins, lengths_s, times, strict=True)):
            if begin <= at < begin + length_s:
                names.append("backup")
                rows.append(f"backup[{100 + number}]")
                values = np.vstack([values, random.normal(more * JOB, JOB * [0.1, 0.1, 1e-3])])
        yield Frame("host", "web-1", "process", BEGIN + at, tick, make_layout(rows, names, FEATURES), np.abs(values))


def rounds(period_s: float, given: Iterator[Frame]) -> list[int]:
    """The rounds in which anomalies were told; all of them are about the job."""
    found = [
        each for each in told(Task(WIRED, INPUT, snapshot_records=1_000_000), [*given]) if isinstance(each, Anomaly)
    ]
    assert {each.blame.name for each in found if each.blame} <= {"backup"}
    return sorted({int((each.ts - BEGIN) // period_s) for each in found})


# Shorter than the shortest window, of a length between two of them, and almost as long as the longest.
@pytest.mark.parametrize("minutes", [3.0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1.0, 10.0, 25.0))])
def test_it_is_usual_the_third_time(minutes: float) -> None:
    lengths_s = [minutes * 60.0 * more for more in (1.0, 0.9, 1.1, 0.8, 1.1)]
    assert rounds(HOUR_S, frames(HOUR_S, lengths_s, [1.0, 1.1, 0.9, 1.1, 1.0])) == [0, 1]


@pytest.mark.slow
def test_so_it_is_when_it_comes_once_a_night() -> None:
    assert rounds(24 * HOUR_S, frames(24 * HOUR_S, [1800.0] * 4, [1.0, 1.2, 0.9, 1.1], tick_s=60.0)) == [0, 1]


def test_it_is_told_when_it_takes_far_more() -> None:
    assert rounds(HOUR_S, frames(HOUR_S, [180.0] * 5, [1.0, 1.0, 1.0, 1.0, 20.0])) == [0, 1, 4]
