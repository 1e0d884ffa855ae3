"""Notices: suspicious deviations that are too small for an incident."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.core.records.limits import MAX_TS
from laggard.pipeline.investigator.endpoint import (
    Answer,
    Endpoint,
    HostName,
    Number,
    OnlyHost,
    Question,
    Seconds,
    Sentence,
    Time,
)
from laggard.pipeline.methods.incidents.queries import past_notices

if TYPE_CHECKING:
    from laggard.pipeline.investigator.reading import Reading
    from laggard.pipeline.methods.incidents.queries import PastNotice

LISTED_S: Final = 86_400.0
"""The default time range of the list, in seconds."""


class OneNotice(Answer, frozen=True):
    """A notice, and the time for which it was open."""

    id: Annotated[str, msgspec.Meta(description="the id of the notice")]
    host: HostName
    begin: Seconds = msgspec.field(name="from")
    until: Annotated[
        Number, msgspec.Meta(description="the end of the notice, seconds since the Unix epoch; null while it is open")
    ] = msgspec.field(name="to")
    sentence: Sentence
    became: Annotated[bool, msgspec.Meta(description="whether it has become an anomaly, and so an incident")]


class Notices(Answer, frozen=True):
    """Notices, newest first."""

    notices: Annotated[list[OneNotice], msgspec.Meta(description="the notices, newest first")]
    left_out: Annotated[int, msgspec.Meta(description="the number of older notices that are left out")]


class NoticesQuestion(Question, frozen=True):
    """The host and the time of notices."""

    host: OnlyHost = ""
    only_open: Annotated[bool, msgspec.Meta(description="whether to return only entries that are still open")] = (
        msgspec.field(name="open", default=False)
    )
    within: Annotated[
        float,
        msgspec.Meta(
            gt=0.0,
            le=MAX_TS,
            description="the length of the range before now, in seconds; entries that were open in it are returned",
        ),
    ] = LISTED_S
    begin: Annotated[
        Time | None,
        msgspec.Meta(description="the start of the range, seconds since the Unix epoch; it replaces `within`"),
    ] = msgspec.field(name="from", default=None)
    end: Time | None = msgspec.field(name="to", default=None)
    most: Annotated[int, msgspec.Meta(ge=1, le=1000, description="the most entries to return")] = 200


def notices(reading: Reading, question: NoticesQuestion) -> Notices:
    """List notices."""
    since = reading.clock() - question.within if question.begin is None else question.begin
    found = [
        each
        for each in past_notices(reading.bus, reading.topics, since, key=question.host or None)
        if (question.end is None or each.opened.ts <= question.end) and not (question.only_open and each.ended)
    ]
    return Notices([_one(each) for each in found[: question.most]], max(len(found) - question.most, 0))


def _one(notice: PastNotice) -> OneNotice:
    opened, ended = notice
    until = None if ended is None else ended.until_ts
    became = ended is not None and bool(ended.became)
    return OneNotice(opened.id, opened.key, opened.ts, until, opened.sentence, became)


ENDPOINTS: Final = (
    Endpoint(
        "/notices", "Notices: suspicious, but not unusual enough for an incident.", Notices, notices, NoticesQuestion
    ),
)
