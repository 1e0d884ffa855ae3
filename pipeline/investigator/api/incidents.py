"""The list of incidents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from laggard.pipeline.investigator.api.notices import NoticesQuestion
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Number, RowId, RowName, Seconds, Sentence, Text
from laggard.pipeline.methods.incidents.queries import lasted_s
from laggard.pipeline.methods.incidents.report import silence
from laggard.pipeline.methods.incidents.silence import silent_hosts
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.records.outputs import Blame, Incident
    from laggard.pipeline.investigator.reading import Reading

KeyedBy = Literal["host", "application", "pool", "service"]
KeyKind = Annotated[KeyedBy, msgspec.Meta(description="the kind of `key`")]
KeyName = Annotated[str, msgspec.Meta(description="the name of the host, application, pool or service")]

Score = Annotated[
    float | None,
    msgspec.Meta(
        description="the score; above 1 is more than the false-alarm budget allows; null if it is too large for "
        "a number"
    ),
]


class Whose(Answer, frozen=True):
    """The subject of an incident: a host, an application, a pool or a service."""

    keyed_by: KeyKind
    key: KeyName


class Blamed(Answer, frozen=True):
    """The likely culprit, and the counter that indicates it."""

    row: RowId
    name: RowName
    feature: Annotated[
        str, msgspec.Meta(description="the name of the counter, with its base unit; empty if it is unknown")
    ]
    value: Annotated[
        Number, msgspec.Meta(description="the value of the counter, in its base unit; null if it is unknown")
    ]
    usual: Annotated[
        Number, msgspec.Meta(description="the mean of the baseline, in the same unit; null if it is unknown")
    ]
    usual_deviation: Annotated[
        Number,
        msgspec.Meta(description="the standard deviation of the baseline, in the same unit; null if it is unknown"),
    ]
    resources: Annotated[
        list[str],
        msgspec.Meta(description="the resources that it uses or lacks, such as `cpu`; empty if they are unknown"),
    ]


Culprit = Annotated[Blamed | None, msgspec.Meta(description="the probable culprit; null if there is none")]


class OneIncident(Answer, frozen=True):
    """An incident in a list."""

    id: Annotated[str, msgspec.Meta(description="the id of the incident: the same in all its records")]
    is_open: Annotated[bool, msgspec.Meta(description="whether it is open")] = msgspec.field(name="open")
    keyed_by: KeyKind
    key: KeyName
    opened_ts: Seconds
    until_ts: Annotated[
        Number,
        msgspec.Meta(
            description="the last time at which one of its scores was above 1, seconds since the Unix epoch; null "
            "while it is open"
        ),
    ]
    lasted_s: Annotated[
        float, msgspec.Meta(description="the duration of the incident, in seconds; until now while it is open")
    ]
    score: Score
    operators: Annotated[list[str], msgspec.Meta(description="the operators that detected it, sorted by name")]
    blamed: Culprit
    sentence: Sentence
    silence: Annotated[
        str,
        msgspec.Meta(description="a sentence on the silence of its host while it is open; empty if the host reports"),
    ]
    young: Annotated[
        bool, msgspec.Meta(description="whether all of its operators had learned too little for reliable results")
    ]
    live: Annotated[bool, msgspec.Meta(description="whether it is about the present; false for replayed recordings")]
    merged_into: Annotated[str, msgspec.Meta(description="the id of the incident that continues it; otherwise empty")]


class Incidents(Answer, frozen=True):
    """Incidents: open ones first, then those that opened last."""

    incidents: Annotated[
        list[OneIncident], msgspec.Meta(description="the incidents: open ones first, then those that opened last")
    ]
    left_out: Annotated[int, msgspec.Meta(description="the number of further incidents that are left out")]
    begins_ts: Annotated[
        Number,
        msgspec.Meta(
            description="the time from which on records were read, seconds since the Unix epoch; null if all stored "
            "ones were read"
        ),
    ]
    since: Annotated[
        float,
        msgspec.Meta(
            description="the start of the range, seconds since the Unix epoch: incidents that were open then or later "
            "are listed"
        ),
    ]
    keys: Annotated[
        list[Whose],
        msgspec.Meta(description="the subjects of the incidents of the range, also of those left out, sorted"),
    ]


class IncidentsQuestion(NoticesQuestion, frozen=True):
    """The subject and the time of incidents; at most one of `host`, `application`, `pool` and `service` is given."""

    application: Annotated[Text, msgspec.Meta(description="only incidents of this application; empty for all")] = ""
    pool: Annotated[Text, msgspec.Meta(description="only incidents of this pool; empty for all")] = ""
    service: Annotated[Text, msgspec.Meta(description="only incidents of this service; empty for all")] = ""


def incidents(reading: Reading, question: IncidentsQuestion) -> Incidents:
    """List incidents."""
    given = [(name, key) for name in ("host", "application", "pool", "service") if (key := getattr(question, name))]
    if len(given) > 1:
        names = " and ".join(repr(name) for name, _ in given)
        raise RequestError(400, f"parameters {names} exclude each other", "at most one of them")
    now = reading.clock()
    since = now - question.within if question.begin is None else question.begin
    entries, begins = reading.incidents.since(since)
    found = [
        each
        for each in entries
        if (not given or (each.fields.keyed_by, each.key) == given[0])
        and (question.end is None or each.fields.opened_ts <= question.end)
    ]
    keys = sorted({(each.fields.keyed_by, each.key) for each in found})
    if question.only_open:
        found = [each for each in found if each.fields.until_ts == math.inf]
    found.sort(key=lambda each: (each.fields.until_ts < math.inf, -each.fields.opened_ts))
    shown = reading.incidents.read(found[: question.most])
    silent = silent_hosts(reading.bus, reading.topics, shown, now)
    return Incidents(
        incidents=[incident_of(each, silent, now) for each in shown],
        left_out=max(len(found) - question.most, 0),
        begins_ts=begins,
        since=since,
        keys=[Whose(msgspec.convert(keyed_by, KeyedBy), key) for keyed_by, key in keys],
    )


def incident_of(found: Incident, silent: Mapping[str, float], now: float) -> OneIncident:
    """Return an incident as the page lists it."""
    return OneIncident(
        id=found.id,
        is_open=found.change != "closed",
        keyed_by=found.keyed_by,
        key=found.key,
        opened_ts=found.opened_ts,
        until_ts=found.until_ts if found.change == "closed" else math.nan,
        lasted_s=lasted_s(found, now),
        score=found.score,
        operators=sorted({each.operator for each in found.evidence}),
        blamed=blamed_of(found.blame),
        sentence=found.sentence,
        silence=silence(found, silent, now),
        young=found.young,
        live=found.live,
        merged_into=found.merged_into,
    )


def blamed_of(blame: Blame | None) -> Blamed | None:
    """Return the culprit of an incident in words, None for none."""
    if blame is None:
        return None
    return Blamed(
        blame.row,
        blame.name,
        blame.feature,
        blame.value,
        blame.usual,
        blame.usual_deviation,
        list(blame.resources),
    )


ENDPOINTS: Final = (Endpoint("/incidents", "Incidents, open ones first.", Incidents, incidents, IncidentsQuestion),)
