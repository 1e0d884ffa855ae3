"""Ward's hierarchical clusters of the members of a pool, and their p-values (S3, sections IV.D and V.E)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.special import ndtr, ndtri

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SCALES: Final[NDArray[np.float64]] = 0.5 + 0.1 * np.arange(10.0)
"""The sizes of bootstrap samples as shares of the data: 0.5, 0.6 ... 1.4."""

NEVER: Final = 0.001
"""A share of replicates of at most this, or of at least 1 less this, is uninformative: there are too few replicates."""

FEWEST: Final = 3
"""The least number of informative scales for fitting a curve."""

BITS: Final = 64

DISTANCES: Final = 2**21
"""The most distances between objects that are kept at once, over all replicates, to bound memory ..."""
PAIRS: Final = 8192
"""... and the most differences of pairs."""


def ward(data: Floats) -> Floats:
    """Return the clusters of the columns of `data`, shape (rows, n), as scipy's `linkage` does: shape (n - 1, 4).

    As in pvclust, the data are the matrix of distances itself. Members are its columns, and are similar if they have
    similar distances from all others. Distances of columns are Euclidean, and clusters merge by Ward's criterion.

    At the time of the paper, pvclust applied Ward's update (Lance and Williams), which is for squared distances, to
    plain ones: R's `hclust` calls this `ward.D` today. Heights are in that measure. scipy squares its input, so its
    input are roots.

    Reference: Murtagh, Legendre (2014), "Ward's hierarchical agglomerative clustering method: which algorithms
    implement Ward's criterion?", Journal of Classification.

    Raises:
        ValueError: fewer than two columns, or values that are not finite.

    Example:
        >>> ward(np.array([[0.0, 1.0, 9.0]]))[:, 2].round(6).tolist()
        [1.0, 11.0]

    """
    if data.ndim != 2 or data.shape[1] < 2 or not np.isfinite(data).all():
        raise ValueError(f"expected finite data of two objects and more in columns, got the shape {data.shape}")
    merges: Floats = linkage(np.sqrt(_squares(data, np.ones((1, len(data))))[0]) ** 0.5, "ward")
    merges[:, 2] **= 2.0
    return merges


class Support(NamedTuple):
    """The support of clusters by the data; arrays of one length.

    Attributes:
        au: approximately unbiased p-value, 0 to 1.
        bp: bootstrap probability, 0 to 1.
        v: the signed distance to the boundary of the region where the cluster is found ...
        c: ... and the curvature of that boundary; 0 without a fitted curve.
        au_error: the standard error of `au`.

    """

    au: Floats
    bp: Floats
    v: Floats
    c: Floats
    au_error: Floats


def support(shares: Floats, scales: Floats, replicates: int) -> Support:
    """Fit the curve of multiscale bootstrap, as pvclust's `msfit` does (version 2.2-0).

    The size of a sample as a share of the data is r = sigma^-2, and z(r) = -Phi^-1(share) is the normal quantile. The
    fit is by least squares, weighted by the inverse variance of z:

        z(r) = v sqrt(r) + c / sqrt(r);  AU = 1 - Phi(v - c), BP = 1 - Phi(v + c)

    Scales at which the share is about 0 or 1 (`NEVER`) are left out. If fewer than `FEWEST` remain, the p-values are 0
    for a mean share below 1/2, otherwise 1.

    Parameters:
        shares: the share of replicates with each cluster, shape (clusters, scales).
        scales: r, shape (scales,).
        replicates: the number of replicates per scale.

    References: Shimodaira (2004), "Approximately unbiased tests of regions using multistep-multiscale bootstrap
    resampling", Annals of Statistics; Suzuki, Shimodaira (2006), Bioinformatics 22:1540.

    Example:
        >>> shares = np.array([[0.6, 0.66, 0.72, 0.78, 0.84, 0.88, 0.91, 0.94, 0.96, 0.975]])
        >>> support(shares, SCALES, 1000).au.round(4).tolist()
        [0.9993]

    """
    usable = (shares > NEVER) & (shares < 1.0 - NEVER)
    fitted = usable.sum(axis=1) >= FEWEST
    inner = np.where(usable, shares, 0.5)
    z = -ndtri(inner)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    weights = np.where(usable, density**2 * replicates / (inner * (1.0 - inner)), 0.0)
    # Normal equations: sqrt(r) * 1 / sqrt(r) = 1.
    a, b, d = (weights * scales).sum(axis=1), weights.sum(axis=1), (weights / scales).sum(axis=1)
    x, y = (weights * z * np.sqrt(scales)).sum(axis=1), (weights * z / np.sqrt(scales)).sum(axis=1)
    determinant = np.where(fitted, a * d - b * b, 1.0)
    v = np.where(fitted, (d * x - b * y) / determinant, 0.0)
    c = np.where(fitted, (a * y - b * x) / determinant, 0.0)
    extreme = (shares.mean(axis=1) >= 0.5).astype(np.float64)
    spread = np.sqrt(np.where(fitted, (a + 2.0 * b + d) / determinant, 0.0))
    return Support(
        au=np.where(fitted, ndtr(c - v), extreme),
        bp=np.where(fitted, ndtr(-c - v), extreme),
        v=v,
        c=c,
        au_error=np.exp(-0.5 * (v - c) ** 2) / np.sqrt(2.0 * np.pi) * spread,
    )


def au_p_values(data: Floats, merges: Floats, *, replicates: int = 1000, seed: int = 0) -> Floats:
    """Return the approximately unbiased p-values of the merged clusters, in percent, 0 to 100: shape (n - 1,).

    They are fitted by `support` to the shares of bootstrap samples of the rows, of ten sizes, that have a cluster of
    the same columns. The same seed gives the same values. O(scales x replicates x n^2 (rows + c)).

    Parameters:
        data: the clustered data, shape (rows, n).
        merges: the result of `ward` for them.
        replicates: the number of bootstrap samples per scale.
        seed: the seed of the sampling.

    """
    shares, scales = cluster_shares(data, merges, replicates=replicates, seed=seed)
    return 100.0 * support(shares, scales, replicates).au


def cluster_shares(data: Floats, merges: Floats, *, replicates: int, seed: int) -> tuple[Floats, Floats]:
    """Return the share of bootstrap samples with each cluster, shape (n - 1, scales), and the scales.

    Samples have whole numbers of rows, rounded down. Scales with the same number of rows are one.
    """
    rows, count = data.shape
    if replicates < 1 or merges.shape != (count - 1, 4):
        raise ValueError(f"expected a replicate, and merges of {count} objects, got {replicates=}, {merges.shape}")
    sizes = np.unique(np.floor(rows * SCALES).astype(np.intp))
    sizes = sizes[sizes > 0]
    chance = np.random.default_rng(seed)
    # A cluster is the sum of its leaves' keys, modulo 2^64: one bit each, or random ones for too many leaves.
    keys: NDArray[np.uint64] = chance.integers(0, 2**64, size=(count,), dtype=np.uint64)
    if count <= BITS:
        keys = np.array([1 << leaf for leaf in range(count)], np.uint64)
    wanted = _clusters(merges[None], keys)[0]
    order = np.argsort(wanted)
    found = np.zeros((count - 1, len(sizes)))
    step = max(2 * DISTANCES // (count * (count - 1)), 1)
    for scale, size in enumerate(sizes):
        for begin in range(0, replicates, step):
            part = min(step, replicates - begin)
            weights = chance.multinomial(size, np.full(rows, 1.0 / rows), size=part).astype(np.float64)
            roots = np.sqrt(np.sqrt(_squares(data, weights)))
            trees = _clusters(np.stack([linkage(each, "ward") for each in roots]), keys).ravel()
            at = np.minimum(np.searchsorted(wanted[order], trees), count - 2)
            same = order[at[wanted[order][at] == trees]]
            found[:, scale] += np.bincount(same, minlength=count - 1)
    return found / replicates, sizes / rows


def _squares(data: Floats, weights: Floats) -> Floats:
    """Return squared Euclidean distances between columns with weighted rows: shape (len(weights), n (n - 1) / 2)."""
    first, second = np.triu_indices(data.shape[1], 1)
    squares = np.empty((len(weights), len(first)))
    for begin in range(0, len(first), PAIRS):
        part = slice(begin, begin + PAIRS)
        squares[:, part] = weights @ (data[:, first[part]] - data[:, second[part]]) ** 2
    return squares


def _clusters(merges: Floats, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the key of each cluster of many trees, shape (trees, n - 1)."""
    count = len(keys)
    found = np.empty((len(merges), 2 * count - 1), np.uint64)
    found[:, :count] = keys
    pairs = merges[:, :, :2].astype(np.intp)
    trees = np.arange(len(merges))
    for at in range(count - 1):
        found[:, count + at] = found[trees, pairs[:, at, 0]] + found[trees, pairs[:, at, 1]]
    return found[:, count:]
