"""Score how well models predict and diagnose a recorded scenario: S2's Tables 4, 5 and 7."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.regression import Regression
from laggard.operators.regression.traits import host_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from laggard.operators.regression import Model
    from tests.evaluation.models.queueing import Recording

MRT: Final = "response_time_mean_s"
THR: Final = "throughput_per_s"


class Names:
    """The metrics of a recording."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids


@dataclass(frozen=True, slots=True)
class Run:
    """The operator's results for a recording.

    Attributes:
        recording: the recording.
        predicted: by performance metric, the prediction for each interval, NaN without a model.
        selected: by performance metric, the metrics of the model that was there for each interval.
        built: by performance metric, the models, each with the number of the interval after which it was built.
        r2: by performance metric and interval, the predicted share of the newest samples' variance.
        scores: the score of each interval.
        building_s: the duration of each interval that built a model.
        testing_s: the duration of each other one.

    """

    recording: Recording
    predicted: dict[str, NDArray[np.float64]]
    selected: dict[str, list[tuple[str, ...]]]
    built: dict[str, list[tuple[int, Model]]]
    r2: dict[str, NDArray[np.float64]]
    scores: NDArray[np.float64]
    building_s: list[float] = field(default_factory=list)
    testing_s: list[float] = field(default_factory=list)


def run(recording: Recording, **parameters: Any) -> Run:
    """Let the operator see a recording, interval by interval."""
    operator = Regression(
        performance=(MRT, THR), trait=recording.traits.__getitem__, resolution=recording.resolution, **parameters
    )
    names = Names(recording.ids)
    intervals = len(recording.values)
    found = Run(
        recording,
        {name: np.full(intervals, np.nan) for name in operator.performance},
        {name: [] for name in operator.performance},
        {name: [] for name in operator.performance},
        {name: np.full(intervals, np.nan) for name in operator.performance},
        np.zeros(intervals),
    )
    for at, values in enumerate(recording.values):
        performance = {name: float(each[at]) for name, each in recording.performance.items()}
        for name in operator.performance:
            model = operator.models.get(name)
            found.selected[name].append(() if model is None else tuple(term.metric for term in model.terms))
        ts = 1.7e9 + at * recording.interval_s
        judged = operator.score(ts, names, values, performance)
        found.scores[at] = judged.score
        for each in judged.predictions:
            found.predicted[each.performance][at] = each.predicted
            found.r2[each.performance][at] = each.r2
        begin = time.perf_counter()
        built = operator.learn(ts, names, values, performance)
        (found.building_s if built else found.testing_s).append(time.perf_counter() - begin)
        for model in built:
            found.built[model.performance].append((at, model))
    return found


@dataclass(frozen=True, slots=True)
class Errors:
    """Table 4: |predicted - real| / real, and the sum of |predicted - real| over the sum of what was real."""

    mean: float
    deviation: float
    median: float
    ninetieth: float
    overall: float


def errors(found: Run, performance: str) -> Errors:
    """Return the errors of predictions."""
    real, predicted = found.recording.performance[performance], found.predicted[performance]
    there = np.isfinite(predicted) & np.isfinite(real) & (real > 0.0)
    off = np.abs(predicted - real)[there]
    relative = off / real[there]
    return Errors(
        float(relative.mean()),
        float(relative.std()),
        float(np.median(relative)),
        float(np.percentile(relative, 90)),
        float(off.sum() / real[there].sum()),
    )


@dataclass(frozen=True, slots=True)
class Found:
    """Table 5, of the intervals in which the bottleneck was there.

    Attributes:
        precision: two shares of all metrics in the models, counted in each interval: those of the bottleneck's resource
            on its host, and those of its host. 0 without any metrics.
        recall: the mean over the intervals of the share of such metrics among those of the interval.
        delay: intervals from the beginning until a model was built; NaN if none was.

    """

    precision: tuple[float, float]
    recall: tuple[float, float]
    delay: float


def found_bottleneck(found: Run) -> Found:
    """Score how well the models of the response time identify the bottleneck."""
    recording = found.recording
    contended = np.flatnonzero(recording.contended)
    right = {"resource": 0.0, "host": 0.0}
    shares = {"resource": 0.0, "host": 0.0}
    metrics = 0
    for at in contended:
        selected = found.selected[MRT][at]
        metrics += len(selected)
        for what in right:
            hits = sum(points_at(recording, metric, what) for metric in selected)
            right[what] += hits
            shares[what] += hits / len(selected) if selected else 0.0
    first = next((at for at, _ in found.built[MRT] if at >= contended[0]), None)
    return Found(
        (right["resource"] / max(metrics, 1), right["host"] / max(metrics, 1)),
        (shares["resource"] / len(contended), shares["host"] / len(contended)),
        np.nan if first is None else float(first - contended[0] + 1),
    )


def points_at(recording: Recording, metric: str, what: str) -> bool:
    """Whether a metric points at the bottleneck's host, or at its resource there."""
    host = recording.hosts.get(metric, host_of(metric))
    return host == recording.host and (what == "host" or recording.traits[metric].resource == recording.resource)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A line of Table 7: the mean of the R^2 above 0, and how many models and metrics there were, and right ones."""

    r2: float
    models: int
    right_models: int
    metrics: int
    right_metrics: int


def sensitivity(found: Run) -> Sensitivity:
    """Return the line of Table 7, over the intervals in which the bottleneck was there."""
    contended = found.recording.contended
    r2 = found.r2[MRT][contended]
    built = [model for at, model in found.built[MRT] if contended[at]]
    hits = [[points_at(found.recording, term.metric, "resource") for term in model.terms] for model in built]
    positive = r2[r2 > 0.0]
    return Sensitivity(
        float(positive.mean()) if len(positive) else np.nan,
        len(built),
        sum(any(each) for each in hits),
        sum(map(len, hits)),
        sum(map(sum, hits)),
    )
