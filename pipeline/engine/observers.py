"""Who looks on while tasks work: metrics, progress, `--scores`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from laggard.operators.contract import Scores
    from laggard.operators.covariance.results import Deviation
    from laggard.operators.regression.models import Model
    from laggard.operators.requests.results import Judged
    from laggard.pipeline.alarms.anomalies import Anomalies
    from laggard.pipeline.records import Frame, Mark, Request
    from laggard.pipeline.records.frame import KeyedBy
    from laggard.pipeline.records.models import PredictionOutput
    from laggard.pipeline.records.outputs import Incident


class Observer:
    """Wants to see what comes; called in the task's thread, and not for replayed records. Here nothing is done."""

    def scored(self, operator: str, frame: Frame, scores: Scores, anomalies: Anomalies) -> None:
        """The operator answered to a frame; `anomalies` are those of its stream after it."""

    def predicted(self, prediction: PredictionOutput) -> None:
        """A model of an application's performance said what an interval should have been."""

    def modelled(self, application: str, models: Mapping[str, Model], built: Sequence[Model]) -> None:
        """An interval was learned: these are the present models, by performance metric; `built` are new."""

    def compared(self, operator: str, pool: str, members: int, deviations: Sequence[Deviation]) -> None:
        """The members of a pool were compared: so many are there at this tick; the worst deviations stand first."""

    def requested(self, operator: str, request: Request, judged: Judged, cluster: str) -> None:
        """A request was judged; `cluster` is the name of those that are alike, empty where it is normal."""

    def received(self, frame: Frame) -> None:
        """A frame came that the operator does not want."""

    def marked(self, operator: str, mark: Mark) -> None:
        """A live mark came, for the first time."""

    def lost(self, operator: str, keys: Iterable[str]) -> None:
        """The worker has no state of these keys any more: another one has them, or it has to recover them."""

    def joined(self, keyed_by: KeyedBy, key: str, incidents: Sequence[Incident], opened: int) -> None:
        """The incidents of a key are others now, or it is this worker that joins them from now on.

        Args:
            keyed_by: what `key` names.
            key: the host, application, pool or service.
            incidents: those that are open, each as its last record says.
            opened: how many live ones are new; none where the worker only begins to join them.

        """

    def dismissed(self, keyed_by: KeyedBy, key: str) -> None:
        """A person said that a live incident of a key was none."""

    def parted(self, keys: Iterable[str]) -> None:
        """The worker joins the incidents of these keys no more: another one does, or it has to recover them."""
