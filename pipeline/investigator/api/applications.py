"""Applications: their list, and the inputs of their models (S2, section 6)."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.core.topics import APPLICATIONS
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.rebuilding import known_keys
from laggard.pipeline.investigator.applications import (
    ApplicationKey,
    ApplicationName,
    ExplainedShare,
    IntervalLength,
    Metric,
    Parameter,
    PerformanceMetric,
    PerformanceWords,
    ReasonWords,
    Source,
    TierName,
    WaitingWishes,
    host_patterns,
    metric,
    metrics_by_host,
    parameters,
    sources,
    state_of,
    terms_of,
    waiting,
)
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, HostName, Number, Question
from laggard.pipeline.investigator.events import OpenIncident  # noqa: TC001 - msgspec reads annotations
from laggard.pipeline.methods.applications.queries import known_metrics, past_models
from laggard.pipeline.methods.applications.report import REASONS
from laggard.pipeline.methods.applications.settings import ApplicationsSettings, RegressionSettings
from laggard.pipeline.methods.applications.text import named
from laggard.pipeline.methods.applications.tiers import tiers
from laggard.pipeline.settings.general import GeneralSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laggard.pipeline.core.records.models import ModelOutput
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.applications.queries import Course


# The list.


class Standing(Answer, frozen=True):
    """The present model of a performance metric."""

    performance: PerformanceMetric
    named: PerformanceWords
    ts: Annotated[float, msgspec.Meta(description="the time at which it was built, seconds since the Unix epoch")]
    r2: ExplainedShare
    terms: Annotated[list[str], msgspec.Meta(description="the names of its metrics, sorted")]
    reason_text: ReasonWords


class OneApplication(Answer, frozen=True):
    """An application."""

    application: ApplicationKey
    models: Annotated[
        list[Standing],
        msgspec.Meta(description="the present model of each performance metric; empty before the first model"),
    ]
    incidents: Annotated[
        list[OpenIncident],
        msgspec.Meta(description="the open incidents of the application, the one that opened last first"),
    ]


class Step(Answer, frozen=True):
    """A missing prerequisite, and how to provide it."""

    lacks: Annotated[str, msgspec.Meta(description="the missing prerequisite, in words")]
    do: Annotated[
        str,
        msgspec.Meta(
            description="the command, or the lines for the settings file; empty if only more measurements are missing"
        ),
    ]


class Applications(Answer, frozen=True):
    """The recorded applications."""

    applications: Annotated[list[OneApplication], msgspec.Meta(description="the applications, sorted by name")]
    left_out: Annotated[int, msgspec.Meta(description="the number of further applications that are left out")]
    steps: Annotated[list[Step], msgspec.Meta(description="the steps to record an application; empty if there is one")]


class ApplicationsQuestion(Question, frozen=True):
    """The most applications to return."""

    most: Annotated[int, msgspec.Meta(ge=1, le=1000, description="the most applications to return")] = 100


def applications(reading: Reading, question: ApplicationsQuestion) -> Applications:
    """Return the applications with the state of their models and their open incidents."""
    every = known_keys(reading.bus, reading.topics.name(APPLICATIONS))
    known = every[: question.most]
    courses: dict[str, list[Course]] = {name: [] for name in known}
    for course in past_models(reading.bus, reading.topics, reading.clock()) if known else ():
        courses.get(course.present.application, []).append(course)
    now = reading.clock()
    entries = [
        OneApplication(
            name,
            [_standing(each.present) for each in courses[name]],
            reading.events.incidents_of("application", name, now, math.inf),
        )
        for name in known
    ]
    return Applications(entries, len(every) - len(known), [] if known else [_measure("shop"), _serve("shop")])


def _standing(model: ModelOutput) -> Standing:
    return Standing(
        model.performance,
        named(model.performance),
        model.ts,
        model.r2,
        sorted(terms_of(model)),
        REASONS.get(model.reason, printable(model.reason)),
    )


# Configuration.


class Host(Answer, frozen=True):
    """A host that serves an application, from its recorded counters."""

    host: HostName
    tier: TierName
    metrics: Annotated[int, msgspec.Meta(description="the number of metrics of the host")]


class Performance(Answer, frozen=True):
    """A measured performance metric."""

    performance: PerformanceMetric
    named: PerformanceWords
    value: Annotated[
        Number, msgspec.Meta(description="the measured value of the newest interval, in the unit of the metric")
    ]
    explained: Annotated[bool, msgspec.Meta(description="whether models explain it: `regression.performance` has it")]


class Configuration(Answer, frozen=True):
    """The inputs and parameters of an application's models."""

    application: ApplicationKey
    sources: Annotated[
        list[Source],
        msgspec.Meta(
            description="the sources of its performance and of further metrics, from the settings of this page"
        ),
    ]
    patterns: Annotated[
        list[str],
        msgspec.Meta(description="the patterns of its hosts: `applications.hosts` of the settings of this page"),
    ]
    pattern: Annotated[str, msgspec.Meta(description="`applications.pattern` of the settings of this page")]
    hosts: Annotated[list[Host], msgspec.Meta(description="the recorded hosts in the order of their tiers")]
    performance: Annotated[
        list[Performance], msgspec.Meta(description="the performance metrics of the newest interval; empty without one")
    ]
    interval_s: IntervalLength
    ts: Annotated[
        Number,
        msgspec.Meta(description="the end of the newest interval, seconds since the Unix epoch; null without one"),
    ]
    parameters: Annotated[
        list[Parameter], msgspec.Meta(description="the parameters of the models, from the settings of this page")
    ]
    pinned: Annotated[list[Metric], msgspec.Meta(description="the metrics that are always in the models, on request")]
    banned: Annotated[list[Metric], msgspec.Meta(description="the metrics that are never in the models, on request")]
    waiting: WaitingWishes
    steps: Annotated[
        list[Step], msgspec.Meta(description="the missing prerequisites of a model; empty if there is a model")
    ]


class ApplicationQuestion(Question, frozen=True):
    """The name of an application."""

    application: ApplicationName


def configuration(reading: Reading, question: ApplicationQuestion) -> Configuration:
    """Return sources, hosts, parameters and wishes, and what is missing."""
    name, settings = question.application, reading.settings
    explained = settings[RegressionSettings].performance
    with reading.applications.present(name) as followed:
        state = state_of(reading, followed)
        newest = followed.noted[-1] if followed.noted else None
        interval_s, measured_ts = state.intervals.length_s, state.intervals.measured_ts
        pinned, banned = list(state.operator.pinned), list(state.operator.banned)
        waits = waiting(state)
        models = bool(state.operator.models)
    metrics = known_metrics(reading.bus, reading.topics, name) if newest is None else newest.metrics.ids
    patterns = host_patterns(settings, name)
    hosts = metrics_by_host(metrics)
    return Configuration(
        name,
        list(sources(settings, name)),
        patterns,
        settings[ApplicationsSettings].pattern,
        [Host(host, tier.name, hosts[host]) for tier in tiers(hosts, patterns) for host in tier.hosts],
        []
        if newest is None
        else [Performance(each, named(each), value, each in explained) for each, value in newest.performance.items()],
        interval_s or math.nan,
        math.nan if newest is None else newest.ts,
        parameters(settings),
        [metric(each) for each in pinned],
        [metric(each) for each in banned],
        waits,
        [] if models else list(_steps(reading, name, measured=math.isfinite(measured_ts), counted=bool(hosts))),
    )


def _steps(reading: Reading, application: str, *, measured: bool, counted: bool) -> Iterator[Step]:
    if not measured:
        yield _measure(application)
    if not counted:
        yield _serve(application)
    if "regression" not in reading.settings[GeneralSettings].operators:
        yield Step(
            "these settings build no models; a worker does whose operators have regression among them",
            f"laggard work --set operators={','.join((*reading.settings[GeneralSettings].operators, 'regression'))}",
        )
    if measured and counted:
        window = reading.settings[RegressionSettings].window
        yield Step(f"the first model takes {window} intervals in which response times were measured", "")


def _measure(application: str) -> Step:
    name = msgspec.json.encode(application).decode()
    lines = ("[[sources]]", 'kind = "prometheus"', f"application = {name}", 'targets = ["http://web-1:8000/metrics"]')
    return Step("its performance is not measured; add a source to `laggard.toml`, for `laggard up`", "\n".join(lines))


def _serve(application: str) -> Step:
    given = shlex.quote(f"applications.hosts={application}=web-* db-1")
    return Step("no host serves it; name those that do, as they are called here", f"laggard up --set {given}")


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        "/applications",
        "Applications, with their models and open incidents.",
        Applications,
        applications,
        ApplicationsQuestion,
    ),
    Endpoint(
        "/applications/configuration",
        "The inputs and parameters of an application's models, and what is missing for a model.",
        Configuration,
        configuration,
        ApplicationQuestion,
    ),
)
