"""Baselines of rows and features: aligned to the frames of a stream, and learned in blocks of ticks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laggard.operators.gaussian.bank import Bank
from laggard.operators.gaussian.cohorts import Cohorts
from laggard.operators.gaussian.episodes import EPISODE_S
from laggard.operators.gaussian.likelihood import Pool
from laggard.operators.gaussian.references import Past, References
from laggard.operators.gaussian.rises import Rises, stocks_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from laggard.operators.contract import Layout
    from laggard.operators.features import Directions
    from laggard.operators.gaussian.cohorts import Followed
    from laggard.operators.gaussian.likelihood import Reference
    from laggard.operators.gaussian.moments import Block
    from laggard.operators.ranking import Basis

    Matrix = NDArray[np.float64]
    Flags = NDArray[np.bool_]

BLOCK_TICKS = 5
"""The least number of ticks in a block, unless they take longer than a 16th of the context."""

LONG_TICK = 0.9
"""A tick of at least this share of `evidence_s` is scored alone. The share allows for jitter of the clock."""

POOL_S = 300.0
"""The time between two renewals of the statistics of all rows, in seconds; shorter while the stream is young."""


class Pooled(NamedTuple):
    """The statistics of all rows together, their features, and the time at which they were computed."""

    ts: float
    features: tuple[str, ...]
    pool: Pool


class Names(NamedTuple):
    """A layout."""

    rows: tuple[str, ...]
    names: tuple[str, ...]
    features: tuple[str, ...]
    commands: tuple[str, ...]

    @classmethod
    def at(cls, bank: Bank, ts: float, features: int) -> Names:
        """Return the names of the last learned frame, by its time and the number of its features."""
        rows = int((bank.last_ts == ts).sum())
        return cls(bank.rows[:rows], bank.names[:rows], bank.features[:features], ())


class Times(NamedTuple):
    """The times of the first tick, the open block's begin, the last learned block, the last tick and the last check."""

    first: float = math.nan
    opened: float = math.nan
    merged: float = math.nan
    last: float = math.nan
    ticks: int = 0
    closed: float = math.nan

    def age_s(self, ts: float) -> float:
        """Return the time since the first tick; 0 before it."""
        return max(ts - self.first, 0.0) if self.ticks else 0.0


class Baselines:
    """The past of every feature of every row: what is normal for a frame, and the mean of the last `evidence_s`.

    Nothing is learned before `learn`. Until then the state only follows the names of a frame, see `align`.

    Parameters:
        context_s, evidence_s, exclude_s, spare_rows: see `Gaussian`.
        weights, resolution, directions, stocks, episodes: see there.
        cohorts: the earlier starts of each name; None to ignore them.

    Attributes:
        bank: the learned state of rows and features.
        times: the times of the learned ticks.
        pooled: the statistics of all rows together.
        cohorts: the earlier starts of each name.
        references: the baselines in the form that scores frames.

    """

    def __init__(
        self,
        *,
        context_s: float,
        evidence_s: float,
        exclude_s: float,
        spare_rows: int,
        weights: Mapping[str, float],
        resolution: Mapping[str, float],
        directions: Directions,
        stocks: tuple[str, ...],
        cohorts: Cohorts | None,
        episodes: bool,
    ) -> None:
        self.context_s = context_s
        self.evidence_s = evidence_s
        self.exclude_s = exclude_s
        self.spare_rows = spare_rows
        self.stocks = stocks
        self.cohorts = cohorts
        self.episodes = episodes
        self.references = References(weights, resolution, directions, episodes=episodes)
        self.bank = Bank.empty()
        self.times = Times()
        self._rises = Rises.none()
        self.pooled = Pooled(math.nan, (), Pool(*np.zeros((3, 0))))
        # Derived from the state and the last frame; never part of a snapshot.
        self._aligned: tuple[Layout, Bank, Followed | None, Pooled] | None = None
        self._fresh_ts: float | None = None  # of an alignment that is not learned yet
        self._open: Block | None = None
        self._latest: Matrix | None = None  # the evidence of the last frame until it is in the bank
        self._settled = False

    def fits(self, layout: Layout, ts: float) -> bool:
        """Return whether this frame is aligned already."""
        return self._aligned is not None and self._aligned[0] is layout and self._fresh_ts in {None, ts}

    def align(self, layout: Layout, ts: float) -> None:
        """Bring the rows and features of this frame to the front, with its young rows, and the pool of all rows.

        The bank has to be up to date, see `settle`.
        """
        bank, followed = self.bank, None
        known = set(bank.rows)
        fresh = [column for column, row in enumerate(layout.rows) if row not in known]
        if self.cohorts is not None:
            followed = self.cohorts.follow(layout, ts, fresh, ts - self.times.last)
        if not bank.begins_with(layout):
            bank = bank.aligned(layout, ts, self.context_s, self.spare_rows)
        pooled, features = self.pooled, tuple(layout.features)
        if pooled.features != features:
            pooled = Pooled(ts, features, _pool(bank, layout))
        self._fresh_ts = ts
        self._aligned = (layout, bank, followed, pooled)
        self.references.forget()
        self._open = None
        self._settled = False

    @property
    def _now(self) -> tuple[Bank, Followed | None, Pooled]:
        """The bank with the rows and features of the aligned frame first, its young rows, and the pool of all rows."""
        assert self._aligned is not None
        return self._aligned[1:]

    def first_ts(self, rows: int) -> NDArray[np.float64]:
        """Return the times at which the rows of the aligned frame were first seen."""
        return self._now[0].first_ts[:rows]

    def reference_of(self, last: Names) -> tuple[Reference, dict[int, Basis]]:
        """Return the baselines of the last learned frame, and what rows without a past are compared with."""
        ts, shape = self.times.last, (len(last.features), len(last.rows))
        followed = None if self.cohorts is None else self.cohorts.follow(last, ts, (), 0.0)
        past = Past(self.bank, followed, self.pooled.pool, self.cohorts, self._rises)
        reference, _, bases = self.references.of(ts, shape, past)
        return reference, bases

    def reference(self, ts: float, shape: tuple[int, int]) -> Reference:
        """Return the baselines of the aligned frame, whose shape is (features, rows)."""
        if (known := self.references.known(ts)) is not None:
            return known
        bank, followed, pooled = self._now
        return self.references.of_frame(ts, shape, Past(bank, followed, pooled.pool, self.cohorts, self._rises))

    def learn(
        self,
        ts: float,
        layout: Layout,
        clean: Matrix,
        *,
        evidence: Matrix,
        whole: bool,
        frozen: Flags | None,
        accepted: Flags | None,
    ) -> None:
        """Learn the aligned frame.

        Args:
            ts: the time of the frame, seconds since the Unix epoch.
            layout: its names.
            clean: its values, shape (features, rows), without those that are too large.
            evidence: the mean of the last `evidence_s`, of the same shape.
            whole: whether no value is missing.
            frozen: the rows whose baselines stay.
            accepted: the rows whose last values become their baselines.

        """
        bank, followed, self.pooled = self._now
        self.bank, self._fresh_ts = bank, None
        if followed is not None and self.cohorts is not None:
            young = self.cohorts.learn(followed, ts, evidence)
            if young is not followed:
                self._aligned = (layout, bank, young, self.pooled)
                self.references.renew()
        features, rows = clean.shape
        if ts == self.times.last and rows < len(bank.rows):  # the clock stands, and they are not of this frame
            others = bank.last_ts[rows:]
            others[others == ts] = math.nextafter(ts, -math.inf)
        self._latest, self._settled = evidence, whole
        if accepted is not None:
            self._settle_block()
            bank.adopt(accepted)
            self.references.renew()
        self._turn(ts, layout, frozen)
        head = self._open
        if head is None:
            head = self._open = bank.open.head(features, rows)
        if whole:
            head.learn(clean, None)
        else:
            present = ~np.isnan(clean)
            head.learn(np.where(present, clean, 0.0), present)

    def evidence(self, ts: float, values: Matrix, whole: bool) -> Matrix:
        """Return the mean of the last `evidence_s`: e' = e + (x - e) (1 - exp(-2 dt / evidence_s)).

        It is x if there is no e, and if the tick itself took about that long.
        """
        step = ts - self.times.last
        if not 0.0 < step < LONG_TICK * self.evidence_s:
            return values
        before = self._latest
        if before is None:
            before = self._now[0].evidence[: values.shape[0], : values.shape[1]]
        evidence = values - before
        evidence *= -math.expm1(-2.0 * step / self.evidence_s)
        evidence += before
        if not (whole and self._settled):
            np.copyto(evidence, values, where=np.isnan(evidence))
        return evidence

    def settle(self) -> None:
        """Bring the bank up to date: the evidence and the time of the last frame are not yet in it."""
        if self._latest is not None:
            (features, rows), bank, ts = self._latest.shape, self.bank, self.times.last
            bank.evidence[:features, :rows] = self._latest
            self._latest = None
            bank.last_ts[:rows] = ts
            bank.feature_ts[:features] = ts
        self._settle_block()

    def _settle_block(self) -> None:
        """Bring the open block of the bank up to date."""
        if self._open is not None:
            self.bank.open.even &= self._open.settle()

    def _turn(self, ts: float, layout: Layout, frozen: Flags | None) -> None:
        """Close the open block of ticks when it is complete, and learn the one before it.

        After a gap, or a step back of the clock, both are learned: none of their ticks is recent.
        """
        times = self.times
        if not times.ticks:
            self.times = Times(ts, ts, ts, ts, 1, ts)
            return
        elapsed = ts - times.opened
        over = elapsed >= self.exclude_s / 2.0 and (times.ticks >= BLOCK_TICKS or elapsed >= self.context_s / 16.0)
        if not (over or elapsed < 0.0):
            self.times = Times(times.first, times.opened, times.merged, ts, times.ticks + 1, times.closed)
            return
        self._settle_block()
        self.bank.turn(
            frozen,
            math.exp(-2.0 * max(ts - times.merged, 0.0) / self.context_s),
            max(elapsed, 0.0) if self.episodes else None,
        )
        if not 0.0 <= ts - times.last < self.context_s / 16.0:
            self.bank.turn(frozen, 1.0, 0.0 if self.episodes else None)
        closed = times.closed
        if not 0.0 <= ts - closed < EPISODE_S:
            self._follow(layout, max(ts - closed, 0.0))
            closed = ts
            self.references.forget_floor()
        if not 0.0 <= ts - self.pooled.ts < min(POOL_S, 0.125 * (ts - times.first)):
            self.pooled = Pooled(ts, self.pooled.features, _pool(self.bank, layout))
            assert self._aligned is not None
            self._aligned = (*self._aligned[:3], self.pooled)
        self.references.renew()
        self._open = None
        self.times = Times(times.first, ts, ts, ts, 1, closed)

    def _follow(self, layout: Layout, seconds: float) -> None:
        """End the episodes that are over, and follow what rises. `seconds` is the time since the last call."""
        bank = self.bank
        if self.episodes:
            bank.end_episodes(seconds)
        stocks = stocks_of(layout.features, self.stocks)
        if stocks.size:
            self._rises, ended = self._rises.after(layout, stocks, bank.usual, bank.waiting)
            for cell in ended if self.episodes else ():
                place = bank.features.index(cell.feature), bank.rows.index(cell.row)
                bank.episodes.note(*place, cell.level - cell.mean)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data, except for that of the cohorts."""
        self.settle()
        return {
            **self.bank.snapshot(),
            "times": list(self.times),
            "rises": self._rises.snapshot(),
            "pool_ts": self.pooled.ts,
            "pool": np.stack([self.pooled.pool.mean, self.pooled.pool.within, self.pooled.pool.spread]),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot` with the cohorts. Raises `ValueError` that names the part that does not fit."""
        self.bank = Bank.restored(state)
        first, opened, merged, last, ticks, closed = state["times"]
        self.times = Times(float(first), float(opened), float(merged), float(last), int(ticks), float(closed))
        self._rises = Rises.restored(state["rises"])
        pool = np.array(state["pool"], dtype=np.float64)
        if not (pool.ndim == 2 and len(pool) == 3 and pool.shape[1] <= len(self.bank.features)):
            raise ValueError(f"pool: expected the shape (3, up to {len(self.bank.features)}), got {pool.shape}")
        self.pooled = Pooled(float(state["pool_ts"]), self.bank.features[: pool.shape[1]], Pool(*pool))
        if self.cohorts is not None:
            self.cohorts = Cohorts.restored(state["cohorts"])
        self.references.forget()
        self._aligned = self._open = self._latest = None
        self._settled = False


def _pool(bank: Bank, layout: Layout) -> Pool:
    return Pool.of(bank.usual.head(len(layout.features), len(layout.rows)))
