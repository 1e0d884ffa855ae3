"""Applications, their models and metrics as the API returns them, derived from records."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from laggard.pipeline.core.records.frame import WishKind
from laggard.pipeline.core.records.limits import MAX_KEY
from laggard.pipeline.core.topics import APPLICATIONS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.names import nearest
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.investigator.endpoint import Answer, Counter, HostName, Number, Seconds, Text
from laggard.pipeline.methods.applications.metrics import metric_parts
from laggard.pipeline.methods.applications.report import (
    REASONS,
    RESOURCES,
    changed,
    effect,
    equation_with_units,
    metric_of,
    reason_text,
)
from laggard.pipeline.methods.applications.resources import described, resource_of
from laggard.pipeline.methods.applications.settings import ApplicationsSettings, RegressionSettings
from laggard.pipeline.methods.applications.text import kind_named, named
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from laggard.pipeline.core.records.models import CandidateOutput, Described, ModelOutput, TermOutput
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.applications.application import Application
    from laggard.pipeline.methods.applications.following import Followed
    from laggard.pipeline.settings import Settings


TRACKED: Final = 180
"""The default number of intervals in an answer: each costs about 1 ms when it is first queried."""

TRACKED_S: Final = (900.0, 3600.0)
"""The least and the greatest length of these intervals together, in seconds."""

NEAR: Final = 5

ApplicationKey = Annotated[str, msgspec.Meta(description="the name of the application")]
ApplicationName = Annotated[ApplicationKey, msgspec.Meta(min_length=1, max_length=MAX_KEY)]
Most = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
PerformanceMetric = Annotated[
    str, msgspec.Meta(description="the performance metric, with its base unit: `response_time_mean_s`")
]
PerformanceWords = Annotated[
    str, msgspec.Meta(description="the performance metric in plain words: `mean response time`")
]
Equation = Annotated[
    str, msgspec.Meta(description="the model as an equation with units; in words if it is no equation")
]
ExplainedShare = Annotated[
    Number, msgspec.Meta(description="the share of the variance that the model explains, by cross-validation, up to 1")
]
IntervalLength = Annotated[
    Number, msgspec.Meta(description="the length of an interval, in seconds; null if it is unknown")
]
Reason = Annotated[
    str, msgspec.Meta(description="the reason to build the model: `first`, `grown`, `changed`, `poor`, `wish` or other")
]
ReasonWords = Annotated[str, msgspec.Meta(description="the reason to build the model, in words")]
Present = Annotated[bool, msgspec.Meta(description="whether it is about the present; false for replayed recordings")]
TierName = Annotated[
    str, msgspec.Meta(description="the common name of hosts that do the same work, without numbers: `web`")
]
WantedPerformance = Annotated[
    Text, msgspec.Meta(description="the performance metric; empty for the most important one")
]
WantedModel = Annotated[Text, msgspec.Meta(description="the id of the model; empty for the present one")]
MostCandidates = Annotated[Most, msgspec.Meta(description="the most candidates to return, the best ones")]
KindOfWish = Annotated[
    WishKind,
    msgspec.Meta(description="`pin`: always in the models; `ban`: never in them; `free`: neither"),
]


class Metric(Answer, frozen=True):
    """A metric, its parts and its description."""

    metric: Annotated[str, msgspec.Meta(description="its name in wishes: `web-1/nginx:cpu_wait_ratio`")]
    host: HostName
    row: Annotated[str, msgspec.Meta(description="the host, `web-1`, or all its processes of one name: `web-1/nginx`")]
    feature: Counter
    resource: Annotated[
        Literal["cpu", "memory", "disk", "network", "lock", ""],
        msgspec.Meta(description="the resource that it measures; empty if unknown"),
    ]
    resource_named: Annotated[str, msgspec.Meta(description="the resource in plain words")]
    description: Annotated[
        str, msgspec.Meta(description="the metric in plain words; the wording may change at any time")
    ]


class Term(Answer, frozen=True):
    """A metric in a model, chosen in phase 2."""

    metric: Annotated[Metric, msgspec.Meta(description="the metric in the model")]
    coefficient: Annotated[
        Number,
        msgspec.Meta(
            description="the change of the performance per unit of the metric; null in a model that is no equation"
        ),
    ]
    effect: Annotated[
        str,
        msgspec.Meta(
            description="the effect of more of the metric, in plain words; empty in a model that is no equation"
        ),
    ]
    family: Annotated[list[str], msgspec.Meta(description="the names of equivalent metrics, best first")]


class Candidate(Answer, frozen=True):
    """A candidate metric for a model, found in phase 1."""

    metric: Annotated[Metric, msgspec.Meta(description="the candidate metric")]
    r: Annotated[Number, msgspec.Meta(description="the coefficient of correlation with the performance metric")]
    p_value: Annotated[Number, msgspec.Meta(description="the p-value of the correlation")]
    chosen: Annotated[bool, msgspec.Meta(description="whether it is in the model")]


class OneModel(Answer, frozen=True):
    """A performance model."""

    id: Annotated[str, msgspec.Meta(description="the id of the model")]
    ts: Seconds
    performance: PerformanceMetric
    named: Annotated[str, msgspec.Meta(description="the performance metric in plain words")]
    kind: Annotated[
        str, msgspec.Meta(description="the type of the model: `linear`, `neighbours`, `tree` or `boosting`")
    ]
    kind_named: Annotated[str, msgspec.Meta(description="its type in plain words: `a regression tree`")]
    equation: Equation
    terms: Annotated[list[Term], msgspec.Meta(description="its metrics, in the order of their selection")]
    r2: ExplainedShare
    p_value: Annotated[
        Number,
        msgspec.Meta(description="the p-value of the test that rejected the model before; null for the first one"),
    ]
    begin_ts: Annotated[
        Number, msgspec.Meta(description="the start of its training data, seconds since the Unix epoch")
    ]
    end_ts: Annotated[Number, msgspec.Meta(description="the end of its training data, seconds since the Unix epoch")]
    samples: Annotated[int, msgspec.Meta(description="the number of intervals in its training data")]
    reason: Reason
    reason_text: Annotated[
        str,
        msgspec.Meta(
            description="the reason to build it, in words, with the p-value of the test that rejected the model before"
        ),
    ]
    changed: Annotated[
        str,
        msgspec.Meta(
            description="the differences from the previous model, in plain words; empty if that one is unknown, as for "
            "the first"
        ),
    ]
    live: Present


class Parameter(Answer, frozen=True):
    """A setting in effect."""

    setting: Annotated[str, msgspec.Meta(description="the name of the setting: `regression.window`")]
    value: Annotated[str, msgspec.Meta(description="its value as text for people")]
    place: Annotated[
        str, msgspec.Meta(description="the place of the value: `laggard.toml:3`, `LAGGARD_HOST`, `--set` or `default`")
    ]
    help: Annotated[str, msgspec.Meta(description="its description, for people")]


class Source(Answer, frozen=True):
    """A source of an application's performance, or of further metrics."""

    name: Annotated[str, msgspec.Meta(description="the name of the source in the settings")]
    kind: Annotated[str, msgspec.Meta(description="the kind of the source: `prometheus`, `lines` or `log`")]
    reads: Annotated[list[str], msgspec.Meta(description="the pages, servers or files that the source reads")]
    interval_s: Annotated[float, msgspec.Meta(description="the time between two reports of the source, in seconds")]


class Waiting(Answer, frozen=True):
    """A wish that takes effect at the next interval."""

    metric: Annotated[Metric, msgspec.Meta(description="the metric that the wish is about")]
    wish: KindOfWish


WaitingWishes = Annotated[list[Waiting], msgspec.Meta(description="the wishes that take effect at the next interval")]


class Rebuilt(Answer, frozen=True):
    """The build of a model: its time and its reason."""

    ts: Seconds
    performance: PerformanceMetric
    reason: Reason
    reason_text: ReasonWords


def metric(name: str) -> Metric:
    """Return the metric of this name."""
    parts, resource = metric_parts(name), resource_of(name)
    return Metric(name, parts.host, parts.row, parts.feature, resource, RESOURCES[resource], described(name))


def _described(one: Described) -> Metric:
    resource = RESOURCES[one.resource]
    return Metric(metric_of(one), one.host, one.row, one.feature, one.resource, resource, one.description)


def term(model: ModelOutput, one: TermOutput) -> Term:
    """Return a metric in a model."""
    return Term(_described(one.metric), one.coefficient, effect(model, one), list(one.family))


def candidate(one: CandidateOutput, chosen: Collection[str]) -> Candidate:
    """Return a candidate metric for a model; `chosen` are the names of the metrics in the model."""
    return Candidate(_described(one.metric), one.r, one.p_value, metric_of(one.metric) in chosen)


def terms_of(model: ModelOutput) -> set[str]:
    """Return the names of the metrics in a model."""
    return {metric_of(each.metric) for each in model.terms}


def one_model(model: ModelOutput, before: ModelOutput | None) -> OneModel:
    """Return a model with its differences from the previous one."""
    return OneModel(
        model.id,
        model.ts,
        model.performance,
        named(model.performance),
        model.type,
        kind_named(model.type),
        equation_with_units(model),
        [term(model, each) for each in model.terms],
        model.r2,
        model.p_value,
        model.begin_ts,
        model.end_ts,
        model.samples,
        model.reason,
        reason_text(model),
        "" if before is None else changed(model, before),
        model.live,
    )


def parameters(settings: Settings) -> list[Parameter]:
    """Return the parameters of the models in effect."""
    return [
        Parameter(each.name, _written(settings.value(each), each.kind), settings.place(each), each.help)
        for each in RegressionSettings.declared()
    ]


def _written(value: Any, kind: str) -> str:
    match kind:
        case "words":
            return ", ".join(value)
        case "count":
            return f"{value:,}"
        case "number":
            return f"{value:g}"
        case "ratio":
            return f"{100.0 * value:g}%"
        case "rate":
            return f"{value:g}/day"
        case _:
            return str(value)


def sources(settings: Settings, application: str) -> Iterator[Source]:
    """Yield the sources of an application from the settings."""
    for each in settings.sources:
        if each.application == application:
            yield Source(each.name, each.kind, list(each.reads), each.interval)


def host_patterns(settings: Settings, application: str) -> list[str]:
    """Return the patterns of the hosts that serve an application, from the settings."""
    return str(settings[ApplicationsSettings].hosts.get(application, "")).split()


def metrics_by_host(metrics: Collection[str]) -> dict[str, int]:
    """Return the number of these metrics on each host."""
    found: dict[str, int] = {}
    for each in metrics:
        host = metric_parts(each).host
        found[host] = found.get(host, 0) + 1
    return found


def waiting(state: Application) -> list[Waiting]:
    """Return the wishes that take effect at the next interval of an application."""
    return [Waiting(metric(each), wish) for _, each, wish in state.wishes]  # type: ignore[arg-type]


def rebuilt(performance: str, ts: float, reason: str) -> Rebuilt:
    """Return the build of a model, with its reason in words."""
    return Rebuilt(ts, performance, reason, REASONS.get(reason, printable(reason)))


def state_of(reading: Reading, followed: Followed) -> Application:
    """Return the state of an application. Raises `RequestError` (404) if nothing is recorded of it."""
    if followed.state is not None:
        return followed.state
    raise unknown(reading, followed.application)


def unknown(reading: Reading, application: str) -> RequestError:
    """Return an error of status 404 with similar names."""
    known = known_keys(reading.bus, reading.topics.name(APPLICATIONS))
    near = nearest(application, known) or known[:NEAR]
    expected = f"one of {', '.join(map(printable, near))}" if near else "an application whose performance is measured"
    return RequestError(404, f"there are no records of application {printable(application)[:100]}", expected)


def span(reading: Reading, application: str, begin: float | None, end: float | None) -> tuple[float, float]:
    """Return the begin and the end of the queried time; by default the last `TRACKED` intervals before the end.

    Raises `RequestError` (400) if it does not begin before it ends, and (404) as `state_of`.
    """
    end = math.inf if end is None else end
    if begin is None:
        newest_ts, length_s = _newest(reading, application)
        least, most = TRACKED_S
        begin = min(end, newest_ts) - min(max(TRACKED * length_s, least), most)
    if not begin < end:
        raise RequestError(400, f"parameter 'from' is {begin!r}", f"a time before 'to', {end!r}")
    return begin, end


def _newest(reading: Reading, application: str) -> tuple[float, float]:
    """Return the time of the newest record of an application, which may be old, and its interval in seconds."""
    with reading.applications.present(application) as followed:
        state = state_of(reading, followed)
        return state.ts, state.intervals.length_s
