"""Queries of requests in the history on a bus or in files: their durations, the outliers, and single requests."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.pipeline.core.records import Decoder, RecordError, Request, read_line
from laggard.pipeline.core.records.outputs import read_output
from laggard.pipeline.core.records.requests import RequestOutput
from laggard.pipeline.core.topics import ANOMALIES, REQUESTS
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.history.series import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from laggard.pipeline.core.bus import Bus, Incoming, Partition
    from laggard.pipeline.core.topics import Topic, Topics

LATELY: Final = 500
"""The number of newest records of each partition that are read for what goes on now."""

_STEP: Final = 512  # records
_ROUNDED_S: Final = 0.002  # a bus may store whole milliseconds
_PEEKED: Final = 64  # the first bytes of an output, which have its kind as the first field
_KIND: Final = RequestOutput.kind.encode()
_PLAIN: Final = re.compile(r"[\w.:@+-]*", re.ASCII)


class Durations(NamedTuple):
    """The number of some requests, and statistics of their durations in seconds (NaN without requests)."""

    requests: int
    median_s: float
    p95_s: float
    p99_s: float
    longest_s: float


class Took(NamedTuple):
    """The basic data of every request.

    Attributes:
        ts: its begin, seconds since the Unix epoch.
        duration_s: its duration in seconds.
        name: its name; may be empty.
        host: the host that recorded it; may be empty.
        times_s: its seconds in each state.
        missing_ratio: see `Request`.

    """

    ts: float
    duration_s: float
    name: str
    host: str
    times_s: Mapping[str, float]
    missing_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class Clustered:
    """Outlying requests of one cluster.

    Attributes:
        cluster: its name; empty for those that are in none.
        requests: the number of requests.
        odd: the number of these that are odd, not slow.
        begin_ts: the begin of the first, seconds since the Unix epoch.
        newest_ts: the begin of the newest, likewise.
        median_s: the median of their durations in seconds.
        time_s: the sum of their durations in seconds.
        cause: the sentence on all requests of the cluster, as of its newest known one; that of the newest of these
            requests if they are in no cluster.
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
        begin_ts: the begin of the first request, seconds since the Unix epoch.
        newest_ts: the begin of the newest, likewise.
        every: the durations of all requests.
        normal: those of normal requests.
        outlying: those of outlying requests.
        usual_s: the mean duration of normal requests at the time of the newest outlier; NaN without one.
        clusters: the clusters of outliers, that with the longest total time first; outliers in none come last.
        young: whether there were too few requests for a reliable score of the newest outlier.
        cut: whether there were more than the `MOST_REQUESTS` newest that are read. Older normal ones are not counted.
        missing_ratio: the largest `missing_ratio` of a request.

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
    missing_ratio: float


class Found(NamedTuple):
    """One request with its record, and its output if it is an outlier."""

    request: Request
    output: RequestOutput | None


@dataclass(slots=True)
class RequestsFound:
    """Requests and their outputs.

    Attributes:
        took: the basic data of requests, by service and id.
        outputs: the outputs on outliers, by service and id.
        causes: the newest sentence on each cluster with its time, by service and name, whatever time is asked about.
        cut: the services with more requests than were read.

    """

    took: dict[tuple[str, str], Took] = field(default_factory=dict)
    outputs: dict[tuple[str, str], RequestOutput] = field(default_factory=dict)
    causes: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)

    def add(self, record: Request | RequestOutput) -> None:
        """Add a record or an output; a repeated request counts once."""
        if isinstance(record, RequestOutput):
            self.outputs[record.service, record.request] = record
            self.took.setdefault((record.service, record.request), took(record))
            self.add_cause(record)
        else:
            self.put(record.service, record.request, took(record))

    def add_cause(self, record: RequestOutput) -> None:
        """Add the sentence on the cluster of an outlier, also if the outlier is outside of the time asked about."""
        cluster = record.service, record.cluster
        if record.cluster and record.cluster_cause and record.ts >= self.causes.get(cluster, (-math.inf, ""))[0]:
            self.causes[cluster] = record.ts, record.cluster_cause

    def cause_of(self, newest: RequestOutput) -> str:
        """Return the sentence on the cluster of an outlier; that on the outlier if there is none."""
        return self.causes.get((newest.service, newest.cluster), (0.0, newest.cause))[1]

    def put(self, service: str, request: str, what: Took) -> None:
        """Add the basic data of a request, by its id."""
        self.took[service, request] = what

    def within(self, begin: float, end: float, service: str = "") -> Iterator[tuple[str, str]]:
        """Yield the keys of requests that began from `begin` to `end`, of one service or of all."""
        for key, each in self.took.items():
            if begin <= each.ts <= end and (not service or key[0] == service):
                yield key


def took(record: Request | RequestOutput) -> Took:
    """Return the basic data of a request from its record or its output."""
    missing_ratio = record.missing_ratio if isinstance(record, Request) else 0.0
    return Took(record.ts, record.duration_s, record.name, record.host, record.times_s, missing_ratio)


def summaries(told: RequestsFound, begin: float = -math.inf, end: float = math.inf, service: str = "") -> list[Summary]:
    """Return the summary of each service from `begin` to `end`: by the number of outliers, then by name."""
    by_service: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for key in told.within(begin, end, service):
        by_service[key[0]].append(key)
    found = [_summary(name, keys, told) for name, keys in by_service.items()]
    return sorted(found, key=lambda each: (-each.outlying.requests, each.service))


def _summary(service: str, keys: Sequence[tuple[str, str]], recorded: RequestsFound) -> Summary:
    outputs = sorted((recorded.outputs[key] for key in keys if key in recorded.outputs), key=lambda each: each.ts)
    began = [recorded.took[key].ts for key in keys]
    clusters: dict[str, list[RequestOutput]] = defaultdict(list)
    for each in outputs:
        clusters[each.cluster].append(each)
    newest = outputs[-1] if outputs else None
    ranked = sorted(
        (_clustered(each, recorded) for each in clusters.values()),
        key=lambda each: (not each.cluster, -each.time_s, each.begin_ts),
    )
    return Summary(
        service,
        min(began),
        max(began),
        _durations([recorded.took[key].duration_s for key in keys]),
        _durations([recorded.took[key].duration_s for key in keys if key not in recorded.outputs]),
        _durations([each.duration_s for each in outputs]),
        math.fsum(newest.usual_s.values()) if newest is not None and newest.usual_s else math.nan,
        tuple(ranked),
        newest is not None and newest.young,
        service in recorded.cut,
        max(recorded.took[key].missing_ratio for key in keys),
    )


def _clustered(outputs: Sequence[RequestOutput], recorded: RequestsFound) -> Clustered:
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
        recorded.cause_of(newest),
        newest.request,
    )


def _durations(durations_s: Sequence[float]) -> Durations:
    if not durations_s:
        return Durations(0, math.nan, math.nan, math.nan, math.nan)
    ranked = sorted(durations_s)
    p95_s, p99_s = (ranked[math.ceil(share * len(ranked)) - 1] for share in (0.95, 0.99))  # the nearest rank
    return Durations(len(ranked), statistics.median(ranked), p95_s, p99_s, ranked[-1])


def request_of(output: RequestOutput) -> Request:
    """Return a request from its output."""
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
    """Yield the requests among JSON lines, and the outputs of `laggard replay --json` on them; skip other lines.

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
    """Return the requests with this id or, without any, those with this prefix; of one service or of all."""
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
    """Return the requests with this id or, without any, those with this prefix; see `named`.

    Args:
        bus: the bus.
        topics: the names of the topics.
        identity: the id, or a prefix of it.
        service: the service; empty for all.
        at: the begin of the request, in seconds since the Unix epoch, where the search starts; None if unknown.
        most: the most records of each partition to search, the newest ones without `at`; None for all.

    """
    decoder = Decoder()
    records: list[Request | RequestOutput] = []
    for topic in (REQUESTS, ANOMALIES):
        # The search ends when each of them has a request with exactly this id.
        services = {service} if service else set(known_keys(bus, topics.name(REQUESTS))) if bus.knows_keys else {""}
        # Outputs are JSON, which may have escaped it.
        text = identity if topic is REQUESTS or _PLAIN.fullmatch(identity) else ""
        for partition in partitions_of(bus, topics, topic, service):
            for record in _holding(bus, partition, text, at, most):
                one = read_request(decoder, record) if topic is REQUESTS else output_of(record)
                if one is not None and one.request.startswith(identity):
                    records.append(one)
                    if one.request == identity:
                        services.discard(one.service)
                if not services:
                    break
    return named(records, identity, service)


def lately(bus: Bus, topics: Topics) -> list[Request]:
    """Return the newest requests of all services, the newest first."""
    decoder = Decoder()
    found = []
    for partition in bus.partitions(topics.name(REQUESTS)):
        stored = Reader(bus, partition).newest(LATELY)
        found += [request for record in stored if (request := read_request(decoder, record)) is not None]
    return sorted(found, key=lambda each: -each.ts)


def partitions_of(bus: Bus, topics: Topics, topic: Topic, service: str) -> Sequence[Partition]:
    """Return the partition of a service in a topic; all partitions if the service is empty."""
    name = topics.name(topic)
    return [bus.partition_of(name, service)] if service else bus.partitions(name)


def _holding(bus: Bus, partition: Partition, text: str, at: float | None, most: int | None) -> Iterator[Incoming]:
    """Yield the records whose bytes contain a text: from a time on, or the newest first."""
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
    """Return the request in a record of the topic of requests; None if it has none."""
    try:
        found = decoder.decode(record.value, record.key)
    except RecordError:
        return None  # a dead letter by now
    return found if isinstance(found, Request) else None


def output_of(record: Incoming) -> RequestOutput | None:
    """Return the output on a request in a record of the topic of anomalies; None if it has none."""
    if _KIND not in record.value[:_PEEKED]:
        return None
    try:
        found = read_output(record.value, record.key)
    except RecordError:
        return None
    return found if isinstance(found, RequestOutput) else None
