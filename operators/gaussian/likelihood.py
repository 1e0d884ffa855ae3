"""The raw scores of features: S0's log-likelihood, and one that does not depend on the unit of a feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from laggard.operators.features import BOTH, by_end
from laggard.operators.gaussian.episodes import KNOWN
from laggard.operators.gaussian.moments import Moments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from laggard.operators.features import Directions

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

Likelihood = Literal["scale_free", "paper"]

POOLED = 0.3
"""The share of the variance within rows that remains in the prior of a row with many values of its own."""

PSEUDO = 2.0
"""The number of a row's own values that the spread of all rows counts for; more than 1."""

TRUSTED = 30.0
"""The most degrees of freedom. Counters have heavier tails than a Gaussian. The limit also makes a score mean the same
for a model of an hour and one of a week."""


NOTHING = 1e-280
"""A variance of at most this is 0: its reciprocal would overflow."""

FARTHEST = 1e150
"""The largest deviation, in standard deviations: the square of a larger one would overflow."""

_NONE = np.zeros(0, np.intp)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of features, and which features have the same one.

    Attributes:
        each: the weight of each feature, shape (features, 1).
        distinct: the different weights, shape (groups, 1).
        groups: the places of the features with each of these.
        least: the least variance of each feature, shape (features,).
        falling: the places of the features that get worse by falling.

    """

    each: Matrix
    distinct: Matrix
    groups: tuple[NDArray[np.intp] | slice, ...]
    least: Vector
    falling: Sequence[int] = ()

    @classmethod
    def of(
        cls,
        features: Sequence[str],
        weights: Mapping[str, float],
        resolution: Mapping[str, float],
        directions: Directions = BOTH,
    ) -> Weights:
        """Return the weights by the names of features, or by ends of names that begin with `_`; 1 by default.

        The resolution of a feature is that of the longest end of its name; 0 by default.
        """
        ends = {end: weight for end, weight in weights.items() if end.startswith("_")}
        each = np.array([weights.get(name, by_end(name, ends, 1.0)) for name in features]).reshape(-1, 1)
        distinct = np.unique(each).reshape(-1, 1)
        least = np.array([by_end(name, resolution, 0.0) ** 2 for name in features])
        _, falling = directions.one_sided(features)
        if len(distinct) == 1:
            return cls(each, distinct, (slice(None),), least, falling)
        return cls(each, distinct, tuple(np.flatnonzero(each == weight) for weight in distinct), least, falling)


@dataclass(frozen=True, slots=True)
class Pool:
    """All rows together: the baseline of a row without a past of its own.

    Attributes:
        mean: M, the weighted mean of each feature, shape (features,).
        within: U, the weighted mean over all rows of s, where s^2 = S / w: how much a row varies.
        spread: T, the same of |m - M| + s, where m is the mean of a row. It is close to the deviation over all rows and
            ticks, but one row that uses a thousand times as much does not dominate it.

    """

    mean: Vector
    within: Vector
    spread: Vector

    @classmethod
    def of(cls, usual: Moments) -> Pool:
        """Merge the baselines of rows, shape (features, rows)."""
        weight, mean, squares = usual.weight, usual.mean, usual.squares
        if not weight.size:
            return cls(*np.zeros((3, len(weight))))
        # Often all features of a row have the same number of values: then much depends on the row alone.
        count = usual.counts
        even = count is not weight
        counts = np.maximum(count.sum(axis=-1), 1.0)
        # Deviations from the mean of a row keep equal constants exactly equal. With that of the largest weight, no more
        # digits cancel than the number of rows has.
        anchor = mean[:, count.argmax()] if even else mean[np.arange(len(mean)), count.argmax(axis=1)]
        sums = "fr,r->f" if even else "fr,fr->f"
        offset = mean - anchor[:, None]
        shift = np.einsum(sums, offset, count) / counts
        offset -= shift[:, None]
        np.abs(offset, out=offset)
        apart = np.einsum(sums, offset, count)
        own = np.sqrt(squares, out=offset)
        within = np.einsum(sums, own, np.sqrt(count)) / counts
        return cls(anchor + shift, within, apart / counts + within)


@dataclass(frozen=True, slots=True)
class Reference:
    """The baselines in the form that scores a tick; made once for each learned block.

    Matrices have the shape (features, rows).

    Attributes:
        weight, mean, squares: the moments of the baseline.
        center: the row's own mean, or that of all rows before it has one.
        inverse: the reciprocal of the expected spread and of the root of the degrees of freedom; 0 for `silent`.
        weights: the weights of the features.
        power: half of the degrees of freedom plus one, times the weight, for each group of equal weights and each row,
            shape (groups, rows); not valid for the rows `uneven`.
        uneven: the rows whose features differ in their degrees of freedom.
        constant: whether all values so far were the same, or there were none.
        varying: the number of features of each row that are not constant.
        fewest: the least of these numbers.
        silent: the features that had a single value in all rows.
        floor: the least variance of each cell; None for 0.
        seen: whether there are any values.

    """

    weight: Matrix
    mean: Matrix
    squares: Matrix
    center: Matrix
    inverse: Matrix
    weights: Weights
    power: Matrix
    uneven: NDArray[np.intp]
    constant: NDArray[np.bool_]
    varying: NDArray[np.intp]
    fewest: int
    silent: NDArray[np.intp]
    floor: Matrix | None
    seen: bool

    @classmethod
    def of(cls, usual: Moments, weights: Weights, pool: Pool, floor: Matrix | None = None) -> Reference:
        """Prepare the baselines. `floor` is the least variance of each cell, see `floor_of`.

        A value is predicted from w earlier ones with squared deviations S. The prior counts as k = `PSEUDO` values and
        expects t^2 = (T^2 + w p U^2) / (1 + w). Here p is `POOLED`, T is the spread of the pool, and U is that within
        rows. So the other rows show how large the values of a new row may be, and only how much those of a grown one
        may vary. The prediction is a Student's t around the mean, with w - 1 + k degrees of freedom and the scale

            s'^2 = (r^2 + (S + k t^2) / (w - 1 + k)) * (1 + 1 / (w + k))

        where r^2 is the floor. So a constant has a spread, too, and a new row is compared with all others. At most
        n = min(w - 1 + k, `TRUSTED`) degrees of freedom are used.
        """
        weight, mean, squares = usual.weight, usual.mean, usual.squares
        features = len(weight)
        count = usual.counts
        even = count is not weight
        spread, within = PSEUDO * pool.spread**2, PSEUDO * POOLED * pool.within**2
        silent = _NONE
        if spread.min(initial=1.0) <= NOTHING:
            silent = np.flatnonzero((spread <= NOTHING) & (weights.least <= 0.0))
            again = Pool.of(Moments(weight[silent], mean[silent], squares[silent]))  # perhaps no longer
            spread[silent], within[silent] = PSEUDO * again.spread**2, PSEUDO * POOLED * again.within**2
            silent = silent[spread[silent] <= NOTHING]
            spread[silent] = 1.0
        # 1 / (n s'^2) = f / (S + k t^2) with f = (w - 1 + k) (w + k) / ((w + k + 1) n)
        trusted = _trusted(count)
        factor = (count + (PSEUDO - 1.0)) * (count + PSEUDO)
        factor /= (count + (PSEUDO + 1.0)) * trusted
        share = 1.0 / (1.0 + count)
        # k t^2 = k (T^2 a + U^2 (1 - a)) with a = 1 / (1 + w)
        inverse = (spread - within)[:, None] * share
        inverse += within[:, None]
        inverse += squares
        if floor is not None:
            inverse += floor * (count + (PSEUDO - 1.0))
        np.divide(factor, inverse, out=inverse)
        np.sqrt(inverse, out=inverse)
        if silent.size:
            inverse[silent] = 0.0
        constant = squares <= 0.0
        varying = features - _count(constant) if constant.any() else np.full(constant.shape[1], features)
        center = mean if count.all() else np.where(weight > 0.0, mean, pool.mean[:, None])
        uneven = _NONE
        if not even:
            trusted = _trusted(weight.max(axis=0, initial=0.0))
            uneven = np.flatnonzero(_trusted(weight.min(axis=0, initial=np.inf)) != trusted)
        power = 0.5 * (trusted + 1.0) * weights.distinct
        return cls(
            weight,
            mean,
            squares,
            center,
            inverse,
            weights,
            power,
            uneven,
            constant,
            varying,
            int(varying.min(initial=features)),
            silent,
            floor,
            bool(count.any()),
        )


def floor_of(weights: Weights, recurring: NDArray[np.float32] | None, rows: int) -> Matrix | None:
    """Return the least variance of each cell, shape (features, rows); None for 0.

    It is that of a negligible difference. And a height above the mean that has occurred twice before (`recurring`, of
    the same shape) scores like about `KNOWN` standard deviations.
    """
    again = None if recurring is None else np.maximum(recurring, np.float32(0.0)).astype(np.float64)
    if again is None or not again.any():
        return np.repeat(weights.least[:, None], rows, axis=1) if weights.least.any() else None
    again /= KNOWN
    again *= again
    return np.maximum(again, weights.least[:, None], out=again)


def _count(these: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Count the true values of each column. Five times as fast as `count_nonzero`."""
    counts: NDArray[np.intp] = np.add.reduce(these.view(np.uint8), axis=0, dtype=np.uint16).astype(np.intp)
    return counts


def _trusted(weight: Matrix) -> Matrix:
    """Return the number of degrees of freedom that are used."""
    return np.minimum(weight + (PSEUDO - 1.0), TRUSTED)


def paper(values: Matrix, reference: Reference) -> Matrix:
    """Return minus the Gaussian log-likelihood of each value (S0, section 3).

    As in S0 the window includes the value itself; unlike there, the window ends with it. With w values before it, of
    mean m and squared deviations S, and d = x - m:

        m' = m + d / (w + 1),  s'^2 = (S + d^2 w / (w + 1)) / w
        -log N(x; m', s'^2) = log(2 pi s'^2) / 2 + (x - m')^2 / (2 s'^2)

    NaN for a constant feature and for a missing value: they do not count.
    """
    weight = reference.weight
    deviation = values - reference.mean
    rest = deviation * (weight / (weight + 1.0))
    variance = (reference.squares + deviation * rest) / np.maximum(weight, 1.0)
    valid = (variance > 0.0) & (weight >= 1.0)
    variance[~valid] = 1.0
    surprise = 0.5 * np.log(2.0 * np.pi * variance) + 0.5 * rest * rest / variance
    surprise[~valid] = np.nan
    return surprise


def paper_counted(values: Matrix, reference: Reference) -> NDArray[np.intp]:
    """Return the number of scored features of each row."""
    return _count(~np.isnan(paper(values, reference)))


def paper_rows(values: Matrix, reference: Reference) -> tuple[Vector, NDArray[np.intp]]:
    """Return each row's mean of `paper` over its scored features, and their number."""
    surprise = paper(values, reference)
    counted = _count(~np.isnan(surprise))
    return np.nansum(surprise, axis=0) / np.maximum(counted, 1), counted


def scale_free(values: Matrix, reference: Reference) -> Matrix:
    """Return minus the log-likelihood of each value under the Student's t of `Reference.of`.

    With r = max(x - m, 0), since only more use or more waiting counts, or max(m - x, 0) for a feature that gets worse
    by falling:

        (n + 1) / 2 ln(1 + r^2 / (n s'^2))

    times the weight of the feature. The term of the scale is left out. So it has no unit, is 0 at the baseline, and is
    close to r^2 / (2 s'^2) near it. If no row has ever varied, the only scale is the value itself: r^2 = n s'^2, as
    if it had been the only value before. NaN for a missing value.
    """
    return _logarithm(_rise(values, reference), 0.5 * (_trusted(reference.weight) + 1.0) * reference.weights.each)


def scale_free_counted(values: Matrix, reference: Reference, whole: bool) -> NDArray[np.intp]:
    """Return the number of scored features of each row: neither missing nor constant. `whole`: none is NaN."""
    if not whole:
        still = reference.constant & (values == reference.center)
        return _count(~(still | np.isnan(values)))
    moved = values != reference.center
    moved &= reference.constant
    return reference.varying + _count(moved) if moved.any() else reference.varying


def scale_free_rows(values: Matrix, reference: Reference) -> Vector:
    """Return the largest `scale_free` of each row.

    Among features with the same weight and degrees of freedom the largest rise has the largest score. So only its
    logarithm is computed.
    """
    rise = _rise(values, reference)
    each = np.empty_like(reference.power)
    for index, group in enumerate(reference.weights.groups):
        np.fmax.reduce(rise[group], axis=0, out=each[index])
    _logarithm(each, reference.power)
    worst: Vector = np.fmax.reduce(each, axis=0) if len(each) > 1 else each[0]
    if reference.uneven.size:
        uneven = reference.uneven
        power = 0.5 * (_trusted(reference.weight[:, uneven]) + 1.0) * reference.weights.each
        worst[uneven] = np.fmax.reduce(_logarithm(rise[:, uneven], power), axis=0)
    return worst


def risen(values: Matrix, reference: Reference) -> Matrix:
    """Return r of `scale_free`: how much worse than the baseline each value is, in its unit; NaN if unknown."""
    # max(x, m) - m: a maximum with the number 0 takes three times as long.
    rise = np.maximum(values, reference.center)
    rise -= reference.center
    if falling := reference.weights.falling:
        rise[falling] = np.maximum(reference.center[falling] - values[falling], 0.0)
    return rise


def _rise(values: Matrix, reference: Reference) -> Matrix:
    """Return r / sqrt(n s'^2) of `scale_free`."""
    rise = risen(values, reference)
    first = rise[reference.silent] if reference.silent.size else None
    rise *= reference.inverse
    if first is not None:
        rise[reference.silent] = np.sign(first)
    return rise


def _logarithm(rise: Matrix, power: Matrix) -> Matrix:
    """Replace the rise by the likelihood, power * ln(1 + rise^2), in place."""
    np.minimum(rise, FARTHEST, out=rise)
    rise *= rise
    rise += 1.0
    np.log(rise, out=rise)
    rise *= power
    return rise
