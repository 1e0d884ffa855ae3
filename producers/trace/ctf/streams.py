"""A stream of a CTF trace: a file of packets, each with the events of one CPU, and its known gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from laggard.producers.trace.ctf.columns import Window
from laggard.producers.trace.ctf.decoding import PADDING, Decoder, Group
from laggard.producers.trace.ctf.layouts import Scope, UnreadableError, walking
from laggard.producers.trace.ctf.types import Clock, Integer, Metadata, StreamClass, Struct, Type
from laggard.producers.trace.errors import TraceError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from laggard.producers.trace.problems import Problems

PACKET_MAGIC: Final = 0xC1FC1FC1

_SECOND_NS: Final = 1_000_000_000
FOREVER_NS: Final = 1 << 62
"""The upper bound of all times and numbers, so that values of a damaged file fit into 64 bits."""

_MOST_CPUS: Final = 1 << 15
_LONGEST_HEAD: Final = 4 << 10


class Gap(NamedTuple):
    """A gap with missing events.

    Attributes:
        begin_ns: its start.
        end_ns: its end; `FOREVER_NS` if the rest of the stream is unreadable.
        lost: the number of missing events; 0 if unknown.

    """

    begin_ns: int
    end_ns: int
    lost: int


class Packet(NamedTuple):
    """The content of a packet.

    Attributes:
        cpu: the CPU of its events; -1 if unknown.
        ts: the times in nanoseconds of the stream's clock, never falling, shape (n,).
        groups: the events by class.
        window: the bytes that they are read from.
        gaps: the gaps before and in it.

    """

    cpu: int
    ts: NDArray[np.int64]
    groups: Sequence[Group]
    window: Window
    gaps: Sequence[Gap]


class _Head(NamedTuple):
    """A packet's own fields, and the places of its parts, in bytes."""

    stream: StreamClass
    fields: dict[str, Any]
    begin: int
    events: int
    content: int
    end: int


@dataclass(slots=True)
class History:
    """The state that the next packet of a CPU is compared with, even if LTTng's rotation put it into another file.

    Attributes:
        last_ns: the latest event's time.
        end_ns: the end of the last packet.
        discarded: the number of events that the recorder has discarded so far.
        sequence: the number of the last packet.

    """

    last_ns: int | None = None
    end_ns: int | None = None
    discarded: int = 0
    sequence: int | None = None


class Stream:
    """The packets of a file, one after the other.

    Parameters:
        path: the file.
        metadata: the metadata of the trace.
        decoders: one for each class of streams of the trace, created as needed.
        told: collects the problems.
        histories: the histories of the streams in all files of a host, by stream and CPU.

    Attributes:
        path: the file.
        clock: the clock of its times.

    Raises:
        TraceError: it is unreadable, or not a stream of this trace.

    """

    def __init__(
        self,
        path: Path,
        metadata: Metadata,
        decoders: dict[int, Decoder],
        told: Problems,
        histories: dict[Hashable, History] | None = None,
    ) -> None:
        self.path = path
        self._metadata = metadata
        self._decoders = decoders
        self._told = told
        try:
            with path.open("rb"):
                size = path.stat().st_size
        except OSError as error:
            raise TraceError(path, f"cannot be read: {error.strerror}") from error
        self._size = size
        self._scope: Scope = {}
        self._header = walking("", metadata.packet_header, {})
        self._at = 0
        self._history = History()
        self._histories = {} if histories is None else histories
        self.clock = Clock("")
        self._next = self._head() if size else None

    @property
    def begins_ns(self) -> int | None:
        """The start of the next packet."""
        if self._next is None:
            return None
        begin = self._next.fields.get("timestamp_begin")
        return self._ns(begin) if isinstance(begin, int) else -(1 << 62)

    def read(self) -> Packet:
        """Read the next packet."""
        head = self._next
        assert head is not None
        data = self._bytes(head.begin, min(head.end, self._size)) + bytes(PADDING)
        begin, end = head.events - head.begin, min(head.content - head.begin, len(data) - PADDING)
        found = self._decoders[head.stream.number].events(data, begin, end)
        instance = head.fields.get("stream_instance_id", self.path)
        key = self._metadata.unique, head.stream.number, instance, head.fields.get("cpu_id")
        self._history = self._histories.setdefault(key, self._history)
        window = Window(data)
        ts = self._times(head, found.groups, found.events, window)
        gaps = self._missing(head)
        cut = head.content - head.begin > end
        if found.problem or cut:
            problem = "the file ends within a packet" if cut else f"cannot read a packet to its end: {found.problem}"
            self._told.count(problem, self.path)
            since = int(ts[-1]) if len(ts) else self._begin(head)
            stop = head.fields.get("timestamp_end")
            until = max(since, self._ns(stop)) if isinstance(stop, int) else since
            gaps.append(Gap(since, FOREVER_NS if cut else until, 0))
        cpu = int(head.fields.get("cpu_id", -1))
        self._at = head.end
        self._next = self._head()
        if self._next is None and self._at != head.end and not cut:
            # The rest of this CPU is unknown.
            gaps.append(Gap(max(self._history.last_ns or 0, self._history.end_ns or 0), FOREVER_NS, 0))
        return Packet(cpu if cpu < _MOST_CPUS else -1, ts, found.groups, window, gaps)

    def _bytes(self, begin: int, end: int) -> bytes:
        """Read a part of the file, which is not kept open: there may be many, and not all are read to their end."""
        try:
            with self.path.open("rb") as file:
                file.seek(begin)
                return file.read(end - begin)
        except OSError as error:
            raise TraceError(self.path, f"cannot be read: {error.strerror}") from error

    def _head(self) -> _Head | None:
        """Read the head of the packet at the current place; None without a further one."""
        if self._at >= self._size:
            return None
        scope: Scope = {}
        window = self._bytes(self._at, self._at + _LONGEST_HEAD)
        try:
            bit = self._header(window, 0, scope)
            if scope.get("magic", PACKET_MAGIC) != PACKET_MAGIC:
                self._ends(
                    "expected a packet, found other data: the rest is skipped" if self._at else "is not a CTF stream"
                )
                return None
            stream = self._metadata.streams.get(scope.get("stream_id", next(iter(self._metadata.streams))))
            if stream is None:
                number = scope["stream_id"]
                self._ends(f"a packet of stream {number}, which the metadata does not define: the rest is skipped")
                return None
            if stream.number not in self._decoders:
                self._decoders[stream.number] = Decoder(stream)
            bit = self._decoders[stream.number].packet(window, bit, scope)
        except (IndexError, UnreadableError) as error:
            why = str(error) or "the file ends within it"
            self._ends(f"cannot read a packet's header, the rest is skipped: {why}")
            return None
        rest = (self._size - self._at) * 8
        packet_bits = int(scope.get("packet_size", rest))
        content = int(scope.get("content_size", packet_bits))
        if not bit <= content <= packet_bits or packet_bits % 8:
            # LTTng leaves such a packet if the machine stops while it is being written.
            self._ends("a packet is incomplete: the rest is skipped")
            return None
        self._clock_of(stream)
        first = self._at + ((bit + 7) >> 3)
        return _Head(stream, scope, self._at, first, self._at + content // 8, self._at + packet_bits // 8)

    def _ends(self, problem: str) -> None:
        """Report that the rest of this file is unreadable, and skip it."""
        self._told.count(problem, self.path)
        self._at = self._size

    def _clock_of(self, stream: StreamClass) -> None:
        if self.clock.name:
            return
        name = next(iter(_clocks(stream.header)), "")
        clocks = self._metadata.clocks
        self.clock = clocks.get(name) or next(iter(clocks.values()), Clock("none"))

    def _ns(self, value: int) -> int:
        frequency = self.clock.frequency
        return min(value if frequency == _SECOND_NS else value * _SECOND_NS // frequency, FOREVER_NS)

    def _begin(self, head: _Head) -> int:
        begin = head.fields.get("timestamp_begin")
        return self._ns(begin) if isinstance(begin, int) else (self._history.last_ns or 0)

    def _times(self, head: _Head, groups: Sequence[Group], count: int, window: Window) -> NDArray[np.int64]:
        """Return the time of each event in nanoseconds, from full times or from lowest bits, which wrap around."""
        raw = np.zeros(count, np.int64)
        bits = np.full(count, 64, np.int64)
        for group in groups:
            column = group.layout.columns.get("header.timestamp")
            if column is not None and isinstance(column.kind, Integer):
                raw[group.at] = window.integers(group.positions, column.bit, column.kind)
                bits[group.at] = column.kind.size
        begin, end = head.fields.get("timestamp_begin", 0), head.fields.get("timestamp_end")
        value = unwrapped(raw, bits, min(begin, FOREVER_NS), end if isinstance(end, int) else None)
        frequency = self.clock.frequency
        if frequency != _SECOND_NS:
            value = value // frequency * _SECOND_NS + value % frequency * _SECOND_NS // frequency
        if count == 0:
            return value
        lowest = value[0] if self._history.last_ns is None else self._history.last_ns
        risen = np.maximum.accumulate(np.maximum(value, lowest))
        backward = risen - value
        if backward.any():
            steps = int(np.count_nonzero(backward))
            self._told.count("time runs backward: later events get the previous time", self.path, steps)
        self._history.last_ns = int(risen[-1])
        return risen

    def _missing(self, head: _Head) -> list[Gap]:
        fields, gaps = head.fields, []
        begin = self._begin(head)
        before = begin if self._history.end_ns is None else self._history.end_ns
        stop = fields.get("timestamp_end")
        end = self._ns(stop) if isinstance(stop, int) else begin
        sequence = fields.get("packet_seq_num")
        if isinstance(sequence, int) and self._history.sequence is not None and sequence > self._history.sequence + 1:
            packets = sequence - self._history.sequence - 1
            self._told.count("packets are missing", self.path, packets)
            gaps.append(Gap(before, max(before, begin), 0))
        discarded = fields.get("events_discarded")
        if isinstance(discarded, int):
            lost = discarded - self._history.discarded
            if lost > 0:
                self._told.count("the recorder discarded events", self.path, lost)
                gaps.append(Gap(before, max(before, end), min(lost, FOREVER_NS)))
            self._history.discarded = discarded
        self._history.sequence = sequence if isinstance(sequence, int) else None
        self._history.end_ns = end
        return gaps


def unwrapped(raw: NDArray[np.int64], bits: NDArray[np.int64], begin: int, end: int | None) -> NDArray[np.int64]:
    """Return full times from their lowest bits.

    A recorder writes a full time when more than its lowest bits changed, so a smaller value means one wrap. If that
    leads beyond the packet's end, time ran backward instead; this is assumed for the smallest steps.

    Args:
        raw: the values in the headers, shape (n,).
        bits: the number of bits of each one; 64 is a full time.
        begin: the packet's start.
        end: the packet's end; None if unknown.

    Returns:
        Shape (n,).

    """
    short = bits < 64
    if not short.any():
        return raw
    size = int(bits[short].min())
    low = (1 << size) - 1
    before = np.concatenate(([begin], raw[:-1])) & low
    back = np.where(short, before - (raw & low), 0)
    wraps = (back > 0).astype(np.int64)
    at = np.arange(len(raw))
    full = np.maximum.accumulate(np.where(short, -1, at))  # the last full time before each, or -1

    def times() -> NDArray[np.int64]:
        around = np.cumsum(wraps)
        since = np.where(full >= 0, around[np.maximum(full, 0)], 0)
        high = np.where(full >= 0, raw[np.maximum(full, 0)], begin) & ~low
        return np.where(short, high + (raw & low) + ((around - since) << size), raw)

    found = times()
    if end is not None and found[-1] > end:
        tail = (at > full[-1]) & (wraps > 0)
        too_many = min(-(-(int(found[-1]) - end) >> size), int(np.count_nonzero(tail)))
        wraps[np.argsort(np.where(tail, back, 1 << 62), kind="stable")[:too_many]] = 0
        found = times()
    return found


def _clocks(kind: Type) -> list[str]:
    """Return the clocks of the integers in an event's header."""
    match kind:
        case Integer(clock=clock):
            return [clock] if clock else []
        case Struct(fields=fields):
            return [clock for _, each in fields for clock in _clocks(each)]
    options = getattr(kind, "options", {})
    return [clock for each in options.values() for clock in _clocks(each)]
