"""Requests and their outputs on a bus, within a range of time. A cache limits repeated queries to new records."""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.core.records import Decoder
from laggard.pipeline.core.records.limits import MAX_TS
from laggard.pipeline.core.records.requests import RequestOutput
from laggard.pipeline.core.topics import ANOMALIES, REQUESTS
from laggard.pipeline.history.series import Reader
from laggard.pipeline.methods.requests.queries import (
    LATELY,
    RequestsFound,
    Took,
    output_of,
    partitions_of,
    read_request,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from laggard.pipeline.core.bus import Bus, Incoming, Partition
    from laggard.pipeline.core.records import Request
    from laggard.pipeline.core.topics import Topics

MOST_REQUESTS: Final = 20_000
"""The most records of each partition that are read, the newest ones: a bound for busy topics."""

LONGEST_REQUEST_S: Final = 3600.0
"""The longest time from the begin of a request to its records that a query allows for, in seconds."""

MOST_CACHED: Final = 100_000
"""The most cached records of all partitions, some 1 kB each. Beyond, the least recently used partition is dropped."""

_GAP: Final = 64  # the offsets between two wanted records up to which both are read together

_Amount = Annotated[float, msgspec.Meta(ge=0.0)]


class _Brief(msgspec.Struct, gc=False):
    """The basic data of an encoded request: decoding it takes a tenth of the time of a whole request."""

    service: str
    request: str
    ts: Annotated[float, msgspec.Meta(ge=0.0, le=MAX_TS)]
    duration_s: _Amount
    times_s: dict[str, _Amount]
    name: str = ""
    host: str = ""
    missing_ratio: _Amount = 0.0


_brief: Final = msgspec.msgpack.Decoder(_Brief)


@dataclass(slots=True, eq=False)
class _Cache:
    """The cache of a partition.

    Attributes:
        start: the first offset that was read.
        stop: the offset after the last.
        records: the records with their offsets, ascending.

    """

    start: int
    stop: int
    records: deque[tuple[int, _Brief | RequestOutput]] = field(default_factory=deque)


class Stored:
    """Requests and their outputs on a bus. Safe to use from several threads.

    Parameters:
        bus: the bus.
        topics: the names of the topics.

    """

    def __init__(self, bus: Bus, topics: Topics) -> None:
        self._bus, self._topics = bus, topics
        self._kept: dict[Partition, _Cache] = {}  # the least recently used one first
        self._lock = threading.Lock()

    def between(self, begin: float, end: float, service: str = "") -> RequestsFound:
        """Return the requests that began from `begin` to `end`, with their outputs, of one service or of all."""
        recorded, cut = RequestsFound(), set()
        with self._lock:
            for partition in partitions_of(self._bus, self._topics, REQUESTS, service):
                records, more = self._between(partition, begin, end)
                if more:
                    cut.add(partition)
                for _, record in records:
                    if isinstance(record, _Brief):
                        what = record.ts, record.duration_s, record.name, record.host, record.times_s
                        recorded.put(record.service, record.request, Took(*what, record.missing_ratio))
            for partition in partitions_of(self._bus, self._topics, ANOMALIES, service):
                for _, record in self._between(partition, begin, end)[0]:
                    if isinstance(record, RequestOutput):
                        recorded.add(record)
                for output in self._later(partition, end):
                    recorded.add_cause(output)
        # Records of another service in the partition may have displaced all normal ones of a service.
        name = self._topics.name(REQUESTS)
        recorded.cut = {each for each in {key[0] for key in recorded.took} if self._bus.partition_of(name, each) in cut}
        return recorded

    def requests(self, service: str, identities: Iterable[str], begin: float, end: float) -> list[Request]:
        """Return the whole records of some requests of a service that began from `begin` to `end`.

        Those that are no longer on the bus are left out.
        """
        wanted = set(identities)
        partition = self._bus.partition_of(self._topics.name(REQUESTS), service)
        with self._lock:
            records, _ = self._between(partition, begin, end)
            offsets = [
                offset
                for offset, record in records
                if isinstance(record, _Brief) and record.service == service and record.request in wanted
            ]
        found: dict[str, Request] = {}
        decoder = Decoder()
        for first, last in _runs(offsets):
            for record in Reader(self._bus, partition, service).stored(first, last + 1):
                request = read_request(decoder, record)
                if request is not None and request.request in wanted:
                    found[request.request] = request
        return list(found.values())

    def _between(
        self, partition: Partition, begin: float, end: float
    ) -> tuple[Iterator[tuple[int, _Brief | RequestOutput]], bool]:
        """Return the newest records in a range of time, oldest first, and whether there were more."""
        bus = self._bus
        oldest, newest = bus.bounds(partition)
        start = oldest if math.isinf(begin) else max(bus.offset_at(partition, begin), oldest)
        # The producer sets the time of a record, and a long request comes late.
        stop = newest if math.isinf(end) else bus.offset_at(partition, end + LONGEST_REQUEST_S)
        more = stop - start > MOST_REQUESTS
        start = max(start, stop - MOST_REQUESTS)
        cache = self._read(partition, start, stop)
        within = (each for each in cache.records if start <= each[0] < stop)
        return within, more

    def _later(self, partition: Partition, end: float) -> Iterator[RequestOutput]:
        """Yield the newest outputs if there are any after a time: the sentence on a cluster does not depend on it."""
        _, newest = self._bus.bounds(partition)
        if not math.isinf(end) and self._bus.offset_at(partition, end + LONGEST_REQUEST_S) < newest:
            for record in Reader(self._bus, partition).newest(LATELY):
                if (output := output_of(record)) is not None:
                    yield output

    def _read(self, partition: Partition, start: int, stop: int) -> _Cache:
        """Return the cache of a partition after reading the missing part of a range of offsets."""
        cache = self._kept.pop(partition, None)
        if cache is None or start > cache.stop or stop < cache.start:
            cache = _Cache(start, start)
        if start < cache.start:
            cache.records.extendleft(reversed(list(self._records(partition, start, cache.start))))
            cache.start = start
        if stop > cache.stop:
            cache.records.extend(self._records(partition, cache.stop, stop))
            cache.stop = stop
        while cache.stop - cache.start > 2 * MOST_REQUESTS:
            if cache.start < start:  # drop records outside the range
                cache.start = start
                while cache.records and cache.records[0][0] < start:
                    cache.records.popleft()
            else:
                cache.stop = stop
                while cache.records and cache.records[-1][0] >= stop:
                    cache.records.pop()
        self._kept[partition] = cache
        while len(self._kept) > 1 and sum(len(each.records) for each in self._kept.values()) > MOST_CACHED:
            del self._kept[next(iter(self._kept))]
        return cache

    def _records(self, partition: Partition, start: int, stop: int) -> Iterator[tuple[int, _Brief | RequestOutput]]:
        of_requests = partition.topic == self._topics.name(REQUESTS)
        for record in Reader(self._bus, partition).stored(start, stop):
            found = _briefly(record) if of_requests else output_of(record)
            if found is not None:
                yield record.offset, found


def requests_on(bus: Bus, topics: Topics, begin: float, end: float, service: str = "") -> RequestsFound:
    """Return the requests that began from `begin` to `end`, with their outputs, of one service or of all."""
    return Stored(bus, topics).between(begin, end, service)


def _briefly(record: Incoming) -> _Brief | None:
    try:
        found = _brief.decode(record.value)
    except (msgspec.DecodeError, ValueError):
        return None  # a dead letter by now, or no request
    fits = found.service == record.key and math.isfinite(math.fsum((found.duration_s, *found.times_s.values())))
    return found if fits else None


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last offset of each run that is read together."""
    begin = 0
    for place, offset in enumerate(offsets):
        last = place + 1 == len(offsets)
        if last or offsets[place + 1] - offset > _GAP:
            yield offsets[begin], offset
            begin = place + 1
