"""The data of every view: the hosts, the present time, and the marks that people set."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from laggard.pipeline.core.bus import Outgoing
from laggard.pipeline.core.records import encode
from laggard.pipeline.core.records.limits import MAX_NOTE
from laggard.pipeline.core.topics import COUNTERS
from laggard.pipeline.history.marks import mark_id
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, HostName, OnlyHost, Question, Seconds, Time
from laggard.pipeline.investigator.settings import ServeSettings
from laggard.pipeline.web.marks import checked_mark

if TYPE_CHECKING:
    from laggard.pipeline.history.marks import Marked
    from laggard.pipeline.investigator.caller import Caller
    from laggard.pipeline.investigator.reading import Reading


class Hosts(Answer, frozen=True):
    """The recorded hosts, the host of this page, and the rights of the caller."""

    version: Annotated[str, msgspec.Meta(description="the version of laggard")]
    host: Annotated[str, msgspec.Meta(description="the name of the machine that serves this page")]
    hosts: Annotated[list[str], msgspec.Meta(description="the names of the recorded hosts, sorted")]
    now: Seconds
    writes: Annotated[bool, msgspec.Meta(description="whether the caller may change things")]
    who: Annotated[str, msgspec.Meta(description="the name of the caller, as a proxy reports it; empty without one")]
    session: Annotated[bool, msgspec.Meta(description="whether the caller uses a session, which can be ended")]
    url: Annotated[
        str,
        msgspec.Meta(description="the public address of this page: the setting `serve.url`; empty if it is not set"),
    ]


class OneMark(Answer, frozen=True):
    """A mark: a person's report that something was slow."""

    id: Annotated[str, msgspec.Meta(description="the id of the mark")]
    ts: Seconds
    host: HostName
    note: Annotated[str, msgspec.Meta(description="the comment of the person or program; may be empty")]
    frame_ts: Annotated[
        float,
        msgspec.Meta(
            description="the time of the judged frame, seconds since the Unix epoch; that of the mark if it is earlier "
            "or no frame was judged"
        ),
    ]


class Marks(Answer, frozen=True):
    """Marks, newest first."""

    marks: Annotated[list[OneMark], msgspec.Meta(description="the marks, newest first")]


class MarksQuestion(Question, frozen=True):
    """The host of the marks, and their earliest time."""

    host: OnlyHost = ""
    since: Time = 0.0
    most: Annotated[int, msgspec.Meta(ge=1, le=1000, description="the most marks to return")] = 100


class NewMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new mark: something is slow, or was."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NOTE, description="the name of the slow host")]
    note: Annotated[str, msgspec.Meta(max_length=MAX_NOTE, description="a comment for people")] = ""
    ts: Annotated[
        float | None, msgspec.Meta(description="the slow moment, seconds since the Unix epoch; null for now")
    ] = None


class Marking(Answer, frozen=True):
    """The new mark."""

    mark: Annotated[OneMark, msgspec.Meta(description="the new mark")]


def cluster(reading: Reading, _: Question, *, caller: Caller) -> Hosts:
    """Return the recorded hosts, and the rights of the caller."""
    return Hosts(
        version("laggard"),
        reading.host,
        list(reading.history.hosts.all()),
        reading.clock(),
        caller.writes,
        caller.who,
        caller.shown is not None,
        reading.settings[ServeSettings].url.rstrip("/"),
    )


def marks(reading: Reading, question: MarksQuestion) -> Marks:
    """Return the marks of a host, or of all."""
    found = reading.history.marks(question.host or None)
    return Marks([_one_mark(each) for each in found if each.ts >= question.since][: question.most])


def set_mark(reading: Reading, _: Question, new: NewMark) -> Marking:
    """Record a mark."""
    now = reading.clock()
    mark = checked_mark(new.host, now if new.ts is None else new.ts, new.note, now)
    reading.allowance.take()
    reading.bus.append([Outgoing(reading.topics.name(COUNTERS), mark.host, encode(mark), mark.ts)])
    return Marking(OneMark(mark_id(mark.host, mark.ts, mark.note), mark.ts, mark.host, mark.note, mark.ts))


def _one_mark(mark: Marked) -> OneMark:
    return OneMark(mark.id, mark.ts, mark.host, mark.note, mark.frame_ts)


ENDPOINTS: Final = (
    Endpoint("/cluster", "The recorded hosts, and the rights of the caller.", Hosts, cluster, asks_caller=True),
    Endpoint("/marks", "The marks of a host, or of all, the newest first.", Marks, marks, MarksQuestion),
    Endpoint("/marks", "Mark a moment of a host as slow.", Marking, set_mark, body=NewMark, status=201),
)
