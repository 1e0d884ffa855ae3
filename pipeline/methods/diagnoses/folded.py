"""Folded stacks: one line for each stack, with its functions from the outermost on, separated by semicolons, and count.

`flamegraph.pl`, inferno and speedscope read them (https://github.com/brendangregg/FlameGraph, "2. Fold stacks").
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.methods.diagnoses.stacks import frame_label, frames

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.pipeline.core.records.diagnosis import Diagnosis, Phase, ThreadUse


def folded(diagnosis: Diagnosis) -> Iterator[str]:
    """Return the sorted lines, without line ends.

    Each begins with the process, the phase if there are several, the thread, and `[blocked]` if the thread was blocked.
    Then the functions follow.
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
    """Return the name of a phase: `phase 1`, or `dip 2`."""
    return f"{'phase' if phase.high else 'dip'} {number}"


def thread_label(thread: ThreadUse) -> str:
    """Return the name and id of a thread: `worker (4712)`."""
    return f"{thread.name or 'thread'} ({thread.tid})"


def _joined(names: Sequence[str]) -> str:
    """Return the names as a line. Semicolons in names become colons, as in perf's `stackcollapse`."""
    return ";".join(printable(each).replace(";", ":") for each in names)
