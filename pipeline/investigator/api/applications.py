"""Applications: configuration, tracking, analysis and diagnosis of performance models (S2, section 6)."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from laggard.pipeline.applications.metrics import metric_parts
from laggard.pipeline.applications.past import known_applications, known_metrics, past_models
from laggard.pipeline.applications.report import REASONS, what_if_lines
from laggard.pipeline.applications.telling import Judged, how_slow, named
from laggard.pipeline.applications.tiers import tiers
from laggard.pipeline.applications.wishing import (
    UnknownApplicationError,
    UnknownMetricError,
    publish,
    what_if,
)
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.names import nearest
from laggard.pipeline.investigator.applications import (
    Candidate,
    Metric,
    OneModel,
    Parameter,
    Source,
    Term,
    candidate,
    metric,
    one_model,
    parameters,
    sources,
    term,
    terms_of,
)
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Number, Question, Seconds, Text, Time
from laggard.pipeline.investigator.events import OpenIncident  # noqa: TC001 - msgspec reads annotations
from laggard.pipeline.records import RecordError, Wish
from laggard.pipeline.records.limits import MAX_KEY, MAX_METRIC
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from laggard.operators.regression.models import Suspect
    from laggard.pipeline.applications.application import Application
    from laggard.pipeline.applications.following import Followed, Noted
    from laggard.pipeline.applications.past import Course
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.records.models import ModelOutput

DAY_S: Final = 86_400.0
TRACKED: Final = 180
"""So many intervals are told, unless somebody asks for more: each costs about 1 ms when it is asked for first ..."""

TRACKED_S: Final = (900.0, 3600.0)
"""... but no less, and no more than this."""

NEAR: Final = 5

Application_ = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY)]
MetricName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_METRIC)]
Most = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


# Which applications there are.


class Standing(Answer, frozen=True):
    """How the present model of a performance metric stands."""

    performance: str
    named: str
    ts: Annotated[float, msgspec.Meta(description="when it was built, seconds since the Unix epoch")]
    r2: Number
    terms: Annotated[list[str], msgspec.Meta(description="the metrics in it")]
    reason_told: str


class OneApplication(Answer, frozen=True):
    """An application."""

    application: str
    models: Annotated[list[Standing], msgspec.Meta(description="none where there is no model yet")]
    incidents: Annotated[list[OpenIncident], msgspec.Meta(description="those that are open: it is slow")]


class Step(Answer, frozen=True):
    """What is lacking, and what to do about it."""

    lacks: str
    do: Annotated[str, msgspec.Meta(description="what to type, or to write into the file of settings")]


class Applications(Answer, frozen=True):
    """The applications that something is recorded of."""

    applications: list[OneApplication]
    left_out: int
    steps: Annotated[list[Step], msgspec.Meta(description="what to do where there is none")]


class ApplicationsQuestion(Question, frozen=True):
    """How many."""

    most: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100


def applications(reading: Reading, question: ApplicationsQuestion) -> Applications:
    """Each with the state of its models, and whether it is slow."""
    every = known_applications(reading.bus, reading.topics)
    known = every[: question.most]
    courses = {name: [] for name in known}  # type: dict[str, list[Course]]
    for course in past_models(reading.bus, reading.topics, reading.clock()) if known else ():
        courses.get(course.present.application, []).append(course)
    now = reading.clock()
    told = [
        OneApplication(
            name,
            [_standing(each.present) for each in courses[name]],
            reading.events.incidents_of("application", name, now, math.inf),
        )
        for name in known
    ]
    return Applications(told, len(every) - len(known), [] if known else [_measure("shop"), _serve("shop")])


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
    """A host that serves an application, as its counters are recorded."""

    host: str
    tier: str
    metrics: Annotated[int, msgspec.Meta(description="how many")]


class Performance(Answer, frozen=True):
    """A performance metric that is measured."""

    performance: str
    named: str
    value: Annotated[Number, msgspec.Meta(description="the newest")]
    explained: Annotated[bool, msgspec.Meta(description="whether a model is built of it")]


class Waiting(Answer, frozen=True):
    """A wish that holds from the next interval on."""

    metric: Metric
    wish: Literal["pin", "ban", "free"]


class Configuration(Answer, frozen=True):
    """What the models of an application are built from, and how."""

    application: str
    sources: Annotated[list[Source], msgspec.Meta(description="of its performance, by the settings of this page")]
    patterns: Annotated[list[str], msgspec.Meta(description="applications.hosts of these settings")]
    pattern: Annotated[str, msgspec.Meta(description="applications.pattern of these settings")]
    hosts: Annotated[list[Host], msgspec.Meta(description="those that are recorded")]
    performance: list[Performance]
    interval_s: Annotated[Number, msgspec.Meta(description="of its performance")]
    ts: Annotated[Number, msgspec.Meta(description="the end of the newest interval")]
    parameters: Annotated[list[Parameter], msgspec.Meta(description="of the models, by the settings of this page")]
    pinned: list[Metric]
    banned: list[Metric]
    waiting: list[Waiting]
    steps: Annotated[list[Step], msgspec.Meta(description="what is lacking for a model, and what to do about it")]


class ApplicationQuestion(Question, frozen=True):
    """Of which application."""

    application: Application_


def configuration(reading: Reading, question: ApplicationQuestion) -> Configuration:
    """Sources, hosts, parameters and wishes, and what is lacking."""
    name, settings = question.application, reading.settings
    explained = settings.words("regression.performance")
    with reading.applications.present(name) as followed:
        state = _state(reading, followed)
        newest = followed.noted[-1] if followed.noted else None
        interval_s, measured_ts = state.intervals.length_s, state.intervals.measured_ts
        pinned, banned = list(state.operator.pinned), list(state.operator.banned)
        waiting = [Waiting(metric(each), wish) for _, each, wish in state.wishes]  # type: ignore[arg-type]
        models = bool(state.operator.models)
    metrics = known_metrics(reading.bus, reading.topics, name) if newest is None else newest.metrics.ids
    patterns = str(settings.table("applications.hosts").get(name, "")).split()
    hosts = _by_host(metrics)
    return Configuration(
        name,
        list(sources(settings, name)),
        patterns,
        settings.text("applications.pattern"),
        [Host(host, tier.name, hosts[host]) for tier in tiers(hosts, patterns) for host in tier.hosts],
        []
        if newest is None
        else [Performance(each, named(each), value, each in explained) for each, value in newest.performance.items()],
        interval_s or math.nan,
        math.nan if newest is None else newest.ts,
        parameters(settings),
        [metric(each) for each in pinned],
        [metric(each) for each in banned],
        waiting,
        [] if models else list(_steps(reading, name, measured=math.isfinite(measured_ts), counted=bool(hosts))),
    )


def _steps(reading: Reading, application: str, *, measured: bool, counted: bool) -> Iterator[Step]:
    if not measured:
        yield _measure(application)
    if not counted:
        yield _serve(application)
    if "regression" not in reading.settings.words("operators"):
        yield Step(
            "these settings build no models; a worker does whose operators have regression among them",
            f"laggard work --set operators={','.join((*reading.settings.words('operators'), 'regression'))}",
        )
    if measured and counted:
        window = reading.settings.count("regression.window")
        yield Step(f"the first model takes {window} intervals in which response times were measured", "")


def _measure(application: str) -> Step:
    name = msgspec.json.encode(application).decode()
    lines = ("[[sources]]", 'kind = "prometheus"', f"application = {name}", 'targets = ["http://web-1:8000/metrics"]')
    return Step("nobody measures its performance; a source of it in `laggard.toml`, for `laggard up`", "\n".join(lines))


def _serve(application: str) -> Step:
    given = shlex.quote(f"applications.hosts={application}=web-* db-1")
    return Step("no host serves it; name those that do, as they are called here", f"laggard up --set {given}")


def _by_host(metrics: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in metrics:
        host = metric_parts(each).host
        found[host] = found.get(host, 0) + 1
    return found


def _state(reading: Reading, followed: Followed) -> Application:
    """The state of an application. Raises `RequestError` (404) where nothing is recorded of it."""
    if followed.state is not None:
        return followed.state
    raise _unknown(reading, followed.application)


def _unknown(reading: Reading, application: str) -> RequestError:
    known = known_applications(reading.bus, reading.topics)
    near = nearest(application, known) or known[:NEAR]
    expected = f"one of {', '.join(map(printable, near))}" if near else "an application whose performance is measured"
    return RequestError(404, f"nothing is recorded of application {printable(application)[:100]}", expected)


# Tracking.


class Tracked(Answer, frozen=True):
    """A performance metric, as it was and as its models said; a value for each time."""

    performance: str
    named: str
    value: list[Number]
    predicted: list[Number]
    p_value: Annotated[list[Number], msgspec.Meta(description="that the newest errors are of the model")]
    r2: Annotated[list[Number], msgspec.Meta(description="of the newest intervals")]


class Rebuilt(Answer, frozen=True):
    """A model was built."""

    ts: Seconds
    performance: str
    reason: str
    reason_told: str


class Tracking(Answer, frozen=True):
    """An application over time."""

    application: str
    ts: Annotated[list[float], msgspec.Meta(description="the ends of its intervals, seconds since the Unix epoch")]
    tracked: list[Tracked]
    rebuilt: list[Rebuilt]
    incidents: list[OpenIncident]
    interval_s: Number
    own: Annotated[
        bool,
        msgspec.Meta(description="whether its models are the worker's own; else they were learned anew for this page"),
    ]
    slow: Annotated[bool, msgspec.Meta(description="whether its newest interval was")]
    told: Annotated[str, msgspec.Meta(description="how it is now, a sentence; empty where it was not judged")]


class TrackingQuestion(Question, frozen=True):
    """Of which application, from when to when; by default the last 180 intervals, or those before `to`."""

    application: Application_
    begin: Time | None = msgspec.field(default=None, name="from")
    end: Time | None = msgspec.field(default=None, name="to")
    most: Most = 2000


def tracking(reading: Reading, question: TrackingQuestion) -> Tracking:
    """What was measured, beside what the models said before they learned it."""
    begin, end = _span(reading, question)
    with reading.applications.between(question.application, begin, question.end) as followed:
        state = _state(reading, followed)
        noted = [each for each in followed.noted if begin <= each.ts <= end][-question.most :]
        newest = followed.noted[-1] if followed.noted else None
        interval_s, own = state.intervals.length_s, followed.own
    judgement = None if newest is None else newest.judgement
    slow = judgement is not None and judgement.score > 1.0
    told = ""
    if newest is not None and judgement is not None and judgement.predictions:
        judged = Judged(newest.ts, question.application, judgement)
        told = judged.sentence() if slow else how_slow(question.application, judgement)
    return Tracking(
        question.application,
        [each.ts for each in noted],
        [_tracked(name, noted) for name in reading.settings.words("regression.performance") if _is_in(name, noted)],
        [_rebuilt(model.performance, each.ts, model.reason) for each in noted for model in each.built],
        reading.events.incidents_of("application", question.application, begin, end),
        interval_s or math.nan,
        own,
        slow,
        told,
    )


def _span(reading: Reading, question: TrackingQuestion | SeriesQuestion) -> tuple[float, float]:
    end = math.inf if question.end is None else question.end
    begin = question.begin
    if begin is None:
        newest_ts, length_s = _newest(reading, question.application)
        least, most = TRACKED_S
        begin = min(end, newest_ts) - min(max(TRACKED * length_s, least), most)
    if not begin < end:
        raise RequestError(400, f"parameter 'from' is {begin!r}", f"a time before 'to', {end!r}")
    return begin, end


def _newest(reading: Reading, application: str) -> tuple[float, float]:
    """The time of the newest record of an application, which may be long ago, and how long its intervals are."""
    with reading.applications.present(application) as followed:
        state = _state(reading, followed)
        return state.ts, state.intervals.length_s


def _is_in(performance: str, noted: Sequence[Noted]) -> bool:
    return any(performance in each.performance for each in noted)


def _tracked(performance: str, noted: Sequence[Noted]) -> Tracked:
    value: list[float | None] = []
    predicted: list[float | None] = []
    p_value: list[float | None] = []
    r2: list[float | None] = []
    for each in noted:
        said = each.judgement.predictions if each.judgement is not None else ()
        found = next((one for one in said if one.performance == performance), None)
        value.append(each.performance.get(performance, math.nan))
        predicted.append(math.nan if found is None else found.predicted)
        p_value.append(math.nan if found is None else found.p_value)
        r2.append(math.nan if found is None else found.r2)
    return Tracked(performance, named(performance), value, predicted, p_value, r2)


def _rebuilt(performance: str, ts: float, reason: str) -> Rebuilt:
    return Rebuilt(ts, performance, reason, REASONS.get(reason, printable(reason)))


# Analysis.


class Models(Answer, frozen=True):
    """The models of an application, and what one of them was chosen from."""

    application: str
    models: Annotated[list[OneModel], msgspec.Meta(description="the newest first; the first holds")]
    left_out: int
    model: Annotated[str, msgspec.Meta(description="the id of the one that these candidates are of")]
    candidates: Annotated[list[Candidate], msgspec.Meta(description="the best first")]
    candidates_left_out: int
    performance: Annotated[list[str], msgspec.Meta(description="the performance metrics that there are models of")]
    pinned: list[str]
    banned: list[str]
    waiting: list[Waiting]


class ModelsQuestion(Question, frozen=True):
    """Of which application and performance metric; by default of the first, the present one and those of a day."""

    application: Application_
    performance: Text = ""
    model: Text = ""
    since: Time | None = None
    most: Annotated[int, msgspec.Meta(ge=1, le=500)] = 50
    most_candidates: Most = 100


def models(reading: Reading, question: ModelsQuestion) -> Models:
    """Models through time, with what one of them was chosen from: that of an id, or the present one."""
    courses, course = _course(reading, question.application, question.performance, question.since)
    chosen = _chosen(course, question.model)
    since = reading.clock() - DAY_S if question.since is None else question.since
    every = [
        (model, before)
        for model, before in zip(course.models, (*course.models[1:], None), strict=True)
        if model is course.present or model.ts >= since
    ]
    with reading.applications.present(question.application) as followed:
        state = _state(reading, followed)
        pinned, banned = list(state.operator.pinned), list(state.operator.banned)
        waiting = [Waiting(metric(each), wish) for _, each, wish in state.wishes]  # type: ignore[arg-type]
    terms = terms_of(chosen)
    return Models(
        question.application,
        [one_model(model, before) for model, before in every[: question.most]],
        max(len(every) - question.most, 0),
        chosen.id,
        [candidate(each, terms) for each in chosen.candidates[: question.most_candidates]],
        max(len(chosen.candidates) - question.most_candidates, 0),
        [each.present.performance for each in courses],
        pinned,
        banned,
        waiting,
    )


def _course(
    reading: Reading, application: str, performance: str, since: float | None = None
) -> tuple[list[Course], Course]:
    """The models of an application, those of its performance metrics in the order of their importance, and of one.

    Raises `RequestError` (404) saying what there is.
    """
    since = reading.clock() - DAY_S if since is None else since
    courses = past_models(reading.bus, reading.topics, since, application)
    if not courses:
        if application not in known_applications(reading.bus, reading.topics):
            raise _unknown(reading, application)
        raise RequestError(
            404, f"there is no model of {printable(application)} yet", "what its configuration says it lacks"
        )
    order = reading.settings.words("regression.performance")
    courses.sort(key=lambda each: order.index(each.present.performance) if each.present.performance in order else 99)
    if not performance:
        return courses, courses[0]
    found = next((each for each in courses if each.present.performance == performance), None)
    if found is None:
        names = ", ".join(printable(each.present.performance) for each in courses)
        raise RequestError(404, f"there is no model of performance {printable(performance)[:100]}", f"one of {names}")
    return courses, found


def _chosen(course: Course, identity: str) -> ModelOutput:
    if not identity:
        return course.present
    found = next((each for each in course.models if each.id == identity), None)
    if found is None:
        raise RequestError(404, f"there is no model {printable(identity)[:100]!r}", "the id of one since 'since'")
    return found


class MetricSeries(Answer, frozen=True):
    """A metric beside the performance, over time."""

    metric: Metric
    performance: str
    named: str
    ts: list[float]
    values: Annotated[list[Number], msgspec.Meta(description="its mean over each interval")]
    measured: Annotated[list[Number], msgspec.Meta(description="the performance in each interval")]
    rebuilt: list[Rebuilt]
    interval_s: Number


class SeriesQuestion(Question, frozen=True):
    """Of which metric, beside which performance metric, from when to when; by default as in `Tracking`."""

    application: Application_
    metric: MetricName
    performance: Text = ""
    begin: Time | None = msgspec.field(default=None, name="from")
    end: Time | None = msgspec.field(default=None, name="to")
    most: Most = 2000


def series(reading: Reading, question: SeriesQuestion) -> MetricSeries:
    """What the models saw of a metric: its mean over each interval."""
    performance = question.performance or reading.settings.words("regression.performance")[0]
    begin, end = _span(reading, question)
    with reading.applications.between(question.application, begin, question.end) as followed:
        state = _state(reading, followed)
        noted = [each for each in followed.noted if begin <= each.ts <= end][-question.most :]
        interval_s = state.intervals.length_s
    values = _values(noted, question.metric)
    if all(each is None for each in values):
        known = noted[-1].metrics.ids if noted else known_metrics(reading.bus, reading.topics, question.application)
        if question.metric not in known:
            raise _unknown_metric(question.application, question.metric, known)
    return MetricSeries(
        metric(question.metric),
        performance,
        named(performance),
        [each.ts for each in noted],
        values,
        [each.performance.get(performance, math.nan) for each in noted],
        [
            _rebuilt(model.performance, each.ts, model.reason)
            for each in noted
            for model in each.built
            if model.performance == performance
        ],
        interval_s or math.nan,
    )


def _values(noted: Sequence[Noted], name: str) -> list[float | None]:
    """Of a metric; the names of most intervals are the same object, so that they are looked through once."""
    places: dict[int, int] = {}
    values: list[float | None] = []
    for each in noted:
        place = places.get(id(each.metrics))
        if place is None:
            place = each.metrics.ids.index(name) if name in each.metrics.ids else -1
            places[id(each.metrics)] = place
        value = float(each.values[place]) if place >= 0 else math.nan
        values.append(value if math.isfinite(value) else None)
    return values


def _unknown_metric(application: str, name: str, known: Sequence[str]) -> RequestError:
    near = nearest(name, known)
    expected = f"one that is there; near it are {', '.join(map(printable, near))}" if near else "one that is there"
    return RequestError(404, f"{printable(application)} has no metric {printable(name)[:200]}", expected)


class Metrics(Answer, frozen=True):
    """Metrics of an application."""

    metrics: list[Metric]
    known: Annotated[int, msgspec.Meta(description="how many it has")]


class MetricsQuestion(Question, frozen=True):
    """Of which application, and what their names are to be like."""

    application: Application_
    like: Text = ""
    most: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20


def metrics(reading: Reading, question: MetricsQuestion) -> Metrics:
    """The metrics whose names are most like a text; the first, without one."""
    with reading.applications.present(question.application) as followed:
        known: Sequence[str] = followed.noted[-1].metrics.ids if followed.noted else ()
    known = known or known_metrics(reading.bus, reading.topics, question.application)
    if not known:
        raise _unknown(reading, question.application)
    found = nearest(question.like, known, question.most) if question.like else sorted(known)[: question.most]
    return Metrics([metric(each) for each in found], len(known))


class WhatIf(Answer, frozen=True):
    """What would be, in sentences."""

    told: list[str]


class WhatIfQuestion(Question, frozen=True):
    """Of which application, if which metric had which value."""

    application: Application_
    metric: MetricName
    value: float


def what_if_told(reading: Reading, question: WhatIfQuestion) -> WhatIf:
    """What the performance would be by the models if a metric had another value, all others their newest."""
    with reading.applications.present(question.application) as followed:
        operator = _state(reading, followed).operator
        newest = operator.newest.get(question.metric, math.nan)
        found = what_if(operator, question.metric, question.value)
        there = list(dict.fromkeys(each.metric for model in operator.models.values() for each in model.terms))
    if not found:
        names = ", ".join(map(printable, there)) or "no metric at all"
        raise RequestError(
            404, f"{printable(question.metric)[:200]} is in no model", f"a metric of a model; in them are {names}"
        )
    lines = what_if_lines(question.application, question.metric, question.value, newest, found)
    return WhatIf([line.plain for line in lines])


class NewWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Have a metric in the models of an application, or in none, or neither any more."""

    application: Application_
    metric: MetricName
    wish: Literal["pin", "ban", "free"]


class Wished(Answer, frozen=True):
    """A wish that was made: it holds from the application's next interval on."""

    application: str
    ts: Seconds
    metric: Metric
    wish: Literal["pin", "ban", "free"]


def set_wish(reading: Reading, _: Question, new: NewWish) -> Wished:
    """Make a wish."""
    reading.allowance.take()
    wish = Wish(new.application, reading.clock(), new.metric, new.wish)
    try:
        publish(reading.bus, reading.topics, reading.regressing, wish)
    except RecordError as error:
        raise RequestError(400, f"field {error.field!r} is {error.got}", error.expected) from None
    except UnknownApplicationError:
        raise _unknown(reading, new.application) from None
    except UnknownMetricError as error:
        near = f"; near it are {', '.join(map(printable, error.near))}" if error.near else ""
        raise RequestError(404, str(error), f"a metric of it{near}") from None
    return Wished(new.application, wish.ts, metric(new.metric), new.wish)


# Diagnosis.


class Suspected(Answer, frozen=True):
    """A metric that tells most likely what is short now."""

    metric: Metric
    value: Number
    mean: Annotated[Number, msgspec.Meta(description="what was usual")]
    standard_deviation: Annotated[Number, msgspec.Meta(description="its usual spread")]


class Placed(Answer, frozen=True):
    """A host, with the metrics of both phases that are of it."""

    host: str
    metrics: Annotated[int, msgspec.Meta(description="how many it has")]
    phase_1: Annotated[list[Candidate], msgspec.Meta(description="that the model was chosen from, the best first")]
    phase_2: Annotated[list[Term], msgspec.Meta(description="that are in the model")]
    suspects: Annotated[list[Suspected], msgspec.Meta(description="while it is slow, the worst first")]


class Tier(Answer, frozen=True):
    """Hosts that do the same work."""

    tier: str
    hosts: list[Placed]


class Map(Answer, frozen=True):
    """The hosts of an application, with the metrics of a model placed on them."""

    application: str
    model: OneModel
    tiers: list[Tier]
    performance: list[str]
    slow: bool
    told: Annotated[str, msgspec.Meta(description="what is short, and where, while it is slow; else empty")]


class MapQuestion(Question, frozen=True):
    """Of which application, performance metric, and model: by default the first, and the present one."""

    application: Application_
    performance: Text = ""
    model: Text = ""
    most_candidates: Most = 100


def diagnosis(reading: Reading, question: MapQuestion) -> Map:
    """Where the metrics of both phases are."""
    courses, course = _course(reading, question.application, question.performance)
    model = _chosen(course, question.model)
    at = course.models.index(model)
    with reading.applications.present(question.application) as followed:
        _state(reading, followed)
        newest = followed.noted[-1] if followed.noted else None
    hosts = _by_host(
        known_metrics(reading.bus, reading.topics, question.application) if newest is None else newest.metrics.ids
    )
    terms, candidates = terms_of(model), model.candidates[: question.most_candidates]
    for host in (*(each.metric.host for each in model.terms), *(each.metric.host for each in candidates)):
        hosts.setdefault(host, 0)
    judgement = None if newest is None else newest.judgement
    slow = judgement is not None and judgement.score > 1.0
    present = model is course.present
    suspects: Sequence[Suspect] = judgement.suspects if judgement is not None and slow and present else ()
    patterns = str(reading.settings.table("applications.hosts").get(question.application, "")).split()

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
        Judged(newest.ts, question.application, judgement).sentence()
        if newest is not None and judgement is not None and slow
        else "",
    )


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint(
        "/applications",
        "Which applications there are, and how they are.",
        Applications,
        applications,
        ApplicationsQuestion,
    ),
    Endpoint(
        "/applications/configuration",
        "What the models of an application are built from.",
        Configuration,
        configuration,
        ApplicationQuestion,
    ),
    Endpoint(
        "/applications/tracking",
        "An application's performance beside what its models said.",
        Tracking,
        tracking,
        TrackingQuestion,
    ),
    Endpoint(
        "/applications/models",
        "The models of an application, and what one was chosen from.",
        Models,
        models,
        ModelsQuestion,
    ),
    Endpoint(
        "/applications/series", "A metric beside the performance, over time.", MetricSeries, series, SeriesQuestion
    ),
    Endpoint("/applications/metrics", "The metrics of an application, by name.", Metrics, metrics, MetricsQuestion),
    Endpoint(
        "/applications/what-if",
        "What the performance would be at a value of a metric.",
        WhatIf,
        what_if_told,
        WhatIfQuestion,
    ),
    Endpoint(
        "/applications/map",
        "The hosts of an application, with the metrics of a model on them.",
        Map,
        diagnosis,
        MapQuestion,
    ),
    Endpoint(
        "/applications/wishes",
        "Have a metric in the models, in none, or neither any more.",
        Wished,
        set_wish,
        body=NewWish,
        status=201,
    ),
)
