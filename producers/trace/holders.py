"""The effects of system calls on the descriptors of a process, and the holders of file locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.trace import calls
from laggard.producers.trace.calls import Does

if TYPE_CHECKING:
    from laggard.producers.trace.threads import Thread

MAX_LOCKS: Final = 16_384
"""The most locks with a known holder. If releases are missed, the oldest are forgotten."""

LOCKING: Final = int(Does.FLOCK | Does.FCNTL)
_MAKING: Final = int(Does.OPENS | Does.DUPLICATE)
CHANGING: Final = int(LOCKING | _MAKING | Does.CLOSE | Does.CONNECTS)
"""The kinds of system calls that `Holders.changed` needs."""


class Holders:
    """The holders of file locks, by the paths of the files."""

    def __init__(self) -> None:
        self._locks: dict[str, Thread] = {}

    def of(self, path: str) -> Thread | None:
        """Return the holder of a lock, if known."""
        return self._locks.get(path)

    def forget(self, thread: Thread | None = None) -> None:
        """Forget the locks of a thread, or of all threads."""
        remaining = {} if thread is None else {on: holder for on, holder in self._locks.items() if holder is not thread}
        if len(remaining) < len(self._locks):
            self._locks = remaining

    def changed(self, thread: Thread, result: int) -> None:
        """Follow the return from a system call that opens, closes, connects, locks or unlocks."""
        if result < 0:
            return
        kinds, on, files = thread.kinds, thread.on, thread.process.files
        if kinds & Does.CLOSE:
            files.pop(thread.argument, None)
            self._given_back(on, thread)
        elif kinds & _MAKING or (kinds & Does.FCNTL and thread.second in calls.DUPLICATES):
            if on:
                files[result] = on
            else:
                files.pop(result, None)
        elif on:
            if kinds & Does.CONNECTS:
                files[thread.argument] = on
            elif kinds & Does.FLOCK or thread.second in calls.LOCKS:
                self._locks_or_not(on, thread)

    def _locks_or_not(self, on: str, thread: Thread) -> None:
        holder = thread.holder
        if thread.kinds & Does.FLOCK:
            unlocks, holder = bool(thread.second & calls.LOCK_UN), thread
        else:
            # Whether fcntl(2) locks or unlocks is behind a pointer: if the process held the lock at the call, it
            # unlocks.
            unlocks = holder is not None and holder.process is thread.process
        if unlocks and holder is not None:
            self._given_back(on, holder)
            return
        self._locks.pop(on, None)
        self._locks[on] = thread
        if len(self._locks) > MAX_LOCKS:
            del self._locks[next(iter(self._locks))]

    def _given_back(self, on: str, thread: Thread) -> None:
        """Release a lock, unless another thread has it by now: the waiter's event may come before the holder's."""
        if self._locks.get(on) is thread:
            del self._locks[on]
