"""The traces of several hosts merged into one, in the order of one of their clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from laggard.producers.trace.clocks import Difference, Packets, difference
from laggard.producers.trace.events import NO_TEXT, Events, Kind, Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

MAX_PACKETS: Final = 2_000_000
"""The most packets of each host and direction; the first ones are used to compare the clocks."""


class Trace(Protocol):
    """A readable trace.

    Attributes:
        host: its host; empty if unknown, or if the events have it.
        wall_offset_s: the offset from the time of the events to seconds since the Unix epoch.
        warnings: the problems of its parts, in words; complete after it was read to its end.

    """

    host: str
    wall_offset_s: float

    @property
    def warnings(self) -> Sequence[str]:
        """The problems of its parts."""

    def __iter__(self) -> Iterator[Events]:
        """Yield all events in the order of time; once."""


class Hosts:
    """The traces of several hosts, merged; the packets between them align their clocks.

    Parameters:
        hosts: opens the trace of each host, by its name; the events use the clock of the first one.

    Attributes:
        host: empty, since the events have it.
        wall_offset_s: the offset from the time of the events to seconds since the Unix epoch.
        differences: the difference of each other host's clock; None if it is from the time of day.

    """

    def __init__(self, hosts: Mapping[str, Callable[[], Trace]]) -> None:
        self.host = ""
        self.differences: dict[str, Difference | None] = {}
        self._warnings: list[str] = []
        self._traces = {name: opened() for name, opened in hosts.items()}
        reference = next(iter(hosts))
        self.wall_offset_s = self._traces[reference].wall_offset_s
        packets = {name: _packets(opened()) for name, opened in hosts.items()}
        self._corrections: dict[str, list[Difference]] = {reference: []}
        while True:
            best = self._nearest(packets)
            if best is None:
                break
            known, name, found = best
            self.differences[name] = found
            self._corrections[name] = [found, *self._corrections[known]]
            self._apply(known, name, found)
        for name in hosts:
            if name not in self._corrections:
                ahead = (self._traces[name].wall_offset_s - self.wall_offset_s) * 1e9
                self.differences[name] = None
                self._corrections[name] = [Difference(0, ahead, 0.0, np.inf, 0)]
                self._warnings.append(
                    f"{name}: no packets between it and {reference} were recorded by both: their clocks are not"
                    " aligned and may differ by milliseconds"
                )

    @property
    def warnings(self) -> Sequence[str]:
        """The problems of all hosts."""
        return [*self._warnings, *(warning for trace in self._traces.values() for warning in trace.warnings)]

    def __iter__(self) -> Iterator[Events]:
        """Yield all events, each with its host, in the order of the first host's clock; once."""
        texts = Texts()
        sources = {name: iter(trace) for name, trace in self._traces.items()}
        tables = {name: _Table(texts, texts.place(name)) for name in sources}
        reached = dict.fromkeys(sources, -(1 << 62))
        waiting: list[NDArray[np.void]] = []
        while reached:
            name = min(reached, key=lambda one: reached[one])
            batch = next(sources[name], None)
            if batch is None:
                del reached[name]
            elif len(batch.events):
                rows = tables[name].moved(batch)
                for found in self._corrections[name]:
                    for column in ("ts", "a", "b"):
                        # A gap's bounds are times too.
                        which = slice(None) if column == "ts" else rows["kind"] == Kind.LOST
                        rows[column][which] = found.corrected(rows[column][which])
                waiting.append(rows)
                reached[name] = int(rows["ts"][-1])
            until = min(reached.values(), default=1 << 62)
            ready = [rows[: np.searchsorted(rows["ts"], until, "left")] for rows in waiting]
            waiting = [rest for rows, taken in zip(waiting, ready, strict=True) if len(rest := rows[len(taken) :])]
            if any(map(len, ready)):
                merged = np.concatenate(ready)
                yield Events(merged[np.argsort(merged["ts"], kind="stable")], texts)

    def _nearest(self, packets: Mapping[str, Packets]) -> tuple[str, str, Difference] | None:
        """Return a known host and an unknown one with the best estimate of their difference; None without any."""
        best = None
        for known in self._corrections:
            for name in packets.keys() - self._corrections.keys():
                found = difference(packets[known], packets[name])
                if found is not None and (best is None or found.error_ns < best[2].error_ns):
                    best = known, name, found
        return best

    def _apply(self, known: str, name: str, estimate: Difference) -> None:
        if not np.isfinite(estimate.error_ns):
            self._warnings.append(
                f"{name}: packets between it and {known} were recorded in one direction only: the error of its clock is"
                " the travel time of a packet"
            )
        elif estimate.error_ns > 1e6:
            self._warnings.append(
                f"{name}: its clock is aligned with {known}'s to {estimate.error_ns / 1e6:,.1f} ms only"
            )


class _Table:
    """Maps the texts of a trace to the common table."""

    def __init__(self, texts: Texts, host: int) -> None:
        self._texts = texts
        self._host = host
        self._places = np.full(1, NO_TEXT, np.int32)  # the last one is for `NO_TEXT`, which is -1

    def moved(self, batch: Events) -> NDArray[np.void]:
        """Return the events with their host and the new places of their texts."""
        known = len(self._places) - 1
        new = [self._texts.place(text) for text in batch.texts.texts[known:]]
        if new:
            self._places = np.concatenate([self._places[:-1], np.array([*new, NO_TEXT], np.int32)])
        rows = batch.events.copy()
        rows["text"] = self._places[rows["text"]]
        rows["host"] = self._host
        return rows


def _packets(trace: Trace) -> Packets:
    """Read the packets of a trace."""
    found: dict[Kind, list[NDArray[np.void]]] = {Kind.NET_SEND: [], Kind.NET_RECEIVE: []}
    sizes = dict.fromkeys(found, 0)
    for batch in trace:
        for kind, parts in found.items():
            rows = batch.events[batch.events["kind"] == kind]
            if len(rows) and sizes[kind] < MAX_PACKETS:
                parts.append(rows[["ts", "a"]][: MAX_PACKETS - sizes[kind]].copy())
                sizes[kind] += len(parts[-1])
    sent, received = (
        (
            np.concatenate([part["a"] for part in parts]) if parts else np.zeros(0, np.int64),
            np.concatenate([part["ts"] for part in parts]) if parts else np.zeros(0, np.int64),
        )
        for parts in found.values()
    )
    return Packets(*sent, *received)
