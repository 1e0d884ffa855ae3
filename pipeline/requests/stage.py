"""The stage of requests: asks the operator of each whether it is out of line, and whether that has become frequent.

Each request is judged before it is learned, and told at once where it is an outlier. Every tick of 10 s (see
`ticks.py`) the outliers of each cluster are counted, and a second operator says whether there are more than usual: what
it finds are anomalies, which open, go on and end as `engine.task` has it for the frames of a host.

A service's state is some megabytes and a request a small step, so that it is saved after `SNAPSHOT_REQUESTS`; a
recovery reads what came since then again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Unpack, cast

from laggard.operators.requests.results import Traced
from laggard.pipeline.alarms.courses import OVER_S
from laggard.pipeline.bus import Incoming
from laggard.pipeline.engine.stage import REPLAY_HEADER, SNAPSHOT_RECORDS
from laggard.pipeline.eventtime import SILENT_S
from laggard.pipeline.records import Feedback, Request
from laggard.pipeline.records.limits import MAX_TS
from laggard.pipeline.requests.causes import title
from laggard.pipeline.requests.numbering import Numbering
from laggard.pipeline.requests.recorded import Kept
from laggard.pipeline.requests.text import blamed, lost_s, rates_sentence, request_output, traced
from laggard.pipeline.requests.ticks import REQUEST, Ticks, frame_of
from laggard.pipeline.scoring.keyed import Keyed
from laggard.pipeline.scoring.narrator import Narrator
from laggard.pipeline.scoring.stream import Stream
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.scoring.wired import Wired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators import contract
    from laggard.operators.ranking import Ranking
    from laggard.operators.requests.results import Cluster, Judged
    from laggard.pipeline.bus import Partition
    from laggard.pipeline.engine.stage import TaskOptions
    from laggard.pipeline.engine.states import States
    from laggard.pipeline.records import Decoder, Frame, Received
    from laggard.pipeline.records.outputs import Blame
    from laggard.pipeline.requests.ticks import Tick
    from laggard.pipeline.scoring import stream as streams

SNAPSHOT_REQUESTS: Final = 5_000
"""A service is saved after so many requests, where a host is after `SNAPSHOT_RECORDS` frames."""

MOST_NAMES: Final = 256
"""Clusters whose names are remembered, more than an operator does."""

SETTLED_REQUESTS: Final = 5
"""A cluster keeps the name that it has with so many requests: from the first one alone the cause is easily mistaken."""


class Operator(Protocol):
    """What judges the requests of one service, as they come.

    What raises must leave the state as it was: the request becomes a dead letter, and the service goes on without it.
    """

    def score(self, request: Traced) -> Judged:
        """How unusual a request is. Changes nothing."""

    def learn(self, request: Traced, judged: Judged) -> None:
        """Take a request into the state, with what `score` said of it just before."""

    def cluster(self, number: int) -> Cluster | None:
        """What is known of a cluster; None where it is not remembered."""

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""


class Everything(Protocol):
    """What all requests of a service say of each other."""

    @property
    def outliers(self) -> Mapping[int, Judged]:
        """By the place of each outlying request, from 0, what is known of it."""

    @property
    def clusters(self) -> Sequence[Cluster]:
        """Of these."""


Whole = Callable[[Callable[[], Iterable[Traced]]], Everything]
"""Judges requests by each other; what it takes gives all of them each time that it is called, in the same order."""


@dataclass(frozen=True, slots=True)
class Judging(Wired):
    """What judges requests, as a stage; see `Wired`, whose `make` makes what judges how many of them are out of line.

    Attributes:
        judge: makes what judges the requests of one service.
        whole: judges all requests of a service by each other, where recorded ones are to be told of that way, at their
            end; else None.

    """

    judge: Callable[[], Operator] = field(kw_only=True)
    whole: Whole | None = field(default=None, kw_only=True)

    def narrator(self, states: States[Any]) -> RateNarrator:
        """Return what says what the scores mean, of services with these states."""
        return RateNarrator(self, states)

    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> RequestsTask:
        """Make a task for a partition, without any state."""
        return RequestsTask(self, partition, **options)


class Named(NamedTuple):
    """What a cluster is called, and after how many of its requests."""

    name: str
    requests: int


@dataclass(slots=True, eq=False)
class Service(Keyed):
    """The state of one service.

    Attributes:
        judge: what judges its requests.
        numbering: tells requests that come again.
        ticks: counts them.
        names: of clusters, by their numbers; the one used least recently first.

    """

    judge: Operator = field(kw_only=True)
    numbering: Numbering = field(default_factory=Numbering)
    ticks: Ticks = field(default_factory=Ticks)
    names: dict[int, Named] = field(default_factory=dict)

    @property
    def ts(self) -> float:
        """The newest end of a request, seconds since the Unix epoch; 0 before there is one."""
        return max(self.ticks.newest_ts, 0.0)

    @property
    def awaited_until(self) -> float:
        """Until when it is waited for more, for anomalies that have to end, or for a tick that has to close."""
        until_ts = Keyed.awaited_until.__get__(self)
        return self.ts + SILENT_S if self.ticks.is_open and math.isinf(until_ts) else until_ts

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
        return Keyed.snapshot(self) | {
            "judge": self.judge.snapshot(),
            "numbering": self.numbering.snapshot(),
            "ticks": self.ticks.snapshot(),
            "names": [[number, *named] for number, named in self.names.items()],
        }

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Take over a state that `snapshot` gave. Raises `ValueError` or `KeyError` naming what does not fit."""
        Keyed.restore(self, state, decoder, place)
        self.judge.restore(state["judge"])
        self.numbering.restore(state["numbering"])
        self.ticks.restore(state["ticks"])
        self.names = {int(number): Named(str(name), int(requests)) for number, name, requests in state["names"]}

    def begin_anew(self, scope: str, operator: streams.Operator) -> Stream:
        """Forget what goes by the clock. What requests are like does not."""
        self.numbering, self.ticks = Numbering(), Ticks()
        return Keyed.begin_anew(self, scope, operator)

    def name_of(self, judged: Judged) -> str:
        """The name of the cluster of an outlying request, once that was learned."""
        assert judged.evidence is not None
        known = self.names.pop(judged.cluster, Named("", 0))
        if known.requests < SETTLED_REQUESTS:
            cluster = self.judge.cluster(judged.cluster)
            name = title(judged.evidence if cluster is None else cluster.evidence)
            taken = any(each.name == name for each in self.names.values())
            known = Named(f"{name} ({judged.cluster})" if taken else name, known.requests + 1)
        self.names[judged.cluster] = known
        if len(self.names) > MOST_NAMES:
            del self.names[next(iter(self.names))]
        return known.name


class RateNarrator(Narrator):
    """Says of which kind the requests are that are out of line too often."""

    def __init__(self, wired: Wired, states: States[Any]) -> None:
        super().__init__(wired)
        self._states = states

    def _cluster(self, key: str, row: str) -> Cluster | None:
        service = cast("Service | None", self._states.get(key))
        return None if service is None else service.judge.cluster(int(row))

    def blame(self, scores: contract.Scores, found: Ranking, frame: Frame) -> Blame | None:  # noqa: ARG002
        """Return who is to blame, see `Narrator`."""
        return blamed(found.rows[0], self._cluster(frame.key, found.rows[0].row)) if found.rows else None

    def sentence(self, scores: contract.Scores, found: Ranking, frame: Frame) -> str:  # noqa: ARG002
        """Return the sentence on an anomaly."""
        return rates_sentence(found.rows, lambda row: self._cluster(frame.key, row), young=found.young)

    def beside(self, found: Ranking, frame: Frame, before: Frame | None) -> str:  # noqa: ARG002
        """Return nothing: the sentence says it."""
        return ""


class RequestsTask(Task):
    """The services of one partition; parameters as those of `Task`."""

    calm_s = OVER_S

    def __init__(self, stage: Judging, partition: Partition, **options: Unpack[TaskOptions]) -> None:
        self._stage = stage
        records = options.get("snapshot_records", SNAPSHOT_RECORDS)
        options["snapshot_records"] = records * SNAPSHOT_REQUESTS // SNAPSHOT_RECORDS
        super().__init__(stage, partition, **options)
        self._kept = defaultdict[str, Kept](Kept) if stage.whole is not None else None

    def _empty(self) -> Service:
        return Service({REQUEST: Stream(self.wired.make())}, judge=self._stage.judge())

    def service(self, key: str) -> Service | None:
        """The state of a service; None where it has none."""
        return cast("Service | None", self.states.get(key))

    # Requests.

    def _receive(self, record: Incoming, received: Received) -> None:
        match received:
            case Request():
                self._request(record, received)
            case Feedback():
                self._feedback(record, received)
            case _:
                kind = type(received).__name__.lower()
                self._refuse(record, f"{self._place(record)}: expected a request or feedback, got a {kind}")
        self.states.look_after_silent(self.position)
        self._end_gone()

    def _request(self, record: Incoming, request: Request) -> None:
        if not self._has_key(record, request.service):
            return
        service = cast("Service", self.states.open(request.service, self.position))
        end_ts = request.ts + request.duration_s
        if end_ts > MAX_TS:  # else all others were late beside it, and the clock set back
            self._refuse(record, f"{self._place(record)}: field 'duration_s': expected an end by {MAX_TS:.0f}")
            self.states.heard(record.key, record.offset)
            return
        if service.numbering.again(request, end_ts, far_behind=end_ts < service.ticks.earliest_ts):
            self._counts.duplicates += 1
            return
        judged = service.ticks.judge(end_ts)
        if judged == "late":
            self._refuse_late(record, end_ts, service.ticks.earliest_ts, service.ticks.set_back.count)
            self.states.heard(record.key, record.offset)
            return
        if judged == "set_back":
            self._tell_set_back(request.service, REQUEST, service.ticks.newest_ts - end_ts)
            self._outcomes.end(request.service, REQUEST, service.streams[REQUEST])
            service.begin_anew(REQUEST, self.wired.make())
            service.numbering.again(request, end_ts)
        if (tick := service.ticks.hear(end_ts)) is not None:
            self._tick(request.service, service, tick)
        if self._kept is None:
            self._judge(record, service, request)
        else:
            self._kept[request.service].add(request)
        self.states.heard(record.key, record.offset)
        self._end_silent(end_ts)

    def _judge(self, record: Incoming, service: Service, request: Request) -> None:
        """Judge a request, tell it where it is an outlier, then learn it."""
        live = self._is_live(record)
        found, cluster = traced(request), ""
        try:
            judged = service.judge.score(found)
        except Exception as error:  # noqa: BLE001 - an operator's error on one request must not stop the partition
            self._refuse(record, f"{self._place(record)}: not scored: {_told(error)}")
            return
        try:
            service.judge.learn(found, judged)
        except Exception as error:  # noqa: BLE001 - see above
            self._refuse(record, f"{self._place(record)}: not learned: {_told(error)}")
        if judged.outlier:
            try:
                cluster = service.name_of(judged)
                told = request_output(request, judged, cluster, operator=self.wired.name, live=live)
                self.outputs.append(told)
            except Exception as error:  # noqa: BLE001 - see above
                self._refuse(record, f"{self._place(record)}: an outlier that cannot be told: {_told(error)}")
        lost = lost_s(request, judged) if judged.outlier else 0.0
        service.ticks.count(live=live, cluster=judged.cluster, lost_s=lost)
        self._observe(request.service, lambda observer: observer.requested(self.wired.name, request, judged, cluster))

    # Ticks.

    def _tick(self, key: str, service: Service, tick: Tick) -> None:
        """Judge how many outliers there were, then learn that."""
        headers = () if tick.live else ((REPLAY_HEADER, b""),)
        record = Incoming(self.partition, self.position - 1, key, b"", tick.ts, headers)
        frame = frame_of(key, tick, {number: named.name for number, named in service.names.items()})
        self._take(record, service.streams[REQUEST], frame, service.tolerance)

    def _rest(self, key: str, keyed: Keyed) -> None:
        service = cast("Service", keyed)
        if (tick := service.ticks.close()) is not None:
            self._tick(key, service, tick)

    def finish(self) -> None:
        """Close the ticks that are open, and tell what waited for all requests: nothing more will come."""
        for key in self.states.keys():  # noqa: SIM118 - no dictionary
            service = self.service(key)
            assert service is not None
            self._rest(key, service)
        for kept in (self._kept or {}).values():
            self._tell_whole(kept)

    def _tell_whole(self, kept: Kept) -> None:
        """Tell who is out of line among all requests of a service."""
        assert self._stage.whole is not None
        found = self._stage.whole(lambda: map(traced, kept.requests()))
        names: dict[int, str] = {}
        for each in found.clusters:
            name = title(each.evidence)
            names[each.number] = f"{name} ({each.number})" if name in names.values() else name
        for at, request in enumerate(kept.requests()):
            if (judged := found.outliers.get(at)) is not None:
                cluster, name = names[judged.cluster], self.wired.name
                self.outputs.append(request_output(request, judged, cluster, operator=name, live=False))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
