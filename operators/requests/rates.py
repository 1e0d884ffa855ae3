"""How often requests are out of line: whether those of a cluster come more often than chance allows."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from scipy.special import betainc

from laggard.operators.calibration import Calibration
from laggard.operators.ranking import FeatureScore, Ranking, RowScore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laggard.operators.contract import Layout, Matrix

ALL: Final = "all"
"""The row that tells of all requests of a tick; each other one is of a cluster."""

FEATURES: Final = ("requests", "outliers", "lost_s")
"""How many requests ended, how many of them are outliers, and how much longer these took than usual, in seconds."""

OUTLYING: Final = "outlying_ratio"
LOST: Final = "lost_s_per_request"
"""What is told of a row: of all requests, and per request, in the window that says most."""

WINDOWS: Final = (1, 6, 30)
"""Ticks that are looked at together: short troubles drown in a long one, rare ones are not seen in a short one."""

FEWEST: Final = 3
"""So many requests must be out of line: one or two are no alarm, whatever they are."""

NEWEST: Final = (1, 2, 3, 4, 6, 8, 12)
OVER: Final = 0.01
"""A window counts no longer if so few outliers as in its newest ticks have this probability at the rate before."""

CALM: Final = 3
"""A cluster is no longer out of line after so many ticks at which it was not."""

HELD: Final = 0.5
HELD_SCORE: Final = 1.01
"""A cluster that is out of line stays so, with this score at least, while its raw score is this share of the limit."""

FROZEN_S: Final = 4 * 3600.0
"""For so long the usual rate stays what it was before the trouble; what lasts longer becomes usual."""

MOST_ROWS: Final = 256
MEMORY_S: Final = 86400.0

_PRIOR: Final = (0.5, 200.0)  # half an outlier in so many requests, before anything was seen
_STEADIEST: Final = 8.0  # the usual rate is never taken to be steadier than if it came of so many outliers
_YOUNG_REQUESTS: Final = 1_000.0
_YOUNG_S: Final = 600.0
_LEVEL: Final = (12.0, 2.0)  # of -ln of the probability: passed once an hour, and its spread, before it was learned


class _Row:
    """One cluster: how many outliers there usually are, and in the last ticks; since when it is out of line, or NaN."""

    __slots__ = ("calm", "lost_s", "name", "out_since_ts", "outliers", "recent", "since_ts")

    def __init__(self, name: str, ts: float) -> None:
        self.name = name
        self.outliers = 0.0
        self.lost_s = 0.0
        self.since_ts = ts
        self.out_since_ts = math.nan
        self.calm = 0
        self.recent: deque[tuple[float, float]] = deque(maxlen=WINDOWS[-1])


@dataclass(frozen=True, slots=True)
class Judgement:
    """What `Rates` answers to a tick.

    Attributes:
        ts: of the tick, seconds since the Unix epoch.
        score: of the cluster that comes most more often than usual; above 1 is more than the budget allows.
        rows: all clusters of the tick, the worst first.
        raw: what the score was made of.
        age_s: how long has been learned from, in seconds.
        young: whether that is too short to be relied on.

    """

    ts: float
    score: float
    rows: tuple[RowScore, ...]
    raw: float
    age_s: float
    young: bool

    def ranking(self, rows: int, features: int) -> Ranking:
        """The worst clusters."""
        told = tuple(
            RowScore(each.row, each.name, each.score, each.features[:features], each.age_s) for each in self.rows[:rows]
        )
        return Ranking(self.ts, self.score, told, self.age_s, self.young)


class Rates:
    """Compares how many requests of a cluster are out of line with how many usually are.

    Outliers of a cluster are taken to come by a Poisson process, whose rate per request has a Gamma distribution: what
    is known of it from the n requests before, among which k were such outliers, is Gamma(k + 1/2, n + 200). How many
    there are among N more requests has then a negative binomial distribution, and the raw score is

        -ln P(K >= k') = -ln I_x(k', k + 1/2),  x = N / (N + n + 200)

    with I the regularised incomplete beta function; of windows of 1, 6 and 30 ticks the largest. Rates vary, so k
    counts for 8 at most. What raw scores are worth is learned, by the budget of false alarms (`Calibration`).

    Frames have a row `all`, which counts all requests, and one for each cluster of which there were outliers at this
    tick, with the features `FEATURES`.

    Parameters:
        false_alarms_per_day: the budget of one service.

    State is O(1) for each of at most 256 clusters.

    """

    state_version: ClassVar[int] = 1

    def __init__(self, *, false_alarms_per_day: float = 1.0) -> None:
        self._calibration = Calibration(per_day=false_alarms_per_day, prior=_LEVEL)
        self._rows: dict[str, _Row] = {}
        self._requests = 0.0
        self._recent: deque[float] = deque(maxlen=WINDOWS[-1])
        self._ts = self._first_ts = math.nan

    def score(self, ts: float, layout: Layout, values: Matrix) -> Judgement:
        """How much more often than usual there are outliers. Changes nothing."""
        requests, counted = _read(layout, values)
        age_s = 0.0 if math.isnan(self._first_ts) else ts - self._first_ts
        told, most = [], 0.0
        # A trouble whose requests are few goes on where a tick has none of them.
        out = {row: (each.name, 0.0, 0.0) for row, each in self._rows.items() if not math.isnan(each.out_since_ts)}
        for row, (name, outliers, lost_s) in (out | counted).items():
            known = self._rows.get(row)
            raw, features = self._judge(known, requests, outliers, lost_s)
            most = max(most, raw)
            row_age_s = 0.0 if known is None else ts - known.since_ts
            score = self._calibration.score(raw)
            if row in out and score >= HELD:
                score = max(score, HELD_SCORE)
            told.append(RowScore(row, name, score, features, row_age_s))
        told.sort(key=lambda each: (-each.score, each.row))
        young = age_s < _YOUNG_S or self._requests < _YOUNG_REQUESTS
        score = max(self._calibration.score(most), told[0].score if told else 0.0)
        return Judgement(ts, score, tuple(told), most, age_s, young)

    def _judge(
        self, known: _Row | None, requests: float, outliers: float, lost_s: float
    ) -> tuple[float, tuple[FeatureScore, ...]]:
        """The raw score of a cluster, and what it is made of."""
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
        """Whether the newest of these ticks have clearly fewer outliers than those before lead to expect."""
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
        """Take a tick in. Of a cluster that is more frequent than usual not all counts, while it is out none."""
        judged = self.score(ts, layout, values)
        requests, counted = _read(layout, values)
        if math.isnan(self._first_ts):
            self._first_ts = ts
        elif (step := ts - self._ts) > 0.0:
            kept = math.exp(-step / MEMORY_S)
            self._requests *= kept
            for row in self._rows.values():
                row.outliers, row.lost_s = row.outliers * kept, row.lost_s * kept
        self._ts = ts
        for key in counted.keys() - self._rows.keys():
            self._rows[key] = _Row(counted[key][0], ts)
        out = {each.row for each in judged.rows if each.score > 1.0}
        for key, row in self._rows.items():
            row.calm = 0 if key in out else row.calm + 1
            if row.calm >= CALM:
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
        self._requests += requests
        self._recent.append(requests)
        if len(self._rows) > MOST_ROWS:
            kept_rows = sorted(self._rows, key=lambda key: self._rows[key].outliers)[-MOST_ROWS // 2 :]
            self._rows = {key: row for key, row in self._rows.items() if key in kept_rows}
        self._calibration.learn(ts, judged.raw)

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state as plain data."""
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
        """Take over a state that `snapshot` gave. Raises `ValueError` naming what does not fit."""
        self._calibration.restore(state["calibration"])
        self._requests = float(state["requests"])
        self._recent = deque(map(float, state["recent"]), WINDOWS[-1])
        self._ts, self._first_ts = float(state["ts"]), float(state["first_ts"])
        self._rows = {}
        for key, name, outliers, lost_s, since_ts, recent, *out in state["rows"]:
            row = self._rows[str(key)] = _Row(str(name), float(since_ts))
            row.outliers, row.lost_s = float(outliers), float(lost_s)
            if out:  # an older laggard has none
                row.out_since_ts, row.calm = float(out[0]), int(out[1])
            row.recent.extend((float(one), float(other)) for one, other in recent)


def _read(layout: Layout, values: Matrix) -> tuple[float, dict[str, tuple[str, float, float]]]:
    """How many requests, and by cluster its name, its outliers and the seconds that these lost."""
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
