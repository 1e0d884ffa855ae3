"""The open anomalies of one stream, for metrics: the values at the onset, and the worst ones since.

An anomaly opens when the trigger of the stream fires, and closes when it is armed again. It is part of the stream's
state, so that another worker continues it after a rebalance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from laggard.pipeline.alarms.notices import Notices
from laggard.pipeline.alarms.notices import restored as restored_notices
from laggard.pipeline.core.records.outputs import Blame
from laggard.pipeline.explaining.causes import causes
from laggard.pipeline.explaining.verdict import resources_of, verdict_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from laggard.operators.ranking import FeatureScore, Ranking, RowScore
    from laggard.pipeline.core.records import Frame
    from laggard.pipeline.explaining.causes import Resource

_KEY: Final = "incidents"
"""Its name in the state of a stream, from before anomalies of several operators were joined to incidents."""

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
"""The scarce resource by the first word after `pressure` in a feature of a host."""


class OpenAnomaly(NamedTuple):
    """An open anomaly.

    Attributes:
        id: its id; empty if unknown.
        ts: the time at which it opened, seconds since the Unix epoch.
        live: whether it is about the present, not from a replay.
        row: the id of the culprit; empty if unknown.
        name: the name of the culprit.
        feature: its worst feature; empty if unknown.
        value: the worst value of this feature since the anomaly opened, on the same side of the baseline, in its base
            unit. NaN if unknown.
        usual: the mean of the baseline when the anomaly opened; NaN without one.
        usual_deviation: the standard deviation of the baseline.
        own: the operator's own id of it; empty for the anomaly of the stream's score.

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
        """Return the anomaly with its culprit at the onset."""
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
        """Return the anomaly after a further frame, which may be worse."""
        rows, features = frame.layout.rows, frame.layout.features
        if self.row not in rows or self.feature not in features:
            return self
        value = float(frame.values[rows.index(self.row), features.index(self.feature)])
        now, worst = value - self.usual, self.value - self.usual
        return self._replace(value=value) if abs(now) > abs(worst) and now * worst >= 0.0 else self


class Anomalies(NamedTuple):
    """All anomalies of a stream.

    Attributes:
        opened: the number of live ones so far.
        open: the open ones in the order of their opening; at most one is that of the stream's score.
        notices: the notices of the stream.

    """

    opened: int = 0
    open: tuple[OpenAnomaly, ...] = ()
    notices: Notices = Notices()

    @property
    def live(self) -> tuple[OpenAnomaly, ...]:
        """The open ones that are live."""
        return tuple(each for each in self.open if each.live)

    @property
    def of_score(self) -> OpenAnomaly | None:
        """The anomaly of the stream's score."""
        return next((each for each in self.open if not each.own), None)

    def opening(self, anomaly: OpenAnomaly) -> Anomalies:
        """Return them after an anomaly has opened."""
        others = (each for each in self.open if each.own != anomaly.own)
        return self._replace(opened=self.opened + anomaly.live, open=(*others, anomaly))

    def going_on(self, anomaly: OpenAnomaly) -> Anomalies:
        """Return them after an anomaly, given by its id, continues as one that the operator keeps open."""
        return self._replace(open=(*(each for each in self.open if each.id != anomaly.id), anomaly))

    def without(self, anomaly: str) -> Anomalies:
        """Return them after an anomaly, given by its id, was excused."""
        return self._replace(open=tuple(each for each in self.open if each.id != anomaly))

    def given_up(self) -> Anomalies:
        """Return them after the stream has fallen silent."""
        return Anomalies(self.opened, notices=self.notices.given_up())

    def after(self, frame: Frame, *, over: bool, kept: Collection[str] = ()) -> Anomalies:
        """Return them after a frame that opened none.

        Args:
            frame: the frame.
            over: whether the anomaly of the stream's score has ended.
            kept: the ids of those that the operator keeps open itself.

        """
        left = (each for each in self.open if (each.own in kept if each.own else not over))
        return self._replace(open=tuple(each.after(frame) for each in left))

    def snapshot(self) -> dict[str, Any]:
        """Return them as plain data; nothing if there was none."""
        if not self.opened and not self.open:
            return self.notices.snapshot()
        plain = [
            {name: value for name, value in each._asdict().items() if name != "own" or value} for each in self.open
        ]
        # In the form of older versions: at most one, of the stream's score.
        as_list = len(plain) > 1 or any(each.own for each in self.open)
        state = {"opened": self.opened, "open": plain if as_list else plain[0] if plain else None}
        return {_KEY: state, **self.notices.snapshot()}


def restored(state: dict[str, Any]) -> Anomalies:
    """Read a `snapshot` in the state of a stream. An open anomaly of older versions has no evidence.

    Raises:
        KeyError, TypeError, ValueError: the state does not fit.

    """
    notices = restored_notices(state)
    if (found := state.get(_KEY)) is None:
        unknown = () if state["armed"] else (OpenAnomaly("", float(state["ts"]), live=True),)
        return Anomalies(0, unknown, notices)
    # Older versions wrote the only one, or nothing.
    each = found["open"] if isinstance(found["open"], list) else [found["open"]] if found["open"] else []
    return Anomalies(int(found["opened"]), tuple(OpenAnomaly(**one) for one in each), notices)


def blamed(ranking: Ranking, scope: str) -> Blame | None:
    """Return the row and the feature that the sentence on a ranking names first; None without a row.

    Args:
        ranking: the ranking with enough rows and features.
        scope: the scope of the rows.

    """
    if not ranking.rows:
        return None
    row = ranking.rows[0]
    if scope == "host":
        if found := causes(row):
            return _blame(row, found[0].feature, (found[0].resource,))
    else:
        verdict = verdict_of(ranking)
        row = verdict.culprits[0] if verdict.culprits else verdict.taker or row
    if not row.features:
        return Blame(row.row, row.name)
    feature = row.features[0]
    lacks = _LACKS.get(next((word for word in feature.feature.split("_") if word != "pressure"), ""), ())
    takes = tuple(sorted(resources_of(feature)))
    if feature.feature.startswith("memory_"):  # waiting for memory may involve the disk; holding it uses memory only
        takes = ("memory",)
    return _blame(row, feature, takes or lacks)


def _blame(row: RowScore, feature: FeatureScore, resources: tuple[str, ...]) -> Blame:
    value, usual, deviation = feature.scored, feature.mean, feature.standard_deviation
    if row.basis == "threshold":  # a threshold is no baseline
        usual = deviation = math.nan
    return Blame(row.row, row.name, feature.feature, value, usual, deviation, resources)
