"""A diagnosis in plain words: the activity of the process, the time of and reason for sampling it, and the cost.

Text from the process (names, functions) is escaped.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from laggard.pipeline.explaining.explain import LONGEST_COMMAND, printable, shortened
from laggard.pipeline.explaining.units import readable, readable_duration
from laggard.pipeline.history.report import clock, moment
from laggard.pipeline.methods.diagnoses.hottest import cpu_s, together, uses
from laggard.pipeline.methods.diagnoses.stacks import KERNEL, label, place
from laggard.pipeline.methods.diagnoses.waits import suffers, waits_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.records.diagnosis import Diagnosis, Location, Phase, ThreadUse
    from laggard.pipeline.methods.diagnoses.hottest import Spot

REASONS: Final[Mapping[str, str]] = {
    "cpu": "it used {} of all CPUs",
    "single_cpu": "it used {} of one core",
    "quota": "its CPU quota held it back {} of the time",
    "io_pressure": "tasks waited for I/O {} of the time",
    "memory_pressure": "tasks waited for memory {} of the time",
}
"""Clauses on why a process was sampled, by `Diagnosis.reason`."""

ASKED: Final = "asked"
"""The reason of a diagnosis on request."""

IDLE: Final = 0.05
"""Cores: below this use, the waits of a process say more than its running functions."""

ALONE: Final = 0.95
"""A thread with at least this share of the use of all threads has "nearly all of it"."""


BRIEFLY_S: Final = 10.0
"""Durations from this one on are shown in whole seconds."""

UNKNOWN_FUNCTIONS: Final = "unknown functions"
"""The text for the place of a running thread that no method could find."""


def sentence(diagnosis: Diagnosis) -> str:
    """Return the activity of the process in one sentence; of several phases, that with most CPU time."""
    seen = [phase for phase in diagnosis.phases if phase.threads]
    if not seen:
        return f"What {subject(diagnosis)} did is unknown: there are no samples."
    when = ""
    most = max(seen, key=lambda phase: sum(map(cpu_s, phase.threads)))
    if len(diagnosis.phases) > 1:
        when = f"From {clock(most.begin_ts)} to {clock(most.end_ts)} "
    return f"{when}{subject(diagnosis)} {did(most)}."


def subject(diagnosis: Diagnosis) -> str:
    """Return the name, pid and command of the process: `` `hog` (pid 4711, `python3 hog.py`) ``."""
    name, command = printable(diagnosis.name), shortened(printable(diagnosis.command), LONGEST_COMMAND)
    return f"`{name}` (pid {diagnosis.pid}{f', `{command}`' if command and command != name else ''})"


def did(phase: Phase) -> str:
    """Return the activity in a phase: ``used 97 % of one core, 92 % of it in `compute` (hot.py:12)``."""
    threads = uses(phase)
    used = sum(each.share for each in threads)
    text = f"used {percent(used)} of one core" if math.isfinite(used) else "was seen for a moment"
    hot = together((phase,))
    if used >= IDLE and hot:
        part = percent(hot[0].share) if percent(hot[0].share) != percent(1.0) else "all"
        text += f", {part} of it in {located(hot[0])}"
        if len(threads) > 1:
            first = threads[0]
            most = "nearly all of it" if first.share >= ALONE * used else f"most, {percent(first.share)}"
            text += f"; of {len(threads) + phase.left_out:,} threads {thread(first.thread)} used {most}"
        return text
    waiting = [(spot.share * each.thread.samples, each, spot) for each in threads for spot in each.spots if waits(spot)]
    if not waiting:
        return text
    _, who, spot = max(waiting, key=lambda each: (suffers(each[2].wait_channel), each[0]))
    text += f"; {thread(who.thread) if len(threads) > 1 else 'it'} was {blocked(spot)}"
    return f"{text}, in {percent(spot.share)} of its samples"


def looked(diagnosis: Diagnosis) -> str:
    """Return the time and number of samples, the methods, and the reason, as a sentence."""
    phases = diagnosis.phases
    text = f"Profiled at {moment(diagnosis.ts)}"
    if phases:
        begin, end = phases[0].begin_ts, phases[-1].end_ts
        text = f"Profiled from {moment(begin)} to {clock(end)} ({lasted(end - begin)})"
    text += f", {times(sum(phase.samples for phase in phases))}"
    if diagnosis.methods:
        text += f", with {', '.join(map(printable, diagnosis.methods))}"
    if diagnosis.reason != ASKED:
        known = REASONS.get(diagnosis.reason)
        why = known.replace("{}", percent(diagnosis.value)) if known else f"of {printable(diagnosis.reason)}"
        text += f", because {why}"
        if math.isfinite(diagnosis.threshold):
            text += f" (profiled from {percent(diagnosis.threshold)} on)"
    if diagnosis.progress != "closed":
        text += "; it goes on"
    elif not diagnosis.complete and diagnosis.reason != ASKED:
        text += "; cut short"
    return f"{text}."


def cost(diagnosis: Diagnosis) -> str:
    """Return the cost of sampling as a sentence."""
    text = f"Profiling took {readable('cpu_s', diagnosis.sampler_cpu_s)} of CPU time"
    length_s = diagnosis.phases[-1].end_ts - diagnosis.phases[0].begin_ts if diagnosis.phases else 0.0
    if length_s > 0.0:
        text += f", {percent(diagnosis.sampler_cpu_s / length_s)} of one core"
    stopped = readable("stopped_s", diagnosis.stopped_s)
    return f"{text}; the process was {f'stopped for {stopped} in all' if diagnosis.stopped_s else 'never stopped'}."


def thread(used: ThreadUse) -> str:
    """Return the name and id of a thread: `` `worker` (4712) ``."""
    return f"`{printable(used.name) or 'thread'}` ({used.tid})"


def located(spot: Spot, quote: str = "`") -> str:
    """Return the running function: `` `compute` (hot.py:12) ``, `` `libm.so.6+0x1d7b` and 4 other places there ``."""
    if spot.location is None:
        return UNKNOWN_FUNCTIONS
    text = function(spot.location, quote)
    if not spot.location.function and spot.places > 1:
        text += f" and {spot.places - 1:,} other {'place' if spot.places == 2 else 'places'} there"
    return text


def function(location: Location, quote: str = "`") -> str:
    """Return a function and its file or module."""
    where = printable(place(location))
    return f"{quote}{printable(label(location))}{quote}{f' ({where})' if where else ''}"


def waits(spot: Spot) -> bool:
    """Return whether a thread is blocked in a known function of the kernel or system call."""
    return spot.state == "blocked" and bool(spot.wait_channel or spot.system_call)


def blocked(spot: Spot, quote: str = "`") -> str:
    """Return where a thread is blocked: ``blocked in `futex_do_wait` (futex), waiting for another thread, or a lock``.

    Without a known function of the kernel or system call, it is the thread's own function.
    """
    # Without the suffix of the compiler: `poll_schedule_timeout.constprop.0`.
    inside = spot.wait_channel.partition(".")[0] or spot.system_call
    if not inside:
        return "blocked" if spot.location is None else f"blocked in {function(spot.location, quote)}"
    text = f"blocked in {quote}{printable(inside)}{quote}"
    if spot.system_call and spot.system_call != inside:
        text += f" ({printable(spot.system_call)})"
    return f"{text}, waiting {what}" if (what := waits_for(spot.wait_channel)) else text


def chain(spot: Spot) -> list[str]:
    """Return the callers, the nearest first. For blocked threads, `blocked` has the kernel functions instead."""
    if not waits(spot) or spot.location is None:
        return [printable(label(each)) for each in spot.callers]
    return [printable(label(each)) for each in (spot.location, *spot.callers) if each.module != KERNEL]


def lasted(length_s: float) -> str:
    """Return a duration as text: `450 ms`, `2.13 s`, `58 s`."""
    return readable("length_s", length_s) if length_s < BRIEFLY_S else readable_duration(length_s)


def times(samples: int) -> str:
    """Return the number of samples as text: `once`, `100 times`."""
    return "once" if samples == 1 else f"{samples:,} times"


def percent(ratio: float) -> str:
    """Return a ratio as a percentage: `97 %`."""
    return readable("_ratio", ratio)
