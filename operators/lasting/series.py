"""Lasting anomalies of rows of any kind: each feature on its own, in both directions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from laggard.operators.contract import check_shape
from laggard.operators.features import BOTH, by_end
from laggard.operators.lasting.detector import Lasting
from laggard.operators.lasting.evaluation import Evaluation
from laggard.operators.lasting.limits import UNITS
from laggard.operators.lasting.state import SCALES
from laggard.operators.ranking import Ranking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout, Open
    from laggard.operators.features import Directions
    from laggard.operators.lasting.scores import Scores
    from laggard.operators.lasting.state import State
    from laggard.operators.ranking import FeatureScore, RowScore

    Matrix = NDArray[np.floating]
    Flags = NDArray[np.bool_]

FALLS: Final = "\0"
"""The prefix of a level that is the negative of a feature, which no name begins with."""

RELATIVE, LEAST = 0.001, 1e-9
"""r of a feature is at least this share of its mean, and this."""

MOST_FEATURES, MOST_GROUPS = 256, 8
"""The most features that are judged, and the most frames with new ones: the first that came."""

SPARE_ROWS: Final = 256
"""The most absent rows that are remembered."""


class _Names(NamedTuple):
    """The layout of a group: its rows, and its features in both directions."""

    rows: tuple[str, ...]
    features: tuple[str, ...]
    commands: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.rows


class _Evaluation(Evaluation):
    """Evaluates features of rows in both directions. An absent row is unknown, rather than one that uses nothing."""

    absent_is_nothing: ClassVar[bool] = False

    def resolution(self, mean: Matrix) -> Matrix:
        found: Matrix = np.maximum(self.quantities.resolution, np.float32(RELATIVE) * np.abs(mean))
        return found

    def pace(self, state: State) -> float:
        return float(max(state.interval_s / SCALES[0].part_s, 1.0))

    def sharing(self, state: State) -> float:
        """Return b times the budget. With longer ticks there are fewer sub-blocks, and fewer are high by chance."""
        features = len(self.quantities.levels) // 2
        return float(max(state.units.present * features / UNITS, 1.0) / self.pace(state) ** 0.5)


class _Group(Lasting):
    """Features that came together."""

    evaluation: ClassVar[type[Evaluation]] = _Evaluation

    def __init__(self, features: Sequence[str], resolution: Mapping[str, float], accepted_after_s: float) -> None:
        each = {name: by_end(name, resolution, LEAST) for name in features}
        falls = {FALLS + name: least for name, least in each.items()}
        super().__init__(rates=each | falls, stocks={}, accepted_after_s=accepted_after_s)
        self.features = tuple(features)


class _Aligned(NamedTuple):
    """The groups and rows of a frame.

    Attributes:
        groups: all groups.
        rows: the name of each row, and when it was last there; seconds since the Unix epoch.
        names: the layout of each group.
        places: the place of each row of the frame.
        columns: for each group, the place of each of its features in the frame; -1 for none.
        harmless: for each group, the places of the quantities that are not judged: what would be better.

    """

    groups: tuple[_Group, ...]
    rows: Mapping[str, tuple[str, float]]
    names: tuple[_Names, ...]
    places: NDArray[np.intp]
    columns: tuple[NDArray[np.intp], ...]
    harmless: tuple[list[int], ...]


class Series:
    """Detector of lasting anomalies in rows of any kind, by `Lasting`.

    Each feature of each row is a unit, and so is its negative, unless it is known which direction is worse. Values that
    are missing, and rows that are absent, are unknown. Scales of `Lasting` whose sub-blocks are shorter than a tick
    have one tick for each.

    Memory: that of `Lasting` for two quantities per feature, of the rows of the frame and at most `SPARE_ROWS` others.

    Parameters:
        resolution: a negligible difference, by the end of a feature's name; at least `RELATIVE` of its mean.
        accepted_after_s: an anomaly of this length becomes the new baseline.
        directions: in which direction features get worse.

    Attributes:
        false_alarms_per_day: the budget; it may change at any time.

    Example:
        >>> from types import SimpleNamespace
        >>> layout = SimpleNamespace(rows=("shop",), names=("shop",), features=("available_ratio",), commands=())
        >>> noise, series = np.random.default_rng(1), Series()
        >>> for minute in range(600):
        ...     available = noise.normal(0.99, 0.003, (1, 1)) - 0.3 * (minute >= 590)
        ...     series.learn(60.0 * minute, layout, available)
        >>> worst = series.score(36_000.0, layout, available).ranking(1, 1).rows[0]
        >>> worst.row, worst.features[0].feature, round(worst.features[0].mean, 2)
        ('shop', 'available_ratio', 0.99)

    """

    state_version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        resolution: Mapping[str, float] | None = None,
        accepted_after_s: float = 4 * 3600.0,
        directions: Directions = BOTH,
    ) -> None:
        self.false_alarms_per_day = 1.0
        self._directions = directions
        self._resolution = dict(resolution or {})
        self._accepted_after_s = accepted_after_s
        self._groups: tuple[_Group, ...] = ()
        self._rows: Mapping[str, tuple[str, float]] = {}
        # Derived from the state and the last frame; never part of a snapshot.
        self._aligned: tuple[Layout, _Aligned] | None = None
        self._scored: tuple[float, Layout, Matrix, SeriesScores, Sequence[Matrix]] | None = None

    def judges(self, layout: Layout) -> bool:
        """Return whether it judges any feature of a frame."""
        return len(layout.features) > 0

    def score(self, ts: float, layout: Layout, values: Matrix) -> SeriesScores:
        """Score a frame. `values` has the shape (rows, features). The state does not change."""
        check_shape(layout, values)
        if (scored := self._scored) is not None and scored[0] == ts and scored[1] is layout and scored[2] is values:
            return scored[3]
        aligned = self._align(layout)
        parts = [_values(aligned, number, values) for number in range(len(aligned.groups))]
        found = []
        for group, names, part in zip(aligned.groups, aligned.names, parts, strict=True):
            group.false_alarms_per_day = self.false_alarms_per_day / len(aligned.groups)
            found.append(group.score(ts, names, part))
        scores = SeriesScores(ts, layout, {row: name for row, (name, _) in aligned.rows.items()}, tuple(found))
        self._scored = ts, layout, values, scores, parts
        return scores

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a frame. Raises `ValueError` if the shape of `values` does not fit the names."""
        self.score(ts, layout, values)
        assert self._scored is not None
        aligned, parts = self._align(layout), self._scored[4]
        for group, names, part in zip(aligned.groups, aligned.names, parts, strict=True):
            group.learn(ts, names, part)
        here = {row: (name, ts) for row, name in zip(layout.rows, layout.names, strict=True)}
        self._groups, self._rows = aligned.groups, {**aligned.rows, **here}
        self._scored = None

    def adopt(self, anomaly: str) -> None:
        """Treat an anomaly as normal, see `Lasting.adopt`."""
        number, _, own = anomaly.partition(" ")
        if number.isdecimal() and int(number) < len(self._groups):
            self._groups[int(number)].adopt(own)
            self._scored = None

    def _align(self, layout: Layout) -> _Aligned:
        if self._aligned is not None and self._aligned[0] is layout:
            return self._aligned[1]
        known = {feature for group in self._groups for feature in group.features}
        new = [feature for feature in layout.features if feature not in known][: MOST_FEATURES - len(known)]
        groups = self._groups
        if new and len(groups) < MOST_GROUPS:
            groups += (_Group(new, self._resolution, self._accepted_after_s),)
        here = dict(zip(layout.rows, layout.names, strict=True))
        absent = [row for row in self._rows if row not in here]
        retained = {*here, *sorted(absent, key=lambda row: -self._rows[row][1])[:SPARE_ROWS]}
        rows = {row: each for row, each in self._rows.items() if row in retained}
        rows |= {row: (name, rows[row][1] if row in rows else -np.inf) for row, name in here.items()}
        at = {row: place for place, row in enumerate(rows)}
        there = {feature: column for column, feature in enumerate(layout.features)}
        names = tuple(
            _Names(tuple(rows), (*group.features, *(FALLS + feature for feature in group.features))) for group in groups
        )
        columns = tuple(np.array([there.get(each, -1) for each in group.features], np.intp) for group in groups)
        places = np.array([at[row] for row in layout.rows], np.intp)
        aligned = _Aligned(groups, rows, names, places, columns, tuple(map(self._harmless, groups)))
        self._aligned = layout, aligned
        return aligned

    def _harmless(self, group: _Group) -> list[int]:
        """Return the places of a group's quantities that are not judged, of its features and then their negatives."""
        rising, falling = self._directions.one_sided(group.features)
        return [*falling, *(len(group.features) + place for place in rising)]

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "groups": [{"features": list(each.features), **each.snapshot()} for each in self._groups],
            "rows": [[row, name, ts] for row, (name, ts) in self._rows.items()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        groups = []
        for each in state["groups"]:
            group = _Group(list(each["features"]), self._resolution, self._accepted_after_s)
            group.restore(each)
            groups.append(group)
        self._groups = tuple(groups)
        self._rows = {str(row): (str(name), float(ts)) for row, name, ts in state["rows"]}
        self._aligned = self._scored = None


def _values(aligned: _Aligned, number: int, values: Matrix) -> Matrix:
    """Return the values of one group in both directions, shape (rows, 2 * features)."""
    columns = aligned.columns[number]
    found = np.full((len(aligned.rows), 2 * len(columns)), np.nan)
    there = np.flatnonzero(columns >= 0)
    mine = values[:, columns[there]]
    found[np.ix_(aligned.places, there)] = mine
    found[np.ix_(aligned.places, there + len(columns))] = -mine
    found[:, aligned.harmless[number]] = np.nan
    return found


@dataclass(frozen=True, slots=True, eq=False)
class SeriesScores:
    """The scores of one frame.

    Attributes:
        ts: the time of the frame, seconds since the Unix epoch.
        layout: its rows and features.
        names: the name of each row, also of those that are absent.
        groups: the scores of each group of features.

    """

    ts: float
    layout: Layout
    names: Mapping[str, str]
    groups: tuple[Scores, ...]

    @property
    def score(self) -> float:
        """The score of the frame, above 1 while an anomaly lasts."""
        return max((each.score for each in self.groups), default=0.0)

    @property
    def suspicion(self) -> float:
        """The share of the level of notices that the worst unit without an anomaly reaches."""
        return max((each.suspicion for each in self.groups), default=0.0)

    def suspect(self, features: int | None = None) -> tuple[RowScore, float] | None:
        """Return the row of this unit and the estimated time of its onset; None if nothing is suspicious."""
        worst = max(self.groups, key=lambda each: each.suspicion, default=None)
        found = None if worst is None else worst.suspect()
        return None if found is None else (self._undirected(found[0], features), found[1])

    @property
    def open(self) -> Mapping[str, Open]:
        """The open anomalies by their ids, in the order of their detection."""
        return {f"{number} {own}": each for number, group in enumerate(self.groups) for own, each in group.open.items()}

    @property
    def frozen(self) -> Flags | None:
        """The rows of the frame that have an open anomaly, shape (rows,); None if there are none."""
        return self._rows_of([each.row for group in self.groups for each in group.state.anomalies])

    @property
    def accepted(self) -> Flags | None:
        """The rows of the frame whose anomaly became the new baseline at this tick; likewise."""
        return self._rows_of([each.row for group in self.groups for each in group.state.accepted])

    def ranking(self, rows: int | None = None, features: int | None = None) -> Ranking:
        """Rank the anomalies that last, worst first, each with the features of its row, most unusual first."""
        found = [each.ranking() for each in self.groups]
        worst = sorted((row for each in found for row in each.rows), key=lambda row: -row.score)
        age_s = max((each.age_s for each in found), default=0.0)
        ranked = tuple(self._undirected(row, features) for row in worst[:rows])
        return Ranking(self.ts, self.score, ranked, age_s, all(each.young for each in found))

    def row(self, anomaly: str, features: int | None = None) -> RowScore:
        """Return the row of an anomaly, with its worst features. Raises `KeyError` if no anomaly has this id."""
        number, _, own = anomaly.partition(" ")
        if not (number.isdecimal() and int(number) < len(self.groups)):
            raise KeyError(anomaly)
        return self._undirected(self.groups[int(number)].row(own), features)

    def leading(self) -> Mapping[str, RowScore]:
        """Return the worst anomaly of each row of the frame, by the id of the row."""
        here = frozenset(self.layout.rows)
        found: dict[str, RowScore] = {}
        for group in self.groups:
            for row, each in group.leading().items():
                if row in here and (row not in found or each.score > found[row].score):
                    found[row] = self._undirected(each, None)
        return found

    def _rows_of(self, rows: Sequence[str]) -> Flags | None:
        return np.isin(np.array(self.layout.rows), np.array(rows)) if rows else None

    def _undirected(self, row: RowScore, most: int | None) -> RowScore:
        """Return a row with its features as they are, each once: in the direction in which it is most unusual."""
        found: dict[str, FeatureScore] = {}
        for each in row.features:
            if each.feature.startswith(FALLS):
                name = each.feature.removeprefix(FALLS)
                found.setdefault(name, replace(each, feature=name, value=-each.value, mean=-each.mean))
            else:
                found.setdefault(each.feature, each)
        return replace(row, name=self.names.get(row.row, row.row), features=tuple(found.values())[:most])
