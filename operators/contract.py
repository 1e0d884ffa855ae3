"""The interface of all operators on frames, so that one runner and one suite of checks serve them all."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from laggard.operators.ranking import Ranking

    Matrix = NDArray[np.float64]


class Layout(Protocol):
    """The names of a frame's rows and features.

    Layouts are immutable, and a stream passes the same object while its names do not change. So an operator may cache
    places by the identity of a layout.
    """

    @property
    def rows(self) -> Sequence[str]:
        """Ids of the rows, unique in the frame, the same from tick to tick (`nginx[4711@99]`)."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the rows, one per row, not unique (`nginx`)."""

    @property
    def features(self) -> Sequence[str]:
        """Names of the features, unique in the frame, each with its base unit (`memory_rss_bytes`)."""

    @property
    def commands(self) -> Sequence[str]:
        """Command lines of the rows, one per row, or none at all."""


def check_shape(layout: Layout, values: NDArray[np.floating]) -> None:
    """Raise `ValueError` unless there is a row of values for each row, and a column for each feature."""
    expected = (len(layout.rows), len(layout.features))
    if values.shape != expected:
        raise ValueError(f"expected values of shape {expected}, rows and features of the frame, got {values.shape}")


class FrameOperator(Protocol):
    """A stateful, deterministic statistic over the frames of one key and scope.

    With the same constructor arguments, state and input its outputs are the same, bit for bit. `ts` is in seconds since
    the Unix epoch; `values` has the shape (rows, features), with NaN for a value that is missing at this tick.
    """

    state_version: ClassVar[int]
    """The version of the form of a `snapshot`. It grows if `restore` could not read the old form."""

    def score(self, ts: float, layout: Layout, values: Matrix) -> object:
        """Score a frame by those learned before. The state does not change."""

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a frame."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data: arrays, numbers, strings, lists and dictionaries of those."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""


class Scores(Protocol):
    """An operator's answer to a frame. It does not change when the operator learns."""

    @property
    def score(self) -> float:
        """The score of the frame: above 1 is anomalous."""

    def ranking(self, rows: int, features: int) -> Ranking:
        """Return the worst rows, each with its worst features."""


@runtime_checkable
class Adopts(Protocol):
    """An operator that can treat one of its open anomalies as normal."""

    def adopt(self, anomaly: str) -> None:
        """Treat an anomaly, given by its id, as normal from now on; nothing happens if it is unknown."""


class Open(NamedTuple):
    """An anomaly that an operator keeps open itself, from its onset to its end.

    Attributes:
        onset_ts: the estimated time of its onset, seconds since the Unix epoch.
        score: its severity, above 1 while it lasts; it ends after it has been calm for a while.
        rows: the number of rows that it is about: those of a name together, or one.
        accepted: whether it became the new baseline at this tick, which is the last one at which it is open.

    """

    onset_ts: float
    score: float
    rows: int = 1
    accepted: bool = False


class LastingScores(ABC):
    """Scores of an operator that keeps anomalies of single rows open itself.

    Attributes:
        sudden: the score of all rows without an open anomaly: above 1 is anomalous.
        suspicion: how suspicious these rows are: above 1 is a notice, which may come more often than an anomaly. 0 if
            the operator has no such budget.

    """

    __slots__ = ("sudden", "suspicion")

    sudden: float
    suspicion: float

    @property
    @abstractmethod
    def open(self) -> Mapping[str, Open]:
        """The open anomalies, each with an id of its own, in the order of their detection."""

    @abstractmethod
    def about(self, anomaly: str, rows: int, features: int) -> Ranking:
        """Return the ranking of one anomaly: its row first, then others that it affects.

        If `anomaly` is empty, return that of all rows without an open anomaly, whose score is `sudden`.
        """

    def suspects(self, rows: int, features: int) -> tuple[Ranking, float]:
        """Return the ranking of the rows without an open anomaly, the one that `suspicion` is about first.

        Also return the estimated time of its onset, seconds since the Unix epoch; NaN if it deviates suddenly.
        """
        return self.about("", rows, features), math.nan
