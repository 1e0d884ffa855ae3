"""Performance models for Prometheus: measured and predicted values, and the resources of hosts in the models."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from laggard.operators.regression.models import Reason
from laggard.pipeline.methods.applications.metrics import metric_parts
from laggard.pipeline.methods.applications.resources import resource_of
from laggard.pipeline.metrics.declared import MAX_STREAMS, TOP_TERMS
from laggard.pipeline.metrics.samples import label, present, sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from prometheus_client.samples import Sample

    from laggard.operators.regression.models import Model
    from laggard.pipeline.core.records.models import PredictionOutput


@dataclass(slots=True)
class _Explained:
    """The models of an application.

    Attributes:
        predictions: the predictions for the newest interval, by performance metric.
        models: the present models, by performance metric.
        built: the number of models built, by performance metric and reason.

    """

    predictions: dict[str, PredictionOutput] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    built: Counter[tuple[str, str]] = field(default_factory=Counter)


class ShownModels:
    """The models of all applications. Its methods are for one thread at a time.

    The applications are bounded by `MAX_STREAMS`: the one with the oldest record is dropped first.
    """

    def __init__(self) -> None:
        self._explained: OrderedDict[str, _Explained] = OrderedDict()  # by their newest records, the oldest first

    def predicted(self, prediction: PredictionOutput) -> None:
        """Store the prediction of a model for an interval."""
        self._of(prediction.application).predictions[prediction.performance] = prediction

    def modelled(self, application: str, models: Mapping[str, Model], built: Sequence[Model]) -> None:
        """Store the present models, and count the new ones. See `Observer`."""
        one = self._of(application)
        one.models = models
        one.built.update((each.performance, each.reason) for each in built)

    def _of(self, application: str) -> _Explained:
        one = self._explained[application] = self._explained.pop(application, _Explained())
        if len(self._explained) > MAX_STREAMS:
            self._explained.popitem(last=False)
        return one

    def lost(self, applications: Iterable[str]) -> None:
        """Forget these applications."""
        for each in applications:
            self._explained.pop(each, None)

    def samples(self, applications: Set[str]) -> list[Sample]:
        """Return the samples of these applications; of those with the same labels the first counts."""
        shown = sorted(self._explained.keys() & applications)
        return [found for name in shown for found in _samples(label(name), self._explained[name])]


def _samples(application: str, one: _Explained) -> Iterable[Sample]:
    for performance, prediction in sorted(one.predictions.items()):
        yield from present(
            {"application": application, "performance": label(performance)},
            performance_value=prediction.value,
            performance_predicted=prediction.predicted,
            performance_model_p_value=prediction.p_value,
            performance_model_r2=prediction.r2,
        )
    for performance, model in sorted(one.models.items()):
        labels = {"application": application, "performance": label(performance)}
        yield sample("performance_model_built_timestamp_seconds", labels, model.end_ts)
        for reason in get_args(Reason):  # 0 from the start, so that the first one is an increase
            yield sample("performance_models_built", {**labels, "reason": reason}, one.built[performance, reason])
        for position, term in enumerate(model.terms[:TOP_TERMS], 1):
            parts = metric_parts(term.metric)
            of = {"host": label(parts.host), "row": label(parts.row), "feature": label(parts.feature)}
            which = {**labels, "position": str(position), **of, "resource": resource_of(term.metric)}
            yield sample("performance_model_term", which, 1)
