"""Anomalies of one stream, as metrics show them: what each opened with, and how bad it has been since.

An anomaly opens when the stream's trigger fires and closes when that is armed again. It is a part of the stream's
state, so that a worker that takes the stream over goes on with it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.pipeline.alarms.notices import Notices
from laggard.pipeline.alarms.notices import restored as restored_notices
from laggard.pipeline.explaining.causes import causes
from laggard.pipeline.explaining.verdict import judge, resources_of
from laggard.pipeline.records.outputs import Blame

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from laggard.operators.ranking import FeatureScore, Ranking, RowScore
    from laggard.pipeline.explaining.causes import Resource
    from laggard.pipeline.records import Frame

_KEY: Final = "incidents"
"""In a stream's state: so it was called before anomalies of several operators were joined to incidents."""

_LACKS: Final[Mapping[str, tuple[Resource, ...]]] = {
    "load": ("cpu",),
    "cpu": ("cpu",),
    "io": ("disk",),
    "disk": ("disk",),
    "paging": ("disk",),
    "memory": ("memory",),
    "swap": ("memory",),
    "network": ("network",),
}
"""By the first word of a feature of a host, behind `pressure`, what there is too little of."""


class OpenAnomaly(NamedTuple):
    """One that is open.

    Attributes:
        id: of the anomaly that it opened with; empty where that is not known.
        ts: when it opened, seconds since the Unix epoch.
        live: whether it is about the present, and not a replay of recorded data.
        row: the id of the row to blame; empty where none is known.
        name: its name.
        feature: what was most unusual about it; empty where no feature is known.
        value: that feature's value, in its base unit: of those since it opened, the one farthest from the usual, on
            the side on which it was then. NaN where it is not known.
        usual: the mean of what was usual when it opened; NaN where nothing was known.
        usual_deviation: the standard deviation of that.
        own: the id by which the operator keeps it open itself; empty if it is that of the stream's score.

    """

    id: str
    ts: float
    live: bool
    row: str = ""
    name: str = ""
    feature: str = ""
    value: float = math.nan
    usual: float = math.nan
    usual_deviation: float = math.nan
    own: str = ""

    def blaming(self, blame: Blame | None) -> OpenAnomaly:
        """The same with what it opens with: who is to blame."""
        if blame is None:
            return self
        return self._replace(
            row=blame.row,
            name=blame.name,
            feature=blame.feature,
            value=blame.value,
            usual=blame.usual,
            usual_deviation=blame.usual_deviation,
        )

    def after(self, frame: Frame) -> OpenAnomaly:
        """The same after one more frame, which may be worse."""
        rows, features = frame.layout.rows, frame.layout.features
        if self.row not in rows or self.feature not in features:
            return self
        value = float(frame.values[rows.index(self.row), features.index(self.feature)])
        now, worst = value - self.usual, self.value - self.usual
        return self._replace(value=value) if abs(now) > abs(worst) and now * worst >= 0.0 else self


class Anomalies(NamedTuple):
    """All of a stream.

    Attributes:
        opened: how many live ones have been opened.
        open: those that are open, in the order of their opening; at most one is that of the stream's score.
        notices: what is suspicious beside them.

    """

    opened: int = 0
    open: tuple[OpenAnomaly, ...] = ()
    notices: Notices = Notices()

    @property
    def live(self) -> tuple[OpenAnomaly, ...]:
        """Those that are open and live."""
        return tuple(each for each in self.open if each.live)

    @property
    def of_score(self) -> OpenAnomaly | None:
        """The one of the stream's score."""
        return next((each for each in self.open if not each.own), None)

    def opening(self, anomaly: OpenAnomaly) -> Anomalies:
        """After an anomaly was opened."""
        others = (each for each in self.open if each.own != anomaly.own)
        return self._replace(opened=self.opened + anomaly.live, open=(*others, anomaly))

    def going_on(self, anomaly: OpenAnomaly) -> Anomalies:
        """After one that is known by its id goes on as what the operator keeps open."""
        return self._replace(open=(*(each for each in self.open if each.id != anomaly.id), anomaly))

    def without(self, anomaly: str) -> Anomalies:
        """After an anomaly, given by its id, was excused."""
        return self._replace(open=tuple(each for each in self.open if each.id != anomaly))

    def given_up(self) -> Anomalies:
        """After its stream has fallen silent."""
        return Anomalies(self.opened, notices=self.notices.given_up())

    def after(self, frame: Frame, *, over: bool, kept: Collection[str] = ()) -> Anomalies:
        """After a frame that opened none.

        Args:
            frame: the frame.
            over: whether the anomaly of the stream's score is over.
            kept: the ids of those that the operator keeps open itself.

        """
        left = (each for each in self.open if (each.own in kept if each.own else not over))
        return self._replace(open=tuple(each.after(frame) for each in left))

    def snapshot(self) -> dict[str, Any]:
        """As plain data; nothing where there was none."""
        if not self.opened and not self.open:
            return self.notices.snapshot()
        plain = [
            {name: value for name, value in each._asdict().items() if name != "own" or value} for each in self.open
        ]
        # As an older laggard writes what it knows: at most one, of the stream's score.
        kept = len(plain) > 1 or any(each.own for each in self.open)
        told = {"opened": self.opened, "open": plain if kept else plain[0] if plain else None}
        return {_KEY: told, **self.notices.snapshot()}


def restored(state: dict[str, Any]) -> Anomalies:
    """What `snapshot` gave, out of a stream's state; of an older laggard's, an anomaly that is open without evidence.

    Raises:
        KeyError, TypeError, ValueError: it is something else.

    """
    notices = restored_notices(state)
    if (found := state.get(_KEY)) is None:
        unknown = () if state["armed"] else (OpenAnomaly("", float(state["ts"]), live=True),)
        return Anomalies(0, unknown, notices)
    # An older laggard wrote the only one, or nothing.
    each = found["open"] if isinstance(found["open"], list) else [found["open"]] if found["open"] else []
    return Anomalies(int(found["opened"]), tuple(OpenAnomaly(**one) for one in each), notices)


def blamed(ranking: Ranking, scope: str) -> Blame | None:
    """The row and the feature that a sentence on a ranking names first; None where there is no row.

    Args:
        ranking: worst row first, with enough rows and features to judge it.
        scope: what the rows are.

    """
    if not ranking.rows:
        return None
    row = ranking.rows[0]
    if scope == "host":
        if found := causes(row):
            return _blame(row, found[0].feature, (found[0].resource,))
    else:
        verdict = judge(ranking)
        row = verdict.culprits[0] if verdict.culprits else verdict.taker or row
    if not row.features:
        return Blame(row.row, row.name)
    feature = row.features[0]
    lacks = _LACKS.get(next((word for word in feature.feature.split("_") if word != "pressure"), ""), ())
    takes = tuple(sorted(resources_of(feature)))
    if feature.feature.startswith("memory_"):  # who waits for memory may wait for the disk; who holds it takes no more
        takes = ("memory",)
    return _blame(row, feature, takes or lacks)


def _blame(row: RowScore, feature: FeatureScore, resources: tuple[str, ...]) -> Blame:
    value, usual, deviation = feature.judged, feature.mean, feature.standard_deviation
    if row.basis == "threshold":  # that says nothing of what is usual
        usual = deviation = math.nan
    return Blame(row.row, row.name, feature.feature, value, usual, deviation, resources)
