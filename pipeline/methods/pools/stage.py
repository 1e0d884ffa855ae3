"""The stage of pools: joins the frames of a pool's members into ticks, and lets the operator detect deviating members.

It treats each tick as `scoring.task` treats each frame of a host. It scores the tick before it is learned, publishes
anomalies and their progress, and detects silence and clocks that were set back. It also publishes the deviating members
when a new one appears, and when one has been normal for half a minute. At the end of recorded data it publishes a
report on each pool.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack, cast

from laggard.operators import contract
from laggard.pipeline.alarms.courses import OVER_S
from laggard.pipeline.core.bus import Incoming
from laggard.pipeline.core.engine.stage import REPLAY_HEADER, error_text
from laggard.pipeline.core.records import UNNUMBERED, Frame, RecordError
from laggard.pipeline.methods.pools.text import blamed, deviating, moment_output, pool_sentence, whole_output
from laggard.pipeline.methods.pools.ticks import Ticks, Together
from laggard.pipeline.scoring import stream as streams
from laggard.pipeline.scoring.keyed import Keyed
from laggard.pipeline.scoring.narrator import Narrator
from laggard.pipeline.scoring.stream import Stream, late
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.scoring.tolerated import Tolerated
from laggard.pipeline.scoring.wired import Wired

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laggard.operators.contract import Layout, Matrix
    from laggard.operators.covariance.results import Deviation, Report
    from laggard.operators.ranking import Ranking
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.alarms.tolerance import Tolerance
    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.engine.stage import TaskOptions
    from laggard.pipeline.core.engine.states import States
    from laggard.pipeline.core.records import Decoder
    from laggard.pipeline.core.records.outputs import Blame, Excuse
    from laggard.pipeline.core.records.pools import PoolOutput
    from laggard.pipeline.methods.pools.ticks import Part, Tick

MEMBER: Final = "member"
"""The scope of frames whose rows are members of a pool."""


class Scores(contract.Scores, Protocol):
    """The scores of a tick. They do not change when the operator learns."""

    @property
    def deviations(self) -> Sequence[Deviation]:
        """The present deviations, worst first; those with a score above 1 are anomalous."""

    @property
    def members(self) -> int:
        """The number of members."""


class Operator(streams.Operator, Protocol):
    """The operator that compares the members of one pool."""

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Score a tick."""

    def report(self, *, replicates: int | None = None) -> Report:
        """Return the report on the whole life so far. The state does not change."""


class PoolStage(Wired):
    """The stage that compares the members of pools; see `Wired`."""

    __slots__ = ()

    def narrator(self, states: States[Any]) -> MemberNarrator:  # noqa: ARG002 - the scores suffice
        """Return the narrator for pools."""
        return MemberNarrator(self)

    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> CovarianceTask:
        """Make a task for a partition, without any state."""
        return CovarianceTask(self, partition, **options)


@dataclass(slots=True, eq=False)
class Pool(Keyed):
    """The state of one pool.

    Attributes:
        ticks: joins its frames.
        ranked: the deviations in the last output: by kind and row ids the time at which each was seen last, seconds
            since the Unix epoch.

    """

    ticks: Ticks = field(default_factory=Ticks)
    ranked: dict[tuple[str, ...], float] = field(default_factory=dict)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        ranked = [[ts, list(each)] for each, ts in self.ranked.items()]
        return Keyed.snapshot(self) | {"ticks": self.ticks.snapshot(), "ranked": ranked}

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        Keyed.restore(self, state, decoder, place)
        self.ticks.restore(state["ticks"], place)
        self.ranked = {tuple(each): float(ts) for ts, each in state["ranked"]}

    def others(self, deviations: Sequence[Deviation], ts: float) -> bool:
        """Return whether the deviations differ from those in the last output, and remember them for the next one.

        One that has just ended still counts for a while, so that a score around 1 does not cause an output each time.
        """
        now = {(each.kind, *each.rows): ts for each in deviations}
        recent = {each: seen_ts for each, seen_ts in self.ranked.items() if ts - seen_ts < OVER_S}
        if now.keys() <= self.ranked.keys() and (recent | now).keys() == self.ranked.keys():
            self.ranked = self.ranked | now
            return False
        self.ranked = now
        return True

    def begin_anew(self, scope: str, operator: streams.Operator) -> Stream:
        """Forget what was learned, and the waiting frames."""
        self.ticks = Ticks()
        self.ranked = dict.fromkeys(self.ranked, -math.inf)  # their times are in the future of the new clock
        return Keyed.begin_anew(self, scope, operator)


class MemberNarrator(Narrator):
    """Describes the deviations of the members of a pool."""

    def tolerated(self, scores: contract.Scores, frame: Frame, tolerance: Tolerance, anomalies: Anomalies) -> Tolerated:
        """Return the scores without the members that people excused."""

        def excused(each: Blame | None) -> Excuse:
            return tolerance.excused(each, frame.ts)

        return ToleratedMembers(cast("Scores", scores), excused, anomalies)

    def blame(self, scores: contract.Scores, found: Ranking, frame: Frame) -> Blame | None:  # noqa: ARG002
        """Return the culprit, see `Narrator`."""
        return blamed(_deviating(scores))

    def sentence(self, scores: contract.Scores, found: Ranking, frame: Frame) -> str:
        """Return the sentence on an anomaly."""
        return pool_sentence(_deviating(scores), frame.ts, young=found.young)

    def beside(self, found: Ranking, frame: Frame, before: Frame | None) -> str:  # noqa: ARG002
        """Return no text: the sentence on the anomaly suffices."""
        return ""


class CovarianceTask(Task):
    """The pools of one partition; its parameters are those of `Task`."""

    calm_s = OVER_S

    def __init__(self, stage: PoolStage, partition: Partition, **options: Unpack[TaskOptions]) -> None:
        super().__init__(stage, partition, **options)
        self._together = Together()

    def _empty(self) -> Pool:
        return Pool({MEMBER: Stream(self.wired.make())})

    def pool(self, key: str) -> Pool | None:
        """Return the state of a pool; None without one."""
        return cast("Pool | None", self.states.get(key))

    # Frames.

    def _frame(self, record: Incoming, frame: Frame) -> None:
        if not self._has_key(record, frame.key):
            return
        if frame.keyed_by != "pool":
            expected = "a frame of a pool"
            self._refuse(record, f"{self._place(record)}: expected {expected}, got one of a {frame.keyed_by}")
            return
        if frame.scope != MEMBER:
            self._observe(frame.key, lambda observer: observer.received(frame))
            return
        pool = cast("Pool", self.states.open(frame.key, self.position))
        live = self._is_live(record)
        outcome = pool.ticks.take(frame, live=live)
        if outcome == "set_back":
            stream = pool.streams[MEMBER]
            self._report_set_back(frame.key, frame.scope, stream.ts - frame.ts)
            self._outcomes.end(frame.key, MEMBER, stream)
            pool.begin_anew(MEMBER, self.wired.make())
            outcome = pool.ticks.take(frame, live=live)
        if outcome == "duplicate":
            self._counts.duplicates += 1
            return
        if outcome == "late":
            self._refuse_late(record, late(frame.ts, pool.ticks.earliest_ts(frame), pool.ticks.set_back.count))
        for tick in pool.ticks.closed():
            self._tick(frame.key, pool, tick)
        self.states.note(record.key, record.offset)
        self._end_silent(frame.ts)

    def _tick(self, key: str, pool: Pool, tick: Tick) -> None:
        """Join and score a tick, then compare its members."""
        headers = () if tick.live else ((REPLAY_HEADER, b""),)
        record = Incoming(self.partition, self.position - 1, key, b"", tick.ts, headers)
        try:
            part = self._together.joined(tick.parts)
        except RecordError as error:
            self._refuse_frame(record, _frame_of(key, tick, tick.parts[-1]), f"not joined: {error}")
            return
        frame, stream = _frame_of(key, tick, part), pool.streams[MEMBER]
        self._take(record, stream, frame, pool.tolerance)
        if stream.frame is frame:
            self._compare(record, pool, stream, frame)

    def _compare(self, record: Incoming, pool: Pool, stream: Stream, frame: Frame) -> None:
        """Show the deviations to observers, and publish them if they differ from the last output."""
        try:
            scores = cast("Scores", stream.scores())
            found, members = scores.deviations, scores.members
            worst = deviating(found)
            if pool.others(worst, frame.ts):
                ranking = scores.ranking(rows=1, features=1)
                output = moment_output(
                    worst,
                    operator=self.wired.name,
                    pool=frame.key,
                    ts=frame.ts,
                    members=members,
                    age_s=ranking.age_s,
                    young=ranking.young,
                    live=self._is_live(record),
                )
                self.outputs.append(output)
        except Exception as error:  # noqa: BLE001 - an operator's error on one tick must not stop the partition
            self._refuse_frame(record, frame, f"a ranking that cannot be reported: {error_text(error)}")
            return
        self._observe(frame.key, lambda observer: observer.compared(self.wired.name, frame.key, members, found))

    def finish(self) -> None:
        """Close all ticks, and publish the report on each pool: the input has ended."""
        for key in self.states.keys():  # noqa: SIM118 - no dictionary
            pool = self.pool(key)
            assert pool is not None
            for tick in pool.ticks.rest():
                self._tick(key, pool, tick)
            stream = pool.streams[MEMBER]
            record, frame = Incoming(self.partition, self.position - 1, key, b"", stream.ts), stream.frame
            try:
                if (output := self.whole(key)) is not None:
                    self.outputs.append(output)
            except Exception as error:  # noqa: BLE001 - as above
                assert frame is not None
                self._refuse_frame(record, frame, f"a whole that cannot be reported: {error_text(error)}")

    def whole(self, key: str) -> PoolOutput | None:
        """Return the report on all closed ticks of a pool; None without any.

        The newest tick is learned for it, so it cannot be scored again. Errors of the operator are raised.
        """
        pool = self.pool(key)
        if pool is None or (frame := pool.streams[MEMBER].frame) is None:
            return None
        stream = pool.streams[MEMBER]
        self._learn(Incoming(self.partition, self.position - 1, key, b"", frame.ts), stream)
        report = cast("Operator", stream.operator).report()
        return whole_output(report, operator=self.wired.name, pool=key, live=self._live)


class ToleratedMembers(Tolerated):
    """The scores of a tick without the members that people excused, and the deviations that are left."""

    __slots__ = ("left",)

    def __init__(self, scores: Scores, excused: Callable[[Blame | None], Excuse], anomalies: Anomalies) -> None:
        going_on = {each.name for each in anomalies.open}
        found = deviating(scores.deviations)
        self.left = tuple(each for each in found if each.name in going_on or not excused(blamed([each])))
        Tolerated.__init__(self, scores, lambda _: None, lambda _: "", anomalies)
        if len(self.left) < len(found):
            self.sudden = min(self.sudden, max((each.score for each in self.left), default=1.0))


def _deviating(scores: contract.Scores) -> tuple[Deviation, ...]:
    return scores.left if isinstance(scores, ToleratedMembers) else deviating(cast("Scores", scores).deviations)


def _frame_of(key: str, tick: Tick, part: Part) -> Frame:
    return Frame("pool", key, MEMBER, tick.ts, UNNUMBERED, part.layout, part.values)
