"""The interface between a session and its profilers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.core.records.diagnosis import Location, ThreadState


class ProfilerError(Exception):
    """A profiler cannot work on this process: what, why, and what to do about it, in one sentence."""


class Unsuited(str):
    """The reason that a profiler is not for this kind of process. Reported only if that profiler was requested."""

    __slots__ = ()


class Sample(NamedTuple):
    """One observation of one thread.

    Attributes:
        ts: seconds since the Unix epoch.
        tid: the id of the thread on the host (not the one in its own pid namespace).
        locations: the innermost first; empty if only its state is known.
        state: whether it ran, or was blocked.
        wait_channel: the function of the kernel in which it was blocked; empty if it ran, or if unknown.
        system_call: the name of the system call that it was in; empty likewise.

    """

    ts: float
    tid: int
    locations: tuple[Location, ...]
    state: ThreadState
    wait_channel: str = ""
    system_call: str = ""


class Profiler(Protocol):
    """Finds what the threads of one process execute. It may run as a child process.

    Its caller limits its time and CPU time: it may be stopped at any moment, and started again.
    """

    @property
    def name(self) -> str:
        """The name as in `Diagnosis.methods`: `perf`, `py-spy`, `eu-stack`, `jcmd`."""

    @property
    def cpu_s(self) -> float:
        """The CPU time so far of the processes that it started, in seconds, over all of its starts.

        The caller counts the CPU time of the calling thread.
        """

    @property
    def stopped_s(self) -> float:
        """The total time for which it has stopped the process, in seconds."""

    @property
    def covered_s(self) -> float:
        """The total time that its results so far cover, in seconds: those of a run count when `take` returns them."""

    @property
    def notes(self) -> Sequence[str]:
        """The gaps in its results, and the reasons, in plain words."""

    def start(self) -> None:
        """Start, or start again after a `stop`.

        Raises:
            ProfilerError: it cannot start.

        """

    def take(self) -> Sequence[Sample]:
        """Return all samples since the last call. Does not wait for more.

        Raises:
            ProfilerError: it ended by itself, and not because the process did.

        """

    def stop(self) -> Sequence[Sample]:
        """Stop, and return the remaining samples. Always leaves the process running; a second call has no effect."""


class Method(Protocol):
    """The interface of the module of a profiler (`perf.py`, `pyspy.py`, ...).

    Attributes:
        NAME: the name of its profilers.
        STOPS: whether it stops the process to sample it. Such a profiler is used only if no other can be, and not while
            a thread of the process is in uninterruptible sleep.

    """

    @property
    def NAME(self) -> str: ...  # noqa: D102, N802 - a module's constant
    @property
    def STOPS(self) -> bool: ...  # noqa: D102, N802 - a module's constant

    def available(self, pid: int) -> str:
        """Return why it cannot be used on this process, in words; empty if it can. Cheap, changes nothing."""

    def attach(self, pid: int) -> Profiler:
        """Return a profiler of this process, not yet started."""
