"""The CTF traces of one host, for example LTTng's of the kernel and of programs, as one stream of events."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

import numpy as np

from laggard.producers.trace.ctf.columns import Columns
from laggard.producers.trace.ctf.layouts import UnreadableError
from laggard.producers.trace.ctf.running import Running
from laggard.producers.trace.ctf.streams import FOREVER_NS, History, Packet, Stream
from laggard.producers.trace.ctf.translation import BOUNDARIES, Boundary, Translation, blank
from laggard.producers.trace.errors import TraceError
from laggard.producers.trace.events import EVENT, Events, Kind, Texts
from laggard.producers.trace.problems import Problems

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from laggard.producers.trace.ctf.decoding import Decoder
    from laggard.producers.trace.ctf.types import Metadata

METADATA: Final = "metadata"

_BATCH: Final = 1 << 16

_LATER_THAN_BOOT_NS: Final = 10**18
"""No machine runs for 31 years: later times are times of day, as perf writes them on request."""


class CtfTrace:
    """The traces that one host recorded together.

    LTTng puts that of the kernel and those of programs into separate folders, each with its metadata. If they use the
    same clock, its values are compared directly, otherwise by their times of day.

    Parameters:
        folders: each folder with streams, and its metadata.
        boundaries: pairs of a program's events that bound requests, in addition to the known ones.

    Attributes:
        host: the name of the host; empty if unknown.
        wall_offset_s: the offset from the time of the events to seconds since the Unix epoch.

    Raises:
        TraceError: there is no readable trace.

    """

    def __init__(self, folders: Mapping[Path, Metadata], boundaries: Sequence[Boundary] = ()) -> None:
        self._told = Problems()
        self._translation = Translation((*boundaries, *BOUNDARIES))
        self.host = ""
        streams: list[Stream] = []
        self._histories: dict[Hashable, History] = {}
        for folder, metadata in folders.items():
            self.host = self.host or host_of(metadata)
            names = metadata.names()
            if {"sched_waking", "sched:sched_waking"} & names:
                self._translation.has_waking = True
            elif {"sched_wakeup", "sched:sched_wakeup"} & names:
                self._told.count("sched_waking was not recorded: wakers of threads on other CPUs may be wrong", folder)
            decoders: dict[int, Decoder] = {}
            for path in _streams(folder):
                stream = self._opened(path, metadata, decoders)
                if stream is not None and stream.begins_ns is not None:
                    streams.append(stream)
        if not streams:
            raise TraceError(next(iter(folders)), "the CTF trace has no events" + self._why())
        reference = next((stream for stream in streams if _is_dated(stream)), streams[0])
        self.wall_offset_s = reference.clock.offset_ns / 1e9
        self._parts = [(stream, self._ahead(stream, reference)) for stream in streams]
        self._texts = Texts()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems of its parts so far."""
        return self._told.warnings

    def _why(self) -> str:
        return "".join(f"; {warning}" for warning in self._told.warnings)

    def _ahead(self, stream: Stream, reference: Stream) -> int:
        """Return the nanoseconds from a stream's times to those of the reference."""
        if not _is_dated(stream):
            what = "taken as the monotonic clock" if _is_dated(reference) else "requests are dated since boot"
            self._told.count(f"its clock is not the time of day: {what}", stream.path.parent, times=0)
            return 0
        same = stream.clock.unique and stream.clock.unique == reference.clock.unique
        return 0 if same else stream.clock.offset_ns - reference.clock.offset_ns

    def _opened(self, path: Path, metadata: Metadata, decoders: dict[int, Decoder]) -> Stream | None:
        try:
            return Stream(path, metadata, decoders, self._told, self._histories)
        except TraceError as error:
            self._told.count(error.problem, error.place)
        except UnreadableError as error:
            self._told.count(f"cannot be read: {error}", path)
        return None

    def __iter__(self) -> Iterator[Events]:
        """Yield all events, in the order of time; once."""
        running = Running()
        queue = [(self._begins(index), index) for index in range(len(self._parts))]
        heapq.heapify(queue)
        waiting: list[NDArray[np.void]] = []
        size = 0
        last_ns = -(1 << 62)
        while queue:
            _, index = heapq.heappop(queue)
            stream, ahead = self._parts[index]
            rows = self._rows(stream.read(), ahead)
            if len(rows):
                waiting.append(rows)
                size += len(rows)
            if stream.begins_ns is not None:
                heapq.heappush(queue, (self._begins(index), index))
            until = queue[0][0] if queue else 1 << 62
            if size >= _BATCH or not queue:
                batch, waiting = _taken(waiting, until)
                size = sum(len(each) for each in waiting)
                if len(batch):
                    if batch["ts"][0] < last_ns:
                        self._told.count("a packet begins after its first events: these are moved to a later time")
                        batch["ts"] = np.maximum(batch["ts"], last_ns)
                    last_ns = int(batch["ts"][-1])
                    running.fill(batch)
                    yield Events(batch, self._texts)

    def _begins(self, index: int) -> int:
        stream, ahead = self._parts[index]
        begin = stream.begins_ns
        assert begin is not None
        return begin + ahead

    def _rows(self, packet: Packet, ahead: int) -> NDArray[np.void]:
        """Return the events of a packet, in the order of time."""
        every = np.zeros(len(packet.ts), EVENT)
        ts = packet.ts + ahead
        extras: list[tuple[NDArray[np.intp], NDArray[np.void]]] = []
        for group in packet.groups:
            columns = Columns(group, packet.window, self._texts)
            rows, more = self._translation.events(columns, ts[group.at], packet.cpu)
            every[group.at] = rows
            extras += [(group.at[which], found) for which, found in more]
        valid = np.flatnonzero(every["kind"])
        places, parts = [valid * 2], [every[valid]]
        for at, found in extras:
            places.append(at * 2 + 1)
            parts.append(found)
        rows = np.concatenate(parts)
        if extras:
            rows = rows[np.argsort(np.concatenate(places), kind="stable")]
        if packet.gaps:
            gaps = blank(len(packet.gaps))
            gaps["kind"], gaps["cpu"] = Kind.LOST, packet.cpu
            for row, gap in zip(gaps, packet.gaps, strict=True):
                row["a"], row["b"], row["c"] = gap.begin_ns + ahead, gap.end_ns + ahead, gap.lost
                row["ts"] = row["b"]
                if gap.end_ns == FOREVER_NS:
                    # At its start, so that later events on other CPUs are not trusted.
                    row["ts"], row["b"] = row["a"], FOREVER_NS
            rows = np.concatenate([rows, gaps])
            rows = rows[np.argsort(rows["ts"], kind="stable")]
        return rows


def _is_dated(stream: Stream) -> bool:
    """Return whether the times of a stream are, or can be made, times of day: those of perf only on request."""
    return bool(stream.clock.offset_ns) or (stream.begins_ns or 0) >= _LATER_THAN_BOOT_NS


def host_of(metadata: Metadata) -> str:
    """Return the name of the host by LTTng or perf; empty if unknown."""
    name = metadata.environment.get("hostname") or metadata.environment.get("host", "")
    return "".join(filter(str.isprintable, name))


def _streams(folder: Path) -> list[Path]:
    """Return the files of a trace except its metadata."""
    try:
        return sorted(
            path for path in folder.iterdir() if path.is_file() and path.name != METADATA and path.name[0] != "."
        )
    except OSError as error:
        raise TraceError(folder, f"cannot be read: {error.strerror}") from error


def _taken(waiting: Sequence[NDArray[np.void]], until: int) -> tuple[NDArray[np.void], list[NDArray[np.void]]]:
    """Return the events before a time, in the order of time, and the rest."""
    ready, rest = [], []
    for rows in waiting:
        end = int(np.searchsorted(rows["ts"], until, "left"))
        ready.append(rows[:end])
        if end < len(rows):
            rest.append(rows[end:])
    batch = np.concatenate(ready) if ready else np.zeros(0, EVENT)
    return batch[np.argsort(batch["ts"], kind="stable")], rest
