"""Which thread ran on a CPU: by columns, against a plain loop over the events."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from laggard.producers.trace.ctf.running import Running
from laggard.producers.trace.ctf.translation import blank
from laggard.producers.trace.events import Kind

UNKNOWN = -1

KINDS = (Kind.SWITCH, Kind.WAKE, Kind.LOST, Kind.BEGIN, Kind.NAMED)


def slowly(rows: list[tuple[Kind, int, int, int]], batches: list[int]) -> list[int]:
    """The same, one event after the other; what comes next is looked for in the same batch only."""
    now: dict[int, int] = {}
    found = []
    ends = np.cumsum(batches)
    for index, (kind, cpu, tid, comes) in enumerate(rows):
        if kind is Kind.SWITCH:
            now[cpu] = comes
            found.append(tid)
            continue
        if kind is Kind.LOST:
            now[cpu] = UNKNOWN
            found.append(tid)
            continue
        running = now.get(cpu, UNKNOWN)
        if running == UNKNOWN:
            end = int(ends[np.searchsorted(ends, index, "right")])
            for later, other, left, _ in rows[index:end]:
                if other == cpu and later in (Kind.SWITCH, Kind.LOST):
                    running = left if later is Kind.SWITCH else UNKNOWN
                    break
        told = tid != UNKNOWN and not (kind is Kind.BEGIN and running > 0)
        found.append(tid if told else running)
    return found


@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(0, 2), st.sampled_from([UNKNOWN, 5, 6]), st.integers(0, 3)),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 40),
)
def test_threads_are_filled_in_as_a_loop_does(rows, size):
    # A switch always says which thread leaves; a gap has no thread.
    rows = [
        (kind, cpu, 0 if kind is Kind.SWITCH and tid == UNKNOWN else UNKNOWN if kind is Kind.LOST else tid, comes)
        for kind, cpu, tid, comes in rows
    ]
    running = Running()
    found = []
    sizes = []
    for at in range(0, len(rows), size):
        batch = rows[at : at + size]
        events = blank(len(batch))
        for column, values in zip(("kind", "cpu", "tid", "a"), zip(*batch, strict=True), strict=True):
            events[column] = values
        running.fill(events)
        found += events["tid"].tolist()
        sizes.append(len(batch))

    assert found == slowly(rows, sizes)


def test_after_a_gap_the_thread_is_known_from_the_next_switch():
    events = blank(5)
    events["kind"] = [Kind.SWITCH, Kind.WAKE, Kind.LOST, Kind.WAKE, Kind.SWITCH]
    events["tid"][[0, 4]], events["a"][[0, 4]] = [1, 3], [2, 4]

    Running().fill(events)

    assert events["tid"].tolist() == [1, 2, UNKNOWN, 3, 3]
