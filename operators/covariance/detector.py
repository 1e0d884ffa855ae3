"""The operator `covariance`: members of a pool that deviate from the others, without a model of normal (S3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from laggard.operators.contract import check_shape
from laggard.operators.covariance.dendrograms import published_ranking
from laggard.operators.covariance.estimates import FEWEST
from laggard.operators.covariance.learning import calibrate, learn_depth, learn_nobody
from laggard.operators.covariance.members import Depth
from laggard.operators.covariance.pool import Pool
from laggard.operators.covariance.present import Scores, candidates, deviations_now, left
from laggard.operators.covariance.report import adaptive
from laggard.operators.covariance.results import Report
from laggard.operators.covariance.ticks import Places, compare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laggard.operators.contract import Layout, Matrix
    from laggard.operators.covariance.present import Candidate
    from laggard.operators.covariance.results import Deviation
    from laggard.operators.covariance.ticks import Compared

Method = Literal["adaptive", "published"]

MOST_FEATURES: Final = 32
"""The most features that are compared: the first ones."""

YOUNG_TICKS: Final = 192
"""The number of ticks until the results for a pool are reliable."""


class Covariance:
    """Detects members of one pool that deviate from the others.

    The method is that of Syer, Adams, Hassan: "Identifying performance deviations in thread pools" (ICSM 2011).
    `method="published"` ranks by the covariance of each member's whole life (section IV). `"adaptive"` compares members
    at every tick, in several windows and over their whole life. It compares the levels of their metrics, changes of
    these, each metric given the others, and their covariances (see `Bank`). So it finds spikes, which a whole life
    hides. It also reports onsets, and has a false-alarm budget.

    Levels are the parts of paths in the rows' ids or names (section IV.B). Groups are compared with their siblings by
    the means of their members, and members with those of their own group, if it has three. Members of a group that
    began together are a wave, and are compared within it. Waves are compared with each other by age.

    Memory: that of `Bank` for each depth, with at most `limit` members and groups in each, including those that ended
    within a day. Cost of a tick: O(members x windows x metrics^2).

    Parameters:
        method: `adaptive` or `published`.
        windows: the lengths of the windows in ticks; the whole life is one more window.
        false_alarms_per_day: the budget of one pool.
        resolution: a negligible difference of a metric, in its unit, by the end of its name.
        replicates: the number of bootstrap samples for each scale of p-values.
        limit: the most members of one depth.

    Attributes:
        pool: its parameters and its state.

    Example:
        >>> import numpy as np
        >>> from types import SimpleNamespace
        >>> chance = np.random.default_rng(1)
        >>> rows = [f"worker-{each}" for each in range(8)]
        >>> layout = SimpleNamespace(rows=rows, names=rows, features=["cpu_ratio"], commands=[])
        >>> pool = Covariance(windows=(12, 48))
        >>> for tick in range(300):
        ...     values = 0.2 + 0.02 * chance.standard_normal((8, 1))
        ...     values[3] += 0.5 * (200 <= tick < 220)
        ...     pool.learn(5.0 * tick, layout, values)
        >>> [(each.name, each.kind) for each in pool.report().ranking]
        [('worker-3', 'spike')]

    """

    state_version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        method: Method = "adaptive",
        windows: Sequence[int] = (12, 48, 192),
        false_alarms_per_day: float = 1.0,
        resolution: Mapping[str, float] | None = None,
        replicates: int = 1000,
        limit: int = 5_000,
    ) -> None:
        if method not in ("adaptive", "published"):
            raise ValueError(f"method: expected 'adaptive' or 'published', got {method!r}")
        if not windows or min(windows) < 4 or list(windows) != sorted(set(windows)):
            raise ValueError(f"windows: expected lengths of 4 ticks and more, growing, got {list(windows)}")
        if not false_alarms_per_day > 0.0 or replicates < 0 or limit < FEWEST:
            raise ValueError(
                "expected a budget above 0, no negative number of replicates and room for three members, "
                f"got {false_alarms_per_day=}, {replicates=}, {limit=}"
            )
        self.method = method
        self.replicates = replicates
        self.pool = Pool(windows, false_alarms_per_day, resolution or {}, limit)
        # Derived from the state and the last tick; never part of a snapshot.
        self._places = Places(())
        self._looked: tuple[float, Layout, Matrix, tuple[Compared, ...]] | None = None

    @property
    def refused(self) -> int:
        """The number of members of the newest tick beyond the limit."""
        return self.pool.refused

    def score(self, ts: float, layout: Layout, values: Matrix) -> Scores:
        """Score a tick. `values` has the shape (rows, features). The state does not change."""
        check_shape(layout, values)
        pool = self.pool
        comparisons = compare(pool, self._places, ts, layout, values)
        if comparisons:
            self._looked = ts, layout, values, comparisons
        age_s = ts - pool.first_ts if pool.ticks else 0.0
        members = sum(int(comparison.leaves.sum()) for comparison in comparisons)
        found: list[Deviation] = []
        rows: list[Candidate] = []
        if self.method == "adaptive":
            for depth, comparison in zip(pool.depths, comparisons, strict=False):
                found += deviations_now(pool, depth, comparison)
                rows += candidates(pool, depth, comparison)
        rows.sort(key=lambda row: -row.score)
        found += left(pool)
        found.sort(key=lambda each: -each.score)
        return Scores(ts, rows, tuple(found), members, age_s, young=pool.ticks < YOUNG_TICKS)

    def learn(self, ts: float, layout: Layout, values: Matrix) -> None:
        """Learn a tick. Raises `ValueError` if the shape of `values` does not fit the names."""
        check_shape(layout, values)
        pool = self.pool
        if (features := self._widened(layout)) != pool.features:
            pool.begin_anew(features)
            self._places, self._looked = Places(features), None
        cached, self._looked = self._looked, None
        if cached is not None and cached[0] == ts and cached[1] is layout and cached[2] is values:
            comparisons = cached[3]
        else:
            comparisons = compare(pool, self._places, ts, layout, values)
        if pool.ticks:
            step = ts - pool.ts
            usual = pool.interval_s
            if step > 0.0:  # a gap is not a tick
                pool.interval_s = step if math.isnan(usual) else usual + 0.1 * (min(step, 2.0 * usual) - usual)
        else:
            pool.first_ts = ts
        calibrate(pool, ts, comparisons)
        pool.refused = 0
        for at, comparison in enumerate(comparisons):
            if at == len(pool.depths):
                pool.depths.append(Depth(pool.bank()))
            learn_depth(pool, pool.depths[at], comparison, ts)
        for depth in pool.depths[len(comparisons) :]:
            learn_nobody(pool, depth, ts)
        pool.members = sum(int(comparison.leaves.sum()) for comparison in comparisons)
        pool.ts = ts
        pool.ticks += 1

    def _widened(self, layout: Layout) -> tuple[str, ...]:
        """Return the compared features, and those of a layout while there is room."""
        known = self.pool.features if set(self.pool.features) & set(layout.features) or not layout.features else ()
        return tuple(dict.fromkeys([*known, *layout.features]))[:MOST_FEATURES]

    def report(self, *, replicates: int | None = None) -> Report:
        """Report all members that deviated in their lives, including those that ended. The state does not change.

        `replicates` is the number of bootstrap samples for each scale, by default that of the constructor; 0 for no
        p-values.
        """
        pool = self.pool
        count = self.replicates if replicates is None else replicates
        if self.method == "published":
            levels, ranking = published_ranking(pool, count)
        else:
            levels, ranking = adaptive(pool, count)
        age_s = pool.ts - pool.first_ts if pool.ticks else 0.0
        return Report(pool.ts, pool.members, levels, ranking, age_s, pool.ticks < YOUNG_TICKS)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return self.pool.snapshot()

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self.pool.restore(state)
        self._places, self._looked = Places(self.pool.features), None
