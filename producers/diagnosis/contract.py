"""What a session asks of a profiler, and a profiler of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.pipeline.records.diagnosis import Location, ThreadState


class ProfilerError(Exception):
    """A profiler cannot do its work on this process: what, why, and what to do about it, in one sentence."""


class Unsuited(str):
    """Why a profiler cannot be used: the process is not of its kind. No news where nobody asked for that profiler."""

    __slots__ = ()


class Sample(NamedTuple):
    """What one thread was found at, once.

    Attributes:
        ts: when, seconds since the Unix epoch.
        tid: which one, by its id on the host (not the one in its own pid namespace).
        locations: the innermost first; empty where only its state is known.
        state: whether it ran, or was blocked.
        wait_channel: the kernel's function in which it was blocked; empty where it ran, or where that is not known.
        system_call: the name of the system call that it was in; empty likewise.

    """

    ts: float
    tid: int
    locations: tuple[Location, ...]
    state: ThreadState
    wait_channel: str = ""
    system_call: str = ""


class Profiler(Protocol):
    """Finds what the threads of one process execute. May run beside us as a child process.

    Who drives it bounds it, in time and in CPU time: it may be stopped at any moment, and started again.
    """

    @property
    def name(self) -> str:
        """As in `Diagnosis.methods`: `perf`, `py-spy`, `eu-stack`, `jcmd`."""

    @property
    def cpu_s(self) -> float:
        """CPU time that it took so far, in seconds: of the processes that it started, over all of its starts.

        What it takes of the calling thread is counted by who calls it.
        """

    @property
    def stopped_s(self) -> float:
        """For how long it had the process stopped so far, in seconds, in sum."""

    @property
    def notes(self) -> Sequence[str]:
        """In plain words, what it could not tell, and why."""

    def start(self) -> None:
        """Begin, or begin again after a `stop`.

        Raises:
            ProfilerError: it cannot.

        """

    def take(self) -> Sequence[Sample]:
        """All that came since it was asked last. Does not wait for what is not there yet.

        Raises:
            ProfilerError: it ended by itself, and not because the process did.

        """

    def stop(self) -> Sequence[Sample]:
        """End, and give the rest. Always leaves the process running; asked again, does nothing."""


class Method(Protocol):
    """What the module of a profiler has (`perf.py`, `pyspy.py`, ...): a module is one of these.

    Attributes:
        NAME: of its profilers.
        STOPS: whether the process stands still while it looks. Such a one is used where nothing else can be, and not
            while a thread of the process sleeps uninterruptibly.

    """

    @property
    def NAME(self) -> str: ...  # noqa: D102, N802 - a module's constant
    @property
    def STOPS(self) -> bool: ...  # noqa: D102, N802 - a module's constant

    def available(self, pid: int) -> str:
        """Why it cannot be used on this process, in words; empty where it can. Cheap, changes nothing."""

    def attach(self, pid: int) -> Profiler:
        """A profiler of this process, not yet started."""
