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
from importlib.metadata import version
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from laggard.pipeline.metrics import BY_NAME, MAX_LABEL, MAX_STREAMS, METRICS, PREFIX, STALE_S, TASK_LABELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from laggard.operators.ranking import Ranking, RowScore
    from laggard.pipeline.records import Frame
    from laggard.pipeline.telemetry import Distribution, TaskTelemetry, Telemetry

AGENT_SCOPE = "agent"


class Scores(Protocol):
    """What an operator answered to one frame."""

    @property
    def score(self) -> float:
        """Of the whole frame."""

    def ranking(self, rows: int, features: int) -> Ranking:
        """The worst rows, each with its worst features."""


class _Stream(NamedTuple):
    """Whose newest frame is shown; the operator is empty for an agent's own frames."""

    keyed_by: str
    key: str
    operator: str
    scope: str


class _Sample(NamedTuple):
    """One line of the page, as yet without its metric's type and help."""

    metric: str
    labels: dict[str, str]
    value: float


@dataclass(slots=True)
class _Shown:
    """A stream's newest frame, what the operator answered to it, when it came, and how long after the one before."""

    frame: Frame
    scores: Scores | None
    came_s: float
    tick_s: float
    samples: Sequence[_Sample] | None = None  # made when they are first asked for

    def stale(self, now: float) -> bool:
        return now - self.came_s > max(STALE_S, 3 * self.tick_s)


class Exporter(Collector):
    """Collects everything that laggard has to say to Prometheus. May be called from several threads.

    To note a frame costs about a microsecond. It is ranked when it is scraped: most frames never are.

    Parameters:
        telemetry: what the runner counts.
        top_rows: how many names of rows have series of their own in each stream.
        clock: seconds on a clock that never steps.

    Example:
        >>> from prometheus_client import CollectorRegistry, generate_latest
        >>> from laggard.pipeline.telemetry import Telemetry
        >>> registry = CollectorRegistry()
        >>> registry.register(Exporter(Telemetry(), top_rows=10))
        >>> print(generate_latest(registry).decode().splitlines()[0])
        # HELP laggard_build_info The versions of laggard and of Python.

    """

    def __init__(self, telemetry: Telemetry, top_rows: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._telemetry = telemetry
        self._top_rows = top_rows
        self._clock = clock
        self._lock = threading.Lock()
        self._shown: OrderedDict[_Stream, _Shown] = OrderedDict()  # the one silent longest first
        self._frames_left_out = 0

    def scored(self, operator: str, frame: Frame, scores: Scores) -> None:
        """Show what an operator answered to this frame."""
        self._note(_Stream(frame.keyed_by, frame.key, operator, frame.scope), frame, scores)

    def received(self, frame: Frame) -> None:
        """Show what an agent says about itself; other frames are shown when they are scored."""
        if frame.scope == AGENT_SCOPE and len(frame.values):
            self._note(_Stream(frame.keyed_by, frame.key, "", frame.scope), frame, None)

    def _note(self, stream: _Stream, frame: Frame, scores: Scores | None) -> None:
        now = self._clock()
        with self._lock:
            before = self._shown.pop(stream, None)
            if before is None and len(self._shown) >= MAX_STREAMS:
                silent = next(iter(self._shown))
                if not self._shown[silent].stale(now):
                    self._frames_left_out += 1
                    return
                del self._shown[silent]
            self._shown[stream] = _Shown(frame, scores, now, now - before.came_s if before else 0.0)

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
            frames_left_out = self._frames_left_out
        families = _families()
        build = {"version": version("laggard"), "python": platform.python_version()}
        process = {
            "frames_left_out": frames_left_out,
            "retries": self._telemetry.retries,
            "fenced": self._telemetry.fenced,
        }
        _add(families, [_Sample("build", build, 1), *(_Sample(name, {}, value) for name, value in process.items())])
        # Names that differ only in what a label cannot hold would give one series twice, and Prometheus would refuse
        # the whole page: the first one stays.
        series: dict[tuple[str, *tuple[tuple[str, str], ...]], _Sample] = {}
        for stream, one in shown:
            if one.samples is None:
                one.samples = _samples(stream.operator, one.frame, one.scores, self._top_rows)
            for sample in one.samples:
                series.setdefault((sample.metric, *sample.labels.items()), sample)
        _add(families, series.values())
        for task in sorted(self._telemetry.tasks(), key=lambda task: (task.operator, task.topic, task.partition)):
            _add_task(families, task)
        return [family for family in families.values() if family.samples]


def metrics_registry(exporter: Exporter) -> CollectorRegistry:
    """What `/metrics` shows: the exporter's metrics, and this process's CPU, memory and files by their usual names."""
    registry = CollectorRegistry()
    registry.register(exporter)
    ProcessCollector(registry=registry)
    return registry


def label(text: str) -> str:
    """A name as a label's value: printable, in UTF-8, and not too long.

    Names come from other people's processes: they may hold control characters, halves of characters (what is left of
    bytes that were no UTF-8), and as many characters as their author liked.
    """
    if not text.isprintable():
        text = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


def _samples(operator: str, frame: Frame, scores: Scores | None, top_rows: int) -> Sequence[_Sample]:
    labels: dict[str, str] = {frame.keyed_by: label(frame.key)}
    if scores is None:
        features = dict(zip(frame.layout.features, frame.values[0].tolist(), strict=True))
        return [
            _Sample(metric.name, labels, features[metric.feature])
            for metric in METRICS
            if not math.isnan(features.get(metric.feature, math.nan))
        ]
    labels |= {"operator": label(operator), "scope": label(frame.scope)}
    ranking, worst = _worst(scores, top_rows, len(frame.layout.rows))
    samples = [
        _Sample("score", labels, scores.score),
        _Sample("rows_left_out", labels, max(len(set(frame.layout.names)) - len(worst), 0)),
        _Sample("frame_timestamp_seconds", labels, frame.ts),
        _Sample("model_age_seconds", labels, ranking.age_s),
        _Sample("model_young", labels, ranking.young),
    ]
    for name, row in worst.items():
        samples.append(_Sample("row_score", {**labels, "row": name}, row.score))
        samples += (
            _Sample("feature_score", {**labels, "row": name, "feature": label(feature.feature)}, feature.score)
            for feature in row.features
        )
    return samples


def _worst(scores: Scores, names: int, rows: int) -> tuple[Ranking, dict[str, RowScore]]:
    """The worst row of each name, of the worst `names`; rows come worst first, so the first of a name is its worst."""
    asked = min(2 * names, rows)  # enough as a rule: to rank a row costs more than to score it
    while True:
        ranking = scores.ranking(rows=asked, features=1)
        worst: dict[str, RowScore] = {}
        for row in ranking.rows:
            if len(worst) == names:
                break
            if not math.isnan(row.score):
                worst.setdefault(label(row.name), row)
        if len(worst) == names or asked == rows:
            return ranking, worst
        asked = min(4 * asked, rows)


def _families() -> dict[str, Family]:
    return {metric.name: Family(PREFIX + metric.name, metric.help, metric.kind) for metric in METRICS}


def _add(families: Mapping[str, Family], samples: Iterable[_Sample]) -> None:
    for sample in samples:
        families[sample.metric].add_sample(BY_NAME[sample.metric].exposed, sample.labels, sample.value)


def _add_task(families: Mapping[str, Family], task: TaskTelemetry) -> None:
    labels = {"operator": task.operator, "topic": task.topic, "partition": str(task.partition)}
    for metric in METRICS:
        if metric.labels != TASK_LABELS:
            continue
        value = getattr(task, metric.name)
        if metric.kind == "histogram":
            _add_histogram(families[metric.name], labels, value)
        else:
            families[metric.name].add_sample(metric.exposed, labels, value)


def _add_histogram(family: Family, labels: dict[str, str], seen: Distribution) -> None:
    reached = list(accumulate(tuple(seen.counts)))  # a copy: the runner goes on counting
    for bound, count in zip((*map(repr, seen.bounds), "+Inf"), reached, strict=True):
        family.add_sample(f"{family.name}_bucket", {**labels, "le": bound}, count)
    family.add_sample(f"{family.name}_sum", labels, seen.total)
    family.add_sample(f"{family.name}_count", labels, reached[-1])
