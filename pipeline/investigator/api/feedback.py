"""Feedback of people on incidents, as usual or expected: new feedback, and the list of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.alarms.text import feedback_sentence
from laggard.pipeline.alarms.tolerance import LONGEST_S, holds_until, of_incident, of_names, withdrawal
from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import RecordError, encode
from laggard.pipeline.core.records.feedback import Says
from laggard.pipeline.core.records.frame import KeyedBy  # noqa: TC001 - msgspec reads annotations
from laggard.pipeline.core.records.limits import MAX_CASES, MAX_KEY, MAX_NAME, MAX_NOTE
from laggard.pipeline.core.topics import TOPIC_OF
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Question, Seconds, Sentence, Text, Time
from laggard.pipeline.methods.incidents.queries import PastFeedback, past_feedback
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from laggard.pipeline.core.records.feedback import Feedback
    from laggard.pipeline.investigator.reading import Reading

Said = Annotated[
    Says,
    msgspec.Meta(
        description="`usual`: it is no anomaly; `expected`: it is expected until a time; `withdrawn`: earlier feedback "
        "no longer holds"
    ),
]


class OneFeedback(Answer, frozen=True):
    """A person's feedback."""

    id: Annotated[
        str, msgspec.Meta(description="the id of the feedback; a withdrawal has that of the feedback that it withdraws")
    ]
    ts: Seconds
    keyed_by: Annotated[KeyedBy, msgspec.Meta(description="the kind of `key`")]
    key: Annotated[str, msgspec.Meta(description="the name of the host, application, pool or service")]
    says: Said
    sentence: Sentence
    until: Annotated[float, msgspec.Meta(description="the time until which it holds, seconds since the Unix epoch")]
    incident: Annotated[str, msgspec.Meta(description="the id of the incident that it is about; empty if none")]
    note: Annotated[str, msgspec.Meta(description="the reason, for people; may be empty")]
    holds: Annotated[bool, msgspec.Meta(description="whether it holds now")]


class AllFeedback(Answer, frozen=True):
    """Feedback, newest first."""

    feedback: Annotated[list[OneFeedback], msgspec.Meta(description="the feedback, newest first")]


class FeedbackQuestion(Question, frozen=True):
    """The host, application, pool or service of feedback, and its incident."""

    key: Annotated[
        Text, msgspec.Meta(description="only feedback on this host, application, pool or service; empty for all")
    ] = ""
    incident: Annotated[Text, msgspec.Meta(description="only feedback on the incident of this id; empty for all")] = ""


class NewFeedback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New feedback: on an incident, on programs of a host, or the withdrawal of earlier feedback."""

    says: Said
    incident: Annotated[
        str, msgspec.Meta(max_length=MAX_NAME, description="the id of the incident that is usual or expected")
    ] = ""
    host: Annotated[
        str,
        msgspec.Meta(
            max_length=MAX_KEY,
            description="the name of the host if there is no incident; empty for the host of this page, or the "
            "only recorded one",
        ),
    ] = ""
    names: Annotated[
        list[str],
        msgspec.Meta(
            max_length=MAX_CASES,
            description="the names of the expected programs if there is no incident; empty for all",
        ),
    ] = []
    until: Annotated[
        Time | None,
        msgspec.Meta(
            description="the time until which it is expected, seconds since the Unix epoch; required for `expected`"
        ),
    ] = None
    id: Annotated[str, msgspec.Meta(max_length=MAX_NAME, description="the id of the feedback to withdraw")] = ""
    note: Annotated[str, msgspec.Meta(max_length=MAX_NOTE, description="the reason, for people")] = ""


def feedback(reading: Reading, question: FeedbackQuestion) -> AllFeedback:
    """List feedback."""
    now = reading.clock()
    found = past_feedback(reading.bus, reading.topics, now - LONGEST_S, key=question.key or None)
    wanted = [each for each in found if each.feedback.incident == question.incident or not question.incident]
    return AllFeedback([_one(each, now) for each in wanted])


def record_feedback(reading: Reading, _: Question, new: NewFeedback) -> OneFeedback:
    """Record a person's feedback."""
    now = reading.clock()
    reading.allowance.take()
    entry = _feedback_of(reading, new, now)
    try:
        value = encode(entry)
    except RecordError as error:
        raise RequestError(400, f"field '{error.field}' is {error.got}", error.expected) from None
    reading.bus.append([Outgoing(reading.topics.name(TOPIC_OF[entry.keyed_by]), entry.key, value, entry.ts)])
    return _one(PastFeedback(entry, math.nan), now)


def _feedback_of(reading: Reading, new: NewFeedback, now: float) -> Feedback:
    if new.says == "withdrawn":
        found = past_feedback(reading.bus, reading.topics, now - LONGEST_S)
        entry = next((each.feedback for each in found if each.feedback.id == new.id), None)
        if entry is None and new.incident and new.id:  # no operator has processed it yet
            entry = replace(of_incident(reading.incident(new.incident), "usual", now), id=new.id)
        if entry is None:
            raise RequestError(404, f"nothing was said under the id {new.id[:100]!a}", "an id that /feedback lists")
        return withdrawal(entry, now, new.note)
    if new.says == "expected" and (new.until is None or new.until <= now):
        raise RequestError(400, f"field 'until' is {new.until!r}", f"a time after {now!r}, which is now")
    until_ts = math.nan if new.until is None else new.until
    if new.incident:
        return of_incident(reading.incident(new.incident), new.says, now, until_ts=until_ts, note=new.note)
    if new.says == "usual":
        raise RequestError(400, "field 'incident' is empty", "the id of the incident that is usual")
    return of_names("host", reading.choose_host(new.host), new.names, now, until_ts=until_ts, note=new.note)


def _one(each: PastFeedback, now: float) -> OneFeedback:
    entry = each.feedback
    return OneFeedback(
        id=entry.id,
        ts=entry.ts,
        keyed_by=entry.keyed_by,
        key=entry.key,
        says=entry.says,
        sentence=feedback_sentence(entry),
        until=holds_until(entry),
        incident=entry.incident,
        note=entry.note,
        holds=entry.says != "withdrawn" and each.holds(now),
    )


ENDPOINTS: Final = (
    Endpoint("/feedback", "Feedback on incidents, the newest first.", AllFeedback, feedback, FeedbackQuestion),
    Endpoint(
        "/feedback",
        "Mark an incident as usual or expected, or withdraw feedback.",
        OneFeedback,
        record_feedback,
        body=NewFeedback,
        status=201,
    ),
)
