"""The records of the progress of an anomaly, and of the end of a notice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from laggard.operators.ranking import Ranking
from laggard.pipeline.alarms.text import ended_sentence
from laggard.pipeline.core.records.outputs import Notice, Progress
from laggard.pipeline.explaining.verdict import narrowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.alarms.courses import Course, Update
    from laggard.pipeline.core.records.outputs import Parameter

ANOMALY_ROWS, ANOMALY_FEATURES = 5, 5
"""The most rows of a ranking in the records of an anomaly, and features of each."""


def progress(
    told: Update,
    operator: str,
    parameters: Mapping[str, Parameter],
    *,
    key: str,
    scope: str,
    ts: float,
    sentence: str = "",
    silent_since_ts: float = math.nan,
) -> Progress:
    """Return the record of the progress of an anomaly.

    Args:
        told: the change.
        operator: its operator.
        parameters: the parameters of the operator.
        key: the key of the anomaly.
        scope: the scope of its rows.
        ts: seconds since the Unix epoch.
        sentence: the sentence on the ranking; empty without one.
        silent_since_ts: see `Progress`.

    """
    course = told.course
    ranking = None if told.ranking is None else narrowed(told.ranking, ANOMALY_ROWS, ANOMALY_FEATURES)
    sentence = sentence or ended_sentence(
        course.blame,
        scope,
        course.until_ts - course.began_ts,
        silent_since_ts,
        accepted=told.accepted,
        feedback=told.feedback,
    )
    return Progress(
        **_found(course, operator, parameters, key, scope, ts, sentence, ranking),
        change=told.change,
        number=course.number,
        silent_since_ts=silent_since_ts,
        accepted=told.accepted,
        feedback=told.feedback,
    )


def notice_ended(
    course: Course, operator: str, parameters: Mapping[str, Parameter], *, key: str, scope: str, ts: float, became: str
) -> Notice:
    """Return the record of the end of a notice; see `progress` and `Notice`."""
    sentence = ended_sentence(course.blame, scope, course.until_ts - course.began_ts, math.nan)
    return Notice(**_found(course, operator, parameters, key, scope, ts, sentence), change="ended", became=became)


def _found(  # noqa: PLR0917 - the common fields of both records
    course: Course,
    operator: str,
    parameters: Mapping[str, Parameter],
    key: str,
    scope: str,
    ts: float,
    sentence: str,
    ranking: Ranking | None = None,
) -> dict[str, Any]:
    """Return the arguments of a record of a course; without a ranking it has ended."""
    if ranking is None:
        age_s = course.age_s + ts - course.opened_ts
        ranking = Ranking(ts=ts, score=course.score, rows=(), age_s=age_s, young=course.young)
    return {
        "id": course.id,
        "operator": operator,
        "parameters": parameters,
        "keyed_by": course.keyed_by,
        "key": key,
        "ts": ts,
        "score": course.score,
        "ranking": ranking,
        "sentence": sentence,
        "model_age_s": ranking.age_s,
        "young": ranking.young,
        "live": course.live,
        "scope": scope,
        "blame": course.blame,
        "onset_ts": course.onset_ts,
        "opened_ts": course.opened_ts,
        "until_ts": course.until_ts,
    }
