"""Events one by one, for what no well-behaved generator makes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from laggard.producers.trace.analysis import Analysis
from laggard.producers.trace.events import EVENT, NO_TEXT, Events, Flags, Kind, Texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.records import Request


class Rows:
    """Collects events.

    Args:
        flags: what each event has that names none.

    """

    def __init__(self, *, flags: int = Flags.KNOWN) -> None:
        self.texts = Texts()
        self.rows: list[tuple[int, ...]] = []
        self.flags = int(flags)

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

    def running(self, *names: str) -> None:
        """Threads 1, 2, ... on CPUs 0, 1, ..."""
        for cpu, name in enumerate(names):
            self(0, cpu, Kind.SWITCH, 0, cpu + 1, text=name)

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
