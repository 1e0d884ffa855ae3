"""What a process was doing while something was wrong: its threads by use, and what each of them executed.

A *diagnosis* is of one process and one event (S1, "Identifying Conditions of Interest"); its phases are kept apart, so
that what ran before a dip can be told from what ran after it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

Progress = Literal["opened", "extended", "closed"]
"""How far a diagnosis is: its first samples are there, there are more, it is complete."""

ThreadState = Literal["running", "blocked"]


@dataclass(frozen=True, slots=True)
class Location:
    """One function on a stack, as far as it is known.

    Attributes:
        function: its name; empty where there is no symbol.
        module: the file that it was mapped from (`/usr/lib/libc.so.6`), `[kernel]`, `[vdso]`; for interpreted code its
            source file; empty where it is in no file, as code that was made at run time.
        offset: in the module, in bytes; -1 where that is not known. Where there is no module, the address.
        line: in the source; 0 where that is not known.

    """

    function: str = ""
    module: str = ""
    offset: int = -1
    line: int = 0


@dataclass(frozen=True, slots=True)
class Stack:
    """What a thread was found at, and how often.

    Attributes:
        locations: the innermost first; one where only the instruction pointer is known, none where nothing is.
        samples: how many found it there.
        state: whether it ran, or was blocked.
        wait_channel: the kernel's function in which it was blocked (`futex_wait_queue`); empty where it ran.
        system_call: the name of the system call that it was in; empty where there was none.

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
        name: its own.
        entry: where it began, as far as it is known.
        first_ts: when it was seen first in this phase, seconds since the Unix epoch.
        last_ts: ... and last.
        user_s: CPU time in user mode between the two, in seconds.
        system_s: ... in kernel mode.
        samples: how often it was looked at.
        stacks: what it was found at, the most frequent first.

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
        end_ts: where it lasts, the time of its last sample.
        samples: how many were taken.
        threads: by CPU time, the greatest first.
        left_out: how many threads with less use are not there, for the bound on bytes.

    """

    high: bool
    begin_ts: float
    end_ts: float
    samples: int
    threads: tuple[ThreadUse, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What one process was doing during one event.

    Attributes:
        id: of the event: the same in all records of it.
        progress: how far it is; a later record of an id has all that an earlier one has, within the bounds.
        host: the machine's.
        ts: when this was told, seconds since the Unix epoch.
        row: of the process in its host's frames: `nginx[4711@99]`.
        name: of the process.
        pid: its id on the host.
        command: its command line; empty where that is not told.
        reason: which condition began it: `cpu` (system-wide), `single_cpu`, `quota`, `io_pressure`,
            `memory_pressure`; `asked` where a person did.
        value: the measure of that condition when it began, as a ratio; NaN where there is none.
        threshold: ... and what it is above.
        methods: what told what its threads executed: `proc`, `perf`, `py-spy`, `eu-stack`, `jcmd`.
        notes: in plain words, what is not there and why, and why these methods.
        phases: in the order of time.
        sampler_cpu_s: CPU time that taking the samples took, in seconds, of all helpers too.
        stopped_s: for how long the process was stopped for it, in seconds, in sum.
        complete: false where it ended early: the process ended, a bound was reached.

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
