"""The counts of a phase: the use of each thread, and the functions of each thread and of all together."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.core.records.diagnosis import Location, Phase, Stack, ThreadState, ThreadUse


@dataclass(frozen=True, slots=True)
class Spot:
    """One function in which threads ran, or were blocked.

    Attributes:
        state: whether they ran, or were blocked.
        share: its share of all weights, from 0 to 1.
        location: the innermost function, at its most frequent place; None if unknown.
        callers: its callers there, the nearest first.
        places: the number of places in this function, or in this module if it has no symbols.
        wait_channel: the kernel's function that they were blocked in, as in `Stack`.
        system_call: their system call, likewise.

    """

    state: ThreadState
    share: float
    location: Location | None
    callers: tuple[Location, ...] = ()
    places: int = 1
    wait_channel: str = ""
    system_call: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """The use of one thread in a phase.

    Attributes:
        thread: the thread.
        share: its CPU time per length of the phase, in cores, so that it compares with threads of other lifetimes. NaN
            if the phase has no length.
        spots: its functions, the most frequent first, with shares of its samples.

    """

    thread: ThreadUse
    share: float
    spots: tuple[Spot, ...]


def cpu_s(thread: ThreadUse) -> float:
    """Return the CPU time of a thread in a phase, in seconds."""
    return thread.user_s + thread.system_s


def uses(phase: Phase) -> list[Use]:
    """Return the recorded threads of a phase, that with most CPU time first."""
    length_s = phase.end_ts - phase.begin_ts
    return [
        Use(each, cpu_s(each) / length_s if length_s > 0.0 else math.nan, spots((stack, 1.0) for stack in each.stacks))
        for each in sorted(phase.threads, key=lambda each: (-cpu_s(each), each.tid))
    ]


def together(phases: Iterable[Phase]) -> tuple[Spot, ...]:
    """Return the functions that used the CPU time of all threads, the hottest first.

    The CPU time of a thread is divided among its running functions by their samples. The kernel's CPU times are more
    exact than counts of samples, which differ from thread to thread.
    """
    weighted: list[tuple[Stack, float]] = []
    for phase in phases:
        for thread in phase.threads:
            running = [each for each in thread.stacks if each.state == "running"]
            total = sum(each.samples for each in running)
            weighted += [(each, cpu_s(thread) / total) for each in running if total]
    return spots(weighted)


def spots(stacks: Iterable[tuple[Stack, float]]) -> tuple[Spot, ...]:
    """Group stacks by function, the largest weight first.

    Args:
        stacks: the stacks, each with the weight of one of its samples.

    """
    found: defaultdict[tuple[str, ...], list[tuple[float, Stack]]] = defaultdict(list)
    for stack, weight in stacks:
        found[_where(stack)].append((stack.samples * weight, stack))
    weights = {where: sum(weight for weight, _ in each) for where, each in found.items()}
    total = sum(weights.values())
    if total <= 0.0:
        return ()
    ordered = sorted(found, key=lambda where: (-weights[where], where))
    return tuple(_spot(found[where], weights[where] / total) for where in ordered)


def _spot(stacks: list[tuple[float, Stack]], share: float) -> Spot:
    most = max(stacks, key=lambda each: each[0])[1]
    blocked = most.state == "blocked"
    return Spot(
        most.state,
        share,
        most.locations[0] if most.locations else None,
        most.locations[1:],
        len({each.locations[:1] for _, each in stacks}),
        most.wait_channel if blocked else "",
        most.system_call if blocked else "",
    )


def _where(stack: Stack) -> tuple[str, ...]:
    """Return the group of a stack: its state and innermost function, and the kernel's place if it is blocked."""
    waits = (stack.wait_channel, stack.system_call) if stack.state == "blocked" else ()
    inner = stack.locations[0] if stack.locations else None
    # Code without symbols is grouped by module, since the offsets of one function differ from sample to sample.
    return stack.state, *waits, *(() if inner is None else (inner.function, inner.module))
