"""Answers: what was slow at a moment, and the culprits, by the state of a task that has just processed the frame."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from laggard.operators.contract import LastingScores
from laggard.pipeline.alarms.status import status_of
from laggard.pipeline.alarms.text import feedback_sentence
from laggard.pipeline.alarms.tolerance import holds
from laggard.pipeline.explaining.explain import pid_of
from laggard.pipeline.explaining.text import suspicion_sentence
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.explaining.verdict import VERDICT_FEATURES, VERDICT_ROWS, Verdict, narrowed, verdict_of
from laggard.pipeline.history.subject import Subject
from laggard.pipeline.scoring.scopes import answering

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from laggard.operators.contract import Scores
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.alarms.status import Status
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.explaining.short_lived import Counts
    from laggard.pipeline.history.lookback import Beginning
    from laggard.pipeline.scoring.keyed import Keyed
    from laggard.pipeline.scoring.stream import Stream
    from laggard.pipeline.scoring.task import Task

USUAL_TICK_S: Final = 5.0
"""The time between two frames if only one is known, in seconds."""

SILENT_S: Final = 15.0
"""A newest frame that is older than this, in seconds, and than three ticks is reported as old."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to what was slow at a moment.

    Attributes:
        host: the host.
        ts: the moment, seconds since the Unix epoch.
        frame: the judged frame: the last one until the moment, or the next one if that is too old.
        tick_s: the time between two frames.
        ranking: the rows of the frame, worst first.
        verdict: the culprits, the victims, and the causes in the host.
        host_frame: the host's own counters then; None without any.
        host_ranking: the ranking of these counters.
        since: the time from which on baselines were learned, if older records could not be read; otherwise NaN.
        began: the onset, seconds since the Unix epoch; NaN without a deviation, or without a search for it.
        began_before: whether it began even earlier: no older frame exists, or was read.
        grown: the point at which steady growth of the subject's feature began; None if it has not grown steadily, or
            not for long. With growth, `began` is when it left its baseline, at most an hour before the frame.
        short_lived: the short-lived processes just before, with their numbers by name; empty if they do not matter,
            or there was none.
        anomalous: the operator, if it had an open anomaly then.
        suspicious: whether a notice was open then.
        notices: the open notices, except for those on culprits; and the feedback on culprits.
        scores: the scores of the frame's rows, for more of them than the ranking has.
        host_scores: the scores of the host's own counters.

    """

    host: str
    ts: float
    frame: Frame
    tick_s: float
    ranking: Ranking
    verdict: Verdict
    host_frame: Frame | None
    host_ranking: Ranking | None
    since: float = math.nan
    began: float = math.nan
    began_before: bool = False
    grown: Beginning | None = None
    short_lived: Counts = ()
    anomalous: str = ""
    suspicious: bool = False
    notices: tuple[str, ...] = ()
    scores: Scores | None = None
    host_scores: Scores | None = None

    @property
    def subject(self) -> Subject | None:
        """The main subject of the answer; None without one."""
        verdict, scope = self.verdict, self.frame.scope
        if not verdict.culprits and verdict.causes and self.host_frame is not None:
            return Subject("host", self.host_frame.layout.rows[0], self.host, verdict.causes[0].feature)
        row = next(iter((*verdict.culprits, *(each.row for each in verdict.victims))), verdict.taker)
        return Subject(scope, row.row, row.name, row.features[0]) if row is not None and row.features else None

    def status(self, incidents: Iterable[Collection[str]]) -> Status:
        """Return the status of the host then; `incidents` as in `status_of`."""
        rankings = (self.ranking, self.host_ranking)
        young = any(each is not None and each.young for each in rankings)
        own = [{self.anomalous}] if self.anomalous else []
        return status_of([*incidents, *own], suspicious=self.suspicious, young=young)

    @property
    def commands(self) -> dict[str, str]:
        """Command lines by row id."""
        return dict(zip(self.frame.layout.rows, self.frame.layout.commands, strict=False))

    def silent_s(self, now: float) -> float:
        """Return the age of the frame as the newest one, in seconds; 0 if it is not old (see `SILENT_S`)."""
        age_s = now - self.frame.ts
        return age_s if age_s > max(SILENT_S, 3.0 * self.tick_s) else 0.0

    @property
    def begins(self) -> Subject | None:
        """The subject if it deviates, and so has an onset."""
        return self.subject if self.verdict.culprits or self.verdict.causes else None


def answer(
    task: Task, host: str, ts: float | None, rows: int, features: int, *, asking: int | None = None
) -> Answer | None:
    """Return the answer of a task that has just processed the frame at a moment; None without a scored frame.

    `ts` is the queried moment, None for that of the frame; for `asking` see `History.ask`.
    """
    stream = blamed_stream(task, host)
    scores = None if stream is None else stream.scores()
    if stream is None or stream.frame is None or scores is None:
        return None
    keyed = task.states.get(host)
    streams = () if keyed is None else tuple(keyed.streams.values())
    about_host = None if keyed is None else keyed.streams.get("host")
    host_scores = None if about_host is None else about_host.scores()
    ranking = scores.ranking(rows=VERDICT_ROWS, features=VERDICT_FEATURES)
    if asking is not None:
        ranking = replace(ranking, rows=tuple(row for row in ranking.rows if pid_of(row.row) != asking))
    host_ranking = None if host_scores is None else host_scores.ranking(rows=1, features=VERDICT_FEATURES)
    verdict = verdict_of(ranking, host_ranking)
    return Answer(
        host=host,
        ts=stream.ts if ts is None else ts,
        frame=stream.frame,
        tick_s=stream.interval_s or USUAL_TICK_S,
        ranking=narrowed(ranking, rows, features),
        verdict=verdict,
        host_frame=None if about_host is None else about_host.frame,
        host_ranking=host_ranking,
        anomalous=task.wired.name if any(each.anomalies.open for each in streams) else "",
        suspicious=any(each.anomalies.notices.open for each in streams),
        notices=(*_notices(streams, verdict), *_feedback_sentences(keyed, verdict, stream.ts)),
        scores=scores,
        host_scores=host_scores,
    )


def _notices(streams: Iterable[Stream], verdict: Verdict) -> Iterator[str]:
    """Yield a sentence on each open notice that is not on a culprit."""
    for stream in streams:
        opened, frame = stream.anomalies.notices.open, stream.frame
        scores: object = stream.scores()
        if opened is not None and frame is not None and isinstance(scores, LastingScores):
            found, onset_ts = scores.suspects(VERDICT_ROWS, VERDICT_FEATURES)
            first = found.rows[0].row if found.rows else ""
            if scores.suspicion > 1.0 and first not in {row.row for row in verdict.culprits}:
                commands = dict(zip(frame.layout.rows, frame.layout.commands, strict=False))
                lasted_s = math.nan if math.isnan(onset_ts) else stream.ts - min(onset_ts, opened.began_ts)
                sentence = suspicion_sentence(found, commands, frame.scope, lasted_s)
                yield f"Suspicious for {readable_duration(stream.ts - opened.opened_ts)}: {sentence}"


def _feedback_sentences(keyed: Keyed | None, verdict: Verdict, ts: float) -> Iterator[str]:
    """Yield a sentence on each feedback that holds, on a culprit or on the host as a whole."""
    names = {row.name for row in verdict.culprits}
    for each in () if keyed is None else keyed.tolerance.feedback:
        if holds(each, ts) and (not each.cases or not names.isdisjoint(case.name for case in each.cases)):
            yield f"Feedback: {feedback_sentence(each)}"


def blamed_stream(task: Task, host: str) -> Stream | None:
    """Return the stream of the frames that are ranked to find the culprits; None before the first."""
    keyed = task.states.get(host)
    return None if keyed is None else keyed.streams[answering(keyed.streams, task.wired)]
