"""Reports on performance models for a terminal: equations with units, and the meaning of each term."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.text import Text

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import counted, readable, readable_duration
from laggard.pipeline.history.report import clock, moment
from laggard.pipeline.methods.applications.metrics import metric_parts
from laggard.pipeline.methods.applications.text import kind_named, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laggard.pipeline.core.records.models import CandidateOutput, Described, ModelOutput, Resource, TermOutput
    from laggard.pipeline.methods.applications.queries import Course

SHOWN_FAMILY: Final = 3
"""The most metrics that are named as equivalent to one in the model."""

SHOWN_CANDIDATES: Final = 20
"""The most candidates of phase 1 that are shown; the JSON has all."""

ROUNDED: Final = 1e-12
"""Smaller amounts are rounding errors, shown as 0."""

RESOURCES: Final[Mapping[Resource, str]] = {
    "cpu": "CPU",
    "memory": "memory",
    "disk": "disk",
    "network": "network",
    "lock": "locks",
    "": "resource unknown",
}

REASONS: Final[Mapping[str, str]] = {
    "first": "it is the first one",
    "grown": "there were more intervals to learn from",
    "changed": "response times had changed, or how they follow from the metrics",
    "poor": "the earlier model explained too little",
    "wish": "the wishes for its metrics changed",
}
"""The texts for the reasons to build a model."""


class _Unit(NamedTuple):
    """The unit of amounts of a metric.

    Attributes:
        symbol: the symbol of its base unit; empty for plain numbers.
        more: the increase for which the effect is shown, in base units; ...
        text: ... and as text.

    """

    symbol: str
    more: float
    text: str


_UNITS: Final = (
    ("_bytes_per_s", _Unit("B/s", 1e6, "1 MB/s")),
    ("_characters_per_s", _Unit("B/s", 1e6, "1 MB/s")),
    ("_per_s", _Unit("1/s", 100.0, "100/s")),
    ("_ratio", _Unit("", 0.1, "10 %")),
    ("_bytes", _Unit("B", 1e8, "100 MB")),
    ("_seconds", _Unit("s", 1.0, "1 s")),
    ("_s", _Unit("s", 1.0, "1 s")),
)
"""The units by the end of a feature's name without labels; the first match counts."""

_PLAIN: Final = _Unit("", 1.0, "1")


def unit_of(feature: str) -> _Unit:
    """Return the unit of amounts of a feature."""
    name = feature.partition("{")[0]
    return next((unit for ending, unit in _UNITS if name.endswith(ending)), _PLAIN)


def metric_of(metric: Described) -> str:
    """Return the name of a metric in wishes."""
    return f"{metric.row}:{metric.feature}"


# All applications.


def present_lines(courses: Sequence[Course], since_s: float, now: float) -> Iterator[Text]:
    """Return the present models, a paragraph each.

    Args:
        courses: the models, at least one.
        since_s: the time over which models were counted, in seconds; NaN if all were counted.
        now: the present time, seconds since the Unix epoch.

    """
    application = ""
    for course in courses:
        if course.present.application != application:
            if application:
                yield Text()
            application = course.present.application
            yield Text(printable(application), "bold")
        yield from model_lines(course.present, course.before, now)
        if course.lately > 1:
            when = "" if math.isnan(since_s) else f" in the last {readable_duration(since_s)}"
            yield Text(f"      One of {course.lately} models{when}.", "dim")


def model_lines(model: ModelOutput, before: ModelOutput | None, now: float) -> Iterator[Text]:
    """Return the lines on a model: its equation, its terms, its quality, and the reason to build it."""
    yield Text(f"  {equation_with_units(model)}")
    for term in model.terms:
        yield from _term_lines(model, term)
    if not model.terms:
        yield Text(f"      No metric of its hosts explains the {named(model.performance)}: its model is the mean.")
    yield Text(f"      {_quality(model)}", "dim")
    yield Text(f"      {_origin(model, now)}", "dim")
    if before is not None:
        change = changed(model, before)
        yield Text(f"      {change[0].upper()}{change[1:]}.", "dim")


def equation_with_units(model: ModelOutput) -> str:
    """Return a model as an equation whose coefficients have units: `response_time_mean_s = 0.05 s + 1.5 s * web-1:...`.

    For a model that is no equation, the text is that of the record.
    """
    if model.type != "linear":
        return printable(model.equation)
    unit = unit_of(model.performance).symbol
    text = f"{printable(model.performance)} = {_amount(model.intercept, unit)}"
    for term in model.terms:
        sign = "-" if term.coefficient < 0.0 else "+"
        per = _per(unit, unit_of(term.metric.feature).symbol)
        text += f" {sign} {_amount(abs(term.coefficient), per)} * {printable(metric_of(term.metric))}"
    return text


def _per(unit: str, other: str) -> str:
    """Return the unit of a coefficient: that of the performance per that of the metric."""
    if not other:
        return unit
    return "" if unit == other else f"{unit} per {other}".lstrip()


def _amount(value: float, unit: str) -> str:
    value = 0.0 if abs(value) < ROUNDED else value
    return f"{value:.3g} {unit}".rstrip()


def _term_lines(model: ModelOutput, term: TermOutput) -> Iterator[Text]:
    metric = term.metric
    line = Text(f"      {printable(metric_of(metric))}", "cyan")
    yield line.append(f"  {RESOURCES[metric.resource]} of {printable(metric.host)}", "default")
    effect_text = effect(model, term)
    yield Text(f"          {metric.description}{'; ' if effect_text else ''}{effect_text}")
    if term.family:
        others = ", ".join(map(printable, term.family[:SHOWN_FAMILY]))
        left_out = ", ..." if len(term.family) > SHOWN_FAMILY else ""
        verb = "says" if len(term.family) == 1 else "say"
        yield Text(
            f"          and {counted(len(term.family), 'metric')} that {verb} the same: {others}{left_out}", "dim"
        )


def effect(model: ModelOutput, term: TermOutput) -> str:
    """Return the effect of more of a metric, as a part of a sentence; empty in a model that is no equation."""
    if not math.isfinite(term.coefficient):
        return ""
    unit = unit_of(term.metric.feature)
    by = readable(model.performance, abs(term.coefficient * unit.more))
    return f"with {unit.text} more of it {by} {'less' if term.coefficient < 0.0 else 'more'}"


def _quality(model: ModelOutput) -> str:
    span = f"{moment(model.begin_ts)} to {clock(model.end_ts)}"
    kind = "" if model.type == "linear" else f" {kind_named(model.type)};"
    return f"R2 {model.r2:.2f};{kind} learned from {counted(model.samples, 'interval')}, {span}."


def _origin(model: ModelOutput, now: float) -> str:
    """Return the sentence on the time and the reason of the building of a model."""
    ago = readable_duration(max(now - model.ts, 0.0))
    text = f"Built {moment(model.ts)} ({ago} ago), for {reason_text(model)}."
    return text if model.live else f"{text} It was learned from recorded data."


def changed(model: ModelOutput, before: ModelOutput) -> str:
    """Return the differences from the model before, as a part of a sentence."""
    new, old = (dict.fromkeys(metric_of(term.metric) for term in one.terms) for one in (model, before))
    added, gone = [each for each in new if each not in old], [each for each in old if each not in new]
    parts = []
    if added:
        parts.append(f"added: {', '.join(map(printable, added))}")
    if gone:
        parts.append(f"removed: {', '.join(map(printable, gone))}")
    return "; ".join([*(parts or ["the same metrics"]), f"R2 was {before.r2:.2f}"])


# One application.


def course_lines(course: Course, pinned: Sequence[str], banned: Sequence[str], now: float) -> Iterator[Text]:
    """Return the report on one performance metric: the present model, its candidates, and the models before it."""
    model = course.present
    yield Text(f"{named(model.performance)} of {printable(model.application)}".capitalize(), "bold")
    yield from model_lines(model, course.before, now)
    if model.candidates:
        yield Text()
        yield from _candidate_lines(model.candidates, {metric_of(each.metric) for each in model.terms}, pinned, banned)
    if course.models[1:]:
        yield Text()
        yield Text("  Earlier models:", "dim")
        for one, before in zip(course.models[1:], (*course.models[2:], None), strict=True):
            yield Text(f"    {moment(one.ts)}  R2 {one.r2:.2f}  {equation_with_units(one)}")
            different = "" if before is None else f"; {changed(one, before)}"
            yield Text(f"        {reason_text(one)}{different}", "dim")


def reason_text(model: ModelOutput) -> str:
    """Return the reason to build a model, with the p-value for unchanged residuals of the model before."""
    p_value = f" (p-value {model.p_value:.2g})" if math.isfinite(model.p_value) else ""
    return f"{REASONS.get(model.reason, printable(model.reason))}{p_value}"


def _candidate_lines(
    candidates: Sequence[CandidateOutput], terms: set[str], pinned: Sequence[str], banned: Sequence[str]
) -> Iterator[Text]:
    shown = candidates[:SHOWN_CANDIDATES]
    of = f"the first {len(shown)} of " if len(shown) < len(candidates) else ""
    yield Text(f"  Candidate metrics ({of}{len(candidates)}):", "dim")
    yield Text(f"    {'r':>7}  {'p-value':>8}", "dim")
    for each in shown:
        metric = metric_of(each.metric)
        line = Text(f"    {each.r:>7.3f}  {each.p_value:>8.1e}  ")
        line.append(printable(metric), "cyan" if metric in terms else "")
        notes = [
            word for word, named_ in (("in the model", terms), ("pinned", pinned), ("banned", banned))
            if metric in named_
        ]  # fmt: skip
        yield line.append(f"  ({', '.join(notes)})" if notes else "")


def wish_lines(pinned: Sequence[str], banned: Sequence[str], waiting: Sequence[tuple[str, str]]) -> Iterator[Text]:
    """Return the wishes for an application; those in `waiting` (metric and wish) hold from its next interval."""
    for word, metrics in (("Pinned", pinned), ("Banned", banned)):
        if metrics:
            yield Text(f"{word}: {', '.join(map(printable, metrics))}")
    for metric, wish in waiting:
        yield Text(f"From the next interval on: {wish} {printable(metric)}")


# What if.


class WhatIf(NamedTuple):
    """The predictions of a model with the newest values of all metrics, and with another value of one metric.

    Attributes:
        performance: the performance metric.
        now: the prediction for the newest values.
        then: the prediction for the other value.

    """

    performance: str
    now: float
    then: float


def what_if_lines(
    application: str, metric: str, value: float, newest: float, found: Sequence[WhatIf]
) -> Iterator[Text]:
    """Return the predictions for another value of a metric; `newest` is its present value."""
    feature = metric_parts(metric).feature.partition("{")[0]
    for each in found:
        sentence = f"The {named(each.performance)} of {printable(application)} "
        difference = each.then - each.now
        if math.isnan(each.then):
            sentence += "is unknown: a metric of its model has no value"
        else:
            sentence += f"would be {readable(each.performance, each.then)}"
        if math.isfinite(difference):
            by = readable(each.performance, abs(difference))
            sentence += f", {by} {'less' if difference < 0.0 else 'more'} than by its model now"
        yield Text(f"{sentence}.", "bold")
    is_, would_be = readable(feature, newest), readable(feature, value)
    yield Text(f"{printable(metric)} is {is_}; this is for {would_be}, all other metrics as they are.", "dim")
    yield Text("A model knows correlations, and only near the values that it has learned.", "dim")
