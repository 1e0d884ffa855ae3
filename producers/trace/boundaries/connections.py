"""Requests as connections to a port: from a thread's first read or write there to the close.

This fits services with one request per connection. It is wrong if a connection is reused, or if a thread serves many at
once: use a marker or a probe there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.trace.events import EVENT, NO_TEXT, Events, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laggard.producers.trace.events import Texts

# Numbers of system calls on x86-64.
_ACCEPTS: Final = (43, 288)  # accept, accept4
_READS: Final = (0, 19, 45, 47, 299)  # read, readv, recvfrom, recvmsg, recvmmsg
_WRITES: Final = (1, 20, 40, 44, 46, 307)  # write, writev, sendfile, sendto, sendmsg, sendmmsg
_CLOSES: Final = (3, 48)  # close, shutdown
_ALL: Final = (*_ACCEPTS, *_READS, *_WRITES, *_CLOSES)
_KINDS: Final = (Kind.NAMED, Kind.FORK, Kind.OPENED, Kind.EXIT)

_Row = tuple[int, int, int, int, int, int, int, int, int, int]
_Descriptor = tuple[int, int]  # process and descriptor


class Connections:
    """Adds `BEGIN` and `END` of connections to the events of one host's trace.

    A connection begins a request on the thread that first gets data from it, or first writes. Accepting it is not
    enough, since the client may not have sent a request by then. The number of the request is the descriptor's.

    Args:
        services: the services of the requests, by port.

    """

    def __init__(self, services: Mapping[int, str]) -> None:
        self._services = dict(services)
        self._processes: dict[int, int] = {}
        self._listening: dict[_Descriptor, int] = {}  # ports
        self._accepted: dict[_Descriptor, int] = {}
        self._begun: dict[_Descriptor, int] = {}  # threads
        self._inside: dict[int, tuple[int, int]] = {}  # by thread: number of the call, and its descriptor
        self._boundaries: list[tuple[int, int, Kind, int, int, int]] = []
        self._told: Mapping[int, Callable[[_Row, Texts], None]] = {
            Kind.NAMED: self._named,
            Kind.FORK: self._forked,
            Kind.OPENED: self._opened,
            Kind.EXIT: self._ended,
            Kind.SYSCALL_ENTER: self._entered,
            Kind.SYSCALL_EXIT: self._left,
        }

    def add(self, batch: Events) -> Events:
        """Return a batch with its boundaries; batches must come in the order of time."""
        rows = batch.events
        kinds, numbers = rows["kind"], rows["a"]
        calls = (kinds == Kind.SYSCALL_ENTER) | (kinds == Kind.SYSCALL_EXIT)
        wanted = (calls & np.isin(numbers, _ALL)) | np.isin(kinds, _KINDS)
        for row in rows[wanted].tolist():
            self._told[row[2]](row, batch.texts)
        if not self._boundaries:
            return batch
        found = np.zeros(len(self._boundaries), EVENT)
        found["host"] = NO_TEXT
        columns = zip(*self._boundaries, strict=True)
        for name, column in zip(("ts", "cpu", "kind", "tid", "a", "text"), columns, strict=True):
            found[name] = column
        self._boundaries.clear()
        # At the same instant, the call's own event is first: a request that begins with its end does not include it.
        merged = np.concatenate([rows, found])
        return Events(merged[np.argsort(merged["ts"], kind="stable")], batch.texts)

    def _named(self, row: _Row, texts: Texts) -> None:  # noqa: ARG002 - the common signature
        if row[6]:
            self._processes[row[5]] = row[6]

    def _forked(self, row: _Row, texts: Texts) -> None:  # noqa: ARG002
        parent, child, process = row[4], row[5], row[6]
        self._processes[child] = process
        if process != child:
            return
        owner = self._processes.get(parent, parent)
        for table in (self._listening, self._accepted):
            table.update({(child, number): port for (one, number), port in table.items() if one == owner})

    def _opened(self, row: _Row, texts: Texts) -> None:
        process, number = self._of(row[4], row[5])
        port = texts[row[8]].rpartition(":")[2]
        if port.isdigit() and int(port) in self._services:
            self._listening[process, number] = int(port)
        else:
            self._listening.pop((process, number), None)

    def _ended(self, row: _Row, texts: Texts) -> None:
        thread = row[4]
        process = self._processes.pop(thread, thread)
        self._inside.pop(thread, None)
        if process == thread:
            for key in [key for key in (*self._listening, *self._accepted) if key[0] == process]:
                self._listening.pop(key, None)
                self._close(row, key, texts)

    def _entered(self, row: _Row, texts: Texts) -> None:
        ts, cpu, _, _, thread, number, descriptor, *_ = row
        key = self._of(thread, descriptor)
        if number in _ACCEPTS and key in self._listening:
            self._inside[thread] = number, descriptor
        elif key in self._accepted:
            if number in _CLOSES:
                self._close(row, key, texts)
            elif number in _READS:
                self._inside[thread] = number, descriptor
            elif key not in self._begun:
                self._begin(ts, cpu, thread, key, texts)

    def _left(self, row: _Row, texts: Texts) -> None:
        ts, cpu, _, _, thread, number, result, *_ = row
        inside, descriptor = self._inside.pop(thread, (-1, -1))
        if inside != number:
            return
        key = self._of(thread, descriptor)
        if number in _ACCEPTS:
            if result >= 0:
                self._accepted[key[0], result] = self._listening[key]
                self._begun.pop((key[0], result), None)
        elif result > 0 and key in self._accepted and key not in self._begun:
            self._begin(ts, cpu, thread, key, texts)

    def _begin(self, ts: int, cpu: int, thread: int, key: _Descriptor, texts: Texts) -> None:
        self._begun[key] = thread
        place = texts.place(f"{self._services[self._accepted[key]]}\t")
        self._boundaries.append((ts, cpu, Kind.BEGIN, thread, key[1], place))

    def _close(self, row: _Row, key: _Descriptor, texts: Texts) -> None:  # noqa: ARG002
        self._accepted.pop(key, None)
        thread = self._begun.pop(key, None)
        if thread is not None:
            # On the thread of the start, whichever thread closes.
            self._boundaries.append((row[0], row[1], Kind.END, thread, key[1], NO_TEXT))

    def _of(self, thread: int, descriptor: int) -> _Descriptor:
        return self._processes.get(thread, thread), descriptor
