"""The metrics that Prometheus scrapes: a collector that fills those of `declared.py` at each scrape.

Counters accumulate where the work is done and are only copied here; scores are those of the newest frame. No label is
a process id or a row id, which come and go: rows of one name share a series. Hostile or careless names cannot overload
a metrics store: the length of a label, the rows of a stream and the number of streams are bounded.
"""

from __future__ import annotations

import platform
import threading
import time
from collections import OrderedDict
from importlib.metadata import version
from operator import itemgetter
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from laggard.pipeline.core.own import AGENT_SCOPE, SOURCE_SCOPE, TRACE_SCOPE
from laggard.pipeline.methods.applications.stage import REGRESSION
from laggard.pipeline.metrics.applications import ShownModels
from laggard.pipeline.metrics.declared import MAX_STREAMS, METRICS
from laggard.pipeline.metrics.incidents import ShownIncidents
from laggard.pipeline.metrics.metric import PREFIX
from laggard.pipeline.metrics.pools import ShownPools
from laggard.pipeline.metrics.requests import ShownRequests
from laggard.pipeline.metrics.samples import histogram, label, sample
from laggard.pipeline.metrics.streams import (
    HOST_SCOPE,
    Shown,
    Stream,
    shared_samples,
    status_samples,
    stream_samples,
)
from laggard.pipeline.metrics.tasks import TASK_LABELS
from laggard.pipeline.scoring.observers import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prometheus_client.samples import Sample

    from laggard.operators.covariance.results import Deviation
    from laggard.operators.regression.models import Model
    from laggard.operators.requests.results import RequestScore
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.core.engine.telemetry import TaskTelemetry, Telemetry
    from laggard.pipeline.core.records import Frame, Mark, Request
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.core.records.models import PredictionOutput
    from laggard.pipeline.core.records.outputs import Incident
    from laggard.pipeline.metrics.streams import Scores


class Exporter(Collector, Observer):
    """A collector of all metrics of laggard for Prometheus. May be called from several threads.

    Storing a frame costs about a microsecond. A frame is ranked when it is scraped: most frames never are.

    Parameters:
        telemetry: the counters of the runner.
        top_rows: the most names of rows with series of their own in each stream.
        budgets: the budget of false incidents per host and day, by operator.
        clock: seconds on a clock that never steps.

    Example:
        >>> from prometheus_client import CollectorRegistry, generate_latest
        >>> from laggard.pipeline.core.engine.telemetry import Telemetry
        >>> registry = CollectorRegistry()
        >>> registry.register(Exporter(Telemetry(), top_rows=10))
        >>> print(generate_latest(registry).decode().splitlines()[0])
        # HELP laggard_build_info The versions of laggard and of Python.

    """

    def __init__(
        self,
        telemetry: Telemetry,
        top_rows: int,
        budgets: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._telemetry = telemetry
        self._top_rows = top_rows
        self._budgets = budgets or {}
        self._clock = clock
        self._lock = threading.Lock()
        self._shown: OrderedDict[Stream, Shown] = OrderedDict()  # by their newest frames, the oldest first
        self._marks: OrderedDict[tuple[str, str], int] = OrderedDict()  # by host and operator, the newest mark last
        self._incidents = ShownIncidents()
        self._models = ShownModels()
        self._pools = ShownPools()
        self._requests = ShownRequests()
        self._frames_left_out = 0

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:
        """Show an operator's answer to this frame."""
        self._note(Stream(frame.keyed_by, frame.key, operator, frame.scope), frame, scores, anomalies)

    def predicted(self, prediction: PredictionOutput) -> None:
        """Show a model's prediction for an interval."""
        with self._lock:
            self._models.predicted(prediction)

    def modelled(self, application: str, models: Mapping[str, Model], built: Sequence[Model]) -> None:
        """Show the present models of an application."""
        with self._lock:
            self._models.modelled(application, models, built)

    def compared(self, operator: str, pool: str, members: int, deviations: Sequence[Deviation]) -> None:
        """Show which members of a pool deviate."""
        with self._lock:
            self._pools.compared(operator, pool, members, deviations)

    def requested(self, operator: str, request: Request, judged: RequestScore, cluster: str) -> None:
        """Count a request."""
        now = self._clock()
        with self._lock:
            self._requests.requested(operator, request, judged, cluster, now)

    def received(self, frame: Frame) -> None:
        """Show a frame of an agent, a host or a source about itself; others are shown when they are scored."""
        if not len(frame.values) or (frame.keyed_by == "host") == (frame.scope == SOURCE_SCOPE):
            return
        if frame.scope in {AGENT_SCOPE, HOST_SCOPE, TRACE_SCOPE}:
            self._note(Stream(frame.keyed_by, frame.key, "", frame.scope), frame, None, None)
        elif frame.scope == SOURCE_SCOPE:  # an application or a pool may have several
            scope = f"{SOURCE_SCOPE} {frame.layout.rows[0]}"
            self._note(Stream(frame.keyed_by, frame.key, "", scope), frame, None, None)

    def marked(self, operator: str, mark: Mark) -> None:
        """Count a mark. Every operator receives it."""
        with self._lock:
            self._marks[mark.host, operator] = self._marks.pop((mark.host, operator), 0) + 1
            if len(self._marks) > MAX_STREAMS:
                self._marks.popitem(last=False)

    def lost(self, operator: str, keys: Iterable[str]) -> None:
        """Stop showing these keys: another worker has them, or this one must recover them."""
        keys = set(keys)
        with self._lock:
            for stream in [
                stream for stream in self._shown if stream.key in keys and stream.operator in {operator, ""}
            ]:
                del self._shown[stream]
            for key in keys:
                self._marks.pop((key, operator), None)
            if operator == REGRESSION:
                self._models.lost(keys)
            self._pools.lost(operator, keys)
            self._requests.lost(operator, keys)

    def joined(self, keyed_by: KeyedBy, key: str, incidents: Sequence[Incident], opened: int) -> None:
        """Show the open incidents of a key."""
        with self._lock:
            self._incidents.joined(keyed_by, key, incidents, opened)

    def dismissed(self, keyed_by: KeyedBy, key: str) -> None:
        """Count an incident that people called false."""
        with self._lock:
            self._incidents.dismissed(keyed_by, key)

    def parted(self, keys: Iterable[str]) -> None:
        """Stop showing the incidents of these keys."""
        with self._lock:
            self._incidents.parted(keys)

    def _note(self, stream: Stream, frame: Frame, scores: Scores | None, anomalies: Anomalies | None) -> None:
        now = self._clock()
        with self._lock:
            before = self._shown.pop(stream, None)
            if before is None and len(self._shown) >= MAX_STREAMS:
                silent = next(iter(self._shown))
                if not self._shown[silent].stale(now):
                    self._frames_left_out += 1
                    return
                del self._shown[silent]
            self._shown[stream] = Shown(frame, scores, anomalies, now, now - before.came_s if before else 0.0)

    def describe(self) -> Iterable[Family]:
        """Return the metrics without samples, so that registering does not collect."""
        return _families().values()

    def collect(self) -> Iterable[Family]:
        """Return all metrics as they are now, except for those without a sample."""
        now = self._clock()
        with self._lock:
            for stream in [stream for stream, one in self._shown.items() if one.stale(now)]:
                del self._shown[stream]
            shown = sorted(self._shown.items(), key=itemgetter(0))
            marks: dict[str, int] = {}
            for (host, _), count in self._marks.items():
                marks[host] = max(count, marks.get(host, 0))
            joined = self._incidents.samples()
            keys = {(each.keyed_by, each.key) for each in self._shown}
            incidents = {each: self._incidents.open(*each) for each in keys}
            explained = self._models.samples({each.key for each in self._shown if each.operator == REGRESSION})
            compared = {(each.operator, each.key) for each in self._shown if each.keyed_by == "pool"}
            pools = self._pools.samples(compared, self._top_rows)
            requests = self._requests.samples(now)
            frames_left_out = self._frames_left_out
        families = _families()
        build = {"version": version("laggard"), "python": platform.python_version()}
        process = {
            "frames_left_out": frames_left_out,
            "retries": self._telemetry.retries,
            "fenced": self._telemetry.fenced,
        }
        _add(families, [sample("build", build, 1), *(sample(name, {}, value) for name, value in process.items())])
        # Names may differ only in parts that labels lack. The first one counts: Prometheus would reject a page that has
        # a series twice.
        seen: set[Stream] = set()
        shared: dict[tuple[str, *tuple[tuple[str, str], ...]], Sample] = {}  # by several streams of a key

        def share(samples: Iterable[Sample]) -> None:
            for one in samples:
                shared.setdefault((one.name, *one.labels.items()), one)

        share(joined)  # before the zeros of the streams
        share(explained)
        share(pools)
        share(requests)
        for stream, one in shown:
            labelled = Stream(stream.keyed_by, label(stream.key), label(stream.operator), label(stream.scope))
            if labelled in seen:
                continue
            seen.add(labelled)
            if one.samples is None:
                one.samples = stream_samples(labelled, one, self._top_rows)
            _add(families, one.samples)
            share(shared_samples(labelled, one.frame, self._budgets.get(stream.operator), marks))
        share(status_samples(shown, incidents))
        _add(families, shared.values())
        for task in sorted(self._telemetry.tasks(), key=lambda task: (task.operator, task.topic, task.partition)):
            _add_task(families, task)
        return [family for family in families.values() if family.samples]


def metrics_registry(exporter: Exporter) -> CollectorRegistry:
    """Return the registry of `/metrics`: the exporter, and CPU, memory and files of this process by the usual names."""
    registry = CollectorRegistry()
    registry.register(exporter)
    ProcessCollector(registry=registry)
    return registry


def _families() -> dict[str, Family]:
    """Return the families by the name of their samples; of histograms by that name without its suffix."""
    return {metric.exposed: Family(PREFIX + metric.name, metric.help, metric.kind) for metric in METRICS}


def _add(families: Mapping[str, Family], samples: Iterable[Sample]) -> None:
    for one in samples:
        family = families.get(one.name) or families[one.name.rpartition("_")[0]]
        family.samples.append(one)


def _add_task(families: Mapping[str, Family], task: TaskTelemetry) -> None:
    labels = {"operator": task.operator, "topic": task.topic, "partition": str(task.partition)}
    for metric in METRICS:
        if metric.labels != TASK_LABELS:
            continue
        value = getattr(task, metric.name)
        samples = histogram(metric.name, labels, value, "host") if metric.kind == "histogram" else None
        _add(families, samples or [sample(metric.name, labels, value)])
