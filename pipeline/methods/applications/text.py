"""The results of the models of an application, in words and as records: equations, scarce resources, culprits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laggard.operators.ranking import FeatureScore, Ranking, RowScore
from laggard.pipeline.core.records.models import CandidateOutput, Described, ModelOutput, PredictionOutput, TermOutput
from laggard.pipeline.core.records.outputs import Blame
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.phrases import LACKED
from laggard.pipeline.explaining.units import readable, readable_usual
from laggard.pipeline.methods.applications.metrics import metric_parts
from laggard.pipeline.methods.applications.resources import described, resource_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.regression.models import Model, Prediction, SampleScores, Suspect

_NAMED = {
    "response_time_mean_s": "mean response time",
    "response_time_standard_deviation_s": "spread of response times",
    "response_time_p50_s": "median response time",
    "throughput_per_s": "throughput",
    "errors_per_s": "rate of errors",
}
_UNEXPLAINED = (
    "No counter of its hosts explains it. Requests may wait for a lock, for another service, or for a connection."
)
_KINDS = {"neighbours": "its nearest neighbors", "tree": "a regression tree", "boosting": "boosted trees"}


@dataclass(frozen=True, slots=True)
class ScoredInterval:
    """The judgement of the operator on an interval, for observers and anomalies: rows by score, with their evidence.

    Attributes:
        ts: the end of the interval.
        application: the name of the application.
        judgement: the judgement.

    """

    ts: float
    application: str
    judgement: SampleScores

    @property
    def score(self) -> float:
        """The score; above 1 is anomalous."""
        return self.judgement.score

    def ranking(self, rows: int, features: int) -> Ranking:
        """Return the suspicious rows, worst first, and after them the application with its predictions."""
        by_row: dict[str, list[FeatureScore]] = {}
        for each in self.judgement.suspects:
            found = FeatureScore(
                metric_parts(each.metric).feature, each.value, each.mean, each.standard_deviation, each.score
            )
            by_row.setdefault(metric_parts(each.metric).row, []).append(found)
        age_s, young = self.judgement.age_s, self.judgement.young
        ranked = [
            RowScore(row, row, max(each.score for each in found), tuple(found[:features]), age_s)
            for row, found in by_row.items()
        ]
        predicted = tuple(
            FeatureScore(each.performance, each.value, each.predicted, math.nan, self.score)
            for each in self.judgement.predictions[:features]
        )
        ranked.append(RowScore(self.application, self.application, self.score, predicted, age_s))
        return Ranking(self.ts, self.score, tuple(ranked[:rows]), age_s, young)

    def blame(self) -> Blame | None:
        """Return the metric that most likely shows the scarce resource; None if none stands out."""
        if not self.judgement.suspects:
            return None
        first = self.judgement.suspects[0]
        parts, resource = metric_parts(first.metric), resource_of(first.metric)
        return Blame(
            parts.row,
            parts.host,  # the fault is that of the host, whichever of its rows shows it
            parts.feature,
            first.value,
            first.mean,
            first.standard_deviation,
            (resource,) if resource else (),
        )

    def sentence(self) -> str:
        """Return the sentence on an anomaly: how slow the application is, and the scarce resource of a host."""
        sentences = [how_slow(self.application, self.judgement)]
        if self.judgement.suspects:
            sentences += _short(self.judgement.suspects)
        else:
            sentences.append(_UNEXPLAINED)
        if self.judgement.young:
            sentences.append("Its models are young.")
        return " ".join(sentences)


def how_slow(application: str, judgement: SampleScores) -> str:
    """Return a sentence on the present performance of an application, against the usual or the predicted one."""
    measured = [each for each in judgement.predictions if math.isfinite(each.value)]
    if not measured:
        return f"The performance of {printable(application)} has changed."
    first = measured[0]
    value = readable(first.performance, first.value)
    text = f"The {named(first.performance)} of {printable(application)} is {value}"
    if first.value > judgement.usual > 0.0:
        usual = readable(first.performance, judgement.usual)
        text += f", {first.value / judgement.usual:.1f} times the usual {usual}"
    elif math.isfinite(first.predicted):
        text += f", by its model {readable(first.performance, first.predicted)}"
    return f"{text}."


def _short(suspects: Sequence[Suspect]) -> list[str]:
    """Return sentences on the scarce resource of the first suspect, and on the first suspect of another host."""
    first = suspects[0]
    parts, resource = metric_parts(first.metric), resource_of(first.metric)
    host = printable(parts.host)
    sentences = [
        f"Most likely {host} is short of {LACKED[resource]}:" if resource else f"The most likely culprit is {host}:"
    ]
    sentences.append(f"{_valued(first)}.")
    other = next((each for each in suspects[1:] if metric_parts(each.metric).host != parts.host), None)
    if other is not None:
        sentences.append(f"Next: {_valued(other)}.")
    return sentences


def _valued(suspect: Suspect) -> str:
    """Return a metric with its value and baseline: ``time that `nginx` on web-1 waited ...: 62 %, usually 2 ± 1 %``."""
    feature = metric_parts(suspect.metric).feature
    text = f"{described(suspect.metric)}: {readable(feature, suspect.value)}"
    if not math.isfinite(suspect.mean):
        return text
    return f"{text}, usually {readable_usual(feature, suspect.mean, suspect.standard_deviation)}"


def named(performance: str) -> str:
    """Return a performance metric in plain words."""
    if (known := _NAMED.get(performance)) is not None:
        return known
    quantile = performance.removeprefix("response_time_p").removesuffix("_s")
    return f"{quantile}th percentile of response times" if quantile.isdigit() else printable(performance)


def equation(model: Model) -> str:
    """Return a model as an equation for people: `response_time_mean_s = 0.0123 + 1.97 * web-1:cpu_wait_ratio`."""
    if not model.terms:
        return f"{model.performance} = {_number(model.intercept)}"
    if model.kind != "linear":
        metrics = ", ".join(printable(each.metric) for each in model.terms)
        return f"{model.performance} by {kind_named(model.kind)} in {metrics}"
    text = f"{model.performance} = {_number(model.intercept)}"
    for each in model.terms:
        sign = "-" if each.coefficient < 0.0 else "+"
        text += f" {sign} {_number(abs(each.coefficient))} * {printable(each.metric)}"
    return text


def kind_named(kind: str) -> str:
    """Return a kind of model in plain words."""
    return _KINDS.get(kind, printable(kind))


def _number(value: float) -> str:
    return f"{value:.3g}"


def model_output(model: Model, *, model_id: str, ts: float, application: str, live: bool) -> ModelOutput:
    """Return the record of a model that was built at the interval that ended at `ts`."""
    return ModelOutput(
        id=model_id,
        ts=ts,
        application=application,
        performance=model.performance,
        type=model.kind,
        equation=equation(model),
        intercept=model.intercept,
        terms=tuple(TermOutput(_described(each.metric), each.coefficient, tuple(each.family)) for each in model.terms),
        r2=model.r2,
        p_value=model.p_value,
        begin_ts=model.begin_ts,
        end_ts=model.end_ts,
        samples=model.samples,
        reason=model.reason,
        candidates=tuple(CandidateOutput(_described(each.metric), each.r, each.p_value) for each in model.candidates),
        live=live,
    )


def prediction_output(prediction: Prediction, *, ts: float, operator: str, application: str) -> PredictionOutput:
    """Return the record of a model's prediction for the interval that ended at `ts`."""
    return PredictionOutput(
        ts,
        operator,
        application,
        prediction.performance,
        prediction.value,
        prediction.predicted,
        prediction.p_value,
        prediction.r2,
    )


def _described(metric: str) -> Described:
    parts = metric_parts(metric)
    return Described(parts.host, parts.row, parts.feature, resource_of(metric), described(metric))
