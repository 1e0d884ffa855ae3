"""Events one by one, for what no well-behaved generator makes."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.events import EVENT, NO_TEXT, Events, Flags, Kind, Texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laggard.pipeline.core.records import Request


class Rows:
    """Collects events.

    Args:
        names: of threads 1, 2, ... that run on CPUs 0, 1, ...
        flags: what each event has that names none.

    """

    def __init__(self, *names: str, flags: int = Flags.KNOWN) -> None:
        self.texts = Texts()
        self.rows: list[tuple[int, ...]] = []
        self.flags = int(flags)
        self.names = names
        for cpu, name in enumerate(names):
            self(0, cpu, Kind.SWITCH, 0, cpu + 1, text=name)

    def __call__(
        self,
        ts: int,
        cpu: int,
        kind: Kind,
        tid: int,
        *numbers: int,
        text: str = "",
        flags: int | None = None,
        host: str = "",
    ) -> None:
        """An event; the numbers are `a`, `b` and `c`."""
        place = self.texts.place(text) if text else NO_TEXT
        of = self.texts.place(host) if host else NO_TEXT
        a, b, c = (*numbers, 0, 0, 0)[:3]
        self.rows.append((ts, cpu, kind, self.flags if flags is None else flags, tid, a, b, c, place, of))

    def call(self, begin: int, end: int, cpu: int, tid: int, name: str, *numbers: int, result: int = 0) -> None:
        """A system call; the numbers are its own and its first arguments."""
        number, *arguments = numbers or (0,)
        self(begin, cpu, Kind.SYSCALL_ENTER, tid, number, *arguments, text=name)
        self(end, cpu, Kind.SYSCALL_EXIT, tid, number, result, text=name)

    @contextmanager
    def waiting(self, call: str, *numbers: int, state: int = 1, result: int = 0) -> Iterator[None]:
        """Thread 1 serves a request from 10 to 110 and sleeps in a call from 30 to 90; what happens is sorted by time.

        The numbers are the call's own and its first arguments.
        """
        number, *arguments = numbers or (0,)
        begun = len(self.rows)
        self(10, 0, Kind.BEGIN, 1, text="shop\tGET /")
        self(20, 0, Kind.SYSCALL_ENTER, 1, number, *arguments, text=call)
        self(30, 0, Kind.SWITCH, 1, 0, 0, state)
        yield
        self(90, 0, Kind.SWITCH, 0, 1, text=self.names[0])
        self(95, 0, Kind.SYSCALL_EXIT, 1, number, result, text=call)
        self(110, 0, Kind.END, 1)
        self.rows[begun:] = sorted(self.rows[begun:], key=itemgetter(0))

    def batch(self) -> Events:
        return Events(np.array(self.rows, EVENT), self.texts)

    def analysed(self, analysis: Analysis | None = None) -> list[Request]:
        analysis = analysis or Analysis()
        found = analysis.feed(self.batch())
        return found + analysis.finish()

    def one(self) -> Request:
        """The only request, whose times sum to its duration."""
        [request] = self.analysed()
        total = round(request.duration_s * 1e9)
        assert sum(nanoseconds(request.times_s).values()) == sum(nanoseconds(request.critical_s).values()) == total
        return request

    def sets(self) -> tuple[Counter[str], Counter[str]]:
        """Nanoseconds of its local and critical set."""
        request = self.one()
        return nanoseconds(request.times_s), nanoseconds(request.critical_s)


def nanoseconds(times_s: Mapping[str, float]) -> Counter[str]:
    return Counter({state: round(seconds * 1e9) for state, seconds in times_s.items()})
