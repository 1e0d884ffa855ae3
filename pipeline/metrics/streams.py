"""Streams for Prometheus: the scores of each one's newest frame, its open anomalies, and its status."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from prometheus_client.samples import Exemplar, Sample

from laggard.operators.contract import LastingScores
from laggard.pipeline.alarms.status import STATUSES, status_of
from laggard.pipeline.core.own import OWN_SCOPES, SOURCE_SCOPE
from laggard.pipeline.methods.applications.metrics import metric_id
from laggard.pipeline.methods.applications.resources import resource_of
from laggard.pipeline.metrics.declared import HOST_DEVICES, HOST_FEATURES, METRICS, STALE_S, TOP_FEATURES
from laggard.pipeline.metrics.producers import SOURCE_LABELS
from laggard.pipeline.metrics.samples import label, member, present, sample
from laggard.pipeline.scoring.stream import open_anomalies, score_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from laggard.operators.ranking import FeatureScore, Ranking, RowScore
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.core.records import Frame

HOST_SCOPE: Final = "host"

MOST_OPEN: Final = 20
"""The most open anomalies of a stream that have series of their own."""


class Scores(Protocol):
    """An operator's answer to one frame."""

    @property
    def score(self) -> float:
        """The score of the whole frame."""

    def ranking(self, rows: int, features: int) -> Ranking:
        """Return the worst rows, each with its worst features."""


class Stream(NamedTuple):
    """A stream whose newest frame is shown; the operator is empty for frames without scores."""

    keyed_by: str
    key: str
    operator: str
    scope: str


@dataclass(slots=True)
class Shown:
    """A stream's newest frame, the operator's answer to it, its arrival, and the time since the arrival before."""

    frame: Frame
    scores: Scores | None
    anomalies: Anomalies | None
    came_s: float
    tick_s: float
    samples: Sequence[Sample] | None = None  # made at the first scrape
    young: bool = False  # set with the samples

    def stale(self, now: float) -> bool:
        """Return whether it has been silent for too long to be shown."""
        return now - self.came_s > max(STALE_S, 3 * self.tick_s)


def stream_samples(stream: Stream, one: Shown, top_rows: int) -> Sequence[Sample]:
    """Return the samples that no other stream shares; the names in `stream` are labels already."""
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
    # A host may have many pools, most of whose members do not deviate.
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


def status_samples(
    shown: Sequence[tuple[Stream, Shown]], incidents: Mapping[tuple[str, str], Iterable[frozenset[str]]]
) -> Iterable[Sample]:
    """Yield the status of each key whose frames an operator has scored."""
    found: dict[tuple[str, str], list[tuple[str, Shown]]] = {}
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
    ongoing, of_score = open_anomalies(scores), score_of(scores)
    seen: set[tuple[str, str]] = set()
    for anomaly in live[:MOST_OPEN]:  # of two with the same labels the older one
        row = member(anomaly.name) if "pool" in labels else label(anomaly.name)
        which = row, label(anomaly.feature)
        if which in seen:
            continue
        seen.add(which)
        of_row = {**labels, "row": row, "feature": label(anomaly.feature)}
        if "application" in labels:
            of_row["resource"] = resource_of(metric_id(anomaly.name, anomaly.feature))
        score = ongoing[anomaly.own].score if anomaly.own in ongoing else of_score
        yield sample("anomaly_score", of_row, score)
        yield sample("anomaly_start_timestamp_seconds", of_row, anomaly.ts)
        yield from present(
            of_row,
            anomaly_value=anomaly.value,
            anomaly_usual=anomaly.usual,
            anomaly_usual_deviation=anomaly.usual_deviation,
        )


def shared_samples(stream: Stream, frame: Frame, budget: float | None, marks: Mapping[str, int]) -> Iterable[Sample]:
    """Yield the samples that several streams of one key share; the first stream shows them."""
    labels: dict[str, str] = {stream.keyed_by: stream.key}
    if budget is not None:
        yield sample("false_alarms_budget_per_day", {**labels, "operator": stream.operator}, budget)
    if stream.operator:  # 0 from the start, so that the first one is an increase
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
    """Return each label with its columns in a host's frame, and whether it shows their highest value, not the sum."""
    columns = {feature: column for column, feature in enumerate(features) if not feature.startswith("network_lo_")}
    own = [(name, [columns[name]], False) for name in HOST_FEATURES if name in columns]
    for kind, end in HOST_DEVICES:
        of_devices = [at for name, at in columns.items() if name.startswith(f"{kind}_") and name.endswith(f"_{end}")]
        own.append((f"{kind}_{end}", of_devices, end.endswith("_ratio")))
    return own


def _worst(scores: Scores, names: int, rows: int, features: int) -> tuple[Ranking, dict[str, RowScore]]:
    """Return a ranking, and the worst row of each name for at most `names` names, worst first."""
    limit = min(2 * names, rows)  # usually enough: ranking a row costs more than scoring it
    while True:
        ranking = scores.ranking(rows=limit, features=features)
        worst: dict[str, RowScore] = {}
        for row in ranking.rows:
            if len(worst) == names:
                break
            if row.basis == "threshold" and not row.score:
                return ranking, worst  # it is far from its limit, and so are the rows after it
            if not math.isnan(row.score):
                worst.setdefault(label(row.name), row)
        if len(worst) == names or limit == rows:
            return ranking, worst
        limit = min(4 * limit, rows)
