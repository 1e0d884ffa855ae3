"""What becomes of a stream's anomalies once they were told: which of it is told, and when.

Hysteresis: the trigger of a stream fires again only after its score has stayed at 1 or below for `QUIET_S`, and an
anomaly of a host has ended only after it has done so for `JOINED_S`. What comes in between is another anomaly, but the
same trouble: `joiner` sees both of them open. The operators of pools, services and applications decide by their newest
ticks whether a deviation lasts, so their anomalies end after `OVER_S`, and the trigger is armed again then.

All times are those of frames. A host that is off says nothing of how its anomalies went on. They count as ended once it
has been silent for `eventtime.SILENT_S` by the frames of other keys of its partition, or its state is given up; it is
told that nobody saw the end, and what still is so when its frames come again is another anomaly. A host that is alone
on its partition knows no other time than its own: of that one nothing ends before its frames come again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.pipeline.records.outputs import Blame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.contract import Open
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.records import KeyedBy
    from laggard.pipeline.records.outputs import Anomaly, AnomalyChange, Excuse, Notice

JOINED_S: Final = 300.0
"""An anomaly has ended when its score has stayed at 1 or below for so long."""

OVER_S: Final = 30.0
"""The same for pools, services and applications. It leaves half of the minute after a fault to the operator. Where
ticks are longer, the first calm one ends an anomaly."""

GOES_ON_S: Final = 900.0
"""That an anomaly goes on is told after so long, and each time that this has doubled."""

LOOKED_S: Final = 60.0
"""So often it is looked whether an anomaly got worse: it is told so at most as often."""

WORSE: Final = 2.0
"""It got worse when its score is so many times that which was told."""

MOST_CHANGES: Final = 10
"""So often at most it is told that it got worse, or blames another row."""


class Course(NamedTuple):
    """One anomaly, from its opening to its end.

    Attributes:
        id: the anomaly's.
        keyed_by: what the key names that it is about.
        opened_ts: when it was told, seconds since the Unix epoch.
        live: whether it is about the present.
        until_ts: when its score was last above 1.
        score: the worst so far.
        told_score: the worst when it was told of last.
        looked_ts: when it was looked last whether it got worse.
        number: how many records told of its progress.
        changes: how many of them told that it got worse, or blames another row.
        next_s: that it goes on is told when it has lasted so long.
        causes: who was blamed so far, each with its resources, as text.
        blame: who was blamed last; None where nobody was.
        age_s: how long the model had been learning when it opened, in seconds.
        young: whether that was too short to be relied on.
        own: the id by which the operator keeps it open itself; empty if it is that of the stream's score.
        onset_ts: the estimated time of its onset; NaN if it is that of its opening.

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
        """When it began, as far as is known."""
        return self.opened_ts if math.isnan(self.onset_ts) else self.onset_ts

    def after(self, ts: float, score: float) -> Course:
        """The same after one more score above 1."""
        return self._replace(until_ts=ts, score=max(self.score, score))

    def blames(self, blame: Blame | None) -> bool:
        """Return whether the newest culprit is this program."""
        return self.blame is not None and blame is not None and self.blame.name == blame.name

    def kept(self, own: str, onset_ts: float) -> Course:
        """The same as one that the operator keeps open."""
        return self._replace(own=own, onset_ts=onset_ts)

    def lasts(self, ts: float) -> bool:
        """Whether it is time to tell that it goes on."""
        return ts - self.opened_ts >= self.next_s

    def looks(self, ts: float) -> bool:
        """Whether it is time to look what it is like now."""
        return ts - self.looked_ts >= LOOKED_S and (self.changes < MOST_CHANGES or self.lasts(ts))

    def worse(self, blame: Blame | None) -> bool:
        """Whether it got much worse since it was told of last, or blames what it has not blamed yet."""
        if self.changes >= MOST_CHANGES:
            return False
        return self.score >= WORSE * self.told_score or (blame is not None and cause(blame) not in self.causes)

    def extended(self, ts: float, ranking: Ranking, blame: Blame | None, *, worse: bool) -> Course:
        """The same after it was told what it is like now."""
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
        """Whether it has ended."""
        return ts - self.until_ts >= calm_s

    def ended(self, *, accepted: bool = False, feedback: Excuse = "") -> Told:
        """What is told of its end."""
        return Told(self._replace(number=self.number + 1), "ended", accepted=accepted, feedback=feedback)

    def snapshot(self) -> dict[str, Any]:
        """As plain data, like that of an older laggard where its onset is not known."""
        plain = self._asdict() | {"blame": None if self.blame is None else asdict(self.blame)}
        if self.own or not math.isnan(self.onset_ts):
            return plain
        return {name: value for name, value in plain.items() if name not in {"own", "onset_ts"}}


class Told(NamedTuple):
    """What is to be told of an anomaly.

    Attributes:
        course: of the anomaly, after it was told.
        change: what became of it.
        ranking: what it is like now, with enough rows and features to judge it; None where it has ended.
        accepted: whether it has ended because it is the new baseline.
        feedback: what a person said, by which it has ended; empty if nobody did.

    """

    course: Course
    change: AnomalyChange
    ranking: Ranking | None = None
    accepted: bool = False
    feedback: Excuse = ""


Look = Callable[[], "tuple[Ranking, Blame | None] | None"]
"""Ranks the newest frame, and says who is to blame; None where that is not possible."""


def opening(anomaly: Anomaly | Notice, own: str = "") -> Course:
    """The course of an anomaly or a notice that was told just now; `own` as in `Course`."""
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
    courses: Sequence[Course], ts: float, score: float, going_on: str, look: Look, *, calm_s: float = JOINED_S
) -> tuple[tuple[Course, ...], list[Told]]:
    """What becomes of a stream's anomalies with its next score.

    Args:
        courses: those that have not ended, in the order of their opening.
        ts: the score's, seconds since the Unix epoch.
        score: the stream's.
        going_on: the id of the anomaly that the score belongs to where it is above 1; empty where it opens another one.
        look: asked at most once.
        calm_s: an anomaly has ended when its score has stayed at 1 or below for so long.

    Returns:
        The courses that have not ended, and what is to be told.

    """
    left: list[Course] = []
    told: list[Told] = []
    for course in courses:
        if course.own:
            left.append(course)
        elif score > 1.0 and course.id == going_on:
            now, extended = _extended(course.after(ts, score), ts, look)
            left.append(now)
            told += extended
        elif course.over(ts, calm_s):
            told.append(course.ended())
        else:
            left.append(course)
    return tuple(left), told


def kept_open(
    courses: Sequence[Course], ts: float, found: Mapping[str, Open], look: Callable[[str], Look]
) -> tuple[tuple[Course, ...], list[Told]]:
    """Follow the anomalies that an operator keeps open itself.

    Args:
        courses: those that have not ended, in the order of their opening.
        ts: the time of the frame, seconds since the Unix epoch.
        found: what the operator keeps open now.
        look: ranks the newest frame for one of them, by its own id.

    Returns:
        The courses that have not ended, and what is to be told.

    """
    left: list[Course] = []
    told: list[Told] = []
    for course in courses:
        if not course.own:
            left.append(course)
        elif (now := found.get(course.own)) is None:
            told.append(course.ended())
        else:
            after = course.after(ts, now.score) if now.score > 1.0 else course
            if now.accepted:
                told.append(after.ended(accepted=True))
            elif now.score > 1.0:
                after, extended = _extended(after, ts, look(course.own))
                left.append(after)
                told += extended
            else:
                left.append(after)
    return tuple(left), told


def _extended(course: Course, ts: float, look: Look) -> tuple[Course, list[Told]]:
    """A course that goes on, and what is to be told of that."""
    if not course.looks(ts):
        return course, []
    if (found := look()) is None:
        return course._replace(looked_ts=ts), []
    ranking, blame = found
    worse = course.worse(blame)
    if not (worse or course.lasts(ts)):
        return course._replace(looked_ts=ts), []
    course = course.extended(ts, ranking, blame, worse=worse)
    return course, [Told(course, "extended", ranking)]


def restored(state: dict[str, Any]) -> Course:
    """What `snapshot` gave. Raises `ValueError` or `TypeError` naming what does not fit."""
    blame = state["blame"]
    return Course(
        **state
        | {
            "causes": tuple(state["causes"]),
            "blame": None if blame is None else Blame(**blame | {"resources": tuple(blame["resources"])}),
        }
    )


def cause(blame: Blame) -> str:
    """Who is blamed, with what it takes."""
    return f"{blame.name} {' '.join(blame.resources)}"
