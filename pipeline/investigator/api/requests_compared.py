"""Comparisons of requests: all of a service on a plane, and those of a cluster with normal ones (S4)."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Number, Text
from laggard.pipeline.investigator.requests import (
    Asked,
    ClusterName,
    OfService,
    RequestRow,
    StateColor,
    StateLabel,
    StateName,
    rows,
    stretch,
)
from laggard.pipeline.methods.requests.lanes import colors_of, label, ordered
from laggard.pipeline.methods.requests.report import difference_text
from laggard.pipeline.methods.requests.text import traced
from laggard.pipeline.methods.requests.troubles import CHANCE
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.requests.results import Difference, Evidence, Traced
    from laggard.pipeline.core.records.requests import RequestOutput
    from laggard.pipeline.investigator.reading import Reading

MOST_MEMBERS: Final = 100
MOST_NORMAL: Final = 500
"""The most requests of each kind, the newest ones, that are analyzed with all that they did."""

MOST_APART: Final = 10
"""The most distinctions of a cluster, of each kind."""

EXAMPLES: Final = 10

DIGITS: Final = 6
"""The decimals of seconds on a plane: microseconds are invisible there, and more would double the answer."""


class Plane(Asked, frozen=True):
    """Requests on a plane: those with similar times in each state are near each other.

    The lists with a value for each request have the same length, in the order of time.
    """

    way: Annotated[
        Literal["isomap", "principal"], msgspec.Meta(description="isometric mapping, or principal components")
    ]
    pending: Annotated[
        bool, msgspec.Meta(description="whether a better or newer plane is being computed: request it again soon")
    ]
    normal: Annotated[int, msgspec.Meta(description="the number of normal requests in this time, drawn or not")]
    outlying: Annotated[int, msgspec.Meta(description="the number of outliers in this time, drawn or not")]
    requests: Annotated[list[str], msgspec.Meta(description="the id of each request")]
    ts: Annotated[list[float], msgspec.Meta(description="the start of each request, seconds since the Unix epoch")]
    duration_s: Annotated[list[float], msgspec.Meta(description="the duration of each request, in seconds")]
    x_s: Annotated[list[float], msgspec.Meta(description="the distance along one axis, in seconds")]
    y_s: Annotated[list[float], msgspec.Meta(description="the distance along the other axis, in seconds")]
    cluster: Annotated[
        list[int],
        msgspec.Meta(
            description="the place of each request in `clusters`; -1 if it is normal, -2 if it is an outlier in no "
            "cluster"
        ),
    ]
    clusters: Annotated[list[str], msgspec.Meta(description="the names of the clusters, sorted")]


class Member(OfService, frozen=True, kw_only=True):
    """A cluster of a service."""

    cluster: Annotated[Text, msgspec.Meta(description="the name of the cluster; empty for outliers that are in none")]


class StateBeside(Answer, frozen=True):
    """A state of these requests, compared with normal ones: means per request."""

    state: StateName
    label: StateLabel
    color: StateColor
    time_s: Annotated[float, msgspec.Meta(description="the mean time in it, in seconds")]
    usual_s: Annotated[
        Number, msgspec.Meta(description="the mean time of normal requests in it, in seconds; null if it is unknown")
    ]
    count: Annotated[Number, msgspec.Meta(description="the mean count of entries; null if it is unknown")]
    usual_count: Annotated[
        Number, msgspec.Meta(description="the mean count of entries of normal requests; null if it is unknown")
    ]


class Distinction(Answer, frozen=True):
    """A difference between these requests and normal ones: means per request."""

    text: Annotated[str, msgspec.Meta(description="the difference in words")]
    what: Annotated[
        list[str],
        msgspec.Meta(description="the system calls in a row; or the state, system call, object, cause and result"),
    ]
    count: Annotated[float, msgspec.Meta(description="the mean count in these requests")]
    usual_count: Annotated[float, msgspec.Meta(description="the mean count in normal requests")]
    time_s: Annotated[
        Number, msgspec.Meta(description="the mean time in these requests, in seconds; null for system calls in a row")
    ]
    usual_time_s: Annotated[
        Number, msgspec.Meta(description="the mean time in normal requests, in seconds; null for system calls in a row")
    ]
    share: Annotated[float, msgspec.Meta(description="the share of these requests that have it, from 0 to 1")]
    usual_share: Annotated[float, msgspec.Meta(description="the share of normal requests that have it, from 0 to 1")]
    statistic: Annotated[
        float,
        msgspec.Meta(
            description="the difference in units of the normal spread, negative for less than normal; magnitudes up to "
            "3 may be chance"
        ),
    ]


class Cluster(Asked, frozen=True):
    """A cluster of similar outliers, compared with normal requests."""

    cluster: ClusterName
    requests: Annotated[int, msgspec.Meta(description="the number of its requests in this time")]
    odd: Annotated[
        int, msgspec.Meta(description="the number of them that are outliers by their events, not by their times")
    ]
    median_s: Annotated[float, msgspec.Meta(description="the median of their durations, in seconds")]
    sentence: Annotated[
        str,
        msgspec.Meta(
            description="the probable cause, a sentence on the cluster; without a cluster, on its newest request"
        ),
    ]
    compared: Annotated[int, msgspec.Meta(description="the number of them whose events are compared")]
    beside: Annotated[int, msgspec.Meta(description="the number of normal ones that they are compared with")]
    states: Annotated[
        list[StateBeside], msgspec.Meta(description="the known states in a fixed order, then others by name")
    ]
    ngrams: Annotated[
        list[Distinction],
        msgspec.Meta(
            description="the distinctive sequences of system calls, most distinctive first; empty without a comparison"
        ),
    ]
    spent: Annotated[
        list[Distinction],
        msgspec.Meta(description="the distinctive uses of time, most distinctive first; empty without a comparison"),
    ]
    examples: Annotated[
        list[RequestRow], msgspec.Meta(description="the slowest of its requests, longest first, at most 10")
    ]


def plane(reading: Reading, question: OfService) -> Plane:
    """Return the requests of a service on a plane."""
    begin, end = stretch(question, reading.clock())
    recorded, keys = reading.requests.of(question.service, begin, end)
    about = question.service, question.begin, question.end
    found, pending = reading.requests.planes.plane(about, recorded, keys)
    # A plane from some seconds ago may have requests that are gone by now.
    there = [
        (key, recorded.took[key], place.tolist())
        for key, place in zip(found.drawn.keys, found.places, strict=True)
        if key in recorded.took
    ]
    clusters = sorted(
        {output.cluster for key, _, _ in there if (output := recorded.outputs.get(key)) and output.cluster}
    )
    places = {cluster: number for number, cluster in enumerate(clusters)}

    def of(output: RequestOutput | None) -> int:
        return -1 if output is None else places.get(output.cluster, -2)

    return Plane(
        begin,
        end,
        found.way,
        pending,
        found.drawn.normal,
        found.drawn.outlying,
        [key[1] for key, _, _ in there],
        [took.ts for _, took, _ in there],
        [round(took.duration_s, DIGITS) for _, took, _ in there],
        [round(place[0], DIGITS) for _, _, place in there],
        [round(place[1], DIGITS) for _, _, place in there],
        [of(recorded.outputs.get(key)) for key, _, _ in there],
        clusters,
    )


def cluster(reading: Reading, question: Member) -> Cluster:
    """Return a cluster of outlying requests."""
    begin, end = stretch(question, reading.clock())
    recorded, keys = reading.requests.of(question.service, begin, end)
    members = [key for key in keys if (output := recorded.outputs.get(key)) and output.cluster == question.cluster]
    if not members:
        known = ", ".join(sorted({recorded.outputs[key].cluster for key in keys if key in recorded.outputs})[:EXAMPLES])
        error = f"no request of cluster {question.cluster[:100]!a} began in this time"
        raise RequestError(404, error, f"one of {known}" if known else "another stretch of time")
    members.sort(key=lambda key: recorded.took[key].ts)
    outputs = [recorded.outputs[key] for key in members]
    normal = sorted((key for key in keys if key not in recorded.outputs), key=lambda key: recorded.took[key].ts)

    def traced_requests(some: Sequence[tuple[str, str]]) -> list[Traced]:
        found = reading.requests.stored.requests(question.service, [key[1] for key in some], begin, end)
        return [traced(each) for each in found]

    requests, about = reading.requests, (question.service, question.begin, question.end)
    usual, beside = requests.moments(about, lambda: traced_requests(normal[-MOST_NORMAL:]))
    these = members[-MOST_MEMBERS:]
    its, compared = requests.moments((*about, these[0], these[-1], len(these)), lambda: traced_requests(these))
    evidence = requests.analysis_functions.evidence(its, usual) if compared and beside else None
    slowest = sorted(members, key=lambda key: -recorded.took[key].duration_s)[:EXAMPLES]
    return Cluster(
        begin,
        end,
        question.cluster,
        len(members),
        sum(each.odd for each in outputs),
        statistics.median(each.duration_s for each in outputs),
        recorded.cause_of(outputs[-1]),
        compared,
        beside,
        _states_of_outputs(outputs) if evidence is None else _states(evidence),
        _apart(evidence, "ngram"),
        _apart(evidence, "spent"),
        rows(recorded, slowest),
    )


def _states(evidence: Evidence) -> list[StateBeside]:
    return _beside(evidence.times_s, evidence.usual_s, evidence.counts, evidence.usual_counts)


def _states_of_outputs(outputs: Sequence[RequestOutput]) -> list[StateBeside]:
    """Return the states of requests that are no longer on the bus, from their outputs."""
    sums: dict[str, float] = {}
    for each in outputs:
        for state, time_s in each.times_s.items():
            sums[state] = sums.get(state, 0.0) + time_s / len(outputs)
    return _beside(sums, outputs[-1].usual_s, {}, {})


def _beside(
    times_s: Mapping[str, float],
    usual_s: Mapping[str, float],
    counts: Mapping[str, float],
    usual_counts: Mapping[str, float],
) -> list[StateBeside]:
    states = ordered((*times_s, *usual_s))
    colors = colors_of(states)
    none, never = 0.0 if usual_s else math.nan, 0.0 if counts or usual_counts else math.nan
    return [
        StateBeside(
            state,
            label(state),
            colors[state],
            times_s.get(state, 0.0),
            usual_s.get(state, none),
            counts.get(state, never),
            usual_counts.get(state, never),
        )
        for state in states
    ]


def _apart(evidence: Evidence | None, kind: str) -> list[Distinction]:
    """Return the distinctions beyond chance, the clearest first."""
    found = [] if evidence is None else evidence.differences
    return [_distinction(each) for each in found if each.kind == kind and abs(each.statistic) > CHANCE][:MOST_APART]


def _distinction(difference: Difference) -> Distinction:
    return Distinction(
        difference_text(difference),
        list(difference.what),
        difference.count,
        difference.usual_count,
        difference.time_s,
        difference.usual_time_s,
        difference.share,
        difference.usual_share,
        difference.statistic,
    )


ENDPOINTS: Final = (
    Endpoint("/requests/plane", "A service's requests on a plane, by the time in each state.", Plane, plane, OfService),
    Endpoint("/requests/cluster", "A cluster of requests compared with normal ones.", Cluster, cluster, Member),
)
