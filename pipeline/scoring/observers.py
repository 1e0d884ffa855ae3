"""Observers of the work of tasks: metrics, progress, `--scores`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from laggard.operators.contract import Scores
    from laggard.operators.covariance.results import Deviation
    from laggard.operators.regression.models import Model
    from laggard.operators.requests.results import RequestScore
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.core.bus import Partition
    from laggard.pipeline.core.engine.stage import Stage
    from laggard.pipeline.core.engine.states import States
    from laggard.pipeline.core.records import Frame, Mark, Request
    from laggard.pipeline.core.records.frame import KeyedBy
    from laggard.pipeline.core.records.models import PredictionOutput
    from laggard.pipeline.core.records.outputs import Incident


class Observed:
    """A task whose results are observed: it types the observers, which the engine does not know."""

    if TYPE_CHECKING:
        stage: Stage
        partition: Partition
        states: States[Any]

        def _observe(self, key: str, notify: Callable[[Observer], None]) -> None: ...

    def lost(self) -> None:
        """Notify the observers that these states are dropped."""
        keys = self.states.keys()
        self._observe(self.partition.topic, lambda observer: observer.lost(self.stage.name, keys))


class Observer:
    """An observer of tasks, called in the task's thread, and not for replayed records. This one does nothing."""

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:
        """Observe the scores of a frame; `anomalies` are those of its stream after it."""

    def predicted(self, prediction: PredictionOutput) -> None:
        """Observe the prediction of a model of an application's performance for an interval."""

    def modelled(self, application: str, models: Mapping[str, Model], built: Sequence[Model]) -> None:
        """Observe the learning of an interval: the present models by performance metric; `built` are new."""

    def compared(self, operator: str, pool: str, members: int, deviations: Sequence[Deviation]) -> None:
        """Observe a comparison of a pool: its number of members at this tick, and their deviations, worst first."""

    def requested(self, operator: str, request: Request, judged: RequestScore, cluster: str) -> None:
        """Observe a judged request; `cluster` is the name of the cluster of similar ones, empty for a normal one."""

    def received(self, frame: Frame) -> None:
        """Observe a frame that the operator does not use."""

    def marked(self, operator: str, mark: Mark) -> None:
        """Observe a live mark at its first arrival."""

    def lost(self, operator: str, keys: Iterable[str]) -> None:
        """Observe the loss of the states of these keys: another worker has them, or this one must recover them."""

    def joined(self, keyed_by: KeyedBy, key: str, incidents: Sequence[Incident], opened: int) -> None:
        """Observe a change of the incidents of a key, or that this worker joins them from now on.

        Args:
            keyed_by: the kind of `key`.
            key: the host, application, pool or service.
            incidents: the open ones, each as in its last record.
            opened: the number of new live ones; 0 if the worker only begins to join them.

        """

    def dismissed(self, keyed_by: KeyedBy, key: str) -> None:
        """Observe feedback that a live incident of a key was none."""

    def parted(self, keys: Iterable[str]) -> None:
        """Observe that another worker joins the incidents of these keys now, or that this one must recover them."""
