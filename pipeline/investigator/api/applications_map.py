"""The hosts of an application by tier, with the suspected metrics of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.investigator.api.applications_models import chosen_model, course_of
from laggard.pipeline.investigator.applications import (
    ApplicationKey,
    ApplicationName,
    Candidate,
    Metric,
    MostCandidates,
    OneModel,
    Term,
    TierName,
    WantedModel,
    WantedPerformance,
    candidate,
    host_patterns,
    metric,
    metrics_by_host,
    one_model,
    state_of,
    term,
    terms_of,
)
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, HostName, Number, Question
from laggard.pipeline.methods.applications.metrics import metric_parts
from laggard.pipeline.methods.applications.queries import known_metrics
from laggard.pipeline.methods.applications.text import ScoredInterval
from laggard.pipeline.methods.applications.tiers import tiers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.regression.models import Suspect
    from laggard.pipeline.investigator.reading import Reading

# Diagnosis.


class Suspected(Answer, frozen=True):
    """A metric that is a likely sign of the present shortage."""

    metric: Annotated[Metric, msgspec.Meta(description="the metric that shows the shortage")]
    value: Annotated[Number, msgspec.Meta(description="the newest value, in the base unit of the metric")]
    mean: Annotated[
        Number, msgspec.Meta(description="the mean at normal response times, in the base unit of the metric")
    ]
    standard_deviation: Annotated[
        Number,
        msgspec.Meta(description="the standard deviation at normal response times, in the base unit of the metric"),
    ]


class Placed(Answer, frozen=True):
    """A host, with its metrics from both phases."""

    host: HostName
    metrics: Annotated[int, msgspec.Meta(description="the number of present metrics of the host")]
    phase_1: Annotated[
        list[Candidate], msgspec.Meta(description="the candidates for the model on the host, best first")
    ]
    phase_2: Annotated[
        list[Term], msgspec.Meta(description="the metrics in the model on the host, in the order of their selection")
    ]
    suspects: Annotated[
        list[Suspected],
        msgspec.Meta(
            description="the metrics of the host that show the shortage, worst first; empty unless the application is "
            "slow"
        ),
    ]


class Tier(Answer, frozen=True):
    """Hosts that do the same work."""

    tier: TierName
    hosts: Annotated[list[Placed], msgspec.Meta(description="the hosts, sorted by name")]


class Map(Answer, frozen=True):
    """The hosts of an application, with the metrics of a model placed on them."""

    application: ApplicationKey
    model: Annotated[OneModel, msgspec.Meta(description="the model whose metrics are placed on the hosts")]
    tiers: Annotated[
        list[Tier],
        msgspec.Meta(
            description="the tiers in the order of `applications.hosts`, then the others by the names of their hosts"
        ),
    ]
    performance: Annotated[
        list[str], msgspec.Meta(description="the performance metrics that have a model, the most important first")
    ]
    slow: Annotated[bool, msgspec.Meta(description="whether the score of the newest interval is above 1")]
    sentence: Annotated[str, msgspec.Meta(description="the bottleneck and its place while it is slow; otherwise empty")]


class MapQuestion(Question, frozen=True):
    """An application, a performance metric and a model; by default the first metric and its present model."""

    application: ApplicationName
    performance: WantedPerformance = ""
    model: WantedModel = ""
    most_candidates: MostCandidates = 100


def diagnosis(reading: Reading, question: MapQuestion) -> Map:
    """Return the hosts with their metrics from both phases."""
    courses, course = course_of(reading, question.application, question.performance)
    model = chosen_model(course, question.model)
    at = course.models.index(model)
    with reading.applications.present(question.application) as followed:
        state_of(reading, followed)
        newest = followed.noted[-1] if followed.noted else None
    hosts = metrics_by_host(
        known_metrics(reading.bus, reading.topics, question.application) if newest is None else newest.metrics.ids
    )
    terms, candidates = terms_of(model), model.candidates[: question.most_candidates]
    for host in (*(each.metric.host for each in model.terms), *(each.metric.host for each in candidates)):
        hosts.setdefault(host, 0)
    judgement = None if newest is None else newest.judgement
    slow = judgement is not None and judgement.score > 1.0
    present = model is course.present
    suspects: Sequence[Suspect] = judgement.suspects if judgement is not None and slow and present else ()
    patterns = host_patterns(reading.settings, question.application)

    def placed(host: str) -> Placed:
        return Placed(
            host,
            hosts[host],
            [candidate(each, terms) for each in candidates if each.metric.host == host],
            [term(model, each) for each in model.terms if each.metric.host == host],
            [
                Suspected(metric(each.metric), each.value, each.mean, each.standard_deviation)
                for each in suspects
                if metric_parts(each.metric).host == host
            ],
        )

    return Map(
        question.application,
        one_model(model, course.models[at + 1] if at + 1 < len(course.models) else None),
        [Tier(each.name, [placed(host) for host in each.hosts]) for each in tiers(hosts, patterns)],
        [each.present.performance for each in courses],
        slow,
        ScoredInterval(newest.ts, question.application, judgement).sentence()
        if newest is not None and judgement is not None and slow
        else "",
    )


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        "/applications/map",
        "The hosts of an application, with the metrics of a model on them.",
        Map,
        diagnosis,
        MapQuestion,
    ),
)
