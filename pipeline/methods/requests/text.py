"""The outputs on outlying requests: on each, and on a service with too many of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from laggard.operators.requests.results import Traced, Use
from laggard.pipeline.core.records.outputs import Blame
from laggard.pipeline.core.records.requests import REST, RequestOutput, request_id
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import readable, readable_duration
from laggard.pipeline.methods.requests.causes import cause
from laggard.pipeline.methods.requests.words import STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.operators.ranking import FeatureScore, RowScore
    from laggard.operators.requests.results import Cluster, Evidence, RequestScore
    from laggard.pipeline.core.records import Request

RARE: Final = 0.001
"""Usual shares below this are shown as 1 of a number, since they would look like none."""

NOTABLE: Final = 0.01
"""The least share of missing events that is reported."""

_PLAIN: Final = frozenset({"RU", "BP"})
"""States outside of system calls."""

RESOURCES: Final[Mapping[str, str]] = {"RU": "cpu", "RS": "cpu", "BP": "cpu", "BD": "disk", "BN": "network"}
"""The resource that a request uses or waits for, by state."""


def traced(request: Request) -> Traced:
    """Return a request in the form of the operator."""
    return Traced(
        request.ts,
        request.request,
        request.duration_s,
        request.counts,
        request.times_s,
        request.syscalls,
        [
            Use((each.state, each.syscall, each.on, each.by, each.result), each.pid, each.times, each.time_s)
            for each in request.spent
            if each.state != REST
        ],
        request.name,
        _beyond(request),
    )


def _beyond(request: Request) -> dict[tuple[str, str, str], float]:
    """Return the seconds of the critical path in other threads than the request's own."""
    found: dict[tuple[str, str, str], float] = {}
    for piece in request.path:
        if piece.thread and piece.state in STATES:
            who = request.threads[piece.thread].rpartition("[")[0].rstrip("0123456789")
            call = "" if piece.state in _PLAIN else piece.detail.partition(" ")[0]
            what = piece.state, call, who.rstrip("-_#/ :") or who
            found[what] = found.get(what, 0.0) + piece.end_s - piece.begin_s
    return found


def lost_s(request: Request, judged: RequestScore) -> float:
    """Return how much longer a request took than a normal one, in seconds; 0 if unknown."""
    usual_s = math.fsum(judged.usual_s.values())
    return max(request.duration_s - usual_s, 0.0) if usual_s else 0.0


def request_output(
    request: Request, judged: RequestScore, cluster: str, cluster_cause: str, *, operator: str, live: bool
) -> RequestOutput:
    """Return the output on an outlying request; `cluster` is the name of its cluster."""
    assert judged.evidence is not None
    return RequestOutput(
        id=request_id(operator, request.service, f"{request.host} {request.request} {request.ts!r}"),
        ts=request.ts,
        operator=operator,
        service=request.service,
        request=request.request,
        name=request.name,
        host=request.host,
        duration_s=request.duration_s,
        score=judged.score,
        odd=judged.odd,
        cluster=cluster,
        cause=cause(judged.evidence),
        times_s=request.times_s,
        usual_s=judged.usual_s,
        critical_s=request.critical_s,
        threads=request.threads,
        path=request.path,
        young=judged.young,
        live=live,
        cluster_cause=cluster_cause,
        missing_ratio=request.missing_ratio,
    )


def rate_sentence(
    row: RowScore, cluster: Cluster | None, *, young: bool, lasted_s: float = 0.0, missing_ratio: float = 0.0
) -> str:
    """Return a cluster that is too frequent, with its cause, as text.

    Args:
        row: the cluster, with its share of requests as first feature.
        cluster: its requests; None if it is forgotten.
        young: whether there were too few requests for reliable scores.
        lasted_s: the time since its onset, in seconds.
        missing_ratio: the largest `missing_ratio` of requests of the tick.

    """
    feature = row.features[0]
    share = f"{readable(feature.feature, feature.value)} of requests, {_usually(feature)}, are outliers"
    if cluster is None:
        sentences = [f"{share} (`{printable(row.name)}`)."]
    else:
        example = f" like `{printable(cluster.example)}`" if cluster.example else ""
        sentences = [f"{share}{example} (`{printable(row.name)}`): {cause(cluster.evidence)}."]
    if lasted_s > 0.0:
        sentences.append(f"It has been so for {readable_duration(lasted_s)}.")
    if missing := missing_text(missing_ratio, "up to "):
        sentences.append(missing)
    if young:
        sentences.append("Too few requests were seen to be sure.")
    return " ".join(sentences)


def missing_text(missing_ratio: float, most: str = "") -> str:
    """Return the share of a minute with missing events as a sentence; empty if it is too small to report."""
    if missing_ratio < NOTABLE:
        return ""
    share = readable("share_ratio", missing_ratio)
    return f"The tracer missed kernel events in {most}{share} of a minute, and with them the requests at these times."


def _usually(feature: FeatureScore) -> str:
    if 0.0 < feature.mean < RARE:
        return f"usually 1 of {round(1.0 / feature.mean, -2):,.0f}"
    return f"usually {readable(feature.feature, feature.mean)}"


def blamed(row: RowScore, cluster: Cluster | None) -> Blame:
    """Return the cluster that is too frequent as the culprit, with its share of requests."""
    feature = row.features[0]
    return Blame(
        row.row,
        row.name,
        feature.feature,
        feature.value,
        feature.mean,
        feature.standard_deviation,
        () if cluster is None else _resources(cluster.evidence),
    )


def _resources(evidence: Evidence) -> tuple[str, ...]:
    """Return the host's resource with most lost time, used or waited for; empty if most is of no resource."""
    lost = {state: time_s - evidence.usual_s.get(state, 0.0) for state, time_s in evidence.times_s.items()}
    most = max(lost, key=lambda state: lost[state], default="")
    return (RESOURCES[most],) if most in RESOURCES else ()
