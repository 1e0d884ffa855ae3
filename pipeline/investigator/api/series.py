"""Time series of a counter, and of a host: thinned to the points that a page can draw, without losing spikes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.history.series import CONTEXT_S
from laggard.pipeline.investigator.endpoint import (
    Answer,
    Counter,
    Endpoint,
    HostName,
    Number,
    Question,
    RowId,
    Text,
    Time,
    WantedHost,
)
from laggard.pipeline.investigator.events import MarkNear, OpenIncident
from laggard.pipeline.investigator.moments import HOST
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from laggard.pipeline.investigator.moments import AnalyzedMoment
    from laggard.pipeline.investigator.reading import Reading

AFTER_S: Final = 300.0
"""The time that a series continues after the moment by default, in seconds: this shows the recovery."""

TIMELINE: Final = "cpu_busy_ratio"
"""The counter of the host that a timeline shows."""


Start = Annotated[float, msgspec.Meta(description="the start of the range, seconds since the Unix epoch")]
Stop = Annotated[float, msgspec.Meta(description="the end of the range, seconds since the Unix epoch")]
Times = Annotated[list[float], msgspec.Meta(description="the times of the points, seconds since the Unix epoch")]
Values = Annotated[
    list[Number], msgspec.Meta(description="the values, or the means of the ticks that make a point; null without one")
]
Least = Annotated[list[Number], msgspec.Meta(description="the least of the ticks that make a point; null without one")]
Greatest = Annotated[
    list[Number], msgspec.Meta(description="the greatest of the ticks that make a point; null without one")
]
UsualTick = Annotated[
    float, msgspec.Meta(description="the usual time between two frames, in seconds; 0 if it is unknown")
]
Step = Annotated[
    float, msgspec.Meta(description="the time between two points, in seconds; a tick if the series is not thinned")
]
MarksThen = Annotated[list[MarkNear], msgspec.Meta(description="the marks of the host in the range, newest first")]
IncidentsThen = Annotated[
    list[OpenIncident],
    msgspec.Meta(description="the incidents of the host that were open in the range, the one that opened last first"),
]


class Usual(Answer, frozen=True):
    """The baseline of a counter, as it was scored at the moment."""

    mean: Annotated[
        Number, msgspec.Meta(description="the mean of the baseline, in the unit of the counter; null without one")
    ]
    standard_deviation: Annotated[
        Number,
        msgspec.Meta(
            description="the standard deviation of the baseline, in the unit of the counter; null without one"
        ),
    ]
    score: Annotated[
        Number, msgspec.Meta(description="the score of the counter at the moment; null if it was not judged")
    ]


class Band(Answer, frozen=True):
    """The mean of the baseline minus and plus its standard deviation."""

    low: Annotated[float, msgspec.Meta(description="the mean minus the standard deviation, in the unit of the counter")]
    high: Annotated[float, msgspec.Meta(description="the mean plus the standard deviation, in the unit of the counter")]


class Series(Answer, frozen=True):
    """A counter of a row over time. The lists of times and values have the same length, in the order of time."""

    host: HostName
    row: RowId
    scope: Annotated[str, msgspec.Meta(description="the kind of the row, as `process` or `host`")]
    feature: Counter
    begin: Start = msgspec.field(name="from")
    end: Stop = msgspec.field(name="to")
    moment: Annotated[
        Number,
        msgspec.Meta(description="the time of the judged frame; without one near it, the requested moment, in seconds"),
    ]
    ts: Times
    values: Values
    low: Least
    high: Greatest
    tick_s: UsualTick
    step_s: Step
    complete: Annotated[
        bool, msgspec.Meta(description="whether all ticks were read; otherwise request them again soon")
    ]
    usual: Annotated[Usual | None, msgspec.Meta(description="the baseline at the moment; null without one")]
    band: Annotated[Band | None, msgspec.Meta(description="the usual range of the counter; null without a baseline")]
    marks: MarksThen
    incidents: IncidentsThen


class Timeline(Answer, frozen=True):
    """A counter of a host over time, with its marks and incidents. Lists are as in `Series`."""

    host: HostName
    begin: Start = msgspec.field(name="from")
    end: Stop = msgspec.field(name="to")
    first_ts: Annotated[
        float, msgspec.Meta(description="the time of the oldest frame of the host, seconds since the Unix epoch")
    ]
    last_ts: Annotated[
        float, msgspec.Meta(description="the time of the newest frame of the host, seconds since the Unix epoch")
    ]
    feature: Counter
    ts: Times
    values: Values
    low: Least
    high: Greatest
    tick_s: UsualTick
    step_s: Step
    complete: Annotated[
        bool, msgspec.Meta(description="whether all samples of the frames were read; otherwise request them again soon")
    ]
    marks: MarksThen
    incidents: IncidentsThen


Points = Annotated[
    int, msgspec.Meta(ge=10, le=20_000, description="the most points, without those that break the line")
]


class SeriesQuestion(Question, frozen=True):
    """A counter, a moment and a time range; by default from 4 hours before the moment to 5 minutes after it."""

    row: Annotated[
        Text, msgspec.Meta(description="the id of the row; with scope `host`, `host` is the own row of the host")
    ]
    feature: Annotated[Text, msgspec.Meta(description="the name of the counter")]
    host: WantedHost = ""
    scope: Annotated[Text, msgspec.Meta(description="the kind of the row, as `process` or `host`")] = "process"
    at: Time | None = None
    begin: Time | None = msgspec.field(name="from", default=None)
    end: Time | None = msgspec.field(name="to", default=None)
    points: Points = 1500


class TimelineQuestion(Question, frozen=True):
    """A host and a time range; by default all recorded frames."""

    host: WantedHost = ""
    begin: Time | None = msgspec.field(name="from", default=None)
    end: Time | None = msgspec.field(name="to", default=None)
    points: Points = 500


def series(reading: Reading, question: SeriesQuestion) -> Series:
    """Return a counter over time."""
    host = reading.choose_host(question.host)
    with reading.columns.waiting():
        analyzed = _moment(reading, host, question.at)
    row = question.row
    if question.scope == HOST and row == HOST and analyzed is not None and analyzed.why.host_frame is not None:
        row = analyzed.why.host_frame.layout.rows[0]
    newest = reading.columns.bounds(host)[1] if analyzed is None else analyzed.why.frame.ts
    moment = newest if question.at is None else question.at
    begin = moment - CONTEXT_S if question.begin is None else question.begin
    end = moment + AFTER_S if question.end is None else question.end
    _check_range(begin, end)
    found = reading.columns.thinned(
        host, question.scope, row, question.feature, begin=begin, end=end, points=question.points, moment=moment
    )
    if found.complete and all(each is None for each in found.values):
        raise RequestError(
            404,
            f"no {question.feature[:100]!r} of row {row[:100]!r} of scope {question.scope[:100]!r} from {begin!r} "
            f"to {end!r}",
            "a row, and a feature of it, that /row has",
        )
    usual = None if analyzed is None else analyzed.usual(question.scope, row, question.feature)
    baseline = None
    band = None
    if usual is not None:
        baseline = Usual(_number(usual.mean), _number(usual.standard_deviation), _number(usual.score))
        if math.isfinite(usual.mean) and math.isfinite(usual.standard_deviation):
            band = Band(usual.mean - usual.standard_deviation, usual.mean + usual.standard_deviation)
    return Series(
        host=host,
        row=row,
        scope=question.scope,
        feature=question.feature,
        begin=begin,
        end=end,
        moment=moment if analyzed is None else analyzed.why.frame.ts,
        ts=found.ts,
        values=found.values,
        low=found.low,
        high=found.high,
        tick_s=found.tick_s,
        step_s=found.step_s,
        complete=found.complete,
        usual=baseline,
        band=band,
        marks=reading.events.marks(host, begin, end),
        incidents=reading.events.incidents(host, begin, end),
    )


def timeline(reading: Reading, question: TimelineQuestion) -> Timeline:
    """Return a host over time."""
    host = reading.choose_host(question.host)
    first, last = reading.columns.bounds(host)
    begin = first if question.begin is None else question.begin
    end = last if question.end is None else question.end
    _check_range(begin, end)
    found = reading.columns.thinned(
        host, HOST, None, TIMELINE, begin=begin, end=end, points=question.points, whole=False
    )
    return Timeline(
        host=host,
        begin=begin,
        end=end,
        first_ts=first,
        last_ts=last,
        feature=TIMELINE,
        ts=found.ts,
        values=found.values,
        low=found.low,
        high=found.high,
        tick_s=found.tick_s,
        step_s=found.step_s,
        complete=found.complete,
        marks=reading.events.marks(host, begin, end),
        incidents=reading.events.incidents(host, begin, end),
    )


def _moment(reading: Reading, host: str, at: float | None) -> AnalyzedMoment | None:
    """Return the moment; None without a frame near it: its series can be shown without one."""
    try:
        return reading.moments.at(host, at)
    except RequestError:
        return None


def _check_range(begin: float, end: float) -> None:
    if not begin <= end:
        raise RequestError(400, f"parameters 'from' and 'to' are {begin!r} and {end!r}", "times, the earlier one first")


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("/series", "One counter of one row over time.", Series, series, SeriesQuestion),
    Endpoint("/timeline", "A host over time, with marks and incidents.", Timeline, timeline, TimelineQuestion),
)
