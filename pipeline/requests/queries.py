"""Requests out of the history on a bus or out of files: how long they took, which are out of line, and one of them."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.history.series import Reader
from laggard.pipeline.records import Decoder, RecordError, Request, read_line
from laggard.pipeline.records.outputs import read_output
from laggard.pipeline.records.requests import RequestOutput
from laggard.pipeline.topics import ANOMALIES, REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.bus import Bus, Incoming, Partition
    from laggard.pipeline.topics import Topic, Topics

LATELY: Final = 500
"""So many of the newest records say which services and requests there are."""

_STEP: Final = 512  # records
_ROUNDED_S: Final = 0.002  # a bus may keep whole milliseconds
_PEEKED: Final = 64  # bytes of an output that have its kind, which is its first field
_KIND: Final = RequestOutput.kind.encode()
_PLAIN: Final = re.compile(r"[\w.:@+-]*", re.ASCII)


class Durations(NamedTuple):
    """How long some requests took: how many they are, and of their durations in seconds (NaN where there are none)."""

    requests: int
    median_s: float
    p95_s: float
    p99_s: float
    longest_s: float


class Took(NamedTuple):
    """What is known of every request.

    Attributes:
        ts: when it began, seconds since the Unix epoch.
        duration_s: how long it took.
        name: what was asked for; may be empty.
        host: which one recorded it; may be empty.
        times_s: how long it was in each state.

    """

    ts: float
    duration_s: float
    name: str
    host: str
    times_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Clustered:
    """Outlying requests of one cluster.

    Attributes:
        cluster: its name; empty for those that are in none.
        requests: how many.
        odd: how many of them are odd, not slow.
        begin_ts: when the first of them began, seconds since the Unix epoch.
        newest_ts: when the newest did.
        median_s: of their durations in seconds.
        time_s: of their durations the sum, in seconds.
        cause: of the newest, in words.
        example: the id of the newest.

    """

    cluster: str
    requests: int
    odd: int
    begin_ts: float
    newest_ts: float
    median_s: float
    time_s: float
    cause: str
    example: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The requests of a service in a stretch of time.

    Attributes:
        service: its name.
        begin_ts: when the first of them began, seconds since the Unix epoch.
        newest_ts: when the newest did.
        every: all of them.
        normal: those that are not out of line.
        outlying: those that are.
        usual_s: what normal requests took when the newest outlying one came, on average; NaN without one.
        clusters: of the outlying ones, those first that take most time in sum; those in none come last.
        young: whether too few requests were known for the newest judgement to be relied on.
        cut: whether more came than the `MOST_REQUESTS` newest that are read. Of the normal ones only these are counted.

    """

    service: str
    begin_ts: float
    newest_ts: float
    every: Durations
    normal: Durations
    outlying: Durations
    usual_s: float
    clusters: tuple[Clustered, ...]
    young: bool
    cut: bool


class Found(NamedTuple):
    """One request: what is known of it, and what was said of it where it is out of line."""

    request: Request
    output: RequestOutput | None


@dataclass(slots=True)
class Told:
    """What is told of requests.

    Attributes:
        took: by service and id, what is known of a request.
        outputs: by service and id, what was said of it.
        cut: services of which not everything was read.

    """

    took: dict[tuple[str, str], Took] = field(default_factory=dict)
    outputs: dict[tuple[str, str], RequestOutput] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)

    def add(self, record: Request | RequestOutput) -> None:
        """Count one more; the same request counts once."""
        self.put(record.service, record.request, took(record))
        if isinstance(record, RequestOutput):
            self.outputs[record.service, record.request] = record

    def put(self, service: str, request: str, what: Took) -> None:
        """The same, of a request by its id."""
        self.took[service, request] = what

    def within(self, begin: float, end: float, service: str = "") -> Iterator[tuple[str, str]]:
        """Those that began from one moment to another, of one service or of all."""
        for key, each in self.took.items():
            if begin <= each.ts <= end and (not service or key[0] == service):
                yield key


def took(record: Request | RequestOutput) -> Took:
    """What is known of a request by its record, or by what was said of it."""
    return Took(record.ts, record.duration_s, record.name, record.host, record.times_s)


def summaries(told: Told, begin: float = -math.inf, end: float = math.inf, service: str = "") -> list[Summary]:
    """Each service in a stretch of time: those with most outlying requests first, then by name."""
    by_service: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in told.within(begin, end, service):
        by_service[key[0]].append(key)
    found = [_summary(name, keys, told) for name, keys in by_service.items()]
    return sorted(found, key=lambda each: (-each.outlying.requests, each.service))


def _summary(service: str, keys: Sequence[tuple[str, str]], told: Told) -> Summary:
    outputs = sorted((told.outputs[key] for key in keys if key in told.outputs), key=lambda each: each.ts)
    began = [told.took[key].ts for key in keys]
    clusters: dict[str, list[RequestOutput]] = defaultdict(list)
    for each in outputs:
        clusters[each.cluster].append(each)
    newest = outputs[-1] if outputs else None
    ranked = sorted(
        map(_clustered, clusters.values()), key=lambda each: (not each.cluster, -each.time_s, each.begin_ts)
    )
    return Summary(
        service,
        min(began),
        max(began),
        _durations([told.took[key].duration_s for key in keys]),
        _durations([told.took[key].duration_s for key in keys if key not in told.outputs]),
        _durations([each.duration_s for each in outputs]),
        math.fsum(newest.usual_s.values()) if newest is not None and newest.usual_s else math.nan,
        tuple(ranked),
        newest is not None and newest.young,
        service in told.cut,
    )


def _clustered(outputs: Sequence[RequestOutput]) -> Clustered:
    newest = outputs[-1]
    durations_s = [each.duration_s for each in outputs]
    return Clustered(
        newest.cluster,
        len(outputs),
        sum(each.odd for each in outputs),
        outputs[0].ts,
        newest.ts,
        statistics.median(durations_s),
        math.fsum(durations_s),
        newest.cause,
        newest.request,
    )


def _durations(durations_s: Sequence[float]) -> Durations:
    if not durations_s:
        return Durations(0, math.nan, math.nan, math.nan, math.nan)
    ranked = sorted(durations_s)
    p95_s, p99_s = (ranked[math.ceil(share * len(ranked)) - 1] for share in (0.95, 0.99))  # the nearest rank
    return Durations(len(ranked), statistics.median(ranked), p95_s, p99_s, ranked[-1])


def request_of(output: RequestOutput) -> Request:
    """What is known of a request by what was said of it."""
    return Request(
        output.service,
        output.ts,
        output.request,
        output.duration_s,
        times_s=output.times_s,
        host=output.host,
        name=output.name,
        critical_s=output.critical_s,
        threads=output.threads,
        path=output.path,
    )


# Of files.


def read_requests(lines: Iterable[bytes], place: str) -> Iterator[Request | RequestOutput]:
    """The requests among JSON lines, and what `laggard replay --json` said of some; other lines are passed over.

    Raises `RecordError` naming the line that is neither a record nor an output.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{place}:{number}"
        one = read_output(line, where) if b'"kind"' in line[:_PEEKED] else read_line(line, where)
        if isinstance(one, Request | RequestOutput):
            yield one


def named(records: Iterable[Request | RequestOutput], identity: str, service: str = "") -> list[Found]:
    """The requests with this id, or, where there is none, those whose id begins so; of one service or of all."""
    requests: dict[tuple[str, str], Request] = {}
    outputs: dict[tuple[str, str], RequestOutput] = {}
    for each in records:
        if each.request.startswith(identity) and service in {"", each.service}:
            if isinstance(each, Request):
                requests[each.service, each.request] = each
            else:
                outputs[each.service, each.request] = each
    keys = dict.fromkeys([*requests, *outputs])
    exact = [key for key in keys if key[1] == identity]
    return [
        Found(requests[key] if key in requests else request_of(outputs[key]), outputs.get(key)) for key in exact or keys
    ]


# Of a bus.


def find(
    bus: Bus, topics: Topics, identity: str, service: str = "", *, at: float | None = None, most: int | None = None
) -> list[Found]:
    """The requests with this id, or, where there is none, those whose id begins so; see `named`.

    Args:
        bus: where they are.
        topics: the names of the topics.
        identity: the id, or how it begins.
        service: of this one; empty for all.
        at: when it began, in seconds since the Unix epoch, if that is known: it is looked for from there on.
        most: records of each partition that are looked at, else the newest; None for all.

    """
    decoder = Decoder()
    records: list[Request | RequestOutput] = []
    for topic in (REQUESTS, ANOMALIES):
        # Once each of them has one with this very id, nothing older can be meant.
        services = {service} if service else set(known_keys(bus, topics.name(REQUESTS))) if bus.knows_keys else {""}
        # JSON, which is what is said of them, may have escaped it.
        text = identity if topic is REQUESTS or _PLAIN.fullmatch(identity) else ""
        for partition in partitions_of(bus, topics, topic, service):
            for record in _holding(bus, partition, text, at, most):
                one = read_request(decoder, record) if topic is REQUESTS else read_told(record)
                if one is not None and one.request.startswith(identity):
                    records.append(one)
                    if one.request == identity:
                        services.discard(one.service)
                if not services:
                    break
    return named(records, identity, service)


def lately(bus: Bus, topics: Topics) -> list[Request]:
    """The newest requests of all services, the newest first."""
    decoder = Decoder()
    found = []
    for partition in bus.partitions(topics.name(REQUESTS)):
        stored = Reader(bus, partition).newest(LATELY)
        found += [request for record in stored if (request := read_request(decoder, record)) is not None]
    return sorted(found, key=lambda each: -each.ts)


def partitions_of(bus: Bus, topics: Topics, topic: Topic, service: str) -> Sequence[Partition]:
    """The partitions of a topic in which a service is; all where it is empty."""
    name = topics.name(topic)
    return [bus.partition_of(name, service)] if service else bus.partitions(name)


def _holding(bus: Bus, partition: Partition, text: str, at: float | None, most: int | None) -> Iterator[Incoming]:
    """The records in whose bytes a text is: from a moment on, or the newest first."""
    reader, wanted = Reader(bus, partition), text.encode()
    oldest, stop = bus.bounds(partition)
    if at is not None:
        start = max(bus.offset_at(partition, at - _ROUNDED_S), oldest)
        stop = stop if most is None else min(start + most, stop)
        yield from (record for record in reader.stored(start, stop) if wanted in record.value)
        return
    if most is not None:
        oldest = max(oldest, stop - most)
    while stop > oldest:
        start = max(stop - _STEP, oldest)
        yield from reversed([record for record in reader.stored(start, stop) if wanted in record.value])
        stop = start


def read_request(decoder: Decoder, record: Incoming) -> Request | None:
    """A record of the topic of requests; None where it is no request."""
    try:
        found = decoder.decode(record.value, record.key)
    except RecordError:
        return None  # a dead letter by now
    return found if isinstance(found, Request) else None


def read_told(record: Incoming) -> RequestOutput | None:
    """What a record of the topic of anomalies says of a request; None where it is about anything else."""
    if _KIND not in record.value[:_PEEKED]:
        return None
    try:
        found = read_output(record.value, record.key)
    except RecordError:
        return None
    return found if isinstance(found, RequestOutput) else None
