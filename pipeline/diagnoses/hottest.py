"""What a phase says, counted: how much each thread used, and in which functions it and all of them together were."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laggard.pipeline.records.diagnosis import Location, Phase, Stack, ThreadState, ThreadUse


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a thread, or several, was found: one function that runs, or one in which it is blocked.

    Attributes:
        state: whether it ran there, or was blocked.
        share: of what was looked at, from 0 to 1.
        location: the innermost function, at the place that was found most often; None where none is known.
        callers: of it there, the nearest first.
        places: how many different ones were found in this function, or in this module where it has no symbols.
        wait_channel: the kernel's function that it was blocked in, as `Stack` has it.
        system_call: likewise.

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
    """What one thread used in a phase.

    Attributes:
        thread: itself.
        share: CPU time per time, in cores; over the phase, so that threads that lived shorter compare. NaN where the
            phase has no length.
        spots: where it was, the most frequent first; shares of its samples.

    """

    thread: ThreadUse
    share: float
    spots: tuple[Spot, ...]


def cpu_s(thread: ThreadUse) -> float:
    """CPU time in a phase, in seconds."""
    return thread.user_s + thread.system_s


def uses(phase: Phase) -> list[Use]:
    """Its threads, that with most CPU time first; those that are left out are not there."""
    length_s = phase.end_ts - phase.begin_ts
    return [
        Use(each, cpu_s(each) / length_s if length_s > 0.0 else math.nan, spots((stack, 1.0) for stack in each.stacks))
        for each in sorted(phase.threads, key=lambda each: (-cpu_s(each), each.tid))
    ]


def together(phases: Iterable[Phase]) -> tuple[Spot, ...]:
    """Where the CPU time of all threads went, the most first.

    The CPU time of a thread is shared out among the functions that it was found running in, by how often: a clock of
    the kernel says more than a count of samples, which differ from thread to thread.
    """
    weighted: list[tuple[Stack, float]] = []
    for phase in phases:
        for thread in phase.threads:
            running = [each for each in thread.stacks if each.state == "running"]
            total = sum(each.samples for each in running)
            weighted += [(each, cpu_s(thread) / total) for each in running if total]
    return spots(weighted)


def spots(stacks: Iterable[tuple[Stack, float]]) -> tuple[Spot, ...]:
    """Stacks by where they are, the most weight first.

    Args:
        stacks: each with the weight of one of its samples.

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
    """What stacks have in common that are told as one: the innermost function; of blocked ones what they wait in."""
    waits = (stack.wait_channel, stack.system_call) if stack.state == "blocked" else ()
    inner = stack.locations[0] if stack.locations else None
    # What has no symbols is told by its module: the offsets of one function differ from sample to sample.
    return stack.state, *waits, *(() if inner is None else (inner.function, inner.module))
