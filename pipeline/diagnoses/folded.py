"""Folded stacks: one line a stack, functions from the outermost in between semicolons, then how often it was found.

What `flamegraph.pl`, inferno and speedscope read (https://github.com/brendangregg/FlameGraph, "2. Fold stacks").
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from laggard.pipeline.diagnoses.stacks import frame_label, frames
from laggard.pipeline.explaining.explain import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.records.diagnosis import Diagnosis, Phase, ThreadUse


def folded(diagnosis: Diagnosis) -> Iterator[str]:
    """The lines, without their ends, sorted.

    Each begins with the process, the phase where there are several, the thread, and `[blocked]` where it did not run:
    what ran has the thread's functions right behind the thread.
    """
    found: Counter[str] = Counter()
    for number, phase in enumerate(diagnosis.phases, 1):
        several = [phase_label(phase, number)] if len(diagnosis.phases) > 1 else []
        for thread in phase.threads:
            for stack in thread.stacks:
                line = [diagnosis.name, *several, thread_label(thread), *map(frame_label, frames(stack))]
                found[_joined(line)] += stack.samples
    return (f"{line} {samples}" for line, samples in sorted(found.items()))


def phase_label(phase: Phase, number: int) -> str:
    """`phase 1`, or `dip 2`."""
    return f"{'phase' if phase.high else 'dip'} {number}"


def thread_label(thread: ThreadUse) -> str:
    """`worker (4712)`."""
    return f"{thread.name or 'thread'} ({thread.tid})"


def _joined(names: Sequence[str]) -> str:
    """A line has no place for what separates: a semicolon in a name becomes a colon, as in perf's `stackcollapse`."""
    return ";".join(printable(each).replace(";", ":") for each in names)
