"""The stage of requests: finds outliers among them, and detects when outliers become frequent.

Each request is judged before it is learned, and an outlier is published at once. Every tick of 10 s (see `ticks.py`)
counts the outliers of each cluster, and a second operator detects more than usual. These are anomalies, which open,
continue and end as in `scoring.task` for the frames of a host.

A service's state is some megabytes and a request a small step. So it is saved after `SNAPSHOT_REQUESTS` requests, and a
recovery reads the later ones again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Unpack, cast

from laggard.operators.requests.results import Traced
from laggard.pipeline.alarms.courses import OVER_S
from laggard.pipeline.core.bus import Incoming
from laggard.pipeline.core.engine.stage import REPLAY_HEADER, SNAPSHOT_RECORDS, error_text
from laggard.pipeline.core.eventtime import SILENT_S
from laggard.pipeline.core.records import Feedback, Request
from laggard.pipeline.core.records.limits import MAX_TS
from laggard.pipeline.methods.requests.causes import cause, title
from laggard.pipeline.methods.requests.numbering import Numbering
from laggard.pipeline.methods.requests.recorded import EncodedRequests
from laggard.pipeline.methods.requests.text import blamed, lost_s, rate_sentence, request_output, traced
from laggard.pipeline.methods.requests.ticks import REQUEST, Ticks, frame_of
from laggard.pipeline.scoring.keyed import Keyed
from laggard.pipeline.scoring.narrator import Narrator
from laggard.pipeline.scoring.stream import Stream, late, open_anomalies
from laggard.pipeline.scoring.task import Task
from laggard.pipeline.scoring.wired import Wired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators import contract
    from laggard.operators.ranking import Ranking
    from laggard.operators.requests.results import Cluster, RequestScore
    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.engine.stage import TaskOptions
    from laggard.pipeline.core.engine.states import States
    from laggard.pipeline.core.records import Decoder, Frame, Received
    from laggard.pipeline.core.records.outputs import Blame
    from laggard.pipeline.methods.requests.ticks import Tick
    from laggard.pipeline.scoring import stream as streams

SNAPSHOT_REQUESTS: Final = 5_000
"""The requests between two snapshots of a service; for a host, it is `SNAPSHOT_RECORDS` frames."""

MOST_NAMES: Final = 256
"""The most clusters with remembered names, more than an operator remembers."""

SETTLED_REQUESTS: Final = 5
"""The name of a cluster is final after this many requests: a cause from the first one alone is often wrong."""

REVISED_REQUESTS: Final = 20
"""The requests between two sentences on a cluster with a final name: a comparison with normal ones takes long."""


class Operator(Protocol):
    """Judges the requests of one service as they arrive.

    A method that raises must leave the state unchanged: the request becomes a dead letter, and the service continues.
    """

    def score(self, request: Traced) -> RequestScore:
        """Return the score of a request, without a change of the state."""

    def learn(self, request: Traced, judged: RequestScore) -> None:
        """Add a request to the state, with its result of `score` just before."""

    def cluster(self, number: int) -> Cluster | None:
        """Return a cluster; None if it is not remembered."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""


class Everything(Protocol):
    """The results for all requests of a service, judged by each other."""

    @property
    def outliers(self) -> Mapping[int, RequestScore]:
        """The outliers by their places in the order of requests, from 0."""

    @property
    def clusters(self) -> Sequence[Cluster]:
        """The clusters of these outliers."""


Whole = Callable[[Callable[[], Iterable[Traced]]], Everything]
"""Judges requests by each other; each call of its argument returns all requests, in the same order."""


@dataclass(frozen=True, slots=True)
class RequestsStage(Wired):
    """The stage that finds outliers among requests; see `Wired`.

    Its `make` returns the operator that judges the number of outliers.

    Attributes:
        detector: returns a new operator for the requests of one service.
        whole: judges all recorded requests of a service by each other, at their end; None to judge each one as it
            arrives.

    """

    detector: Callable[[], Operator] = field(kw_only=True)
    whole: Whole | None = field(default=None, kw_only=True)

    def narrator(self, states: States[Any]) -> RateNarrator:
        """Return the narrator of scores, for services with these states."""
        return RateNarrator(self, states)

    def task(self, partition: Partition, **options: Unpack[TaskOptions]) -> RequestsTask:
        """Make a task for a partition, without any state."""
        return RequestsTask(self, partition, **options)


class Named(NamedTuple):
    """The words for a cluster.

    Attributes:
        name: its name.
        requests: the number of its requests since it was first named.
        cause: the sentence on its requests; empty in the states of older versions.

    """

    name: str
    requests: int
    cause: str = ""


@dataclass(slots=True, eq=False)
class Service(Keyed):
    """The state of one service.

    Attributes:
        detector: the operator that judges its requests.
        numbering: detects repeated requests.
        ticks: counts the requests.
        names: the names of clusters by number, the least recently used one first.

    """

    detector: Operator = field(kw_only=True)
    numbering: Numbering = field(default_factory=Numbering)
    ticks: Ticks = field(default_factory=Ticks)
    names: dict[int, Named] = field(default_factory=dict)

    @property
    def ts(self) -> float:
        """The newest end of a request, seconds since the Unix epoch; 0 before there is one."""
        return max(self.ticks.newest_ts, 0.0)

    @property
    def awaited_until(self) -> float:
        """The time until which more requests are awaited, to end anomalies or to close a tick; infinite for neither."""
        until_ts = Keyed.awaited_until.__get__(self)
        return self.ts + SILENT_S if self.ticks.is_open and math.isinf(until_ts) else until_ts

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return Keyed.snapshot(self) | {
            "judge": self.detector.snapshot(),
            "numbering": self.numbering.snapshot(),
            "ticks": self.ticks.snapshot(),
            "names": [[number, named.name, named.requests] for number, named in self.names.items()],
            "causes": [[number, named.cause] for number, named in self.names.items()],
        }

    def restore(self, state: dict[str, Any], decoder: Decoder, place: str) -> None:
        """Restore a `snapshot`. Raises `ValueError` or `KeyError` that names the part that does not fit."""
        Keyed.restore(self, state, decoder, place)
        self.detector.restore(state["judge"])
        self.numbering.restore(state["numbering"])
        self.ticks.restore(state["ticks"])
        causes = dict(state.get("causes", ()))  # not in states of older versions
        self.names = {
            int(number): Named(str(name), int(requests), str(causes.get(number, "")))
            for number, name, requests in state["names"]
        }

    def begin_anew(self, scope: str, operator: streams.Operator) -> Stream:
        """Reset the parts that depend on the clock; the learned requests stay."""
        self.numbering, self.ticks = Numbering(), Ticks()
        return Keyed.begin_anew(self, scope, operator)

    def named(self, judged: RequestScore) -> Named:
        """Return the words for an outlier's cluster, after the outlier was learned.

        They depend on the requests of the cluster alone. The sentence is from all of them, and not from the newest.
        """
        assert judged.evidence is not None
        known = self.names.pop(judged.cluster, Named("", 0))
        requests = known.requests + 1
        name, text = known.name, known.cause
        if requests <= SETTLED_REQUESTS or requests % REVISED_REQUESTS == 0 or not text:
            cluster = self.detector.cluster(judged.cluster)
            evidence = judged.evidence if cluster is None else cluster.evidence
            text = cause(evidence)
            if requests <= SETTLED_REQUESTS:
                name = title(evidence)
                taken = any(each.name == name for each in self.names.values())
                name = f"{name} ({judged.cluster})" if taken else name
        found = self.names[judged.cluster] = Named(name, requests, text)
        if len(self.names) > MOST_NAMES:
            del self.names[next(iter(self.names))]
        return found


class RateNarrator(Narrator):
    """Describes the clusters of outliers that are too frequent."""

    def __init__(self, wired: Wired, states: States[Any]) -> None:
        super().__init__(wired)
        self._states = states

    def _service(self, key: str) -> Service | None:
        return cast("Service | None", self._states.get(key))

    def _cluster(self, key: str, row: str) -> Cluster | None:
        service = self._service(key)
        return None if service is None else service.detector.cluster(int(row))

    def blame(self, scores: contract.Scores, found: Ranking, frame: Frame) -> Blame | None:  # noqa: ARG002
        """Return the culprit, see `Narrator`."""
        return blamed(found.rows[0], self._cluster(frame.key, found.rows[0].row)) if found.rows else None

    def finding_sentence(self, scores: contract.Scores, found: Ranking, frame: Frame, own: str) -> str:
        """Return the sentence on the anomaly of a cluster."""
        ongoing = open_anomalies(scores).get(own)
        lasted_s = 0.0 if ongoing is None else frame.ts - ongoing.onset_ts
        row, service = found.rows[0], self._service(frame.key)
        missing_ratio = 0.0 if service is None else service.ticks.missing_ratio
        cluster = self._cluster(frame.key, row.row)
        return rate_sentence(row, cluster, young=found.young, lasted_s=lasted_s, missing_ratio=missing_ratio)


class RequestsTask(Task):
    """The services of one partition; for parameters see `Task`."""

    calm_s = OVER_S

    def __init__(self, stage: RequestsStage, partition: Partition, **options: Unpack[TaskOptions]) -> None:
        self._stage = stage
        records = options.get("snapshot_records", SNAPSHOT_RECORDS)
        options["snapshot_records"] = records * SNAPSHOT_REQUESTS // SNAPSHOT_RECORDS
        super().__init__(stage, partition, **options)
        self._kept = defaultdict[str, EncodedRequests](EncodedRequests) if stage.whole is not None else None

    def _empty(self) -> Service:
        return Service({REQUEST: Stream(self.wired.make())}, detector=self._stage.detector())

    def service(self, key: str) -> Service | None:
        """Return the state of a service; None without one."""
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
        self.states.save_silent(self.position)
        self._end_gone()

    def _request(self, record: Incoming, request: Request) -> None:
        if not self._has_key(record, request.service):
            return
        service = cast("Service", self.states.open(request.service, self.position))
        end_ts = request.ts + request.duration_s
        if end_ts > MAX_TS:  # otherwise all others would be late, as after a clock that was set back
            self._refuse(record, f"{self._place(record)}: field 'duration_s': expected an end by {MAX_TS:.0f}")
            self.states.note(record.key, record.offset)
            return
        if service.numbering.again(request, end_ts, far_behind=end_ts < service.ticks.earliest_ts):
            self._counts.duplicates += 1
            return
        arrival = service.ticks.classify(end_ts)
        if arrival == "late":
            self._refuse_late(record, late(end_ts, service.ticks.earliest_ts, service.ticks.set_back.count))
            self.states.note(record.key, record.offset)
            return
        if arrival == "set_back":
            self._report_set_back(request.service, REQUEST, service.ticks.newest_ts - end_ts)
            self._outcomes.end(request.service, REQUEST, service.streams[REQUEST])
            service.begin_anew(REQUEST, self.wired.make())
            service.numbering.again(request, end_ts)
        if (tick := service.ticks.hear(end_ts)) is not None:
            self._tick(request.service, service, tick)
        if self._kept is None:
            self._score_request(record, service, request)
        else:
            self._kept[request.service].add(request)
        self.states.note(record.key, record.offset)
        self._end_silent(end_ts)

    def _score_request(self, record: Incoming, service: Service, request: Request) -> None:
        """Judge a request, learn it, and publish it if it is an outlier."""
        live = self._is_live(record)
        found, cluster = traced(request), ""
        try:
            scored = service.detector.score(found)
        except Exception as error:  # noqa: BLE001 - an operator's error on one request must not stop the partition
            self._refuse(record, f"{self._place(record)}: not scored: {error_text(error)}")
            return
        try:
            service.detector.learn(found, scored)
        except Exception as error:  # noqa: BLE001 - see above
            self._refuse(record, f"{self._place(record)}: not learned: {error_text(error)}")
        if scored.outlier:
            try:
                named = service.named(scored)
                cluster, text = named.name, named.cause
                output = request_output(request, scored, cluster, text, operator=self.wired.name, live=live)
                self.outputs.append(output)
            except Exception as error:  # noqa: BLE001 - see above
                self._refuse(record, f"{self._place(record)}: an outlier that cannot be reported: {error_text(error)}")
        lost = lost_s(request, scored) if scored.outlier else 0.0
        service.ticks.count(live=live, cluster=scored.cluster, lost_s=lost, missing_ratio=request.missing_ratio)
        self._observe(request.service, lambda observer: observer.requested(self.wired.name, request, scored, cluster))

    # Ticks.

    def _tick(self, key: str, service: Service, tick: Tick) -> None:
        """Judge the number of outliers, then learn it."""
        headers = () if tick.live else ((REPLAY_HEADER, b""),)
        record = Incoming(self.partition, self.position - 1, key, b"", tick.ts, headers)
        frame = frame_of(key, tick, {number: named.name for number, named in service.names.items()})
        self._take(record, service.streams[REQUEST], frame, service.tolerance)

    def _rest(self, key: str, keyed: Keyed) -> None:
        service = cast("Service", keyed)
        if (tick := service.ticks.close()) is not None:
            self._tick(key, service, tick)

    def finish(self) -> None:
        """Close the open ticks, and judge the requests that are judged by each other: the input has ended."""
        for key in self.states.keys():  # noqa: SIM118 - no dictionary
            service = self.service(key)
            assert service is not None
            self._rest(key, service)
        for encoded in (self._kept or {}).values():
            self._publish_outliers(encoded)

    def _publish_outliers(self, encoded: EncodedRequests) -> None:
        """Publish the outliers among all requests of a service."""
        assert self._stage.whole is not None
        found = self._stage.whole(lambda: map(traced, encoded.requests()))
        names: dict[int, str] = {}
        causes = {each.number: cause(each.evidence) for each in found.clusters}
        for each in found.clusters:
            name = title(each.evidence)
            names[each.number] = f"{name} ({each.number})" if name in names.values() else name
        for at, request in enumerate(encoded.requests()):
            if (outlier := found.outliers.get(at)) is not None:
                cluster, text = names[outlier.cluster], causes[outlier.cluster]
                output = request_output(request, outlier, cluster, text, operator=self.wired.name, live=False)
                self.outputs.append(output)
