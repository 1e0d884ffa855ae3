"""S0's detector: an incremental Gaussian for every feature of every row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from laggard.operators.calibration import Calibrated, Calibration, Scale
from laggard.operators.contract import check_shape
from laggard.operators.features import BOTH, Directions
from laggard.operators.gaussian.bank import Bank
from laggard.operators.gaussian.cohorts import Cohorts
from laggard.operators.gaussian.episodes import EPISODE_S
from laggard.operators.gaussian.likelihood import (
    Likelihood,
    Pool,
    Reference,
    Weights,
    floor_of,
    paper_rows,
    scale_free_counted,
    scale_free_rows,
)
from laggard.operators.gaussian.moments import Moments
from laggard.operators.gaussian.rises import Rises, stocks_of
from laggard.operators.gaussian.scores import Scores
from laggard.operators.gaussian.suspects import (
    GONE_S,
    MAX_SUSPECTS,
    SUSPECT_FEATURES,
    SUSPICIOUS,
    Suspects,
    gone,
    plain,
    recent,
    restored,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.gaussian.cohorts import Followed
    from laggard.operators.gaussian.moments import Block
    from laggard.operators.ranking import Basis

    Matrix = NDArray[np.float64]
    Flags = NDArray[np.bool_]

LARGEST = 1e140
"""Larger values count as missing: their squares would overflow."""

BLOCK_TICKS = 5
"""The least number of ticks in a block, unless they take longer than a 16th of the context."""

LONG_TICK = 0.9
"""A tick of at least this share of `evidence_s` is scored alone. The share allows for jitter of the clock."""

FAR = 15.0
"""The raw score of eight standard deviations. A row with one is ranked however few of its features vary: in a program
that only computes few do, and S0's rule is for means over features."""

POOL_S = 300.0
"""How often the statistics of all rows together are renewed, in seconds; more often while the stream is young."""

CALIBRATIONS: dict[Likelihood, tuple[Scale, tuple[float, float]]] = {
    "scale_free": ("linear", (140.0, 30.0)),
    "paper": ("logarithmic", (5.5, 0.35)),
}
"""The scale on which the raw scores of frames have an exponential tail, and, before any were seen, the level that they
pass once an hour and the spread of the tail, see `Calibration`. Both are from simulated machines (tests/evaluation)."""


class Gaussian(Calibrated):
    """Ranks the rows of a frame, and their features, by their deviation from their own baselines.

    Each feature of each row has a univariate Gaussian of its past values: its baseline. It fades with the time constant
    `context_s` / 2. So it has the mean age and the effective number of values of a plain window of `context_s`, but its
    state does not grow with the window: fifteen numbers per feature of a row, four of them in single precision. A row
    is ranked if at least `minimum_features` of its features are not constant; in a frame with fewer than twice as many
    features, half of them suffice. With `"scale_free"` it is also ranked if one of them has a score of `FAR`. The score
    of the frame is that of its worst row, on a scale where 1 is the false-alarm budget.

    With `likelihood="paper"` the raw score of a feature is minus the log-likelihood of its value at the tick, and that
    of a row the mean over its features that are not constant, as published. With `"scale_free"` (see `scale_free`) the
    raw score of a row is the largest of its features, and does not depend on their units. The mean of the last
    `evidence_s` is scored. The last `exclude_s` are not learned yet, so that the current fault is not in the baseline.

    Memory: 104 bytes per row and feature in the state, and less than as much for what is derived from it, for the rows
    and features of the last frame and at most `spare_rows` more of each that were seen in the last `context_s`; about
    50 more for each cell of `stocks` that is above its baseline.

    Reference: "S0", sections 3 and 4.

    Parameters:
        context_s: the window of the baseline in seconds.
        minimum_features: the number of features that are not constant that a row needs.
        likelihood: `scale_free` or `paper`.
        evidence_s: the mean over about this time is scored, in seconds; 0 for the tick alone.
        exclude_s: the last half to whole of this time is not in the baseline yet, in seconds; at least the last
            `BLOCK_TICKS` to twice as many ticks are not.
        false_alarms_per_day: the budget: a score of 1.
        spare_rows: the most rows that are remembered while they are absent.
        weights: the weights of features by their names, 1 by default: how much a feature tells of what a row uses,
            rather than of what comes with that. Only with `scale_free`.
        resolution: the least standard deviation of a feature, in its unit, by the end of its name: a negligible
            difference is no anomaly, however constant the feature was. Only with `scale_free`.
        directions: the direction in which each feature gets worse. Only with `scale_free`.
        waits: features that tell how long a row waits for others. A row is marked in rankings if one of them is its
            worst, regardless of weights.
        stocks: the ends of the names of features that tell how much a row holds. One that grows steadily is compared
            with the baseline from before the growth, see `Rises`. Only with `scale_free`.
        cohorts: whether a new row is compared with the starts of others of its name, see `Cohorts`. Only with
            `scale_free`.
        episodes: whether a spike is recorded as an episode before it is learned, see `Episodes`. Only with
            `scale_free`.
        share: the power to which a row's share of the rise of a feature in all rows counts in a ranking; 0 to ignore
            it. Only with `scale_free`.
        notices: whether the level of notices is estimated, too, see `Calibration`.

    Example:
        >>> from types import SimpleNamespace
        >>> names = {"rows": ("a[1]", "b[2]"), "names": ("a", "b"), "features": ("cpu_ratio", "memory_bytes")}
        >>> layout = SimpleNamespace(**names, commands=())
        >>> noise = np.random.default_rng(1)
        >>> gaussian = Gaussian()
        >>> for tick in range(200):
        ...     gaussian.learn(5.0 * tick, layout, noise.normal([[0.2, 1e8], [0.1, 2e8]], [[0.02, 1e6]] * 2))
        >>> slow = np.array([[0.2, 1e8], [0.9, 2e8]])
        >>> worst = gaussian.score(1000.0, layout, slow).ranking(1, 1).rows[0]
        >>> worst.row, worst.features[0].feature
        ('b[2]', 'cpu_ratio')

    """

    state_version: ClassVar[int] = 2

    def __init__(
        self,
        *,
        context_s: float = 4 * 3600.0,
        minimum_features: int = 10,
        likelihood: Likelihood = "scale_free",
        evidence_s: float = 5.0,
        exclude_s: float = 20.0,
        false_alarms_per_day: float = 1.0,
        spare_rows: int = 256,
        weights: Mapping[str, float] | None = None,
        resolution: Mapping[str, float] | None = None,
        directions: Directions = BOTH,
        waits: Collection[str] = (),
        stocks: Collection[str] = (),
        cohorts: bool = True,
        episodes: bool = True,
        share: float = 0.6,
        notices: bool = False,
    ) -> None:
        if likelihood not in CALIBRATIONS:
            raise ValueError(f"likelihood: expected scale_free or paper, got {likelihood!r}")
        if not (context_s > 0.0 and evidence_s >= 0.0 and exclude_s >= 0.0):
            raise ValueError(f"expected times above 0, got {context_s=}, {evidence_s=}, {exclude_s=}")
        if not share >= 0.0:
            raise ValueError(f"share: expected a power of at least 0, got {share!r}")
        if minimum_features < 1 or spare_rows < 0:
            raise ValueError(f"expected at least 1 feature and 0 rows, got {minimum_features=}, {spare_rows=}")
        self.context_s = context_s
        self.minimum_features = minimum_features
        self.likelihood: Likelihood = likelihood
        self.evidence_s = evidence_s if likelihood == "scale_free" else 0.0
        self.exclude_s = exclude_s if likelihood == "scale_free" else 0.0
        self.spare_rows = spare_rows
        self.weights = dict(weights or {})
        self.resolution = dict(resolution or {})
        self.directions = directions
        self.waits = frozenset(waits)
        self.stocks = tuple(stocks) if likelihood == "scale_free" else ()
        self.episodes = episodes and likelihood == "scale_free"
        self.share = share if likelihood == "scale_free" else 0.0
        self._cohorts = Cohorts() if cohorts and likelihood == "scale_free" else None
        scale, prior = CALIBRATIONS[likelihood]
        self._calibration = Calibration(per_day=false_alarms_per_day, scale=scale, prior=prior, notices=notices)
        self._suspects: Suspects = {}
        self._prospects: Suspects | None = None  # those once an alignment is learned
        self._bank = Bank.empty()
        self._times = _Times()
        self._rises = Rises.none()
        self._pool = _Pooled(math.nan, (), Pool(*np.zeros((3, 0))))
        # What follows from the state and the last frame; never part of a snapshot.
        self._aligned: tuple[Layout, Bank, Followed | None, _Pooled] | None = None
        self._fresh_ts: float | None = None  # of an alignment that is not learned yet
        self._reference: Reference | None = None
        self._span = (-math.inf, math.inf)  # the times between which the reference holds: rows become older
        self._bases: dict[int, Basis] = {}
        self._weights: Weights | None = None
        self._floor: Matrix | None = None  # holds until episodes are ended
        self._open: Block | None = None
        self._latest: Matrix | None = None  # the evidence of the last frame until it is in the bank
        self._settled = False
        self._judged: _Judged | None = None

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Score a frame. `values` has the shape (rows, features). The state does not change."""
        check_shape(layout, values)
        judged = self._judged
        if judged is not None and judged.ts == ts and judged.layout is layout and judged.values is values:
            return judged.scores
        bank, followed, pooled = self._align(layout, ts)
        rows, features = values.shape
        reference = self._reference
        if reference is None or not self._span[0] <= ts < self._span[1]:
            found = self._refer(bank, followed, ts, (features, rows), pool=pooled.pool, floor=self._floor)
            reference, self._span, self._bases = found
            self._floor = reference.floor
            self._reference = reference
        clean = np.array(values.T, dtype=np.float64, order="C")
        # The fastest way to see that no value is too large or NaN.
        whole = bool(np.vdot(clean, clean) <= LARGEST**2)
        if not whole:
            clean[np.abs(clean) > LARGEST] = np.nan
        evidence = self._evidence(bank, ts, clean, whole)
        raw = self._rows(evidence, reference, whole)
        level = self._calibration.level
        worst = float(np.fmax.reduce(raw)) if rows else math.nan
        scores = Scores(
            ts,
            layout,
            clean.T,
            evidence.T,
            raw,
            level.score(worst),
            worst,
            level,
            reference,
            self.likelihood,
            bank.first_ts[:rows],
            self._bases,
            self.share,
            self.waits,
            gone(self._suspects if self._prospects is None else self._prospects, ts, layout.rows),
            max(ts - self._times.first, 0.0) if self._times.ticks else 0.0,
            self.context_s,
        )
        self._judged = _Judged(ts, layout, values, clean, evidence, whole, scores)
        return scores

    def learn(
        self,
        ts: float,
        layout: Layout,
        values: Matrix,
        frozen: Flags | None = None,
        accepted: Flags | None = None,
    ) -> None:
        """Learn a frame.

        Args:
            ts: the time of the frame, seconds since the Unix epoch.
            layout: its names.
            values: its values, shape (rows, features).
            frozen: which rows keep their baselines, and do not count against the budget; shape (rows,).
            accepted: which rows take their last values as their baselines; shape (rows,).

        Raises:
            ValueError: the shape of `values` does not fit the names.

        """
        scores = self.score(ts, layout, values)
        judged, self._judged = self._judged, None
        assert judged is not None
        bank, followed, self._pool = self._align(layout, ts)
        self._bank, self._fresh_ts = bank, None
        if self._prospects is not None:
            self._suspects, self._prospects = self._prospects, None
        elif self._suspects:
            self._suspects = recent(self._suspects, ts)
        if followed is not None and self._cohorts is not None:
            young = self._cohorts.learn(followed, ts, judged.evidence)
            if young is not followed:
                self._aligned = (layout, bank, young, self._pool)
                self._reference = None
        rows, features = values.shape
        if ts == self._times.last and rows < len(bank.rows):  # the clock stands, and they are not of this frame
            others = bank.last_ts[rows:]
            others[others == ts] = math.nextafter(ts, -math.inf)
        self._latest, self._settled = judged.evidence, judged.whole
        if accepted is not None:
            self._settle_block()
            bank.adopt(accepted)
            self._reference = None
        self._turn(ts, layout, frozen)
        head = self._open
        if head is None:
            head = self._open = bank.open.head(features, rows)
        if judged.whole:
            head.learn(judged.clean, None)
        else:
            present = ~np.isnan(judged.clean)
            head.learn(np.where(present, judged.clean, 0.0), present)
        self._calibration.learn(ts, scores.worst_without(frozen, accepted))

    def _ended(self, ts: float, layout: Layout) -> Suspects:
        """Return the suspects after this frame: anomalous rows of the last one that have ended are added.

        They are scored anew from the state, since the scores of the last frame are not part of it.
        """
        last, bank = self._times.last, self._bank
        suspects = recent(self._suspects, ts)
        features = len(self._pool.features)
        if self.likelihood == "paper" or not (features and 0.0 < ts - last <= GONE_S):
            return suspects
        rows = int((bank.last_ts == last).sum())
        there = set(layout.rows)
        ended = {column for column, row in enumerate(bank.rows[:rows]) if row not in there}
        if not ended:
            return suspects
        before = _Names(bank.rows[:rows], bank.names[:rows], bank.features[:features], ())
        followed = None if self._cohorts is None else self._cohorts.follow(before, last, (), 0.0)
        reference, _, bases = self._refer(bank, followed, last, (features, rows), pool=self._pool.pool)
        evidence = bank.evidence[:features, :rows]
        raw = self._rows(evidence, reference, whole=False)
        level = self._calibration.level
        if not any(level.score(float(raw[column])) >= SUSPICIOUS for column in ended):
            return suspects
        worst = float(np.fmax.reduce(raw))
        scores = Scores(
            last, before, evidence.T, evidence.T, raw, level.score(worst), worst, level, reference, self.likelihood,
            bank.first_ts[:rows], bases, self.share, self.waits, (), 0.0, self.context_s,
        )  # fmt: skip
        for found in scores.ranking(MAX_SUSPECTS, SUSPECT_FEATURES).rows:
            if found.score >= SUSPICIOUS and found.row not in there:
                suspects[found.row] = (last, found)
        return dict(list(suspects.items())[-MAX_SUSPECTS:])

    def _rows(self, evidence: Matrix, reference: Reference, whole: bool) -> NDArray[np.float64]:
        """Return the raw score of each row, NaN for too few features."""
        features, rows = evidence.shape
        if not (evidence.size and reference.seen):
            return np.full(rows, np.nan)
        needed = min(self.minimum_features, max(features // 2, 1))
        if self.likelihood == "scale_free":
            raw = scale_free_rows(evidence, reference)
            if whole and reference.fewest >= needed:
                return raw
            counted = scale_free_counted(evidence, reference, whole)
            raw[(counted < needed) & ~((counted > 0) & (raw >= FAR))] = np.nan
            return raw
        raw, counted = paper_rows(evidence, reference)
        raw[counted < needed] = np.nan
        return raw

    def _align(self, layout: Layout, ts: float) -> tuple[Bank, Followed | None, _Pooled]:
        """Return the bank with the rows and features of this frame first, its young rows, and the pool of all rows."""
        # Rows begin, end and are forgotten when a tick is learned.
        if self._aligned is None or self._aligned[0] is not layout or self._fresh_ts not in {None, ts}:
            bank, followed = self._bank, None
            self._settle()
            self._prospects = self._ended(ts, layout) if self._times.ticks else None
            known = set(bank.rows)
            fresh = [column for column, row in enumerate(layout.rows) if row not in known]
            if self._cohorts is not None:
                followed = self._cohorts.follow(layout, ts, fresh, ts - self._times.last)
            if not bank.begins_with(layout):
                bank = bank.aligned(layout, ts, self.context_s, self.spare_rows)
            pooled, features = self._pool, tuple(layout.features)
            if pooled.features != features:
                pooled = _Pooled(ts, features, _pool(bank, layout))
            self._fresh_ts = ts
            self._aligned = (layout, bank, followed, pooled)
            self._weights = self._floor = self._reference = self._open = None
            self._settled = False
        return self._aligned[1:]

    def _refer(
        self,
        bank: Bank,
        followed: Followed | None,
        ts: float,
        shape: tuple[int, int],
        *,
        pool: Pool,
        floor: Matrix | None = None,
    ) -> tuple[Reference, tuple[float, float], dict[int, Basis]]:
        """Return the baselines of the first features and rows; those of others for a row without a past.

        Also the times between which they are valid, and what the rows without a past are compared with. `floor` is
        given if it is known already.
        """
        features, rows = shape
        usual = bank.usual.head(features, rows)
        span, bases, prior = (-math.inf, math.inf), {}, None
        if followed is not None and self._cohorts is not None and followed.columns.size:
            span = self._cohorts.span(followed, ts)
            prior = self._cohorts.prior(followed, bank, ts)
        if prior is not None:
            columns = prior.columns
            weight, mean, squares = usual.weight.copy(), usual.mean.copy(), usual.squares.copy()
            merged = prior.moments.merged(Moments(weight[:, columns], mean[:, columns], squares[:, columns]), 1.0)
            weight[:, columns], mean[:, columns], squares[:, columns] = merged.weight, merged.mean, merged.squares
            usual = Moments(weight, mean, squares)
            bases = dict(zip(columns.tolist(), prior.bases, strict=True))
        usual = self._before_rises(usual, bank.rows[:rows], bank.features[:features])
        if self._weights is None or len(self._weights.each) != features:
            self._weights = Weights.of(bank.features[:features], self.weights, self.resolution, self.directions)
        if floor is None:
            recurring = bank.episodes.second[:features, :rows] if self.episodes else None
            floor = floor_of(self._weights, recurring, rows)
        return Reference.of(usual, self._weights, pool, floor), span, bases

    def _before_rises(self, usual: Moments, rows: tuple[str, ...], features: tuple[str, ...]) -> Moments:
        """Return the baselines; those from before the rise for cells that rise steadily."""
        steady = self._rises.steady
        if not steady:
            return usual
        line, column = ({name: number for number, name in enumerate(each)} for each in (features, rows))
        mean, squares = usual.mean.copy(), usual.squares.copy()
        for cell in steady:
            if cell.feature in line and cell.row in column:
                place = line[cell.feature], column[cell.row]
                mean[place], squares[place] = cell.mean, cell.variance * usual.weight[place]
        return Moments(usual.weight, mean, squares, even=usual.even)

    def _evidence(self, bank: Bank, ts: float, values: Matrix, whole: bool) -> Matrix:
        """Return the mean of the last `evidence_s`: e' = e + (x - e) (1 - exp(-2 dt / evidence_s)).

        It is x if there is no e, and if the tick itself took about that long.
        """
        step = ts - self._times.last
        if not 0.0 < step < LONG_TICK * self.evidence_s:
            return values
        before = self._latest
        if before is None:
            before = bank.evidence[: values.shape[0], : values.shape[1]]
        evidence = values - before
        evidence *= -math.expm1(-2.0 * step / self.evidence_s)
        evidence += before
        if not (whole and self._settled):
            np.copyto(evidence, values, where=np.isnan(evidence))
        return evidence

    def _settle(self) -> None:
        """Bring the bank up to date: the evidence and the time of the last frame are not yet in it."""
        if self._latest is not None:
            (features, rows), bank, ts = self._latest.shape, self._bank, self._times.last
            bank.evidence[:features, :rows] = self._latest
            self._latest = None
            bank.last_ts[:rows] = ts
            bank.feature_ts[:features] = ts
        self._settle_block()

    def _settle_block(self) -> None:
        """Bring the open block of the bank up to date."""
        if self._open is not None:
            self._bank.open.even &= self._open.settle()

    def _turn(self, ts: float, layout: Layout, frozen: Flags | None) -> None:
        """Close the open block of ticks when it is complete, and learn the one before it.

        After a gap, or a step back of the clock, both are learned: none of their ticks is recent.
        """
        times = self._times
        if not times.ticks:
            self._times = _Times(ts, ts, ts, ts, 1, ts)
            return
        elapsed = ts - times.opened
        over = elapsed >= self.exclude_s / 2.0 and (times.ticks >= BLOCK_TICKS or elapsed >= self.context_s / 16.0)
        if not (over or elapsed < 0.0):
            self._times = _Times(times.first, times.opened, times.merged, ts, times.ticks + 1, times.closed)
            return
        self._settle_block()
        self._bank.turn(
            frozen,
            math.exp(-2.0 * max(ts - times.merged, 0.0) / self.context_s),
            max(elapsed, 0.0) if self.episodes else None,
        )
        if not 0.0 <= ts - times.last < self.context_s / 16.0:
            self._bank.turn(frozen, 1.0, 0.0 if self.episodes else None)
        closed = times.closed
        if not 0.0 <= ts - closed < EPISODE_S:
            self._look(layout, max(ts - closed, 0.0))
            closed, self._floor = ts, None
        if not 0.0 <= ts - self._pool.ts < min(POOL_S, 0.125 * (ts - times.first)):
            self._pool = _Pooled(ts, self._pool.features, _pool(self._bank, layout))
            assert self._aligned is not None
            self._aligned = (*self._aligned[:3], self._pool)
        self._reference = self._open = None
        self._times = _Times(times.first, ts, ts, ts, 1, closed)

    def _look(self, layout: Layout, seconds: float) -> None:
        """End the episodes that are over, and follow what rises. `seconds` is the time since the last call."""
        bank = self._bank
        if self.episodes:
            bank.end_episodes(seconds)
        stocks = stocks_of(layout.features, self.stocks)
        if stocks.size:
            self._rises, ended = self._rises.after(layout, stocks, bank.usual, bank.waiting)
            for cell in ended if self.episodes else ():
                place = bank.features.index(cell.feature), bank.rows.index(cell.row)
                bank.episodes.note(*place, cell.level - cell.mean)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        self._settle()
        return {
            **self._bank.snapshot(),
            "times": list(self._times),
            "rises": self._rises.snapshot(),
            "pool_ts": self._pool.ts,
            "pool": np.stack([self._pool.pool.mean, self._pool.pool.within, self._pool.pool.spread]),
            "calibration": self._calibration.snapshot(),
            "likelihood": self.likelihood,
            "cohorts": (self._cohorts or Cohorts()).snapshot(),
            "suspects": [[seen, *plain(found)] for seen, found in self._suspects.values()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        if state["likelihood"] != self.likelihood:
            raise ValueError(f"likelihood: expected a state of {self.likelihood}, got one of {state['likelihood']}")
        self._bank = Bank.restored(state)
        first, opened, merged, last, ticks, closed = state["times"]
        self._times = _Times(float(first), float(opened), float(merged), float(last), int(ticks), float(closed))
        self._rises = Rises.restored(state["rises"])
        pool = np.array(state["pool"], dtype=np.float64)
        if not (pool.ndim == 2 and len(pool) == 3 and pool.shape[1] <= len(self._bank.features)):
            raise ValueError(f"pool: expected the shape (3, up to {len(self._bank.features)}), got {pool.shape}")
        self._pool = _Pooled(float(state["pool_ts"]), self._bank.features[: pool.shape[1]], Pool(*pool))
        if self._cohorts is not None:
            self._cohorts = Cohorts.restored(state["cohorts"])
        suspects = [(float(seen), restored(each)) for seen, *each in state["suspects"]]
        self._suspects = {found.row: (seen, found) for seen, found in suspects}
        self._calibration.restore(state["calibration"])
        self._aligned = self._weights = self._floor = self._reference = self._open = self._judged = self._latest = None
        self._settled = False


class _Pooled(NamedTuple):
    """The statistics of all rows together, their features, and the time at which they were computed."""

    ts: float
    features: tuple[str, ...]
    pool: Pool


def _pool(bank: Bank, layout: Layout) -> Pool:
    return Pool.of(bank.usual.head(len(layout.features), len(layout.rows)))


class _Names(NamedTuple):
    """A layout."""

    rows: tuple[str, ...]
    names: tuple[str, ...]
    features: tuple[str, ...]
    commands: tuple[str, ...]


class _Times(NamedTuple):
    """When the first tick was, the open block began, a block was learned, the last tick was, and episodes ended."""

    first: float = math.nan
    opened: float = math.nan
    merged: float = math.nan
    last: float = math.nan
    ticks: int = 0
    closed: float = math.nan


class _Judged(NamedTuple):
    """The last scored frame, so that learning it does not score it again."""

    ts: float
    layout: Layout
    values: Matrix
    clean: Matrix
    evidence: Matrix
    whole: bool
    scores: Scores
