"""Diagnoses: the threads of a process by CPU use during an event, and the stacks of each.

A *diagnosis* is of one process and one event (S1, "Identifying Conditions of Interest"). Its phases are separate, so
that the stacks before and after a dip can be distinguished.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

Progress = Literal["opened", "extended", "closed"]
"""The progress of a diagnosis: it has its first samples, it has more, or it has ended."""

ThreadState = Literal["running", "blocked"]


@dataclass(frozen=True, slots=True)
class Location:
    """One function on a stack, with its known attributes.

    Attributes:
        function: its name; empty without a symbol.
        module: the file that it was mapped from (`/usr/lib/libc.so.6`), `[kernel]`, `[vdso]`; for interpreted code its
            source file; empty without a file, as for code that was generated at run time.
        offset: its offset in the module, in bytes; -1 if unknown. Without a module, the address.
        line: its line in the source; 0 if unknown.

    """

    function: str = ""
    module: str = ""
    offset: int = -1
    line: int = 0


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of a thread, and how often it was sampled.

    Attributes:
        locations: the innermost first; one if only the instruction pointer is known, none if nothing is.
        samples: the number of samples with this stack.
        state: whether the thread ran or was blocked.
        wait_channel: the kernel's function in which it was blocked (`futex_wait_queue`); empty if it ran.
        system_call: the name of its system call; empty outside of any.

    """

    locations: tuple[Location, ...]
    samples: int
    state: ThreadState = "running"
    wait_channel: str = ""
    system_call: str = ""


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """One thread over a phase.

    Attributes:
        tid: its id on the host.
        name: its own name.
        entry: the function in which it began, with its known attributes.
        first_ts: the first time at which it was seen in this phase, seconds since the Unix epoch.
        last_ts: the last time, likewise.
        user_s: CPU time in user mode between the two, in seconds.
        system_s: CPU time in kernel mode, likewise.
        samples: the number of its samples.
        stacks: its stacks, the most frequent first.

    """

    tid: int
    name: str
    entry: Location
    first_ts: float
    last_ts: float
    user_s: float
    system_s: float
    samples: int
    stacks: tuple[Stack, ...]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of high use, or the dip between two of them.

    Attributes:
        high: whether it is high use.
        begin_ts: seconds since the Unix epoch.
        end_ts: its end, likewise; the time of its last sample while it lasts.
        samples: the number of samples.
        threads: by CPU time, the greatest first.
        left_out: the number of threads with less use that were omitted to limit the size.

    """

    high: bool
    begin_ts: float
    end_ts: float
    samples: int
    threads: tuple[ThreadUse, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of one process during one event.

    Attributes:
        id: the id of the event: the same in all its records.
        progress: its progress; a later record of an id includes the earlier ones, within the bounds.
        host: the host of the process.
        ts: the time of this record, seconds since the Unix epoch.
        row: the id of the process in the frames of its host: `nginx[4711@99]`.
        name: the name of the process.
        pid: its id on the host.
        command: its command line; empty if it is not published.
        reason: the condition that began it: `cpu` (system-wide), `single_cpu`, `quota`, `io_pressure`,
            `memory_pressure`; `asked` if a person requested it.
        value: the measure of that condition when it began, as a ratio; NaN if there is none.
        threshold: the threshold that it exceeds, likewise.
        methods: the methods that found its stacks: `proc`, `perf`, `py-spy`, `eu-stack`, `jcmd`.
        notes: sentences on missing data and its reasons, and on the choice of methods.
        phases: in the order of time.
        sampler_cpu_s: CPU time of sampling, in seconds, including all helpers.
        stopped_s: the total time for which sampling stopped the process, in seconds.
        complete: false if it ended early: the process or the agent ended, or a bound was reached.

    """

    kind: ClassVar[str] = "diagnosis"

    id: str
    progress: Progress
    host: str
    ts: float
    row: str
    name: str
    pid: int
    command: str
    reason: str
    value: float = math.nan
    threshold: float = math.nan
    methods: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    phases: tuple[Phase, ...] = field(default_factory=tuple)
    sampler_cpu_s: float = 0.0
    stopped_s: float = 0.0
    complete: bool = True
