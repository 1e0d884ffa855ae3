"""What system calls do to a process's descriptors, and who holds which lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.trace import calls
from laggard.producers.trace.calls import Does

if TYPE_CHECKING:
    from laggard.producers.trace.threads import Thread

MAX_LOCKS: Final = 16_384
"""Whose holder is known at once: where releases are missed, the oldest are forgotten."""

LOCKING: Final = int(Does.FLOCK | Does.FCNTL)
_MAKING: Final = int(Does.OPENS | Does.DUPLICATE)
CHANGING: Final = int(LOCKING | _MAKING | Does.CLOSE | Does.CONNECTS)
"""What `Holders.changed` is to be told of."""


class Holders:
    """Who holds the locks of files, by their paths."""

    def __init__(self) -> None:
        self._locks: dict[str, Thread] = {}

    def of(self, path: str) -> Thread | None:
        """Who holds it, if anybody is known to."""
        return self._locks.get(path)

    def forget(self, thread: Thread | None = None) -> None:
        """A thread holds nothing any more; or nothing is known of any."""
        kept = {} if thread is None else {on: holder for on, holder in self._locks.items() if holder is not thread}
        if len(kept) < len(self._locks):
            self._locks = kept

    def changed(self, thread: Thread, result: int) -> None:
        """A thread comes back from a system call that opens, closes, connects, locks or unlocks."""
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
            # Whether fcntl(2) locks or unlocks is behind a pointer: a process that held it when it asked unlocks it.
            unlocks = holder is not None and holder.process is thread.process
        if unlocks and holder is not None:
            self._given_back(on, holder)
            return
        self._locks.pop(on, None)
        self._locks[on] = thread
        if len(self._locks) > MAX_LOCKS:
            del self._locks[next(iter(self._locks))]

    def _given_back(self, on: str, thread: Thread) -> None:
        """If nobody else has it by now: who waited may be told of before the one who held it is."""
        if self._locks.get(on) is thread:
            del self._locks[on]
