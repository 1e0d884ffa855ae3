"""Requests: the services, the durations and clusters of one, and its requests by a filter (S4)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import numpy as np

from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Number, Seconds, Text
from laggard.pipeline.investigator.events import OpenIncident  # noqa: TC001 - msgspec reads annotations
from laggard.pipeline.investigator.requests import (
    Asked,
    ClusterName,
    OfService,
    RequestRow,
    ServiceName,
    Stretch,
    hint,
    rows,
    stretch,
)
from laggard.pipeline.methods.requests.analysis import histogram
from laggard.pipeline.methods.requests.queries import lately, summaries

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.requests.queries import Durations, RequestsFound, Summary

BINS: Final = 48
MOST_SERVICES: Final = 100


class HowLong(Answer, frozen=True):
    """The number of requests, and their durations in seconds."""

    requests: Annotated[int, msgspec.Meta(description="the number of requests")]
    median_s: Annotated[
        Number, msgspec.Meta(description="the median of the durations, in seconds; null without requests")
    ]
    p95_s: Annotated[
        Number, msgspec.Meta(description="the 95th percentile of the durations, in seconds; null without requests")
    ]
    p99_s: Annotated[
        Number, msgspec.Meta(description="the 99th percentile of the durations, in seconds; null without requests")
    ]
    longest_s: Annotated[Number, msgspec.Meta(description="the longest duration, in seconds; null without requests")]


class OneService(Answer, frozen=True):
    """The requests of a service in a time range."""

    service: ServiceName
    first: Annotated[float, msgspec.Meta(description="the start of the first request, seconds since the Unix epoch")]
    newest: Annotated[float, msgspec.Meta(description="the start of the newest request, seconds since the Unix epoch")]
    every: Annotated[HowLong, msgspec.Meta(description="the durations of all its requests in this time")]
    normal: Annotated[HowLong, msgspec.Meta(description="the durations of the normal requests")]
    outlying: Annotated[HowLong, msgspec.Meta(description="the durations of the outliers")]
    usual_s: Annotated[
        Number,
        msgspec.Meta(
            description="the mean duration of normal requests at the newest outlier, in seconds; null if it is unknown"
        ),
    ]
    clusters: Annotated[int, msgspec.Meta(description="the number of clusters of similar outliers")]
    troubles: Annotated[
        list[OpenIncident],
        msgspec.Meta(description="the open incidents of the service, the one that opened last first"),
    ]
    young: Annotated[
        bool, msgspec.Meta(description="whether too few requests were known for a reliable score of the newest outlier")
    ]
    cut: Annotated[
        bool, msgspec.Meta(description="whether there are too many requests: older normal ones are not counted")
    ]
    missing_ratio: Annotated[
        float,
        msgspec.Meta(
            description="the largest share of a minute in which the tracer missed events, and so requests of this time"
        ),
    ]


class Services(Asked, frozen=True):
    """The services, those with most outliers first."""

    services: Annotated[
        list[OneService], msgspec.Meta(description="the services with most outliers first, then by name")
    ]
    silent: Annotated[
        list[str],
        msgspec.Meta(description="the other recorded services, which have no requests in this time, sorted by name"),
    ]
    newest: Annotated[
        Number,
        msgspec.Meta(
            description="the start of the newest request in this time, otherwise of all, seconds since the Unix epoch; "
            "null without one"
        ),
    ]
    hint: Annotated[
        str, msgspec.Meta(description="a hint on the recording of requests if no service is recorded; otherwise empty")
    ]


class OneCluster(Answer, frozen=True):
    """A cluster of similar outliers."""

    cluster: ClusterName
    requests: Annotated[int, msgspec.Meta(description="the number of its requests in this time")]
    odd: Annotated[
        int, msgspec.Meta(description="the number of them that are outliers by their events, not by their times")
    ]
    first: Seconds
    newest: Seconds
    median_s: Annotated[float, msgspec.Meta(description="the median of their durations, in seconds")]
    time_s: Annotated[float, msgspec.Meta(description="the sum of their durations, in seconds")]
    cause: Annotated[
        str,
        msgspec.Meta(
            description="the probable cause, a sentence on the cluster; without a cluster, on its newest request"
        ),
    ]
    example: Annotated[str, msgspec.Meta(description="the id of its newest request")]


class HowManyTookHowLong(Answer, frozen=True):
    """A histogram of durations in seconds; the logarithms of its edges are evenly spaced."""

    edges_s: Annotated[
        list[float], msgspec.Meta(description="the edges of the bins in seconds, ascending; one more than bins")
    ]
    normal: Annotated[list[int], msgspec.Meta(description="the number of normal requests in each bin")]
    outlying: Annotated[list[int], msgspec.Meta(description="the number of outliers in each bin")]
    threshold_s: Annotated[
        Number, msgspec.Meta(description="the duration that separates outliers with the fewest errors; null if unknown")
    ]


class Service(Asked, frozen=True):
    """A service: its durations, and the clusters of its outliers, those with the longest total time first."""

    service: Annotated[OneService, msgspec.Meta(description="its requests in this time")]
    durations: Annotated[HowManyTookHowLong, msgspec.Meta(description="the histogram of their durations")]
    clusters: Annotated[
        list[OneCluster],
        msgspec.Meta(description="the clusters of its outliers, longest total time first; outliers in none come last"),
    ]


class Wanted(OfService, frozen=True, kw_only=True):
    """A filter of requests, and their order."""

    only: Annotated[
        Literal["all", "normal", "outlying", "alone"],
        msgspec.Meta(description="all requests, normal ones, outliers, or outliers that are in no cluster (`alone`)"),
    ] = "all"
    cluster: Annotated[Text, msgspec.Meta(description="only requests of this cluster; empty for all")] = ""
    like: Annotated[
        Text,
        msgspec.Meta(
            description="only requests with this text in their id, name, host, cluster or cause; case is ignored"
        ),
    ] = ""
    sort: Annotated[
        Literal["slowest", "newest", "unlike"],
        msgspec.Meta(description="longest first, newest first, or outliers with the largest score first (`unlike`)"),
    ] = "slowest"
    most: Annotated[int, msgspec.Meta(ge=1, le=1000, description="the most requests to return")] = 50


class Listed(Asked, frozen=True):
    """Requests of a service."""

    requests: Annotated[
        list[RequestRow], msgspec.Meta(description="the requests in the order of `sort`, at most `most`")
    ]
    found: Annotated[int, msgspec.Meta(description="the number of requests that match the filter, returned or not")]
    of: Annotated[int, msgspec.Meta(description="the number of all requests of the service in this time")]


def services(reading: Reading, question: Stretch) -> Services:
    """Return the recorded services."""
    known = reading.requests.services()
    begin, end = stretch(question, reading.clock())
    recorded = reading.requests.stored.between(begin, end)
    found = summaries(recorded, begin, end)[:MOST_SERVICES]
    active = {each.service for each in found}
    newest = max((each.newest_ts for each in found), default=math.nan)
    if not found:
        newest = max((each.ts for each in lately(reading.bus, reading.topics)), default=math.nan)
    return Services(
        begin,
        end,
        [_service(reading, each) for each in found],
        [each for each in known if each not in active][:MOST_SERVICES],
        newest,
        "" if known else hint(),
    )


def service(reading: Reading, question: OfService) -> Service:
    """Return a service."""
    begin, end = stretch(question, reading.clock())
    recorded, keys = reading.requests.of(question.service, begin, end)
    (found,) = summaries(recorded, begin, end, question.service)
    durations_s = np.array([recorded.took[key].duration_s for key in keys])
    outlying = np.array([key in recorded.outputs for key in keys])
    clusters = [
        OneCluster(
            each.cluster,
            each.requests,
            each.odd,
            each.begin_ts,
            each.newest_ts,
            each.median_s,
            each.time_s,
            each.cause,
            each.example,
        )
        for each in found.clusters
    ]
    bins = histogram(durations_s, outlying, reading.requests.analysis_functions, BINS)
    return Service(begin, end, _service(reading, found), HowManyTookHowLong(*bins), clusters)


def listed(reading: Reading, question: Wanted) -> Listed:
    """Return requests of a service, up to the requested number."""
    begin, end = stretch(question, reading.clock())
    recorded, keys = reading.requests.of(question.service, begin, end)
    wanted = [key for key in keys if _is_wanted(recorded, key, question)]
    wanted.sort(key=_order(recorded, question.sort))
    return Listed(begin, end, rows(recorded, wanted[: question.most]), len(wanted), len(keys))


def _service(reading: Reading, summary: Summary) -> OneService:
    now = reading.clock()
    known = reading.events.incidents_of("service", summary.service, now, now)
    return OneService(
        summary.service,
        summary.begin_ts,
        summary.newest_ts,
        _how_long(summary.every),
        _how_long(summary.normal),
        _how_long(summary.outlying),
        summary.usual_s,
        sum(bool(each.cluster) for each in summary.clusters),
        [each for each in known if each.until is None],
        summary.young,
        summary.cut,
        summary.missing_ratio,
    )


def _how_long(durations: Durations) -> HowLong:
    return HowLong(*durations)


def _is_wanted(recorded: RequestsFound, key: tuple[str, str], question: Wanted) -> bool:
    output = recorded.outputs.get(key)
    if question.only == "normal" and output is not None:
        return False
    if question.only in {"outlying", "alone"} and output is None:
        return False
    if question.only == "alone" and output is not None and output.cluster:
        return False
    if question.cluster and (output is None or output.cluster != question.cluster):
        return False
    took = recorded.took[key]
    texts = (key[1], took.name, took.host, *((output.cluster, output.cause) if output is not None else ()))
    return not question.like or any(question.like.casefold() in each.casefold() for each in texts)


def _order(recorded: RequestsFound, sort: str) -> Callable[[tuple[str, str]], tuple[float, float, str]]:
    def order(key: tuple[str, str]) -> tuple[float, float, str]:
        took, output = recorded.took[key], recorded.outputs.get(key)
        if sort == "newest":
            return -took.ts, 0.0, key[1]
        score = 0.0 if output is None or sort == "slowest" else output.score
        return -score, -took.duration_s, key[1]

    return order


ENDPOINTS: Final = (
    Endpoint("/requests", "The services that requests are recorded of.", Services, services, Stretch),
    Endpoint("/requests/service", "One service: durations and clusters.", Service, service, OfService),
    Endpoint("/requests/list", "Requests of a service, by what one looks for.", Listed, listed, Wanted),
)
