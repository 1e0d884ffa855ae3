"""What Prometheus reads: a collector that fills the metrics of `metrics.py` anew at each scrape.

Counters accumulate where the work is done and are only copied here; scores are those of the newest frame. No label is
a process id or a row id, which come and go: rows of one name share a series. What hostile or careless names could do
to a metrics store is bounded: a label's length, the rows of a stream, and the number of streams.
"""

from __future__ import annotations

import math
import platform
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry
from prometheus_client.samples import Exemplar, Sample

from laggard.operators.contract import LastingScores
from laggard.pipeline.alarms.status import STATUSES, status_of
from laggard.pipeline.applications.metrics import metric_id
from laggard.pipeline.applications.resources import resource_of
from laggard.pipeline.applications.stage import REGRESSION
from laggard.pipeline.engine.observers import Observer
from laggard.pipeline.metrics.applications import ShownModels
from laggard.pipeline.metrics.declared import (
    HOST_DEVICES,
    HOST_FEATURES,
    MAX_STREAMS,
    METRICS,
    STALE_S,
    TOP_FEATURES,
)
from laggard.pipeline.metrics.incidents import ShownIncidents
from laggard.pipeline.metrics.metric import PREFIX
from laggard.pipeline.metrics.pools import ShownPools
from laggard.pipeline.metrics.producers import SOURCE_LABELS
from laggard.pipeline.metrics.requests import ShownRequests
from laggard.pipeline.metrics.samples import histogram, label, member, present, sample
from laggard.pipeline.metrics.tasks import TASK_LABELS
from laggard.pipeline.own import AGENT_SCOPE, OWN_SCOPES, SOURCE_SCOPE, TRACE_SCOPE
from laggard.pipeline.scoring.stream import kept_by, score_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from laggard.operators.covariance.results import Deviation
    from laggard.operators.ranking import FeatureScore, Ranking, RowScore
    from laggard.operators.regression.models import Model
    from laggard.operators.requests.results import Judged
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.engine.telemetry import TaskTelemetry, Telemetry
    from laggard.pipeline.records import Frame, Mark, Request
    from laggard.pipeline.records.frame import KeyedBy
    from laggard.pipeline.records.models import PredictionOutput
    from laggard.pipeline.records.outputs import Incident

HOST_SCOPE: Final = "host"

MOST_OPEN: Final = 20
"""The most open anomalies of a stream that have series of their own."""


class Scores(Protocol):
    """What an operator answered to one frame."""

    @property
    def score(self) -> float:
        """Of the whole frame."""

    def ranking(self, rows: int, features: int) -> Ranking:
        """The worst rows, each with its worst features."""


class _Stream(NamedTuple):
    """Whose newest frame is shown; the operator is empty for frames that none has scored."""

    keyed_by: str
    key: str
    operator: str
    scope: str


@dataclass(slots=True)
class _Shown:
    """A stream's newest frame, what the operator answered to it, when it came, and how long after the one before."""

    frame: Frame
    scores: Scores | None
    anomalies: Anomalies | None
    came_s: float
    tick_s: float
    samples: Sequence[Sample] | None = None  # made when they are first asked for
    young: bool = False  # known with the samples

    def stale(self, now: float) -> bool:
        return now - self.came_s > max(STALE_S, 3 * self.tick_s)


class Exporter(Collector, Observer):
    """Collects everything that laggard has to say to Prometheus. May be called from several threads.

    To note a frame costs about a microsecond. It is ranked when it is scraped: most frames never are.

    Parameters:
        telemetry: what the runner counts.
        top_rows: how many names of rows have series of their own in each stream.
        budgets: by operator, the false incidents that a host may have a day.
        clock: seconds on a clock that never steps.

    Example:
        >>> from prometheus_client import CollectorRegistry, generate_latest
        >>> from laggard.pipeline.engine.telemetry import Telemetry
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
        self._shown: OrderedDict[_Stream, _Shown] = OrderedDict()  # the one silent longest first
        self._marks: OrderedDict[tuple[str, str], int] = OrderedDict()  # by host and operator; the last one heard last
        self._incidents = ShownIncidents()
        self._models = ShownModels()
        self._pools = ShownPools()
        self._requests = ShownRequests()
        self._frames_left_out = 0

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:
        """Show what an operator answered to this frame."""
        self._note(_Stream(frame.keyed_by, frame.key, operator, frame.scope), frame, scores, anomalies)

    def predicted(self, prediction: PredictionOutput) -> None:
        """Show what a model said of an interval."""
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

    def requested(self, operator: str, request: Request, judged: Judged, cluster: str) -> None:
        """Count a request."""
        now = self._clock()
        with self._lock:
            self._requests.requested(operator, request, judged, cluster, now)

    def received(self, frame: Frame) -> None:
        """Show what an agent, a host or a source says about itself; others are shown when they are scored."""
        if not len(frame.values) or (frame.keyed_by == "host") == (frame.scope == SOURCE_SCOPE):
            return
        if frame.scope in {AGENT_SCOPE, HOST_SCOPE, TRACE_SCOPE}:
            self._note(_Stream(frame.keyed_by, frame.key, "", frame.scope), frame, None, None)
        elif frame.scope == SOURCE_SCOPE:  # an application or a pool may have several
            scope = f"{SOURCE_SCOPE} {frame.layout.rows[0]}"
            self._note(_Stream(frame.keyed_by, frame.key, "", scope), frame, None, None)

    def marked(self, operator: str, mark: Mark) -> None:
        """Count a mark. Every operator sees it."""
        with self._lock:
            self._marks[mark.host, operator] = self._marks.pop((mark.host, operator), 0) + 1
            if len(self._marks) > MAX_STREAMS:
                self._marks.popitem(last=False)

    def lost(self, operator: str, keys: Iterable[str]) -> None:
        """Show no more of these keys: another worker does, or this one when it has recovered them."""
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
        """Show the incidents of a key that are open."""
        with self._lock:
            self._incidents.joined(keyed_by, key, incidents, opened)

    def dismissed(self, keyed_by: KeyedBy, key: str) -> None:
        """Count an incident that people called false."""
        with self._lock:
            self._incidents.dismissed(keyed_by, key)

    def parted(self, keys: Iterable[str]) -> None:
        """Show no more incidents of these keys."""
        with self._lock:
            self._incidents.parted(keys)

    def _note(self, stream: _Stream, frame: Frame, scores: Scores | None, anomalies: Anomalies | None) -> None:
        now = self._clock()
        with self._lock:
            before = self._shown.pop(stream, None)
            if before is None and len(self._shown) >= MAX_STREAMS:
                silent = next(iter(self._shown))
                if not self._shown[silent].stale(now):
                    self._frames_left_out += 1
                    return
                del self._shown[silent]
            self._shown[stream] = _Shown(frame, scores, anomalies, now, now - before.came_s if before else 0.0)

    def describe(self) -> Iterable[Family]:
        """The metrics without samples, so that registering does not collect."""
        return _families().values()

    def collect(self) -> Iterable[Family]:
        """All metrics as they are now; those without a sample are left out."""
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
        # Names that differ only in what a label cannot hold would give one series twice, and Prometheus would refuse
        # the whole page: the first one stays.
        seen: set[_Stream] = set()
        shared: dict[tuple[str, *tuple[tuple[str, str], ...]], Sample] = {}  # by several streams of a key

        def share(samples: Iterable[Sample]) -> None:
            for one in samples:
                shared.setdefault((one.name, *one.labels.items()), one)

        share(joined)  # before others say that there are none
        share(explained)
        share(pools)
        share(requests)
        for stream, one in shown:
            labelled = _Stream(stream.keyed_by, label(stream.key), label(stream.operator), label(stream.scope))
            if labelled in seen:
                continue
            seen.add(labelled)
            if one.samples is None:
                one.samples = _samples(labelled, one, self._top_rows)
            _add(families, one.samples)
            share(_shared_samples(labelled, one.frame, self._budgets.get(stream.operator), marks))
        share(_status_samples(shown, incidents))
        _add(families, shared.values())
        for task in sorted(self._telemetry.tasks(), key=lambda task: (task.operator, task.topic, task.partition)):
            _add_task(families, task)
        return [family for family in families.values() if family.samples]


def metrics_registry(exporter: Exporter) -> CollectorRegistry:
    """What `/metrics` shows: the exporter's metrics, and this process's CPU, memory and files by their usual names."""
    registry = CollectorRegistry()
    registry.register(exporter)
    ProcessCollector(registry=registry)
    return registry


def _samples(stream: _Stream, one: _Shown, top_rows: int) -> Sequence[Sample]:
    """What is shown of a stream alone; its names are labels already."""
    labels: dict[str, str] = {stream.keyed_by: stream.key}
    frame, scores = one.frame, one.scores
    if scores is None:
        if frame.scope not in OWN_SCOPES:
            return []
        shown: tuple[str, ...] = ("host",)
        if frame.scope == SOURCE_SCOPE:
            labels["source"], shown = label(frame.layout.rows[0]), SOURCE_LABELS
        values = dict(zip(frame.layout.features, frame.values[0].tolist(), strict=True))
        return [
            sample(metric.name, labels, values[metric.feature])
            for metric in METRICS
            if metric.labels == shown and not math.isnan(values.get(metric.feature, math.nan))
        ]
    labels |= {"operator": stream.operator, "scope": stream.scope}
    # A host may have many pools, most of whose members do what the others do.
    top_features = 0 if stream.keyed_by == "pool" else TOP_FEATURES
    ranking, worst = _worst(scores, top_rows, len(frame.layout.rows), top_features)
    one.young = ranking.young
    samples = [
        sample("score", labels, scores.score),
        sample("rows_left_out", labels, max(len(set(frame.layout.names)) - len(worst), 0)),
        sample("frame_timestamp_seconds", labels, frame.ts),
        sample("model_age_seconds", labels, ranking.age_s),
        sample("model_young", labels, ranking.young),
    ]
    for name, row in worst.items():
        samples.append(sample("row_score", {**labels, "row": name}, row.score))
        features: dict[str, FeatureScore] = {}
        for found in row.features:
            features.setdefault(label(found.feature), found)
        for feature, found in features.items():
            which = {**labels, "row": name, "feature": feature}
            samples.append(sample("feature_score", which, found.score))
            samples += present(
                which,
                feature_value=found.value,
                feature_usual=math.nan if row.basis == "threshold" else found.mean,
                feature_usual_deviation=found.standard_deviation,
            )
    if one.anomalies is not None:
        samples += _anomaly_samples(labels, one.anomalies, scores)
    return samples


def _status_samples(
    shown: Sequence[tuple[_Stream, _Shown]], incidents: Mapping[tuple[str, str], Iterable[frozenset[str]]]
) -> Iterable[Sample]:
    """The status of each key whose frames an operator has scored."""
    found: dict[tuple[str, str], list[tuple[str, _Shown]]] = {}
    for stream, one in shown:
        if stream.operator:
            found.setdefault((stream.keyed_by, stream.key), []).append((stream.operator, one))
    for (keyed_by, key), streams in found.items():
        anomalous = [{operator} for operator, one in streams if one.anomalies is not None and one.anomalies.live]
        suspicious = any(one.anomalies is not None and one.anomalies.notices.is_live for _, one in streams)
        young = any(one.young for _, one in streams)
        status = status_of([*incidents[keyed_by, key], *anomalous], suspicious=suspicious, young=young)
        for each in STATUSES:
            yield sample("status", {keyed_by: label(key), "status": each}, each == status)


def _anomaly_samples(labels: dict[str, str], anomalies: Anomalies, scores: Scores) -> Iterable[Sample]:
    live = anomalies.live
    yield sample("anomalies_open", labels, len(live))
    newest = live[-1] if live else None
    exemplar = Exemplar({"anomaly": newest.id}, 1.0, newest.ts) if newest is not None and newest.id else None
    yield sample("anomalies_opened", labels, anomalies.opened, exemplar)
    if isinstance(scores, LastingScores):  # others have no budget of notices
        yield sample("notices_opened", labels, anomalies.notices.opened)
    kept, of_score = kept_by(scores), score_of(scores)
    seen: set[tuple[str, str]] = set()
    for anomaly in live[:MOST_OPEN]:  # of two that look alike the older
        row = member(anomaly.name) if "pool" in labels else label(anomaly.name)
        which = row, label(anomaly.feature)
        if which in seen:
            continue
        seen.add(which)
        of_row = {**labels, "row": row, "feature": label(anomaly.feature)}
        if "application" in labels:
            of_row["resource"] = resource_of(metric_id(anomaly.name, anomaly.feature))
        score = kept[anomaly.own].score if anomaly.own in kept else of_score
        yield sample("anomaly_score", of_row, score)
        yield sample("anomaly_start_timestamp_seconds", of_row, anomaly.ts)
        yield from present(
            of_row,
            anomaly_value=anomaly.value,
            anomaly_usual=anomaly.usual,
            anomaly_usual_deviation=anomaly.usual_deviation,
        )


def _shared_samples(stream: _Stream, frame: Frame, budget: float | None, marks: Mapping[str, int]) -> Iterable[Sample]:
    """What several streams of one key have in common; whichever comes first may show it."""
    labels: dict[str, str] = {stream.keyed_by: stream.key}
    if budget is not None:
        yield sample("false_alarms_budget_per_day", {**labels, "operator": stream.operator}, budget)
    if stream.operator:  # from the beginning on, so that the first one is an increase
        yield sample("incidents_open", labels, 0)
        yield sample("incidents", labels, 0)
        yield sample("incidents_dismissed", labels, 0)
    if stream.keyed_by != "host":
        return
    yield sample("marks", labels, marks.get(frame.key, 0))
    if stream.scope == HOST_SCOPE and len(frame.values):
        values = frame.values[0].tolist()
        for name, columns, highest in _host_columns(frame.layout.features):
            there = [value for column in columns if not math.isnan(value := values[column])]
            if there:
                yield sample("host_value", {**labels, "feature": name}, max(there) if highest else sum(there))


@lru_cache(maxsize=256)
def _host_columns(features: tuple[str, ...]) -> Sequence[tuple[str, Sequence[int], bool]]:
    """By label: in which columns of a host's frame that is, and whether the highest is shown and not the sum."""
    columns = {feature: column for column, feature in enumerate(features) if not feature.startswith("network_lo_")}
    own = [(name, [columns[name]], False) for name in HOST_FEATURES if name in columns]
    for kind, end in HOST_DEVICES:
        of_devices = [at for name, at in columns.items() if name.startswith(f"{kind}_") and name.endswith(f"_{end}")]
        own.append((f"{kind}_{end}", of_devices, end.endswith("_ratio")))
    return own


def _worst(scores: Scores, names: int, rows: int, features: int) -> tuple[Ranking, dict[str, RowScore]]:
    """The worst row of each name, of the worst `names`; rows come worst first, so the first of a name is its worst."""
    asked = min(2 * names, rows)  # enough as a rule: to rank a row costs more than to score it
    while True:
        ranking = scores.ranking(rows=asked, features=features)
        worst: dict[str, RowScore] = {}
        for row in ranking.rows:
            if len(worst) == names:
                break
            if row.basis == "threshold" and not row.score:
                return ranking, worst  # it is far from its limit, and so are those behind it
            if not math.isnan(row.score):
                worst.setdefault(label(row.name), row)
        if len(worst) == names or asked == rows:
            return ranking, worst
        asked = min(4 * asked, rows)


def _families() -> dict[str, Family]:
    """By the name of their samples; by that without its ending where they are histograms."""
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
        told = histogram(metric.name, labels, value, "host") if metric.kind == "histogram" else None
        _add(families, told or [sample(metric.name, labels, value)])
