"""The rates of outliers among requests: whether those of a cluster are more frequent than by chance.

Each cluster has an anomaly of its own, from its onset to its end: one cause of slow requests may end while others last.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Final

from scipy.special import betainc

from laggard.operators.calibration import Calibration
from laggard.operators.contract import LastingScores, Open
from laggard.operators.ranking import FeatureScore, Ranking, RowScore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.contract import Layout, Matrix

ALL: Final = "all"
"""The row of all requests of a tick; each other row is a cluster."""

FEATURES: Final = ("requests", "outliers", "lost_s")
"""The number of requests that ended, the number of outliers, and their total excess over the normal duration."""

OUTLYING: Final = "outlying_ratio"
LOST: Final = "lost_s_per_request"
"""The features of rows in rankings: of all requests, and per request, in the window with the highest score."""

WINDOWS: Final = (1, 6, 30)
"""Windows in ticks: a long one hides short faults, a short one rare outliers."""

FEWEST: Final = 3
"""The least number of outliers of an anomaly: one or two are none, however slow."""

NEWEST: Final = (1, 2, 3, 4, 6, 8, 12)
OVER: Final = 0.01
"""A window is dropped if the few outliers in its newest ticks have at most this probability at the rate before."""

CALM: Final = 3
CALM_S: Final = 30.0
"""The anomaly of a cluster ends after this number of normal ticks, or with the first one after this time in seconds."""

LASTING_SHARE: Final = 0.5
LASTING_SCORE: Final = 1.01
"""An anomaly lasts, with at least this score, while the raw score is at least this share of the limit."""

FROZEN_S: Final = 4 * 3600.0
"""For this time the baseline stays that from before the anomaly, in seconds; a longer one becomes the baseline."""

MOST_ROWS: Final = 256
MEMORY_S: Final = 86400.0

_PRIOR: Final = (0.5, 200.0)  # the prior: half an outlier in this number of requests
_STEADIEST: Final = 8.0  # the rate is never more certain than with this number of outliers
_YOUNG_REQUESTS: Final = 1_000.0
_YOUNG_S: Final = 600.0
_LEVEL: Final = (12.0, 2.0)  # the prior of raw scores: the level passed once an hour, and the spread of the tail


class _Row:
    """One cluster: its baseline, its outliers in the last ticks, and the onset of its anomaly, NaN for none."""

    __slots__ = ("calm", "lost_s", "name", "out_since_ts", "outliers", "recent", "since_ts")

    def __init__(self, name: str, ts: float) -> None:
        self.name = name
        self.outliers = 0.0
        self.lost_s = 0.0
        self.since_ts = ts
        self.out_since_ts = math.nan
        self.calm = 0
        self.recent: deque[tuple[float, float]] = deque(maxlen=WINDOWS[-1])


class TickScores(LastingScores):
    """The scores of a tick.

    Attributes:
        ts: the time of the tick, seconds since the Unix epoch.
        rows: all clusters of the tick, the worst first.
        onsets: the times of the first ticks of open anomalies by row, seconds since the Unix epoch.
        raw: the raw score.
        age_s: the age of the model in seconds.
        young: whether that is too short for reliable scores.
        score: the score of the worst cluster; above 1 is more than the budget allows.

    """

    __slots__ = ("age_s", "onsets", "raw", "rows", "score", "ts", "young")

    def __init__(
        self, ts: float, rows: Sequence[RowScore], onsets: Mapping[str, float], raw: float, age_s: float, *, young: bool
    ) -> None:
        self.ts, self.raw, self.age_s, self.young = ts, raw, age_s, young
        self.rows, self.onsets = tuple(rows), onsets
        self.score = rows[0].score if rows else 0.0
        self.sudden = max((each.score for each in rows if each.row not in onsets), default=0.0)
        self.suspicion = 0.0

    @property
    def open(self) -> Mapping[str, Open]:
        """The open anomalies by row; see `LastingScores`."""
        scores = {each.row: each.score for each in self.rows}
        return {row: Open(onset_ts, scores[row]) for row, onset_ts in self.onsets.items()}

    def about(self, anomaly: str, rows: int, features: int) -> Ranking:
        """Return the ranking of one cluster, or of those without an open anomaly; see `LastingScores`."""
        return self._ranked(
            [each for each in self.rows if (each.row == anomaly if anomaly else each.row not in self.onsets)],
            rows,
            features,
        )

    def ranking(self, rows: int, features: int) -> Ranking:
        """Rank all clusters, the worst first."""
        return self._ranked(self.rows, rows, features)

    def _ranked(self, found: Sequence[RowScore], rows: int, features: int) -> Ranking:
        ranked = tuple(
            RowScore(each.row, each.name, each.score, each.features[:features], each.age_s) for each in found[:rows]
        )
        return Ranking(self.ts, found[0].score if found else 0.0, ranked, self.age_s, self.young)


class Rates:
    """Compares the number of outliers of a cluster with its baseline.

    The outliers of a cluster are modeled as a Poisson process whose rate per request has a Gamma distribution. After n
    requests with k such outliers its posterior is Gamma(k + 1/2, n + 200). Then the number of outliers among N further
    requests is negative binomial, and the raw score is

        -ln P(K >= k') = -ln I_x(k', k + 1/2),  x = N / (N + n + 200)

    with I the regularized incomplete beta function; the largest one of windows of 1, 6 and 30 ticks. Since rates vary,
    k counts as at most 8. Raw scores are calibrated by the false-alarm budget (`Calibration`).

    Frames have a row `all`, which counts all requests, and one for each cluster with outliers at this tick, with the
    features `FEATURES`.

    Parameters:
        false_alarms_per_day: the budget of one service.

    Memory: O(1) for each of at most 256 clusters.

    """

    state_version: ClassVar[int] = 1

    def __init__(self, *, false_alarms_per_day: float = 1.0) -> None:
        self._calibration = Calibration(per_day=false_alarms_per_day, prior=_LEVEL)
        self._rows: dict[str, _Row] = {}
        self._requests = 0.0
        self._recent: deque[float] = deque(maxlen=WINDOWS[-1])
        self._ts = self._first_ts = math.nan

    def score(self, ts: float, layout: Layout, values: Matrix) -> TickScores:
        """Score a tick. The state does not change."""
        requests, counted = _read(layout, values)
        age_s = 0.0 if math.isnan(self._first_ts) else ts - self._first_ts
        rows: list[RowScore] = []
        onsets: dict[str, float] = {}
        most = 0.0
        # An anomaly with few requests continues at a tick without any.
        out = {row: (each.name, 0.0, 0.0) for row, each in self._rows.items() if not math.isnan(each.out_since_ts)}
        for row, (name, outliers, lost_s) in (out | counted).items():
            known = self._rows.get(row)
            raw, features = self._raw_score(known, requests, outliers, lost_s)
            most = max(most, raw)
            row_age_s = 0.0 if known is None else ts - known.since_ts
            score = self._calibration.score(raw)
            if row in out and score >= LASTING_SHARE:
                score = max(score, LASTING_SCORE)
            rows.append(RowScore(row, name, score, features, row_age_s))
            if score > 1.0 or (row in out and not self._is_calm(self._rows[row].calm + 1, ts)):
                onsets[row] = self._rows[row].out_since_ts if row in out else ts
        rows.sort(key=lambda each: (-each.score, each.row))
        young = age_s < _YOUNG_S or self._requests < _YOUNG_REQUESTS
        return TickScores(ts, rows, onsets, most, age_s, young=young)

    def _is_calm(self, ticks: int, ts: float) -> bool:
        """Return whether an anomaly has ended after this number of normal ticks, the last one at `ts`."""
        return ticks >= CALM or ts - self._ts >= CALM_S

    def _raw_score(
        self, known: _Row | None, requests: float, outliers: float, lost_s: float
    ) -> tuple[float, tuple[FeatureScore, ...]]:
        """Return the raw score of a cluster, and its features."""
        recent = () if known is None else tuple(known.recent)
        usual, usual_lost_s = (0.0, 0.0) if known is None else (known.outliers, known.lost_s)
        prior_outliers, prior_requests = _PRIOR
        shape, seen = prior_outliers + usual, prior_requests + self._requests
        rate = shape / seen
        steady = min(shape, _STEADIEST)
        best, ratio, per_request_s, ratio_sd = 0.0, 0.0, 0.0, 0.0
        for window in WINDOWS:
            before = recent[-(window - 1) :] if window > 1 else ()
            number = outliers + sum(each for each, _ in before)
            lost = lost_s + sum(each for _, each in before)
            among = requests + sum(list(self._recent)[-(window - 1) :] if window > 1 else ())
            if number < FEWEST or not among:
                continue
            share = among / (among + steady / rate)
            counts = [*(each for each, _ in before), outliers]
            if self._has_ended(counts, [*self._recent, requests][-len(counts) :]):
                continue
            raw = -math.log(max(float(betainc(number, steady, share)), 1e-200))
            if raw > best:
                best, ratio, per_request_s = raw, number / among, lost / among
                ratio_sd = math.sqrt(rate / among + rate * rate / steady)
        features = (
            FeatureScore(OUTLYING, ratio or outliers / max(requests, 1.0), rate, ratio_sd, best),
            FeatureScore(LOST, per_request_s or lost_s / max(requests, 1.0), usual_lost_s / seen, math.nan, 0.0),
        )
        return best, features

    def _has_ended(self, before: Sequence[float], among: Sequence[float]) -> bool:
        """Return whether the newest of these ticks have significantly fewer outliers than those before."""
        first = next((at for at, number in enumerate(before) if number), len(before))
        for ticks in NEWEST:
            split = len(before) - ticks
            if split <= first:
                return False
            known, share = sum(before[first:split]), sum(among[first:split]) / sum(among[first:])
            if float(betainc(known, sum(before[split:]) + 1.0, share)) < OVER:
                return True
        return False

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a tick: of the outliers of a cluster little more than expected, and no more during an anomaly."""
        scored = self.score(ts, layout, values)
        requests, counted = _read(layout, values)
        if math.isnan(self._first_ts):
            self._first_ts = ts
        elif (step := ts - self._ts) > 0.0:
            decay = math.exp(-step / MEMORY_S)
            self._requests *= decay
            for row in self._rows.values():
                row.outliers, row.lost_s = row.outliers * decay, row.lost_s * decay
        for key in counted.keys() - self._rows.keys():
            self._rows[key] = _Row(counted[key][0], ts)
        out = {each.row for each in scored.rows if each.score > 1.0}
        for key, row in self._rows.items():
            row.calm = 0 if key in out else row.calm + 1
            if row.calm and self._is_calm(row.calm, ts):
                row.out_since_ts = math.nan
            elif not row.calm and math.isnan(row.out_since_ts):
                row.out_since_ts = ts
            name, outliers, lost_s = counted.get(key, (row.name, 0.0, 0.0))
            row.name = name
            row.recent.append((outliers, lost_s))
            prior_outliers, prior_requests = _PRIOR
            expected = (prior_outliers + row.outliers) / (prior_requests + self._requests) * requests
            is_frozen = ts - row.out_since_ts < FROZEN_S
            learned = min(outliers, expected if is_frozen else expected + 2.0 * math.sqrt(expected) + 1.0)
            row.outliers += learned
            row.lost_s += lost_s * learned / outliers if outliers else 0.0
        self._ts = ts
        self._requests += requests
        self._recent.append(requests)
        if len(self._rows) > MOST_ROWS:
            retained = sorted(self._rows, key=lambda key: self._rows[key].outliers)[-MOST_ROWS // 2 :]
            self._rows = {key: row for key, row in self._rows.items() if key in retained}
        self._calibration.learn(ts, scored.raw)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {
            "calibration": self._calibration.snapshot(),
            "requests": self._requests,
            "recent": list(self._recent),
            "ts": self._ts,
            "first_ts": self._first_ts,
            "rows": [
                [
                    key,
                    row.name,
                    row.outliers,
                    row.lost_s,
                    row.since_ts,
                    [list(each) for each in row.recent],
                    row.out_since_ts,
                    row.calm,
                ]
                for key, row in self._rows.items()
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self._calibration.restore(state["calibration"])
        self._requests = float(state["requests"])
        self._recent = deque(map(float, state["recent"]), WINDOWS[-1])
        self._ts, self._first_ts = float(state["ts"]), float(state["first_ts"])
        self._rows = {}
        for key, name, outliers, lost_s, since_ts, recent, *out in state["rows"]:
            row = self._rows[str(key)] = _Row(str(name), float(since_ts))
            row.outliers, row.lost_s = float(outliers), float(lost_s)
            if out:  # not in states of older versions
                row.out_since_ts, row.calm = float(out[0]), int(out[1])
            row.recent.extend((float(one), float(other)) for one, other in recent)


def _read(layout: Layout, values: Matrix) -> tuple[float, dict[str, tuple[str, float, float]]]:
    """Return the number of requests, and by cluster its name, its outliers and the seconds that these lost."""
    if tuple(layout.features) != FEATURES:
        raise ValueError(f"expected the features {', '.join(FEATURES)}, got {', '.join(layout.features)}")
    rows = list(layout.rows)
    if ALL not in rows:
        raise ValueError(f"expected a row {ALL!r}, got {', '.join(rows) or 'none'}")
    requests = float(values[rows.index(ALL), 0])
    counted = {
        row: (name, float(values[place, 1]), float(values[place, 2]))
        for place, (row, name) in enumerate(zip(rows, layout.names, strict=True))
        if row != ALL
    }
    return requests, counted
