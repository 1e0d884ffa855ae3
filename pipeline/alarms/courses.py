"""The course of published anomalies: which of their changes are published, and when.

Hysteresis: the trigger of a stream fires again after its score has stayed at most 1 for `QUIET_S`, and an anomaly of a
host ends after it has done so for `JOINED_S`. An anomaly in between is a new one, but the same fault: `joiner` sees
both of them open. The operators of pools, services and applications decide by their newest ticks whether a deviation
lasts. So their anomalies end after `OVER_S`.

All times are those of frames. The course of an anomaly is unknown while its host is off. It counts as ended once the
host has been silent for `eventtime.SILENT_S` by the frames of other keys of its partition, or its state is dropped. The
record says that the end was not observed. If the deviation is still there when frames come again, it is a new anomaly.
The only time of a host that is alone on its partition is its own: there nothing ends before its frames come again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.pipeline.core.records.outputs import Blame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.contract import Open
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.core.records import KeyedBy
    from laggard.pipeline.core.records.outputs import Anomaly, AnomalyChange, Excuse, Notice

JOINED_S: Final = 300.0
"""An anomaly ends when its score has stayed at most 1 for this time, in seconds."""

OVER_S: Final = 30.0
"""The same for pools, services and applications. It leaves half of the minute after a fault to the operator. With
longer ticks the first calm one ends an anomaly."""

GOES_ON_S: Final = 900.0
"""An open anomaly is published again after this time, in seconds, and whenever its age has doubled."""

LOOKED_S: Final = 60.0
"""The time between two checks of an anomaly for a change, in seconds."""

WORSE: Final = 2.0
"""An anomaly is worse when its score is this many times the published one."""

MOST_CHANGES: Final = 10
"""The most records of an anomaly for being worse, or for another culprit."""


class Course(NamedTuple):
    """One anomaly, from its opening to its end.

    Attributes:
        id: the id of the anomaly.
        keyed_by: the kind of its key.
        opened_ts: the time of its first record, seconds since the Unix epoch.
        live: whether it is about the present.
        until_ts: the last time at which its score was above 1.
        score: its worst score.
        told_score: its worst score in the last record.
        looked_ts: the time of the last check for a change.
        number: the number of records on its progress.
        changes: the number of these for being worse, or for another culprit.
        next_s: the age at which it is published again, in seconds.
        causes: all culprits so far, each with its resources, as text.
        blame: the last culprit; None for none.
        age_s: the age of the model when it opened, in seconds.
        young: whether that was too short for reliable scores.
        own: the operator's own id of it; empty for the anomaly of the stream's score.
        onset_ts: the estimated time of its onset; NaN if that is the time of its opening.

    """

    id: str
    keyed_by: KeyedBy
    opened_ts: float
    live: bool
    until_ts: float
    score: float
    told_score: float
    looked_ts: float
    number: int
    changes: int
    next_s: float
    causes: tuple[str, ...]
    blame: Blame | None
    age_s: float
    young: bool
    own: str = ""
    onset_ts: float = math.nan

    @property
    def began_ts(self) -> float:
        """The estimated time of its onset."""
        return self.opened_ts if math.isnan(self.onset_ts) else self.onset_ts

    def after(self, ts: float, score: float) -> Course:
        """Return the course after a further score above 1."""
        return self._replace(until_ts=ts, score=max(self.score, score))

    def blames(self, blame: Blame | None) -> bool:
        """Return whether the newest culprit is this program."""
        return self.blame is not None and blame is not None and self.blame.name == blame.name

    def of_operator(self, own: str, onset_ts: float) -> Course:
        """Return the course as one that the operator keeps open."""
        return self._replace(own=own, onset_ts=onset_ts)

    def is_record_due(self, ts: float) -> bool:
        """Return whether it is due to be published again."""
        return ts - self.opened_ts >= self.next_s

    def is_check_due(self, ts: float) -> bool:
        """Return whether it is due to be checked for a change."""
        return ts - self.looked_ts >= LOOKED_S and (self.changes < MOST_CHANGES or self.is_record_due(ts))

    def worse(self, blame: Blame | None) -> bool:
        """Return whether it is much worse than in the last record, or has a new culprit."""
        if self.changes >= MOST_CHANGES:
            return False
        return self.score >= WORSE * self.told_score or (blame is not None and cause(blame) not in self.causes)

    def extended(self, ts: float, ranking: Ranking, blame: Blame | None, *, worse: bool) -> Course:
        """Return the course after a record on its present state."""
        next_s = self.next_s
        while ts - self.opened_ts >= next_s:
            next_s *= 2.0
        return self._replace(
            told_score=self.score,
            looked_ts=ts,
            number=self.number + 1,
            changes=self.changes + worse,
            next_s=next_s,
            causes=self.causes if blame is None or cause(blame) in self.causes else (*self.causes, cause(blame)),
            blame=blame or self.blame,
            young=ranking.young,
        )

    def over(self, ts: float, calm_s: float) -> bool:
        """Return whether it has ended."""
        return ts - self.until_ts >= calm_s

    def ended(self, *, accepted: bool = False, feedback: Excuse = "") -> Update:
        """Return the record of its end."""
        return Update(self._replace(number=self.number + 1), "ended", accepted=accepted, feedback=feedback)

    def snapshot(self) -> dict[str, Any]:
        """Return the course as plain data, in the form of older versions without an onset."""
        plain = self._asdict() | {"blame": None if self.blame is None else asdict(self.blame)}
        if self.own or not math.isnan(self.onset_ts):
            return plain
        return {name: value for name, value in plain.items() if name not in {"own", "onset_ts"}}


class Update(NamedTuple):
    """A record on an anomaly.

    Attributes:
        course: the course after this record.
        change: the change of the anomaly.
        ranking: its present ranking, with enough rows and features; None if it has ended.
        accepted: whether it has ended as the new baseline.
        feedback: the feedback by which it has ended; empty without.

    """

    course: Course
    change: AnomalyChange
    ranking: Ranking | None = None
    accepted: bool = False
    feedback: Excuse = ""


Rank = Callable[[], "tuple[Ranking, Blame | None] | None"]
"""Ranks the newest frame, and returns the ranking with its culprit; None if that is not possible."""


def opening(anomaly: Anomaly | Notice, own: str = "") -> Course:
    """Return the course of a new anomaly or notice; `own` as in `Course`."""
    return Course(
        id=anomaly.id,
        keyed_by=anomaly.keyed_by,
        opened_ts=anomaly.ts,
        live=anomaly.live,
        until_ts=anomaly.ts,
        score=anomaly.score,
        told_score=anomaly.score,
        looked_ts=anomaly.ts,
        number=0,
        changes=0,
        next_s=GOES_ON_S,
        causes=() if anomaly.blame is None else (cause(anomaly.blame),),
        blame=anomaly.blame,
        age_s=anomaly.model_age_s,
        young=anomaly.young,
        own=own,
        onset_ts=anomaly.onset_ts,
    )


def followed(
    courses: Sequence[Course], ts: float, score: float, going_on: str, rank: Rank, *, calm_s: float = JOINED_S
) -> tuple[tuple[Course, ...], list[Update]]:
    """Follow the anomalies of a stream's score.

    Args:
        courses: the open courses in the order of their opening.
        ts: the time of the next score, seconds since the Unix epoch.
        score: the score of the stream.
        going_on: the id of the anomaly that a score above 1 belongs to; empty if it opens a new one.
        rank: ranks the newest frame; called at most once.
        calm_s: the time with a score of at most 1 after which an anomaly ends.

    Returns:
        The open courses, and the records to publish.

    """
    left: list[Course] = []
    updates: list[Update] = []
    for course in courses:
        if course.own:
            left.append(course)
        elif score > 1.0 and course.id == going_on:
            now, extended = _extended(course.after(ts, score), ts, rank)
            left.append(now)
            updates += extended
        elif course.over(ts, calm_s):
            updates.append(course.ended())
        else:
            left.append(course)
    return tuple(left), updates


def followed_by_operator(
    courses: Sequence[Course], ts: float, found: Mapping[str, Open], rank: Callable[[str], Rank]
) -> tuple[tuple[Course, ...], list[Update]]:
    """Follow the anomalies that an operator keeps open itself.

    Args:
        courses: the open courses in the order of their opening.
        ts: the time of the frame, seconds since the Unix epoch.
        found: the anomalies that the operator keeps open now, by its own ids.
        rank: ranks the newest frame for one of them, by its own id.

    Returns:
        The open courses, and the records to publish.

    """
    left: list[Course] = []
    updates: list[Update] = []
    for course in courses:
        if not course.own:
            left.append(course)
        elif (now := found.get(course.own)) is None:
            updates.append(course.ended())
        else:
            after = course.after(ts, now.score) if now.score > 1.0 else course
            if now.accepted:
                updates.append(after.ended(accepted=True))
            elif now.score > 1.0:
                after, extended = _extended(after, ts, rank(course.own))
                left.append(after)
                updates += extended
            else:
                left.append(after)
    return tuple(left), updates


def _extended(course: Course, ts: float, rank: Rank) -> tuple[Course, list[Update]]:
    """Return the course of an anomaly that goes on, and the records to publish."""
    if not course.is_check_due(ts):
        return course, []
    if (found := rank()) is None:
        return course._replace(looked_ts=ts), []
    ranking, blame = found
    worse = course.worse(blame)
    if not (worse or course.is_record_due(ts)):
        return course._replace(looked_ts=ts), []
    course = course.extended(ts, ranking, blame, worse=worse)
    return course, [Update(course, "extended", ranking)]


def restored(state: dict[str, Any]) -> Course:
    """Read a `snapshot`. Raises `ValueError` or `TypeError` that names the part that does not fit."""
    blame = state["blame"]
    return Course(
        **state
        | {
            "causes": tuple(state["causes"]),
            "blame": None if blame is None else Blame(**blame | {"resources": tuple(blame["resources"])}),
        }
    )


def cause(blame: Blame) -> str:
    """Return the culprit with its resources, as text."""
    return f"{blame.name} {' '.join(blame.resources)}"
