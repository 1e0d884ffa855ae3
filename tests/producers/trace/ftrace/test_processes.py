"""Which process a thread is of, whatever is known when."""

from __future__ import annotations

import numpy as np
import pytest

from laggard.producers.trace.events import EVENT, Kind
from laggard.producers.trace.ftrace.processes import Processes

Step = tuple[Kind, int, int, int]  # kind, thread, a, b

STEPS: list[Step] = [
    (Kind.FORK, 10, 11, 0),  # a thread of 10
    (Kind.FORK, 11, 12, 0),  # whose thread starts another
    (Kind.FORK, 12, 20, 20),  # and that one a process
    (Kind.FORK, 20, 21, 0),
    (Kind.NAMED, 21, 21, 0),
    (Kind.EXIT, 21, 0, 0),
    (Kind.NAMED, 21, 21, 0),  # gone
    (Kind.NAMED, 10, 12, 0),  # by another thread
    (Kind.FORK, 99, 100, 0),  # of somebody unknown
    (Kind.NAMED, 99, 99, 90),  # told after all
    (Kind.FORK, 99, 101, 0),
]


@pytest.mark.parametrize("pieces", [1, 4, len(STEPS)])
def test_threads_follow_who_started_them(pieces: int) -> None:
    rows = np.zeros(len(STEPS), EVENT)
    for name, column in zip(("kind", "tid", "a", "b"), zip(*STEPS, strict=True), strict=True):
        rows[name] = column
    processes = Processes({10: 10})
    parts = np.array_split(rows, pieces)
    for part in parts:
        processes.fill(part)
    assert np.concatenate(parts)["b"].tolist() == [10, 10, 20, 20, 20, 0, 0, 10, 0, 90, 90]


def test_nothing_starts() -> None:
    rows = np.zeros(3, EVENT)
    rows["kind"], rows["b"] = Kind.SWITCH, 7
    Processes({}).fill(rows)
    assert rows["b"].tolist() == [7, 7, 7]
