"""What was slow at a moment, and what is to blame: asked of the history that is on a bus.

The state before the moment comes from the nearest snapshot and from the input after it, by the same `Task` that the
runner drives: nothing that came after the moment has a part in the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.operators.contract import LastingScores
from laggard.pipeline.alarms.status import status_of
from laggard.pipeline.alarms.text import feedback_sentence
from laggard.pipeline.alarms.tolerance import holds
from laggard.pipeline.engine.snapshots import BASE_KEY
from laggard.pipeline.explaining.explain import pid_of
from laggard.pipeline.explaining.short_lived import came_and_went, matter, seen_s
from laggard.pipeline.explaining.text import suspicion_sentence
from laggard.pipeline.explaining.units import readable_duration
from laggard.pipeline.explaining.verdict import JUDGED_FEATURES, JUDGED_ROWS, Verdict, judge, narrowed
from laggard.pipeline.history.lookback import Lookback, began_before, grown
from laggard.pipeline.history.marks import Marks
from laggard.pipeline.history.rebuilding import LATELY, rebuild
from laggard.pipeline.history.series import LONGEST_S, Reader, began, longest_lull_s, read_series, value_of
from laggard.pipeline.records import Frame
from laggard.pipeline.scoring.scopes import HOST, MARK_WINDOW_S, answering
from laggard.pipeline.scoring.task import Task

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from laggard.operators.contract import Scores
    from laggard.operators.ranking import FeatureScore, Ranking
    from laggard.pipeline.alarms.status import Status
    from laggard.pipeline.bus import Bus, Partition
    from laggard.pipeline.explaining.short_lived import Counts
    from laggard.pipeline.history.lookback import Beginning
    from laggard.pipeline.history.marks import Marked
    from laggard.pipeline.history.series import Series
    from laggard.pipeline.records import Received
    from laggard.pipeline.scoring.keyed import Keyed
    from laggard.pipeline.scoring.stream import Stream
    from laggard.pipeline.scoring.wired import Wired
    from laggard.pipeline.topics import Topics

USUAL_TICK_S: Final = 5.0
"""The time between two frames where only one is known."""

BEFORE: Final = 1.25
"""A time series is this much longer than what is wrong has lasted, at least."""

SILENT_S: Final = 15.0
"""A newest frame that is older than this, and than three ticks, is told to be."""


class NothingRecordedError(Exception):
    """There is no host at all."""


class UnknownHostError(Exception):
    """Of this host nothing is recorded; `hosts` are those that something is recorded of."""

    def __init__(self, host: str, hosts: Sequence[str]) -> None:
        super().__init__(f"nothing is recorded of host {host!r}")
        self.host = host
        self.hosts = hosts


class OutsideError(Exception):
    """The moment is before, behind or in a gap of the history of a host, which reaches from `first` to `last`."""

    def __init__(self, host: str, ts: float, first: float, last: float) -> None:
        super().__init__(f"no frame of {host!r} near {ts}; its history reaches from {first} to {last}")
        self.host = host
        self.ts = ts
        self.first = first
        self.last = last


@dataclass(frozen=True, slots=True)
class Answer:
    """What was slow at a moment.

    Attributes:
        host: of which was asked.
        ts: the moment, seconds since the Unix epoch.
        frame: the frame that was judged, the closest to the moment.
        tick_s: the time between two frames.
        ranking: the frame's rows, worst first.
        verdict: who is to blame, who waits, and whether it is the host.
        host_frame: the host's own counters then, None where there are none.
        host_ranking: the same, judged.
        since: from when on what is usual was learned, where what was before could not be seen; else NaN.
        began: since when it has been so, seconds since the Unix epoch; NaN where nothing is unusual, or nobody looked.
        began_before: whether it began before that, for no older frame was there, or looked at.
        grown: since when what the subject holds has grown to what it is, and from what; None where it has not grown
            steadily, or not for long. Then `began` is when it left its usual, an hour before at most.
        short_lived: the names of short-lived processes just before, with how many of each were seen; empty where they
            have no part in it, or none was seen.
        anomalous: the operator, if it kept an anomaly open then.
        suspicious: whether a notice was open then.
        notices: what they were about, unless that is told as a culprit; and what people said of those that are.
        scores: of the frame's rows, for whoever wants more of them than the ranking has.
        host_scores: the same of the host's own counters.

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
        """What the answer is about before all; None where there is nothing."""
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
        """How old the frame is, as the newest one; 0 where it is as new as it can be."""
        age_s = now - self.frame.ts
        return age_s if age_s > max(SILENT_S, 3.0 * self.tick_s) else 0.0

    @property
    def begins(self) -> Subject | None:
        """The same where it is out of the ordinary, so that it began at some time."""
        return self.subject if self.verdict.culprits or self.verdict.causes else None


class Subject(NamedTuple):
    """What an answer is about: a row of the frames of a scope, its name, and the feature that tells most."""

    scope: str
    row: str
    name: str
    feature: FeatureScore


class Learned(NamedTuple):
    """A task that has learned from a host's history.

    Attributes:
        task: has taken all records of the host before its position.
        since: from when on, where what was before is in no snapshot that is left; else NaN.

    """

    task: Task
    since: float


class History:
    """The frames and marks on a bus, and what an operator makes of them.

    Parameters:
        bus: where they are.
        topics: their names.
        wired: the operator.

    """

    def __init__(self, bus: Bus, topics: Topics, wired: Wired) -> None:
        self._bus = bus
        self._topic = topics.name(wired.topic)
        self._wired = wired
        self._marks = Marks(bus, topics, wired)

    def choose_host(self, wanted: str | None, default: str) -> str:
        """The host that is asked about: the one wanted, else the default one, else the only one.

        Raises:
            NothingRecordedError: there is none.
            UnknownHostError: nothing is recorded of that one.

        """
        host = default if wanted is None else wanted
        if self.knows(host):
            return host
        hosts = self.hosts()
        if not hosts:
            raise NothingRecordedError
        if wanted is None and len(hosts) == 1:
            return hosts[0]
        raise UnknownHostError(host, hosts)

    def knows(self, host: str) -> bool:
        """Whether something is recorded of a host; see `hosts`."""
        if self._bus.knows_keys:
            return host in self._bus.keys(self._topic)
        partition = self._partition(host)
        return host in self._lately(partition) or host in self._saved(partition)

    def hosts(self) -> Sequence[str]:
        """The hosts that something is recorded of, sorted.

        Of a bus that would have to be read from its beginning: those in the newest records, and those with a state.
        """
        if self._bus.knows_keys:
            return self._bus.keys(self._topic)
        partitions = self._bus.partitions(self._topic)
        return sorted(set().union(*(self._lately(each) | self._saved(each) for each in partitions)))

    def _lately(self, partition: Partition) -> set[str]:
        return {record.key for record in Reader(self._bus, partition).newest(LATELY)}

    def _saved(self, partition: Partition) -> set[str]:
        return self._bus.snapshot_offsets(self._wired.snapshots, partition).keys() - {BASE_KEY}

    def _partition(self, host: str) -> Partition:
        return self._bus.partition_of(self._topic, host)

    def reader(self, host: str) -> Reader:
        """What reads a host's records."""
        return Reader(self._bus, self._partition(host), host)

    def task_at(self, host: str, stop: int) -> Task:
        """A task that has taken all records of the host before the offset `stop`."""
        return self.learned(host, stop).task

    def learned(self, host: str, stop: int) -> Learned:
        """The same, with what it could not see."""
        reader = self.reader(host)
        task = Task(self._wired, reader.partition, live=False)
        start = rebuild(task, reader, stop)
        first = next(reader.forwards(start, stop), None) if start else None
        return Learned(task, math.nan if first is None else first[1].ts)

    def go_on(self, learned: Learned, host: str, stop: int) -> None:
        """Let a task take what the host has sent since, before the offset `stop`."""
        learned.task.replay(self.reader(host).stored(learned.task.position, stop))
        learned.task.position = stop

    def ask(
        self,
        host: str,
        ts: float | None,
        rows: int,
        features: int,
        *,
        asking: int | None = None,
        learned: Learned | None = None,
    ) -> Answer:
        """What was slow.

        Args:
            host: see `choose_host`.
            ts: the moment, seconds since the Unix epoch; None for the newest frame, however old that is.
            rows: how many are ranked at most.
            features: how many of each row at most.
            asking: the process that asks, where it is one of the host's: it is left out.
            learned: what has taken all before `stop_of` the moment already.

        Raises:
            OutsideError: there is no frame near the moment.

        """
        reader = self.reader(host)
        end = self._bus.bounds(reader.partition)[1]
        stop = self.stop_of(host, ts)
        task, since = learned or self.learned(host, stop)
        stream = blamed_stream(task, host)
        window_s = max(MARK_WINDOW_S, 2.0 * stream.interval_s if stream else 0.0)
        if ts is not None and not (stream and ts - stream.ts <= window_s):
            # S0 takes the closest frame within a window; there is none before the moment, so it may be the one behind.
            behind = next((offset for offset, each in reader.forwards(stop, end) if self._is_blamed(each)), stop - 1)
            task.replay(reader.stored(stop, behind + 1))
        found = answer(task, host, ts, rows, features, asking=asking)
        if found is not None and (ts is None or abs(ts - found.frame.ts) <= window_s):
            return self._begun(replace(found, since=since, short_lived=self._short_lived(found)))
        raise self._outside(host, reader, end, ts)

    def stop_of(self, host: str, ts: float | None) -> int:
        """The offset before which all is that has to do with a moment; the end for None."""
        reader = self.reader(host)
        end = self._bus.bounds(reader.partition)[1]
        return end if ts is None else self._after(reader, ts, end)

    def series(self, asked: Answer, row: str, feature: str, scope: str | None = None) -> Series:
        """The time series round the moment of a feature of a row of the frame that was judged, or of another scope.

        Where what is wrong with it has lasted for long, it reaches back to before it began.
        """
        reader, until = self.reader(asked.host), asked.frame.ts
        began_ts = asked.began if asked.grown is None else asked.grown.ts
        since = until - BEFORE * (until - began_ts) if began_ts <= until else until
        scope = scope or asked.frame.scope
        return read_series(reader, scope, row, feature, moment=until, tick_s=asked.tick_s, since=since)

    def _begun(self, asked: Answer) -> Answer:
        """The same with since when it has been so, and whether it has grown."""
        about = asked.begins
        if about is None:
            return asked
        reader, until = self.reader(asked.host), asked.frame.ts
        stop = self._after(reader, until, self._bus.bounds(reader.partition)[1])

        def points() -> Iterator[tuple[float, float]]:
            for _, record in reader.backwards(stop):
                if isinstance(record, Frame) and record.scope == about.scope and record.ts <= until + 1e-3:
                    if record.ts < until - LONGEST_S:
                        return
                    yield record.ts, value_of(record, about.row, about.feature.feature)

        first, before = began(points(), about.feature, asked.tick_s), False
        past = Lookback(reader, about, moment=until, stop=stop, tick_s=asked.tick_s)
        growth = grown(past)
        if growth is None and until - first > LONGEST_S - longest_lull_s(asked.tick_s) - asked.tick_s:
            first, before = began_before(past, first)
        return replace(asked, began=first, began_before=before, grown=growth)

    def _short_lived(self, asked: Answer) -> Counts:
        """See `Answer.short_lived`."""
        if not matter(asked.verdict, asked.host_ranking):
            return ()
        reader, until = self.reader(asked.host), asked.frame.ts
        start = self._bus.offset_at(reader.partition, until - seen_s(asked.tick_s))
        stop = self._after(reader, until, self._bus.bounds(reader.partition)[1])
        frames = (each for _, each in reader.forwards(start, stop) if isinstance(each, Frame))
        return came_and_went([each for each in frames if each.scope == asked.frame.scope and each.ts <= until])

    def marks(self, host: str | None = None) -> list[Marked]:
        """The marks of a host, or of all, newest first."""
        return self._marks.of(host)

    def _after(self, reader: Reader, ts: float, end: int) -> int:
        """The offset of the first frame behind a moment.

        The bus knows the first record, but that may be another host's, or a mark's, whose clock is ahead.
        """
        start = self._bus.offset_at(reader.partition, math.nextafter(ts, math.inf))
        frames = ((offset, each) for offset, each in reader.forwards(start, end) if self._is_blamed(each))
        return next((offset for offset, each in frames if each.ts > ts), end)

    def _is_blamed(self, record: Received) -> bool:
        return isinstance(record, Frame) and record.scope != HOST and self._wired.takes(record.scope)

    def _outside(self, host: str, reader: Reader, stop: int, ts: float | None) -> OutsideError:
        oldest = self._bus.bounds(reader.partition)[0]
        first = next((each.ts for _, each in reader.forwards(oldest, stop) if self._is_blamed(each)), math.nan)
        last = next((each.ts for _, each in reader.backwards(stop) if self._is_blamed(each)), math.nan)
        return OutsideError(host, last if ts is None else ts, first, last)


def answer(
    task: Task, host: str, ts: float | None, rows: int, features: int, *, asking: int | None = None
) -> Answer | None:
    """What a task that has just taken the frame at a moment says of it; None where it has no frame.

    `ts` is the moment asked about, None for that of the frame; `asking` see `History.ask`.
    """
    stream = blamed_stream(task, host)
    scores = None if stream is None else stream.scores()
    if stream is None or stream.frame is None or scores is None:
        return None
    keyed = task.states.get(host)
    streams = () if keyed is None else tuple(keyed.streams.values())
    about_host = None if keyed is None else keyed.streams.get("host")
    host_scores = None if about_host is None else about_host.scores()
    ranking = scores.ranking(rows=JUDGED_ROWS, features=JUDGED_FEATURES)
    if asking is not None:
        ranking = replace(ranking, rows=tuple(row for row in ranking.rows if pid_of(row.row) != asking))
    host_ranking = None if host_scores is None else host_scores.ranking(rows=1, features=JUDGED_FEATURES)
    verdict = judge(ranking, host_ranking)
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
        notices=(*_notices(streams, verdict), *_said(keyed, verdict, stream.ts)),
        scores=scores,
        host_scores=host_scores,
    )


def _notices(streams: Iterable[Stream], verdict: Verdict) -> Iterator[str]:
    """Say what is suspicious beside the culprits, for each stream with an open notice."""
    for stream in streams:
        opened, frame = stream.anomalies.notices.open, stream.frame
        scores: object = stream.scores()
        if opened is not None and frame is not None and isinstance(scores, LastingScores):
            found, onset_ts = scores.suspects(JUDGED_ROWS, JUDGED_FEATURES)
            first = found.rows[0].row if found.rows else ""
            if scores.suspicion > 1.0 and first not in {row.row for row in verdict.culprits}:
                commands = dict(zip(frame.layout.rows, frame.layout.commands, strict=False))
                lasted_s = math.nan if math.isnan(onset_ts) else stream.ts - min(onset_ts, opened.began_ts)
                said = suspicion_sentence(found, commands, frame.scope, lasted_s)
                yield f"Suspicious for {readable_duration(stream.ts - opened.opened_ts)}: {said}"


def _said(keyed: Keyed | None, verdict: Verdict, ts: float) -> Iterator[str]:
    """Say what people said of the culprits, as far as it holds."""
    names = {row.name for row in verdict.culprits}
    for each in () if keyed is None else keyed.tolerance.said:
        if holds(each, ts) and (not each.cases or not names.isdisjoint(case.name for case in each.cases)):
            yield f"Somebody said: {feedback_sentence(each)}"


def blamed_stream(task: Task, host: str) -> Stream | None:
    """The frames that are ranked to find what is to blame, None before the first."""
    keyed = task.states.get(host)
    return None if keyed is None else keyed.streams[answering(keyed.streams, task.wired)]
