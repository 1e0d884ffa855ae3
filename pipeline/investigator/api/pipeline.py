"""The pipeline itself: tasks, lag, throughput, recovery, topics, dead letters, cost."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.request
from collections import deque
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from laggard.pipeline.core.claims import holder_of
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.history.series import Reader
from laggard.pipeline.investigator.caching import Cache
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Nothing, Question, Seconds
from laggard.pipeline.metrics.declared import METRICS
from laggard.pipeline.settings import SettingError
from laggard.pipeline.settings.general import BusSettings, GeneralSettings
from laggard.pipeline.web.errors import RequestError
from laggard.pipeline.web.settings import WebSettings
from laggard.pipeline.wiring import stages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.claims import Holder
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.investigator.reading import Reading

WINDOW_S: Final = 60.0
"""The time over which throughput is measured, in seconds."""

SHORTEST_S: Final = 5.0
"""The least time of observation to measure it, in seconds; before, it follows from the times of records."""

ASKING_S: Final = 1.0
"""The longest wait for the metrics of a worker, in seconds."""

MOST_METRICS_BYTES: Final = 64 << 20


TopicName = Annotated[str, msgspec.Meta(description="the full name of the topic: `laggard.counters`")]


class PipelineTask(Answer, frozen=True):
    """An operator on one partition."""

    operator: Annotated[str, msgspec.Meta(description="the name of the operator, or of a stage: `incidents`")]
    topic: TopicName
    partition: Annotated[int, msgspec.Meta(description="the number of the partition")]
    position: Annotated[int, msgspec.Meta(description="the first offset that is not processed and committed")]
    end: Annotated[int, msgspec.Meta(description="the offset of the next record")]
    lag_records: Annotated[
        int,
        msgspec.Meta(
            description="the number of records on the bus that are not yet processed and committed; on Kafka an upper "
            "bound"
        ),
    ]
    lag_s: Annotated[
        float | None,
        msgspec.Meta(description="the age of the oldest of them, in seconds; 0 without any; null if it is unknown"),
    ]
    missed_records: Annotated[
        int, msgspec.Meta(description="the number of records that retention deleted before they were processed")
    ]
    records_per_s: Annotated[
        float, msgspec.Meta(description="the number of processed records per second, over the last minute")
    ]
    member: Annotated[
        str,
        msgspec.Meta(
            description="the worker on this machine if it has the partition: `process 4711 here`; otherwise empty"
        ),
    ]
    recovery_left_records: Annotated[
        int | None,
        msgspec.Meta(description="the number of records to replay until the state is recovered; null if it is unknown"),
    ]
    standby_left_records: Annotated[
        int | None, msgspec.Meta(description="the lag of the standby on this machine, in records; null without one")
    ]
    remembers: Annotated[bool, msgspec.Meta(description="whether the operator has states and snapshots of them")]
    snapshot_keys: Annotated[int, msgspec.Meta(description="the number of keys that have a snapshot")]
    snapshot_ts: Annotated[
        float | None,
        msgspec.Meta(
            description="the time of the last record in the newest snapshot, seconds since the Unix epoch; null if it "
            "is unknown"
        ),
    ]
    snapshot_behind_records: Annotated[
        int | None,
        msgspec.Meta(description="the number of records processed since the newest snapshot; null without one"),
    ]


class PipelineWorker(Answer, frozen=True):
    """The worker on this machine."""

    pid: Annotated[int, msgspec.Meta(description="its process id; 0 if it has just started")]
    since: Seconds
    answers: Annotated[bool, msgspec.Meta(description="whether it has answered a query for its metrics")]


class Pipeline(Answer, frozen=True):
    """The progress and the lag of each operator."""

    ts: Seconds
    bus: Annotated[str, msgspec.Meta(description="the location of the bus")]
    tasks: Annotated[list[PipelineTask], msgspec.Meta(description="a task for each operator and partition")]
    worker: Annotated[PipelineWorker | None, msgspec.Meta(description="the worker on this machine; null without one")]


# Tasks.


class _TaskMetrics(NamedTuple):
    """The metrics of a task from its worker."""

    recovery_left: int
    standby_left: int | None
    assigned: bool


class Rates:
    """The past positions of tasks, to measure throughput."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Mapping[tuple[str, Partition], int]]] = deque()
        self._lock = threading.Lock()

    def update(self, now: float, positions: Mapping[tuple[str, Partition], int]) -> dict[tuple[str, Partition], float]:
        """Return the records per second of tasks that have been observed long enough; `now` never steps."""
        with self._lock:
            while len(self._seen) > 1 and self._seen[1][0] <= now - WINDOW_S:
                self._seen.popleft()
            before_s, before = self._seen[0] if self._seen else (now, positions)
            if not self._seen or now - self._seen[-1][0] >= 1.0:
                self._seen.append((now, positions))
        if not SHORTEST_S <= now - before_s <= 2 * WINDOW_S:
            return {}
        return {task: max(at - before[task], 0) / (now - before_s) for task, at in positions.items() if task in before}


class _Caches:
    """The data that is remembered between queries of the pipeline."""

    def __init__(self) -> None:
        self.stages: tuple[Stage, ...] = ()
        self.rates = Rates()
        self.workers: Cache[dict[tuple[str, str, int], _TaskMetrics] | str] = Cache()
        self.snapshots: Cache[dict[Partition, Mapping[str, int]]] = Cache()


_caches: WeakKeyDictionary[Reading, _Caches] = WeakKeyDictionary()


def pipeline(reading: Reading, _: Question) -> Pipeline:
    """Return the progress and the lag of each operator."""
    caches, now = _caches.setdefault(reading, _Caches()), reading.clock()
    bus, topics = reading.bus, reading.topics
    if not caches.stages:
        caches.stages = _stages(reading)
    of = {
        (stage.name, partition): stage
        for stage in caches.stages
        for partition in bus.partitions(topics.name(stage.topic))
    }
    bounds = bus.all_bounds({partition for _, partition in of})
    positions = {(name, partition): bus.committed(topics.group(name), partition) for name, partition in of}
    rates = caches.rates.update(time.monotonic(), positions)
    holder = _holder(reading)
    metrics = _task_metrics(reading, caches, holder)
    tasks = []
    for (name, partition), stage in of.items():
        position, (oldest, end) = positions[name, partition], bounds[partition]
        end = max(end, position)  # records may have come between the two reads
        rate = rates.get((name, partition))
        if rate is None:
            rate = max(position - bus.offset_at(partition, now - WINDOW_S), 0) / WINDOW_S
        snapshots = _snapshots(reading, caches, stage).get(partition, {}) if stage.remembers else {}
        saved = max(snapshots.values(), default=None)
        one = None if metrics is None else metrics.get((name, partition.topic, partition.number))
        tasks.append(
            PipelineTask(
                operator=name,
                topic=partition.topic,
                partition=partition.number,
                position=position,
                end=end,
                lag_records=end - max(position, oldest),
                lag_s=_waited(reading, partition, max(position, oldest), end, now),
                missed_records=max(oldest - position, 0) if position else 0,
                records_per_s=rate,
                member=f"process {holder.pid} here" if holder is not None and one is not None and one.assigned else "",
                recovery_left_records=None if one is None else one.recovery_left,
                standby_left_records=None if one is None else one.standby_left,
                remembers=stage.remembers,
                snapshot_keys=len(snapshots),
                snapshot_ts=None if saved is None else ts_of(reading, partition, saved - 1),
                snapshot_behind_records=None if saved is None else max(position - saved, 0),
            )
        )
    worker = None if holder is None else PipelineWorker(holder.pid, holder.since, metrics is not None)
    return Pipeline(now, printable(reading.settings[BusSettings].location), tasks, worker)


def _stages(reading: Reading) -> tuple[Stage, ...]:
    try:
        return stages(reading.settings)
    except SettingError as error:
        raise RequestError(503, str(error), "settings with which a worker runs") from None


def _snapshots(reading: Reading, caches: _Caches, stage: Stage) -> dict[Partition, Mapping[str, int]]:
    """Return the offsets of a stage's newest snapshots by partition and key; a network bus has to read them all."""

    def find() -> dict[Partition, Mapping[str, int]]:
        partitions = reading.bus.partitions(reading.topics.name(stage.topic))
        return {each: reading.bus.snapshot_offsets(stage.snapshots, each) for each in partitions}

    return caches.snapshots.get(stage.snapshots, find)


def _waited(reading: Reading, partition: Partition, position: int, end: int, now: float) -> float | None:
    """Return how long the record at a position has waited, in seconds, by its own time."""
    if position >= end:
        return 0.0
    ts = ts_of(reading, partition, position)
    return None if ts is None else max(now - ts, 0.0)


def ts_of(reading: Reading, partition: Partition, offset: int) -> float | None:
    """Return the time of a record; None if it is gone, or had no readable time."""
    found = next(Reader(reading.bus, partition).stored(offset, offset + 1), None) if offset >= 0 else None
    return found.ts or None if found is not None else None


# The metrics of the worker.


def _holder(reading: Reading) -> Holder | None:
    try:
        return holder_of(reading.settings[BusSettings].location, reading.settings[GeneralSettings].state, "work")
    except OSError:
        return None  # it is another user's


def _task_metrics(
    reading: Reading, caches: _Caches, holder: Holder | None
) -> Mapping[tuple[str, str, int], _TaskMetrics] | None:
    """Return the metrics of the tasks of this machine's worker; None if it does not answer."""
    if holder is None or not holder.url:
        return None
    token = reading.settings[WebSettings].token
    found = caches.workers.get((holder.pid, holder.since), lambda: _ask(holder.url, token))
    return None if isinstance(found, str) else found


def _ask(url: str, token: str) -> dict[tuple[str, str, int], _TaskMetrics] | str:
    request = urllib.request.Request(f"{url}/metrics")  # noqa: S310 - the worker's own claim says http://
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=ASKING_S) as answer:  # noqa: S310 - as above
            text = answer.read(MOST_METRICS_BYTES).decode(errors="replace")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(error)
    wanted = tuple(_EXPOSED.values())
    lines = "\n".join(line for line in text.splitlines() if line.startswith(wanted))
    values: dict[tuple[str, str, int], dict[str, float]] = {}
    for family in text_string_to_metric_families(f"{lines}\n"):
        for sample in family.samples:
            task = (sample.labels["operator"], sample.labels["topic"], int(sample.labels["partition"]))
            values.setdefault(task, {})[sample.name] = sample.value
    return {task: _one(each) for task, each in values.items()}


_EXPOSED: Final = {
    each.name: each.exposed
    for each in METRICS
    if each.name in {"lag_records", "recovery_left_records", "standby_position", "standby_left_records"}
}


def _one(values: Mapping[str, float]) -> _TaskMetrics:
    def of(name: str) -> int:
        return int(values.get(_EXPOSED[name], 0.0))

    standby = of("standby_left_records") if of("standby_position") else None
    return _TaskMetrics(of("recovery_left_records"), standby, _EXPOSED["lag_records"] in values and standby is None)


ENDPOINTS: Final = (Endpoint("/pipeline", "The progress and the lag of each operator.", Pipeline, pipeline, Nothing),)
