"""The spread of the levels and changes of the members of a pool, in which their deviations are measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from laggard.operators.covariance.arrays import LONGEST_LIFE, fitting
from laggard.operators.covariance.estimates import FEWEST, deviation_of, median, normal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Slots = NDArray[np.intp]

LEAST: Final = 1e-150
"""The least spread among members in any unit: its square does not underflow."""

NOW: Final = {"level": 0.5, "change": 0.3}
"""The weight of the spread among members at this tick; the rest is that of its past mean."""

MOST_INDEPENDENT: Final = 10.0
"""The spread of changes becomes more certain with the age of the pool, up to this number of times the members."""


class Spread:
    """The spread of members: the median absolute deviation among siblings at this tick, and its past mean.

    With v its square among n siblings at this tick, V the mean of v over the life of the pool, and w the weight `NOW`:

        s^2 = w v + (1 - w) V + floor^2,    z = (x - median x) / s

    z has Student's t distribution with n - 1 degrees of freedom, times the independent windows so far for changes. It
    is made standard normal, see `estimates.normal`.

    Parameters:
        levels: the number of levels of a member, which come first.
        windows: the lengths of the windows of its changes, which follow, in ticks.

    """

    def __init__(self, levels: int, windows: Slots) -> None:
        self._changes = slice(levels, levels + len(windows))
        self._windows = windows
        self._mix = np.concatenate([np.full(levels, NOW["level"]), np.full(len(windows), NOW["change"])])
        self._variance = np.zeros(levels + len(windows))
        self._weight = np.zeros(levels + len(windows))

    def compare(self, raw: Floats, groups: Sequence[Slots], floor: Floats) -> tuple[Floats, Floats, Floats]:
        """Compare members with their siblings. The state does not change.

        Args:
            raw: the levels and changes of members, shape (levels + changes, n).
            groups: the places of the members of each group.
            floor: negligible differences, shape (levels + changes,).

        Returns:
            The statistics and the spreads, in the shape of `raw` and NaN if unknown; and v, the mean over groups.

        """
        statistics = np.full(raw.shape, np.nan)
        spreads = np.full(raw.shape, np.nan)
        variance = np.zeros((len(raw), 2))
        past = self._variance / np.maximum(self._weight, 1e-300)
        has_past = self._weight > 0.0
        for members in groups:
            found = raw[:, members]
            count = np.isfinite(found).sum(axis=1)
            enough = count >= FEWEST
            if not enough.any():
                continue
            found = found - median(found)[:, None]
            spread = deviation_of(found, count)
            now = np.where(enough, spread**2, 0.0)
            variance[:, 0] += np.where(enough, now * count, 0.0)
            variance[:, 1] += np.where(enough, count, 0.0)
            mixed = np.where(has_past, self._mix * now + (1.0 - self._mix) * past, now)
            deviation = np.maximum(np.sqrt(mixed + floor**2), LEAST)
            degrees = (count - 1.0).astype(np.float64)
            independent = 1.0 + self._weight[self._changes] / (2.0 * self._windows)
            degrees[self._changes] *= np.minimum(independent, MOST_INDEPENDENT)
            z = found / deviation[:, None]
            z[~enough] = np.nan
            statistics[:, members] = normal(z, degrees[:, None])
            spreads[:, members] = deviation[:, None]
        mean = np.divide(variance[:, 0], variance[:, 1], out=np.full(len(raw), np.nan), where=variance[:, 1] > 0)
        return statistics, spreads, mean

    def learn(self, variance: Floats) -> None:
        """Learn v of a tick."""
        fade = 1.0 - 1.0 / LONGEST_LIFE
        known = np.isfinite(variance)
        self._variance = np.where(known, self._variance * fade + np.nan_to_num(variance), self._variance)
        self._weight = np.where(known, self._weight * fade + 1.0, self._weight)

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state as plain data."""
        return {"variance": self._variance.copy(), "variance_weight": self._weight.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `snapshot`. Raises `ValueError` that names the part that does not fit."""
        self._variance = fitting(state, "variance", self._variance)
        self._weight = fitting(state, "variance_weight", self._weight)
